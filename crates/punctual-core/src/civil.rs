//! Dates of the proleptic Gregorian calendar as plain integers.
//!
//! The search for a slot does this arithmetic for each month it passes, so it is done on
//! day numbers (0 is 1970-01-01) by Euclidean division over the calendar's 400-year era,
//! without the range checks of a general date type. Tests hold it against `jiff`, day by day.

/// Seconds in a civil day.
pub(crate) const DAY: i64 = 86_400;

/// Days in the 400 years after which the calendar repeats.
const ERA: u32 = 146_097;
/// Day number of 0000-03-01: eras begin in March so that the leap day is their last.
const MARCH_OF_YEAR_ZERO: i64 = -719_468;

/// A date: year, month 1–12, day 1–31.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: i64,
    pub(crate) month: u32,
    pub(crate) day: u32,
}

impl Date {
    /// The date with this day number, which is not before the year 0.
    pub(crate) fn from_day(day: i64) -> Date {
        // Unsigned and small, for which the machine divides fastest.
        let since = (day - MARCH_OF_YEAR_ZERO) as u32;
        let (era, day_of_era) = (since / ERA, since % ERA);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / (ERA - 1)) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // Months from March have 153 days per five of them.
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = i64::from(era * 400 + year_of_era + u32::from(month <= 2));
        Date { year, month, day }
    }

    /// The day number of this date, whose year is not before 0.
    pub(crate) fn to_day(self) -> i64 {
        let year = self.year as u32 - u32::from(self.month <= 2);
        let (era, year_of_era) = (year / 400, year % 400);
        let month_from_march = (self.month + 9) % 12;
        let day_of_year = (153 * month_from_march + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        i64::from(era * ERA + day_of_era) + MARCH_OF_YEAR_ZERO
    }
}

/// How many days the month has.
pub(crate) fn month_length(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The weekday of a day number, Sunday being 0.
pub(crate) fn weekday(day: i64) -> u32 {
    (day + 4).rem_euclid(7) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_date_agrees_with_jiff_and_goes_there_and_back() {
        let mut expected = jiff::civil::date(1969, 1, 1);
        let mut day = -365;
        while expected.year() < 2202 {
            let date = Date::from_day(day);
            assert_eq!(
                (date.year, date.month, date.day),
                (i64::from(expected.year()), expected.month() as u32, expected.day() as u32)
            );
            assert_eq!(date.to_day(), day);
            assert_eq!(weekday(day), expected.weekday().to_sunday_zero_offset() as u32);
            assert_eq!(month_length(date.year, date.month), expected.days_in_month() as u32);
            expected = expected.tomorrow().unwrap();
            day += 1;
        }
    }
}
