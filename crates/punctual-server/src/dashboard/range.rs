//! The stretch of time that a page shows, as its address says it: one that ends about now and goes on
//! with it, or one that stays.

use std::time::Duration;

use punctual::Timestamp;

use super::view::encoded;
use crate::fault::Fault;

/// Stretches up to now, by word.
pub(super) const WINDOWS: [(&str, u64); 4] =
    [("15min", 900), ("1h", 3_600), ("6h", 21_600), ("24h", 86_400)];
/// The longest stretch: the counters of a week are what the page draws above it.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);
/// The shortest one.
const SHORTEST: Duration = Duration::from_secs(1);

/// A stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// The word of one that goes on with the clock.
    pub(super) window: Option<&'static str>,
}

impl Range {
    /// What an address asks for.
    pub(super) fn read(
        window: Option<&str>,
        from: Option<&str>,
        to: Option<&str>,
        now: Timestamp,
    ) -> Result<Range, Fault> {
        let from = instant("from", from)?;
        let to = instant("to", to)?;
        let (from, to) = match (from, to) {
            (None, None) => return Ok(Range::up_to(window, now)),
            (Some(from), Some(to)) => (from, to),
            (Some(from), None) => (from, now),
            (None, Some(to)) => (to - Duration::from_secs(3_600), to),
        };
        let length = to.since(from);
        if length < SHORTEST {
            let wrong = format!("`to` must be at least 1s after `from`, got `{from}` to `{to}`");
            return Err(Fault::invalid("to", wrong));
        }
        if length > LONGEST {
            let wrong = format!("time range too long: `{from}` to `{to}`, maximum 7 days");
            return Err(Fault::invalid("from", wrong));
        }
        Ok(Range { from, to, window: None })
    }

    /// One that ends about now, with some of what is to come.
    fn up_to(window: Option<&str>, now: Timestamp) -> Range {
        let (window, seconds) =
            WINDOWS.into_iter().find(|(word, _)| Some(*word) == window).unwrap_or(WINDOWS[1]);
        Range {
            from: now - Duration::from_secs(seconds),
            to: now + Duration::from_secs(seconds / 4),
            window: Some(window),
        }
    }

    pub(super) fn length(&self) -> Duration {
        self.to.since(self.from)
    }

    /// Is any of `from..to` in it? What goes on has no end yet.
    pub(super) fn holds(&self, from: Timestamp, to: Option<Timestamp>) -> bool {
        from < self.to && to.is_none_or(|to| to >= self.from)
    }

    /// As the part of an address that means it.
    pub(super) fn query(&self) -> String {
        match self.window {
            Some(window) => format!("window={window}"),
            None => format!(
                "from={}&to={}",
                encoded(&self.from.to_string()),
                encoded(&self.to.to_string())
            ),
        }
    }

    /// The same, of a length that is `times` as much, about its middle.
    fn scaled(&self, times: f64) -> Range {
        let middle = self.from + self.length() / 2;
        let half = self.length().mul_f64(times / 2.0);
        Range::whole(middle - half, middle + half)
    }

    /// On whole seconds, which are all that an address needs to say.
    pub(super) fn whole(from: Timestamp, to: Timestamp) -> Range {
        let from = Timestamp::from_seconds(from.floor_seconds());
        let to = Timestamp::from_seconds(to.ceil_seconds()).max(from + SHORTEST);
        Range { from, to, window: None }
    }

    /// The middle half of it, if that is not too short.
    pub(super) fn closer(&self) -> Option<Range> {
        (self.length() > SHORTEST * 4).then(|| self.scaled(0.5))
    }

    /// Twice of it, if that is not too long.
    pub(super) fn wider(&self) -> Option<Range> {
        let wider = self.scaled(2.0);
        (wider.length() <= LONGEST).then_some(wider)
    }

    /// Half of its length earlier.
    pub(super) fn earlier(&self) -> Range {
        let half = self.length() / 2;
        Range::whole(self.from - half, self.to - half)
    }

    /// Half of its length later, as long as some of it has been.
    pub(super) fn later(&self, now: Timestamp) -> Option<Range> {
        let half = self.length() / 2;
        let later = Range::whole(self.from + half, self.to + half);
        (later.from < now).then_some(later)
    }
}

/// An instant; one without a zone, as browsers write it, is in UTC.
pub(super) fn instant(place: &str, text: Option<&str>) -> Result<Option<Timestamp>, Fault> {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else { return Ok(None) };
    if let Ok(instant) = text.parse() {
        return Ok(Some(instant));
    }
    let civil = text.parse::<jiff::civil::DateTime>().ok();
    let instant = civil.and_then(|civil| civil.to_zoned(jiff::tz::TimeZone::UTC).ok());
    match instant {
        Some(zoned) => Ok(Some(Timestamp::from_jiff(zoned.timestamp()))),
        None => Err(Fault::invalid(
            place,
            format!("invalid time `{text}`; use a value such as 2027-01-15T08:00:00Z"),
        )),
    }
}

/// As the field of a form has it, in UTC.
pub(super) fn field(at: Timestamp) -> String {
    at.to_jiff().strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("an instant")
    }

    fn read(from: &str, to: &str) -> Result<Range, Fault> {
        Range::read(None, Some(from), Some(to), at("2027-01-15T12:00:00Z"))
    }

    #[test]
    fn an_address_says_which_stretch() {
        let now = at("2027-01-15T12:00:00Z");
        let hour = Range::read(Some("1h"), None, Some(""), now).expect("a window");
        assert_eq!((hour.from, hour.to), (at("2027-01-15T11:00:00Z"), at("2027-01-15T12:15:00Z")));
        assert_eq!(hour.query(), "window=1h");
        let fixed = read("2027-01-15T08:00", "2027-01-15T09:00:00Z").expect("a range");
        assert_eq!(fixed.query(), "from=2027-01-15T08%3A00%3A00Z&to=2027-01-15T09%3A00%3A00Z");
        for (from, to, words) in [
            ("soon", "", "invalid time `soon`"),
            ("2027-01-15T09:00:00Z", "2027-01-15T08:00:00Z", "must be at least 1s after"),
            ("2027-01-01T00:00:00Z", "2027-01-09T00:00:00Z", "maximum 7 days"),
        ] {
            let fault = read(from, to).expect_err("a refusal");
            assert!(fault.detail().contains(words), "{}", fault.detail());
        }
    }

    #[test]
    fn closer_wider_earlier_and_later_stay_within_bounds() {
        let range = read("2027-01-15T08:00:00Z", "2027-01-15T09:00:00Z").expect("a range");
        let told = |range: Range| (field(range.from)[11..].to_owned(), range.length().as_secs());
        assert_eq!(range.closer().map(told), Some(("08:15:00".to_owned(), 1_800)));
        assert_eq!(range.wider().map(told), Some(("07:30:00".to_owned(), 7_200)));
        assert_eq!(told(range.earlier()), ("07:30:00".to_owned(), 3_600));
        let now = at("2027-01-15T12:00:00Z");
        assert_eq!(range.later(now).map(told), Some(("08:30:00".to_owned(), 3_600)));
        assert_eq!(range.later(at("2027-01-15T08:30:00Z")), None);
        let mut narrow = range;
        while let Some(closer) = narrow.closer() {
            assert!(closer.length() < narrow.length());
            narrow = closer;
        }
        let mut wide = range;
        while let Some(wider) = wide.wider() {
            wide = wider;
        }
        assert!(wide.length() <= LONGEST);
    }
}
