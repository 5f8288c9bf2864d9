//! Takes jobs from the store: as many as can start, when there may be any.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{LeaseId, NodeId};
use punctual_store::bugs::{Bug, is_planted};
use punctual_store::{
    ClaimAsk, ErrorKind, Hints, QueueShare, Result, Store, StoreError, Topic, limits,
};

use crate::config::{Config, QueueOrder, ServedQueue};
use crate::env::Env;
use crate::executor::Executor;
use crate::level::Level;
use crate::service::{Report, Rest, Service, within};
use crate::telemetry;
use crate::work::Work;

/// The first wait for work that nobody told of; it doubles up to [`crate::Timing::poll`].
const POLL_FIRST: Duration = Duration::from_millis(50);

/// The first and the longest wait before a claim is repeated because another claim had locked its
/// queues: a claim takes milliseconds, and many nodes may wait for the same queue.
const CONTENDED_WAIT: (Duration, Duration) =
    (Duration::from_millis(10), Duration::from_millis(200));

/// The most that a pass claims, in two claims: while the answer to one is read and its jobs start,
/// the store is at work on the other.
pub(crate) const PASS_MAX: usize = 2 * limits::CLAIM_MAX;

/// What a claim has found.
#[derive(Default)]
struct Found {
    /// How many jobs.
    count: usize,
    /// Are these as many as it may have? Then nobody knows of any queue whether there are more.
    is_full: bool,
    /// What each queue was asked for, and how many it gave; without those that another claim had locked.
    gave: Vec<(QueueShare, usize)>,
    /// Was a queue locked by another claim?
    is_contended: bool,
}

pub(crate) struct Claimer {
    env: Arc<dyn Env>,
    store: Arc<dyn Store>,
    work: Arc<Work>,
    executor: Executor,
    node: NodeId,
    config: Arc<Config>,
    kinds: Vec<String>,
    hints: Hints,
    dead: Arc<Level>,
    /// Queues in which nothing was left, and whether they gave anything at all when that was seen.
    dry: BTreeMap<String, bool>,
    /// How many jobs were settled by then.
    settled: u64,
    /// When they are looked at again without being told of work, and after which wait.
    look_at: Duration,
    wait: Duration,
    /// The wait before the next claim from locked queues.
    contended_wait: Duration,
}

impl Claimer {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        executor: Executor,
        node: NodeId,
        config: Arc<Config>,
        dead: Arc<Level>,
    ) -> Claimer {
        Claimer {
            env: executor.env.clone(),
            work: executor.work.clone(),
            kinds: executor.handlers.kinds(),
            hints: store.hints(Topic::Work),
            dry: BTreeMap::new(),
            settled: 0,
            look_at: Duration::ZERO,
            wait: Duration::ZERO,
            contended_wait: CONTENDED_WAIT.0,
            store,
            executor,
            node,
            config,
            dead,
        }
    }

    /// Forgets in which queues nothing was left.
    pub(crate) fn look_again(&mut self) {
        self.look_at = Duration::ZERO;
    }

    /// The queues in the order in which this claim looks at them.
    fn shares(&self, most: usize) -> Vec<QueueShare> {
        let queues = self.config.queues.iter().filter(|queue| !self.dry.contains_key(&queue.name));
        let mut queues: Vec<&ServedQueue> = queues.collect();
        if self.config.order == QueueOrder::Weighted {
            queues = shuffled(&*self.env, queues);
        }
        let share = |queue: &ServedQueue| {
            let room =
                queue.max_running.map(|max| max.saturating_sub(self.work.held_of(&queue.name)));
            QueueShare { name: queue.name.clone(), most: room.unwrap_or(most).min(most) }
        };
        queues.into_iter().map(share).filter(|share| share.most > 0).collect()
    }

    /// Claims, and starts what can start.
    async fn claim(&self, queues: Vec<QueueShare>, most: usize) -> Result<Found> {
        if queues.is_empty() {
            return Ok(Found::default());
        }
        let lease = LeaseId::mint(self.env.wall(), self.env.seed());
        let (node, kinds) = (self.node, self.kinds.clone());
        let ask = ClaimAsk { node, lease, more: Vec::new(), queues, kinds, most };
        let sent = self.env.elapsed();
        self.work.claiming(lease);
        let call = self.store.claim(self.env.at(), &ask);
        let answer = within(&*self.env, self.config.timing.call, call).await;
        let (claimed, contended) = match answer {
            Ok(claimed) => {
                telemetry::jobs_unreadable(&claimed.unreadable);
                (claimed.jobs, claimed.contended)
            }
            Err(error) => {
                self.work.claimed(lease, sent, Vec::new());
                return Err(error);
            }
        };
        telemetry::claimed(claimed.len());
        claimed.iter().for_each(telemetry::started);
        let count = claimed.len();
        let with_given = |share: QueueShare| {
            let given = claimed.iter().filter(|job| job.queue == share.name).count();
            (share, given)
        };
        let is_locked = |share: &QueueShare| contended.contains(&share.name);
        let (locked, open): (Vec<_>, Vec<_>) = ask.queues.into_iter().partition(is_locked);
        let gave = open.into_iter().map(with_given).collect();
        self.work.claimed(lease, sent, claimed);
        self.executor.fill();
        Ok(Found { count, is_full: count == most, gave, is_contended: !locked.is_empty() })
    }

    fn failed(&self, error: StoreError) -> Result<Report> {
        if error.kind() == ErrorKind::Fenced {
            // The store says that the node is dead.
            self.dead.raise(1);
        }
        if error.kind() == ErrorKind::Unreachable && is_planted(Bug::WedgeOnLostConnection) {
            return Ok(Report::new(0, Rest::End));
        }
        Err(error)
    }

    /// Remembers which queues gave less than was asked for; is there any? One that gave all to either
    /// claim may have more: where it is limited for all nodes, one claim keeps the other out of it.
    fn note_dry(&mut self, found: &[Found; 2]) -> bool {
        let before = self.dry.len();
        let gave = || found.iter().flat_map(|found| &found.gave);
        for (share, given) in gave() {
            let is_same = |(other, _): &&(QueueShare, usize)| other.name == share.name;
            if gave().filter(is_same).all(|(share, given)| *given < share.most) {
                *self.dry.entry(share.name.clone()).or_default() |= *given > 0;
            }
        }
        self.dry.len() > before
    }

    /// How long to wait until a claim from locked queues is repeated.
    fn next_contended_wait(&mut self) -> Duration {
        let wait = self.env.jitter(self.contended_wait);
        self.contended_wait = (self.contended_wait * 2).min(CONTENDED_WAIT.1);
        wait
    }

    /// When to look again. Where work came unannounced, more may: the wait begins anew.
    fn put_off(&mut self, came_unannounced: bool) {
        let before = if came_unannounced { Duration::ZERO } else { self.wait };
        self.wait = (before * 2).clamp(POLL_FIRST, self.config.timing.poll.max(POLL_FIRST));
        self.look_at = self.env.elapsed() + self.wait;
    }
}

#[async_trait]
impl Service for Claimer {
    fn name(&self) -> &'static str {
        "claimer"
    }

    async fn run_once(&mut self) -> Result<Report> {
        let started = self.executor.fill();
        let was_told = self.hints.take();
        let now = self.env.elapsed();
        if was_told || now >= self.look_at {
            self.dry.clear();
        }
        let settled = self.work.settled_total();
        if settled != self.settled {
            self.settled = settled;
            // A queue that gave less than was asked may be limited, with room for the next job
            // now that one has ended.
            self.dry.retain(|_, gave_some| !*gave_some);
        }
        let most = self.work.room();
        let queues = self.shares(most);
        if queues.is_empty() {
            // Room comes with the end of a job, and touch with a heartbeat; both wake.
            let poll = self.config.timing.poll;
            let wait = if self.dry.is_empty() { poll } else { self.look_at.saturating_sub(now) };
            return Ok(Report::new(started, Rest::AtMost(wait)));
        }
        let claims = most.div_ceil(limits::CLAIM_MAX);
        let (first, second) = split(&queues, claims);
        let answers = tokio::join!(
            self.claim(first, most.div_ceil(claims)),
            self.claim(second, most / claims)
        );
        let found = match answers {
            (Ok(first), Ok(second)) => [first, second],
            (Err(error), _) | (_, Err(error)) => return self.failed(error),
        };
        let count = found.iter().map(|found| found.count).sum();
        let is_full = found.iter().any(|found| found.is_full);
        let is_dry = !is_full && self.note_dry(&found);
        if is_dry {
            self.put_off(count > 0 && !was_told);
        }
        let is_contended = found.iter().any(|found| found.is_contended);
        if count > 0 || !is_contended {
            self.contended_wait = CONTENDED_WAIT.0;
        }
        if is_contended && !is_full {
            let wait = self.next_contended_wait();
            return Ok(Report::new(count, Rest::AtMost(wait)));
        }
        if !is_dry {
            return Ok(Report::new(count, Rest::None));
        }
        Ok(Report::new(count, Rest::AtMost(self.wait)))
    }
}

/// What the first of so many claims asks for, and what is left to the other.
fn split(queues: &[QueueShare], claims: usize) -> (Vec<QueueShare>, Vec<QueueShare>) {
    let first = |most: usize| most.div_ceil(claims);
    let rest = |most: usize| most - most.div_ceil(claims);
    let part = |of: &dyn Fn(usize) -> usize| {
        let share =
            |queue: &QueueShare| QueueShare { name: queue.name.clone(), most: of(queue.most) };
        queues.iter().map(share).filter(|share| share.most > 0).collect()
    };
    (part(&first), part(&rest))
}

/// By chance, the heavier first more often: each next one is drawn from those left with a chance
/// in proportion to its weight.
fn shuffled<'q>(env: &dyn Env, mut queues: Vec<&'q ServedQueue>) -> Vec<&'q ServedQueue> {
    let mut order = Vec::with_capacity(queues.len());
    while !queues.is_empty() {
        let total: u64 = queues.iter().map(|queue| u64::from(queue.weight)).sum();
        let mut drawn = env.pick(total);
        let weight = |queue: &&ServedQueue| u64::from(queue.weight);
        let chosen = queues.iter().position(|queue| match drawn.checked_sub(weight(queue)) {
            Some(left) => {
                drawn = left;
                false
            }
            None => true,
        });
        order.push(queues.remove(chosen.unwrap_or(0)));
    }
    order
}
