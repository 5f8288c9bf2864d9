//! What a process makes of its database: whether its clock goes right. Every node of the process feeds
//! it, leader or not, so that whoever begins to lead knows what the clock said before.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use punctual_core::Timestamp;

use crate::clock_guard::ClockGuard;
use crate::env::Env;
use crate::telemetry;

pub(crate) struct Database {
    env: Arc<dyn Env>,
    guard: Mutex<ClockGuard>,
}

impl Database {
    pub(crate) fn new(env: Arc<dyn Env>) -> Database {
        Database { env, guard: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, ClockGuard> {
        // Nothing here panics while it holds the lock; if a bug does, the state is still whole.
        self.guard.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The database has told the time, in answer to what was sent then. The instant up to which slots
    /// may be decided.
    pub(crate) fn told_time(&self, at: Timestamp, sent: Duration) -> Timestamp {
        let mut guard = self.lock();
        let was_held = guard.is_held();
        let up_to = guard.up_to(at, sent, self.env.elapsed());
        telemetry::clock_held(was_held, guard.is_held());
        up_to
    }

    /// Is its clock held to be wrong?
    pub(crate) fn is_clock_held(&self) -> bool {
        self.lock().is_held()
    }
}
