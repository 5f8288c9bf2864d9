//! Start deadlines: jobs that wait past them fail.

use punctual_core::job::{EXPIRED, JobState, is_expired};
use punctual_core::{JobId, Timestamp};
use punctual_store::{ExpireRequest, ExpireResponse, ExpiredJob, NewJob, rules};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Outcome;
use crate::places::{self, End, Taken, take_waiting};
use crate::rows::{self, Bound};
use crate::{leaders, sql};

/// The parameters of `deadline_insert` for a new job that has a start deadline.
pub(crate) fn deadline_values(now: Timestamp, job: &NewJob) -> Option<[Bound<'_>; 2]> {
    let check_at = rules::first_check(job.expires_at(now)?, now);
    Some([check_at.as_micros().into(), rows::blob(job.id.as_bytes())])
}

/// Notes the start deadline of a new job, if it has one.
pub(crate) fn note(db: &Connection, now: Timestamp, job: &NewJob) -> Outcome<()> {
    if let Some(values) = deadline_values(now, job) {
        db.prepare_cached(sql::DEADLINE_INSERT)?.execute(values)?;
    }
    Ok(())
}

/// After which instant a start deadline is checked next.
pub(crate) fn next(db: &Connection) -> Outcome<Option<Timestamp>> {
    let mut next = db.prepare_cached(sql::DEADLINE_NEXT)?;
    Ok(next.query_row([], |row| rows::instant(row, 0)).optional()?)
}

pub(crate) fn expire(
    db: &Connection,
    now: Timestamp,
    request: &ExpireRequest,
) -> Outcome<ExpireResponse> {
    let mut response = ExpireResponse::nothing(now);
    if leaders::renew(db, now, &request.fence, request.lease)?.is_none() {
        return Ok(response);
    }
    response.led = true;
    let passed = passed(db, now, request.limit)?;
    response.is_more = !passed.is_empty() && passed.len() == request.limit;
    for deadline in passed {
        let listed = params![deadline.check_at, deadline.key];
        db.prepare_cached(sql::DEADLINE_DELETE)?.execute(listed)?;
        response.jobs.extend(check(db, now, &deadline, request)?);
    }
    Ok(response)
}

/// A start deadline to check.
struct Deadline {
    check_at: i64,
    /// The bytes that stand for the job's id.
    key: Vec<u8>,
    /// Of a job that is there: when it expires, unless an operator has retried it.
    expires_at: Option<Timestamp>,
    has_ended: bool,
}

fn passed(db: &Connection, now: Timestamp, limit: usize) -> Outcome<Vec<Deadline>> {
    let mut statement = db.prepare_cached(sql::DEADLINE_PASSED)?;
    let mut found = statement.query(params![now.as_micros(), rows::rows(limit)])?;
    let mut passed = Vec::new();
    while let Some(row) = found.next()? {
        passed.push(Deadline {
            check_at: row.get(0)?,
            key: rows::bytes(row, 1)?,
            expires_at: rows::instant_opt(row, 2)?,
            has_ended: row.get(3)?,
        });
    }
    Ok(passed)
}

/// Ends a job that waits past its start deadline, or notes when it is checked again.
fn check(
    db: &Connection,
    now: Timestamp,
    deadline: &Deadline,
    request: &ExpireRequest,
) -> Outcome<Option<ExpiredJob>> {
    let job = <[u8; 16]>::try_from(deadline.key.as_slice()).ok().map(JobId::from_bytes);
    let (Some(job), Some(expires_at), false) = (job, deadline.expires_at, deadline.has_ended)
    else {
        return Ok(None);
    };
    let waiting = match is_expired(Some(expires_at), now) {
        true => take_waiting(db, job)?,
        false => None,
    };
    let Some((Taken { seat, is_readable }, _)) = waiting else {
        let check_at = rules::next_check(expires_at, now, request.recheck_after);
        let listed = params![check_at.as_micros(), deadline.key];
        db.prepare_cached(sql::DEADLINE_INSERT)?.execute(listed)?;
        return Ok(None);
    };
    let error = if is_readable { EXPIRED } else { rules::UNREADABLE };
    let state = JobState::Failed;
    let end = End { state, at: now, attempt: None, error: Some(error), result: None };
    seat.end(db, job, &end)?;
    let places::Seat { queue, kind, due_at, .. } = seat;
    Ok(Some(ExpiredJob { job, queue, kind, due_at, error }))
}
