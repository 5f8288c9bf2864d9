//! An expression in plain words.

use super::Cron;
use super::dates::{Dates, EVERY_MONTH, EVERY_WEEKDAY};
use super::print::{from_monday, values};
use super::unit::{FIRST_YEAR, LAST_YEAR, Unit};

/// Up to this many times of day are written out one by one.
const WRITTEN_OUT: u32 = 6;

const WEEKDAY_WORDS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTH_WORDS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

impl Cron {
    /// What the expression says, for people: `at 02:30 every day`.
    pub fn describe(&self) -> String {
        let (time, is_cadence) = self.describe_times();
        let mut words = vec![time];
        let dates = &self.dates;
        let every_day = dates.any_day() && dates.any_weekday();
        if !every_day {
            words.push(describe_days(dates));
        } else if !is_cadence {
            words.push("every day".to_owned());
        }
        if dates.months != EVERY_MONTH {
            words.push(format!(
                "in {}",
                runs(&values(dates.months), |month| MONTH_WORDS[month as usize - 1].to_owned())
            ));
        }
        let years: Vec<u32> =
            (FIRST_YEAR..=LAST_YEAR).filter(|year| dates.has_year(i64::from(*year))).collect();
        if years.len() != Unit::Year.size() as usize {
            words.push(match years.as_slice() {
                [first, second, .., last]
                    if years.len() > 3 && last - first != years.len() as u32 - 1 =>
                {
                    let step = second - first;
                    if years.windows(2).all(|pair| pair[1] - pair[0] == step) {
                        format!("every {step} years from {first} to {last}")
                    } else {
                        format!("in {}", runs(&years, |year| year.to_string()))
                    }
                }
                _ => format!("in {}", runs(&years, |year| year.to_string())),
            });
        }
        words.join(" ")
    }

    /// The times of day in words, and whether they are a cadence that needs no "every day".
    fn describe_times(&self) -> (String, bool) {
        let times = &self.times;
        let (seconds, minutes, hours) =
            (values(times.seconds), values(times.minutes), values(times.hours));
        if times.seconds.count_ones() * times.minutes.count_ones() * times.hours.count_ones()
            <= WRITTEN_OUT
        {
            let mut clock = Vec::new();
            times.each_minute(|time, _| {
                for second in &seconds {
                    clock.push(clock_time(time as u32 + second));
                }
            });
            return (format!("at {}", join(&clock)), false);
        }
        let every_hour = hours.len() == 24;
        let hour_step = even_step(Unit::Hour, &hours);
        let minute_step = even_step(Unit::Minute, &minutes);
        let on_full_minutes = seconds == [0];

        // One minute of the hour: a cadence of hours.
        if on_full_minutes && let [minute] = minutes.as_slice() {
            let past = match minute {
                0 => "on the hour".to_owned(),
                1 => "at 1 minute past".to_owned(),
                minute => format!("at {minute} minutes past"),
            };
            return match hour_step {
                Some(1) => (format!("every hour {past}"), true),
                Some(step) => (format!("every {step} hours {past}"), true),
                None => (format!("{past} {}", hours_in_words(&hours)), false),
            };
        }
        let finest = if on_full_minutes {
            match minute_step {
                Some(1) => "every minute".to_owned(),
                Some(step) => format!("every {step} minutes"),
                None => format!("at minutes {}", runs(&minutes, |minute| minute.to_string())),
            }
        } else {
            let second = match even_step(Unit::Second, &seconds) {
                Some(1) => "every second".to_owned(),
                Some(step) => format!("every {step} seconds"),
                None => format!(
                    "at {} {}",
                    noun("second", seconds.len()),
                    runs(&seconds, |second| second.to_string())
                ),
            };
            match minute_step {
                Some(1) if seconds.len() == 1 => format!("{second} of every minute"),
                Some(1) => second,
                Some(step) => format!("{second} of every {}", ordinal_minute(step)),
                None => format!(
                    "{second} of {} {}",
                    noun("minute", minutes.len()),
                    runs(&minutes, |minute| minute.to_string())
                ),
            }
        };
        if every_hour {
            let past_the_hour =
                if on_full_minutes && minute_step.is_none() { " past every hour" } else { "" };
            (format!("{finest}{past_the_hour}"), true)
        } else {
            (format!("{finest} {}", hours_in_words(&hours)), false)
        }
    }
}

/// "minute of every fifth": kept plain, since ordinals beyond a few read badly.
fn ordinal_minute(step: u32) -> String {
    format!("{step} minutes")
}

fn noun(singular: &str, count: usize) -> String {
    if count == 1 { singular.to_owned() } else { format!("{singular}s") }
}

/// The step of a field that is stepped evenly all around the clock, so that no gap is shorter.
fn even_step(unit: Unit, values: &[u32]) -> Option<u32> {
    let count = values.len() as u32;
    let step = unit.size() / count.max(1);
    (count > 1
        && values.iter().copied().eq((0..unit.size()).step_by(step as usize))
        && unit.size().is_multiple_of(step))
    .then_some(step)
}

fn hours_in_words(hours: &[u32]) -> String {
    match hours {
        [only] => format!("from {only:02}:00 to {only:02}:59"),
        [first, .., last] if last - first == hours.len() as u32 - 1 => {
            format!("from {first:02}:00 to {last:02}:59")
        }
        _ => format!("in the hours {}", runs(hours, |hour| hour.to_string())),
    }
}

fn clock_time(time: u32) -> String {
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    match second {
        0 => format!("{hour:02}:{minute:02}"),
        _ => format!("{hour:02}:{minute:02}:{second:02}"),
    }
}

fn describe_days(dates: &Dates) -> String {
    let by_month = describe_days_of_month(dates);
    let by_week = describe_weekdays(dates);
    match (dates.any_day(), dates.any_weekday(), dates.either) {
        (_, true, _) => by_month,
        (true, _, _) => by_week,
        (_, _, true) => format!("{by_month} or {by_week}"),
        (_, _, false) => format!("{by_month}, but only {by_week}"),
    }
}

fn describe_days_of_month(dates: &Dates) -> String {
    let mut parts = Vec::new();
    let days = values(u64::from(dates.days));
    if !days.is_empty() {
        parts.push(format!("{} {}", noun("day", days.len()), runs(&days, |day| day.to_string())));
    }
    parts.extend(
        values(u64::from(dates.nearest_workday))
            .iter()
            .map(|day| format!("the weekday nearest to day {day}")),
    );
    for before_last in values(u64::from(dates.from_last)) {
        parts.push(match before_last {
            0 => "the last day".to_owned(),
            1 => "the day before the last".to_owned(),
            days => format!("the day {days} days before the last"),
        });
    }
    if dates.last_workday {
        parts.push("the last weekday".to_owned());
    }
    format!("on {} of the month", join(&parts))
}

fn describe_weekdays(dates: &Dates) -> String {
    let name = |day: u32| WEEKDAY_WORDS[day as usize % 7].to_owned();
    let mut parts = Vec::new();
    if dates.weekdays & EVERY_WEEKDAY != 0 {
        parts.push(runs(&from_monday(dates.weekdays), name));
    }
    for bit in values(dates.nth_weekdays) {
        parts.push(format!("the {} {}", ORDINALS[(bit / 7) as usize], name(bit % 7)));
    }
    parts.extend(
        from_monday(dates.last_weekdays).iter().map(|day| format!("the last {}", name(*day))),
    );
    let of_the_month =
        if dates.nth_weekdays != 0 || dates.last_weekdays != 0 { " of the month" } else { "" };
    format!("on {}{of_the_month}", join(&parts))
}

/// Values in words, three or more in a row as "a to b".
fn runs(values: &[u32], word: impl Fn(u32) -> String) -> String {
    let parts: Vec<String> = values
        .chunk_by(|left, right| left + 1 == *right)
        .flat_map(|run| match run {
            [first, _, .., last] => vec![format!("{} to {}", word(*first), word(*last))],
            few => few.iter().map(|value| word(*value)).collect(),
        })
        .collect();
    join(&parts)
}

/// `a`, `a and b`, `a, b and c`.
fn join(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}
