//! Moves due jobs to the tables from which they are claimed, and detects start deadlines that have passed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use punctual_store::{Result, Store};
use tokio::sync::Notify;

use crate::config::Timing;
use crate::database::Database;
use crate::env::Env;
use crate::expirer::PassedDeadlines;
use crate::leader::{MAINTENANCE, Roles};
use crate::service::{Report, Rest, Service, within};
use crate::telemetry;

/// Near timers that this node wrote itself. The leader looks once a second, which is late for
/// a job that is due in a tenth of one; whoever wrote it looks in time.
pub(crate) struct Timers {
    env: Arc<dyn Env>,
    /// Timers that are further away are the leader's business.
    near: Duration,
    at: Mutex<BTreeSet<Duration>>,
    wake: Arc<Notify>,
}

/// Timers are rounded up to this, so that any number of them is a few.
const GRAIN_MS: u128 = 10;

impl Timers {
    pub(crate) fn new(env: Arc<dyn Env>, timing: &Timing, wake: Arc<Notify>) -> Timers {
        Timers { env, near: timing.promote, at: Mutex::default(), wake }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Duration>> {
        self.at.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A job is due then.
    pub(crate) fn note(&self, at: Duration) {
        if at > self.env.elapsed() + self.near {
            return;
        }
        let grains = at.as_millis() / GRAIN_MS + 1;
        let rounded = u64::try_from(grains * GRAIN_MS).unwrap_or(u64::MAX);
        if self.lock().insert(Duration::from_millis(rounded)) {
            self.wake.notify_one();
        }
    }

    /// Forgets those that are due; was there any?
    fn take_due(&self, now: Duration) -> bool {
        let mut at = self.lock();
        let later = at.split_off(&(now + Duration::from_micros(1)));
        !std::mem::replace(&mut *at, later).is_empty()
    }

    fn next(&self) -> Option<Duration> {
        self.lock().first().copied()
    }
}

/// Jobs moved at once: more makes others wait for the commit.
const PROMOTE_AT_ONCE: usize = 1_000;

pub(crate) struct Promoter {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) roles: Arc<Roles>,
    pub(crate) timers: Arc<Timers>,
    pub(crate) database: Arc<Database>,
    /// For the expirer.
    pub(crate) passed: Arc<PassedDeadlines>,
    pub(crate) timing: Timing,
}

#[async_trait]
impl Service for Promoter {
    fn name(&self) -> &'static str {
        "promoter"
    }

    async fn run_once(&mut self) -> Result<Report> {
        let now = self.env.elapsed();
        let has_own = self.timers.take_due(now);
        let mut wait = self.timing.promote;
        let mut moved = 0;
        if has_own || self.roles.current(MAINTENANCE).is_some() {
            let call = self.store.promote(self.env.at(), PROMOTE_AT_ONCE);
            let promoted = match within(&*self.env, self.timing.call, call).await {
                Ok(promoted) => promoted,
                Err(error) => {
                    if has_own {
                        self.timers.note(now);
                    }
                    return Err(error);
                }
            };
            let count: u64 = promoted.queues.values().sum();
            moved = usize::try_from(count).unwrap_or(usize::MAX);
            self.database.told_time(promoted.at, now);
            self.passed.note(&promoted);
            telemetry::jobs_unreadable(&promoted.unreadable);
            if moved >= PROMOTE_AT_ONCE {
                return Ok(Report::new(moved, Rest::None));
            }
            if let Some(next_due) = promoted.next_due {
                wait = wait.min(next_due.since(promoted.at).max(Duration::from_millis(1)));
            }
        }
        if let Some(next) = self.timers.next() {
            wait = wait.min(next.saturating_sub(self.env.elapsed()));
        }
        Ok(Report::new(moved, Rest::AtMost(wait)))
    }
}
