//! One UTC day with a bit for each second, on which slots are entered and counted.
//!
//! Counting on it costs per day rather than per slot, and several expressions that name the
//! same instant count it once without being compared.

use crate::civil::DAY;

const WORDS: usize = DAY as usize / 64;

pub(crate) struct Sheet {
    start: i64,
    bits: [u64; WORDS],
}

impl Sheet {
    /// An empty sheet for the UTC day that contains `at`, in Unix seconds.
    pub(crate) fn of_day(at: i64) -> Sheet {
        Sheet { start: at.div_euclid(DAY) * DAY, bits: [0; WORDS] }
    }

    pub(crate) fn start(&self) -> i64 {
        self.start
    }

    pub(crate) fn end(&self) -> i64 {
        self.start + DAY
    }

    /// Enters one instant; outside the day it is nothing.
    pub(crate) fn mark(&mut self, at: i64) {
        if (self.start..self.end()).contains(&at) {
            let second = (at - self.start) as usize;
            self.bits[second / 64] |= 1 << (second % 64);
        }
    }

    /// Enters the seconds, as bits, of the minute that begins at `at`. Only the seconds that
    /// lie in this day may be set.
    pub(crate) fn mark_minute(&mut self, at: i64, seconds: u64) {
        // A zone's offset need not be whole minutes, so a minute may begin before the day.
        let (second, seconds) = match at - self.start {
            before if before < 0 => (0, seconds >> before.unsigned_abs()),
            second => (second as usize, seconds),
        };
        self.bits[second / 64] |= seconds << (second % 64);
        let spill = seconds.checked_shr(64 - (second % 64) as u32).unwrap_or(0);
        if spill != 0 {
            self.bits[second / 64 + 1] |= spill;
        }
    }

    /// How many instants of `from..to` are entered.
    pub(crate) fn count(&self, from: i64, to: i64) -> u64 {
        let from = (from - self.start).clamp(0, DAY) as usize;
        let to = (to - self.start).clamp(0, DAY) as usize;
        let below = |second: usize| {
            let whole: u64 =
                self.bits[..second / 64].iter().map(|word| u64::from(word.count_ones())).sum();
            let rest = self.bits.get(second / 64).map_or(0, |word| word & !(!0 << (second % 64)));
            whole + u64::from(rest.count_ones())
        };
        below(to).saturating_sub(below(from))
    }
}
