//! Roles, each led by one node for a term.

use std::time::Duration;

use punctual_core::{NodeId, Nonce, Timestamp};

/// The role whose leader reclaims the jobs of dead nodes.
pub const MAINTENANCE: &str = "maintenance";

/// What a leader shows with every write that needs leadership. The number alone would not do:
/// after a failover to an older state it is handed out again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The role.
    pub role: String,
    /// The number of the term.
    pub term: i64,
    /// What makes this term unlike any other of the same number.
    pub nonce: Nonce,
}

/// What became of trying to take a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// It is led by the caller.
    Won {
        /// The instant that was used.
        at: Timestamp,
        /// The number of the new term.
        term: i64,
        /// The end of the lease.
        until: Timestamp,
    },
    /// It is led by another, or by the caller in an earlier term.
    Held {
        /// The instant that was used.
        at: Timestamp,
        /// Who leads it.
        by: NodeId,
        /// The end of its lease.
        until: Timestamp,
    },
}

/// Who leads a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The term.
    pub fence: Fence,
    /// Who.
    pub node: NodeId,
    /// When the term began.
    pub since: Timestamp,
    /// The end of the lease.
    pub until: Timestamp,
    /// The last renewal; at first, the beginning of the term.
    pub renewed_at: Timestamp,
    /// For how long the database was reachable for leaders of the role, over all terms
    /// ([`rules::watched_since`](crate::rules::watched_since)).
    pub watched: Duration,
}

/// The beginning of a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderChange {
    /// The role.
    pub role: String,
    /// The number of the term.
    pub term: i64,
    /// Who took it.
    pub node: NodeId,
    /// When.
    pub at: Timestamp,
}
