//! Lengths of time in µs, told as milliseconds, and the stretches in which nothing went wrong.

/// How long something took, again and again.
#[derive(Default)]
pub(crate) struct Lengths(Vec<i64>);

impl Lengths {
    pub(crate) fn note(&mut self, micros: i64) {
        self.0.push(micros);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// What so many of a hundred do not exceed.
    pub(crate) fn share_ms(&self, percent: usize) -> Option<i64> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        // A part of a millisecond counts as one: a bound that is kept is kept.
        sorted.get(last * percent / 100).map(|micros| micros.div_euclid(1_000) + 1)
    }

    pub(crate) fn worst_ms(&self) -> Option<i64> {
        self.share_ms(100)
    }
}

/// Stretches of time without a fault, after everybody had recovered from the one before.
#[derive(Default)]
pub(crate) struct Quiet(Vec<(i64, i64)>);

impl Quiet {
    pub(crate) fn note(&mut self, from: i64, to: i64) {
        if from < to {
            self.0.push((from, to));
        }
    }

    /// Did nothing happen from this instant up to that one?
    pub(crate) fn holds(&self, from: i64, to: i64) -> bool {
        self.0.iter().any(|(begin, end)| *begin <= from && to < *end)
    }

    pub(crate) fn seconds(&self) -> i64 {
        self.0.iter().map(|(from, to)| to - from).sum::<i64>() / 1_000_000
    }
}
