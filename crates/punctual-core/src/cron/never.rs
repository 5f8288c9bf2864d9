//! Expressions that are well formed and yet name no date at all.

use super::dates::{Dates, EVERY_MONTH, EVERY_YEAR};
use super::print::values;
use super::unit::MONTH_WORDS;

/// Why no date ever matches, if none does.
pub(super) fn reason(dates: &Dates) -> Option<String> {
    if dates.next(i64::MIN / 2).is_some() {
        return None;
    }
    let in_any_year = Dates { years: EVERY_YEAR, ..dates.clone() };
    if in_any_year.next(i64::MIN / 2).is_some() {
        return Some("the date does not exist in any of the given years".to_owned());
    }
    let only_plain_days = dates.from_last == 0 && dates.nearest_workday == 0 && !dates.last_workday;
    let months: Vec<&str> =
        values(dates.months).iter().map(|month| MONTH_WORDS[*month as usize - 1]).collect();
    if only_plain_days && dates.any_weekday() && dates.months != EVERY_MONTH {
        let first = dates.days.trailing_zeros();
        return Some(format!("day {first} does not exist in {}", months.join(" or ")));
    }
    Some("no date matches both the days and the months".to_owned())
}
