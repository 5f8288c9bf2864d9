//! What a process makes of its database: whether its clock goes right, and whether its history is still
//! the one that was written. Every node of the process feeds it, leader or not, so that whoever begins
//! to lead knows what the clock said before.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use punctual_core::Timestamp;

use crate::clock_guard::ClockGuard;
use crate::config::Timing;
use crate::env::Env;
use crate::telemetry;

/// A database clock that jumped forward and is not trusted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldClock {
    /// By how much it jumped.
    pub ahead: Duration,
    /// When that was seen, by the time that the clock should have shown.
    pub since: Timestamp,
}

pub(crate) struct Database {
    env: Arc<dyn Env>,
    /// For so long nothing is fired after a fork: by then everybody who led in the old history knows
    /// whether it does in the new one.
    lease: Duration,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    guard: ClockGuard,
    forked_at: Option<Timestamp>,
    suspended_until: Duration,
}

impl Database {
    pub(crate) fn new(env: Arc<dyn Env>, timing: &Timing) -> Database {
        Database { env, lease: timing.leader_lease, seen: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        // Nothing here panics while it holds the lock; if a bug does, the state is still whole.
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The database has told the time, in answer to what was sent then. The instant up to which slots
    /// may be decided.
    pub(crate) fn told_time(&self, at: Timestamp, sent: Duration) -> Timestamp {
        let mut seen = self.lock();
        let was_held = seen.guard.is_held();
        let up_to = seen.guard.up_to(at, sent, self.env.elapsed());
        telemetry::clock_held(was_held, seen.guard.is_held());
        up_to
    }

    /// The database has told when its history last forked. Is that news?
    pub(crate) fn told_history(&self, forked_at: Option<Timestamp>) -> bool {
        let mut seen = self.lock();
        let is_news = forked_at.is_some() && forked_at != seen.forked_at;
        if is_news {
            seen.forked_at = forked_at;
            seen.suspended_until = self.env.elapsed() + self.lease;
            telemetry::history_forked(self.lease);
        }
        is_news
    }

    /// Its clock, if it is not trusted.
    pub(crate) fn held_clock(&self) -> Option<HeldClock> {
        self.lock().guard.jump().map(|(ahead, since)| HeldClock { ahead, since })
    }

    /// Is its clock held to be wrong?
    pub(crate) fn is_clock_held(&self) -> bool {
        self.lock().guard.is_held()
    }

    /// For how long nothing is fired yet, since its history has forked.
    pub(crate) fn suspended(&self) -> Option<Duration> {
        let left = self.lock().suspended_until.saturating_sub(self.env.elapsed());
        Some(left).filter(|left| !left.is_zero())
    }
}
