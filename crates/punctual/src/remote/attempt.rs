//! What this process knows of running attempts without reading them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_core::job::Standing;
use punctual_core::{LeaseId, ScheduleId, Timestamp};
use punctual_store::{ClaimedJob, JobDetail};

use super::deadline::deadline_of;
use super::{Held, Remote, lost};
use crate::error::Result;

/// An attempt, as far as its end needs it.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) held: Held,
    pub(super) queue: String,
    pub(super) kind: String,
    /// The schedule of the job.
    pub(super) schedule: Option<ScheduleId>,
    pub(super) standing: Standing,
    /// No result is accepted later. None: the attempt is over, or a server node watches its time.
    pub(super) deadline: Option<Timestamp>,
}

impl Known {
    /// An attempt that has just been claimed.
    pub(super) fn claimed(held: Held, job: &ClaimedJob, deadline: Timestamp) -> Known {
        // What remains of the budget and of the time to start is checked when the job is claimed again.
        let standing =
            Standing { used: Duration::ZERO, budget: None, expires_at: None, ..job.standing() };
        Known {
            held,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            schedule: job.origin.as_ref().map(|origin| origin.schedule),
            standing,
            deadline: Some(deadline),
        }
    }

    /// An attempt that was read from the store.
    fn read(held: Held, detail: JobDetail, is_in_force: bool) -> Known {
        let attempt = detail.attempts.iter().find(|attempt| attempt.attempt == held.attempt);
        let standing = Standing {
            job: held.job,
            attempt: held.attempt,
            spent: detail.spent,
            crashes: detail.crashes,
            resource_releases: 0,
            max_attempts: detail.view.max_attempts,
            used: Duration::ZERO,
            claimed_at: attempt.map_or(detail.view.created_at, |attempt| attempt.claimed_at),
            budget: None,
            expires_at: None,
        };
        let is_watched_here = is_in_force && held.by.is_some();
        let deadline = if is_watched_here { deadline_of(&detail) } else { None };
        let schedule = detail.view.schedule.map(|(schedule, _)| schedule);
        let (queue, kind) = (detail.view.queue, detail.view.kind);
        Known { held, queue, kind, schedule, standing, deadline }
    }
}

/// The leases that were claimed through this process and are not settled yet, as far as it knows.
#[derive(Default)]
pub(super) struct Leases(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    attempts: HashMap<LeaseId, Known>,
    /// In the order of their claims.
    claims: VecDeque<LeaseId>,
}

/// Claims after which a lease is dropped, and read when it is needed.
const KEPT_MAX: usize = 50_000;

impl Leases {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, known: Known) {
        let mut kept = self.lock();
        kept.claims.push_back(known.held.lease);
        kept.attempts.insert(known.held.lease, known);
        if kept.claims.len() > KEPT_MAX
            && let Some(oldest) = kept.claims.pop_front()
        {
            kept.attempts.remove(&oldest);
        }
    }

    fn find(&self, lease: LeaseId) -> Option<Known> {
        self.lock().attempts.get(&lease).cloned()
    }

    /// Its end is known.
    pub(super) fn remove(&self, lease: LeaseId) {
        self.lock().attempts.remove(&lease);
    }
}

/// The clock of the database, by its last response.
#[derive(Default)]
pub(super) struct Clock(Mutex<Option<(Timestamp, Duration)>>);

impl Clock {
    fn lock(&self) -> MutexGuard<'_, Option<(Timestamp, Duration)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A response that has just arrived says that it is this late.
    pub(super) fn saw(&self, at: Timestamp, elapsed: Duration) {
        *self.lock() = Some((at, elapsed));
    }

    /// At least this late, so that no result is refused that is in time.
    fn at(&self, elapsed: Duration) -> Option<Timestamp> {
        let (at, then) = (*self.lock())?;
        Some(at + elapsed.saturating_sub(then))
    }
}

impl Remote {
    /// The current time of the database.
    async fn now(&self) -> Result<Timestamp> {
        let env = &self.shared.env;
        if let Some(now) = self.clock.at(env.elapsed()) {
            return Ok(now);
        }
        let now = self.shared.store.now(env.at()).await?;
        self.clock.saw(now, env.elapsed());
        Ok(now)
    }

    /// The attempt of a lease. An attempt that is over may have been ended by a call whose response was
    /// lost, which the store decides. One that exceeds its deadline is lost.
    pub(super) async fn known(&self, held: &Held) -> Result<Known> {
        let known = match self.leases.find(held.lease) {
            Some(known) if known.held == *held => known,
            Some(_) => return Err(lost(held)),
            None => {
                let detail = self.shared.store.job(held.job).await?.ok_or_else(|| lost(held))?;
                let is_in_force = self.is_in_force(held, &detail).await?;
                Known::read(*held, detail, is_in_force)
            }
        };
        match known.deadline {
            Some(deadline) if self.now().await? > deadline => Err(lost(held)),
            _ => Ok(known),
        }
    }
}
