//! Random expressions that know what they mean without any parser: each is made of items,
//! and an item says by itself which values it matches.

use std::fmt;

use jiff::civil::Date;

use crate::random::Random;

/// One part of a field.
pub(crate) enum Item {
    Star,
    StarStep(u32),
    Value(u32),
    Range(u32, u32),
    RangeStep(u32, u32, u32),
    Last,
    BeforeLast(u32),
    Nearest(u32),
    LastWorkday,
    Nth(u32, u32),
    LastOf(u32),
}

impl Item {
    fn plain(&self, value: u32, low: u32) -> bool {
        match *self {
            Item::Star => true,
            Item::StarStep(step) => (value - low).is_multiple_of(step),
            Item::Value(wanted) => value == wanted,
            Item::Range(from, to) => (from..=to).contains(&value),
            Item::RangeStep(from, to, step) => {
                (from..=to).contains(&value) && (value - from).is_multiple_of(step)
            }
            _ => false,
        }
    }

    fn matches_day(&self, date: Date) -> bool {
        let (day, length) = (date.day() as u32, date.days_in_month() as u32);
        match *self {
            Item::Last => day == length,
            Item::BeforeLast(before) => day + before == length,
            Item::Nearest(wanted) => wanted <= length && nearest_workday(date, wanted) == day,
            Item::LastWorkday => nearest_workday(date, length) == day,
            _ => self.plain(day, 1),
        }
    }

    fn matches_weekday(&self, date: Date) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset() as u32;
        match *self {
            Item::Nth(wanted, nth) => {
                weekday == wanted % 7 && (date.day() as u32).div_ceil(7) == nth
            }
            Item::LastOf(wanted) => {
                weekday == wanted % 7 && date.day() as u32 + 7 > date.days_in_month() as u32
            }
            // 7 is Sunday too.
            _ => {
                self.plain(weekday, 0)
                    || (weekday == 0 && !matches!(self, Item::StarStep(_)) && self.plain(7, 0))
            }
        }
    }
}

fn nearest_workday(date: Date, wanted: u32) -> u32 {
    let is_workday = |day: i32| {
        (1..=date.days_in_month() as i32).contains(&day)
            && date
                .with()
                .day(day as i8)
                .build()
                .is_ok_and(|date| (1..=5).contains(&date.weekday().to_monday_one_offset()))
    };
    let near = [0, -1, 1, -2, 2].map(|distance| wanted as i32 + distance);
    near.into_iter().find(|day| is_workday(*day)).expect("a workday within two days") as u32
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Star => write!(f, "*"),
            Item::StarStep(step) => write!(f, "*/{step}"),
            Item::Value(value) => write!(f, "{value}"),
            Item::Range(from, to) => write!(f, "{from}-{to}"),
            Item::RangeStep(from, to, step) => write!(f, "{from}-{to}/{step}"),
            Item::Last => write!(f, "L"),
            Item::BeforeLast(before) => write!(f, "L-{before}"),
            Item::Nearest(day) => write!(f, "{day}W"),
            Item::LastWorkday => write!(f, "LW"),
            Item::Nth(day, nth) => write!(f, "{day}#{nth}"),
            Item::LastOf(day) => write!(f, "{day}L"),
        }
    }
}

struct Field {
    items: Vec<Item>,
    low: u32,
}

impl Field {
    fn has(&self, value: u32) -> bool {
        self.items.iter().any(|item| item.plain(value, self.low))
    }

    fn has_star(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Star | Item::StarStep(_)))
    }

    fn is_star(&self) -> bool {
        matches!(self.items.as_slice(), [Item::Star])
    }

    fn of_crontab(text: &str, low: u32) -> Field {
        const MONTHS: &str = "jan feb mar apr may jun jul aug sep oct nov dec";
        const DAYS: &str = "sun mon tue wed thu fri sat";
        let value = |word: &str| {
            let word = word.to_lowercase();
            let named = |names: &str| names.split(' ').position(|name| name == word);
            let month = named(MONTHS).map(|at| at as u32 + 1);
            let number = month.or_else(|| named(DAYS).map(|at| at as u32));
            number.unwrap_or_else(|| word.parse().expect("a value"))
        };
        let item = |text: &str| {
            let (range, step) = match text.split_once('/') {
                Some((range, step)) => (range, Some(value(step))),
                None => (text, None),
            };
            match (range, range.split_once('-'), step) {
                ("*", _, None) => Item::Star,
                ("*", _, Some(step)) => Item::StarStep(step),
                (_, Some((from, to)), None) => Item::Range(value(from), value(to)),
                (_, Some((from, to)), Some(step)) => Item::RangeStep(value(from), value(to), step),
                (one, None, _) => Item::Value(value(one)),
            }
        };
        Field { items: text.split(',').map(item).collect(), low }
    }

    /// A field like those people write: often `*`, else a value or two, a range, a step.
    fn random(random: &mut Random, low: u32, high: u32, star_once_in: u64) -> Field {
        if random.once_in(star_once_in) {
            return Field { items: vec![Item::Star], low };
        }
        let count = if random.once_in(4) { 2 } else { 1 };
        let items = (0..count).map(|_| {
            let (from, to) = (random.within(low, high), random.within(low, high));
            let (from, to) = (from.min(to), from.max(to));
            match random.below(6) {
                0 => Item::StarStep(random.within(1, high - low + 1)),
                1 => Item::Range(from, to),
                2 => Item::RangeStep(from, to, random.within(1, high - low + 1)),
                _ => Item::Value(from),
            }
        });
        Field { items: items.collect(), low }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items: Vec<String> = self.items.iter().map(Item::to_string).collect();
        f.write_str(&items.join(","))
    }
}

/// A random expression.
pub(crate) struct Pattern {
    second: Option<Field>,
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
    year: Option<Field>,
    both: bool,
}

impl Pattern {
    pub(crate) fn random(random: &mut Random) -> Pattern {
        let second = random.once_in(8).then(|| Field::random(random, 0, 59, 10));
        let year =
            (second.is_some() && random.once_in(3)).then(|| Field::random(random, 1970, 2199, 2));
        let minute = Field::random(random, 0, 59, 4);
        // Early hours are where clocks change.
        let latest = if random.once_in(2) { 4 } else { 23 };
        let hour = match random.once_in(4) {
            true => Field { items: vec![Item::Star], low: 0 },
            false => Field::random(random, 0, latest, 6),
        };
        let mut day = Field::random(random, 1, 31, 2);
        let mut weekday = Field::random(random, 0, 6, 2);
        if random.once_in(6) {
            day.items.push(match random.below(4) {
                0 => Item::Last,
                1 => Item::BeforeLast(random.within(1, 30)),
                2 => Item::Nearest(random.within(1, 31)),
                _ => Item::LastWorkday,
            });
        }
        if random.once_in(6) {
            let wanted = random.within(0, 7);
            weekday.items.push(match random.below(3) {
                0 => Item::LastOf(wanted),
                1 => Item::Value(wanted),
                _ => Item::Nth(wanted, random.within(1, 5)),
            });
        }
        // Which of the two meanings such a pair has must be said; see the written rule.
        let ambiguous =
            !day.is_star() && !weekday.is_star() && (day.has_star() || weekday.has_star());
        let both = ambiguous || random.once_in(5);
        Pattern {
            second,
            minute,
            hour,
            day,
            month: Field::random(random, 1, 12, 2),
            weekday,
            year,
            both,
        }
    }

    /// Five fields of a crontab, as Debian's cron reads them: both days have to match if either
    /// field begins with a star, and a step beyond the field leaves the first value.
    pub(crate) fn of_crontab(fields: [&str; 5]) -> Pattern {
        let [minute, hour, day, month, weekday] = fields;
        let both = day.starts_with('*') || weekday.starts_with('*');
        Pattern {
            second: None,
            minute: Field::of_crontab(minute, 0),
            hour: Field::of_crontab(hour, 0),
            day: Field::of_crontab(day, 1),
            month: Field::of_crontab(month, 1),
            weekday: Field::of_crontab(weekday, 0),
            year: None,
            both,
        }
    }

    /// Does a clock change leave the cadence alone?
    pub(crate) fn is_wild(&self) -> bool {
        self.minute.has_star() || self.hour.has_star()
    }

    pub(crate) fn matches_minute(&self, hour: u32, minute: u32) -> bool {
        self.minute.has(minute) && self.hour.has(hour)
    }

    pub(crate) fn matches_second(&self, second: u32) -> bool {
        self.second.as_ref().map_or(second == 0, |field| field.has(second))
    }

    pub(crate) fn matches_date(&self, date: Date) -> bool {
        let year = date.year() as u32;
        if !self.month.has(date.month() as u32) || !(1970..=2199).contains(&year) {
            return false;
        }
        if self.year.as_ref().is_some_and(|field| !field.has(year)) {
            return false;
        }
        let by_month = self.day.items.iter().any(|item| item.matches_day(date));
        let by_week = self.weekday.items.iter().any(|item| item.matches_weekday(date));
        if self.day.is_star() || self.weekday.is_star() || self.both {
            by_month && by_week
        } else {
            by_month || by_week
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(second) = &self.second {
            write!(f, "{second} ")?;
        }
        let plus = if self.both { "+" } else { "" };
        write!(
            f,
            "{} {} {} {} {plus}{}",
            self.minute, self.hour, self.day, self.month, self.weekday
        )?;
        match &self.year {
            Some(year) => write!(f, " {year}"),
            None => Ok(()),
        }
    }
}
