//! Which times of day an expression names: second, minute and hour.

/// The times of day of an expression, as sets of bits. None of the three is ever empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) seconds: u64,
    pub(crate) minutes: u64,
    pub(crate) hours: u64,
    /// The field was written with `*` or `H/n`, which decides what a clock change does.
    pub(crate) wild_minute: bool,
    pub(crate) wild_hour: bool,
}

fn lowest(bits: u64) -> i64 {
    i64::from(bits.trailing_zeros())
}

fn highest(bits: u64) -> i64 {
    63 - i64::from(bits.leading_zeros())
}

fn has(bits: u64, value: i64) -> bool {
    bits >> value & 1 == 1
}

/// The values above `value`, which is below 63.
fn above(bits: u64, value: i64) -> u64 {
    bits & !0 << (value + 1)
}

/// The values below `value`.
fn below(bits: u64, value: i64) -> u64 {
    bits & !(!0 << value)
}

impl Times {
    pub(super) fn at_second_zero() -> Times {
        Times { seconds: 1, minutes: 0, hours: 0, wild_minute: false, wild_hour: false }
    }

    /// The first time of the day, in seconds.
    pub(super) fn first(&self) -> i64 {
        lowest(self.hours) * 3_600 + self.first_in_hour()
    }

    /// The last time of the day, in seconds.
    pub(super) fn last(&self) -> i64 {
        highest(self.hours) * 3_600 + self.last_in_hour()
    }

    fn first_in_hour(&self) -> i64 {
        lowest(self.minutes) * 60 + lowest(self.seconds)
    }

    fn last_in_hour(&self) -> i64 {
        highest(self.minutes) * 60 + highest(self.seconds)
    }

    /// The first time of the day at or after `time`.
    pub(super) fn next(&self, time: i64) -> Option<i64> {
        let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
        if has(self.hours, hour) {
            if has(self.minutes, minute) {
                let seconds = self.seconds & !0 << second;
                if seconds != 0 {
                    return Some(hour * 3_600 + minute * 60 + lowest(seconds));
                }
            }
            let minutes = above(self.minutes, minute);
            if minutes != 0 {
                return Some(hour * 3_600 + lowest(minutes) * 60 + lowest(self.seconds));
            }
        }
        let hours = above(self.hours, hour);
        (hours != 0).then(|| lowest(hours) * 3_600 + self.first_in_hour())
    }

    /// The last time of the day at or before `time`.
    pub(super) fn previous(&self, time: i64) -> Option<i64> {
        let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
        if has(self.hours, hour) {
            if has(self.minutes, minute) {
                let seconds = below(self.seconds, second + 1);
                if seconds != 0 {
                    return Some(hour * 3_600 + minute * 60 + highest(seconds));
                }
            }
            let minutes = below(self.minutes, minute);
            if minutes != 0 {
                return Some(hour * 3_600 + highest(minutes) * 60 + highest(self.seconds));
            }
        }
        let hours = below(self.hours, hour);
        (hours != 0).then(|| highest(hours) * 3_600 + self.last_in_hour())
    }

    /// Calls `minute(time, seconds)` for each matching minute of the day, in order.
    pub(super) fn each_minute(&self, mut minute: impl FnMut(i64, u64)) {
        let mut hours = self.hours;
        while hours != 0 {
            let mut minutes = self.minutes;
            while minutes != 0 {
                minute(lowest(hours) * 3_600 + lowest(minutes) * 60, self.seconds);
                minutes &= minutes - 1;
            }
            hours &= hours - 1;
        }
    }
}
