//! The instant: microseconds of UTC, the one unit that both databases store exactly.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use jiff::fmt::friendly::{Designator, Spacing, SpanParser, SpanPrinter};

/// An instant in UTC with microsecond precision, from year −9999 to 9999.
///
/// Arithmetic saturates at [`Timestamp::MIN`] and [`Timestamp::MAX`]: a deadline so far
/// away that it cannot be written is as good as the last instant there is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The Unix epoch, 1970-01-01T00:00:00Z.
    pub const EPOCH: Timestamp = Timestamp(0);
    /// The earliest instant that every zone can still show as local time.
    pub const MIN: Timestamp = Timestamp(-377_705_023_201 * 1_000_000);
    /// The latest instant that every zone can still show as local time.
    pub const MAX: Timestamp = Timestamp(253_402_207_200 * 1_000_000);

    /// The instant this many microseconds after the Unix epoch, held between
    /// [`Timestamp::MIN`] and [`Timestamp::MAX`].
    pub const fn from_micros(micros: i64) -> Timestamp {
        if micros < Timestamp::MIN.0 {
            Timestamp::MIN
        } else if micros > Timestamp::MAX.0 {
            Timestamp::MAX
        } else {
            Timestamp(micros)
        }
    }

    /// The instant this many seconds after the Unix epoch, held in range likewise.
    pub const fn from_seconds(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds.saturating_mul(1_000_000))
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded towards the past.
    pub const fn floor_seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Whole seconds since the Unix epoch, rounded towards the future.
    pub const fn ceil_seconds(self) -> i64 {
        self.floor_seconds() + (self.0.rem_euclid(1_000_000) != 0) as i64
    }

    /// How long ago `earlier` was; zero if it lies in the future.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The same instant as `jiff` knows it, for showing it in a zone.
    pub fn to_jiff(self) -> jiff::Timestamp {
        // The bounds of `Timestamp` lie inside jiff's, so the fallback is never taken.
        jiff::Timestamp::from_microsecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }

    /// The instant `jiff` holds, without what is finer than a microsecond.
    pub fn from_jiff(instant: jiff::Timestamp) -> Timestamp {
        Timestamp::from_micros(instant.as_microsecond())
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, wait: Duration) -> Timestamp {
        let micros = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.0.saturating_add(micros))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, wait: Duration) -> Timestamp {
        let micros = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(self.0.saturating_sub(micros))
    }
}

/// RFC 3339 in UTC; the fraction is written only when there is one.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_jiff().fmt(f)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no RFC 3339 instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid time `{text}`; expected RFC 3339, such as 2027-03-28T01:00:00Z or \
     2027-03-28T03:00:00+02:00"
)]
pub struct TimestampError {
    text: String,
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Timestamp, TimestampError> {
        match text.trim().parse::<jiff::Timestamp>() {
            Ok(instant) => Ok(Timestamp::from_jiff(instant)),
            Err(_) => Err(TimestampError { text: crate::cron::echo(text) }),
        }
    }
}

/// Reads a length of time such as `90s`, `1h30m`, `1h 30m`, `2d` or `250ms`.
///
/// A day is 24 hours and a week is 7 days; months and years have no fixed length and are
/// refused. The error says what was wrong, in words for the person who wrote the text.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let text = text.trim_matches(crate::cron::BLANKS);
    let refuse = |why: &str| {
        let text = crate::cron::echo(text);
        Err(format!("invalid duration `{text}`{why}; use a value such as 90s, 15m, 1h30m or 2d"))
    };
    let span = match SpanParser::new().parse_span(text) {
        // One way of writing is enough: no clock notation, no line ends.
        Ok(span) if !text.contains([':', '\n', '\r']) => span,
        _ => return refuse(""),
    };
    if span.get_years() != 0 || span.get_months() != 0 {
        return refuse(": months and years have no fixed length");
    }
    if span.is_negative() {
        return refuse(": it is negative");
    }
    match span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()) {
        Ok(length) if length.subsec_nanos() % 1_000 == 0 => Ok(length.unsigned_abs()),
        Ok(_) => refuse(": the smallest unit is a microsecond"),
        Err(_) => refuse(": it is too long"),
    }
}

/// Writes a length of time in the shortest way that [`parse_duration`] reads back.
pub fn format_duration(length: Duration) -> String {
    const DAY: u64 = 86_400;
    let days = length.as_secs() / DAY;
    let rest = length - Duration::from_secs(days * DAY);
    let printer = SpanPrinter::new().designator(Designator::Compact).spacing(Spacing::None);
    match (days, rest.is_zero()) {
        (0, _) => printer.duration_to_string(&signed(rest)),
        (_, true) => format!("{days}d"),
        (_, false) => format!("{days}d{}", printer.duration_to_string(&signed(rest))),
    }
}

fn signed(length: Duration) -> SignedDuration {
    SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_prints_what_it_parses() {
        for text in
            ["1970-01-01T00:00:00Z", "2027-03-28T01:00:00.000001Z", "-000001-01-01T00:00:00Z"]
        {
            assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), text);
        }
        assert_eq!(
            "2027-03-28T03:00:00+02:00".parse::<Timestamp>().unwrap().to_string(),
            "2027-03-28T01:00:00Z"
        );
    }

    #[test]
    fn a_text_that_is_no_instant_is_named_in_the_error() {
        let error = "tomorrow".parse::<Timestamp>().unwrap_err();
        insta::assert_snapshot!(error, @"invalid time `tomorrow`; expected RFC 3339, such as 2027-03-28T01:00:00Z or 2027-03-28T03:00:00+02:00");
    }

    #[test]
    fn arithmetic_stops_at_the_ends_of_time() {
        assert_eq!(Timestamp::MAX + Duration::MAX, Timestamp::MAX);
        assert_eq!(Timestamp::MIN - Duration::MAX, Timestamp::MIN);
        assert_eq!(Timestamp::from_seconds(i64::MIN), Timestamp::MIN);
        assert_eq!(Timestamp::EPOCH.since(Timestamp::MAX), Duration::ZERO);
        assert_eq!(Timestamp::MAX.to_jiff().as_microsecond(), Timestamp::MAX.as_micros());
        assert_eq!(Timestamp::MIN.to_jiff().as_microsecond(), Timestamp::MIN.as_micros());
    }

    #[test]
    fn seconds_round_to_the_side_they_say() {
        let half = Timestamp::from_micros(-500_000);
        assert_eq!((half.floor_seconds(), half.ceil_seconds()), (-1, 0));
        let whole = Timestamp::from_seconds(7);
        assert_eq!((whole.floor_seconds(), whole.ceil_seconds()), (7, 7));
    }

    #[test]
    fn a_length_of_time_prints_what_it_parses() {
        for text in ["1s", "90m", "1h30m", "2d", "1d12h", "250ms", "1w", "0s"] {
            let length = parse_duration(text).unwrap();
            assert_eq!(parse_duration(&format_duration(length)), Ok(length), "{text}");
        }
        assert_eq!(format_duration(parse_duration("90m").unwrap()), "1h30m");
        assert_eq!(format_duration(parse_duration("1w").unwrap()), "7d");
    }

    #[test]
    fn a_bad_length_of_time_is_explained() {
        let errors =
            ["", "15", "1mo", "-5m", "1ns", "soon"].map(|text| parse_duration(text).unwrap_err());
        insta::assert_snapshot!(errors.join("\n"), @"
        invalid duration ``; use a value such as 90s, 15m, 1h30m or 2d
        invalid duration `15`; use a value such as 90s, 15m, 1h30m or 2d
        invalid duration `1mo`: months and years have no fixed length; use a value such as 90s, 15m, 1h30m or 2d
        invalid duration `-5m`: it is negative; use a value such as 90s, 15m, 1h30m or 2d
        invalid duration `1ns`: the smallest unit is a microsecond; use a value such as 90s, 15m, 1h30m or 2d
        invalid duration `soon`; use a value such as 90s, 15m, 1h30m or 2d
        ");
    }
}
