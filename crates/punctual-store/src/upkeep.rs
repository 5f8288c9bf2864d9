//! What keeps a store healthy, and what notes who did what.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::job::{Next, RetryPolicy};
use punctual_core::{JobId, NodeId, Timestamp};

use crate::{AuditAction, Fence, Result, RollupCursor, StoreError, UnreadableJob, limits, rules};

/// Who does something, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Who.
    pub who: String,
    /// Why.
    pub why: String,
}

impl Actor {
    /// This one, for this reason.
    pub fn new(who: &str, why: &str) -> Actor {
        Actor { who: who.to_owned(), why: why.to_owned() }
    }

    /// As it is kept: a name that is out of bounds is refused, a reason is cut.
    pub fn kept(&self) -> Result<Actor> {
        limits::check_name("actor name", &self.who, true).map_err(StoreError::invalid)?;
        Ok(Actor::new(&self.who, limits::cut(&self.why, limits::REASON_BYTES_MAX)))
    }
}

/// What was promoted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promoted {
    /// The instant that was used.
    pub at: Timestamp,
    /// How many jobs became ready, by queue.
    pub queues: BTreeMap<String, u64>,
    /// When the next timer is due.
    pub next_due: Option<Timestamp>,
    /// The first instant after which a start deadline must be checked, by [`Store::expire`].
    ///
    /// [`Store::expire`]: crate::Store::expire
    pub next_deadline: Option<Timestamp>,
    /// Jobs that failed because they cannot be read, sorted.
    pub unreadable: Vec<UnreadableJob>,
}

impl Promoted {
    /// Has any job become ready?
    pub fn has_any(&self) -> bool {
        !self.queues.is_empty()
    }
}

/// A request to take back the leases of dead nodes, and the leases of remote workers whose time is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReapAsk {
    /// The term under which it is done.
    pub fence: Fence,
    /// For how long that role is renewed.
    pub lease: Duration,
    /// A node is dead if its last heartbeat is older, also in watched time
    /// ([`Leader::watched`](crate::Leader::watched)): after an outage of the database every heartbeat
    /// is old.
    pub node_lifetime: Duration,
    /// When jobs are tried again.
    pub policy: RetryPolicy,
    /// The most leases to take back at once.
    pub most: usize,
}

impl ReapAsk {
    /// Checks it against the bounds.
    pub fn check(&self) -> Result<()> {
        rules::check_count(self.most, limits::REAP_MAX, "leases")
    }
}

/// What was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// The instant that was used.
    pub at: Timestamp,
    /// False if the term is over and nothing was done.
    pub led: bool,
    /// Nodes that were declared dead.
    pub dead: Vec<NodeId>,
    /// Jobs that were taken back.
    pub jobs: Vec<ReapedJob>,
    /// Attempts of remote workers that exceeded their time and were ended.
    pub overdue: Vec<OverdueJob>,
}

impl Reaped {
    /// Is there a job that can be claimed now?
    pub fn has_work(&self) -> bool {
        !self.jobs.is_empty() || !self.overdue.is_empty()
    }

    /// Has a job finished?
    pub fn has_finished(&self) -> bool {
        let mut reaped = self.jobs.iter().map(|job| job.next);
        let mut overdue = self.overdue.iter().map(|job| job.next);
        reaped.any(Next::is_final) || overdue.any(Next::is_final)
    }

    /// The answer before anything is done.
    pub fn nothing(at: Timestamp) -> Reaped {
        Reaped { at, led: false, dead: Vec::new(), jobs: Vec::new(), overdue: Vec::new() }
    }
}

/// A job whose attempt exceeded its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverdueJob {
    /// The job.
    pub job: JobId,
    /// The number of the attempt.
    pub attempt: u32,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// When the attempt was claimed.
    pub claimed_at: Timestamp,
    /// How long it was allowed to take.
    pub limit: Duration,
    /// Where it goes.
    pub next: Next,
    /// The recorded error.
    pub error: Option<String>,
}

/// A job whose lease was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReapedJob {
    /// The job.
    pub job: JobId,
    /// Where it goes.
    pub next: Next,
    /// The attempt that the dead node had begun; none if the row of the lease cannot be read.
    pub attempt: Option<ReapedAttempt>,
}

/// An attempt that ended with the death of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReapedAttempt {
    /// The kind of the job.
    pub kind: String,
    /// The queue of the job.
    pub queue: String,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// Time from the claim until the lease was taken back.
    pub held: Duration,
    /// The recorded error.
    pub error: Option<String>,
}

/// How long history is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Jobs that succeeded or were cancelled.
    pub finished: Duration,
    /// Jobs that failed.
    pub failed: Duration,
    /// The ledger of slots, and superseded definitions of schedules, which it refers to.
    pub ledger: Duration,
    /// Counters and the audit.
    pub records: Duration,
    /// Dead nodes.
    pub nodes: Duration,
}

impl Default for Retention {
    fn default() -> Retention {
        let days = |days: u64| Duration::from_secs(days * 86_400);
        Retention {
            finished: days(14),
            failed: days(90),
            ledger: days(365),
            records: days(365),
            nodes: days(1),
        }
    }
}

/// What was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Ended jobs.
    pub jobs: u64,
    /// Rows of the ledger.
    pub slots: u64,
    /// Superseded definitions of schedules.
    pub revisions: u64,
    /// Unique keys whose time was over.
    pub keys: u64,
    /// Counters and audit entries.
    pub records: u64,
    /// Dead nodes without leases.
    pub nodes: u64,
}

/// A counter of one minute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RollupCount {
    /// The minute's first instant.
    pub minute: Timestamp,
    /// What is counted.
    pub metric: String,
    /// In which queue.
    pub queue: String,
    /// Of which kind.
    pub kind: String,
    /// How often it happened.
    pub count: i64,
    /// The sum of what was measured, if anything was.
    pub sum: i64,
}

impl RollupCount {
    /// Where a list goes on after it.
    pub fn cursor(&self) -> RollupCursor {
        RollupCursor {
            minute: self.minute,
            metric: self.metric.clone(),
            queue: self.queue.clone(),
            kind: self.kind.clone(),
        }
    }
}

/// Which counters to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollupFilter {
    /// From this minute on.
    pub from: Timestamp,
    /// Before this one.
    pub to: Timestamp,
    /// Only this metric.
    pub metric: Option<String>,
}

/// What somebody did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Who and why.
    pub actor: Actor,
    /// What.
    pub action: AuditAction,
    /// To what.
    pub subject: String,
}

impl AuditEntry {
    /// As it is kept: names that are out of bounds are refused, the rest is cut.
    pub fn kept(&self) -> Result<AuditEntry> {
        limits::check_name("action", self.action.as_str(), false).map_err(StoreError::invalid)?;
        Ok(AuditEntry {
            actor: self.actor.kept()?,
            action: self.action.clone(),
            subject: limits::cut(&self.subject, limits::REASON_BYTES_MAX).to_owned(),
        })
    }
}

/// An entry of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditView {
    /// Its number; later entries have higher ones.
    pub id: i64,
    /// When.
    pub at: Timestamp,
    /// What.
    pub entry: AuditEntry,
}

/// The schema that a store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The kind of store.
    pub backend: &'static str,
    /// The number of its last migration.
    pub version: i64,
    /// The version of the database.
    pub database: String,
    /// When it last went on with another history, as far as this store has seen.
    pub forked_at: Option<Timestamp>,
}
