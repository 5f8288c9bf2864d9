//! What the reference model holds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use punctual_core::job::{AttemptOutcome, JobState};
use punctual_core::{JobId, LeaseId, NodeId, ScheduleId, Timestamp};

use crate::*;

/// Everything, by what it is known by.
#[derive(Clone, Default)]
pub(super) struct State {
    /// Claims that still find queues with a limit locked by another claim.
    pub(super) contended_claims: usize,
    /// Bodies of jobs.
    pub(super) bodies: BTreeMap<JobId, Body>,
    /// Where each job is. One map, so that a job is in one place.
    pub(super) places: BTreeMap<JobId, Place>,
    /// Attempts that did not end in success.
    pub(super) attempts: BTreeMap<(JobId, u32), Attempt>,
    /// Steps of jobs, by name.
    pub(super) steps: BTreeMap<(JobId, String), StepView>,
    /// Lines of logs, by attempt and number.
    pub(super) log: BTreeMap<(JobId, LogCursor), LogView>,
    /// Unique keys that are held, by tenant and stored key.
    pub(super) keys: BTreeMap<(String, String), Key>,
    /// After which instant the start deadline of each job is checked that has one.
    pub(super) deadlines: BTreeSet<(Timestamp, JobId)>,
    /// Unfinished jobs of schedules.
    pub(super) live: BTreeSet<(ScheduleId, JobId)>,
    /// Bodies, tags and schedules that cannot be read.
    pub(super) spoiled: BTreeSet<rules::Spoil>,
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) queues: BTreeMap<String, Queue>,
    /// The stored job counts, and when they were counted.
    pub(super) counts: Option<(Timestamp, Vec<QueueStats>)>,
    pub(super) leaders: BTreeMap<String, Leader>,
    /// Oldest first.
    pub(super) leader_changes: Vec<LeaderChange>,
    pub(super) schedules: BTreeMap<ScheduleId, Schedule>,
    /// Oldest first.
    pub(super) revisions: BTreeMap<ScheduleId, Vec<RevisionView>>,
    pub(super) slots: BTreeMap<(ScheduleId, Timestamp, i32), SlotView>,
    /// Generations of sets that are in force.
    pub(super) generations: BTreeMap<String, i64>,
    /// Count and sum by minute, metric, queue and kind.
    pub(super) rollups: BTreeMap<(Timestamp, String, String, String), (i64, i64)>,
    /// Oldest first.
    pub(super) audits: Vec<AuditView>,
    pub(super) last_audit: i64,
    /// When it last went back to an older state.
    pub(super) forked_at: Option<Timestamp>,
}

/// What a job is, which does not change with its life.
#[derive(Clone)]
pub(super) struct Body {
    pub(super) job: NewJob,
    pub(super) expires_at: Option<Timestamp>,
    /// Attempts up to this one were before the job was last requeued and use none of its budget.
    pub(super) fresh_after: u32,
    pub(super) created_at: Timestamp,
}

/// What travels with a job through its places.
#[derive(Clone, Copy)]
pub(super) struct Life {
    pub(super) due_at: Timestamp,
    pub(super) attempt: u32,
    pub(super) spent: u32,
    pub(super) crashes: u32,
    pub(super) resource_releases: u32,
    /// Can it be read? If not, its attempts are not known.
    pub(super) is_readable: bool,
}

/// Where a job is in its life.
#[derive(Clone)]
pub(super) enum Place {
    Ready(Life),
    Timer(Life),
    /// Waits for the schedule's earlier jobs.
    Blocked(Life),
    Lease(Lease),
    Done(Done),
}

/// An attempt that is under way.
#[derive(Clone)]
pub(super) struct Lease {
    pub(super) lease: LeaseId,
    pub(super) node: NodeId,
    pub(super) life: Life,
    pub(super) claimed_at: Timestamp,
    /// Why its worker was asked to stop.
    pub(super) cancel: Option<String>,
    /// How far it has come.
    pub(super) progress: Option<ProgressView>,
}

/// The end of a job.
#[derive(Clone)]
pub(super) struct Done {
    pub(super) state: JobState,
    pub(super) lease: Option<LeaseId>,
    pub(super) node: Option<NodeId>,
    pub(super) claimed_at: Option<Timestamp>,
    pub(super) finished_at: Timestamp,
    pub(super) attempt: u32,
    pub(super) spent: u32,
    pub(super) crashes: u32,
    pub(super) error: Option<String>,
    pub(super) result: Option<Json>,
}

/// An attempt that did not end in success.
#[derive(Clone)]
pub(super) struct Attempt {
    pub(super) lease: LeaseId,
    pub(super) node: NodeId,
    pub(super) outcome: AttemptOutcome,
    pub(super) claimed_at: Timestamp,
    pub(super) ended_at: Timestamp,
    pub(super) error: Option<String>,
}

/// A unique key that is held.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) job: JobId,
    /// Not keyed: it never leaves the process, which holds the payload, too.
    pub(super) meaning: MeaningDigest,
    /// None: until the job has ended.
    pub(super) expires_at: Option<Timestamp>,
}

impl Key {
    /// Is it held, or has its time ended?
    pub(super) fn is_in_force(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|expires_at| expires_at > now)
    }
}

impl Lease {
    /// No lease is named so.
    pub(super) const UNREADABLE: LeaseId = LeaseId::from_bytes([0; 16]);
}

impl Life {
    /// The beginning of one.
    pub(super) fn new(due_at: Timestamp) -> Life {
        Life { due_at, attempt: 0, spent: 0, crashes: 0, resource_releases: 0, is_readable: true }
    }

    fn spoil(&mut self) {
        (self.attempt, self.is_readable) = (0, false);
    }
}

impl Body {
    /// The schedule that made it, and the slot.
    pub(super) fn schedule(&self) -> Option<(ScheduleId, Option<Timestamp>)> {
        self.job.origin.as_ref().map(|origin| (origin.schedule, origin.slot))
    }
}

impl Place {
    /// Where a job waits that is due then.
    pub(super) fn waiting(life: Life, now: Timestamp) -> Place {
        if life.due_at > now { Place::Timer(life) } else { Place::Ready(life) }
    }

    pub(super) fn state(&self) -> JobState {
        match self {
            Place::Ready(_) => JobState::Ready,
            Place::Timer(life) if life.attempt == 0 => JobState::Scheduled,
            Place::Timer(_) => JobState::Retrying,
            Place::Blocked(_) => JobState::Blocked,
            Place::Lease(_) => JobState::Running,
            Place::Done(done) => done.state,
        }
    }
}

impl State {
    /// Makes something unreadable, if it is there.
    pub(super) fn spoil(&mut self, what: rules::Spoil) {
        use rules::Spoil;
        match what {
            Spoil::Body(job) | Spoil::Tags(job) if self.bodies.contains_key(&job) => {
                self.spoiled.insert(what);
            }
            Spoil::Schedule(id) if self.schedules.contains_key(&id) => {
                self.spoiled.insert(what);
            }
            Spoil::Seat(job) => match self.places.get_mut(&job) {
                Some(Place::Ready(life) | Place::Timer(life) | Place::Blocked(life)) => {
                    life.spoil();
                }
                Some(Place::Lease(lease)) => lease.life.spoil(),
                Some(Place::Done(_)) | None => {}
            },
            Spoil::Lease(job) => {
                if let Some(Place::Lease(lease)) = self.places.get_mut(&job) {
                    lease.lease = Lease::UNREADABLE;
                    lease.life.is_readable = false;
                }
            }
            Spoil::Unfinished(job) => {
                let origin = self.bodies.get(&job).and_then(|body| body.job.origin.as_ref());
                self.live.extend(origin.map(|origin| (origin.schedule, job)));
            }
            Spoil::Body(_) | Spoil::Tags(_) | Spoil::Schedule(_) => {}
        }
    }

    /// Can a job's body be read?
    pub(super) fn is_body_readable(&self, job: JobId) -> bool {
        ![rules::Spoil::Body(job), rules::Spoil::Tags(job)]
            .iter()
            .any(|spoil| self.spoiled.contains(spoil))
    }

    /// What is known of a job's life. Of one that cannot be read it is the attempts that were
    /// recorded, of which none counts.
    pub(super) fn known(&self, job: JobId, life: Life) -> Life {
        if life.is_readable {
            return life;
        }
        let last = self.attempts.range((job, 0)..=(job, u32::MAX)).next_back();
        let attempt = last.map_or(0, |((_, attempt), _)| *attempt);
        Life { attempt, ..Life::new(life.due_at) }
    }

    /// Where a job stands in its queue: earlier ranks go first.
    pub(super) fn rank(&self, job: JobId, life: &Life) -> (Timestamp, JobId) {
        let priority = self.bodies.get(&job).map_or(0, |body| body.job.priority);
        (rules::rank(life.due_at, priority), job)
    }

    /// Time that the attempts of a job took since it was last requeued, without snoozes, of which
    /// only the newest is kept.
    pub(super) fn used(&self, job: JobId) -> Duration {
        let fresh_after = self.bodies.get(&job).map_or(0, |body| body.fresh_after);
        let attempts = self.attempts.range((job, fresh_after.saturating_add(1))..=(job, u32::MAX));
        let took = |attempt: &Attempt| attempt.ended_at.since(attempt.claimed_at);
        let worked = attempts.filter(|(_, attempt)| attempt.outcome != AttemptOutcome::Snoozed);
        worked.map(|(_, attempt)| took(attempt)).sum()
    }
}
