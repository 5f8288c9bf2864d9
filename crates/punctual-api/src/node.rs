//! Nodes, leaders, counters, the audit.

use std::collections::BTreeMap;

use punctual::remote::{is_draining, is_remote};
use punctual::{AuditView, LeaderChange};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A node: a process that runs jobs, or a remote worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Id of the node. It changes at each start.
    pub id: String,
    /// Name of the node. It stays the same across restarts.
    pub name: String,
    /// Version of the program that the node runs.
    pub version: String,
    /// Queues that the node serves.
    pub queues: Vec<String>,
    /// Job kinds that the node has handlers for.
    pub kinds: Vec<String>,
    /// Labels of the node, by key.
    pub labels: BTreeMap<String, String>,
    /// Time at which the node started.
    pub joined_at: String,
    /// Time of the last heartbeat.
    pub seen_at: String,
    /// Time at which the node was declared dead. Null if it is live.
    pub dead_at: Option<String>,
    /// Number of jobs that the node is running.
    pub running: u64,
    /// True for a remote worker, which claims jobs over HTTP.
    #[serde(default)]
    pub is_remote: bool,
    /// True if the node was asked to drain: finish its jobs and claim no new ones.
    #[serde(default)]
    pub is_draining: bool,
}

/// The leader of a role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Leader {
    /// The role, such as `scheduler/0` or `maintenance`.
    pub role: String,
    /// Id of the leading node.
    pub node: String,
    /// Name of the node. Null if the node is no longer registered.
    pub name: Option<String>,
    /// Number of the term.
    pub term: i64,
    /// Start of the term.
    pub since: String,
    /// Time at which the leader lease expires unless it is renewed.
    pub until: String,
    /// True if the leader lease has not expired.
    pub is_valid: bool,
    /// The last 20 terms, newest first.
    pub changes: Vec<Term>,
}

/// The start of a leader term.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Term {
    /// Number of the term.
    pub term: i64,
    /// Id of the node that became leader.
    pub node: String,
    /// Start of the term.
    pub at: String,
}

/// A change made by a user or a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Number of the entry. Newer entries have higher numbers.
    pub id: i64,
    /// Time of the change.
    pub at: String,
    /// Actor that made the change.
    pub who: String,
    /// Reason that the actor gave. Can be empty.
    pub why: String,
    /// Action, such as `pause queue`.
    pub action: String,
    /// The changed object, such as the name of a queue.
    pub subject: String,
}

/// Attempt counters over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Series {
    /// The points, oldest first.
    pub points: Vec<SeriesPoint>,
}

/// One metric in one time bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SeriesPoint {
    /// Start of the bucket.
    pub at: String,
    /// Name of the metric: an attempt outcome such as `succeeded`, or the requested metric.
    pub metric: String,
    /// Number of occurrences in the bucket.
    pub count: i64,
    /// Total duration of these attempts in milliseconds.
    pub total_duration_ms: i64,
}

/// Version, database and roles of this server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Capabilities {
    /// Version of the server program.
    pub version: String,
    /// Database backend: `sqlite`, `postgres` or `memory`.
    pub backend: String,
    /// Version of the database.
    pub database: String,
    /// Version of the database schema.
    pub schema: i64,
    /// Roles of this process: `api`, `scheduler`, `worker`.
    pub roles: Vec<String>,
    /// True if requests need an API token.
    pub requires_token: bool,
}

impl From<punctual::Node> for Node {
    fn from(node: punctual::Node) -> Node {
        Node {
            is_remote: is_remote(&node.info),
            is_draining: is_draining(&node.info),
            id: node.info.id.to_string(),
            name: node.info.name,
            version: node.info.version,
            queues: node.info.queues,
            kinds: node.info.kinds,
            labels: node.info.labels.into_iter().collect(),
            joined_at: node.joined_at.to_string(),
            seen_at: node.seen_at.to_string(),
            dead_at: crate::text(node.dead_at),
            running: node.running,
        }
    }
}

impl From<LeaderChange> for Term {
    fn from(change: LeaderChange) -> Term {
        Term { term: change.term, node: change.node.to_string(), at: change.at.to_string() }
    }
}

impl From<AuditView> for AuditEntry {
    fn from(view: AuditView) -> AuditEntry {
        AuditEntry {
            id: view.id,
            at: view.at.to_string(),
            who: view.entry.actor.who,
            why: view.entry.actor.why,
            action: view.entry.action.to_string(),
            subject: view.entry.subject,
        }
    }
}
