//! Roles, each led by one node for a term.

use punctual_core::{NodeId, Nonce, Timestamp};

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
    /// When the present unbroken leadership began: the term's start, or the end of a lapse.
    pub steady_since: Timestamp,
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
