//! What does the work: handlers by kind, and what they are given.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use punctual_core::job::{Outcome, RetryPolicy};
use punctual_store::{ClaimedJob, Json, limits};

use crate::env::Boxed;
use crate::stop::{Stop, StopReason};
use crate::work::Work;

/// Does the work of one kind of job.
pub trait Handler: Send + Sync + 'static {
    /// Makes one attempt.
    fn run(&self, attempt: Attempt) -> Boxed<Ended>;

    /// When its jobs are tried again.
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
}

impl From<Outcome> for Ended {
    fn from(outcome: Outcome) -> Ended {
        Ended { outcome, result: None }
    }
}

/// Handlers by the kind of their jobs.
#[derive(Clone, Default)]
pub struct Handlers(BTreeMap<String, Arc<dyn Handler>>);

impl Handlers {
    /// Adds a handler; false, and nothing is changed, if the kind has one.
    pub fn add(&mut self, kind: &str, handler: impl Handler) -> bool {
        let is_new = !self.0.contains_key(kind);
        if is_new {
            self.0.insert(kind.to_owned(), Arc::new(handler));
        }
        is_new
    }

    /// The kinds that have one.
    pub fn kinds(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    pub(crate) fn get(&self, kind: &str) -> Option<&Arc<dyn Handler>> {
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
}

impl Attempt {
    /// Ends when the attempt has to stop. A handler that goes on is dropped a little later; if it
    /// blocks its thread and cannot be dropped, its result no longer counts.
    pub async fn stopped(&self) -> StopReason {
        self.stop.told().await
    }

    /// Why the attempt has to stop, if it has to.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stop.reason()
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
}
