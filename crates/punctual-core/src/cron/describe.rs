//! An expression in plain words.

use super::Cron;
use super::dates::{Dates, EVERY_MONTH};
use super::print::{from_monday, values};
use super::unit::{FIRST_YEAR, LAST_YEAR, MONTH_WORDS, Unit};

/// Up to this many times of day are written out one by one.
const WRITTEN_OUT: usize = 6;

const WEEKDAY_WORDS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

impl Cron {
    /// What the expression says, for people: `at 02:30 every day`.
    pub fn describe(&self) -> String {
        let dates = &self.dates;
        let (mut words, is_cadence) = self.describe_times();
        let months = (dates.months != EVERY_MONTH).then(|| {
            runs(&values(dates.months), |month| MONTH_WORDS[month as usize - 1].to_owned())
        });
        if !(dates.any_day() && dates.any_weekday()) {
            words.push_str(&describe_days(dates, months.as_deref()));
        } else {
            words.push_str(if is_cadence { "" } else { " every day" });
            if let Some(months) = &months {
                words.push_str(&format!(" in {months}"));
            }
        }
        let years: Vec<u32> =
            (FIRST_YEAR..=LAST_YEAR).filter(|year| dates.has_year(i64::from(*year))).collect();
        if years.len() != Unit::Year.size() as usize {
            words.push_str(&describe_years(&years));
        }
        words
    }

    /// The times of day in words, and whether they are a cadence that needs no "every day".
    fn describe_times(&self) -> (String, bool) {
        let times = &self.times;
        let (seconds, minutes, hours) =
            (values(times.seconds), values(times.minutes), values(times.hours));
        if seconds.len() * minutes.len() * hours.len() <= WRITTEN_OUT {
            let mut clock = Vec::new();
            times.each_minute(|time, _| {
                clock.extend(seconds.iter().map(|second| clock_time(time as u32 + second)));
            });
            return (format!("at {}", join(&clock)), false);
        }
        if seconds == [0]
            && let [minute] = minutes.as_slice()
        {
            return describe_hourly(*minute, &hours);
        }
        let minute_step = even_step(Unit::Minute, &minutes);
        let listed_minutes = || {
            format!("{} {}", noun("minute", &minutes), runs(&minutes, |minute| minute.to_string()))
        };
        let finest = if seconds == [0] {
            match minute_step {
                Some(1) => "every minute".to_owned(),
                Some(step) => format!("every {step} minutes"),
                None if hours.len() == 24 => format!("at {} of every hour", listed_minutes()),
                None => format!("at {}", listed_minutes()),
            }
        } else {
            let second = match even_step(Unit::Second, &seconds) {
                Some(1) => "every second".to_owned(),
                Some(step) => format!("every {step} seconds"),
                None => {
                    let listed = runs(&seconds, |second| second.to_string());
                    format!("at {} {listed}", noun("second", &seconds))
                }
            };
            match minute_step {
                Some(1) if second.starts_with("at") => format!("{second} of every minute"),
                Some(1) => second,
                _ if hours.len() == 24 => format!("{second} in {} of every hour", listed_minutes()),
                _ => format!("{second} in {}", listed_minutes()),
            }
        };
        match hours.len() {
            24 => (finest, true),
            _ => (format!("{finest} {}", hours_in_words(&hours)), false),
        }
    }
}

/// One minute of several hours.
fn describe_hourly(minute: u32, hours: &[u32]) -> (String, bool) {
    let past = match minute {
        0 => "on the hour".to_owned(),
        minute => format!("at minute {minute}"),
    };
    match (even_step(Unit::Hour, hours), hours) {
        (Some(1), _) => (format!("every hour {past}"), true),
        (Some(step), _) => (format!("every {step} hours {past}"), true),
        (None, [first, .., last]) if last - first == hours.len() as u32 - 1 => {
            (format!("every hour from {first:02}:{minute:02} to {last:02}:{minute:02}"), false)
        }
        _ => (
            format!(
                "at {}",
                join(
                    &hours.iter().map(|hour| format!("{hour:02}:{minute:02}")).collect::<Vec<_>>()
                )
            ),
            false,
        ),
    }
}

fn noun(singular: &str, values: &[u32]) -> String {
    if values.len() == 1 { singular.to_owned() } else { format!("{singular}s") }
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
        [first, ..] if hours[hours.len() - 1] - first == hours.len() as u32 - 1 => {
            format!("between {first:02}:00 and {:02}:59", hours[hours.len() - 1])
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

/// The days in words, with the blank or comma that goes before them.
fn describe_days(dates: &Dates, months: Option<&str>) -> String {
    let only_plain_weekdays =
        dates.any_day() && dates.nth_weekdays == 0 && dates.last_weekdays == 0;
    // "on the last day of June" where that is all there is to say, else "…, in June".
    let of_months =
        !dates.either && !only_plain_weekdays && (dates.any_day() || dates.any_weekday());
    let of = format!("of {}", months.filter(|_| of_months).unwrap_or("the month"));
    let by_month = || format!("on {} {of}", days_of_month(dates));
    let by_week = || match weekdays(dates) {
        (words, true) => format!("on {words} {of}"),
        (words, false) => format!("on {words}"),
    };
    let days = match (dates.any_day(), dates.any_weekday(), dates.either) {
        (_, true, _) => format!(" {}", by_month()),
        (true, _, _) if only_plain_weekdays && weekdays(dates).0.contains(" to ") => {
            format!(", {}", weekdays(dates).0)
        }
        (true, _, _) => format!(" {}", by_week()),
        (_, _, true) => format!(" {} or {}", by_month(), by_week()),
        (_, _, false) => format!(" {}, but only {}", by_month(), by_week()),
    };
    match months.filter(|_| !of_months) {
        Some(months) => format!("{days}, in {months}"),
        None => days,
    }
}

fn days_of_month(dates: &Dates) -> String {
    let mut parts = Vec::new();
    let days = values(u64::from(dates.days));
    if !days.is_empty() {
        parts.push(format!("{} {}", noun("day", &days), runs(&days, |day| day.to_string())));
    }
    let nearest = values(u64::from(dates.nearest_workday));
    parts.extend(nearest.iter().map(|day| format!("the weekday nearest to day {day}")));
    for before_last in values(u64::from(dates.from_last)) {
        parts.push(match before_last {
            0 => "the last day".to_owned(),
            1 => "the second-to-last day".to_owned(),
            days => format!("the day {days} days before the last day"),
        });
    }
    if dates.last_workday {
        parts.push("the last weekday".to_owned());
    }
    join(&parts)
}

/// The weekdays in words, and whether they are counted within a month.
fn weekdays(dates: &Dates) -> (String, bool) {
    let name = |day: u32| WEEKDAY_WORDS[day as usize % 7].to_owned();
    let mut parts = Vec::new();
    if dates.weekdays != 0 {
        parts.push(runs(&from_monday(dates.weekdays), name));
    }
    for bit in values(dates.nth_weekdays) {
        parts.push(format!("the {} {}", ORDINALS[(bit / 7) as usize], name(bit % 7)));
    }
    let last = from_monday(dates.last_weekdays);
    parts.extend(last.iter().map(|day| format!("the last {}", name(*day))));
    (join(&parts), dates.nth_weekdays != 0 || dates.last_weekdays != 0)
}

fn describe_years(years: &[u32]) -> String {
    let step = years.get(1).map_or(1, |second| second - years[0]);
    let is_stepped = step > 1 && years.windows(2).all(|pair| pair[1] - pair[0] == step);
    match years {
        [first, .., last] if is_stepped && years.len() > 3 => {
            format!(", every {step} years from {first} to {last}")
        }
        _ => format!(", in {}", runs(years, |year| year.to_string())),
    }
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
