//! Queues, and pauses of all kinds.

use punctual::{Pause, QueueStats, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::list::text;

/// A queue: its settings and what is in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Who paused it, while it is.
    pub pause: Option<Paused>,
    /// Its limits.
    pub limits: Limits,
    /// What is in it, by kind. A count of 10,000 means as many or more.
    pub kinds: Vec<QueueKind>,
}

/// What is in a queue, of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueKind {
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
    /// When the oldest ready job was due.
    pub oldest_due: Option<String>,
}

/// What a queue may do. What is not given is not limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The most jobs that run at once, on all nodes together.
    #[serde(default)]
    pub max_running: Option<u32>,
}

/// Who stopped something, why, and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Paused {
    /// Who.
    pub by: String,
    /// Why.
    pub why: String,
    /// Since when.
    pub since: String,
    /// Until when; null: until somebody resumes it.
    pub until: Option<String>,
}

/// A wish to stop something for a while.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseAsk {
    /// Until then; if nothing is said, until somebody resumes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Why.
    #[serde(default)]
    pub why: String,
}

impl Paused {
    /// A pause, if it holds now: one that has ended, or was ended, may stand in the store for a while.
    pub fn at(pause: Option<&Pause>, now: Timestamp) -> Option<Paused> {
        let pause = pause.filter(|pause| pause.is_in_force(now))?;
        Some(Paused {
            by: pause.by.who.clone(),
            why: pause.by.why.clone(),
            since: pause.since.to_string(),
            until: text(pause.until),
        })
    }
}

impl From<QueueStats> for QueueKind {
    fn from(stats: QueueStats) -> QueueKind {
        QueueKind {
            kind: stats.kind,
            ready: stats.ready,
            scheduled: stats.scheduled,
            retrying: stats.retrying,
            blocked: stats.blocked,
            running: stats.running,
            failed: stats.failed,
            oldest_due: text(stats.oldest_due),
        }
    }
}
