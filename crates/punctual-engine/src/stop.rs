//! Asks an attempt to stop, and says why.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;

/// Why an attempt has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It took longer than this.
    TimedOut(Duration),
    /// Its job was cancelled.
    Cancelled,
    /// The node shuts down. The attempt may continue until the shutdown grace ends.
    Shutdown,
    /// The node has lost contact with the store: soon another node may take the job.
    OutOfTouch,
}

/// The stop requests of one attempt: at most one announcement of a shutdown, and then at most one
/// request to stop now. The first request counts.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    state: Mutex<StopState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct StopState {
    is_announced: bool,
    reason: Option<StopReason>,
    /// When the attempt is dropped, on the clock of the node.
    drop_at: Option<Duration>,
    /// Does the handler know?
    is_seen: bool,
}

impl Stop {
    fn lock(&self) -> MutexGuard<'_, StopState> {
        // Nothing here panics while it holds the lock; if a bug does, the state is still whole.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Announces a shutdown: the attempt may continue until `drop_at`.
    pub(crate) fn announce_shutdown(&self, drop_at: Duration) {
        let mut state = self.lock();
        if state.reason.is_none() {
            (state.is_announced, state.drop_at) = (true, Some(drop_at));
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Requests the attempt to stop now; it is dropped at `drop_at`.
    pub(crate) fn request(&self, reason: StopReason, drop_at: Duration) {
        let mut state = self.lock();
        if state.reason.is_none() {
            (state.reason, state.drop_at) = (Some(reason), Some(drop_at));
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Why the attempt has to stop now, if it has to.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.lock().reason
    }

    /// When the attempt is dropped, if it has to stop.
    pub(crate) fn drop_at(&self) -> Option<Duration> {
        self.lock().drop_at
    }

    /// The reason as the handler sees it: an announced shutdown is one.
    pub(crate) fn show(&self) -> Option<StopReason> {
        let mut state = self.lock();
        let announced = state.is_announced.then_some(StopReason::Shutdown);
        let shown = state.reason.or(announced);
        state.is_seen |= shown.is_some();
        shown
    }

    /// Has the handler seen that the node shuts down?
    pub(crate) fn is_shutdown_seen(&self) -> bool {
        let state = self.lock();
        state.is_announced && state.is_seen
    }

    /// Ends when there is a reason to show.
    pub(crate) async fn shown(&self) -> StopReason {
        self.until(Stop::show).await
    }

    /// Ends when the attempt has to stop now.
    pub(crate) async fn requested(&self) -> StopReason {
        self.until(Stop::reason).await
    }

    async fn until(&self, reason: impl Fn(&Stop) -> Option<StopReason>) -> StopReason {
        loop {
            let changed = self.changed.notified();
            if let Some(reason) = reason(self) {
                return reason;
            }
            changed.await;
        }
    }
}
