//! Calling jobs off, and changing what waits.

use punctual_core::job::JobState;
use punctual_core::{JobId, ScheduleId, Timestamp};
use punctual_store::{
    Actor, At, AuditAction, CancelAnswer, ClusterKey, ErrorKind, Json, KeyLifetime, KeyScope,
    MoveAnswer, NewJob, Placement, RequeueAnswer, StoreError, UniqueKey, rules,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::bodies::{self, HAS_KEY, IS_LIVE};
use crate::connection::{Conn, first};
use crate::error::{Fault, Outcome};
use crate::rows::{self, Instant, Read};
use crate::sql::{self, Statement};
use crate::{keys, upkeep};

/// How often a job is looked for that moves from place to place meanwhile.
const LOOKS_MAX: usize = 5;

/// What travels with a job from place to place.
struct Seat {
    queue: String,
    kind: String,
    due_at: Timestamp,
    attempt: i32,
    spent: i32,
    crashes: i32,
    priority: i16,
    flags: i16,
    /// The schedule whose earlier jobs it waits for, and the slot by which it does.
    behind: Option<(ScheduleId, Timestamp)>,
}

fn read_seat(row: &Row) -> Read<Seat> {
    Ok(Seat {
        queue: rows::get(row, 0)?,
        kind: rows::get(row, 1)?,
        due_at: rows::instant(row, 2)?,
        attempt: rows::get(row, 3)?,
        spent: rows::get(row, 4)?,
        crashes: rows::get(row, 5)?,
        priority: rows::get(row, 6)?,
        flags: rows::get(row, 7)?,
        behind: rows::schedule_id_opt(row, 8)?.zip(rows::instant_opt(row, 9)?),
    })
}

impl Seat {
    /// Is it known how often the job was tried?
    fn is_readable(&self) -> bool {
        self.attempt.min(self.spent).min(self.crashes) >= 0
    }

    /// What is known of a job's life. Of one that cannot be read it is the attempts that were
    /// recorded, of which none counts; and whatever it may hold.
    async fn known(self, conn: &mut Conn, job: JobId) -> Outcome<Seat> {
        if self.is_readable() {
            return Ok(self);
        }
        let last = conn.query_one(&sql::ATTEMPT_LAST, &[&job.as_uuid()]).await?;
        let attempt = rows::get(&last, 0)?;
        Ok(Seat { attempt, spent: 0, crashes: 0, flags: HAS_KEY | IS_LIVE, ..self })
    }

    /// Ends the job, which no attempt was under way of: what it held is free.
    async fn end(
        &self,
        conn: &mut Conn,
        now: Timestamp,
        job: JobId,
        state: JobState,
        error: &str,
    ) -> Outcome<()> {
        let id = job.as_uuid();
        let is_dead_letter = state == JobState::Failed;
        conn.query(
            &sql::DONE_INSERT,
            &[
                &id,
                &rows::end_code(state),
                &Instant(now),
                &self.attempt,
                &self.spent,
                &self.crashes,
                &is_dead_letter.then_some(&self.queue),
                &is_dead_letter.then_some(&self.kind),
                &error,
            ],
        )
        .await?;
        if self.flags & HAS_KEY != 0 {
            conn.query(&sql::KEY_RELEASE, &[&id]).await?;
        }
        if self.flags & IS_LIVE != 0 {
            conn.query(&sql::LIVE_DELETE, &[&id]).await?;
        }
        Ok(())
    }

    /// Lets the job wait: behind others if it did, in line if it is due, at a timer if not.
    async fn wait(&self, conn: &mut Conn, job: JobId, now: Timestamp) -> Outcome<JobState> {
        let id = job.as_uuid();
        let due_at = Instant(self.due_at);
        let mut bound: Vec<&(dyn ToSql + Sync)> = vec![
            &id,
            &self.queue,
            &self.kind,
            &due_at,
            &self.attempt,
            &self.spent,
            &self.crashes,
            &self.priority,
            &self.flags,
        ];
        let behind = self.behind.map(|(schedule, slot)| (schedule.as_uuid(), Instant(slot)));
        if let Some((schedule, slot)) = &behind {
            bound.extend([schedule as &(dyn ToSql + Sync), slot]);
            conn.query(&sql::WAIT_INSERT, &bound).await?;
            return Ok(JobState::Blocked);
        }
        let (statement, state) = match self.due_at > now {
            false => (&sql::READY_INSERT, JobState::Ready),
            true if self.attempt == 0 => (&sql::TIMER_INSERT, JobState::Scheduled),
            true => (&sql::TIMER_INSERT, JobState::Retrying),
        };
        conn.query(statement, &bound).await?;
        Ok(state)
    }
}

/// Begins a transaction, and says what time it is in it.
pub(crate) async fn begin(conn: &mut Conn, at: At) -> Outcome<Timestamp> {
    let begun = conn.begin_with(&sql::NOW, &[&rows::at(at)]).await?;
    rows::instant(&first(begun, "now")?, 0)
}

/// Takes a waiting job from where it waits.
async fn take_waiting(conn: &mut Conn, job: JobId) -> Outcome<Option<Seat>> {
    let taken = conn.query(&sql::WAITING_TAKE, &[&job.as_uuid()]).await?;
    taken.first().map(read_seat).transpose()
}

/// Where a job is.
async fn state(conn: &mut Conn, job: JobId) -> Outcome<Option<JobState>> {
    let found = conn.query(&sql::JOB_STATE, &[&job.as_uuid()]).await?;
    found.first().map(|row| rows::state(row, 0)).transpose()
}

/// A job that is never where it was just seen.
fn restless(job: JobId) -> Fault {
    let message = format!("job {job} is being changed by other requests; try again");
    StoreError::new(ErrorKind::Retry, message).into()
}

fn is_waiting(state: JobState) -> bool {
    use JobState::{Blocked, Ready, Retrying, Scheduled};
    matches!(state, Scheduled | Ready | Retrying | Blocked)
}

pub(crate) async fn cancel(
    conn: &mut Conn,
    at: At,
    job: JobId,
    actor: &Actor,
) -> Outcome<CancelAnswer> {
    let now = begin(conn, at).await?;
    for _ in 0..LOOKS_MAX {
        if let Some(answer) = cancel_within(conn, now, job, actor, &sql::LEASE_CANCEL).await? {
            conn.commit().await?;
            return Ok(answer);
        }
    }
    Err(restless(job))
}

/// Calls a job off for a slot that takes its place. None: its lease is locked by somebody who may well
/// be settling it, and is not waited for.
pub(crate) async fn call_off(
    conn: &mut Conn,
    now: Timestamp,
    job: JobId,
    actor: &Actor,
) -> Outcome<Option<CancelAnswer>> {
    for _ in 0..LOOKS_MAX {
        let answer = cancel_within(conn, now, job, actor, &sql::LEASE_CALL_OFF).await?;
        if answer.is_some() || state(conn, job).await? == Some(JobState::Running) {
            return Ok(answer);
        }
    }
    Err(restless(job))
}

/// Cancels inside a transaction of the caller's, where the worker of a running job is asked by this
/// statement. None: the job is on its way from one place to another.
async fn cancel_within(
    conn: &mut Conn,
    now: Timestamp,
    job: JobId,
    actor: &Actor,
    ask: &Statement,
) -> Outcome<Option<CancelAnswer>> {
    let reason = rows::text(&rules::cancel_reason(actor)).into_owned();
    let answer = if let Some(seat) = take_waiting(conn, job).await? {
        let seat = seat.known(conn, job).await?;
        seat.end(conn, now, job, JobState::Cancelled, &reason).await?;
        CancelAnswer::Cancelled
    } else if !conn.query(ask, &[&job.as_uuid(), &reason]).await?.is_empty() {
        CancelAnswer::Asked
    } else {
        return Ok(match state(conn, job).await? {
            None => Some(CancelAnswer::NotFound),
            Some(ended) if ended.is_final() => Some(CancelAnswer::Ended(ended)),
            // It was asked before, or has just been claimed.
            Some(JobState::Running) if was_asked(conn, job).await? => Some(CancelAnswer::Asked),
            Some(_) => None,
        });
    };
    upkeep::note(conn, now, actor, &AuditAction::CancelJob, &job.to_string()).await?;
    Ok(Some(answer))
}

/// Was the worker of a running job asked to stop?
async fn was_asked(conn: &mut Conn, job: JobId) -> Outcome<bool> {
    let found = conn.query(&sql::LEASE_CANCEL_ASKED, &[&job.as_uuid()]).await?;
    Ok(!found.is_empty())
}

pub(crate) async fn requeue(
    conn: &mut Conn,
    key: &ClusterKey,
    at: At,
    jobs: &[JobId],
    actor: &Actor,
) -> Outcome<Vec<RequeueAnswer>> {
    let now = begin(conn, at).await?;
    let mut answers = Vec::with_capacity(jobs.len());
    for job in jobs {
        answers.push(requeue_one(conn, key, now, *job, actor).await?);
    }
    conn.commit().await?;
    Ok(answers)
}

async fn requeue_one(
    conn: &mut Conn,
    key: &ClusterKey,
    now: Timestamp,
    job: JobId,
    actor: &Actor,
) -> Outcome<RequeueAnswer> {
    let id = job.as_uuid();
    let ended = conn.query(&sql::DONE_LOCK, &[&id]).await?;
    let Some(row) = ended.first() else {
        let state = state(conn, job).await?;
        return Ok(state.map_or(RequeueAnswer::NotFound, RequeueAnswer::NotFailed));
    };
    let (outcome, attempt): (i16, i32) = (rows::get(row, 0)?, rows::get(row, 1)?);
    if outcome == rows::end_code(JobState::Succeeded) {
        return Ok(RequeueAnswer::NotFailed(JobState::Succeeded));
    }
    let found = conn.query(&sql::JOB_KEY_OF, &[&id]).await?;
    let Some(row) = found.first() else { return Ok(RequeueAnswer::NotFound) };
    let (body, schedule) = read_keyed(row, job)?;
    if let Some(holder) = keys::take_one(conn, key, now, &body).await? {
        return Ok(RequeueAnswer::KeyTaken(holder.job));
    }
    if let Some(schedule) = schedule {
        conn.query(&sql::LIVE_INSERT, &[&schedule.as_uuid(), &id]).await?;
    }
    conn.query(&sql::STEP_DELETE, &[&id]).await?;
    // Somebody wants it now: what it was given at first has run out or does not matter.
    conn.query(&sql::JOB_REFRESH, &[&id, &attempt]).await?;
    conn.query(&sql::DONE_DELETE, &[&id]).await?;
    let seat = Seat {
        due_at: now,
        attempt,
        spent: 0,
        crashes: 0,
        priority: body.priority,
        flags: bodies::flags(body.unique.is_some(), schedule.is_some(), body.max_attempts),
        queue: body.queue,
        kind: body.kind,
        behind: None,
    };
    seat.wait(conn, job, now).await?;
    upkeep::note(conn, now, actor, &AuditAction::RequeueJob, &job.to_string()).await?;
    Ok(RequeueAnswer::Requeued)
}

/// As much of a body as a job needs to stand in line again. What cannot be read is left out: the
/// next claim sets the job aside anew, and whoever requeued it sees why.
fn read_keyed(row: &Row, id: JobId) -> Read<(NewJob, Option<ScheduleId>)> {
    let unique = read_unique(row, 6).unwrap_or(None);
    let payload = match rows::get::<Option<String>>(row, 9)? {
        None => Json::null(),
        Some(text) => Json::from_canonical(text),
    };
    let (queue, kind): (String, String) = (rows::get(row, 1)?, rows::get(row, 2)?);
    let job = NewJob {
        tenant: rows::get(row, 0)?,
        priority: rows::get(row, 3)?,
        max_attempts: rows::shown(row, 4)?.max(1),
        unique,
        ..NewJob::new(id, &queue, &kind, payload)
    };
    Ok((job, rows::schedule_id_opt(row, 5)?))
}

/// `unique_key, key_scope, key_us` from `index` on.
fn read_unique(row: &Row, index: usize) -> Read<Option<UniqueKey>> {
    let Some(key) = rows::get::<Option<String>>(row, index)? else { return Ok(None) };
    let lifetime = match rows::length_opt(row, index + 2)? {
        None => KeyLifetime::Job,
        Some(wait) => KeyLifetime::For(wait),
    };
    Ok(Some(UniqueKey { key, scope: read_scope(row, index + 1)?, lifetime, is_by_payload: false }))
}

fn read_scope(row: &Row, index: usize) -> Read<KeyScope> {
    match rows::get::<i16>(row, index)? {
        1 => Ok(KeyScope::Tenant),
        2 => Ok(KeyScope::Kind),
        3 => Ok(KeyScope::Queue),
        code => Err(Fault::Row(format!("unknown scope {code} of a unique key"))),
    }
}

/// Lets a key that holds for a job's queue go with the job; or says who holds it there.
async fn move_key(
    conn: &mut Conn,
    now: Timestamp,
    job: JobId,
    queue: &str,
) -> Outcome<Option<JobId>> {
    let found = conn.query(&sql::JOB_KEY_OF, &[&job.as_uuid()]).await?;
    let Some(row) = found.first() else { return Ok(None) };
    let (body, _) = read_keyed(row, job)?;
    let moved = NewJob { queue: queue.to_owned(), ..body.clone() };
    keys::rename(conn, now, &body, &moved).await
}

pub(crate) async fn place(
    conn: &mut Conn,
    at: At,
    job: JobId,
    to: &Placement,
    actor: &Actor,
) -> Outcome<MoveAnswer> {
    let now = begin(conn, at).await?;
    for _ in 0..LOOKS_MAX {
        let Some(mut seat) = take_waiting(conn, job).await? else {
            let answer = match state(conn, job).await? {
                None => MoveAnswer::NotFound,
                Some(state) if is_waiting(state) => continue,
                Some(state) => MoveAnswer::NotWaiting(state),
            };
            conn.commit().await?;
            return Ok(answer);
        };
        if !seat.is_readable() {
            let seat = seat.known(conn, job).await?;
            seat.end(conn, now, job, JobState::Failed, rules::UNREADABLE).await?;
            conn.commit().await?;
            return Ok(MoveAnswer::NotWaiting(JobState::Failed));
        }
        if let Some(queue) = &to.queue
            && seat.flags & HAS_KEY != 0
            && let Some(rival) = move_key(conn, now, job, queue).await?
        {
            conn.rollback().await?;
            return Ok(MoveAnswer::KeyTaken(rival));
        }
        let placed =
            conn.query(&sql::JOB_PLACE, &[&job.as_uuid(), &to.queue, &to.priority]).await?;
        let row = first(placed, "job_place")?;
        (seat.queue, seat.priority) = (rows::get(&row, 0)?, rows::get(&row, 1)?);
        seat.due_at = to.due_at.unwrap_or(seat.due_at);
        let state = seat.wait(conn, job, now).await?;
        upkeep::note(conn, now, actor, &AuditAction::PlaceJob, &job.to_string()).await?;
        conn.commit().await?;
        return Ok(MoveAnswer::Moved(state));
    }
    Err(restless(job))
}
