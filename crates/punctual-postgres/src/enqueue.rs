//! Writing jobs that have no unique key: nothing to wait for, so any number goes at once.

use std::collections::HashSet;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_store::{At, EnqueueAnswer, Enqueued, NewJob, Rejection, Result, rules};

use crate::bodies::Bodies;
use crate::error::Outcome;
use crate::gather::{Call, Together};
use crate::pool::Pool;
use crate::retry::run;
use crate::session::Session;
use crate::store::Shared;

/// Writes jobs without keys.
pub(crate) struct Enqueue {
    pub(crate) pool: Pool,
    pub(crate) shared: Arc<Shared>,
}

impl Together for Enqueue {
    type Item = NewJob;
    type Answer = Enqueued;

    async fn write(&self, at: At, calls: &[Call<NewJob>]) -> Result<Vec<Enqueued>> {
        let (jobs, bodies) = sound(calls.iter().flat_map(|(_, jobs)| jobs));
        let now = run!(self.pool, enqueue, conn => bodies.write(conn, at))?;
        self.shared.enqueued(now, jobs.into_iter());
        Ok(calls.iter().map(|(_, jobs)| answer(now, jobs)).collect())
    }
}

/// Those that are within the bounds, each once.
fn sound<'a>(jobs: impl Iterator<Item = &'a NewJob>) -> (Vec<&'a NewJob>, Bodies<'a>) {
    let (mut seen, mut bodies) = (HashSet::new(), Bodies::default());
    let jobs: Vec<&NewJob> =
        jobs.filter(|job| job.check_enqueued().is_ok() && seen.insert(job.id)).collect();
    for job in &jobs {
        bodies.push(job, false);
    }
    (jobs, bodies)
}

/// Writes jobs inside a transaction of the caller's.
pub(crate) async fn enqueue_within(
    session: &mut impl Session,
    at: At,
    jobs: &[NewJob],
) -> Outcome<Enqueued> {
    let (_, bodies) = sound(jobs.iter());
    let now = bodies.insert(session, at).await?;
    Ok(answer(now, jobs))
}

/// Every job that is within the bounds is there now, by this call or an earlier one.
fn answer(now: Timestamp, jobs: &[NewJob]) -> Enqueued {
    let answers = jobs.iter().map(|job| match job.check_enqueued() {
        Ok(()) => EnqueueAnswer::Created,
        Err(message) => EnqueueAnswer::Rejected(Rejection::Invalid(message)),
    });
    Enqueued { at: now, answers: answers.collect() }
}

/// Where a job stands in its queue, if it is due at once.
pub(crate) fn place(now: Timestamp, job: &NewJob) -> Option<crate::marks::Place> {
    let due_at = job.delay.due_at(now);
    (due_at <= now).then(|| (rules::rank(due_at, job.priority), job.id))
}
