//! The retry policy of failed jobs of schedules. A worker that fails many jobs of one schedule reads it once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::ScheduleId;
use punctual_core::job::{Backoff, RetryPolicy};
use punctual_core::schedule::Definition;

use super::Remote;
use crate::error::Result;

/// How long a copy is used: a changed backoff applies a second later.
const KEPT_FOR: Duration = Duration::from_secs(1);
/// Schedules after which all copies are dropped.
const KEPT_MAX: usize = 1_000;

/// The backoffs of schedules that were read a moment ago, with the time when they were read.
#[derive(Default)]
pub(super) struct Backoffs(Mutex<HashMap<ScheduleId, (Duration, Option<Backoff>)>>);

impl Backoffs {
    fn lock(&self) -> MutexGuard<'_, HashMap<ScheduleId, (Duration, Option<Backoff>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, schedule: ScheduleId, now: Duration) -> Option<Option<Backoff>> {
        let (read_at, backoff) = *self.lock().get(&schedule)?;
        (now.saturating_sub(read_at) < KEPT_FOR).then_some(backoff)
    }

    fn add(&self, schedule: ScheduleId, now: Duration, backoff: Option<Backoff>) {
        let mut kept = self.lock();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(schedule, (now, backoff));
    }
}

impl Remote {
    /// When a job is tried again: as its schedule says, or as usual.
    pub(super) async fn policy_of(&self, schedule: Option<ScheduleId>) -> Result<RetryPolicy> {
        let usual = RetryPolicy::default();
        let Some(schedule) = schedule else { return Ok(usual) };
        let now = self.shared.env.elapsed();
        let backoff = match self.backoffs.find(schedule, now) {
            Some(backoff) => backoff,
            None => {
                let found = self.shared.store.schedule(schedule).await?;
                // A schedule that was deleted or cannot be read by this program says nothing.
                let definition =
                    found.and_then(|found| Definition::parse(found.spec.as_str()).ok());
                let backoff =
                    definition.and_then(|definition| definition.job.backoff?.parse().ok());
                self.backoffs.add(schedule, now, backoff);
                backoff
            }
        };
        Ok(RetryPolicy { backoff: backoff.unwrap_or(usual.backoff) })
    }
}
