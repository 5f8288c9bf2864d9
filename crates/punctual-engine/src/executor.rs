//! Starts claimed jobs, each as a task of its own.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::job::{Outcome, RetryPolicy, refuse_start};
use punctual_store::ClaimedJob;

use crate::env::Env;
use crate::handler::{Attempt, Ended, Handlers, Known};
use crate::log::{AttemptLog, Log};
use crate::places::Place;
use crate::service::caught;
use crate::telemetry;
use crate::work::{Work, time_limit};

#[derive(Clone)]
pub(crate) struct Executor {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) work: Arc<Work>,
    pub(crate) handlers: Arc<Handlers>,
    pub(crate) log: Arc<Log>,
    /// How long an attempt may take if its job does not say.
    pub(crate) timeout: Duration,
}

impl Executor {
    /// Starts what can start; the answer is how many jobs that were.
    pub(crate) fn fill(&self) -> usize {
        let mut started = 0;
        while let Some((job, place)) = self.work.next() {
            self.start(job, place);
            started += 1;
        }
        started
    }

    fn start(&self, job: ClaimedJob, place: Place) {
        let key = (job.id, job.lease);
        let Some(now) = self.work.now(key) else { return };
        if let Some(refusal) = refuse_start(&job.standing(), now) {
            self.work.refused(key, refusal);
            return;
        }
        let Some(Known { handler, mut policy }) = self.handlers.get(&job.kind).cloned() else {
            // Only kinds with a handler are claimed; a store that gives others gets them back.
            self.work.gives_back(key);
            return;
        };
        let limit = time_limit(&job, self.timeout);
        if let Some(backoff) = job.backoff() {
            policy = Some(RetryPolicy { backoff });
        }
        let Some(stop) = self.work.started(key, limit, policy) else { return };
        let executor = self.clone();
        let task = async move {
            let span = telemetry::attempt_span(&job);
            let (work, log) = (executor.work.clone(), executor.log.clone());
            let attempt = Attempt { job, stop, work, log, lines: AttemptLog::default() };
            let run = tracing::Instrument::instrument(async { handler.run(attempt).await }, span);
            let ended = caught(run).await;
            let ended = ended.unwrap_or_else(|panic| Ended::from(Outcome::Panicked(panic)));
            executor.work.ended(key, ended);
            drop(place);
            executor.fill();
        };
        let task = self.env.spawn(Box::pin(task));
        self.work.runs_as(key, task);
    }
}
