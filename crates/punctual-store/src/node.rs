//! Nodes and their heartbeats.

use std::time::Duration;

use punctual_core::{JobId, NodeId, Timestamp};

use crate::{Fence, Result, StoreError, limits};

/// What a node says of itself when it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its id, new at each start.
    pub id: NodeId,
    /// Its lasting name.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// The kinds it has handlers for.
    pub kinds: Vec<String>,
    /// Labels, by name.
    pub labels: Vec<(String, String)>,
}

/// A node as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it said of itself.
    pub info: NodeInfo,
    /// When it started.
    pub joined_at: Timestamp,
    /// Its last heartbeat.
    pub seen_at: Timestamp,
    /// When it was declared dead.
    pub dead_at: Option<Timestamp>,
    /// How many jobs it has under lease.
    pub running: u64,
}

/// A heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeatAsk {
    /// Who.
    pub node: NodeId,
    /// The roles that it leads and wants to go on leading.
    pub roles: Vec<Fence>,
    /// For how long.
    pub lease: Duration,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beaten {
    /// The instant that was used.
    pub at: Timestamp,
    /// False if the node was declared dead: it must stop its work and come back with a new id.
    pub alive: bool,
    /// How many leases the store holds for it.
    pub running: u64,
    /// Jobs of it that somebody wants to stop.
    pub cancels: Vec<JobId>,
    /// One for each role of the request.
    pub roles: Vec<RoleBeat>,
}

/// Whether a role was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleBeat {
    /// Until this instant; and since when the role has been led without a lapse.
    Renewed {
        /// The end of the lease.
        until: Timestamp,
        /// When the present unbroken leadership began.
        steady_since: Timestamp,
    },
    /// The term is over.
    Lost,
}

impl NodeInfo {
    /// Checks it against the bounds.
    pub fn check(&self) -> Result<()> {
        limits::check_name("node's name", &self.name, false).map_err(StoreError::invalid)
    }
}
