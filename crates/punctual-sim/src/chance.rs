//! Chance that can be repeated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_core::hash;

/// A stream of numbers that is the same for the same seed.
#[derive(Debug)]
pub(crate) struct Chance {
    seed: u64,
    drawn: AtomicU64,
}

impl Chance {
    /// The stream of a seed.
    pub(crate) fn new(seed: u64) -> Chance {
        Chance { seed, drawn: AtomicU64::new(0) }
    }

    /// Another stream, which depends on this seed and on a name.
    pub(crate) fn fork(&self, name: u64) -> Chance {
        Chance::new(hash::mix(self.seed ^ hash::mix(name.wrapping_add(0x9E37_79B9))))
    }

    /// The next number.
    pub(crate) fn draw(&self) -> u64 {
        hash::draw(self.seed, self.drawn.fetch_add(1, Ordering::Relaxed))
    }

    /// A number from 0 to less than `below`.
    pub(crate) fn below(&self, below: u64) -> u64 {
        self.draw() % below.max(1)
    }

    /// True in so many of a thousand cases.
    pub(crate) fn in_thousand(&self, cases: u64) -> bool {
        self.below(1_000) < cases
    }

    /// One of these.
    pub(crate) fn pick<T: Copy>(&self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A length of time between these, in milliseconds.
    pub(crate) fn ms(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to.saturating_sub(from) + 1))
    }

    /// Fills bytes.
    pub(crate) fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.draw().to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
    }
}
