//! Taking jobs to work on.

use std::time::Duration;

use punctual_core::job::{Backoff, Standing};
use punctual_core::schedule::Facts;
use punctual_core::{JobId, LeaseId, NodeId, Timestamp};

use crate::{Json, Origin, Result, StoreError, limits, rules};

/// A wish for jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimAsk {
    /// Who will work on them.
    pub node: NodeId,
    /// The lease that they are taken under; a new random one for each claim.
    pub lease: LeaseId,
    /// Further leases, of one job each, so that jobs can be released separately: the first job has
    /// `lease`, and the jobs beyond these leases have the last one.
    pub more: Vec<LeaseId>,
    /// Where to take them from, in this order.
    pub queues: Vec<QueueShare>,
    /// The kinds that the node has handlers for; others are never taken.
    pub kinds: Vec<String>,
    /// The most jobs to take: as many as can start.
    pub most: usize,
}

/// A queue to take jobs from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueShare {
    /// Its name.
    pub name: String,
    /// The most jobs to take from it.
    pub most: usize,
}

impl ClaimAsk {
    /// The lease of the job at this index.
    pub fn lease_at(&self, index: usize) -> LeaseId {
        let more = index.checked_sub(1).and_then(|index| self.more.get(index).or(self.more.last()));
        *more.unwrap_or(&self.lease)
    }

    /// Checks the wish against the bounds.
    pub fn check(&self) -> Result<()> {
        rules::check_count(self.more.len(), limits::CLAIM_MAX, "leases")?;
        rules::check_count(self.most, limits::CLAIM_MAX, "jobs")?;
        rules::check_count(self.kinds.len(), limits::KINDS_MAX, "kinds")?;
        rules::check_count(self.queues.len(), limits::QUEUES_MAX, "queues")?;
        for (index, queue) in self.queues.iter().enumerate() {
            if self.queues[..index].iter().any(|other| other.name == queue.name) {
                return Err(StoreError::invalid(format!(
                    "queue `{}` is listed twice; remove one",
                    queue.name
                )));
            }
        }
        Ok(())
    }
}

/// The answer to a claim: jobs in the order in which they should start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The instant that was used.
    pub at: Timestamp,
    /// The jobs.
    pub jobs: Vec<ClaimedJob>,
    /// Jobs that failed instead, because they cannot be read, by their ids.
    pub unreadable: Vec<UnreadableJob>,
    /// Queues that another claim had locked, so that nothing was taken from them: they may have jobs and
    /// room for them. Only queues with a limit for all nodes, and only on PostgreSQL.
    pub contended: Vec<String>,
}

/// A job that failed because it cannot be read ([`rules::UNREADABLE`](crate::rules::UNREADABLE)).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnreadableJob {
    /// The job.
    pub job: JobId,
    /// Its queue, as far as it can be read.
    pub queue: String,
    /// Its kind, as far as it can be read.
    pub kind: String,
}

/// A job to work on, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedJob {
    /// The job.
    pub id: JobId,
    /// The lease it is taken under.
    pub lease: LeaseId,
    /// Whose it is.
    pub tenant: String,
    /// Who it acts for.
    pub owner: String,
    /// Where it waited.
    pub queue: String,
    /// Which handler it is for.
    pub kind: String,
    /// What the handler is given.
    pub payload: Json,
    /// Its priority.
    pub priority: i16,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// Counted attempts before.
    pub spent: u32,
    /// Crashes before.
    pub crashes: u32,
    /// Earlier attempts that were released because their node lacked resources.
    pub resource_releases: u32,
    /// The most counted attempts.
    pub max_attempts: u32,
    /// The most time for this attempt.
    pub timeout: Option<Duration>,
    /// The most time for all attempts.
    pub budget: Option<Duration>,
    /// Time that earlier attempts took; looked up only for jobs with a budget.
    pub used: Duration,
    /// No attempt may start later.
    pub expires_at: Option<Timestamp>,
    /// When it was due.
    pub due_at: Timestamp,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// The schedule that made it, if one did.
    pub origin: Option<Origin>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its trace.
    pub trace: Option<String>,
}

impl ClaimedJob {
    /// Where the job stands, for deciding what follows.
    pub fn standing(&self) -> Standing {
        Standing {
            job: self.id,
            attempt: self.attempt,
            spent: self.spent,
            crashes: self.crashes,
            resource_releases: self.resource_releases,
            max_attempts: self.max_attempts,
            used: self.used,
            claimed_at: self.claimed_at,
            budget: self.budget,
            expires_at: self.expires_at,
        }
    }

    /// The waits between attempts, if the schedule that made the job says so. They go before what its
    /// kind and the node are told.
    pub fn backoff(&self) -> Option<Backoff> {
        self.origin.as_ref().and_then(|origin| Facts::backoff_of(origin.facts.as_str()))
    }
}
