//! Queues: pause, limits and what is in them.

use std::time::Duration;

use punctual_core::Timestamp;

#[cfg(doc)]
use crate::limits;
use crate::limits::COUNT_REQUEST_MAX;
use crate::{Actor, AuditAction, Fence, Page, Pause, StatsCursor};

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
    pub fn change(&mut self, change: &QueueChange, actor: &Actor, now: Timestamp) -> AuditAction {
        match change {
            QueueChange::Pause { until } => {
                self.pause = Some(Pause { by: actor.clone(), since: now, until: *until });
                AuditAction::PauseQueue
            }
            QueueChange::Resume => {
                self.pause = None;
                AuditAction::ResumeQueue
            }
            QueueChange::Limit(limits) => {
                self.limits = *limits;
                AuditAction::LimitQueue
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

/// The jobs of one kind in one queue, counted by state.
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
    /// Due time of the oldest ready job.
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

    /// The number of jobs in all counted states.
    pub fn jobs(&self) -> u64 {
        self.ready + self.scheduled + self.retrying + self.blocked + self.running + self.failed
    }

    /// Is there nothing to tell?
    pub fn is_empty(&self) -> bool {
        self.jobs() == 0
    }
}

/// One page of job counts by queue and kind, and their age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueCounts {
    /// The counts, by queue and kind.
    pub items: Vec<QueueStats>,
    /// Continues the list after this page; none: it was the last page.
    pub next: Option<StatsCursor>,
    /// When these counts were stored; none: they were counted for this response.
    pub counted_at: Option<Timestamp>,
    /// True if nothing has counted all jobs yet: these counts cover [`limits::COUNT_REQUEST_MAX`] jobs, and
    /// there are more.
    pub is_partial: bool,
}

impl QueueCounts {
    /// One page of counts that start behind the cursor, in order.
    pub fn page(
        stats: impl Iterator<Item = QueueStats>,
        most: usize,
        counted_at: Option<Timestamp>,
    ) -> QueueCounts {
        let Page { items, next } = Page::take(stats, most, QueueStats::cursor);
        QueueCounts { items, next, counted_at, is_partial: false }
    }

    /// One page of counts that were made for this response, from all of them.
    pub fn live(stats: Vec<QueueStats>, after: Option<&StatsCursor>, most: usize) -> QueueCounts {
        let is_partial = stats.iter().map(QueueStats::jobs).sum::<u64>() > COUNT_REQUEST_MAX as u64;
        let counts = QueueCounts::behind(stats, after, most);
        QueueCounts { is_partial, ..counts }
    }

    /// One page from all counts, behind the cursor.
    pub(crate) fn behind(
        stats: Vec<QueueStats>,
        after: Option<&StatsCursor>,
        most: usize,
    ) -> QueueCounts {
        let is_after = |stats: &QueueStats| after.is_none_or(|after| stats.cursor() > *after);
        QueueCounts::page(stats.into_iter().filter(is_after), most, None)
    }
}

/// A request to count jobs by queue and kind and to store the counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountRequest {
    /// The term under which the counts are stored.
    pub fence: Fence,
    /// For how long that role is renewed.
    pub lease: Duration,
}

/// The result of a [`CountRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountResponse {
    /// False if the term is over and nothing was stored.
    pub led: bool,
    /// The number of jobs that were counted; up to [`limits::COUNT_LIVE_MAX`], nothing is stored.
    pub jobs: u64,
}
