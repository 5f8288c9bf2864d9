//! Makes outcomes durable, in batches of whatever has ended while the last batch was written.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::job::{AttemptOutcome, EXPIRED, JobState, Next, Transition};
use punctual_store::{ErrorKind, Result, Settled, Settlement, Store};

use crate::batch::BatchSize;
use crate::counts::Counts;
use crate::env::Env;
use crate::promoter::Timers;
use crate::service::{Report, Rest, Service, within};
use crate::telemetry::{self, EndedAttempt};
use crate::work::Work;

pub(crate) struct Settler {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) work: Arc<Work>,
    pub(crate) timers: Arc<Timers>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) patience: Duration,
    pub(crate) size: BatchSize,
}

impl Settler {
    /// Settles a batch; one that the store refuses as it is goes in halves, so that one bad item
    /// does not keep the others from being durable.
    async fn settle(&self, batch: Vec<Settlement>) -> Result<usize> {
        let call = self.store.settle(self.env.at(), &batch);
        let settlements = match within(&*self.env, self.patience, call).await {
            Ok(settlements) => settlements,
            Err(error) if is_refusal(error.kind()) && batch.len() > 1 => {
                let mut batch = batch;
                let half = batch.split_off(batch.len() / 2);
                let first = Box::pin(self.settle(batch)).await;
                let second = Box::pin(self.settle(half)).await;
                return Ok(first? + second?);
            }
            Err(error) => {
                let mut batch = batch;
                if let ([item], true) = (&mut batch[..], is_refusal(error.kind())) {
                    // It would be refused for ever, and its job never be over.
                    item.transition = Transition {
                        outcome: AttemptOutcome::Failed,
                        next: Next::Failed,
                        error: Some(format!("the outcome could not be saved: {error}")),
                    };
                    item.result = None;
                    item.then.clear();
                }
                self.work.put_back(batch);
                return Err(error);
            }
        };
        let finished = self.work.settled(&batch);
        let now = self.env.elapsed();
        if settlements.frees {
            self.timers.note(now);
        }
        for ((item, answer), finished) in batch.iter().zip(&settlements.answers).zip(finished) {
            // A lease that is gone because the handler's own transaction was committed.
            let by_handler = *answer == Settled::Fenced
                && finished.as_ref().is_some_and(|finished| finished.is_settled);
            let (outcome, answer) = match by_handler {
                true => (AttemptOutcome::Succeeded, Settled::Applied(JobState::Succeeded)),
                false => (item.transition.outcome, *answer),
            };
            telemetry::settled(item.job, outcome, answer);
            let is_final = match answer {
                Settled::Applied(state) => state == JobState::Failed,
                // It was applied by a call whose response was lost.
                Settled::Already => item.transition.next == Next::Failed,
                Settled::Fenced => false,
            };
            if let (Settled::Applied(_) | Settled::Already, Some(finished)) = (answer, finished) {
                telemetry::attempt_ended(&EndedAttempt {
                    job: item.job,
                    kind: &finished.kind,
                    queue: &finished.queue,
                    number: finished.attempt,
                    duration: finished.took,
                    outcome,
                    is_final,
                    retry_in: item.transition.next.wait(),
                    error: item.transition.error.as_deref(),
                });
                if answer != Settled::Already {
                    if item.transition.error.as_deref() == Some(EXPIRED) {
                        telemetry::expired_at_claim();
                        self.counts.expired(settlements.at, &finished.queue, &finished.kind);
                    }
                    self.counts.add(settlements.at, outcome, finished);
                }
            }
            if let (Next::After(wait), false) = (item.transition.next, by_handler) {
                self.timers.note(now.saturating_add(wait));
            }
        }
        Ok(batch.len())
    }
}

/// Is it the request that the store does not like, rather than the moment? A bound that is
/// reached may be the disk's, and not for ever.
fn is_refusal(kind: ErrorKind) -> bool {
    kind == ErrorKind::Invalid
}

#[async_trait]
impl Service for Settler {
    fn name(&self) -> &'static str {
        "settler"
    }

    async fn run_once(&mut self) -> Result<Report> {
        let batch = self.work.take_outcomes(self.size.get());
        if batch.is_empty() {
            return Ok(Report::new(0, Rest::UntilWoken));
        }
        let sent = batch.len();
        let settled = self.settle(batch).await;
        match &settled {
            Ok(_) => self.size.grow(),
            Err(error) if error.is_timeout() => self.size.shrink(sent),
            Err(_) => {}
        }
        Ok(Report::new(settled?, Rest::None))
    }
}
