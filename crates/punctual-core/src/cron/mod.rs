//! Cron expressions: our own reader, and the wall-clock times that an expression names.
//!
//! What an expression means is written in `docs/cron.md`. Here it is a set of civil
//! (wall-clock) seconds; `crate::slots` turns these into instants of a zone.

mod dates;
mod days;
mod describe;
mod error;
mod field;
mod hints;
mod never;
mod parse;
mod print;
mod quick;
mod spread;
mod times;
mod unit;

use std::str::FromStr;

pub use error::{CronError, CronErrorCode};
pub use unit::Unit;

pub(crate) use error::echo;
pub(crate) use hints::NAME_NEEDED;

use crate::civil::{DAY, month_length};
use dates::Dates;
use spread::Spread;
use times::Times;

/// The longest expression that is read. Seven fields that each list every value fit.
pub const MAX_EXPRESSION_BYTES: usize = 2_048;

/// What separates fields; a line end is none.
pub(crate) const BLANKS: [char; 2] = [' ', '\t'];

/// Names for common expressions.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// A cron expression, read and ready to be asked.
///
/// Two expressions are equal when they name the same times in the same manner; printing
/// one gives its normalized form, which reads back as an equal value.
///
/// ```
/// use punctual_core::Cron;
///
/// let cron: Cron = "0 9-17/2 * jan 1-5".parse()?;
/// assert_eq!(cron.to_string(), "0 9-17/2 * JAN MON-FRI");
/// # Ok::<(), punctual_core::CronError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    times: Times,
    dates: Dates,
    spread: [Option<Spread>; 6],
    /// How many fields were written: 5, 6 or 7.
    fields: u8,
}

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Cron, CronError> {
        Cron::read(text, None)
    }
}

impl Cron {
    /// Reads an expression in which `H` is spread by `name`, the schedule's name.
    pub fn parse_named(text: &str, name: &str) -> Result<Cron, CronError> {
        Cron::read(text, Some(name))
    }

    pub(crate) fn read(text: &str, name: Option<&str>) -> Result<Cron, CronError> {
        match quick::parse(text).filter(|_| text.len() <= MAX_EXPRESSION_BYTES) {
            Some(cron) => Ok(cron),
            None => parse::parse(text, name),
        }
    }

    fn empty(fields: u8) -> Cron {
        Cron { times: Times::at_second_zero(), dates: Dates::empty(), spread: [None; 6], fields }
    }

    /// How many fields were written; a nickname counts as five.
    pub fn field_count(&self) -> usize {
        usize::from(self.fields)
    }

    /// A wild expression (`*` or `H/n` in its minute or hour) follows elapsed time through a
    /// clock change; any other names fixed times of day and has each once.
    pub fn is_wild(&self) -> bool {
        self.times.wild_minute || self.times.wild_hour
    }

    /// Why no date ever matches, if none does.
    pub fn never_fires(&self) -> Option<String> {
        never::reason(&self.dates)
    }

    /// Are both day fields restricted, and is a match of one of them enough?
    pub(crate) fn is_one_day_field_enough(&self) -> bool {
        self.dates.either
    }

    /// The step of a field that is written `*/n`, and what is left of the field after its
    /// last step, where that is less than a step.
    pub(crate) fn uneven_step(&self, unit: Unit) -> Option<(u32, u32)> {
        let (bits, is_step) = match unit {
            Unit::Minute => (self.times.minutes, self.times.wild_minute),
            Unit::Hour => (self.times.hours, self.times.wild_hour),
            _ => return None,
        };
        (2..unit.size())
            .find(|step| is_step && bits == field::stepped(unit.low(), unit.high(), *step))
            .map(|step| (step, unit.size() % step))
            .filter(|(_, rest)| *rest != 0)
    }

    /// Does it name every second of a day?
    pub(crate) fn is_every_second(&self) -> bool {
        let count = |bits: u64| bits.count_ones();
        let times = &self.times;
        (count(times.seconds), count(times.minutes), count(times.hours)) == (60, 60, 24)
    }

    /// The first day of the month, if all that are named are too late for some months.
    pub(crate) fn first_day_missing_in_some_month(&self) -> Option<u32> {
        let dates = &self.dates;
        let first = dates.days.trailing_zeros();
        let only_days = dates.any_weekday()
            && dates.from_last == 0
            && dates.nearest_workday == 0
            && !dates.last_workday;
        let some_month_is_short = (1..=12)
            .any(|month| dates.months >> month & 1 == 1 && month_length(2027, month) < first);
        (only_days && (29..=31).contains(&first) && some_month_is_short).then_some(first)
    }

    /// How many times of day it names.
    pub(crate) fn times_a_day(&self) -> usize {
        let count = |bits: u64| bits.count_ones() as usize;
        count(self.times.seconds) * count(self.times.minutes) * count(self.times.hours)
    }

    /// The times of day that it names, in seconds from midnight.
    pub(crate) fn times_of_day(&self) -> Vec<i64> {
        let mut times = Vec::new();
        self.times.each_minute(|minute, seconds| {
            let named = (0..60).filter(|second| seconds >> second & 1 == 1);
            times.extend(named.map(|second| minute + second));
        });
        times
    }

    /// The first day at or after `day` that it names, as a day number.
    pub(crate) fn next_day(&self, day: i64) -> Option<i64> {
        self.dates.next(day)
    }

    /// The first civil second at or after `wall` that the expression names.
    pub(crate) fn next_wall(&self, wall: i64) -> Option<i64> {
        let day = wall.div_euclid(DAY);
        let date = self.dates.next(day)?;
        if date == day {
            if let Some(time) = self.times.next(wall.rem_euclid(DAY)) {
                return Some(date * DAY + time);
            }
            return Some(self.dates.next(day + 1)? * DAY + self.times.first());
        }
        Some(date * DAY + self.times.first())
    }

    /// The last civil second at or before `wall` that the expression names.
    pub(crate) fn previous_wall(&self, wall: i64) -> Option<i64> {
        let day = wall.div_euclid(DAY);
        let date = self.dates.previous(day)?;
        if date == day {
            if let Some(time) = self.times.previous(wall.rem_euclid(DAY)) {
                return Some(date * DAY + time);
            }
            return Some(self.dates.previous(day - 1)? * DAY + self.times.last());
        }
        Some(date * DAY + self.times.last())
    }

    /// Calls `minute(wall, seconds)` for each matching minute that touches `from..to`:
    /// `wall` is its first civil second, `seconds` the matching seconds as bits.
    pub(crate) fn each_minute(&self, from: i64, to: i64, mut minute: impl FnMut(i64, u64)) {
        for day in from.div_euclid(DAY)..=(to - 1).div_euclid(DAY) {
            if self.dates.contain(day) {
                self.times.each_minute(|time, seconds| {
                    let wall = day * DAY + time;
                    if wall + 60 > from && wall < to {
                        minute(wall, seconds);
                    }
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
