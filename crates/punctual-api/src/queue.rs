//! Queues, and pauses of all kinds.

use punctual::{QueueStats, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::list::text;

/// A queue: its settings and its job counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// Name of the queue.
    pub name: String,
    /// The current pause. Null if the queue is active.
    pub pause: Option<Pause>,
    /// Limits of the queue.
    pub limits: Limits,
    /// Job counts by kind.
    pub kinds: Vec<QueueKind>,
    /// When the jobs were counted. With more than 2,000 unfinished and failed jobs, counts are
    /// stored every few seconds and can be that old; otherwise they are made for the response.
    #[serde(default)]
    pub counted_at: String,
    /// True if not all jobs are counted yet. The counts then cover 10,000 jobs of all queues, so that
    /// the real numbers are higher.
    #[serde(default)]
    pub is_partial: bool,
}

/// Job counts of one kind in a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueKind {
    /// The job kind.
    pub kind: String,
    /// Jobs that can start now.
    pub ready: u64,
    /// Jobs due later that have not been attempted yet.
    pub scheduled: u64,
    /// Jobs waiting for their next attempt.
    pub retrying: u64,
    /// Jobs blocked by another job.
    pub blocked: u64,
    /// Running jobs.
    pub running: u64,
    /// Failed jobs.
    pub failed: u64,
    /// Due time of the oldest ready job.
    pub oldest_due_at: Option<String>,
}

/// Limits of a queue. An omitted limit is removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct Limits {
    /// Maximum number of jobs running at the same time on all nodes. Null: no limit.
    #[serde(default)]
    pub max_running: Option<u32>,
}

/// A pause of a schedule or a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pause {
    /// Actor that paused it.
    pub by: String,
    /// Reason for the pause.
    pub why: String,
    /// Start of the pause.
    pub since: String,
    /// End of the pause. Null: until it is resumed.
    pub until: Option<String>,
}

/// A request to pause a schedule or a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct PauseRequest {
    /// End of the pause (RFC 3339). Default: until it is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Reason for the pause.
    #[serde(default)]
    pub why: String,
}

impl Pause {
    /// A pause, if it holds now: one that has ended, or was ended, may stand in the store for a while.
    pub fn at(pause: Option<&punctual::Pause>, now: Timestamp) -> Option<Pause> {
        let pause = pause.filter(|pause| pause.is_in_force(now))?;
        Some(Pause {
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
            oldest_due_at: text(stats.oldest_due_at),
        }
    }
}
