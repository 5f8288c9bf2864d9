//! Rows and the types they stand for.
//!
//! What the engine acts on is read strictly, and whoever reads it says what becomes of a row that
//! cannot be. What is only shown is read as far as it goes: `text` and `or_none` never fail.

use std::time::Duration;

use punctual_core::job::{AttemptOutcome, JobState, LogLevel, SlotOutcome};
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp};
use punctual_store::{
    Actor, AuditEntry, AuditView, Fence, HeldSlots, JobView, Json, Leader, LeaderChange, LogView,
    Node, NodeInfo, Origin, Pause, ProgressView, Queue, QueueLimits, RevisionView, RollupCount,
    Schedule, SlotView, StepView, rules,
};
use rusqlite::types::{FromSql, ToSqlOutput, Type, Value, ValueRef};
use rusqlite::{Error, Row};

pub(crate) type Read<T> = rusqlite::Result<T>;

/// A value of a statement's parameter, for whichever driver runs it.
pub(crate) type Bound<'a> = ToSqlOutput<'a>;

/// The same for a value that may be missing.
pub(crate) fn or_null<'a>(value: Option<impl Into<Bound<'a>>>) -> Bound<'a> {
    value.map_or(ToSqlOutput::Owned(Value::Null), Into::into)
}

/// The same for the bytes of an id.
pub(crate) fn blob(id: &[u8; 16]) -> Bound<'_> {
    ToSqlOutput::from(id.as_slice())
}

/// A row, whichever driver has read it.
pub(crate) trait Fields {
    /// A value as it is.
    fn value(&self, at: usize) -> Read<ValueRef<'_>>;

    /// A value of this type.
    fn read<T: FromSql>(&self, at: usize) -> Read<T>;
}

impl Fields for Row<'_> {
    fn value(&self, at: usize) -> Read<ValueRef<'_>> {
        self.get_ref(at)
    }

    fn read<T: FromSql>(&self, at: usize) -> Read<T> {
        self.get(at)
    }
}

/// Length of time in the unit of the store.
pub(crate) fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

/// A number of rows as SQLite counts them.
pub(crate) fn rows(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(crate) fn instant(row: &impl Fields, at: usize) -> Read<Timestamp> {
    Ok(Timestamp::from_micros(row.read(at)?))
}

pub(crate) fn instant_opt(row: &Row, at: usize) -> Read<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(Timestamp::from_micros))
}

/// A duration in microseconds; a negative one is zero.
pub(crate) fn length(row: &Row, at: usize) -> Read<Duration> {
    let micros: i64 = row.get(at)?;
    Ok(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
}

/// A length of time. A negative one is damage.
pub(crate) fn length_opt(row: &Row, at: usize) -> Read<Option<Duration>> {
    let Some(micros) = row.get::<_, Option<i64>>(at)? else { return Ok(None) };
    match u64::try_from(micros) {
        Ok(micros) => Ok(Some(Duration::from_micros(micros))),
        Err(_) => Err(Error::IntegralValueOutOfRange(at, micros)),
    }
}

/// A text for people, as far as it can be read.
pub(crate) fn text(row: &impl Fields, at: usize) -> String {
    match row.value(at) {
        Ok(ValueRef::Text(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

/// The same, or none.
pub(crate) fn text_opt(row: &impl Fields, at: usize) -> Option<String> {
    matches!(row.value(at), Ok(ValueRef::Text(_))).then(|| text(row, at))
}

/// A value for people; none if it cannot be read.
pub(crate) fn or_none<T: FromSql>(row: &impl Fields, at: usize) -> Option<T> {
    row.read(at).ok()
}

pub(crate) fn job_id(row: &impl Fields, at: usize) -> Read<JobId> {
    Ok(JobId::from_bytes(row.read(at)?))
}

pub(crate) fn node_id(row: &impl Fields, at: usize) -> Read<NodeId> {
    Ok(NodeId::from_bytes(row.read(at)?))
}

pub(crate) fn lease_id(row: &Row, at: usize) -> Read<LeaseId> {
    Ok(LeaseId::from_bytes(row.get(at)?))
}

/// The bytes that stand for an id, whether they are one or not.
pub(crate) fn bytes(row: &Row, at: usize) -> Read<Vec<u8>> {
    row.get(at)
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

/// A document that is looked at rather than passed on, and so must be one.
fn checked_json(row: &Row, at: usize) -> Read<Json> {
    let text: String = row.get(at)?;
    match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
        Ok(_) => Ok(Json::from_canonical(text)),
        Err(error) => Err(Error::FromSqlConversionFailure(at, Type::Text, Box::new(error))),
    }
}

/// The code of an end, as `job_done` has it.
pub(crate) fn end_code(state: JobState) -> i64 {
    match state {
        JobState::Succeeded => 1,
        JobState::Cancelled => 3,
        _ => 2,
    }
}

/// How a job ended. A code that nobody knows is no success, and not what somebody asked for.
pub(crate) fn end_state(row: &impl Fields, at: usize) -> Read<JobState> {
    Ok(match row.read::<i64>(at)? {
        1 => JobState::Succeeded,
        3 => JobState::Cancelled,
        _ => JobState::Failed,
    })
}

pub(crate) fn attempt_outcome(row: &Row, at: usize) -> Option<AttemptOutcome> {
    or_none(row, at).and_then(AttemptOutcome::from_code)
}

pub(crate) fn schedule_and_slot(
    row: &Row,
    at: usize,
) -> Read<Option<(ScheduleId, Option<Timestamp>)>> {
    let Some(schedule) = row.get::<_, Option<[u8; 16]>>(at)? else { return Ok(None) };
    Ok(Some((ScheduleId::from_bytes(schedule), instant_opt(row, at + 1)?)))
}

/// `schedule, slot, facts` from `at` on.
pub(crate) fn origin(row: &Row, at: usize) -> Read<Option<Origin>> {
    let Some((schedule, slot)) = schedule_and_slot(row, at)? else { return Ok(None) };
    Ok(Some(Origin { schedule, slot, facts: json(row, at + 2)? }))
}

/// `pause_who, pause_why, pause_since, pause_until` from `at` on. It holds whoever made it.
pub(crate) fn pause(row: &Row, at: usize) -> Read<Option<Pause>> {
    let Some(since) = instant_opt(row, at + 2)? else { return Ok(None) };
    let by = Actor { who: text(row, at), why: text(row, at + 1) };
    Ok(Some(Pause { by, since, until: instant_opt(row, at + 3)? }))
}

/// A queue's settings. A limit that is no number of jobs is the nearest that is one.
pub(crate) fn queue(row: &Row) -> Read<Queue> {
    let max_running = row.get::<_, Option<i64>>(5)?;
    let max_running = max_running.map(|most| u32::try_from(most.max(0)).unwrap_or(u32::MAX));
    Ok(Queue { name: text(row, 0), pause: pause(row, 1)?, limits: QueueLimits { max_running } })
}

/// What a node told of itself.
pub(crate) fn node_info(row: &Row) -> Read<NodeInfo> {
    Ok(NodeInfo {
        id: node_id(row, 0)?,
        name: text(row, 1),
        version: text(row, 2),
        queues: list(row, 3).unwrap_or_default(),
        kinds: list(row, 4).unwrap_or_default(),
        labels: list(row, 5).unwrap_or_default(),
    })
}

pub(crate) fn node(row: &Row) -> Read<Node> {
    Ok(Node {
        info: node_info(row)?,
        joined_at: instant(row, 6)?,
        seen_at: instant(row, 7)?,
        seen_watch: length(row, 8)?,
        dead_at: instant_opt(row, 9)?,
        running: row.get(10)?,
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
        renewed_at: instant(row, 6)?,
        watched: length(row, 7)?,
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

/// A schedule; one that cannot be read is shown as set aside, with what can.
pub(crate) fn schedule(row: &Row) -> Read<Schedule> {
    readable_schedule(row).or_else(|_| {
        let shard: i64 = row.get(4)?;
        Ok(rules::unreadable(Schedule {
            id: ScheduleId::from_bytes(row.get(0)?),
            tenant: text(row, 1),
            name: text(row, 2),
            owner: text(row, 3),
            set: text(row, 18),
            shard: i16::try_from(shard).unwrap_or(-1),
            revision: row.get(5)?,
            stamp: row.get(6)?,
            enabled: row.get(7)?,
            pause: pause(row, 8)?,
            set_aside: None,
            next_slot: instant_opt(row, 13)?,
            held: held(row, 19)?,
            last_slot: instant_opt(row, 14)?,
            created_at: instant(row, 15)?,
            changed_at: instant(row, 16)?,
            spec: Json::null(),
        }))
    })
}

fn readable_schedule(row: &Row) -> Read<Schedule> {
    Ok(Schedule {
        id: ScheduleId::from_bytes(row.get(0)?),
        tenant: row.get(1)?,
        name: row.get(2)?,
        owner: row.get(3)?,
        set: row.get(18)?,
        shard: row.get(4)?,
        revision: row.get(5)?,
        stamp: row.get(6)?,
        enabled: row.get(7)?,
        pause: pause(row, 8)?,
        set_aside: row.get(12)?,
        next_slot: instant_opt(row, 13)?,
        held: held(row, 19)?,
        last_slot: instant_opt(row, 14)?,
        created_at: instant(row, 15)?,
        changed_at: instant(row, 16)?,
        spec: checked_json(row, 17)?,
    })
}

/// The slots that a schedule holds, from three columns.
pub(crate) fn held(row: &Row, first: usize) -> Read<Option<HeldSlots>> {
    let Some(queue) = row.get(first)? else { return Ok(None) };
    let (since, until) = (instant(row, first + 1)?, instant(row, first + 2)?);
    Ok(Some(HeldSlots { queue, since, until }))
}

pub(crate) fn revision(row: &Row) -> Read<RevisionView> {
    Ok(RevisionView {
        revision: row.get(0)?,
        spec: checked_json(row, 1).unwrap_or_else(|_| Json::null()),
        who: text(row, 2),
        why: text(row, 3),
        at: instant(row, 4)?,
        superseded_at: instant_opt(row, 5)?,
    })
}

pub(crate) fn step(row: &Row) -> Read<StepView> {
    Ok(StepView { name: row.get(0)?, result: json(row, 1)?, at: instant(row, 2)? })
}

/// A line of a log. A level that nobody knows may be one that matters.
pub(crate) fn log_line(row: &Row) -> Read<LogView> {
    Ok(LogView {
        attempt: row.get(0)?,
        number: row.get(1)?,
        level: or_none(row, 2).and_then(LogLevel::from_code).unwrap_or(LogLevel::Error),
        text: text(row, 3),
        at: instant(row, 4)?,
    })
}

/// `progress_at, progress_percent, progress_note` from `at` on.
pub(crate) fn progress(row: &Row, at: usize) -> Read<Option<ProgressView>> {
    let Some(said_at) = instant_opt(row, at)? else { return Ok(None) };
    Ok(Some(ProgressView { percent: or_none(row, at + 1), note: text(row, at + 2), at: said_at }))
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
        reason: text_opt(row, 5),
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
    let actor = Actor { who: text(row, 2), why: text(row, 3) };
    let entry = AuditEntry { actor, action: text(row, 4).into(), subject: text(row, 5) };
    Ok(AuditView { id: row.get(0)?, at: instant(row, 1)?, entry })
}

/// The columns that `jobs.sql` and `job.sql` begin with, as far as they can be read; none if the
/// job is in no place.
pub(crate) fn job_view(row: &Row) -> Read<Option<JobView>> {
    let tried = |at: usize| -> Read<Option<u32>> {
        let attempt: Option<i64> = row.get(at)?;
        Ok(attempt.map(|attempt| u32::try_from(attempt).unwrap_or(0)))
    };
    let places = (tried(9)?, tried(11)?, tried(13)?, tried(15)?, tried(17)?);
    let (state, attempt, due_at) = match places {
        (Some(attempt), ..) => (JobState::Ready, attempt, instant_opt(row, 10)?),
        (_, Some(0), ..) => (JobState::Scheduled, 0, instant_opt(row, 12)?),
        (_, Some(attempt), ..) => (JobState::Retrying, attempt, instant_opt(row, 12)?),
        (_, _, Some(attempt), ..) => (JobState::Blocked, attempt, instant_opt(row, 14)?),
        (.., Some(attempt), _) => (JobState::Running, attempt, instant_opt(row, 16)?),
        (.., Some(attempt)) => (end_state(row, 18)?, attempt, None),
        _ => return Ok(None),
    };
    Ok(Some(JobView {
        id: job_id(row, 0)?,
        state,
        tenant: text(row, 1),
        queue: text(row, 2),
        kind: text(row, 3),
        priority: or_none(row, 4).unwrap_or(0),
        attempt,
        max_attempts: or_none(row, 5).unwrap_or(0),
        created_at: instant(row, 6)?,
        due_at,
        finished_at: instant_opt(row, 19)?,
        schedule: schedule_and_slot(row, 7).unwrap_or(None),
        error: text_opt(row, 20),
    }))
}
