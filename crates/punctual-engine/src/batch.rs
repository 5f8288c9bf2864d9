//! The size of batches: half after a timeout, slowly larger again after success.

/// Requests in a row that must succeed before the size doubles. A size that takes too long is tried again
/// only once in so many requests, because each timeout costs seconds and makes a leader step down.
const GROW_AFTER: u32 = 32;

/// How many items a request may have. A request that took too long is followed by one of half its
/// size, because the same request would take too long again.
pub(crate) struct BatchSize {
    most: usize,
    now: usize,
    /// Requests that succeeded since the size last changed.
    successes: u32,
}

impl BatchSize {
    pub(crate) fn new(most: usize) -> BatchSize {
        BatchSize { most, now: most, successes: 0 }
    }

    /// The maximum number of items of the next request.
    pub(crate) fn get(&self) -> usize {
        self.now
    }

    /// A request with this many items took too long.
    pub(crate) fn shrink(&mut self, sent: usize) {
        self.now = (sent / 2).clamp(1, self.most);
        self.successes = 0;
    }

    /// A request succeeded.
    pub(crate) fn grow(&mut self) {
        self.successes += 1;
        if self.successes >= GROW_AFTER {
            self.now = (self.now * 2).min(self.most);
            self.successes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BatchSize, GROW_AFTER};

    #[test]
    fn a_batch_shrinks_to_half_of_what_was_sent_and_grows_to_its_maximum() {
        let mut size = BatchSize::new(1_000);
        size.shrink(600);
        assert_eq!(size.get(), 300);
        for expected in [600, 1_000, 1_000] {
            for _ in 0..GROW_AFTER {
                assert!(size.get() < expected || expected == 1_000);
                size.grow();
            }
            assert_eq!(size.get(), expected);
        }
        for _ in 0..20 {
            size.shrink(size.get());
        }
        assert_eq!(size.get(), 1);
    }

    #[test]
    fn a_size_that_takes_too_long_is_rarely_tried_again() {
        let mut size = BatchSize::new(1_000);
        let mut timeouts = 0;
        for _ in 0..1_000 {
            let sent = size.get();
            if sent > 400 {
                timeouts += 1;
                size.shrink(sent);
            } else {
                size.grow();
            }
        }
        // At first two, and then one in so many requests.
        assert!(timeouts <= 2 + 1_000 / GROW_AFTER, "{timeouts} timeouts");
    }
}
