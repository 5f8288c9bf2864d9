//! The seven fields of an expression: what each is called and which values it takes.

/// One field of a cron expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// 0–59, only in expressions of six or seven fields.
    Second,
    /// 0–59.
    Minute,
    /// 0–23.
    Hour,
    /// 1–31.
    DayOfMonth,
    /// 1–12 or `JAN`–`DEC`.
    Month,
    /// 0–7 or `SUN`–`SAT`; 0 and 7 are Sunday.
    DayOfWeek,
    /// 1970–2199, only in expressions of seven fields.
    Year,
}

pub(super) const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
/// The months in full, for sentences.
pub(super) const MONTH_WORDS: [&str; 12] = [
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
pub(super) const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// The first year that an expression can name.
pub(crate) const FIRST_YEAR: u32 = 1970;
/// The last year that an expression can name; it ends every search.
pub(crate) const LAST_YEAR: u32 = 2199;

impl Unit {
    pub(super) const ALL: [Unit; 7] = [
        Unit::Second,
        Unit::Minute,
        Unit::Hour,
        Unit::DayOfMonth,
        Unit::Month,
        Unit::DayOfWeek,
        Unit::Year,
    ];

    /// The field's name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Second => "second",
            Unit::Minute => "minute",
            Unit::Hour => "hour",
            Unit::DayOfMonth => "day-of-month",
            Unit::Month => "month",
            Unit::DayOfWeek => "day-of-week",
            Unit::Year => "year",
        }
    }

    /// The lowest value, where `*` begins.
    pub(crate) const fn low(self) -> u32 {
        match self {
            Unit::DayOfMonth | Unit::Month => 1,
            Unit::Year => FIRST_YEAR,
            _ => 0,
        }
    }

    /// The highest value of `*`.
    pub(crate) const fn high(self) -> u32 {
        match self {
            Unit::Second | Unit::Minute => 59,
            Unit::Hour => 23,
            Unit::DayOfMonth => 31,
            Unit::Month => 12,
            Unit::DayOfWeek => 6,
            Unit::Year => LAST_YEAR,
        }
    }

    /// The highest value that may be written: a day of the week may also be 7.
    pub(super) const fn highest_written(self) -> u32 {
        match self {
            Unit::DayOfWeek => 7,
            _ => self.high(),
        }
    }

    /// How many values there are, which bounds a step.
    pub(crate) const fn size(self) -> u32 {
        self.high() - self.low() + 1
    }

    /// The names that stand for values, the first one for the lowest value.
    pub(super) const fn names(self) -> &'static [&'static str] {
        match self {
            Unit::Month => &MONTHS,
            Unit::DayOfWeek => &WEEKDAYS,
            _ => &[],
        }
    }

    /// The range that `H` draws from when none is written: days that every month has.
    pub(super) const fn spread_high(self) -> u32 {
        match self {
            Unit::DayOfMonth => 28,
            _ => self.high(),
        }
    }
}
