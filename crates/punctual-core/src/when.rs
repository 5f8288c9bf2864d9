//! One rule that names slots: a cron expression, an interval, or a single instant.

use std::fmt;
use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::tz::AmbiguousOffset;

use crate::cron::{self, BLANKS, CronErrorCode};
use crate::spec::{FIRST_SECOND, LAST_SECOND};
use crate::{Cron, CronError, Every, Timestamp, Zone};

/// When a schedule is due. A schedule may have several of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// A cron expression, read on the wall clock of the schedule's zone.
    Cron(Cron),
    /// An interval of elapsed time, the same in every zone.
    Every(Every),
    /// One single slot.
    At(Timestamp),
}

impl When {
    /// Reads a cron expression, a nickname, `@every DURATION` or `@at INSTANT`.
    pub fn parse(text: &str) -> Result<When, CronError> {
        When::read(text, None)
    }

    /// Reads the same, with `H` spread by `name`, the schedule's name.
    pub fn parse_named(text: &str, name: &str) -> Result<When, CronError> {
        When::read(text, Some(name))
    }

    fn read(text: &str, name: Option<&str>) -> Result<When, CronError> {
        if !text.trim_start_matches(BLANKS).starts_with('@') {
            return Cron::read(text, name).map(When::Cron);
        }
        let mut words = text.trim_matches(BLANKS).splitn(2, BLANKS);
        match words.next() {
            Some("@every") => Every::parse(text, name).map(When::Every),
            Some("@at") => {
                let instant = words.next().unwrap_or_default().trim_matches(BLANKS);
                let end = text.trim_end_matches(BLANKS).len();
                When::once(instant).map_err(|message| {
                    let span = end - instant.len()..end;
                    CronError::new(CronErrorCode::BadInstant, text, span, message)
                })
            }
            _ => Cron::read(text, name).map(When::Cron),
        }
    }

    fn once(text: &str) -> Result<When, String> {
        if text.is_empty() {
            return Err("`@at` needs a time after it, such as 2027-03-28T01:00:00Z".to_owned());
        }
        match text.parse::<Timestamp>() {
            Ok(instant) => a_slot(instant, text).map(When::At).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// One slot at an instant (RFC 3339 with an offset), or at a local time of `zone` if that
    /// time exists exactly once there.
    pub fn at(text: &str, zone: &Zone) -> Result<When, AtError> {
        let text = text.trim();
        if let Ok(instant) = text.parse::<Timestamp>() {
            return a_slot(instant, text).map(When::At);
        }
        let Ok(local) = text.parse::<DateTime>() else {
            return Err(AtError::NotATime { text: cron::echo(text) });
        };
        let ambiguous = zone.to_jiff().to_ambiguous_timestamp(local);
        let at = |offset: jiff::tz::Offset| offset.to_timestamp(local).map(Timestamp::from_jiff);
        let (earlier, later) = match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { offset } => {
                let instant =
                    at(offset).map_err(|_| AtError::NotATime { text: cron::echo(text) })?;
                return a_slot(instant, text).map(When::At);
            }
            AmbiguousOffset::Gap { before, after } | AmbiguousOffset::Fold { before, after } => {
                (at(after), at(before))
            }
        };
        let missing = matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. });
        match (earlier, later) {
            (Ok(one), Ok(other)) => Err(AtError::NotOnce {
                text: cron::echo(text),
                zone: zone.clone(),
                times: if missing { "does not exist" } else { "happens twice" },
                earlier: one.min(other),
                later: one.max(other),
            }),
            _ => Err(AtError::NotATime { text: cron::echo(text) }),
        }
    }

    /// What the rule says, for people.
    pub fn describe(&self) -> String {
        match self {
            When::Cron(cron) => cron.describe(),
            When::Every(every) => every.describe(),
            When::At(instant) => format!("once, at {instant}"),
        }
    }
}

impl FromStr for When {
    type Err = CronError;

    fn from_str(text: &str) -> Result<When, CronError> {
        When::parse(text)
    }
}

/// The normalized form, which reads back as an equal value.
impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            When::Cron(cron) => cron.fmt(f),
            When::Every(every) => every.fmt(f),
            When::At(instant) => write!(f, "@at {instant}"),
        }
    }
}

/// Why a text cannot be the instant of a one-shot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AtError {
    /// Neither an instant nor a local time.
    #[error(
        "invalid time `{text}`; use RFC 3339 such as 2027-03-28T01:00:00Z, or a local time such as \
         2027-03-28T03:00"
    )]
    NotATime {
        /// What was written.
        text: String,
    },
    /// The local time exists never or twice.
    #[error("local time `{text}` {times} in {zone}; use {earlier} or {later}")]
    NotOnce {
        /// What was written.
        text: String,
        /// The zone it was read in.
        zone: Zone,
        /// How often it happens, in words.
        times: &'static str,
        /// The earlier instant that may be meant.
        earlier: Timestamp,
        /// The later one.
        later: Timestamp,
    },
    /// Before 1970 or after 2199.
    #[error("time `{text}` is out of range; use a year from 1970 to 2199")]
    OutOfYears {
        /// What was written.
        text: String,
    },
    /// Slots are whole seconds.
    #[error("time `{text}` has a fraction of a second; use whole seconds")]
    Fraction {
        /// What was written.
        text: String,
    },
}

/// An instant that can be a slot: a whole second of the years that have slots.
fn a_slot(instant: Timestamp, text: &str) -> Result<Timestamp, AtError> {
    let text = cron::echo(text);
    if !(FIRST_SECOND..=LAST_SECOND).contains(&instant.floor_seconds()) {
        return Err(AtError::OutOfYears { text });
    }
    // Asked of the text as well, since an instant keeps nothing finer than a microsecond.
    let is_whole = instant.floor_seconds() == instant.ceil_seconds()
        && text.split(['.', ',']).nth(1).is_none_or(|fraction| {
            fraction.bytes().take_while(u8::is_ascii_digit).all(|digit| digit == b'0')
        });
    if is_whole { Ok(instant) } else { Err(AtError::Fraction { text }) }
}
