//! The size of batches: smaller after a timeout, larger again after success.

/// How many items a request may have. A request that took too long is followed by one of half its
/// size, because the same request would take too long again.
pub(crate) struct BatchSize {
    most: usize,
    now: usize,
}

impl BatchSize {
    pub(crate) fn new(most: usize) -> BatchSize {
        BatchSize { most, now: most }
    }

    /// The maximum number of items of the next request.
    pub(crate) fn get(&self) -> usize {
        self.now
    }

    /// A request with this many items took too long.
    pub(crate) fn shrink(&mut self, sent: usize) {
        self.now = (sent / 2).clamp(1, self.most);
    }

    /// A request succeeded.
    pub(crate) fn grow(&mut self) {
        self.now = (self.now * 2).min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::BatchSize;

    #[test]
    fn a_batch_shrinks_to_half_of_what_was_sent_and_grows_to_its_maximum() {
        let mut size = BatchSize::new(1_000);
        size.shrink(600);
        assert_eq!(size.get(), 300);
        for expected in [600, 1_000, 1_000] {
            size.grow();
            assert_eq!(size.get(), expected);
        }
        for _ in 0..20 {
            size.shrink(size.get());
        }
        assert_eq!(size.get(), 1);
    }
}
