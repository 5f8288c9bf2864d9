//! Fixed intervals of elapsed time: `@every 15m`.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use jiff::fmt::friendly::{Designator, Spacing, SpanPrinter};

use crate::cron::{BLANKS, CronError, CronErrorCode};
use crate::time::{Timestamp, format_duration, parse_duration};
use crate::{cron, hash};

/// The longest interval; beyond a year people mean a date.
const LONGEST_SECONDS: u64 = 366 * 86_400;

/// Slots at a fixed distance in elapsed time, counted from the Unix epoch.
///
/// Counting from a fixed origin rather than from a start or a last run means that a
/// restart, a second leader and a re-created schedule all name the same slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Every {
    interval: i64,
    /// Seconds from the epoch to the first slot, less than the interval.
    phase: i64,
    /// The phase was written `H` and comes from the schedule's name.
    spread: bool,
}

impl Every {
    /// Reads `@every DURATION`, `@every DURATION/OFFSET` or `@every DURATION/H`.
    pub(crate) fn parse(text: &str, name: Option<&str>) -> Result<Every, CronError> {
        let after = text.find("@every").map_or(0, |at| at + "@every".len());
        let body = text[after..].trim_matches(BLANKS);
        let (interval_text, offset_text) = match body.split_once('/') {
            Some((interval, offset)) => {
                (interval.trim_matches(BLANKS), Some(offset.trim_matches(BLANKS)))
            }
            None => (body, None),
        };
        // The interval is the first thing after `@every`, the offset is the last.
        let interval_at = text[after..].find(interval_text).map_or(after, |at| after + at);
        let offset_at = offset_text.and_then(|offset| text.rfind(offset)).unwrap_or(after);
        let refuse = |start: usize, part: &str, message: String| {
            CronError::new(CronErrorCode::BadInterval, text, start..start + part.len(), message)
        };
        let seconds = |start: usize, part: &str| match parse_duration(part) {
            Ok(length) if length.subsec_nanos() == 0 => Ok(length.as_secs()),
            Ok(_) => {
                let message = format!("`{}` is not a whole number of seconds", cron::echo(part));
                Err(refuse(start, part, message))
            }
            Err(message) => Err(refuse(start, part, message)),
        };
        if interval_text.is_empty() {
            let message = "`@every` needs a duration after it".to_owned();
            return Err(refuse(0, text, message).with_hint("for example, `@every 15m`"));
        }
        let interval = seconds(interval_at, interval_text)?;
        if !(1..=LONGEST_SECONDS).contains(&interval) {
            let shown = cron::echo(interval_text);
            let message = format!("the interval must be between 1s and 366d, got {shown}");
            let hint = (interval > LONGEST_SECONDS).then(|| {
                "for a longer interval, use a cron expression such as `@yearly`".to_owned()
            });
            return Err(refuse(interval_at, interval_text, message).with_hint(hint));
        }
        let (phase, spread) = match (offset_text, name) {
            (None, _) => (0, false),
            (Some("H"), Some(name)) => (hash::mix(hash::seed(name)) % interval, true),
            (Some("H"), None) => {
                let message = "`H` is derived from the schedule name, but no name was given";
                let span = offset_at..offset_at + 1;
                return Err(CronError::new(CronErrorCode::NameNeeded, text, span, message)
                    .with_hint(cron::NAME_NEEDED));
            }
            (Some(offset_text), _) => (seconds(offset_at, offset_text)?, false),
        };
        if phase >= interval {
            let message =
                format!("the offset must be shorter than the interval of {interval} seconds");
            return Err(refuse(offset_at, offset_text.unwrap_or(body), message));
        }
        // Both are at most a year's seconds.
        Ok(Every { interval: interval as i64, phase: phase as i64, spread })
    }

    /// The distance between two slots, in seconds.
    pub fn interval_seconds(&self) -> i64 {
        self.interval
    }

    /// The interval in words.
    pub(crate) fn describe(&self) -> String {
        match self.phase {
            0 => format!("every {}", in_words(self.interval)),
            phase => {
                let origin = Timestamp::from_seconds(phase);
                format!("every {}, counted from {origin}", in_words(self.interval))
            }
        }
    }

    /// The first slot at or after `at`, in Unix seconds.
    pub(crate) fn next(&self, at: i64) -> i64 {
        at + (self.phase - at).rem_euclid(self.interval)
    }

    /// The last slot at or before `at`.
    pub(crate) fn previous(&self, at: i64) -> i64 {
        at - (at - self.phase).rem_euclid(self.interval)
    }
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@every {}", length(self.interval))?;
        match (self.spread, self.phase) {
            (true, _) => f.write_str("/H"),
            (false, 0) => Ok(()),
            (false, phase) => write!(f, "/{}", length(phase)),
        }
    }
}

fn in_words(seconds: i64) -> String {
    let (days, rest) = (seconds / 86_400, SignedDuration::from_secs(seconds % 86_400));
    let printer = SpanPrinter::new()
        .designator(Designator::Verbose)
        .spacing(Spacing::BetweenUnitsAndDesignators);
    let days = match days {
        0 => None,
        1 => Some("1 day".to_owned()),
        days => Some(format!("{days} days")),
    };
    let rest = (!rest.is_zero()).then(|| printer.duration_to_string(&rest));
    days.into_iter().chain(rest).collect::<Vec<_>>().join(" ")
}

fn length(seconds: i64) -> String {
    format_duration(Duration::from_secs(seconds.unsigned_abs()))
}
