//! What people look at: pages of jobs, slots, revisions.

use std::time::Duration;

use punctual_core::job::{AttemptOutcome, JobState, SlotOutcome};
use punctual_core::{JobId, LeaseId, NodeId, ScheduleId, Timestamp};

use crate::{Json, limits};

/// A part of a list, and where the next part begins. A page looks at no more than
/// [`limits::EXAMINE_MAX`] rows, so that it may be short, or empty, while there is a next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C> {
    /// The rows.
    pub items: Vec<T>,
    /// Where to go on; none at the end.
    pub next: Option<C>,
}

/// Where a list of jobs goes on: after this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// When it ended, in a list that is ordered by that.
    pub ended: Option<Timestamp>,
    /// The job.
    pub job: JobId,
}

/// Where a ledger goes on: after this slot and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotCursor(pub Timestamp, pub i32);

/// Where the audit goes on: after this entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditCursor(pub i64);

/// Where the revisions of a schedule go on: after this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevisionCursor(pub i64);

/// Where the counters go on: after this one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RollupCursor {
    /// The minute's first instant.
    pub minute: Timestamp,
    /// What is counted.
    pub metric: String,
    /// In which queue.
    pub queue: String,
    /// Of which kind.
    pub kind: String,
}

/// Where statistics go on: after this queue and kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatsCursor {
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
}

/// Which jobs to list. What is not given does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// In this state.
    pub state: Option<JobState>,
    /// In this queue.
    pub queue: Option<String>,
    /// Of this kind.
    pub kind: Option<String>,
    /// Of this tenant.
    pub tenant: Option<String>,
    /// Made by this schedule.
    pub schedule: Option<ScheduleId>,
    /// With this tag.
    pub tag: Option<String>,
}

/// What a list of jobs goes through, in order; whatever else a filter asks for is looked at row by
/// row. It is the same in every store, since it decides where a page ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// All jobs.
    All,
    /// Those of a schedule.
    Schedule(ScheduleId),
    /// Those in a queue.
    Queue(&'a str),
    /// Those of a tenant.
    Tenant(&'a str),
    /// Those that may run now.
    Ready,
    /// Those that are due later, tried before or not.
    Timers,
    /// Those that wait for another job.
    Blocked,
    /// Those at work.
    Running,
    /// Those that have ended, however.
    Ended,
    /// Dead letters.
    Failed,
    /// Those that were called off.
    Cancelled,
}

impl JobFilter {
    /// What a list with this filter goes through: of what is kept in order, that which holds the
    /// fewest jobs that are not asked for.
    pub fn source(&self) -> Source<'_> {
        let body = match (self.schedule, &self.queue, &self.tenant) {
            (Some(schedule), ..) => Source::Schedule(schedule),
            (_, Some(queue), _) => Source::Queue(queue),
            (.., Some(tenant)) if !tenant.is_empty() => Source::Tenant(tenant),
            _ => Source::All,
        };
        match self.state {
            Some(JobState::Failed) => Source::Failed,
            // A schedule has few jobs, whatever their state.
            _ if self.schedule.is_some() => body,
            Some(JobState::Cancelled) => Source::Cancelled,
            Some(JobState::Ready) => Source::Ready,
            Some(JobState::Scheduled | JobState::Retrying) => Source::Timers,
            Some(JobState::Blocked) => Source::Blocked,
            Some(JobState::Running) => Source::Running,
            // Most jobs of any queue or tenant have ended well.
            Some(JobState::Succeeded) if body == Source::All => Source::Ended,
            Some(JobState::Succeeded) | None => body,
        }
    }

    /// Dead letters are listed by when they died: what went wrong last is what people look for.
    /// All others are listed by when they were written.
    pub fn is_by_end(&self) -> bool {
        self.state == Some(JobState::Failed)
    }

    /// Where a list with this filter goes on after a job.
    pub fn cursor(&self, view: &JobView) -> Cursor {
        Cursor { ended: view.finished_at.filter(|_| self.is_by_end()), job: view.id }
    }
}

/// A job in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// The job.
    pub id: JobId,
    /// Where it is in its life.
    pub state: JobState,
    /// Whose it is.
    pub tenant: String,
    /// Where it waits or waited.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// Its priority.
    pub priority: i16,
    /// Attempts that were started.
    pub attempt: u32,
    /// The most counted attempts.
    pub max_attempts: u32,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it is or was due; none once it has ended.
    pub due_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// The schedule that made it, and the slot.
    pub schedule: Option<(ScheduleId, Option<Timestamp>)>,
    /// What went wrong, if it ended badly.
    pub error: Option<String>,
}

/// All about one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDetail {
    /// As in a list.
    pub view: JobView,
    /// Who it acts for.
    pub owner: String,
    /// What its handler is given.
    pub payload: Json,
    /// What its handler returned.
    pub result: Option<Json>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its trace.
    pub trace: Option<String>,
    /// Counted attempts.
    pub spent: u32,
    /// Attempts that ended with the death of their node.
    pub crashes: u32,
    /// Its start deadline: no attempt starts later.
    pub expires_at: Option<Timestamp>,
    /// Has somebody asked its worker to stop?
    pub cancel_requested: bool,
    /// How far the attempt that is under way has come, if it said so.
    pub progress: Option<ProgressView>,
    /// What the attempt that is under way is held by; none also if that cannot be read.
    pub hold: Option<Hold>,
    /// Attempts, oldest first, with the one that is under way.
    pub attempts: Vec<AttemptView>,
}

/// What an attempt that is under way is held by, and how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The lease that fences its settlement.
    pub lease: LeaseId,
    /// The most time for this attempt.
    pub timeout: Option<Duration>,
    /// The most time for all attempts.
    pub budget: Option<Duration>,
    /// Attempts up to this one used none of it: the job was requeued after them.
    pub fresh_after: u32,
}

/// How far an attempt has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressView {
    /// How much of the work is done, up to 100.
    pub percent: Option<u8>,
    /// What it is doing.
    pub note: String,
    /// When it said so.
    pub at: Timestamp,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptView {
    /// Its number.
    pub attempt: u32,
    /// Who tried.
    pub node: Option<NodeId>,
    /// Since when.
    pub claimed_at: Timestamp,
    /// Until when; none while it is under way.
    pub ended_at: Option<Timestamp>,
    /// How it ended.
    pub outcome: Option<AttemptOutcome>,
    /// What went wrong.
    pub error: Option<String>,
}

/// A decided slot, or a run of slots skipped alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotView {
    /// The slot, or the first of the run.
    pub slot: Timestamp,
    /// 0 for the decision at the watermark, 1 and on for backfills.
    pub run: i32,
    /// The last of the run.
    pub end: Option<Timestamp>,
    /// How many slots it stands for.
    pub count: u64,
    /// What became of it.
    pub outcome: SlotOutcome,
    /// Why.
    pub reason: Option<String>,
    /// The job that it became.
    pub job: Option<JobId>,
    /// The term that decided it.
    pub term: i64,
    /// The node that led it.
    pub node: NodeId,
    /// The schedule's revision as it stood then; zone and expression are in its definition.
    pub revision: i64,
    /// When it was decided.
    pub decided_at: Timestamp,
}

/// One definition of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionView {
    /// Its number, from 1.
    pub revision: i64,
    /// The definition.
    pub spec: Json,
    /// Who made it.
    pub who: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: Timestamp,
    /// When the next one took its place; none: it is in force.
    pub superseded_at: Option<Timestamp>,
}

impl<T, C> Page<T, C> {
    /// The first `most` rows, and where to go on if there are more.
    pub fn take(
        rows: impl Iterator<Item = T>,
        most: usize,
        cursor: impl Fn(&T) -> C,
    ) -> Page<T, C> {
        let mut pager = Pager::new(most);
        for row in rows {
            if !pager.take(cursor(&row), Some(row)) {
                break;
            }
        }
        pager.page()
    }
}

/// Makes a page from rows, row by row, of which not all are asked for.
#[derive(Debug)]
pub struct Pager<T, C> {
    most: usize,
    examined: usize,
    items: Vec<T>,
    last: Option<C>,
    next: Option<C>,
}

impl<T, C> Pager<T, C> {
    /// An empty page for this many rows.
    pub fn new(most: usize) -> Pager<T, C> {
        let most = most.clamp(1, limits::PAGE_MAX);
        Pager { most, examined: 0, items: Vec::new(), last: None, next: None }
    }

    /// Takes the next row, or passes over one that is not asked for or cannot be read; false if the
    /// page is full without it, and goes on after the row before.
    pub fn take(&mut self, cursor: C, row: Option<T>) -> bool {
        let is_full = row.is_some() && self.items.len() == self.most;
        if is_full || self.examined == limits::EXAMINE_MAX {
            self.next = self.last.take();
            return false;
        }
        self.examined += 1;
        self.last = Some(cursor);
        self.items.extend(row);
        true
    }

    /// The page.
    pub fn page(self) -> Page<T, C> {
        Page { items: self.items, next: self.next }
    }
}
