//! What does the work: handlers by kind, and what they are given.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::job::{LogLevel, Outcome, RetryPolicy};
use punctual_core::schedule::Facts;
use punctual_core::{ScheduleId, Timestamp};
use punctual_store::{ClaimedJob, Json, NewJob, limits};

use crate::EngineError;
use crate::env::Boxed;
use crate::log::{AttemptLog, Log};
use crate::stop::{Stop, StopReason};
use crate::telemetry;
use crate::work::Work;

/// Does the work of one kind of job.
pub trait Handler: Send + Sync + 'static {
    /// Makes one attempt.
    fn run(&self, attempt: Attempt) -> Boxed<Ended>;

    /// When its jobs are tried again: asked once, as it is added.
    ///
    /// None: as the node is configured.
    fn policy(&self) -> Option<&RetryPolicy> {
        None
    }
}

/// How an attempt ended, in the handler's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub outcome: Outcome,
    /// What it returned, if it is done.
    pub result: Option<Json>,
    /// Jobs that are written with its end, if it is done.
    pub then: Vec<NewJob>,
    /// Was its success written by the handler itself, in a transaction of its own? If that was not
    /// committed, the attempt has failed, whatever the outcome says.
    pub is_settled: bool,
}

impl Ended {
    /// Is the work done?
    pub fn is_done(&self) -> bool {
        self.outcome == Outcome::Done
    }

    /// What went wrong, if something did.
    pub fn error(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Fail(error)
            | Outcome::RetryAfter(_, error)
            | Outcome::FailForGood(error)
            | Outcome::OutOfResources(error)
            | Outcome::Panicked(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Outcome> for Ended {
    fn from(outcome: Outcome) -> Ended {
        Ended { outcome, result: None, then: Vec::new(), is_settled: false }
    }
}

/// Handlers by the kind of their jobs.
#[derive(Clone, Default)]
pub struct Handlers(BTreeMap<String, Known>);

/// A handler, and what it said of itself. Jobs are started without asking it anything: what it runs
/// is a task of its own, where a panic is an outcome.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) policy: Option<RetryPolicy>,
}

impl Handlers {
    /// Adds a handler; false, and nothing is changed, if the kind has one.
    pub fn add(&mut self, kind: &str, handler: impl Handler) -> bool {
        let is_new = !self.0.contains_key(kind);
        if is_new {
            let policy = handler.policy().copied();
            self.0.insert(kind.to_owned(), Known { handler: Arc::new(handler), policy });
        }
        is_new
    }

    /// The kinds that have one.
    pub fn kinds(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// Says what the store would refuse with every claim.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        if self.0.len() > limits::KINDS_MAX {
            return Err(EngineError::Config(format!(
                "too many kinds with a handler: {}, maximum {}; split them across several nodes",
                self.0.len(),
                limits::KINDS_MAX
            )));
        }
        let check = |kind: &String| limits::check_name("kind", kind, false);
        self.0.keys().try_for_each(check).map_err(EngineError::Config)
    }

    pub(crate) fn get(&self, kind: &str) -> Option<&Known> {
        self.0.get(kind)
    }
}

/// An asynchronous function is a handler with the node's retry policy.
impl<F, Fut> Handler for F
where
    F: Fn(Attempt) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Ended> + Send + 'static,
{
    fn run(&self, attempt: Attempt) -> Boxed<Ended> {
        Box::pin(self(attempt))
    }
}

/// One attempt at a job, as its handler sees it.
pub struct Attempt {
    /// The job.
    pub job: ClaimedJob,
    pub(crate) stop: Arc<Stop>,
    pub(crate) work: Arc<Work>,
    pub(crate) log: Arc<Log>,
    pub(crate) lines: AttemptLog,
}

/// The schedule and slot that made a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The slot; none if somebody ran it by hand.
    pub slot: Option<Timestamp>,
    /// How long after its slot this attempt was claimed.
    pub late_by: Duration,
    /// The schedule as it was then.
    pub facts: Facts,
}

impl Attempt {
    /// The schedule and slot that made the job, if one did.
    pub fn fired(&self) -> Option<Fired> {
        let origin = self.job.origin.as_ref()?;
        let facts = serde_json::from_str(origin.facts.as_str()).unwrap_or_else(|error| {
            telemetry::unreadable_facts(self.job.id, &error);
            Facts::default()
        });
        let late_by = origin.slot.map(|slot| self.job.claimed_at.since(slot)).unwrap_or_default();
        Some(Fired { schedule: origin.schedule, slot: origin.slot, late_by, facts })
    }

    /// Ends when the attempt has to stop, and says why. On [`StopReason::Shutdown`] the handler may
    /// continue until the shutdown grace ends, otherwise for a short time: see
    /// [`time_left`](Attempt::time_left). Then it is dropped; if it blocks its thread and cannot be
    /// dropped, its result no longer counts.
    pub async fn stopped(&self) -> StopReason {
        self.stop.shown().await
    }

    /// Ends when the attempt has to stop now. Differs from [`stopped`](Attempt::stopped) only at a
    /// shutdown: it ends shortly before the shutdown grace does.
    pub async fn must_stop(&self) -> StopReason {
        self.stop.requested().await
    }

    /// Why the attempt has to stop, if it has to.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stop.show()
    }

    /// How long until the attempt is dropped, once it has to stop.
    pub fn time_left(&self) -> Option<Duration> {
        Some(self.stop.drop_at()?.saturating_sub(self.work.elapsed()))
    }

    /// Says how far it is; what was said last is written with the next heartbeat.
    pub fn progress(&self, percent: Option<u8>, note: &str) {
        self.work.progress(
            self.job.id,
            self.job.lease,
            percent.map(|percent| percent.min(100)),
            limits::cut(note, limits::NOTE_BYTES_MAX).to_owned(),
        );
    }

    /// Writes a line to the job's log, soon.
    pub fn log(&self, level: LogLevel, text: &str) {
        self.log.write(&self.lines, self.job.id, self.job.attempt, level, text);
    }
}
