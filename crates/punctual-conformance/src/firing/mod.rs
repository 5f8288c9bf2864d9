//! The scheduler over any store: what the four predecessors did wrong with slots, and what we do.
//! Each test begins with the mark of the fault in our notes on those systems, and says what it was.
//!
//! The tests own the clock of the nodes and of the store, and every step of the nodes, so that a
//! crash or a lost answer comes exactly where it hurts.

pub mod applying;
pub mod deciding;
pub mod editing;
pub mod excluding;
pub mod failing;
pub mod held;
pub mod leading;
pub mod placing;
pub mod realigning;
pub mod telling_time;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_core::job::{Outcome, RetryPolicy};
use punctual_core::schedule::{Definition, label_queue, node_queue};
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp, hash};
use punctual_engine::steps::Steps;
use punctual_engine::{Boxed, Env, Schedules};
use punctual_store::{
    Acquired, Actor, At, BeatAsk, ClaimAsk, ClaimedJob, Fence, JobDetail, Json, NewJob, NodeInfo,
    QueueShare, ReapAsk, Schedule, Settlement, SlotView, Store,
};
use tokio::task::AbortHandle;

use crate::world::policy;
use crate::{Fault, Faulty};

/// The stage of one test.
pub struct Stage {
    store: Arc<dyn Store>,
    clock: Arc<StageClock>,
}

/// The one clock, and where chance comes from.
struct StageClock {
    now: Mutex<Timestamp>,
    /// By how much it was stepped in all, in microseconds: the nodes' own clocks do not step.
    stepped: Mutex<i64>,
    drawn: AtomicU64,
    /// By how much the hosts' wall clocks are wrong, into the past.
    behind: Mutex<Duration>,
}

impl StageClock {
    fn now(&self) -> Timestamp {
        *self.now.lock().expect("the lock is not poisoned")
    }
}

/// When every test begins, unless it says otherwise: a Friday.
pub(crate) const START: Timestamp = Timestamp::from_seconds(1_798_761_600);

impl Env for StageClock {
    fn at(&self) -> At {
        At::Fixed(self.now())
    }

    fn elapsed(&self) -> Duration {
        let stepped = *self.stepped.lock().expect("the lock is not poisoned");
        let own = Timestamp::from_micros(self.now().as_micros() - stepped);
        own.since(Timestamp::EPOCH)
    }

    fn wall(&self) -> Timestamp {
        self.now() - *self.behind.lock().expect("the lock is not poisoned")
    }

    fn random(&self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            let drawn = hash::draw(7, self.drawn.fetch_add(1, Ordering::Relaxed));
            part.copy_from_slice(&drawn.to_be_bytes()[..part.len()]);
        }
    }

    /// Time passes only between steps.
    fn sleep(&self, _wait: Duration) -> Boxed {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, task: Boxed) -> AbortHandle {
        tokio::spawn(task).abort_handle()
    }

    fn spawn_apart(&self, _name: &str, task: Boxed) -> std::io::Result<()> {
        drop(tokio::spawn(task));
        Ok(())
    }
}

/// A node that fires, and its connection.
pub struct Node {
    /// Its services.
    pub steps: Steps,
    /// Its connection.
    pub line: Arc<Line>,
}

/// A connection that counts calls and fails those that it is told to.
#[derive(Default)]
pub struct Line {
    calls: Mutex<BTreeMap<&'static str, usize>>,
    faults: Mutex<Vec<(&'static str, Fault)>>,
}

impl Line {
    fn pass(&self, method: &'static str) -> Fault {
        *self.calls.lock().expect("the lock is not poisoned").entry(method).or_default() += 1;
        let faults = self.faults.lock().expect("the lock is not poisoned");
        let fault = faults.iter().find(|(name, _)| *name == method || *name == "*");
        fault.map_or(Fault::None, |(_, fault)| fault.clone())
    }

    /// Calls of this method, or of all if it is `*`, suffer this from now on.
    pub fn fail(&self, method: &'static str, fault: Fault) {
        self.faults.lock().expect("the lock is not poisoned").push((method, fault));
    }

    /// All is well again.
    pub fn heal(&self) {
        self.faults.lock().expect("the lock is not poisoned").clear();
    }

    /// How often each method was called since the last time.
    pub fn take_calls(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut self.calls.lock().expect("the lock is not poisoned"))
    }
}

impl Node {
    /// One round of all that it does; an error is what the store answered.
    pub async fn round(&mut self) -> punctual_store::Result<usize> {
        self.steps.live().await?;
        self.steps.fire().await
    }
}

pub(crate) fn ana() -> Actor {
    Actor::new("ana", "needed")
}

impl Stage {
    /// A stage on a fresh store.
    pub fn new(store: Arc<dyn Store>) -> Stage {
        let clock = StageClock {
            now: Mutex::new(START),
            stepped: Mutex::default(),
            drawn: AtomicU64::new(0),
            behind: Mutex::default(),
        };
        Stage { store, clock: Arc::new(clock) }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The time, for the store.
    pub fn at(&self) -> At {
        self.clock.at()
    }

    /// Sets the clock.
    pub fn set(&self, now: &str) {
        *self.clock.now.lock().expect("the lock is not poisoned") =
            now.parse().expect("an instant");
    }

    /// Lets time pass.
    pub fn pass(&self, seconds: u64) {
        *self.clock.now.lock().expect("the lock is not poisoned") =
            self.now() + Duration::from_secs(seconds);
    }

    /// Steps the clock of the database by so many seconds. The nodes' own clocks do not change.
    pub fn step_clock(&self, seconds: i64) {
        let micros = seconds * 1_000_000;
        *self.clock.stepped.lock().expect("the lock is not poisoned") += micros;
        let now = Timestamp::from_micros(self.now().as_micros() + micros);
        *self.clock.now.lock().expect("the lock is not poisoned") = now;
    }

    /// From now on the hosts' wall clocks are slow by this.
    pub fn slow_hosts(&self, by: Duration) {
        *self.clock.behind.lock().expect("the lock is not poisoned") = by;
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn seed(&self) -> [u8; 10] {
        let mut bytes = [0; 10];
        self.clock.random(&mut bytes);
        bytes
    }

    async fn join(&self, name: &str) -> NodeId {
        self.join_with(name, &["default"], &[]).await
    }

    async fn join_with(&self, name: &str, queues: &[&str], labels: &[(&str, &str)]) -> NodeId {
        let id = NodeId::mint(self.now(), self.seed());
        self.join_as(id, name, queues, labels).await;
        id
    }

    async fn join_as(&self, id: NodeId, name: &str, queues: &[&str], labels: &[(&str, &str)]) {
        let info = NodeInfo {
            id,
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            queues: queues.iter().map(|queue| (*queue).to_owned()).collect(),
            kinds: vec!["mail".to_owned()],
            labels: labels
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        self.store.join(self.at(), &info).await.expect("the node joins");
    }

    /// A node that works, and serves its own queues.
    pub async fn worker(&self, name: &str, labels: &[(&str, &str)]) -> NodeId {
        let id = NodeId::mint(self.now(), self.seed());
        self.worker_again(id, name, labels).await;
        id
    }

    /// The same node, perhaps with other labels.
    pub async fn worker_again(&self, id: NodeId, name: &str, labels: &[(&str, &str)]) {
        let mut queues = vec!["default".to_owned(), node_queue(name)];
        queues.extend(labels.iter().map(|(name, value)| label_queue(name, value)));
        let queues: Vec<&str> = queues.iter().map(String::as_str).collect();
        self.join_as(id, name, &queues, labels).await;
    }

    /// Claims what a node may of these queues.
    pub async fn claim_as(&self, node: NodeId, queues: &[&str]) -> Vec<ClaimedJob> {
        let share = |name: &&str| QueueShare { name: (*name).to_owned(), most: 200 };
        let ask = ClaimAsk {
            node,
            lease: LeaseId::mint(self.now(), self.seed()),
            more: Vec::new(),
            queues: queues.iter().map(share).collect(),
            kinds: vec!["mail".to_owned()],
            most: 200,
        };
        self.store.promote(self.at(), 1_000).await.expect("promote");
        self.store.claim(self.at(), &ask).await.expect("claim").jobs
    }

    /// A job that somebody ordered by hand.
    pub async fn enqueue(&self, queue: &str) -> JobId {
        let id = JobId::mint(self.now(), self.seed());
        let job = NewJob::new(id, queue, "mail", Json::null());
        self.store.enqueue(self.at(), &[job]).await.expect("enqueue");
        id
    }

    /// Takes the jobs of a node back that is silent for so long that it counts as dead, while others
    /// are heard of.
    pub async fn declare_dead(&self, silent: NodeId, leader: &mut Node) {
        let role = "maintenance";
        let nonce = Nonce::mint(self.now(), self.seed());
        let reaper = self.join("reaper").await;
        let lease = Duration::from_secs(120);
        let won = self.store.acquire(self.at(), role, reaper, nonce, lease).await.expect("acquire");
        let Acquired::Won { term, .. } = won else { panic!("{won:?}") };
        let fence = Fence { role: role.to_owned(), term, nonce };
        let others = self.store.nodes().await.expect("nodes").into_iter().map(|node| node.info.id);
        let others: Vec<NodeId> = others.filter(|node| *node != silent).collect();
        for _ in 0..4 {
            self.run(10, &mut [leader]).await;
            for node in &others {
                let ask = BeatAsk {
                    node: *node,
                    is_remote: false,
                    roles: Vec::new(),
                    lease,
                    seeks: Vec::new(),
                    leases: Vec::new(),
                    progress: Vec::new(),
                };
                self.store.beat(self.at(), &ask).await.expect("beat");
            }
        }
        let node_lifetime = Duration::from_secs(15);
        let ask = ReapAsk { fence, lease, node_lifetime, policy: policy(), most: 100 };
        self.store.reap(self.at(), &ask).await.expect("reap");
        let nodes = self.store.nodes().await.expect("nodes");
        let is_dead = nodes.iter().any(|node| node.info.id == silent && node.dead_at.is_some());
        assert!(is_dead || nodes.iter().all(|node| node.info.id != silent));
    }

    /// A node that fires.
    pub async fn node(&self, name: &str) -> Node {
        let id = self.join(name).await;
        let line = Arc::<Line>::default();
        let passes = line.clone();
        let store = Faulty::over(self.store.clone(), move |method| passes.pass(method));
        let steps = Steps::new(self.clock.clone(), Arc::new(store), id);
        Node { steps, line }
    }

    /// Lets time pass in steps of one second, in each of which each node goes round once; errors
    /// are what the test made.
    pub async fn run(&self, seconds: u64, nodes: &mut [&mut Node]) {
        for _ in 0..seconds {
            self.pass(1);
            for node in &mut *nodes {
                let _ = node.round().await;
            }
        }
    }

    /// The schedules.
    pub fn schedules(&self) -> Schedules {
        Schedules::new(self.clock.clone(), self.store.clone())
    }

    /// A new schedule.
    pub async fn create(&self, name: &str, definition: &Definition) -> Schedule {
        let created = self.schedules().create("", name, "ops", definition, &ana()).await;
        created.expect("the schedule is created")
    }

    /// The ledger, oldest first.
    pub async fn ledger(&self, id: ScheduleId) -> Vec<SlotView> {
        let mut slots =
            self.store.slots(id, None, 500).await.expect("the ledger can be read").items;
        slots.reverse();
        slots
    }

    /// The ledger in words: slot, last slot and count of a run, outcome.
    pub async fn told(&self, id: ScheduleId) -> Vec<String> {
        let line = |view: &SlotView| {
            let run = view.end.map(|end| format!("..{end} x{}", view.count)).unwrap_or_default();
            format!("{}{run} {}", view.slot, view.outcome)
        };
        self.ledger(id).await.iter().map(line).collect()
    }

    /// Claims whatever is ready, for a worker of its own.
    pub async fn claim(&self) -> Vec<ClaimedJob> {
        let ask = ClaimAsk {
            node: self.join("worker").await,
            lease: LeaseId::mint(self.now(), self.seed()),
            more: Vec::new(),
            queues: vec![QueueShare { name: "default".to_owned(), most: 200 }],
            kinds: vec!["mail".to_owned()],
            most: 200,
        };
        self.store.promote(self.at(), 1_000).await.expect("promote");
        self.store.claim(self.at(), &ask).await.expect("claim").jobs
    }

    /// Ends an attempt.
    pub async fn settle(&self, job: &ClaimedJob, outcome: Outcome) {
        let policy = job.backoff().map_or_else(policy, |backoff| RetryPolicy { backoff });
        let transition = punctual_core::job::decide(&job.standing(), outcome, &policy, self.now());
        let item = Settlement {
            job: job.id,
            lease: job.lease,
            transition,
            result: None,
            then: Vec::new(),
        };
        self.store.settle(self.at(), &[item]).await.expect("settle");
    }

    /// Claims and finishes whatever is ready; the slots of these jobs.
    pub async fn work(&self) -> Vec<Option<Timestamp>> {
        let jobs = self.claim().await;
        for job in &jobs {
            self.settle(job, Outcome::Done).await;
        }
        jobs.iter().map(|job| job.origin.as_ref().expect("a schedule's job").slot).collect()
    }

    /// All about a job.
    pub async fn job(&self, id: JobId) -> JobDetail {
        self.store.job(id).await.expect("job").expect("the job exists")
    }
}

/// Every minute.
pub(crate) fn minutely() -> Definition {
    Definition::new("* * * * *", "mail")
}
