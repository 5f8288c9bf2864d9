//! Time zones by IANA name, seen as stretches of time with one offset each.

use std::fmt;

use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::civil::DAY;
use crate::{Timestamp, cron, suggest};

/// A time zone known by its IANA name, such as `Europe/Paris`.
///
/// The rules come from the system's zone files, so an update of those needs no new build;
/// a name that the system does not have is looked up in the data bundled with the crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    rules: TimeZone,
    /// The offset in seconds, for a zone that has only ever had one.
    fixed_offset: Option<i64>,
}

/// A name that is no time zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone `{name}`{}", self.remedy())]
pub struct ZoneError {
    name: String,
    nearest: Option<String>,
}

impl ZoneError {
    /// The name as it was written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The existing name that was probably meant.
    pub fn nearest(&self) -> Option<&str> {
        self.nearest.as_deref()
    }

    fn remedy(&self) -> String {
        match &self.nearest {
            Some(nearest) => format!("; did you mean `{nearest}`?"),
            None => "; use an IANA name such as `UTC` or `Europe/Paris`".to_owned(),
        }
    }
}

impl Zone {
    /// The zone of Coordinated Universal Time.
    pub const UTC: Zone = Zone { rules: TimeZone::UTC, fixed_offset: Some(0) };

    /// Looks a zone up by its IANA name, in any letter case.
    pub fn get(name: &str) -> Result<Zone, ZoneError> {
        match jiff::tz::db().get(name).or_else(|_| TimeZoneDatabase::bundled().get(name)) {
            Ok(rules) if rules.iana_name().is_some_and(is_a_place) => {
                let fixed_offset =
                    rules.to_fixed_offset().ok().map(|offset| i64::from(offset.seconds()));
                Ok(Zone { rules, fixed_offset })
            }
            _ => Err(ZoneError { name: cron::echo(name), nearest: nearest_zone(name) }),
        }
    }

    /// The IANA name.
    pub fn name(&self) -> &str {
        self.rules.iana_name().unwrap_or("UTC")
    }

    /// The zone as `jiff` knows it, for showing instants in it.
    pub fn to_jiff(&self) -> &TimeZone {
        &self.rules
    }

    /// The stretch of constant offset that contains the instant `at`, in Unix seconds.
    pub(crate) fn segment(&self, at: i64) -> Segment {
        let segment = self.segment_from(at);
        if self.fixed_offset.is_some() {
            return Segment { start: i64::MIN, ..segment };
        }
        let (start, offset_before) = self
            .rules
            .preceding(instant(at + 1))
            .map(|transition| transition.timestamp().as_second())
            .map(|start| (start, self.offset(start - 1)))
            .find(|(_, offset_before)| *offset_before != segment.offset)
            .unwrap_or((i64::MIN, segment.offset));
        Segment { start, offset_before, ..segment }
    }

    /// The same for a search that goes forward from `at`: if no change lies within the day
    /// before, the segment is given as if it began at `at`, which is cheaper to find. Nothing
    /// that a change repeats or skips reaches further than that.
    pub(crate) fn segment_near(&self, at: i64) -> Segment {
        let segment = self.segment_from(at);
        // Changes lie more than two days apart, so one of them cannot undo another unseen.
        match self.offset(at - DAY) == segment.offset {
            true => segment,
            false => self.segment(at),
        }
    }

    /// The segment that follows.
    pub(crate) fn segment_after(&self, before: &Segment) -> Segment {
        Segment { offset_before: before.offset, ..self.segment_from(before.end) }
    }

    fn segment_from(&self, at: i64) -> Segment {
        let offset = self.offset(at);
        let end = match self.fixed_offset {
            Some(_) => None,
            // Zone files also record changes of name or of legal basis; only the offset counts.
            None => self
                .rules
                .following(instant(at))
                .find(|transition| i64::from(transition.offset().seconds()) != offset),
        };
        let end = end.map_or(i64::MAX, |transition| transition.timestamp().as_second());
        Segment { start: at, end, offset, offset_before: offset }
    }

    pub(crate) fn offset(&self, at: i64) -> i64 {
        self.fixed_offset.unwrap_or_else(|| i64::from(self.rules.to_offset(instant(at)).seconds()))
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A stretch of time in which the zone's offset does not change: instants `start..end` in
/// Unix seconds. Inside it, wall clock = instant + `offset`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) offset: i64,
    /// The offset that was in force just before `start`.
    pub(crate) offset_before: i64,
}

impl Segment {
    pub(crate) fn contains(&self, at: i64) -> bool {
        self.start <= at && at < self.end
    }

    /// The wall clock when the segment begins, or the end of time if it always was.
    pub(crate) fn wall_start(&self) -> i64 {
        self.start.saturating_add(self.offset)
    }

    /// The wall clock when the segment ends.
    pub(crate) fn wall_end(&self) -> i64 {
        self.end.saturating_add(self.offset)
    }

    /// What the wall clock would have shown at `start` had it not been changed.
    pub(crate) fn wall_start_before(&self) -> i64 {
        self.start.saturating_add(self.offset_before)
    }
}

/// The system's directory also holds links to the host's own zone, which would make a
/// schedule mean something else on each machine.
fn is_a_place(name: &str) -> bool {
    !["localtime", "posixrules", "Factory"].iter().any(|link| link.eq_ignore_ascii_case(name))
}

/// Clamps to the range of instants that have a local time.
fn instant(seconds: i64) -> jiff::Timestamp {
    Timestamp::from_seconds(seconds).to_jiff()
}

/// The zone that was probably meant: by its whole name, or by its city alone.
fn nearest_zone(written: &str) -> Option<String> {
    let city = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
    // Another number is another offset, not a slip.
    let digits = |name: &str| name.chars().filter(char::is_ascii_digit).collect::<String>();
    let names: Vec<String> = TimeZoneDatabase::bundled()
        .available()
        .map(|name| name.as_str().to_owned())
        .filter(|name| digits(name) == digits(written))
        .collect();
    suggest::nearest(written, names.iter().map(String::as_str)).map(str::to_owned).or_else(|| {
        let written = city(written).replace(' ', "_");
        let cities: Vec<String> = names.iter().map(|name| city(name)).collect();
        let nearest = suggest::nearest(&written, cities.iter().map(String::as_str))?;
        names.iter().find(|name| city(name) == nearest).cloned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_found_in_any_letter_case_and_keeps_its_own_name() {
        assert_eq!(Zone::get("europe/paris").unwrap().name(), "Europe/Paris");
        assert_eq!(Zone::get("UTC").unwrap().name(), "UTC");
        assert_eq!(Zone::UTC.name(), "UTC");
    }

    #[test]
    fn an_unknown_zone_is_refused_with_the_nearest_name() {
        let written = [
            "Europe/Pariss",
            "Paris",
            "new york",
            "Mars/Olympus",
            "",
            "+02:00",
            "right/UTC",
            "posix/Europe/Paris",
            "localtime",
            "Europe",
            "é/☃",
        ];
        let errors = written.map(|name| Zone::get(name).unwrap_err().to_string());
        insta::assert_snapshot!(errors.join("\n"), @"
        unknown time zone `Europe/Pariss`; did you mean `Europe/Paris`?
        unknown time zone `Paris`; did you mean `Europe/Paris`?
        unknown time zone `new york`; did you mean `America/New_York`?
        unknown time zone `Mars/Olympus`; use an IANA name such as `UTC` or `Europe/Paris`
        unknown time zone ``; use an IANA name such as `UTC` or `Europe/Paris`
        unknown time zone `+02:00`; use an IANA name such as `UTC` or `Europe/Paris`
        unknown time zone `right/UTC`; did you mean `Etc/UTC`?
        unknown time zone `posix/Europe/Paris`; did you mean `Europe/Paris`?
        unknown time zone `localtime`; use an IANA name such as `UTC` or `Europe/Paris`
        unknown time zone `Europe`; use an IANA name such as `UTC` or `Europe/Paris`
        unknown time zone `é/�`; use an IANA name such as `UTC` or `Europe/Paris`
        ");
    }

    #[test]
    fn segments_tile_the_time_of_every_zone() {
        // The search leans on this: no change repeats or skips more than a day, and changes
        // lie more than two days apart.
        for name in TimeZoneDatabase::bundled().available() {
            let Ok(zone) = Zone::get(name.as_str()) else { continue };
            let mut segment = zone.segment(0);
            while segment.end < 7_300_000_000 {
                let next = zone.segment(segment.end);
                assert!(
                    segment.contains(segment.end - 1) && !segment.contains(segment.end),
                    "{name}"
                );
                assert_eq!(next.start, segment.end, "{name}");
                assert_eq!(next.offset_before, segment.offset, "{name}");
                assert_ne!(next.offset, segment.offset, "{name}");
                let change = (next.offset - next.offset_before).abs();
                assert!(change <= 86_400, "{name} changes by {change} s at {}", next.start);
                assert!(
                    next.end.saturating_sub(next.start) > 2 * 86_400,
                    "{name} changes twice about {}",
                    next.start
                );
                segment = next;
            }
        }
    }
}
