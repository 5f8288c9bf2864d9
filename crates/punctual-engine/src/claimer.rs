//! Takes jobs from the store: as many as can start, when there may be any.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{LeaseId, NodeId};
use punctual_store::{ClaimAsk, ErrorKind, Hints, QueueShare, Result, Store, Topic};

use crate::config::{Config, QueueOrder, ServedQueue};
use crate::env::Env;
use crate::executor::Executor;
use crate::level::Level;
use crate::service::{Report, Rest, Service, within};
use crate::telemetry;
use crate::work::Work;

/// The first wait for work that nobody told of; it doubles up to [`crate::Timing::poll`].
const POLL_FIRST: Duration = Duration::from_millis(50);

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
    /// Once nothing was left: when to look again, and how long was waited before.
    idle: Option<(Duration, Duration)>,
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
            idle: None,
            store,
            executor,
            node,
            config,
            dead,
        }
    }

    /// The queues in the order in which this claim looks at them.
    fn shares(&self, most: usize) -> Vec<QueueShare> {
        let mut queues: Vec<&ServedQueue> = self.config.queues.iter().collect();
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

    /// Nothing is left: rest until somebody tells of work, or until the next look.
    fn rest(&mut self) -> Rest {
        let before = self.idle.map_or(Duration::ZERO, |(_, wait)| wait);
        let wait = (before * 2).clamp(POLL_FIRST, self.config.timing.poll.max(POLL_FIRST));
        self.idle = Some((self.env.elapsed() + wait, wait));
        Rest::AtMost(wait)
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
        if let Some((until, _)) = self.idle.filter(|_| !was_told) {
            let left = until.saturating_sub(self.env.elapsed());
            if !left.is_zero() {
                return Ok(Report::new(started, Rest::AtMost(left)));
            }
        }
        let most = self.work.room();
        let queues = self.shares(most);
        if queues.is_empty() {
            // Room comes with the end of a job, and touch with a heartbeat.
            self.idle = None;
            return Ok(Report::new(started, Rest::AtMost(self.config.timing.poll)));
        }
        let lease = LeaseId::mint(self.env.wall(), self.env.seed());
        let (node, kinds) = (self.node, self.kinds.clone());
        let ask = ClaimAsk { node, lease, queues, kinds, most };
        let sent = self.env.elapsed();
        self.work.claiming(lease);
        let call = self.store.claim(self.env.at(), &ask);
        let answer = within(&*self.env, self.config.timing.call, call).await;
        let claimed = match answer {
            Ok(claimed) => claimed.jobs,
            Err(error) => {
                self.work.claimed(lease, sent, Vec::new());
                if error.kind() == ErrorKind::Conflict {
                    // The store says that the node is dead.
                    self.dead.raise(1);
                }
                return Err(error);
            }
        };
        let count = claimed.len();
        telemetry::claimed(count);
        self.work.claimed(lease, sent, claimed);
        self.executor.fill();
        let rest = if count < most {
            self.rest()
        } else {
            self.idle = None;
            Rest::None
        };
        Ok(Report::new(count, rest))
    }
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
