//! Telling work to stop, and why.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::sync::Notify;

/// Why an attempt has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It took longer than this.
    TimedOut(Duration),
    /// Somebody called the job off.
    Cancelled,
    /// The node shuts down.
    Shutdown,
    /// The node has lost touch with the store: soon another may take the job.
    OutOfTouch,
}

/// Told at most once; the first reason counts.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    reason: OnceLock<StopReason>,
    told: Notify,
}

impl Stop {
    /// Tells it; false if it was told before.
    pub(crate) fn tell(&self, reason: StopReason) -> bool {
        let is_first = self.reason.set(reason).is_ok();
        self.told.notify_waiters();
        is_first
    }

    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.reason.get().copied()
    }

    /// Ends when it has been told.
    pub(crate) async fn told(&self) -> StopReason {
        loop {
            let told = self.told.notified();
            if let Some(reason) = self.reason() {
                return reason;
            }
            told.await;
        }
    }
}
