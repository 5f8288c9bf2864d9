//! Which dates an expression names: month, year and the two day fields.

use super::spread::Spread;
use super::unit::{FIRST_YEAR, LAST_YEAR, Unit};
use crate::civil::{Date, month_length, weekday};

/// All days 1–31, bit n for day n.
pub(super) const EVERY_DAY: u32 = !1;
/// All weekdays, bit 0 for Sunday.
pub(super) const EVERY_WEEKDAY: u32 = 0x7F;
/// All months 1–12, bit n for month n.
pub(super) const EVERY_MONTH: u64 = 0x1FFE;

/// All years, bit n for the n-th after the first.
pub(super) const EVERY_YEAR: [u64; 4] = [!0, !0, !0, !0 >> (256 - (LAST_YEAR - FIRST_YEAR + 1))];

/// 1970-01-01 and 2199-12-31, between which all slots lie.
const FIRST_DAY: i64 = 0;
const LAST_DAY: i64 = 84_005;

/// The dates of an expression, as sets of bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dates {
    /// Bit n for day n of the month.
    pub(crate) days: u32,
    /// `L` is bit 0, `L-n` bit n.
    pub(crate) from_last: u32,
    /// `nW` is bit n.
    pub(crate) nearest_workday: u32,
    /// `LW`.
    pub(crate) last_workday: bool,
    /// Bit 0 for Sunday.
    pub(crate) weekdays: u32,
    /// `d#n` is bit (n − 1) × 7 + d.
    pub(crate) nth_weekdays: u64,
    /// `dL` is bit d.
    pub(crate) last_weekdays: u32,
    /// One day field is enough; otherwise both must match.
    pub(crate) either: bool,
    /// Bit n for month n.
    pub(crate) months: u64,
    /// Bit n for the n-th year after the first.
    pub(crate) years: [u64; 4],
}

impl Dates {
    /// No day yet, all years: what the parser starts from.
    pub(super) fn empty() -> Dates {
        Dates {
            days: 0,
            from_last: 0,
            nearest_workday: 0,
            last_workday: false,
            weekdays: 0,
            nth_weekdays: 0,
            last_weekdays: 0,
            either: false,
            months: 0,
            years: EVERY_YEAR,
        }
    }

    /// Drops what other parts make superfluous, so that equal meanings are equal values.
    pub(super) fn simplify(&mut self, spread: &mut [Option<Spread>; 6]) {
        if self.either && (self.any_day() || self.any_weekday()) {
            self.either = false;
            (self.days, self.weekdays) = (EVERY_DAY, EVERY_WEEKDAY);
        }
        if self.any_day() {
            (self.from_last, self.nearest_workday, self.last_workday) = (0, 0, false);
            spread[Unit::DayOfMonth as usize] = None;
        }
        if self.any_weekday() {
            spread[Unit::DayOfWeek as usize] = None;
        }
        for week in 0..5 {
            self.nth_weekdays &= !(u64::from(self.weekdays) << (week * 7));
        }
        self.last_weekdays &= !self.weekdays;
    }

    /// The day-of-month field lets every day pass.
    pub(crate) fn any_day(&self) -> bool {
        self.days == EVERY_DAY
    }

    /// The day-of-week field lets every day pass.
    pub(crate) fn any_weekday(&self) -> bool {
        self.weekdays == EVERY_WEEKDAY
    }

    /// Does every date match?
    fn are_all(&self) -> bool {
        self.any_day()
            && self.any_weekday()
            && self.months == EVERY_MONTH
            && self.years == EVERY_YEAR
    }

    /// Does the date with this day number match?
    pub(crate) fn contain(&self, day: i64) -> bool {
        if !(FIRST_DAY..=LAST_DAY).contains(&day) {
            return false;
        }
        let date = Date::from_day(day);
        self.has_year(date.year)
            && self.has_month(date.month)
            && self.days_of(date.year, date.month) >> date.day & 1 == 1
    }

    /// The first matching day number at or after `day`.
    pub(super) fn next(&self, day: i64) -> Option<i64> {
        if (FIRST_DAY..=LAST_DAY).contains(&day) && self.are_all() {
            return Some(day);
        }
        let date = Date::from_day(day.max(FIRST_DAY));
        let (mut year, mut month) = (date.year, date.month);
        let mut not_before = !0 << date.day;
        while year <= i64::from(LAST_YEAR) {
            if self.has_year(year) {
                while month <= 12 {
                    if self.has_month(month) {
                        let days = self.days_of(year, month) & not_before;
                        if days != 0 {
                            return Some(Date { year, month, day: days.trailing_zeros() }.to_day());
                        }
                    }
                    not_before = !0;
                    month += 1;
                }
            }
            not_before = !0;
            month = 1;
            year += 1;
        }
        None
    }

    /// The last matching day number at or before `day`.
    pub(super) fn previous(&self, day: i64) -> Option<i64> {
        if day < FIRST_DAY {
            return None;
        }
        let date = Date::from_day(day.min(LAST_DAY));
        let (mut year, mut month) = (date.year, date.month);
        let mut not_after = !0 >> (31 - date.day);
        while year >= i64::from(FIRST_YEAR) {
            if self.has_year(year) {
                while month >= 1 {
                    if self.has_month(month) {
                        let days = self.days_of(year, month) & not_after;
                        if days != 0 {
                            return Some(
                                Date { year, month, day: 31 - days.leading_zeros() }.to_day(),
                            );
                        }
                    }
                    not_after = !0;
                    month -= 1;
                }
            }
            not_after = !0;
            month = 12;
            year -= 1;
        }
        None
    }

    fn has_month(&self, month: u32) -> bool {
        self.months >> month & 1 == 1
    }

    pub(super) fn has_year(&self, year: i64) -> bool {
        let index = year - i64::from(FIRST_YEAR);
        (0..256).contains(&index) && self.years[(index / 64) as usize] >> (index % 64) & 1 == 1
    }

    /// The matching days of a month, bit n for day n.
    pub(super) fn days_of(&self, year: i64, month: u32) -> u32 {
        let length = month_length(year, month);
        let exist = EVERY_DAY & (!0 >> (31 - length));
        if self.any_day() && self.any_weekday() {
            return exist;
        }
        let first = weekday(Date { year, month, day: 1 }.to_day());
        let by_month = self.days_by_month(length, first);
        let by_week = self.days_by_week(length, first);
        exist & if self.either { by_month | by_week } else { by_month & by_week }
    }

    /// What the day-of-month field names in a month of this length that begins on weekday `first`.
    fn days_by_month(&self, length: u32, first: u32) -> u32 {
        let mut days = self.days;
        let mut rest = self.from_last;
        while rest != 0 {
            let before_last = rest.trailing_zeros();
            rest &= rest - 1;
            if before_last < length {
                days |= 1 << (length - before_last);
            }
        }
        let mut rest = self.nearest_workday;
        while rest != 0 {
            let day = rest.trailing_zeros();
            rest &= rest - 1;
            if day <= length {
                days |= 1 << nearest_workday(day, length, first);
            }
        }
        if self.last_workday {
            days |= 1 << nearest_workday(length, length, first);
        }
        days
    }

    /// What the day-of-week field names in such a month.
    fn days_by_week(&self, length: u32, first: u32) -> u32 {
        // Seven bits, the first one for the month's first day, repeated over five weeks.
        const EVERY_WEEK: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;
        let from_first = |weekdays: u32| {
            u64::from((weekdays >> first | weekdays << (7 - first)) & EVERY_WEEKDAY)
        };
        let mut days = from_first(self.weekdays) * EVERY_WEEK;
        if self.nth_weekdays != 0 {
            for week in 0..5 {
                days |= from_first((self.nth_weekdays >> (week * 7)) as u32 & EVERY_WEEKDAY)
                    << (week * 7);
            }
        }
        if self.last_weekdays != 0 {
            let last_week = EVERY_DAY as u64 >> 1 & (0x7F << (length - 7));
            days |= (from_first(self.last_weekdays) * EVERY_WEEK) & last_week;
        }
        (days << 1) as u32
    }
}

/// Monday to Friday nearest to `day` without leaving the month.
fn nearest_workday(day: u32, length: u32, first: u32) -> u32 {
    match (first + day - 1) % 7 {
        0 if day == length => day - 2,
        0 => day + 1,
        6 if day == 1 => day + 2,
        6 => day - 1,
        _ => day,
    }
}
