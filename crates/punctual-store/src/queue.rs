//! Queues: pause, limits and what is in them.

use punctual_core::Timestamp;

#[cfg(doc)]
use crate::limits;
use crate::{Actor, Pause, StatsCursor};

/// A queue that has a setting. A queue without any needs no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Who paused it and why, while it is.
    pub pause: Option<Pause>,
    /// Its limits.
    pub limits: QueueLimits,
}

impl Queue {
    /// A queue without any setting.
    pub fn unset(name: &str) -> Queue {
        Queue { name: name.to_owned(), pause: None, limits: QueueLimits::default() }
    }

    /// Carries out a change that somebody made, and says what the audit calls it.
    pub fn change(&mut self, change: &QueueChange, actor: &Actor, now: Timestamp) -> &'static str {
        match change {
            QueueChange::Pause { until } => {
                self.pause = Some(Pause { by: actor.clone(), since: now, until: *until });
                "pause queue"
            }
            QueueChange::Resume => {
                self.pause = None;
                "resume queue"
            }
            QueueChange::Limit(limits) => {
                self.limits = *limits;
                "limit queue"
            }
        }
    }
}

/// What a queue may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLimits {
    /// The most jobs that run at once, on all nodes together.
    pub max_running: Option<u32>,
}

/// A change of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueChange {
    /// Nothing more is claimed.
    Pause {
        /// Until then; none: until somebody resumes it.
        until: Option<Timestamp>,
    },
    /// Claims go on.
    Resume,
    /// Other limits.
    Limit(QueueLimits),
}

/// What is in a queue, of one kind. A count that reaches [`limits::COUNT_MAX`] means as many or
/// more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStats {
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// May run now.
    pub ready: u64,
    /// Due later, not tried yet.
    pub scheduled: u64,
    /// Due later, tried before.
    pub retrying: u64,
    /// Waiting for another job.
    pub blocked: u64,
    /// At work.
    pub running: u64,
    /// Dead letters.
    pub failed: u64,
    /// When the oldest of the ready jobs that were counted, first in line first, was due.
    pub oldest_due_at: Option<Timestamp>,
}

impl QueueStats {
    /// Nothing.
    pub fn empty(queue: String, kind: String) -> QueueStats {
        QueueStats {
            queue,
            kind,
            ready: 0,
            scheduled: 0,
            retrying: 0,
            blocked: 0,
            running: 0,
            failed: 0,
            oldest_due_at: None,
        }
    }

    /// Where a list goes on after it.
    pub fn cursor(&self) -> StatsCursor {
        StatsCursor { queue: self.queue.clone(), kind: self.kind.clone() }
    }

    /// Is there nothing to tell?
    pub fn is_empty(&self) -> bool {
        self.ready + self.scheduled + self.retrying + self.blocked + self.running + self.failed == 0
    }
}
