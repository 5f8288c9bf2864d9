//! From text to [`Cron`]. One pass, no allocation unless there is an error to explain.

use std::ops::Range;

use super::dates::EVERY_WEEKDAY;
use super::error::{CronError, CronErrorCode as Code};
use super::field::{Field, Values};
use super::unit::{FIRST_YEAR, Unit};
use super::{BLANKS, Cron, MAX_EXPRESSION_BYTES, NICKNAMES, echo, hints};
use crate::hash;

/// As many fields as an expression has at most, and one more to notice what is too much.
const FIELDS_SEEN: usize = 8;

pub(super) fn parse(text: &str, name: Option<&str>) -> Result<Cron, CronError> {
    if text.len() > MAX_EXPRESSION_BYTES {
        let message = format!(
            "the expression is too long: {} bytes, maximum {MAX_EXPRESSION_BYTES}",
            text.len()
        );
        return Err(CronError::new(Code::TooLong, text, 0..text.len(), message));
    }
    let mut spans: [Range<usize>; FIELDS_SEEN] = Default::default();
    let count = split(text.as_bytes(), &mut spans);
    let fields = &spans[..count];
    if count > 0 && text.as_bytes()[fields[0].start] == b'@' {
        return nickname(text);
    }
    let cron = match count {
        5 => assemble(text, name, &Unit::ALL[1..6], fields),
        6 => assemble(text, name, &Unit::ALL[..6], fields).map_err(six_fields_with_a_year),
        7 => assemble(text, name, &Unit::ALL, fields),
        _ => Err(field_count(text, fields)),
    };
    cron.map_err(|error| {
        zone_inside(text, fields).or_else(|| comment(text, fields)).unwrap_or(error)
    })
}

fn nickname(text: &str) -> Result<Cron, CronError> {
    let trimmed = text.trim_matches(BLANKS);
    if let Some((_, expression)) = NICKNAMES.iter().find(|(nickname, _)| *nickname == trimmed) {
        return parse(expression, None);
    }
    let start = text.find('@').unwrap_or(0);
    let span = start..start + trimmed.len();
    let message = format!("unknown nickname `{}`", echo(trimmed));
    Err(CronError::new(Code::UnknownNickname, text, span, message)
        .with_hint(hints::nickname(trimmed)))
}

/// Finds the fields, which blanks or tabs separate, and says how many there are.
fn split(bytes: &[u8], spans: &mut [Range<usize>; FIELDS_SEEN]) -> usize {
    let is_blank = |at: usize| matches!(bytes[at], b' ' | b'\t');
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() && count < FIELDS_SEEN {
        let start = at;
        while at < bytes.len() && !is_blank(at) {
            at += 1;
        }
        if start < at {
            spans[count] = start..at;
            count += 1;
        }
        at += 1;
    }
    count
}

fn assemble(
    text: &str,
    name: Option<&str>,
    units: &[Unit],
    spans: &[Range<usize>],
) -> Result<Cron, CronError> {
    let mut cron = Cron::empty(spans.len() as u8);
    let seed = name.map(hash::seed);
    let mut days = Range::default();
    // In the order of writing, so that the first mistake is the one that is reported.
    for (unit, span) in units.iter().zip(spans) {
        let field = Field { text, unit: *unit, span: span.clone(), seed };
        match unit {
            Unit::DayOfMonth => {
                field.days_of_month(&mut cron)?;
                days = field.span;
            }
            Unit::DayOfWeek => {
                field.days_of_week(&mut cron)?;
                field.combine_with(&Field { span: days.clone(), ..field }, &mut cron)?;
            }
            _ => cron.set(*unit, field.values()?),
        }
    }
    Ok(cron)
}

impl Cron {
    /// Takes over what a field says.
    pub(super) fn set(&mut self, unit: Unit, values: Values) {
        self.set_bits(unit, values.bits[0], values.is_wild());
        match self.spread.get_mut(unit as usize) {
            Some(slot) => *slot = values.spread,
            None => self.dates.years = values.bits,
        }
    }

    /// Takes over the values of any field but the year.
    pub(super) fn set_bits(&mut self, unit: Unit, bits: u64, wild: bool) {
        match unit {
            Unit::Second => self.times.seconds = bits,
            Unit::Minute => (self.times.minutes, self.times.wild_minute) = (bits, wild),
            Unit::Hour => (self.times.hours, self.times.wild_hour) = (bits, wild),
            Unit::DayOfMonth => self.dates.days = bits as u32,
            Unit::Month => self.dates.months = bits,
            // 7 is Sunday too.
            Unit::DayOfWeek => self.dates.weekdays = (bits | bits >> 7) as u32 & EVERY_WEEKDAY,
            Unit::Year => {}
        }
    }
}

fn field_count(text: &str, fields: &[Range<usize>]) -> CronError {
    let layout = "5 fields: minute hour day-of-month month day-of-week; \
                  6 fields: seconds first; 7 fields: seconds first, year last";
    match fields {
        [] => CronError::new(Code::Empty, text, 0..0, "the expression is empty")
            .with_hint("use five fields, minute to day-of-week, such as `0 9 * * MON-FRI`"),
        [.., extra] if fields.len() == FIELDS_SEEN => {
            let extra = extra.start..text.trim_end_matches(BLANKS).len();
            CronError::new(Code::FieldCount, text, extra, "too many fields, maximum 7")
                .with_hint(layout)
        }
        [first, ..] => {
            let count = fields.len();
            let all = first.start..text.trim_end_matches(BLANKS).len();
            let completed = format!("{}{}", &text[all.clone()], " *".repeat(5 - count));
            let message = format!("expected 5, 6 or 7 fields, got {count}");
            let hint = match Cron::read(&completed, None) {
                Ok(_) => format!("{layout}; try `{}`", echo(&completed)),
                Err(_) => layout.to_owned(),
            };
            CronError::new(Code::FieldCount, text, all, message).with_hint(hint)
        }
    }
}

/// `TZ=…` in front, or a zone's name at the end: said as such rather than as a strange field.
fn zone_inside(text: &str, fields: &[Range<usize>]) -> Option<CronError> {
    let is_prefix = |field: &str| field.starts_with("TZ=") || field.starts_with("CRON_TZ=");
    let is_word = |part: &str| part.starts_with(|first: char| first.is_ascii_alphabetic());
    let is_zone = |field: &str| {
        field.split_once('/').is_some_and(|(area, city)| is_word(area) && is_word(city))
    };
    let prefixed = fields.first().filter(|span| is_prefix(&text[(*span).clone()]));
    let trailing = fields.iter().skip(5).next_back().filter(|span| is_zone(&text[(*span).clone()]));
    let span = prefixed.or(trailing)?.clone();
    let field = &text[span.clone()];
    let zone = echo(field.split_once('=').map_or(field, |(_, zone)| zone));
    let error = CronError::new(
        Code::ZoneInside,
        text,
        span,
        "a time zone is not allowed in the expression",
    );
    Some(error.with_hint(format!(
        "set the time zone separately: `--tz {zone}`, or `tz = \"{zone}\"` in a schedule"
    )))
}

/// `# …` after the expression, as in a crontab.
fn comment(text: &str, fields: &[Range<usize>]) -> Option<CronError> {
    let start = fields.iter().skip(5).find(|span| text.as_bytes()[span.start] == b'#')?.start;
    let span = start..text.trim_end_matches(BLANKS).len();
    Some(CronError::new(Code::Unexpected, text, span, "a comment is not allowed in the expression"))
}

/// Other systems put a year last where six fields here begin with seconds.
fn six_fields_with_a_year(error: CronError) -> CronError {
    let (text, span) = (error.text(), error.span());
    let is_year = text[span.clone()].parse().is_ok_and(|value: u32| value >= FIRST_YEAR);
    if error.field() != Some(Unit::DayOfWeek) || !is_year {
        return error;
    }
    let seven = format!("0 {}", text.trim_matches(BLANKS));
    let hint = match Cron::read(&seven, None) {
        Ok(_) => format!("to set a year, use seven fields: `{}`", echo(&seven)),
        Err(_) => "to set a year, use seven fields: seconds first, year last".to_owned(),
    };
    let message = "an expression with six fields starts with seconds and has no year";
    CronError::new(Code::FieldCount, text, span, message).with_hint(hint)
}
