//! Where a job is in its life: in line, at a timer, behind others, under a lease, or ended.

use punctual_core::job::JobState;
use punctual_core::{JobId, LeaseId, NodeId, ScheduleId, Timestamp};
use punctual_store::{Json, UnreadableJob, rules};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Outcome;
use crate::rows::{self, Bound, Fields, Read};
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
    pub(crate) fn read(row: &impl Fields, at: usize) -> Read<Seat> {
        Ok(Seat {
            queue: row.read(at)?,
            kind: row.read(at + 1)?,
            due_at: rows::instant(row, at + 2)?,
            priority: row.read(at + 3)?,
            attempt: row.read(at + 4)?,
            spent: row.read(at + 5)?,
            crashes: row.read(at + 6)?,
            flags: row.read(at + 7)?,
        })
    }

    /// As much of a seat as can be read, for a job whose seat cannot be: the attempts that were
    /// recorded, of which none counts, and whatever it may hold.
    pub(crate) fn salvage(db: &Connection, job: JobId, row: &Row, at: usize) -> Outcome<Seat> {
        let mut last = db.prepare_cached(sql::ATTEMPT_LAST)?;
        let attempt = last.query_row([job.as_bytes()], |row| row.get(0))?;
        Ok(Seat::salvaged(attempt, row, at)?)
    }

    /// The same after the recorded attempt that is the last.
    pub(crate) fn salvaged(attempt: i64, row: &impl Fields, at: usize) -> Read<Seat> {
        Ok(Seat {
            queue: rows::text(row, at),
            kind: rows::text(row, at + 1),
            due_at: rows::instant(row, at + 2)?,
            priority: 0,
            attempt: u32::try_from(attempt).unwrap_or(0),
            spent: 0,
            crashes: 0,
            flags: HAS_KEY | IS_LIVE,
        })
    }

    /// Lets the job wait: in line if it is due, at a timer if not.
    pub(crate) fn wait(&self, db: &Connection, job: JobId, now: Timestamp) -> Outcome<JobState> {
        if self.due_at > now { self.at_timer(db, job) } else { self.in_line(db, job) }
    }

    /// Puts the job in line.
    pub(crate) fn in_line(&self, db: &Connection, job: JobId) -> Outcome<JobState> {
        db.prepare_cached(sql::READY_INSERT)?.execute(self.line(&job))?;
        Ok(JobState::Ready)
    }

    /// What `ready_insert` is told.
    pub(crate) fn line<'a>(&'a self, job: &'a JobId) -> [Bound<'a>; 10] {
        [
            self.queue.as_str().into(),
            self.kind.as_str().into(),
            rules::rank(self.due_at, self.priority).as_micros().into(),
            rows::blob(job.as_bytes()),
            self.due_at.as_micros().into(),
            self.priority.into(),
            self.attempt.into(),
            self.spent.into(),
            self.crashes.into(),
            self.flags.into(),
        ]
    }

    /// Lets the job wait for its time.
    pub(crate) fn at_timer(&self, db: &Connection, job: JobId) -> Outcome<JobState> {
        db.prepare_cached(sql::TIMER_INSERT)?.execute(self.timer(&job))?;
        Ok(timer_state(self.attempt))
    }

    /// What `timer_insert` is told.
    pub(crate) fn timer<'a>(&'a self, job: &'a JobId) -> [Bound<'a>; 9] {
        [
            self.due_at.as_micros().into(),
            rows::blob(job.as_bytes()),
            self.queue.as_str().into(),
            self.kind.as_str().into(),
            self.priority.into(),
            self.attempt.into(),
            self.spent.into(),
            self.crashes.into(),
            self.flags.into(),
        ]
    }

    /// Lets the job wait for the earlier ones of its schedule.
    pub(crate) fn behind_others(
        &self,
        db: &Connection,
        job: JobId,
        (schedule, slot): (ScheduleId, Timestamp),
    ) -> Outcome<JobState> {
        db.prepare_cached(sql::WAIT_INSERT)?.execute(params![
            schedule.as_bytes(),
            job.as_bytes(),
            self.due_at.as_micros(),
            self.queue,
            self.kind,
            self.priority,
            self.attempt,
            self.spent,
            self.crashes,
            self.flags,
            slot.as_micros(),
        ])?;
        Ok(JobState::Blocked)
    }

    /// Ends the job: its key and its seat among its schedule's unfinished jobs are free. Says
    /// whether one of these waits.
    pub(crate) fn end(&self, db: &Connection, job: JobId, end: &End) -> Outcome<bool> {
        db.prepare_cached(sql::DONE_INSERT)?.execute(self.done(&job, end))?;
        self.free(db, job)
    }

    /// What `done_insert` is told.
    pub(crate) fn done<'a>(&'a self, job: &'a JobId, end: &'a End<'a>) -> [Bound<'a>; 13] {
        let is_dead_letter = end.state == JobState::Failed;
        let attempt = end.attempt.as_ref();
        [
            rows::blob(job.as_bytes()),
            rows::end_code(end.state).into(),
            end.at.as_micros().into(),
            self.attempt.into(),
            self.spent.into(),
            self.crashes.into(),
            rows::or_null(attempt.map(|(lease, ..)| rows::blob(lease.as_bytes()))),
            rows::or_null(attempt.map(|(_, node, _)| rows::blob(node.as_bytes()))),
            rows::or_null(attempt.map(|(.., claimed_at)| claimed_at.as_micros())),
            rows::or_null(is_dead_letter.then_some(self.queue.as_str())),
            rows::or_null(is_dead_letter.then_some(self.kind.as_str())),
            rows::or_null(end.error),
            rows::or_null(end.result.map(Json::as_str)),
        ]
    }

    /// Lets go of what the job holds until it has ended, and says whether a job of its schedule waits.
    fn free(&self, db: &Connection, job: JobId) -> Outcome<bool> {
        if self.flags & HAS_KEY != 0 {
            db.prepare_cached(sql::KEY_RELEASE)?.execute([job.as_bytes()])?;
        }
        if self.flags & IS_LIVE != 0 {
            let mut delete = db.prepare_cached(sql::LIVE_DELETE)?;
            let is_waited_for = delete.query_row([job.as_bytes()], |row| row.get(0)).optional()?;
            return Ok(is_waited_for.unwrap_or(false));
        }
        Ok(false)
    }
}

/// Ends a job that cannot be read, so that it is in nobody's way. One without a body is gone.
pub(crate) fn set_aside(
    db: &Connection,
    now: Timestamp,
    job: JobId,
    seat: &Seat,
) -> Outcome<Option<UnreadableJob>> {
    if !db.prepare_cached(sql::JOB_EXISTS)?.exists([job.as_bytes()])? {
        seat.free(db, job)?;
        return Ok(None);
    }
    let (state, error) = (JobState::Failed, Some(rules::UNREADABLE));
    seat.end(db, job, &End { state, at: now, attempt: None, error, result: None })?;
    Ok(Some(UnreadableJob { job, queue: seat.queue.clone(), kind: seat.kind.clone() }))
}

/// Ends the job of a lease that cannot be read, known by the bytes that stand for its id. None if
/// they are no id: then there is no such job, and the row is gone.
pub(crate) fn drop_lease(
    db: &Connection,
    now: Timestamp,
    job: &[u8],
) -> Outcome<Option<(JobId, Option<UnreadableJob>)>> {
    let id = <[u8; 16]>::try_from(job).ok().map(JobId::from_bytes);
    let mut statement = db.prepare_cached(sql::LEASE_DROP)?;
    let mut dropped = statement.query([job])?;
    let Some(id) = id else { return Ok(None) };
    let unreadable = match dropped.next()? {
        Some(row) => set_aside(db, now, id, &Seat::salvage(db, id, row, 0)?)?,
        None => None,
    };
    Ok(Some((id, unreadable)))
}

pub(crate) fn timer_state(attempt: u32) -> JobState {
    if attempt == 0 { JobState::Scheduled } else { JobState::Retrying }
}

/// A seat that a job was taken from.
pub(crate) struct Taken {
    pub(crate) seat: Seat,
    /// If not, the seat is what could be salvaged.
    pub(crate) is_readable: bool,
}

/// Where a job waits.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// In line.
    Line,
    /// At a timer.
    Timer,
    /// Behind others of this schedule, in the order of slots.
    Behind(ScheduleId, Timestamp),
}

impl Taken {
    /// The seat from the columns from `at` on.
    pub(crate) fn read(db: &Connection, job: JobId, row: &Row, at: usize) -> Outcome<Taken> {
        Ok(match Seat::read(row, at) {
            Ok(seat) => Taken { seat, is_readable: true },
            Err(_) => Taken { seat: Seat::salvage(db, job, row, at)?, is_readable: false },
        })
    }
}

/// Takes a job that waits from where it waits, and says where that is.
pub(crate) fn take_waiting(db: &Connection, job: JobId) -> Outcome<Option<(Taken, Wait)>> {
    for (statement, wait) in [(sql::READY_TAKE, Wait::Line), (sql::TIMER_TAKE, Wait::Timer)] {
        let mut statement = db.prepare_cached(statement)?;
        let mut rows = statement.query([job.as_bytes()])?;
        if let Some(row) = rows.next()? {
            return Ok(Some((Taken::read(db, job, row, 0)?, wait)));
        }
    }
    let mut statement = db.prepare_cached(sql::WAIT_TAKE)?;
    let mut rows = statement.query([job.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let mut taken = Taken::read(db, job, row, 0)?;
    let schedule: Option<[u8; 16]> = rows::or_none(row, 8);
    taken.is_readable &= schedule.is_some();
    let schedule = ScheduleId::from_bytes(schedule.unwrap_or_default());
    let wait = Wait::Behind(schedule, rows::instant(row, 9)?);
    Ok(Some((taken, wait)))
}

/// An ended job: how, after how many attempts, and under which lease.
pub(crate) struct Ended {
    pub(crate) state: JobState,
    pub(crate) attempt: u32,
    pub(crate) lease: Option<LeaseId>,
}

impl Ended {
    /// What `done_look` tells.
    pub(crate) fn read(row: &impl Fields) -> Read<Ended> {
        Ok(Ended {
            state: rows::end_state(row, 0)?,
            attempt: rows::or_none(row, 1).unwrap_or(0),
            lease: rows::or_none(row, 2).map(LeaseId::from_bytes),
        })
    }
}

/// How a job ended, if it has.
pub(crate) fn ended(db: &Connection, job: JobId) -> Outcome<Option<Ended>> {
    let read = |row: &Row| Ended::read(row);
    Ok(db.prepare_cached(sql::DONE_LOOK)?.query_row([job.as_bytes()], read).optional()?)
}

/// Where a job is that has not ended.
pub(crate) fn unfinished_state(db: &Connection, job: JobId) -> Outcome<Option<JobState>> {
    let read = |row: &Row| {
        Ok(match row.get(0)? {
            1 => JobState::Ready,
            2 => timer_state(rows::or_none(row, 1).unwrap_or(0)),
            4 => JobState::Blocked,
            _ => JobState::Running,
        })
    };
    Ok(db.prepare_cached(sql::JOB_STATE)?.query_row([job.as_bytes()], read).optional()?)
}
