//! A value that only rises, and who waits for it to rise.
//!
//! Built on `Notify`, which wakes in the order of waiting; the channels of tokio that could do
//! the same wake by chance, and a simulated run could not be repeated.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Level {
    level: AtomicU64,
    risen: Notify,
}

impl Level {
    /// Raises it to this, unless it is as high already.
    pub(crate) fn raise(&self, to: u64) {
        if self.level.fetch_max(to, Ordering::AcqRel) < to {
            self.risen.notify_waiters();
        }
    }

    /// Raises it by one.
    pub(crate) fn step(&self) {
        self.level.fetch_add(1, Ordering::AcqRel);
        self.risen.notify_waiters();
    }

    pub(crate) fn get(&self) -> u64 {
        self.level.load(Ordering::Acquire)
    }

    /// Ends when it is at least this high.
    pub(crate) async fn reached(&self, level: u64) {
        loop {
            let risen = self.risen.notified();
            if self.get() >= level {
                return;
            }
            risen.await;
        }
    }
}
