//! What a handler is given beside its job.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use punctual_core::job::{AttemptOutcome, LogLevel, Next, Outcome as Decided, Transition};
use punctual_core::{JobId, Timestamp};
use punctual_engine::{Attempt, Ended, Env, Fired, StopReason};
use punctual_store::{Json, NewJob, Settlement, StepAnswer, Store, limits};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::admin::Admin;
use crate::error::{Error, ErrorKind, Result};
use crate::order::Order;
use crate::punctual::{Receipt, receipt};
use crate::remote::{Counts, Held};
use crate::transaction::{Backend, Transaction};

/// What a handler is given beside its job: the state of the application, what is known about this
/// attempt, and ways to tell how it goes.
#[derive(Clone)]
pub struct Ctx<S = ()> {
    attempt: Arc<Attempt>,
    state: S,
    shared: Arc<Shared>,
    end: End,
}

/// What all handlers of a node have in common.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) backend: Backend,
    pub(crate) trace: Option<fn() -> Option<String>>,
    /// Of remote workers.
    pub(crate) counts: Arc<Counts>,
}

/// The longest wait before the result of a step is kept again.
const SAVE_AGAIN: Duration = Duration::from_millis(500);

/// How often a job is looked at that somebody else is to end: at first this soon, then less and less.
const LOOK_FIRST: Duration = Duration::from_millis(50);
const LOOK_LAST: Duration = Duration::from_secs(1);

impl Shared {
    pub(crate) fn mint(&self) -> JobId {
        JobId::mint(self.env.wall(), self.env.seed())
    }

    /// The job of an order, under an id of its own.
    pub(crate) fn job(&self, order: Order) -> Result<NewJob> {
        order.job(self.mint(), || self.trace.and_then(|trace| trace()))
    }

    pub(crate) async fn enqueue(&self, job: NewJob) -> Result<Receipt> {
        let mut enqueued = self.store.enqueue(self.env.at(), std::slice::from_ref(&job)).await?;
        receipt(&job, enqueued.answers.pop())
    }

    pub(crate) fn enqueue_in<T: Transaction>(
        &self,
        tx: T,
        job: Result<NewJob>,
    ) -> T::Answer<Receipt> {
        let jobs = job.clone().map(|job| vec![job]);
        let answers = tx.enqueue_jobs(&self.backend, self.env.at(), jobs);
        T::map(answers, move |mut answers| receipt(&job?, answers.pop()))
    }
}

/// What goes with the end of an attempt, if it ends well.
#[derive(Clone, Default)]
pub(crate) struct End(Arc<Mutex<Going>>);

#[derive(Default)]
struct Going {
    then: Vec<NewJob>,
    steps: Option<Vec<(String, Json)>>,
    /// Steps that this attempt has done.
    done: Vec<String>,
    /// Was its success written in a transaction of the handler's own?
    is_settled: bool,
}

impl End {
    fn lock(&self) -> MutexGuard<'_, Going> {
        // Nothing here panics while it holds the lock; if a bug does, the state is still whole.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn with(&self, ended: Ended) -> Ended {
        let mut going = self.lock();
        let is_settled = going.is_settled;
        match ended.outcome {
            // What follows was written with the transaction.
            Decided::Done if is_settled => Ended { is_settled, ..ended },
            Decided::Done => Ended { then: std::mem::take(&mut going.then), ..ended },
            _ => ended,
        }
    }
}

impl<S> Ctx<S> {
    pub(crate) fn new(attempt: Attempt, state: S, shared: Arc<Shared>) -> Ctx<S> {
        Ctx { attempt: Arc::new(attempt), state, shared, end: End::default() }
    }

    pub(crate) fn end(&self) -> End {
        self.end.clone()
    }

    /// What [`Builder::state`](crate::Builder::state) was given.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The job.
    pub fn job_id(&self) -> JobId {
        self.attempt.job.id
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt.job.attempt
    }

    /// Is this the last one, unless it is released or snoozed?
    pub fn is_last_attempt(&self) -> bool {
        self.attempt.job.spent + 1 >= self.attempt.job.max_attempts
    }

    /// The lease of this attempt, by the name with which somebody else may end it: see
    /// [`settled_elsewhere`](Ctx::settled_elsewhere).
    pub fn held(&self) -> Held {
        let job = &self.attempt.job;
        Held { lease: job.lease, job: job.id, attempt: job.attempt, by: None }
    }

    /// Waits until somebody else has settled this attempt, by the name of its lease, and says how.
    /// If it was a success, return `Ok`; the result that was given there is the job's.
    pub async fn settled_elsewhere(&self) -> Result<AttemptOutcome> {
        let Shared { store, env, .. } = &*self.shared;
        let mut wait = LOOK_FIRST;
        loop {
            env.sleep(wait).await;
            wait = (wait * 2).min(LOOK_LAST);
            let detail = match store.job(self.job_id()).await {
                Ok(detail) => detail,
                // A database that is away for a while comes back.
                Err(error) if matches!(error.kind(), ErrorKind::Retry | ErrorKind::Unreachable) => {
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let attempts = detail.iter().flat_map(|detail| &detail.attempts);
            let own = attempts.filter(|attempt| attempt.attempt == self.attempt());
            let Some(outcome) = own.filter_map(|attempt| attempt.outcome).next() else { continue };
            if outcome == AttemptOutcome::Succeeded {
                self.end.lock().is_settled = true;
            }
            return Ok(outcome);
        }
    }

    /// When the job was due.
    pub fn due_at(&self) -> Timestamp {
        self.attempt.job.due_at
    }

    /// The job's tags.
    pub fn tags(&self) -> &[String] {
        &self.attempt.job.tags
    }

    /// The trace that the job belongs to, as its order was given it.
    pub fn trace(&self) -> Option<&str> {
        self.attempt.job.trace.as_deref()
    }

    /// The schedule that made the job, with its slot, name, revision, expression, zone, how late
    /// it is and how many slots were missed; none if no schedule did.
    pub fn fired(&self) -> Option<Fired> {
        self.attempt.fired()
    }

    /// The slot that the job was made for.
    pub fn slot(&self) -> Option<Timestamp> {
        self.attempt.job.origin.as_ref()?.slot
    }

    /// How long after its slot the attempt began; none if no slot made the job.
    pub fn late_by(&self) -> Option<Duration> {
        self.slot().map(|slot| self.attempt.job.claimed_at.since(slot))
    }

    /// Tells how far the work is; shown wherever the job is.
    pub fn progress(&self, percent: u8, note: &str) {
        self.attempt.progress(Some(percent), note);
    }

    /// Writes a line to the job's log.
    pub fn log(&self, text: &str) {
        self.attempt.log(LogLevel::Info, text);
    }

    /// Writes a line of this level to the job's log.
    pub fn log_at(&self, level: LogLevel, text: &str) {
        self.attempt.log(level, text);
    }

    /// Ends when the attempt has to stop, and says why.
    ///
    /// At a shutdown of the node ([`StopReason::Shutdown`]) it ends at once: the handler may finish
    /// its work until the shutdown grace ends, or save it and return an error. For all other
    /// reasons it has a few seconds. Then it is dropped: see [`time_left`](Ctx::time_left). An
    /// error that a handler returns because of a shutdown uses no attempt; the job runs again
    /// elsewhere or after the restart.
    pub async fn cancelled(&self) -> StopReason {
        self.attempt.stopped().await
    }

    /// Why the attempt has to stop, if it has to; a shutdown of the node is seen at its start, as
    /// in [`cancelled`](Ctx::cancelled).
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.attempt.stop_reason()
    }

    /// Ends when the attempt has to stop now, and says why: for handlers that rather finish than
    /// stop early.
    ///
    /// Differs from [`cancelled`](Ctx::cancelled) only at a shutdown of the node: it ends shortly
    /// before the shutdown grace does, by [`Timing::cancel_grace`](crate::Timing::cancel_grace).
    pub async fn must_stop(&self) -> StopReason {
        self.attempt.must_stop().await
    }

    /// How long until the handler is dropped, once it has to stop ([`cancelled`](Ctx::cancelled)).
    pub fn time_left(&self) -> Option<Duration> {
        self.attempt.time_left()
    }

    /// Orders a job that is written together with the success of this one: both are there or
    /// neither. If this attempt does not succeed, nothing is written.
    pub fn enqueue_next(&self, order: impl Into<Order>) -> Result<JobId> {
        let job = self.job(order.into())?;
        let mut going = self.end.lock();
        if going.is_settled {
            return Err(Error::invalid(format!(
                "cannot enqueue a job of kind `{}`: this job is already settled in a transaction; \
                 call `enqueue_next` before `settle_in`",
                job.kind
            )));
        }
        if going.then.len() >= limits::THEN_MAX {
            return Err(Error::new(
                ErrorKind::Limit,
                format!(
                    "too many jobs in `enqueue_next`, maximum {}; enqueue the others directly in \
                     the handler",
                    limits::THEN_MAX
                ),
            ));
        }
        if job.unique.is_some() {
            return Err(Error::invalid(format!(
                "`enqueue_next` does not support unique keys (kind `{}`); enqueue the job directly in \
                 the handler, or use `.not_unique()`",
                job.kind
            )));
        }
        let id = job.id;
        going.then.push(job);
        Ok(id)
    }

    /// Lists, changes, retries and explains, as from outside.
    pub fn admin(&self) -> Admin {
        Admin::new(self.shared.clone())
    }

    /// The job of an order, in the trace of this one unless it names another.
    fn job(&self, order: Order) -> Result<NewJob> {
        order.job(self.shared.mint(), || self.trace().map(str::to_owned))
    }

    /// Orders a job at once, whatever becomes of this one.
    pub async fn enqueue(&self, order: impl Into<Order>) -> Result<Receipt> {
        let job = self.job(order.into())?;
        self.shared.enqueue(job).await
    }

    /// Orders a job in a transaction of the handler's own.
    pub fn enqueue_in<T: Transaction>(&self, tx: T, order: impl Into<Order>) -> T::Answer<Receipt> {
        self.shared.enqueue_in(tx, self.job(order.into()))
    }

    /// Writes the success of this job in a transaction of the handler's own, together with what
    /// the handler did there: when it commits, both have happened, exactly once; if it does not,
    /// neither has. Jobs that were ordered with [`enqueue_next`](Ctx::enqueue_next) before are
    /// written in it as well.
    ///
    /// Call it last, commit, and return. An error means that the transaction must be rolled back:
    /// another attempt owns the job by now. If the handler returns without having committed, the
    /// attempt has failed.
    ///
    /// To be awaited for sqlx and tokio-postgres; rusqlite answers at once.
    pub fn settle_in<T: Transaction>(&self, tx: T) -> T::Answer<()> {
        self.settle(tx, None)
    }

    /// The same with a result, which is kept with the job.
    pub fn settle_in_with<T: Transaction>(
        &self,
        tx: T,
        result: &impl Serialize,
    ) -> Result<T::Answer<()>> {
        let result = Json::new(result).map_err(|error| {
            Error::invalid(format!("the result cannot be serialized as JSON: {error}"))
        })?;
        Ok(self.settle(tx, Some(result)))
    }

    fn settle<T: Transaction>(&self, tx: T, result: Option<Json>) -> T::Answer<()> {
        let job = &self.attempt.job;
        let then = self.end.lock().then.clone();
        let transition =
            Transition { outcome: AttemptOutcome::Succeeded, next: Next::Succeeded, error: None };
        let item = Settlement { job: job.id, lease: job.lease, transition, result, then };
        let end = self.end.clone();
        let settled = tx.settle_attempt(&self.shared.backend, self.shared.env.at(), item);
        T::map(settled, move |_| {
            end.lock().is_settled = true;
            Ok(())
        })
    }

    /// Does a part of the work once, however often the job is tried: its result is kept, and a
    /// later attempt is given it instead of doing the work again.
    ///
    /// The work is done again if the attempt ends after it and before its result is kept. Only what
    /// succeeds is kept. Each step of a job has a name of its own.
    pub async fn step<T, E>(
        &self,
        name: &str,
        work: impl Future<Output = std::result::Result<T, E>>,
    ) -> std::result::Result<T, E>
    where
        T: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        let is_again = {
            let mut going = self.end.lock();
            let is_again = going.done.iter().any(|done| done == name);
            going.done.push(name.to_owned());
            is_again
        };
        if is_again {
            return Err(Error::invalid(format!(
                "step `{name}` is used twice in one attempt; use a unique name for each step, such \
                 as `{name} 2`"
            ))
            .into());
        }
        if let Some(kept) = self.kept_step(name).await? {
            return Ok(read_step(name, &kept)?);
        }
        let value = work.await?;
        let result = Json::new(&value).map_err(|error| {
            Error::invalid(format!(
                "the result of step `{name}` cannot be serialized as JSON: {error}"
            ))
        })?;
        match self.save_step(name, &result).await? {
            StepAnswer::Saved => Ok(value),
            StepAnswer::Already(kept) => Ok(read_step(name, &kept)?),
            StepAnswer::Fenced => Err(Error::new(
                ErrorKind::Fenced,
                format!("step `{name}`: the lease of this attempt was lost; stop this attempt"),
            )
            .into()),
        }
    }

    /// Keeps the result of a step: as long as it takes, since the work is done.
    async fn save_step(&self, name: &str, result: &Json) -> Result<StepAnswer> {
        let (job, Shared { store, env, .. }) = (&self.attempt.job, &*self.shared);
        loop {
            match store.save_step(env.at(), job.id, job.lease, name, result).await {
                Err(error)
                    if matches!(error.kind(), ErrorKind::Retry | ErrorKind::Unreachable)
                        && self.stop_reason().is_none() =>
                {
                    env.sleep(env.jitter(SAVE_AGAIN)).await;
                }
                answer => return Ok(answer?),
            }
        }
    }

    /// The result of a step that an earlier attempt has kept.
    async fn kept_step(&self, name: &str) -> Result<Option<Json>> {
        if self.attempt() == 1 {
            return Ok(None);
        }
        let is_read = self.end.lock().steps.is_some();
        if !is_read {
            let steps = self.shared.store.steps(self.job_id()).await?;
            let steps = steps.into_iter().map(|step| (step.name, step.result)).collect();
            self.end.lock().steps = Some(steps);
        }
        let going = self.end.lock();
        let kept = going.steps.iter().flatten().find(|(step, _)| step == name);
        Ok(kept.map(|(_, result)| result.clone()))
    }
}

fn read_step<T: DeserializeOwned>(name: &str, kept: &Json) -> Result<T> {
    serde_json::from_str(kept.as_str()).map_err(|error| {
        Error::invalid(format!(
            "the saved result of step `{name}` has another type: {error}; if the type changed, \
             rename the step"
        ))
    })
}

impl<S> std::fmt::Debug for Ctx<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (job, attempt) = (self.job_id(), self.attempt());
        f.debug_struct("Ctx").field("job", &job).field("attempt", &attempt).finish_non_exhaustive()
    }
}
