//! The normalized form: one way to write each meaning.

use std::fmt;

use super::Cron;
use super::dates::EVERY_WEEKDAY;
use super::unit::{FIRST_YEAR, LAST_YEAR, MONTHS, Unit, WEEKDAYS};

/// Values in a row from which a range reads better than a list.
const RANGE_FROM: usize = 3;
/// Values at equal distance from which a step reads better than a list.
const STEP_FROM: usize = 5;

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::with_capacity(7);
        if self.fields > 5 {
            parts.push(self.plain(Unit::Second, self.times.seconds));
        }
        parts.push(self.timed(Unit::Minute, self.times.minutes, self.times.wild_minute));
        parts.push(self.timed(Unit::Hour, self.times.hours, self.times.wild_hour));
        parts.push(self.days_of_month());
        parts.push(self.plain(Unit::Month, self.dates.months));
        parts.push(self.days_of_week());
        if self.fields > 6 {
            let years: Vec<u32> = (FIRST_YEAR..=LAST_YEAR)
                .filter(|year| self.dates.has_year(i64::from(*year)))
                .collect();
            parts.push(or_star(Unit::Year, &years));
        }
        f.write_str(&parts.join(" "))
    }
}

impl Cron {
    /// A field whose `*` says nothing beyond its values.
    fn plain(&self, unit: Unit, bits: u64) -> String {
        match self.spread[unit as usize] {
            Some(spread) => spread.to_string(),
            None => or_star(unit, &values(bits)),
        }
    }

    /// Minute or hour, where `*` also decides what a clock change does and must be kept.
    fn timed(&self, unit: Unit, bits: u64, wild: bool) -> String {
        if let Some(spread) = self.spread[unit as usize] {
            return spread.to_string();
        }
        if !wild {
            return list(unit, &values(bits));
        }
        let starred = |step: u32| {
            (unit.low()..=unit.high()).step_by(step as usize).fold(0, |all, value| all | 1 << value)
        };
        let step =
            (1..=unit.size()).find(|step| starred(*step) & !bits == 0).unwrap_or(unit.size());
        let star = if step == 1 { "*".to_owned() } else { format!("*/{step}") };
        match bits & !starred(step) {
            0 => star,
            rest => format!("{star},{}", list(unit, &values(rest))),
        }
    }

    fn days_of_month(&self) -> String {
        let dates = &self.dates;
        if dates.any_day() {
            return "*".to_owned();
        }
        if let Some(spread) = self.spread[Unit::DayOfMonth as usize] {
            return spread.to_string();
        }
        let mut items = Vec::new();
        if dates.days != 0 {
            items.push(list(Unit::DayOfMonth, &values(u64::from(dates.days))));
        }
        items.extend(values(u64::from(dates.nearest_workday)).iter().map(|day| format!("{day}W")));
        for before_last in values(u64::from(dates.from_last)) {
            items.push(if before_last == 0 { "L".to_owned() } else { format!("L-{before_last}") });
        }
        if dates.last_workday {
            items.push("LW".to_owned());
        }
        items.join(",")
    }

    fn days_of_week(&self) -> String {
        let dates = &self.dates;
        if dates.any_weekday() {
            return "*".to_owned();
        }
        let plus = if dates.either || dates.any_day() { "" } else { "+" };
        if let Some(spread) = self.spread[Unit::DayOfWeek as usize] {
            return format!("{plus}{spread}");
        }
        let mut items = Vec::new();
        if dates.weekdays != 0 {
            items.push(list(Unit::DayOfWeek, &from_monday(dates.weekdays)));
        }
        for bit in values(dates.nth_weekdays) {
            items.push(format!("{}#{}", WEEKDAYS[(bit % 7) as usize], bit / 7 + 1));
        }
        items.extend(
            from_monday(dates.last_weekdays)
                .iter()
                .map(|day| format!("{}L", WEEKDAYS[(day % 7) as usize])),
        );
        format!("{plus}{}", items.join(","))
    }
}

/// The values that are in a set.
pub(super) fn values(bits: u64) -> Vec<u32> {
    (0..64).filter(|value| bits >> value & 1 == 1).collect()
}

/// The weekdays of a set in the order of a week that ends with Sunday, as 7.
pub(super) fn from_monday(weekdays: u32) -> Vec<u32> {
    let sunday_last = (weekdays & EVERY_WEEKDAY) | (weekdays & 1) << 7;
    values(u64::from(sunday_last & !1))
}

fn name(unit: Unit, value: u32) -> String {
    match unit {
        Unit::Month => MONTHS[value as usize - 1].to_owned(),
        Unit::DayOfWeek => WEEKDAYS[value as usize % 7].to_owned(),
        _ => value.to_string(),
    }
}

/// `*` or `*/n` where the values are exactly that, else as a list.
fn or_star(unit: Unit, values: &[u32]) -> String {
    if values.len() == unit.size() as usize {
        return "*".to_owned();
    }
    if values.len() >= RANGE_FROM && values[0] == unit.low() {
        let step = values[1] - values[0];
        if step > 1 && (unit.low()..=unit.high()).step_by(step as usize).eq(values.iter().copied())
        {
            return format!("*/{step}");
        }
    }
    list(unit, values)
}

/// Values as `a-b/n`, or as ranges and single values. Never empty for a non-empty set.
fn list(unit: Unit, values: &[u32]) -> String {
    if values.len() >= STEP_FROM && unit != Unit::DayOfWeek {
        let step = values[1] - values[0];
        if step > 1 && values.windows(2).all(|pair| pair[1] - pair[0] == step) {
            return format!(
                "{}-{}/{step}",
                name(unit, values[0]),
                name(unit, values[values.len() - 1])
            );
        }
    }
    let runs = values.chunk_by(|left, right| left + 1 == *right);
    let items = runs.flat_map(|run| match run {
        [first, .., last] if run.len() >= RANGE_FROM => {
            vec![format!("{}-{}", name(unit, *first), name(unit, *last))]
        }
        few => few.iter().map(|value| name(unit, *value)).collect(),
    });
    items.collect::<Vec<_>>().join(",")
}
