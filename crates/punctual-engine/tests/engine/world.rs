//! What the tests stand on: a clock that jumps to the next event, a store in memory, connections
//! that fail when told to, and handlers that wait when told to.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use punctual_conformance::{Fault, Faulty};
use punctual_core::job::{AttemptOutcome, Backoff, Growth, JobState, Outcome, RetryPolicy, Spread};
use punctual_core::{JobId, Timestamp, hash};
use punctual_engine::{
    Attempt, Boxed, Config, Ended, Engine, Env, Handler, Handlers, ServedQueue, System, Timing,
};
use punctual_store::memory::Memory;
use punctual_store::{
    Actor, At, EnqueueAnswer, JobDetail, Json, NewJob, Node as NodeView, QueueStats, RollupFilter,
    Store,
};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// When every test begins.
pub(crate) const START: Timestamp = Timestamp::from_seconds(1_800_000_000);

/// Nothing that a test waits for takes longer than this, by the test's own clock.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Tokio's clock, which stands still while anything can run and then jumps to the next timer.
pub(crate) struct Clockwork {
    start: Instant,
    drawn: AtomicU64,
}

impl Env for Clockwork {
    fn elapsed(&self) -> Duration {
        // As if the machine had been on for an hour.
        s(3_600) + self.start.elapsed()
    }

    fn wall(&self) -> Timestamp {
        START + self.start.elapsed()
    }

    fn random(&self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let drawn = hash::draw(7, self.drawn.fetch_add(1, Ordering::Relaxed));
            part.copy_from_slice(&drawn.to_be_bytes()[..part.len()]);
        }
    }

    fn sleep(&self, wait: Duration) -> Boxed {
        System.sleep(wait)
    }

    fn spawn(&self, task: Boxed) -> AbortHandle {
        System.spawn(task)
    }

    fn spawn_apart(&self, _name: &str, task: Boxed) -> std::io::Result<()> {
        tokio::spawn(task);
        Ok(())
    }
}

/// A node's connection to the store: counts calls, and fails those that it is told to.
#[derive(Default)]
pub(crate) struct Line {
    calls: Mutex<BTreeMap<&'static str, usize>>,
    fault: Mutex<Option<Decide>>,
}

type Decide = Box<dyn FnMut(&'static str) -> Fault + Send>;

impl Line {
    pub(crate) fn pass(&self, method: &'static str) -> Fault {
        *self.calls.lock().unwrap().entry(method).or_default() += 1;
        self.decide().as_mut().map_or(Fault::None, |decide| decide(method))
    }

    /// It may have panicked on purpose.
    fn decide(&self) -> MutexGuard<'_, Option<Decide>> {
        self.fault.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// From now on calls suffer what `decide` says.
    pub(crate) fn suffer(&self, decide: impl FnMut(&'static str) -> Fault + Send + 'static) {
        *self.decide() = Some(Box::new(decide));
    }

    /// From now on calls of these methods suffer this.
    pub(crate) fn fail(&self, methods: &'static [&'static str], fault: Fault) {
        self.suffer(
            move |method| {
                if methods.contains(&method) { fault.clone() } else { Fault::None }
            },
        );
    }

    /// From now on nothing gets through.
    pub(crate) fn cut(&self) {
        self.suffer(|_| Fault::Request);
    }

    /// All is well again.
    pub(crate) fn heal(&self) {
        *self.decide() = None;
    }

    /// How often a method was called.
    pub(crate) fn calls(&self, method: &str) -> usize {
        self.calls.lock().unwrap().get(method).copied().unwrap_or(0)
    }

    /// Every method that was called, and how often; and forgets it.
    pub(crate) fn take_calls(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

pub(crate) struct World {
    pub(crate) env: Arc<Clockwork>,
    pub(crate) memory: Memory,
    minted: AtomicU64,
    skipped: Arc<AtomicU64>,
}

/// A node and its connection.
pub(crate) struct Node {
    pub(crate) engine: Engine,
    pub(crate) line: Arc<Line>,
}

impl Deref for Node {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "the tests own this clock")]
    pub(crate) fn new() -> World {
        let start = Instant::now();
        let skipped = Arc::new(AtomicU64::new(0));
        let ahead = skipped.clone();
        let memory =
            Memory::new(move || START + start.elapsed() + s(ahead.load(Ordering::Relaxed)));
        let env = Arc::new(Clockwork { start, drawn: AtomicU64::new(0) });
        World { env, memory, minted: AtomicU64::new(0), skipped }
    }

    /// Starts a node on a connection of its own.
    pub(crate) async fn start(&self, config: Config, handlers: Handlers) -> Node {
        let line = Arc::<Line>::default();
        let engine = self.start_on(&line, config, handlers).await;
        Node { engine, line }
    }

    pub(crate) async fn start_on(
        &self,
        line: &Arc<Line>,
        config: Config,
        handlers: Handlers,
    ) -> Engine {
        let passes = line.clone();
        let store = Faulty::new(self.memory.clone(), move |method| passes.pass(method));
        Engine::start(self.env.clone(), Arc::new(store), config, handlers).await.expect("starts")
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, wait: Duration) {
        self.env.sleep(wait).await;
    }

    /// Sets the store's clock forward; to the nodes no time passes.
    pub(crate) fn skip_days(&self, days: u64) {
        self.skipped.fetch_add(days * 86_400, Ordering::Relaxed);
    }

    /// Takes back every day that was skipped: the store's clock is set back.
    pub(crate) fn unskip_days(&self) {
        self.skipped.store(0, Ordering::Relaxed);
    }

    /// A node's process dies: nothing of it reaches the store any more.
    pub(crate) async fn kill(&self, node: Node) {
        node.line.cut();
        node.stop_now();
        self.soon(node.stopped()).await;
    }

    pub(crate) fn now(&self) -> Duration {
        self.env.elapsed()
    }

    /// What a future ends in, if it ends within the patience of a test.
    pub(crate) async fn soon<T>(&self, future: impl Future<Output = T>) -> T {
        tokio::time::timeout(PATIENCE, future).await.expect("it ends")
    }

    /// Waits until it is so.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let start = self.now();
        while !is_so() {
            assert!(self.now() - start < PATIENCE, "it never came to pass: {what}");
            self.pass(ms(5)).await;
        }
    }

    /// A job whose id is greater than that of all before, so that equal ranks go in that order.
    pub(crate) fn job(&self, kind: &str) -> NewJob {
        let after = ms(self.minted.fetch_add(1, Ordering::Relaxed));
        NewJob::new(JobId::mint(START + after, self.seed()), "default", kind, Json::null())
    }

    fn seed(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        self.env.random(&mut bytes);
        bytes
    }

    pub(crate) async fn enqueue(&self, job: NewJob) -> JobId {
        self.enqueue_all(std::slice::from_ref(&job)).await;
        job.id
    }

    pub(crate) async fn enqueue_all(&self, jobs: &[NewJob]) {
        for part in jobs.chunks(1_000) {
            let answers = self.memory.enqueue(At::Database, part).await.unwrap().answers;
            assert!(answers.iter().all(|answer| *answer == EnqueueAnswer::Created), "{answers:?}");
        }
    }

    /// Enqueues this many jobs of a kind.
    pub(crate) async fn enqueue_some(&self, kind: &str, count: usize) -> Vec<JobId> {
        let jobs: Vec<NewJob> = (0..count).map(|_| self.job(kind)).collect();
        self.enqueue_all(&jobs).await;
        jobs.iter().map(|job| job.id).collect()
    }

    pub(crate) async fn cancel(&self, job: JobId) {
        let actor = Actor::new("ana", "no longer needed");
        self.memory.cancel(At::Database, job, &actor).await.unwrap();
    }

    pub(crate) async fn detail(&self, job: JobId) -> JobDetail {
        self.memory.job(job).await.unwrap().expect("the job is there")
    }

    pub(crate) async fn state(&self, job: JobId) -> JobState {
        self.detail(job).await.view.state
    }

    /// Waits until a job is in this state.
    pub(crate) async fn comes_to(&self, job: JobId, state: JobState) -> JobDetail {
        let start = self.now();
        loop {
            let detail = self.detail(job).await;
            if detail.view.state == state {
                return detail;
            }
            assert!(self.now() - start < PATIENCE, "it never is {state}: {detail:?}");
            self.pass(ms(5)).await;
        }
    }

    /// The outcomes of a job's attempts so far, oldest first.
    pub(crate) async fn outcomes(&self, job: JobId) -> Vec<&'static str> {
        let attempts = self.detail(job).await.attempts;
        attempts.iter().filter_map(|attempt| Some(attempt.outcome?.as_str())).collect()
    }

    /// What waits and runs of a kind.
    pub(crate) async fn stats(&self, kind: &str) -> QueueStats {
        let all = self.memory.queue_stats(None, 500).await.unwrap().items;
        let mut sum = QueueStats::empty(String::new(), kind.to_owned());
        for stats in all.iter().filter(|stats| stats.kind == kind) {
            sum.ready += stats.ready;
            sum.scheduled += stats.scheduled;
            sum.retrying += stats.retrying;
            sum.running += stats.running;
            sum.failed += stats.failed;
        }
        sum
    }

    /// How many attempts were counted and written down.
    pub(crate) async fn counted(&self) -> i64 {
        let filter = RollupFilter { from: Timestamp::EPOCH, to: Timestamp::MAX, metric: None };
        let page = self.memory.rollups(&filter, None, 500).await.unwrap();
        let of_attempts =
            page.items.iter().filter(|row| row.metric.parse::<AttemptOutcome>().is_ok());
        of_attempts.map(|row| row.count).sum()
    }

    pub(crate) async fn nodes(&self) -> Vec<NodeView> {
        self.memory.nodes().await.unwrap()
    }
}

/// A node named `name` with the usual settings and room for `max_running` jobs.
pub(crate) fn config(name: &str, max_running: usize) -> Config {
    Config { name: name.to_owned(), max_running, ..Config::default() }
}

/// Serves these queues.
pub(crate) fn serving(queues: &[&str], config: Config) -> Config {
    Config { queues: queues.iter().map(|name| ServedQueue::new(name)).collect(), ..config }
}

/// A node that does no work.
pub(crate) fn producer(name: &str) -> Config {
    Config { queues: Vec::new(), ..config(name, 1) }
}

/// The same wait after each failure.
pub(crate) fn retry_after(wait: Duration) -> RetryPolicy {
    let backoff = Backoff { base: wait, growth: Growth::Fixed, cap: wait, spread: Spread::None };
    RetryPolicy { backoff }
}

pub(crate) fn timing() -> Timing {
    Timing::default()
}

/// Handlers for these kinds.
pub(crate) fn on(kind: &str, handler: impl Handler) -> Handlers {
    let mut handlers = Handlers::default();
    assert!(handlers.add(kind, handler));
    handlers
}

/// And for another kind.
pub(crate) fn and(mut handlers: Handlers, kind: &str, handler: impl Handler) -> Handlers {
    assert!(handlers.add(kind, handler));
    handlers
}

/// A handler that is done at once.
pub(crate) async fn done(_: Attempt) -> Ended {
    Ended::from(Outcome::Done)
}

/// A handler that always ends like this.
pub(crate) fn ends(outcome: Outcome) -> impl Handler {
    move |_: Attempt| {
        let outcome = outcome.clone();
        async { Ended::from(outcome) }
    }
}

/// A handler that never ends by itself.
pub(crate) async fn hangs(_: Attempt) -> Ended {
    std::future::pending().await
}

/// Handlers wait here until they are let through.
#[derive(Clone)]
pub(crate) struct Gate {
    began: Arc<Mutex<Vec<(JobId, String)>>>,
    open: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate { began: Arc::default(), open: Arc::new(Semaphore::new(0)) }
    }

    pub(crate) fn handler(&self) -> impl Handler + use<> {
        let gate = self.clone();
        move |attempt: Attempt| {
            let gate = gate.clone();
            async move {
                let seen = (attempt.job.id, attempt.job.queue.clone());
                gate.began.lock().unwrap().push(seen);
                gate.open.acquire().await.expect("it is never closed").forget();
                Ended::from(Outcome::Done)
            }
        }
    }

    /// Lets this many through.
    pub(crate) fn open(&self, count: usize) {
        self.open.add_permits(count);
    }

    /// The jobs whose handlers began, in order.
    pub(crate) fn began(&self) -> Vec<JobId> {
        self.began.lock().unwrap().iter().map(|(job, _)| *job).collect()
    }

    /// The queues of the jobs whose handlers began, in order.
    pub(crate) fn queues(&self) -> Vec<String> {
        self.began.lock().unwrap().iter().map(|(_, queue)| queue.clone()).collect()
    }
}
