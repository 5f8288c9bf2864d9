//! The all-day events of an iCalendar file, as dates. What means more than that is refused: half of a
//! rule would exclude the wrong days.

use super::CalendarError;
use crate::civil::Date;

/// Days of one event: a longer one is a mistake.
const EVENT_DAYS_MAX: i64 = 400;

/// One event as far as it was read.
#[derive(Default)]
struct Event {
    line: usize,
    summary: String,
    start: Option<i64>,
    end: Option<i64>,
    is_yearly: bool,
}

/// The dates of all events, in the order of the file.
pub(super) fn dates(text: &str) -> Result<Vec<String>, CalendarError> {
    let mut dates = Vec::new();
    let mut event: Option<Event> = None;
    let mut is_calendar = false;
    for (line, content) in unfolded(text) {
        let (property, value) = content.split_once(':').unwrap_or((&content, ""));
        let name = property.split(';').next().unwrap_or_default().to_ascii_uppercase();
        let wrong = |message: String| CalendarError::new(format!("line {line}"), message);
        match (name.as_str(), &mut event) {
            ("BEGIN", _) if value.eq_ignore_ascii_case("VCALENDAR") => is_calendar = true,
            ("BEGIN", _) if value.eq_ignore_ascii_case("VEVENT") => {
                event = Some(Event { line, ..Event::default() });
            }
            ("END", event) if value.eq_ignore_ascii_case("VEVENT") => {
                if let Some(event) = event.take() {
                    dates.extend(event.dates()?);
                }
            }
            ("SUMMARY", Some(event)) => event.summary = value.to_owned(),
            ("DTSTART", Some(event)) => event.start = Some(day(property, value).map_err(wrong)?),
            ("DTEND", Some(event)) => event.end = Some(day(property, value).map_err(wrong)?),
            ("RRULE", Some(event)) => {
                let is_yearly = |part: &str| {
                    part.eq_ignore_ascii_case("FREQ=YEARLY")
                        || part.eq_ignore_ascii_case("INTERVAL=1")
                };
                if !value.split(';').all(is_yearly) {
                    return Err(wrong(format!(
                        "unsupported RRULE `{}`; only FREQ=YEARLY is supported, list the dates \
                         instead",
                        crate::cron::echo(value)
                    )));
                }
                event.is_yearly = true;
            }
            ("RDATE" | "EXDATE" | "EXRULE" | "DURATION" | "RECURRENCE-ID", Some(_)) => {
                return Err(wrong(format!("{name} is not supported; list the dates instead")));
            }
            _ => {}
        }
    }
    match (is_calendar, event) {
        (false, _) => {
            let message = "missing BEGIN:VCALENDAR; the file must be an iCalendar file";
            Err(CalendarError::new("line 1", message))
        }
        (true, Some(event)) => {
            let message = "missing END:VEVENT; the file is truncated";
            Err(CalendarError::new(format!("line {}", event.line), message))
        }
        (true, None) => Ok(dates),
    }
}

/// Lines with their numbers; one that goes on begins with a space.
fn unfolded(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        match (line.strip_prefix([' ', '\t']), lines.last_mut()) {
            (Some(rest), Some((_, last))) => last.push_str(rest),
            _ => lines.push((index + 1, line.to_owned())),
        }
    }
    lines
}

/// A date without a time.
fn day(property: &str, value: &str) -> Result<i64, String> {
    let shown = crate::cron::echo(value);
    let value = value.trim();
    if value.len() != 8 || !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "unsupported {} `{shown}`; only all-day events (VALUE=DATE) are supported",
            property.split(';').next().unwrap_or_default()
        ));
    }
    let (year, month, day) = (&value[..4], &value[4..6], &value[6..]);
    super::date(&format!("{year}-{month}-{day}"))
}

impl Event {
    fn dates(self) -> Result<Vec<String>, CalendarError> {
        let wrong = |message: String| CalendarError::new(format!("line {}", self.line), message);
        let what = crate::cron::echo(&self.summary);
        let Some(first) = self.start else {
            return Err(wrong(format!("event `{what}` has no DTSTART")));
        };
        // The end of an event does not belong to it.
        let last = self.end.map_or(first, |end| (end - 1).max(first));
        if last - first >= EVENT_DAYS_MAX {
            let days = last - first + 1;
            return Err(wrong(format!(
                "event `{what}` is too long: {days} days, maximum {EVENT_DAYS_MAX}"
            )));
        }
        let show = |day: i64| {
            let Date { year, month, day } = Date::from_day(day);
            format!("{year:04}-{month:02}-{day:02}")
        };
        if self.is_yearly {
            let of_year = |day: i64| {
                let Date { month, day, .. } = Date::from_day(day);
                format!("{month:02}-{day:02}")
            };
            return Ok((first..=last).map(of_year).collect());
        }
        Ok(vec![match first == last {
            true => show(first),
            false => format!("{}..{}", show(first), show(last)),
        }])
    }
}
