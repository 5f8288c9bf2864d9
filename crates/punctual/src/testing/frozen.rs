//! A node whose clock stands still.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use punctual_core::job::AttemptOutcome;
use punctual_core::{NodeId, Timestamp};
use punctual_engine::steps::Steps;
use punctual_store::{JobFilter, JobView, NodeInfo, limits};
use tokio::sync::Mutex;

use super::Length;
use super::clock::Clock;
use crate::builder::{Builder, Ready};
use crate::connect::Ground;
use crate::ctx::Shared;
use crate::error::Result;
use crate::job::Job;
use crate::order::Order;
use crate::punctual::{Finished, Punctual};
use crate::start_check::log_warnings;

/// A node whose clock stands still and which works only when it is told to. It is a [`Punctual`],
/// so that the code under test uses it as it would any other.
pub struct Frozen {
    punctual: Punctual,
    clock: Arc<Clock>,
    node: Arc<Node>,
}

/// What works when it is told to.
struct Node {
    shared: Arc<Shared>,
    steps: Mutex<Steps>,
    crashes: AtomicUsize,
}

/// How attempts ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Those that succeeded.
    pub succeeded: usize,
    /// Those that failed or panicked, whether their job is tried again or not.
    pub failed: usize,
    /// Those that asked to be called again later.
    pub snoozed: usize,
    /// Those that were called off.
    pub cancelled: usize,
    /// Those whose node died.
    pub abandoned: usize,
}

impl Report {
    fn add(&mut self, outcome: AttemptOutcome) {
        *match outcome {
            AttemptOutcome::Succeeded => &mut self.succeeded,
            AttemptOutcome::Failed | AttemptOutcome::Panicked | AttemptOutcome::TimedOut => {
                &mut self.failed
            }
            AttemptOutcome::Snoozed | AttemptOutcome::Released => &mut self.snoozed,
            AttemptOutcome::Cancelled => &mut self.cancelled,
            AttemptOutcome::Abandoned => &mut self.abandoned,
        } += 1;
    }

    fn attempts(&self) -> usize {
        self.succeeded + self.failed + self.snoozed + self.cancelled + self.abandoned
    }
}

/// Where the clock stands unless a test says else: a Friday in January, at noon.
const USUAL_START: i64 = 1_800_014_400;

/// How long the answer of a store is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Attempts after which work that goes on and on is called a mistake of the test.
const ATTEMPTS_MAX: usize = 100_000;

impl<S: Clone + Send + Sync + 'static> Builder<S> {
    /// Starts it with a clock that stands still; see [`testing`](crate::testing).
    pub async fn start_frozen(self) -> Result<Frozen> {
        self.start_frozen_at(Timestamp::from_seconds(USUAL_START)).await
    }

    /// Starts it with a clock that stands still at this instant.
    pub async fn start_frozen_at(self, now: Timestamp) -> Result<Frozen> {
        let mut plan = self.plan();
        let clock = Arc::new(Clock::at(now));
        plan.shared.env = clock.clone();
        let ready = plan.ready().await?;
        let Ready { shared, mut config, handlers, known, is_producer, handler_queues } = ready;
        if is_producer {
            (config.queues, config.schedules) = (Vec::new(), false);
        }
        // Many tests share a machine.
        config.timing.call = PATIENCE;
        let (env, store) = (shared.env.clone(), shared.store.clone());
        let config = config.with_own_queues();
        let info = NodeInfo {
            id: NodeId::mint(env.wall(), env.seed()),
            name: config.name.clone(),
            version: config.version.clone(),
            queues: config.queues.iter().map(|queue| queue.name.clone()).collect(),
            kinds: handlers.kinds(),
            labels: config.labels.clone(),
        };
        store.join(env.at(), &info).await?;
        if !is_producer {
            log_warnings(&*store, env.at(), config.timing.dead, &handler_queues).await;
        }
        let steps = Mutex::new(Steps::with(env, store, info.id, config, handlers));
        let node = Node { shared: shared.clone(), steps, crashes: AtomicUsize::new(0) };
        let punctual = Punctual::new(shared, known, None);
        Ok(Frozen { punctual, clock, node: Arc::new(node) })
    }

    /// Starts it with a clock that stands still, and runs whatever is due as soon as it is enqueued:
    /// for code under test that waits for what it has ordered.
    pub async fn start_inline(self) -> Result<Frozen> {
        let frozen = self.start_frozen().await?;
        let node = frozen.node.clone();
        frozen.punctual.after_enqueue(Box::new(move || {
            let node = node.clone();
            Box::pin(async move {
                // A handler that orders a job does so while the others run; they see to it.
                if let Ok(mut steps) = node.steps.try_lock() {
                    node.settle_down(&mut steps, &mut Report::default()).await;
                }
            })
        }));
        Ok(frozen)
    }
}

impl Deref for Frozen {
    type Target = Punctual;

    fn deref(&self) -> &Punctual {
        &self.punctual
    }
}

#[expect(clippy::panic, reason = "a test has failed, and is told why")]
impl Frozen {
    /// A builder on the same store, for another program beside this one.
    pub fn beside(&self) -> Builder {
        let Shared { store, env, backend, .. } = &**self.punctual.shared();
        Builder::on(Ground {
            env: env.clone(),
            store: store.clone(),
            backend: backend.clone(),
            is_producer: false,
        })
    }

    /// Where the clock stands.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Runs everything that is due now, and what that leads to, until nothing is left to do
    /// without the clock going on.
    pub async fn drain(&self) -> Report {
        let mut report = Report::default();
        self.settle_down(&mut report).await;
        report
    }

    /// Lets time pass: slots are fired and jobs run at the instants at which they are due.
    pub async fn advance(&self, length: impl Length) -> Report {
        let end = self.now() + length.length();
        let mut report = Report::default();
        self.settle_down(&mut report).await;
        while let Some(next) = self.next_event().await.filter(|next| *next <= end) {
            self.clock.set(next.max(self.now()));
            let before = report.attempts();
            let is_idle = self.settle_down(&mut report).await == 0;
            if is_idle && report.attempts() == before && next <= self.now() {
                // Something is due that nobody can do; the clock goes on all the same.
                self.clock.set(self.now() + Duration::from_millis(1));
            }
        }
        self.clock.set(end);
        self.settle_down(&mut report).await;
        report
    }

    /// Lets time pass while nothing works, as when the whole application is down.
    pub fn outage(&self, length: impl Length) {
        self.clock.set(self.now() + length.length());
    }

    /// The node dies with the outcome of the next attempts: their handlers have run, and run again
    /// when the jobs are taken back. What must not happen twice shows here.
    pub fn crash_next(&self, attempts: usize) {
        self.node.crashes.fetch_add(attempts, Ordering::AcqRel);
    }

    /// Orders a job, runs it and everything else that is due, and says how it ended.
    ///
    /// # Panics
    /// If it has not ended, because it is due later, is tried again later, or cannot run.
    pub async fn perform(&self, order: impl Into<Order>) -> Result<Finished> {
        let id = self.enqueue(order).await?.id;
        self.drain().await;
        let job = self.admin().job(id).await?;
        if !job.view.state.is_final() {
            let error = job.attempts.last().and_then(|attempt| attempt.error.clone());
            panic!(
                "job {id} has not finished: it is {}; {}",
                job.view.state,
                error.unwrap_or_default()
            );
        }
        self.wait(id).await
    }

    /// Every job of a type that has not ended, oldest first.
    pub async fn enqueued<J: Job>(&self) -> Vec<J> {
        let mut jobs = Vec::new();
        for view in self.waiting().await.iter().rev().filter(|view| view.kind == J::KIND) {
            let detail = answered(self.admin().job(view.id).await);
            match serde_json::from_str(detail.payload.as_str()) {
                Ok(job) => jobs.push(job),
                Err(error) => panic!("job {} is not a valid {}: {error}", view.id, J::KIND),
            }
        }
        jobs
    }

    /// A job of that type has not ended for which this is so.
    ///
    /// # Panics
    /// If there is none; and says which there are.
    pub async fn assert_enqueued<J: Job>(&self, is_so: impl Fn(&J) -> bool) {
        if !self.enqueued::<J>().await.iter().any(is_so) {
            panic!(
                "no enqueued job of kind `{}` matches the condition\n{}",
                J::KIND,
                self.told().await
            );
        }
    }

    /// No job of that type has not ended.
    ///
    /// # Panics
    /// If there is one; and says which there are.
    pub async fn refute_enqueued<J: Job>(&self) {
        if !self.enqueued::<J>().await.is_empty() {
            panic!("unexpected enqueued job of kind `{}`\n{}", J::KIND, self.told().await);
        }
    }

    /// Fires, promotes and works until nothing is left to do now; how many rounds did something.
    async fn settle_down(&self, report: &mut Report) -> usize {
        let mut steps = self.node.steps.lock().await;
        self.node.settle_down(&mut steps, report).await
    }

    /// When something is due next.
    async fn next_event(&self) -> Option<Timestamp> {
        let shared = self.punctual.shared();
        let slot = answered(shared.store.due(shared.env.at(), 0, 1).await).next;
        let promoted = answered(shared.store.promote(shared.env.at(), 1).await);
        // A job may still start at its deadline.
        let deadline = promoted.next_deadline.map(|deadline| deadline + Duration::from_micros(1));
        [slot, promoted.next_due, deadline].into_iter().flatten().min()
    }

    /// The jobs that have not ended, newest first.
    async fn waiting(&self) -> Vec<JobView> {
        let (mut views, mut after) = (Vec::new(), None);
        loop {
            let page = self.admin().jobs(&JobFilter::default(), after, limits::PAGE_MAX).await;
            let page = answered(page);
            views.extend(page.items.into_iter().filter(|view| !view.state.is_final()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        views
    }

    /// What is enqueued, for whoever expected something else.
    async fn told(&self) -> String {
        let mut text = String::new();
        for view in self.waiting().await.iter().rev() {
            let payload = match self.admin().job(view.id).await {
                Ok(detail) => detail.payload.to_string(),
                Err(error) => error.to_string(),
            };
            text.push_str(&format!(
                "  {} in `{}`, {}: {payload}\n",
                view.kind, view.queue, view.state
            ));
        }
        match text.is_empty() {
            true => "no jobs are enqueued".to_owned(),
            false => format!("enqueued jobs:\n{text}"),
        }
    }
}

#[expect(clippy::panic, reason = "a test has failed, and is told why")]
impl Node {
    async fn settle_down(&self, steps: &mut Steps, report: &mut Report) -> usize {
        let Shared { store, env, .. } = &*self.shared;
        let (mut rounds, mut attempts) = (0, 0);
        loop {
            let live = steps.live().await;
            let fired = match live {
                Ok(()) => steps.fire().await,
                Err(error) => Err(error),
            };
            let promoted = answered(store.promote(env.at(), limits::PROMOTE_MAX).await);
            let expired = answered(steps.expire(&promoted).await);
            let lost = self.crashes.swap(0, Ordering::AcqRel);
            let worked = tokio::select! {
                worked = steps.work(lost) => worked,
                () = env.sleep(PATIENCE) => panic!(
                    "a handler is still running after one minute; with a frozen clock, handlers do \
                     not time out and are not cancelled"
                ),
            };
            let (fired, worked) = (answered(fired), answered(worked));
            self.crashes.fetch_add(lost.saturating_sub(worked.len()), Ordering::AcqRel);
            worked.iter().for_each(|(_, outcome)| report.add(*outcome));
            attempts += worked.len();
            if attempts > ATTEMPTS_MAX {
                panic!(
                    "stopped after {ATTEMPTS_MAX} attempts; check for a job that enqueues itself"
                );
            }
            if fired + expired == 0 && !promoted.has_any() && worked.is_empty() {
                return rounds;
            }
            rounds += 1;
        }
    }
}

/// What the store answered; a test cannot go on without.
#[expect(clippy::panic, reason = "a test has failed, and is told why")]
fn answered<T>(answer: std::result::Result<T, impl fmt::Display>) -> T {
    match answer {
        Ok(answer) => answer,
        Err(error) => panic!("the store returned an error: {error}"),
    }
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frozen").field("now", &self.now()).finish_non_exhaustive()
    }
}
