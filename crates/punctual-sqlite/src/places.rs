//! Where a job is in its life: in line, at a timer, under a lease, or ended.

use punctual_core::job::JobState;
use punctual_core::{JobId, LeaseId, NodeId, Timestamp};
use punctual_store::{Json, rules};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Outcome;
use crate::rows::{self, Read};
use crate::sql;

/// The job has, or had, a unique key.
pub(crate) const HAS_KEY: i64 = 1;
/// The job is among its schedule's unfinished ones.
pub(crate) const IS_LIVE: i64 = 8;

/// What travels with a job from place to place.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) queue: String,
    pub(crate) kind: String,
    pub(crate) due_at: Timestamp,
    pub(crate) priority: i16,
    pub(crate) attempt: u32,
    pub(crate) spent: u32,
    pub(crate) crashes: u32,
    pub(crate) flags: i64,
}

/// How a job ended.
pub(crate) struct End<'a> {
    pub(crate) state: JobState,
    pub(crate) at: Timestamp,
    /// The attempt that it ended with, if one was under way.
    pub(crate) attempt: Option<(LeaseId, NodeId, Timestamp)>,
    pub(crate) error: Option<&'a str>,
    pub(crate) result: Option<&'a Json>,
}

/// The flags that follow from a job's body.
pub(crate) fn flags(has_key: bool, is_live: bool) -> i64 {
    i64::from(has_key) * HAS_KEY + i64::from(is_live) * IS_LIVE
}

impl Seat {
    /// `queue, kind, due_at, priority, attempt, spent, crashes, flags` from `at` on.
    pub(crate) fn read(row: &Row, at: usize) -> Read<Seat> {
        Ok(Seat {
            queue: row.get(at)?,
            kind: row.get(at + 1)?,
            due_at: rows::instant(row, at + 2)?,
            priority: row.get(at + 3)?,
            attempt: row.get(at + 4)?,
            spent: row.get(at + 5)?,
            crashes: row.get(at + 6)?,
            flags: row.get(at + 7)?,
        })
    }

    /// Lets the job wait: in line if it is due, at a timer if not.
    pub(crate) fn wait(&self, db: &Connection, job: JobId, now: Timestamp) -> Outcome<JobState> {
        if self.due_at > now { self.at_timer(db, job) } else { self.in_line(db, job) }
    }

    /// Puts the job in line.
    pub(crate) fn in_line(&self, db: &Connection, job: JobId) -> Outcome<JobState> {
        db.prepare_cached(sql::READY_INSERT)?.execute(params![
            self.queue,
            self.kind,
            rules::rank(self.due_at, self.priority).as_micros(),
            job.as_bytes(),
            self.due_at.as_micros(),
            self.priority,
            self.attempt,
            self.spent,
            self.crashes,
            self.flags,
        ])?;
        Ok(JobState::Ready)
    }

    /// Lets the job wait for its time.
    pub(crate) fn at_timer(&self, db: &Connection, job: JobId) -> Outcome<JobState> {
        db.prepare_cached(sql::TIMER_INSERT)?.execute(params![
            self.due_at.as_micros(),
            job.as_bytes(),
            self.queue,
            self.kind,
            self.priority,
            self.attempt,
            self.spent,
            self.crashes,
            self.flags,
        ])?;
        Ok(timer_state(self.attempt))
    }

    /// Ends the job: its key and its seat among its schedule's unfinished jobs are free.
    pub(crate) fn end(&self, db: &Connection, job: JobId, end: &End) -> Outcome<()> {
        let is_dead_letter = end.state == JobState::Failed;
        let (lease, node, claimed_at) = match end.attempt {
            Some((lease, node, claimed_at)) => (Some(lease), Some(node), Some(claimed_at)),
            None => (None, None, None),
        };
        db.prepare_cached(sql::DONE_INSERT)?.execute(params![
            job.as_bytes(),
            rows::end_code(end.state),
            end.at.as_micros(),
            self.attempt,
            self.spent,
            self.crashes,
            lease.as_ref().map(LeaseId::as_bytes),
            node.as_ref().map(NodeId::as_bytes),
            claimed_at.map(Timestamp::as_micros),
            is_dead_letter.then_some(&self.queue),
            is_dead_letter.then_some(&self.kind),
            end.error,
            end.result.map(Json::as_str),
        ])?;
        if self.flags & HAS_KEY != 0 {
            db.prepare_cached(sql::KEY_RELEASE)?.execute([job.as_bytes()])?;
        }
        if self.flags & IS_LIVE != 0 {
            db.prepare_cached(sql::LIVE_DELETE)?.execute([job.as_bytes()])?;
        }
        Ok(())
    }
}

fn timer_state(attempt: u32) -> JobState {
    if attempt == 0 { JobState::Scheduled } else { JobState::Retrying }
}

/// Takes a job that waits from where it waits.
pub(crate) fn take_waiting(db: &Connection, job: JobId) -> Outcome<Option<Seat>> {
    for statement in [sql::READY_TAKE, sql::TIMER_TAKE] {
        let seat = db
            .prepare_cached(statement)?
            .query_row([job.as_bytes()], |row| Seat::read(row, 0))
            .optional()?;
        if seat.is_some() {
            return Ok(seat);
        }
    }
    Ok(None)
}

/// An ended job: how, after how many attempts, and under which lease.
pub(crate) struct Ended {
    pub(crate) state: JobState,
    pub(crate) attempt: u32,
    pub(crate) lease: Option<LeaseId>,
}

/// How a job ended, if it has.
pub(crate) fn ended(db: &Connection, job: JobId) -> Outcome<Option<Ended>> {
    let read = |row: &Row| {
        Ok(Ended {
            state: rows::end_state(row, 0)?,
            attempt: row.get(1)?,
            lease: row.get::<_, Option<[u8; 16]>>(2)?.map(LeaseId::from_bytes),
        })
    };
    Ok(db.prepare_cached(sql::DONE_LOOK)?.query_row([job.as_bytes()], read).optional()?)
}

/// Where a job is that has not ended.
pub(crate) fn unfinished_state(db: &Connection, job: JobId) -> Outcome<Option<JobState>> {
    let read = |row: &Row| {
        Ok(match row.get(0)? {
            1 => JobState::Ready,
            2 => timer_state(row.get(1)?),
            _ => JobState::Running,
        })
    };
    Ok(db.prepare_cached(sql::JOB_STATE)?.query_row([job.as_bytes()], read).optional()?)
}
