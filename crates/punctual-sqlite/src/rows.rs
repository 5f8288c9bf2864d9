//! Rows and the types they stand for.

use std::time::Duration;

use punctual_core::job::{AttemptOutcome, JobState, SlotOutcome};
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp};
use punctual_store::{
    Actor, AuditEntry, AuditView, Fence, JobView, Json, Leader, LeaderChange, Node, NodeInfo,
    Pause, ProgressView, Queue, QueueLimits, QueueStats, RevisionView, RollupCount, Schedule,
    SlotView,
};
use rusqlite::types::Type;
use rusqlite::{Error, Row};

pub(crate) type Read<T> = rusqlite::Result<T>;

/// Length of time in the unit of the store.
pub(crate) fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

/// A number of rows as SQLite counts them.
pub(crate) fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn instant(row: &Row, at: usize) -> Read<Timestamp> {
    Ok(Timestamp::from_micros(row.get(at)?))
}

pub(crate) fn instant_opt(row: &Row, at: usize) -> Read<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(Timestamp::from_micros))
}

/// A length of time. A negative one is damage.
pub(crate) fn length_opt(row: &Row, at: usize) -> Read<Option<Duration>> {
    let Some(micros) = row.get::<_, Option<i64>>(at)? else { return Ok(None) };
    match u64::try_from(micros) {
        Ok(micros) => Ok(Some(Duration::from_micros(micros))),
        Err(_) => Err(Error::IntegralValueOutOfRange(at, micros)),
    }
}

pub(crate) fn job_id(row: &Row, at: usize) -> Read<JobId> {
    Ok(JobId::from_bytes(row.get(at)?))
}

pub(crate) fn node_id(row: &Row, at: usize) -> Read<NodeId> {
    Ok(NodeId::from_bytes(row.get(at)?))
}

pub(crate) fn lease_id(row: &Row, at: usize) -> Read<LeaseId> {
    Ok(LeaseId::from_bytes(row.get(at)?))
}

/// JSON that the store wrote: a list, or nothing for an empty one.
pub(crate) fn list<T: serde::de::DeserializeOwned>(row: &Row, at: usize) -> Read<Vec<T>> {
    match row.get_ref(at)?.as_str_or_null()? {
        None => Ok(Vec::new()),
        Some(text) => serde_json::from_str(text)
            .map_err(|error| Error::FromSqlConversionFailure(at, Type::Text, Box::new(error))),
    }
}

/// A list as JSON. Strings always have a form in JSON, so the fallback is never taken.
pub(crate) fn list_text<T: serde::Serialize>(list: &[T]) -> String {
    serde_json::to_string(list).unwrap_or_else(|_| "[]".to_owned())
}

pub(crate) fn json(row: &Row, at: usize) -> Read<Json> {
    Ok(Json::from_canonical(row.get(at)?))
}

/// The code of an end, as `job_done` has it.
pub(crate) fn end_code(state: JobState) -> i64 {
    match state {
        JobState::Succeeded => 1,
        JobState::Cancelled => 3,
        _ => 2,
    }
}

pub(crate) fn end_state(row: &Row, at: usize) -> Read<JobState> {
    match row.get(at)? {
        1 => Ok(JobState::Succeeded),
        2 => Ok(JobState::Failed),
        3 => Ok(JobState::Cancelled),
        code => Err(Error::IntegralValueOutOfRange(at, code)),
    }
}

pub(crate) fn attempt_outcome(row: &Row, at: usize) -> Read<AttemptOutcome> {
    let code: i16 = row.get(at)?;
    AttemptOutcome::from_code(code).ok_or(Error::IntegralValueOutOfRange(at, code.into()))
}

pub(crate) fn schedule_and_slot(
    row: &Row,
    at: usize,
) -> Read<Option<(ScheduleId, Option<Timestamp>)>> {
    let Some(schedule) = row.get::<_, Option<[u8; 16]>>(at)? else { return Ok(None) };
    Ok(Some((ScheduleId::from_bytes(schedule), instant_opt(row, at + 1)?)))
}

/// `pause_who, pause_why, pause_since, pause_until` from `at` on.
pub(crate) fn pause(row: &Row, at: usize) -> Read<Option<Pause>> {
    let Some(since) = instant_opt(row, at + 2)? else { return Ok(None) };
    let by = Actor { who: row.get(at)?, why: row.get(at + 1)? };
    Ok(Some(Pause { by, since, until: instant_opt(row, at + 3)? }))
}

pub(crate) fn queue(row: &Row) -> Read<Queue> {
    Ok(Queue {
        name: row.get(0)?,
        pause: pause(row, 1)?,
        limits: QueueLimits { max_running: row.get(5)? },
    })
}

pub(crate) fn queue_stats(row: &Row) -> Read<QueueStats> {
    Ok(QueueStats {
        queue: row.get(0)?,
        kind: row.get(1)?,
        ready: row.get(2)?,
        scheduled: row.get(3)?,
        retrying: row.get(4)?,
        running: row.get(5)?,
        failed: row.get(6)?,
        oldest_due: instant_opt(row, 7)?,
    })
}

pub(crate) fn node(row: &Row) -> Read<Node> {
    let info = NodeInfo {
        id: node_id(row, 0)?,
        name: row.get(1)?,
        version: row.get(2)?,
        queues: list(row, 3)?,
        kinds: list(row, 4)?,
        labels: list(row, 5)?,
    };
    Ok(Node {
        info,
        joined_at: instant(row, 6)?,
        seen_at: instant(row, 7)?,
        dead_at: instant_opt(row, 8)?,
        running: row.get(9)?,
    })
}

pub(crate) fn leader(row: &Row) -> Read<Leader> {
    let fence =
        Fence { role: row.get(0)?, term: row.get(1)?, nonce: Nonce::from_bytes(row.get(2)?) };
    Ok(Leader {
        fence,
        node: node_id(row, 3)?,
        since: instant(row, 4)?,
        until: instant(row, 5)?,
        steady_since: instant(row, 6)?,
    })
}

pub(crate) fn leader_change(row: &Row) -> Read<LeaderChange> {
    Ok(LeaderChange {
        role: row.get(0)?,
        term: row.get(1)?,
        node: node_id(row, 2)?,
        at: instant(row, 3)?,
    })
}

pub(crate) fn schedule(row: &Row) -> Read<Schedule> {
    Ok(Schedule {
        id: ScheduleId::from_bytes(row.get(0)?),
        tenant: row.get(1)?,
        name: row.get(2)?,
        owner: row.get(3)?,
        shard: row.get(4)?,
        revision: row.get(5)?,
        stamp: row.get(6)?,
        enabled: row.get(7)?,
        pause: pause(row, 8)?,
        set_aside: row.get(12)?,
        next_slot: instant_opt(row, 13)?,
        last_slot: instant_opt(row, 14)?,
        created_at: instant(row, 15)?,
        changed_at: instant(row, 16)?,
        spec: json(row, 17)?,
    })
}

pub(crate) fn revision(row: &Row) -> Read<RevisionView> {
    Ok(RevisionView {
        revision: row.get(0)?,
        spec: json(row, 1)?,
        who: row.get(2)?,
        why: row.get(3)?,
        at: instant(row, 4)?,
        superseded_at: instant_opt(row, 5)?,
    })
}

/// `progress_at, progress_percent, progress_note` from `at` on.
pub(crate) fn progress(row: &Row, at: usize) -> Read<Option<ProgressView>> {
    let Some(said_at) = instant_opt(row, at)? else { return Ok(None) };
    let note = row.get::<_, Option<String>>(at + 2)?.unwrap_or_default();
    Ok(Some(ProgressView { percent: row.get(at + 1)?, note, at: said_at }))
}

pub(crate) fn slot(row: &Row) -> Read<SlotView> {
    let code: i16 = row.get(4)?;
    let outcome =
        SlotOutcome::from_code(code).ok_or(Error::IntegralValueOutOfRange(4, code.into()))?;
    Ok(SlotView {
        slot: instant(row, 0)?,
        run: row.get(1)?,
        end: instant_opt(row, 2)?,
        count: row.get(3)?,
        outcome,
        reason: row.get(5)?,
        job: row.get::<_, Option<[u8; 16]>>(6)?.map(JobId::from_bytes),
        term: row.get(7)?,
        node: node_id(row, 8)?,
        revision: row.get(9)?,
        decided_at: instant(row, 10)?,
    })
}

pub(crate) fn rollup(row: &Row) -> Read<RollupCount> {
    Ok(RollupCount {
        minute: instant(row, 0)?,
        metric: row.get(1)?,
        queue: row.get(2)?,
        kind: row.get(3)?,
        count: row.get(4)?,
        sum: row.get(5)?,
    })
}

pub(crate) fn audit(row: &Row) -> Read<AuditView> {
    let actor = Actor { who: row.get(2)?, why: row.get(3)? };
    let entry = AuditEntry { actor, action: row.get(4)?, subject: row.get(5)? };
    Ok(AuditView { id: row.get(0)?, at: instant(row, 1)?, entry })
}

/// The columns that `jobs.sql` and `job.sql` begin with.
pub(crate) fn job_view(row: &Row) -> Read<JobView> {
    let (ready, timer): (Option<u32>, Option<u32>) = (row.get(9)?, row.get(11)?);
    let (running, ended): (Option<u32>, Option<u32>) = (row.get(13)?, row.get(15)?);
    let (state, attempt, due_at) = match (ready, timer, running, ended) {
        (Some(attempt), ..) => (JobState::Ready, attempt, instant_opt(row, 10)?),
        (_, Some(0), ..) => (JobState::Scheduled, 0, instant_opt(row, 12)?),
        (_, Some(attempt), ..) => (JobState::Retrying, attempt, instant_opt(row, 12)?),
        (_, _, Some(attempt), _) => (JobState::Running, attempt, instant_opt(row, 14)?),
        (.., ended) => (end_state(row, 16)?, ended.unwrap_or(0), None),
    };
    Ok(JobView {
        id: job_id(row, 0)?,
        state,
        tenant: row.get(1)?,
        queue: row.get(2)?,
        kind: row.get(3)?,
        priority: row.get(4)?,
        attempt,
        max_attempts: row.get(5)?,
        created_at: instant(row, 6)?,
        due_at,
        finished_at: instant_opt(row, 17)?,
        schedule: schedule_and_slot(row, 7)?,
        error: row.get(18)?,
    })
}
