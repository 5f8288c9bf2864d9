//! Nodes and their heartbeats.

use std::time::Duration;

use punctual_core::{JobId, LeaseId, NodeId, Timestamp};

use crate::{Fence, ProgressView, Result, StoreError, UnreadableJob, limits, rules};

/// The label of remote workers, which run outside the process that writes their heartbeats.
pub const REMOTE_LABEL: (&str, &str) = ("remote", "http");

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
    /// [`Leader::watched`](crate::Leader::watched) of the role `maintenance` at its last heartbeat.
    pub seen_watch: Duration,
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
    /// Is it the heartbeat of a remote worker, which a server sends for it? The server's own must not
    /// wait for it.
    pub is_remote: bool,
    /// The roles that it leads and wants to go on leading.
    pub roles: Vec<Fence>,
    /// For how long.
    pub lease: Duration,
    /// The roles that it would lead if nobody did.
    pub seeks: Vec<String>,
    /// The leases that it knows of, those of claims under way included. What the store holds for
    /// it under any other is a stray: the answer to its claim was lost.
    pub leases: Vec<LeaseId>,
    /// How far its jobs have come, for those that have something new to say.
    pub progress: Vec<Progress>,
}

/// How far an attempt has come. It is noted if the lease still holds, and forgotten with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The job.
    pub job: JobId,
    /// The lease of the attempt.
    pub lease: LeaseId,
    /// How much of the work is done, in hundredths; more than 100 is told as 100, since a
    /// handler's sum must not cost its node a heartbeat.
    pub percent: Option<u8>,
    /// What it is doing; cut to one line's length.
    pub note: String,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beaten {
    /// The instant that was used.
    pub at: Timestamp,
    /// False if the node was declared dead: it must stop its work and come back with a new id.
    pub alive: bool,
    /// Leases that it did not name and under which the store holds jobs for it, in order. Those
    /// that it does not know of by now either are to be given back with `release`: a lease is
    /// known from before its claim is sent, so that one unknown here is unknown for good. What a
    /// dead node holds is the reaper's.
    pub strays: Vec<LeaseId>,
    /// Jobs of it that somebody wants to stop.
    pub cancels: Vec<JobId>,
    /// Jobs of it that failed with this heartbeat because their leases cannot be read, by their ids.
    pub unreadable: Vec<UnreadableJob>,
    /// One for each role of the request.
    pub roles: Vec<RoleBeat>,
    /// The end of the lease of each role that it seeks, in the past if nobody leads it any more;
    /// none if nobody ever did.
    pub sought: Vec<Option<Timestamp>>,
    /// When the database last went on with another history, as far as this store has seen: after a
    /// failover the last commits of the old one may be missing, though they were acknowledged.
    pub forked_at: Option<Timestamp>,
}

/// Whether a role was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleBeat {
    /// Until this instant.
    Renewed {
        /// The end of the lease.
        until: Timestamp,
    },
    /// The term is over.
    Lost,
}

/// The response to a node that has joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinResponse {
    /// The instant that was used.
    pub at: Timestamp,
    /// Whether schedules have slots that waited for a node like this one.
    pub wakes_schedules: bool,
}

/// What a node gave back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The instant that was used.
    pub at: Timestamp,
    /// The jobs, by id.
    pub jobs: Vec<JobId>,
}

impl BeatAsk {
    /// Checks it against the bounds.
    pub fn check(&self) -> Result<()> {
        rules::check_count(self.roles.len(), limits::ROLES_MAX, "roles")?;
        rules::check_count(self.seeks.len(), limits::ROLES_MAX, "roles")?;
        rules::check_count(self.leases.len(), limits::LEASES_MAX, "leases")?;
        rules::check_count(self.progress.len(), limits::PROGRESS_MAX, "progress reports")
    }
}

impl Progress {
    /// As it is kept.
    pub fn kept(&self, now: Timestamp) -> ProgressView {
        ProgressView {
            percent: self.percent.map(|percent| percent.min(100)),
            note: limits::cut(&self.note, limits::NOTE_BYTES_MAX).to_owned(),
            at: now,
        }
    }
}

impl NodeInfo {
    /// Does the node have this label with this value?
    pub fn has_label(&self, label: (&str, &str)) -> bool {
        self.labels.iter().any(|(name, value)| (name.as_str(), value.as_str()) == label)
    }

    /// Is the node a remote worker?
    pub fn is_remote(&self) -> bool {
        self.has_label(REMOTE_LABEL)
    }

    /// Checks it against the bounds.
    pub fn check(&self) -> Result<()> {
        rules::check_count(self.queues.len(), limits::QUEUES_MAX, "queues")?;
        rules::check_count(self.kinds.len(), limits::KINDS_MAX, "kinds")?;
        rules::check_count(self.labels.len(), limits::LABELS_MAX, "labels")?;
        let check = |what: &str, name: &str, may_be_empty: bool| {
            limits::check_name(what, name, may_be_empty).map_err(StoreError::invalid)
        };
        check("node name", &self.name, false)?;
        check("node version", &self.version, true)?;
        for queue in &self.queues {
            check("queue", queue, false)?;
        }
        for kind in &self.kinds {
            check("kind", kind, false)?;
        }
        for (label, value) in &self.labels {
            check("label", label, false)?;
            check("label value", value, true)?;
        }
        Ok(())
    }
}
