//! Nodes, leaders, counters, the audit.

use std::collections::BTreeMap;

use punctual::remote::{is_draining, is_remote};
use punctual::{AuditView, LeaderChange};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Its id, new at each start.
    pub id: String,
    /// Its lasting name.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// The kinds it has handlers for.
    pub kinds: Vec<String>,
    /// Its labels, by name.
    pub labels: BTreeMap<String, String>,
    /// When it started.
    pub joined_at: String,
    /// Its last heartbeat.
    pub seen_at: String,
    /// When it was declared dead.
    pub dead_at: Option<String>,
    /// Jobs that it runs.
    pub running: u64,
    /// Is it a remote worker, which claims over HTTP?
    #[serde(default)]
    pub is_remote: bool,
    /// Was it told to take no more jobs?
    #[serde(default)]
    pub is_draining: bool,
}

/// Who leads a role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Leader {
    /// The role.
    pub role: String,
    /// The node.
    pub node: String,
    /// The node's name, if it is still on the list.
    pub name: Option<String>,
    /// The number of the term.
    pub term: i64,
    /// Since when.
    pub since: String,
    /// Until when, unless it is renewed.
    pub until: String,
    /// Does it still lead?
    pub is_led: bool,
    /// The last terms, newest first.
    pub changes: Vec<Term>,
}

/// The beginning of a term.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Term {
    /// Its number.
    pub term: i64,
    /// The node.
    pub node: String,
    /// When.
    pub at: String,
}

/// What somebody did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Audit {
    /// Its number; later entries have higher ones.
    pub id: i64,
    /// When.
    pub at: String,
    /// Who.
    pub who: String,
    /// Why.
    pub why: String,
    /// What.
    pub action: String,
    /// To what.
    pub subject: String,
}

/// Counters over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Series {
    /// The points, oldest first.
    pub points: Vec<SeriesPoint>,
}

/// One counter of one bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SeriesPoint {
    /// The beginning of the bucket.
    pub at: String,
    /// What is counted: an attempt's outcome.
    pub metric: String,
    /// How often it happened.
    pub count: i64,
    /// How long all of them took together.
    pub took_ms: i64,
}

/// What this server can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Capabilities {
    /// The version of the program.
    pub version: String,
    /// Where everything is kept.
    pub backend: String,
    /// The version of the database.
    pub database: String,
    /// The number of the last migration.
    pub schema: i64,
    /// What this process does: `api`, `scheduler`, `worker`.
    pub roles: Vec<String>,
    /// Must requests carry a token?
    pub needs_token: bool,
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

impl From<AuditView> for Audit {
    fn from(view: AuditView) -> Audit {
        Audit {
            id: view.id,
            at: view.at.to_string(),
            who: view.entry.actor.who,
            why: view.entry.actor.why,
            action: view.entry.action,
            subject: view.entry.subject,
        }
    }
}
