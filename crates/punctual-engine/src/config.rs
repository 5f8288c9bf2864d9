//! What a node can be told.

use std::time::Duration;

use punctual_core::job::RetryPolicy;
use punctual_core::schedule::{NODE_QUEUE, check_node_name, label_queue, node_queue};
use punctual_store::{Retention, limits};

use crate::EngineError;
use crate::places::AHEAD_MAX;

/// How a node works.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's lasting name.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// Labels, by name.
    pub labels: Vec<(String, String)>,
    /// The queues it serves; none: it only produces.
    pub queues: Vec<ServedQueue>,
    /// In which order it looks at them.
    pub order: QueueOrder,
    /// The most handlers at work at once.
    pub max_running: usize,
    /// Does it stand for leading the upkeep of the store?
    pub maintains: bool,
    /// Does it stand for firing schedules?
    pub schedules: bool,
    /// How long an attempt may take if neither job nor handler says.
    pub timeout: Duration,
    /// When jobs are tried again whose node died.
    pub policy: RetryPolicy,
    /// How long history is kept.
    pub retention: Retention,
    /// How long running work may go on after the first request to stop.
    pub shutdown_grace: Duration,
    /// Periods and patience.
    pub timing: Timing,
}

/// A queue that a node serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedQueue {
    /// Its name.
    pub name: String,
    /// How often it comes first, beside the others, in [`QueueOrder::Weighted`].
    pub weight: u32,
    /// The most of its jobs at work at once on this node; none: as many as the node runs.
    pub max_running: Option<usize>,
}

impl ServedQueue {
    /// A queue of weight 1 without a limit of its own.
    pub fn new(name: &str) -> ServedQueue {
        ServedQueue { name: name.to_owned(), weight: 1, max_running: None }
    }
}

/// In which order a node looks at its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueOrder {
    /// As listed: the second is looked at when the first is empty. The second may starve.
    Strict,
    /// By chance at each claim, the heavier first more often. None starves.
    #[default]
    Weighted,
}

/// Periods and patience. The defaults fit together; [`Timing::check`] says if others do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From heartbeat to heartbeat.
    pub beat: Duration,
    /// How long the answer of a store is waited for.
    pub call: Duration,
    /// A node that could not beat for so long stops its work: soon others may take it.
    pub give_up: Duration,
    /// How long a handler that was told to stop may take to do so.
    pub cancel_grace: Duration,
    /// A node that was silent for so long is dead for the others.
    pub dead: Duration,
    /// For how long a role is led without a renewal.
    pub leader_lease: Duration,
    /// By how much a leader stops trusting its lease before it ends.
    pub leader_margin: Duration,
    /// From reap to reap.
    pub reap: Duration,
    /// The longest wait between looks at what is due.
    pub promote: Duration,
    /// The longest wait between looks for due schedules that nobody told of.
    pub schedule: Duration,
    /// From prune to prune.
    pub prune: Duration,
    /// From roll-up to roll-up.
    pub roll_up: Duration,
    /// The longest wait between looks for work that nobody told of.
    pub poll: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        let s = Duration::from_secs;
        Timing {
            beat: s(1),
            call: s(3),
            give_up: s(10),
            cancel_grace: s(3),
            dead: s(15),
            leader_lease: s(5),
            leader_margin: s(1),
            reap: s(2),
            promote: s(1),
            schedule: s(30),
            prune: s(60),
            roll_up: s(10),
            poll: s(5),
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            name: "node".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            labels: Vec::new(),
            queues: vec![ServedQueue::new("default")],
            order: QueueOrder::default(),
            max_running: 100,
            maintains: true,
            schedules: true,
            timeout: Duration::from_secs(15 * 60),
            policy: RetryPolicy::default(),
            retention: Retention::default(),
            shutdown_grace: Duration::from_secs(30),
            timing: Timing::default(),
        }
    }
}

/// A heartbeat names the leases that the node knows of, which may be one for each job: those at
/// work, those whose outcome is not durable, and those fetched ahead.
const MAX_RUNNING_MAX: usize = limits::LEASES_MAX - limits::SETTLE_MAX - AHEAD_MAX;

impl Config {
    /// With the queues that a node serves without being told: that of its name, and those of its
    /// labels. They come first, because nobody else serves the one, and few the others; a node that
    /// only produces serves none.
    pub fn with_own_queues(mut self) -> Config {
        if !self.queues.is_empty() {
            let labels = self.labels.iter().map(|(label, value)| label_queue(label, value));
            let own = std::iter::once(node_queue(&self.name)).chain(labels);
            let own: Vec<ServedQueue> = own.map(|queue| ServedQueue::new(&queue)).collect();
            self.queues.splice(0..0, own);
        }
        self
    }

    /// Says what cannot be, and what would.
    pub fn check(&self) -> Result<(), EngineError> {
        let invalid = |message: String| Err(EngineError::Config(message));
        if let Err(message) = limits::check_name("node name", &self.name, false) {
            return invalid(message);
        }
        if let Err(message) = check_node_name(&self.name) {
            return invalid(message);
        }
        for (index, (label, _)) in self.labels.iter().enumerate() {
            if label.is_empty() || label.contains('=') {
                return invalid(format!(
                    "invalid label name `{label}`; it must not be empty or contain `=`"
                ));
            }
            if self.labels[..index].iter().any(|(other, _)| other == label) {
                return invalid(format!("label `{label}` is set twice; set it once"));
            }
        }
        if self.max_running == 0 && !self.queues.is_empty() {
            return invalid(
                "max_running must be at least 1 for a node that serves queues, got 0; raise it, or \
                 serve no queues"
                    .to_owned(),
            );
        }
        if self.max_running > MAX_RUNNING_MAX {
            return invalid(format!(
                "max_running must be at most {MAX_RUNNING_MAX}, got {}; run more nodes instead",
                self.max_running
            ));
        }
        if self.timeout.is_zero() {
            return invalid("timeout must be greater than zero".to_owned());
        }
        for (index, queue) in self.queues.iter().enumerate() {
            if let Err(message) = limits::check_name("queue", &queue.name, false) {
                return invalid(message);
            }
            if queue.name.starts_with(NODE_QUEUE) {
                return invalid(format!(
                    "queue `{}` is reserved for a node or label; a node serves its own queues \
                     automatically",
                    queue.name
                ));
            }
            if self.queues[..index].iter().any(|other| other.name == queue.name) {
                return invalid(format!("queue `{}` is listed twice; list it once", queue.name));
            }
            if queue.weight == 0 {
                return invalid(format!(
                    "queue `{}`: weight must be at least 1, got 0; raise it, or do not serve the \
                     queue",
                    queue.name
                ));
            }
            if queue.max_running == Some(0) {
                return invalid(format!(
                    "queue `{}`: max_running must be at least 1, got 0; pause the queue, or do not \
                     serve it",
                    queue.name
                ));
            }
        }
        self.timing.check()
    }
}

impl Timing {
    /// Says which of them do not fit together.
    pub fn check(&self) -> Result<(), EngineError> {
        let orders = [
            ("beat", self.beat, "give_up", self.give_up),
            ("give_up + cancel_grace", self.give_up + self.cancel_grace, "dead", self.dead),
            (
                "beat + leader_margin",
                self.beat + self.leader_margin,
                "leader_lease",
                self.leader_lease,
            ),
        ];
        for (less, short, more, long) in orders {
            if short >= long {
                let show = punctual_core::format_duration;
                return Err(EngineError::Config(format!(
                    "{less} must be shorter than {more} ({}), got {}",
                    show(long),
                    show(short)
                )));
            }
        }
        let periods = [
            ("beat", self.beat),
            ("call", self.call),
            ("reap", self.reap),
            ("promote", self.promote),
            ("schedule", self.schedule),
            ("prune", self.prune),
            ("roll_up", self.roll_up),
            ("poll", self.poll),
        ];
        match periods.iter().find(|(_, period)| period.is_zero()) {
            Some((name, _)) => {
                Err(EngineError::Config(format!("{name} must be greater than zero")))
            }
            None => Ok(()),
        }
    }
}
