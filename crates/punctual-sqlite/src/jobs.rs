//! Writing jobs, calling them off, and changing what waits.

use std::borrow::Cow;

use punctual_core::job::JobState;
use punctual_core::{JobId, ScheduleId, Timestamp};
use punctual_store::{
    Actor, AuditAction, CancelAnswer, EnqueueAnswer, Enqueued, Json, KeyHash, KeyLifetime,
    KeyScope, MoveAnswer, NewJob, Placement, Rejection, RequeueAnswer, Seated, UniqueKey, rules,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::cluster_key::FileKey;
use crate::error::Outcome;
use crate::places::{self, End, HAS_KEY, Seat, Taken, Wait, take_waiting};
use crate::rows::{self, Bound, Fields, Read};
use crate::{expiry, sql, upkeep};

/// Enqueues jobs, each of which was checked or has a reason why it may not be enqueued.
pub(crate) fn enqueue<'a>(
    db: &Connection,
    file_key: &mut FileKey,
    now: Timestamp,
    checked: impl Iterator<Item = Result<&'a NewJob, String>>,
) -> Outcome<Enqueued> {
    let enqueue = |job| match job {
        Ok(job) => enqueue_one(db, file_key, now, job),
        Err(message) => Ok(EnqueueAnswer::Rejected(Rejection::Invalid(message))),
    };
    Ok(Enqueued { at: now, answers: checked.map(enqueue).collect::<Outcome<_>>()? })
}

/// Enqueues a job that was checked.
fn enqueue_one(
    db: &Connection,
    file_key: &mut FileKey,
    now: Timestamp,
    job: &NewJob,
) -> Outcome<EnqueueAnswer> {
    let job = match &job.unique {
        Some(_) => file_key.get(db)?.with_key(job),
        None => Cow::Borrowed(job),
    };
    let job = &*job;
    if let Some(key) = job.stored_key() {
        // A job that is there already is no rival for its own key.
        if db.prepare_cached(sql::JOB_EXISTS)?.exists([job.id.as_bytes()])? {
            return Ok(EnqueueAnswer::Created);
        }
        let hash = file_key.get(db)?.hash(job);
        if let Some(holder) = take_key(db, now, job, &key, &hash)? {
            return Ok(held_by(holder, hash));
        }
    }
    enqueue_unkeyed(db, now, job)?;
    Ok(EnqueueAnswer::Created)
}

/// Enqueues a job that was checked and has no unique key, or has taken it.
pub(crate) fn enqueue_unkeyed(db: &Connection, now: Timestamp, job: &NewJob) -> Outcome<()> {
    if insert_new(db, now, job)? {
        seat(now, job, job.origin.is_some()).wait(db, job.id, now)?;
    }
    Ok(())
}

/// The holder of a unique key, and the hash of its payload.
pub(crate) fn read_holder(row: &impl Fields) -> Read<(JobId, KeyHash)> {
    Ok((rows::job_id(row, 0)?, KeyHash::from_bytes(row.read(1)?)))
}

/// The answer to a job whose payload has this hash and whose key is held.
pub(crate) fn held_by((holder, held): (JobId, KeyHash), hash: KeyHash) -> EnqueueAnswer {
    if held == hash {
        EnqueueAnswer::Duplicate(holder)
    } else {
        EnqueueAnswer::Rejected(Rejection::KeyTaken(holder))
    }
}

/// Takes the unique key of a job, or returns its holder.
fn take_key(
    db: &Connection,
    now: Timestamp,
    job: &NewJob,
    key: &str,
    hash: &KeyHash,
) -> Outcome<Option<(JobId, KeyHash)>> {
    let taken = db.prepare_cached(sql::KEY_TAKE)?.execute(key_values(now, job, key, hash))?;
    if taken == 1 {
        return Ok(None);
    }
    let mut statement = db.prepare_cached(sql::KEY_HOLDER)?;
    Ok(Some(statement.query_row((&job.tenant, key), |row| read_holder(row))?))
}

/// Which job holds the unique key of this one.
pub(crate) fn key_holder(
    db: &Connection,
    file_key: &mut FileKey,
    now: Timestamp,
    job: &NewJob,
) -> Outcome<Option<JobId>> {
    if job.unique.is_none() {
        return Ok(None);
    }
    let Some(key) = file_key.get(db)?.with_key(job).stored_key() else { return Ok(None) };
    held(db, now, &job.tenant, &key)
}

/// Which job holds a unique key, as it is stored.
fn held(db: &Connection, now: Timestamp, tenant: &str, key: &str) -> Outcome<Option<JobId>> {
    let mut statement = db.prepare_cached(sql::KEY_HELD)?;
    let bound = params![tenant, key, now.as_micros()];
    Ok(statement.query_row(bound, |row| rows::job_id(row, 0)).optional()?)
}

/// What `key_take` is told.
pub(crate) fn key_values<'a>(
    now: Timestamp,
    job: &'a NewJob,
    key: &'a str,
    hash: &'a KeyHash,
) -> [Bound<'a>; 6] {
    [
        job.tenant.as_str().into(),
        key.into(),
        rows::blob(job.id.as_bytes()),
        rows::blob(hash.as_bytes()),
        rows::or_null(job.key_expires_at(now).map(Timestamp::as_micros)),
        now.as_micros().into(),
    ]
}

/// Where a new job begins.
pub(crate) fn seat(now: Timestamp, job: &NewJob, is_live: bool) -> Seat {
    Seat {
        queue: job.queue.clone(),
        kind: job.kind.clone(),
        due_at: job.delay.due_at(now),
        priority: job.priority,
        attempt: 0,
        spent: 0,
        crashes: 0,
        flags: places::flags(job.unique.is_some(), is_live),
    }
}

/// Writes a body, and notes a job of a schedule as unfinished; false if there was one with this id.
fn insert_new(db: &Connection, now: Timestamp, job: &NewJob) -> Outcome<bool> {
    let is_new = insert_body(db, now, job)?;
    if is_new {
        expiry::note(db, now, job)?;
    }
    if let Some(origin) = job.origin.as_ref().filter(|_| is_new) {
        let bound = [origin.schedule.as_bytes(), job.id.as_bytes()];
        db.prepare_cached(sql::LIVE_INSERT)?.execute(bound)?;
    }
    Ok(is_new)
}

fn insert_body(db: &Connection, now: Timestamp, job: &NewJob) -> Outcome<bool> {
    Ok(db.prepare_cached(sql::JOB_INSERT)?.execute(body_values(now, job))? == 1)
}

/// What `job_insert` is told.
pub(crate) fn body_values(now: Timestamp, job: &NewJob) -> [Bound<'_>; 20] {
    let origin = job.origin.as_ref();
    let unique = job.unique.as_ref();
    let lifetime = unique.and_then(|unique| match unique.lifetime {
        KeyLifetime::Job => None,
        KeyLifetime::For(wait) => Some(rows::micros(wait)),
    });
    [
        rows::blob(job.id.as_bytes()),
        job.tenant.as_str().into(),
        job.owner.as_str().into(),
        job.queue.as_str().into(),
        job.kind.as_str().into(),
        job.priority.into(),
        job.max_attempts.into(),
        rows::or_null(job.timeout.map(rows::micros)),
        rows::or_null(job.budget.map(rows::micros)),
        rows::or_null(job.expires_at(now).map(Timestamp::as_micros)),
        now.as_micros().into(),
        rows::or_null(origin.map(|origin| rows::blob(origin.schedule.as_bytes()))),
        rows::or_null(origin.and_then(|origin| origin.slot).map(Timestamp::as_micros)),
        rows::or_null(origin.map(|origin| origin.facts.as_str())),
        rows::or_null(unique.map(|unique| unique.key.as_str())),
        rows::or_null(unique.map(|unique| scope_code(unique.scope))),
        rows::or_null(lifetime),
        rows::or_null((!job.tags.is_empty()).then(|| rows::list_text(&job.tags))),
        rows::or_null(job.trace.as_deref()),
        job.payload.as_str().into(),
    ]
}

/// Writes the job of a slot, unless there is one with its id; where it waits for others, behind them.
pub(crate) fn insert_fired(
    db: &Connection,
    now: Timestamp,
    job: &NewJob,
    slot: (ScheduleId, Timestamp),
    seated: &Seated,
) -> Outcome<()> {
    if insert_new(db, now, job)? {
        let seat = seat(now, job, true);
        match seated {
            Seated::Waits => seat.behind_others(db, job.id, slot)?,
            Seated::Free | Seated::Refused(_) => seat.wait(db, job.id, now)?,
        };
    }
    Ok(())
}

pub(crate) fn cancel(
    db: &Connection,
    now: Timestamp,
    job: JobId,
    actor: &Actor,
) -> Outcome<CancelAnswer> {
    let reason = rules::cancel_reason(actor);
    let answer = if let Some((Taken { seat, .. }, _)) = take_waiting(db, job)? {
        let end = End {
            state: JobState::Cancelled,
            at: now,
            attempt: None,
            error: Some(&reason),
            result: None,
        };
        seat.end(db, job, &end)?;
        CancelAnswer::Cancelled
    } else {
        let asked: Option<bool> = db
            .prepare_cached(sql::LEASE_CANCEL_ASKED)?
            .query_row([job.as_bytes()], |row| row.get(0))
            .optional()?;
        match asked {
            Some(true) => return Ok(CancelAnswer::Asked),
            Some(false) => {
                db.prepare_cached(sql::LEASE_CANCEL)?.execute(params![job.as_bytes(), reason])?;
                CancelAnswer::Asked
            }
            None => {
                return Ok(match places::ended(db, job)? {
                    Some(ended) => CancelAnswer::Ended(ended.state),
                    None => CancelAnswer::NotFound,
                });
            }
        }
    };
    upkeep::note(db, now, actor, &AuditAction::CancelJob, &job.to_string())?;
    Ok(answer)
}

pub(crate) fn requeue(
    db: &Connection,
    file_key: &mut FileKey,
    now: Timestamp,
    job: JobId,
    actor: &Actor,
) -> Outcome<RequeueAnswer> {
    let attempt = match places::ended(db, job)? {
        Some(ended) if matches!(ended.state, JobState::Failed | JobState::Cancelled) => {
            ended.attempt
        }
        Some(ended) => return Ok(RequeueAnswer::NotFailed(ended.state)),
        None => {
            let state = places::unfinished_state(db, job)?;
            return Ok(state.map_or(RequeueAnswer::NotFound, RequeueAnswer::NotFailed));
        }
    };
    let body = db
        .prepare_cached(sql::JOB_KEY_OF)?
        .query_row([job.as_bytes()], |row| read_keyed(row, job))
        .optional()?;
    let Some((body, schedule)) = body else { return Ok(RequeueAnswer::NotFound) };
    if let Some(key) = body.stored_key() {
        let hash = file_key.get(db)?.hash(&body);
        if let Some((holder, _)) = take_key(db, now, &body, &key, &hash)? {
            return Ok(RequeueAnswer::KeyTaken(holder));
        }
    }
    if let Some(schedule) = schedule {
        db.prepare_cached(sql::LIVE_INSERT)?.execute([schedule.as_bytes(), job.as_bytes()])?;
    }
    db.prepare_cached(sql::DONE_DELETE)?.execute([job.as_bytes()])?;
    db.prepare_cached(sql::STEP_DELETE)?.execute([job.as_bytes()])?;
    // Somebody wants it now: what it was given at first has run out or does not matter.
    db.prepare_cached(sql::JOB_REFRESH)?.execute(params![job.as_bytes(), attempt])?;
    let mut seat = seat(now, &body, schedule.is_some());
    seat.attempt = attempt;
    seat.in_line(db, job)?;
    upkeep::note(db, now, actor, &AuditAction::RequeueJob, &job.to_string())?;
    Ok(RequeueAnswer::Requeued)
}

/// As much of a body as a job needs to stand in line again. What cannot be read is left out: the
/// next claim sets the job aside anew, and whoever requeued it sees why.
fn read_keyed(row: &Row, id: JobId) -> Read<(NewJob, Option<ScheduleId>)> {
    let unique = read_unique(row, 6).unwrap_or(None);
    // Only a key asks for the payload.
    let payload = match &unique {
        Some(_) => rows::json(row, 9).unwrap_or_else(|_| Json::null()),
        None => Json::null(),
    };
    let job = NewJob {
        tenant: rows::text(row, 0),
        priority: rows::or_none(row, 3).unwrap_or(0),
        max_attempts: rows::or_none(row, 4).unwrap_or(1),
        unique,
        ..NewJob::new(id, &rows::text(row, 1), &rows::text(row, 2), payload)
    };
    Ok((job, rows::or_none(row, 5).map(ScheduleId::from_bytes)))
}

/// `unique_key, key_scope, key_us` from `at` on.
fn read_unique(row: &Row, at: usize) -> Read<Option<UniqueKey>> {
    let Some(key) = row.get(at)? else { return Ok(None) };
    let lifetime = match rows::length_opt(row, at + 2)? {
        None => KeyLifetime::Job,
        Some(wait) => KeyLifetime::For(wait),
    };
    Ok(Some(UniqueKey { key, scope: read_scope(row, at + 1)?, lifetime, is_by_payload: false }))
}

fn scope_code(scope: KeyScope) -> i64 {
    match scope {
        KeyScope::Tenant => 1,
        KeyScope::Kind => 2,
        KeyScope::Queue => 3,
    }
}

fn read_scope(row: &Row, at: usize) -> Read<KeyScope> {
    match row.get(at)? {
        1 => Ok(KeyScope::Tenant),
        2 => Ok(KeyScope::Kind),
        3 => Ok(KeyScope::Queue),
        code => Err(rusqlite::Error::IntegralValueOutOfRange(at, code)),
    }
}

/// Lets a key that holds for a job's queue go with the job; or says who holds it there.
fn move_key(db: &Connection, now: Timestamp, job: JobId, queue: &str) -> Outcome<Option<JobId>> {
    let read = |row: &Row| read_keyed(row, job);
    let body = db.prepare_cached(sql::JOB_KEY_OF)?.query_row([job.as_bytes()], read).optional()?;
    let Some((body, _)) = body else { return Ok(None) };
    let moved = NewJob { queue: queue.to_owned(), ..body.clone() };
    let (Some(old), Some(new)) = (body.stored_key(), moved.stored_key()) else { return Ok(None) };
    let holder = |key: &str| held(db, now, &body.tenant, key);
    if old == new || holder(&old)? != Some(job) {
        return Ok(None);
    }
    let rival = holder(&new)?;
    if rival.is_none() {
        db.prepare_cached(sql::KEY_MOVE)?.execute(params![body.tenant, old, new])?;
    }
    Ok(rival)
}

pub(crate) fn place(
    db: &Connection,
    now: Timestamp,
    job: JobId,
    to: &Placement,
    actor: &Actor,
) -> Outcome<MoveAnswer> {
    let Some((Taken { mut seat, is_readable }, wait)) = take_waiting(db, job)? else {
        let state = match places::ended(db, job)? {
            Some(ended) => Some(ended.state),
            None => places::unfinished_state(db, job)?,
        };
        return Ok(state.map_or(MoveAnswer::NotFound, MoveAnswer::NotWaiting));
    };
    if !is_readable {
        places::set_aside(db, now, job, &seat)?;
        return Ok(MoveAnswer::NotWaiting(JobState::Failed));
    }
    if let Some(queue) = &to.queue
        && seat.flags & HAS_KEY != 0
        && let Some(rival) = move_key(db, now, job, queue)?
    {
        match wait {
            Wait::Line => seat.in_line(db, job)?,
            Wait::Timer => seat.at_timer(db, job)?,
            Wait::Behind(schedule, slot) => seat.behind_others(db, job, (schedule, slot))?,
        };
        return Ok(MoveAnswer::KeyTaken(rival));
    }
    let to_place = params![job.as_bytes(), to.queue, to.priority];
    let placed = db
        .prepare_cached(sql::JOB_PLACE)?
        .query_row(to_place, |row| Ok((rows::text(row, 0), rows::or_none(row, 1).unwrap_or(0))))
        .optional()?;
    let Some(placed) = placed else {
        places::set_aside(db, now, job, &seat)?;
        return Ok(MoveAnswer::NotFound);
    };
    (seat.queue, seat.priority) = placed;
    seat.due_at = to.due_at.unwrap_or(seat.due_at);
    let state = match wait {
        Wait::Line | Wait::Timer => seat.wait(db, job, now)?,
        Wait::Behind(schedule, slot) => seat.behind_others(db, job, (schedule, slot))?,
    };
    upkeep::note(db, now, actor, &AuditAction::PlaceJob, &job.to_string())?;
    Ok(MoveAnswer::Moved(state))
}
