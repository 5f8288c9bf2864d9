//! From text to [`Cron`]. One pass, no allocation unless there is an error to explain.

use std::ops::Range;

use super::dates::EVERY_WEEKDAY;
use super::error::{CronError, CronErrorCode as Code};
use super::field::{Field, Values};
use super::unit::{FIRST_YEAR, Unit};
use super::{Cron, MAX_EXPRESSION_BYTES, NICKNAMES, echo, hints};
use crate::hash;

/// As many fields as an expression has at most, and one more to notice what is too much.
const FIELDS_SEEN: usize = 8;

pub(super) fn parse(text: &str, name: Option<&str>) -> Result<Cron, CronError> {
    if text.len() > MAX_EXPRESSION_BYTES {
        let message = format!(
            "an expression has at most {MAX_EXPRESSION_BYTES} bytes, this one has {}",
            text.len()
        );
        return Err(CronError::new(Code::TooLong, text, 0..text.len(), message));
    }
    let trimmed = text.trim_matches([' ', '\t']);
    if trimmed.starts_with('@') {
        return nickname(text, trimmed);
    }
    let mut spans: [Range<usize>; FIELDS_SEEN] = Default::default();
    let count = split(text, &mut spans);
    let fields = &spans[..count];
    if let Some(error) = zone_inside(text, fields) {
        return Err(error);
    }
    let units = match count {
        5 => &Unit::ALL[1..6],
        6 => &Unit::ALL[..6],
        7 => &Unit::ALL[..],
        _ => return Err(field_count(text, fields)),
    };
    let seed = name.map(hash::seed);
    let field = |unit: Unit| {
        let index = units.iter().position(|known| *known == unit)?;
        Some(Field { text, unit, span: fields[index].clone(), seed })
    };
    assemble(count, field)
}

fn nickname(text: &str, trimmed: &str) -> Result<Cron, CronError> {
    if let Some((_, expression)) = NICKNAMES.iter().find(|(nickname, _)| *nickname == trimmed) {
        return parse(expression, None);
    }
    let start = text.len() - text.trim_start_matches([' ', '\t']).len();
    let error = CronError::new(
        Code::UnknownNickname,
        text,
        start..start + trimmed.len(),
        "this nickname does not exist",
    );
    Err(error.with_hint(hints::nickname(trimmed)))
}

/// Finds the fields, which blanks or tabs separate, and says how many there are.
fn split(text: &str, spans: &mut [Range<usize>; FIELDS_SEEN]) -> usize {
    let bytes = text.as_bytes();
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let mut rest = 0;
    for (count, span) in spans.iter_mut().enumerate() {
        let Some(blanks) = bytes[rest..].iter().position(|byte| !blank(byte)) else {
            return count;
        };
        let start = rest + blanks;
        let end =
            bytes[start..].iter().position(blank).map_or(bytes.len(), |length| start + length);
        *span = start..end;
        rest = end;
    }
    FIELDS_SEEN
}

fn assemble<'a>(
    count: usize,
    field: impl Fn(Unit) -> Option<Field<'a>>,
) -> Result<Cron, CronError> {
    let mut cron = Cron::empty(count as u8);
    // In the order of writing, so that the first mistake is the one that is reported.
    for unit in Unit::ALL {
        let Some(field) = field(unit) else { continue };
        match unit {
            Unit::DayOfMonth => field.days_of_month(&mut cron)?,
            Unit::DayOfWeek => field
                .days_of_week(&mut cron)
                .map_err(|error| six_fields_with_a_year(count, error))?,
            _ => cron.set(unit, field.values()?),
        }
    }
    if let (Some(dom), Some(dow)) = (field(Unit::DayOfMonth), field(Unit::DayOfWeek)) {
        dow.combine_with(&dom, &mut cron)?;
    }
    Ok(cron)
}

impl Cron {
    /// Takes over the plain values of a field.
    pub(super) fn set(&mut self, unit: Unit, values: Values) {
        let (bits, wild) = (values.bits[0], values.is_wild());
        match unit {
            Unit::Second => self.times.seconds = bits,
            Unit::Minute => (self.times.minutes, self.times.wild_minute) = (bits, wild),
            Unit::Hour => (self.times.hours, self.times.wild_hour) = (bits, wild),
            Unit::DayOfMonth => self.dates.days = bits as u32,
            Unit::Month => self.dates.months = bits,
            // 7 is Sunday too.
            Unit::DayOfWeek => self.dates.weekdays = (bits | bits >> 7) as u32 & EVERY_WEEKDAY,
            Unit::Year => self.dates.years = values.bits,
        }
        if let Some(slot) = self.spread.get_mut(unit as usize) {
            *slot = values.spread;
        }
    }
}

fn field_count(text: &str, fields: &[Range<usize>]) -> CronError {
    let layout = "five fields are minute hour day-of-month month day-of-week; \
                  six put seconds first, seven a year last";
    match fields {
        [] => CronError::new(Code::Empty, text, 0..0, "the expression is empty")
            .with_hint("five fields, minute to day-of-week: `0 9 * * MON-FRI`"),
        [.., extra] if fields.len() == FIELDS_SEEN => {
            let extra = extra.start..text.trim_end_matches([' ', '\t']).len();
            CronError::new(Code::FieldCount, text, extra, "more than 7 fields").with_hint(layout)
        }
        [first, ..] => {
            let count = fields.len();
            let all = first.start..text.trim_end_matches([' ', '\t']).len();
            let completed = format!("{}{}", echo(&text[all.clone()]), " *".repeat(5 - count));
            let noun = if count == 1 { "field" } else { "fields" };
            let message = format!("{count} {noun}, but 5, 6 or 7 are needed");
            CronError::new(Code::FieldCount, text, all, message)
                .with_hint(format!("{layout}; try `{completed}`"))
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
    let trailing = fields.get(5..)?.last().filter(|span| is_zone(&text[(*span).clone()]));
    let span = prefixed.or(trailing)?.clone();
    let field = &text[span.clone()];
    let zone = echo(field.split_once('=').map_or(field, |(_, zone)| zone));
    let error =
        CronError::new(Code::ZoneInside, text, span, "a zone is not part of the expression");
    Some(error.with_hint(format!(
        "give the zone apart: `--tz {zone}`, or `tz = \"{zone}\"` in a schedule"
    )))
}

/// Other systems put a year last where six fields here begin with seconds.
fn six_fields_with_a_year(count: usize, error: CronError) -> CronError {
    let is_year =
        error.text[error.span.clone()].parse().is_ok_and(|value: u32| value >= FIRST_YEAR);
    if count != 6 || !is_year {
        return error;
    }
    let hint = format!("for a year write seven fields: `0 {}`", echo(error.text.trim()));
    CronError::new(
        Code::FieldCount,
        &error.text,
        error.span.clone(),
        "six fields begin with seconds and have no year",
    )
    .with_hint(hint)
}
