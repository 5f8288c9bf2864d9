//! Writing jobs that have no unique key: nothing to wait for, so any number goes at once.

use std::collections::HashSet;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_store::{At, EnqueueAnswer, Enqueued, NewJob, Rejection, Result, rules};

use crate::bodies::Bodies;
use crate::gather::{Request, Work, answer_all};
use crate::pool::Pool;
use crate::retry::attempt;
use crate::store::Shared;

/// The jobs of one call.
pub(crate) type Call = (At, Vec<NewJob>);

/// The call of a request, which goes on without it.
pub(crate) fn take<T>((at, items): &mut (At, Vec<T>)) -> (At, Vec<T>) {
    (*at, std::mem::take(items))
}

/// Writes jobs without keys.
pub(crate) struct Enqueue {
    pub(crate) pool: Pool,
    pub(crate) shared: Arc<Shared>,
}

impl Work for Enqueue {
    type Ask = Call;
    type Answer = Enqueued;

    fn rows((_, jobs): &Call) -> usize {
        jobs.len()
    }

    async fn run(self: &Arc<Self>, mut batch: Vec<Request<Self>>) {
        let calls: Vec<Call> = batch.iter_mut().map(|request| take(&mut request.ask)).collect();
        let mut answers = Vec::with_capacity(calls.len());
        for group in calls.chunk_by(|(one, _), (other, _)| one == other) {
            answers.extend(self.write(group).await);
        }
        answer_all(batch, answers);
    }
}

impl Enqueue {
    /// Writes the jobs of calls that go by one clock.
    async fn write(&self, calls: &[Call]) -> Vec<Result<Enqueued>> {
        match self.write_together(calls).await {
            Ok(now) => calls.iter().map(|(_, jobs)| Ok(answer(now, jobs))).collect(),
            // A value that PostgreSQL refuses must not keep the others out.
            Err(error) if error.kind() == punctual_store::ErrorKind::Invalid && calls.len() > 1 => {
                let mut answers = Vec::new();
                for call in calls {
                    let written = self.write_together(std::slice::from_ref(call)).await;
                    answers.push(written.map(|now| answer(now, &call.1)));
                }
                answers
            }
            Err(error) => calls.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn write_together(&self, calls: &[Call]) -> Result<Timestamp> {
        let at = calls.first().map_or(At::Database, |(at, _)| *at);
        let mut bodies = Bodies::default();
        let mut seen = HashSet::new();
        let jobs: Vec<&NewJob> = calls
            .iter()
            .flat_map(|(_, jobs)| jobs)
            .filter(|job| job.check().is_ok() && seen.insert(job.id))
            .collect();
        for job in &jobs {
            bodies.push(job, None);
        }
        let now = attempt!(self.pool, Harmless, conn => bodies.write(conn, at))?;
        self.shared.enqueued(now, jobs.into_iter());
        Ok(now)
    }
}

/// Every job that is within the bounds is there now, by this call or an earlier one.
fn answer(now: Timestamp, jobs: &[NewJob]) -> Enqueued {
    let answers = jobs.iter().map(|job| match job.check() {
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
