//! One entry of `exclude`, checked.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use jiff::civil::{Date, Weekday};

use crate::Calendar;
use crate::schedule::DefinitionError;

/// Days or times at which a schedule does not fire, in its time zone.
///
/// ```
/// use punctual_core::ExcludedTime;
/// use jiff::civil::{Weekday, date};
///
/// assert_eq!(ExcludedTime::from(date(2027, 12, 24)).to_string(), "2027-12-24");
/// assert_eq!(ExcludedTime::from(Weekday::Saturday).to_string(), "Sat");
/// let holidays = ExcludedTime::from(date(2027, 12, 24)..=date(2028, 1, 2));
/// assert_eq!(holidays, "2027-12-24..2028-01-02".parse()?);
/// let weekends: ExcludedTime = "Sat 00:00-Mon 06:00".parse()?;
/// assert!("Caturday".parse::<ExcludedTime>().is_err());
/// # Ok::<(), punctual_core::schedule::DefinitionError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExcludedTime(String);

/// One day.
impl From<Date> for ExcludedTime {
    fn from(day: Date) -> ExcludedTime {
        ExcludedTime(day.to_string())
    }
}

/// Several days, including the last one.
impl From<RangeInclusive<Date>> for ExcludedTime {
    fn from(days: RangeInclusive<Date>) -> ExcludedTime {
        ExcludedTime(format!("{}..{}", days.start(), days.end()))
    }
}

/// This day of every week.
impl From<Weekday> for ExcludedTime {
    fn from(day: Weekday) -> ExcludedTime {
        let name = match day {
            Weekday::Monday => "Mon",
            Weekday::Tuesday => "Tue",
            Weekday::Wednesday => "Wed",
            Weekday::Thursday => "Thu",
            Weekday::Friday => "Fri",
            Weekday::Saturday => "Sat",
            Weekday::Sunday => "Sun",
        };
        ExcludedTime(name.to_owned())
    }
}

impl FromStr for ExcludedTime {
    type Err = DefinitionError;

    /// Reads `2027-12-24`, `2027-12-24..2028-01-02`, `12-25` of every year, `Sat`, or
    /// `Sat 00:00-Mon 06:00`.
    fn from_str(text: &str) -> Result<ExcludedTime, DefinitionError> {
        let text = text.trim();
        match Calendar::default().add(text) {
            Ok(()) => Ok(ExcludedTime(text.to_owned())),
            Err(message) => Err(DefinitionError { field: "exclude".to_owned(), message }),
        }
    }
}

impl fmt::Display for ExcludedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    /// What a typed value prints is what `exclude` reads.
    #[test]
    fn typed_values_can_be_parsed() {
        let days = [date(2027, 12, 24), date(1970, 1, 1), date(2199, 12, 31)];
        let days = days.into_iter().map(ExcludedTime::from);
        let week = Weekday::Monday.cycle_forward().take(7).map(ExcludedTime::from);
        let range = ExcludedTime::from(date(2027, 12, 24)..=date(2028, 1, 2));
        for time in days.chain(week).chain([range]) {
            assert_eq!(time.to_string().parse(), Ok(time));
        }
    }

    #[test]
    fn the_error_names_the_field() {
        let refused = |text: &str| text.parse::<ExcludedTime>().unwrap_err();
        insta::assert_snapshot!(refused("Caturday"), @"`exclude`: unknown weekday `Caturday`; expected one of Mon, Tue, Wed, Thu, Fri, Sat, Sun");
        assert_eq!(refused("2027-02-30").field, "exclude");
    }
}
