//! Exclusion calendars: days and times at which schedules do not fire.

mod ics;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::civil::{DAY, Date, month_length, weekday};
use crate::{Timestamp, Zone};

/// A calendar as people write it and stores keep it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarText {
    /// Days: `2027-12-24`, `2027-12-24..2028-01-02` with both ends, or `12-25` of every year.
    #[serde(default)]
    pub dates: Vec<String>,
    /// Times of every week: `Sat`, or `Sat 00:00-Mon 06:00` up to and without its end.
    #[serde(default)]
    pub weekly: Vec<String>,
}

/// What a calendar means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calendar {
    /// Day numbers, both ends included.
    days: Vec<(i64, i64)>,
    /// Month and day of every year.
    yearly: BTreeSet<(u32, u32)>,
    /// Seconds of the week from Sunday, the end excluded; one that goes beyond Saturday is two.
    weekly: Vec<(i64, i64)>,
}

/// Why a text is no calendar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct CalendarError {
    /// Where, such as `dates[3]` or `line 12`.
    pub place: String,
    /// What is wrong, and the way out.
    pub message: String,
}

impl CalendarError {
    fn new(place: impl Into<String>, message: impl Into<String>) -> CalendarError {
        CalendarError { place: place.into(), message: message.into() }
    }
}

/// Entries of one calendar: those of a country for fifty years.
const ENTRIES_MAX: usize = 1_000;

const WEEK: i64 = 7 * DAY;
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl CalendarText {
    /// Reads a list: an entry a line, a date or a time of the week; `#` begins a comment.
    pub fn from_lines(text: &str) -> CalendarText {
        let mut calendar = CalendarText::default();
        for line in text.lines() {
            let entry = line.split('#').next().unwrap_or_default().trim();
            match entry.chars().next() {
                None => {}
                Some(first) if first.is_ascii_digit() => calendar.dates.push(entry.to_owned()),
                Some(_) => calendar.weekly.push(entry.to_owned()),
            }
        }
        calendar
    }

    /// Reads the all-day events of an iCalendar file (RFC 5545), once or every year.
    pub fn from_ics(text: &str) -> Result<CalendarText, CalendarError> {
        Ok(CalendarText { dates: ics::dates(text)?, weekly: Vec::new() })
    }

    /// What it means, or the first thing that is wrong with it.
    pub fn read(&self) -> Result<Calendar, CalendarError> {
        let mut calendar = Calendar::default();
        for (index, text) in self.dates.iter().enumerate() {
            let wrong = |message| CalendarError::new(format!("dates[{index}]"), message);
            calendar.add_dates(text.trim()).map_err(wrong)?;
        }
        for (index, text) in self.weekly.iter().enumerate() {
            let wrong = |message| CalendarError::new(format!("weekly[{index}]"), message);
            calendar.add_weekly(text.trim()).map_err(wrong)?;
        }
        calendar.check_length().map_err(|message| CalendarError::new("dates", message))?;
        Ok(calendar)
    }

    /// All entries, dates first.
    pub fn entries(self) -> Vec<String> {
        self.dates.into_iter().chain(self.weekly).collect()
    }
}

impl Calendar {
    /// Adds an entry: a date, days, a day of every year, or a time of the week.
    pub(crate) fn add(&mut self, entry: &str) -> Result<(), String> {
        let entry = entry.trim();
        if entry.starts_with('@') {
            let shown = crate::cron::echo(entry);
            return Err(format!(
                "`{shown}` refers to a calendar, which works only in schedule files; list its \
                 entries instead"
            ));
        }
        match entry.starts_with(|first: char| first.is_ascii_digit()) {
            true => self.add_dates(entry),
            false => self.add_weekly(entry),
        }
    }

    pub(crate) fn check_length(&self) -> Result<(), String> {
        match self.days.len() + self.yearly.len() + self.weekly.len() {
            entries if entries > ENTRIES_MAX => {
                Err(format!("too many entries: {entries}, maximum {ENTRIES_MAX}"))
            }
            _ => Ok(()),
        }
    }

    /// Does it exclude nothing?
    pub fn is_empty(&self) -> bool {
        self.days.is_empty() && self.yearly.is_empty() && self.weekly.is_empty()
    }

    fn add_dates(&mut self, text: &str) -> Result<(), String> {
        let shown = crate::cron::echo(text);
        if let Some((first, last)) = text.split_once("..") {
            let (first, last) = (date(first.trim())?, date(last.trim())?);
            if last < first {
                return Err(format!("invalid date range `{shown}`: the end is before the start"));
            }
            self.days.push((first, last));
            return Ok(());
        }
        match text.split('-').count() {
            2 => {
                let (month, day) = text.split_once('-').unwrap_or_default();
                let month: u32 = month.parse().unwrap_or(0);
                let day: u32 = day.parse().unwrap_or(0);
                // The 29th of February is one in every fourth year.
                if !(1..=12).contains(&month) || !(1..=month_length(2_000, month)).contains(&day) {
                    return Err(format!(
                        "invalid day of the year `{shown}`; use a value such as `12-25`"
                    ));
                }
                self.yearly.insert((month, day));
            }
            _ => {
                let day = date(text)?;
                self.days.push((day, day));
            }
        }
        Ok(())
    }

    fn add_weekly(&mut self, text: &str) -> Result<(), String> {
        let (start, end) = match text.split_once('-') {
            None => {
                let day = day_of_week(text)?;
                (day * DAY, (day + 1) * DAY)
            }
            Some((start, end)) => (time_of_week(start.trim())?, time_of_week(end.trim())?),
        };
        if start == end {
            let shown = crate::cron::echo(text);
            return Err(format!(
                "invalid weekly period `{shown}`: start and end are equal; use a value such as \
                 `Sat 00:00-Mon 06:00`"
            ));
        }
        match start < end {
            true => self.weekly.push((start, end)),
            false => self.weekly.extend([(start, WEEK), (0, end)].iter().filter(|it| it.0 < it.1)),
        }
        Ok(())
    }

    /// Is this instant excluded, as the wall clock of a zone has it?
    pub fn excludes(&self, zone: &Zone, at: Timestamp) -> bool {
        self.excludes_wall(at.floor_seconds() + zone.offset(at.floor_seconds()))
    }

    /// Is this civil time excluded, in seconds?
    pub(crate) fn excludes_wall(&self, wall: i64) -> bool {
        let (day, second) = (wall.div_euclid(DAY), wall.rem_euclid(DAY));
        let of_week = i64::from(weekday(day)) * DAY + second;
        self.weekly.iter().any(|(start, end)| (*start..*end).contains(&of_week))
            || self.has_whole(day)
    }

    /// Is anything of this day excluded?
    pub(crate) fn has_any(&self, day: i64) -> bool {
        let midnight = i64::from(weekday(day)) * DAY;
        self.weekly.iter().any(|(start, end)| *start < midnight + DAY && *end > midnight)
            || self.has_whole(day)
    }

    fn has_whole(&self, day: i64) -> bool {
        let Date { month, day: day_of_month, .. } = Date::from_day(day);
        self.yearly.contains(&(month, day_of_month))
            || self.days.iter().any(|(first, last)| (*first..=*last).contains(&day))
    }

    /// What is excluded of a day, as seconds of it; in no order, and what is said twice is told twice.
    fn of_day(&self, day: i64) -> Vec<(i64, i64)> {
        if self.has_whole(day) {
            return vec![(0, DAY)];
        }
        let midnight = i64::from(weekday(day)) * DAY;
        let part = |(start, end): &(i64, i64)| {
            let (start, end) = ((*start - midnight).max(0), (*end - midnight).min(DAY));
            (start < end).then_some((start, end))
        };
        self.weekly.iter().filter_map(part).collect()
    }

    /// The stretches of `from..to` that are excluded, in order and apart from one another. It costs
    /// as much as there are days.
    pub fn stretches(
        &self,
        zone: &Zone,
        from: Timestamp,
        to: Timestamp,
    ) -> Vec<(Timestamp, Timestamp)> {
        let (mut at, to) = (from.floor_seconds(), to.ceil_seconds());
        let mut found: Vec<(i64, i64)> = Vec::new();
        if self.is_empty() {
            return Vec::new();
        }
        while at < to {
            // The wall clock runs evenly up to the next change of the offset.
            let segment = zone.segment(at);
            let end = segment.end.min(to);
            let (mut wall, wall_end) = (at + segment.offset, end + segment.offset);
            while wall < wall_end {
                let day = wall.div_euclid(DAY);
                let mut parts = self.of_day(day);
                parts.sort_unstable();
                for (start, end) in parts {
                    let start = (day * DAY + start).max(wall) - segment.offset;
                    let end = (day * DAY + end).min(wall_end) - segment.offset;
                    match found.last_mut() {
                        Some(last) if start <= last.1 => last.1 = last.1.max(end),
                        _ if start < end => found.push((start, end)),
                        _ => {}
                    }
                }
                wall = (day + 1) * DAY;
            }
            at = end;
        }
        let instants =
            |(start, end)| (Timestamp::from_seconds(start), Timestamp::from_seconds(end));
        found.into_iter().map(instants).collect()
    }
}

fn date(text: &str) -> Result<i64, String> {
    let wrong = || {
        let shown = crate::cron::echo(text);
        format!("invalid date `{shown}`; use `2027-12-24`, or `12-24` for every year")
    };
    let mut parts = text.split('-').map(|part| part.parse::<u32>().ok());
    let (Some(Some(year)), Some(Some(month)), Some(Some(day)), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    let is_date = (1970..=2199).contains(&year)
        && (1..=12).contains(&month)
        && (1..=month_length(i64::from(year), month)).contains(&day);
    if !is_date {
        return Err(wrong());
    }
    Ok(Date { year: i64::from(year), month, day }.to_day())
}

fn day_of_week(text: &str) -> Result<i64, String> {
    let name = text.to_ascii_lowercase();
    let found = WEEKDAYS.iter().position(|day| *day == name);
    found.and_then(|day| i64::try_from(day).ok()).ok_or_else(|| {
        let shown = crate::cron::echo(text);
        format!("unknown weekday `{shown}`; expected one of Mon, Tue, Wed, Thu, Fri, Sat, Sun")
    })
}

/// `Sat 06:00`, as seconds of the week from Sunday.
fn time_of_week(text: &str) -> Result<i64, String> {
    let Some((day, time)) = text.split_once(char::is_whitespace) else {
        let shown = crate::cron::echo(text);
        return Err(format!(
            "invalid weekly time `{shown}`; use a day and a time, such as `Sat 06:00`"
        ));
    };
    let day = day_of_week(day)?;
    let (hour, minute) = time.trim().split_once(':').unwrap_or_default();
    match (hour.parse::<i64>(), minute.parse::<i64>()) {
        (Ok(hour @ 0..24), Ok(minute @ 0..60)) => Ok(day * DAY + hour * 3_600 + minute * 60),
        (Ok(24), Ok(0)) => Ok((day + 1).rem_euclid(7) * DAY),
        _ => {
            let shown = crate::cron::echo(time);
            Err(format!("invalid time of day `{shown}`; use a value such as `06:00`"))
        }
    }
}

#[cfg(test)]
mod tests;
