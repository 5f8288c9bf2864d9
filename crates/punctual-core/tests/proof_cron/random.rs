//! Repeatable chance: the numbers of a run follow from its seed.

use punctual_core::hash;

pub(crate) struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    pub(crate) fn new(seed: u64, walk: u64) -> Random {
        Random { seed: hash::draw(seed, walk), drawn: 0 }
    }

    /// A number from 0 to `end` − 1.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.drawn += 1;
        hash::draw(self.seed, self.drawn) % end
    }

    /// A number from `low` to `high`.
    pub(crate) fn within(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(u64::from(high - low + 1)) as u32
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
