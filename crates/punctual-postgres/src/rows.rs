//! Values and rows, and the types they stand for.

use std::borrow::Cow;
use std::error::Error;
use std::time::Duration;

use punctual_core::job::{AttemptOutcome, JobState, LogLevel, SlotOutcome};
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp};
use punctual_store::{
    Actor, At, AuditAction, AuditEntry, AuditView, Fence, HeldSlots, JobView, Json, Leader,
    LeaderChange, LogView, Node, NodeInfo, Origin, Pause, ProgressView, Queue, QueueLimits,
    QueueStats, RevisionView, RollupCount, Schedule, SlotView, StepView, UnreadableJob, rules,
};
use tokio_postgres::Row;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

use crate::error::Fault;
use crate::session::Fields;

pub(crate) type Read<T> = Result<T, Fault>;

/// Microseconds from 1970 to 2000, where PostgreSQL begins to count.
const EPOCH_OFFSET: i64 = 946_684_800_000_000;
/// The earliest instant PostgreSQL knows, in the year 4713 before Christ, counted from 2000.
const EARLIEST: i64 = -211_813_488_000_000_000;

/// An instant as PostgreSQL keeps it: microseconds, like ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(pub(crate) Timestamp);

impl ToSql for Instant {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let micros = self.0.as_micros().saturating_sub(EPOCH_OFFSET).max(EARLIEST);
        out.extend_from_slice(&micros.to_be_bytes());
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Instant {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Instant, Box<dyn Error + Sync + Send>> {
        // The ends of the range stand for what lies beyond time, and are held inside ours.
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Instant(Timestamp::from_micros(micros.saturating_add(EPOCH_OFFSET))))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::TIMESTAMPTZ
    }
}

/// Puts a row's value into a column in which most rows have none. `unnest` fills a column that is
/// shorter than the others up with NULL, so that those behind the last value need not be sent: an
/// array of a thousand of them costs the server as much as one of values.
pub(crate) fn put<T>(column: &mut Vec<Option<T>>, row: usize, value: Option<T>) {
    if value.is_some() {
        column.resize_with(row, || None);
        column.push(value);
    }
}

/// The instant to go by; none: the database's clock.
pub(crate) fn at(at: At) -> Option<Instant> {
    match at {
        At::Database => None,
        At::Fixed(instant) => Some(Instant(instant)),
    }
}

/// Length of time in the unit of the store. The longest is ten thousand years: beyond that
/// PostgreSQL cannot add it to an instant, and no deadline is further away.
pub(crate) fn micros(length: Duration) -> i64 {
    const MOST: i64 = 10_000 * 366 * 86_400 * 1_000_000;
    i64::try_from(length.as_micros()).unwrap_or(MOST).min(MOST)
}

/// A number of rows as PostgreSQL counts them.
pub(crate) fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A text without the one character that PostgreSQL cannot keep.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => Cow::Owned(text.replace('\0', "\u{2400}")),
        false => Cow::Borrowed(text),
    }
}

/// A value of a row, read as the type that the column has.
pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a impl Fields, index: usize) -> Read<T> {
    row.get(index)
}

fn meaningless(what: &str, value: impl std::fmt::Display) -> Fault {
    Fault::Row(format!("invalid {what} {value}"))
}

pub(crate) fn instant(row: &impl Fields, index: usize) -> Read<Timestamp> {
    Ok(get::<Instant>(row, index)?.0)
}

pub(crate) fn instant_opt(row: &impl Fields, index: usize) -> Read<Option<Timestamp>> {
    Ok(get::<Option<Instant>>(row, index)?.map(|instant| instant.0))
}

/// A duration in microseconds; a negative one is zero.
pub(crate) fn length(row: &Row, index: usize) -> Read<Duration> {
    let micros: i64 = get(row, index)?;
    Ok(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
}

/// A length of time. A negative one is damage.
pub(crate) fn length_opt(row: &Row, index: usize) -> Read<Option<Duration>> {
    let Some(micros) = get::<Option<i64>>(row, index)? else { return Ok(None) };
    match u64::try_from(micros) {
        Ok(micros) => Ok(Some(Duration::from_micros(micros))),
        Err(_) => Err(meaningless("duration", micros)),
    }
}

/// A number for people: one that cannot be, because it is below 0, is told as 0.
pub(crate) fn shown(row: &Row, index: usize) -> Read<u32> {
    Ok(u32::try_from(get::<i32>(row, index)?).unwrap_or(0))
}

/// A number that is kept with a sign and never has one.
pub(crate) fn natural<T: TryFrom<i64>>(row: &Row, index: usize) -> Read<T> {
    let number: i64 = match row.columns().get(index).map(tokio_postgres::Column::type_) {
        Some(of) if *of == Type::INT2 => get::<i16>(row, index)?.into(),
        Some(of) if *of == Type::INT4 => get::<i32>(row, index)?.into(),
        _ => get(row, index)?,
    };
    T::try_from(number).map_err(|_| meaningless("count", number))
}

pub(crate) fn job_id(row: &impl Fields, index: usize) -> Read<JobId> {
    Ok(JobId::from_bytes(get::<Uuid>(row, index)?.into_bytes()))
}

/// Jobs that failed because they cannot be read, from arrays of ids, queues and kinds.
pub(crate) fn unreadable_jobs(row: &Row, first: usize) -> Read<Vec<UnreadableJob>> {
    let jobs = get::<Option<Vec<Uuid>>>(row, first)?.unwrap_or_default();
    let queues = get::<Option<Vec<String>>>(row, first + 1)?.unwrap_or_default();
    let kinds = get::<Option<Vec<String>>>(row, first + 2)?.unwrap_or_default();
    let jobs = jobs.into_iter().map(|job| JobId::from_bytes(job.into_bytes()));
    let all = jobs.zip(queues).zip(kinds);
    Ok(all.map(|((job, queue), kind)| UnreadableJob { job, queue, kind }).collect())
}

pub(crate) fn lease_id(row: &impl Fields, index: usize) -> Read<LeaseId> {
    Ok(LeaseId::from_bytes(get::<Uuid>(row, index)?.into_bytes()))
}

pub(crate) fn node_id(row: &Row, index: usize) -> Read<NodeId> {
    Ok(NodeId::from_bytes(get::<Uuid>(row, index)?.into_bytes()))
}

pub(crate) fn schedule_id(row: &Row, index: usize) -> Read<ScheduleId> {
    Ok(ScheduleId::from_bytes(get::<Uuid>(row, index)?.into_bytes()))
}

pub(crate) fn schedule_id_opt(row: &Row, index: usize) -> Read<Option<ScheduleId>> {
    let id = get::<Option<Uuid>>(row, index)?;
    Ok(id.map(|id| ScheduleId::from_bytes(id.into_bytes())))
}

/// JSON that the store wrote: a list, or nothing for an empty one.
pub(crate) fn list<T: serde::de::DeserializeOwned>(row: &Row, index: usize) -> Read<Vec<T>> {
    match get::<Option<&str>>(row, index)? {
        None => Ok(Vec::new()),
        Some(text) => serde_json::from_str(text).map_err(|error| Fault::Row(error.to_string())),
    }
}

/// A list as JSON. Strings always have a form in JSON, so the fallback is never taken.
pub(crate) fn list_text<T: serde::Serialize>(list: &[T]) -> String {
    serde_json::to_string(list).unwrap_or_else(|_| "[]".to_owned())
}

pub(crate) fn json(row: &Row, index: usize) -> Read<Json> {
    Ok(Json::from_canonical(get(row, index)?))
}

/// The code of an end, as `job_done` has it.
pub(crate) fn end_code(state: JobState) -> i16 {
    state.code() - JobState::Succeeded.code() + 1
}

pub(crate) fn state(row: &impl Fields, index: usize) -> Read<JobState> {
    let code: i16 = get(row, index)?;
    JobState::from_code(code).ok_or_else(|| meaningless("job state", code))
}

/// How a job ended. A code that nobody knows is no success, and not what somebody asked for.
pub(crate) fn end_state(row: &Row, index: usize) -> Read<JobState> {
    Ok(match get::<i16>(row, index)? {
        1 => JobState::Succeeded,
        3 => JobState::Cancelled,
        _ => JobState::Failed,
    })
}

pub(crate) fn attempt_outcome(row: &Row, index: usize) -> Read<Option<AttemptOutcome>> {
    Ok(AttemptOutcome::from_code(get(row, index)?))
}

pub(crate) fn schedule_and_slot(
    row: &Row,
    index: usize,
) -> Read<Option<(ScheduleId, Option<Timestamp>)>> {
    let Some(schedule) = get::<Option<Uuid>>(row, index)? else { return Ok(None) };
    Ok(Some((ScheduleId::from_bytes(schedule.into_bytes()), instant_opt(row, index + 1)?)))
}

/// `schedule, slot, facts` from `index` on.
pub(crate) fn origin(row: &Row, index: usize) -> Read<Option<Origin>> {
    let Some((schedule, slot)) = schedule_and_slot(row, index)? else { return Ok(None) };
    Ok(Some(Origin { schedule, slot, facts: json(row, index + 2)? }))
}

/// `pause_who, pause_why, pause_since, pause_until` from `index` on.
pub(crate) fn pause(row: &Row, index: usize) -> Read<Option<Pause>> {
    let Some(since) = instant_opt(row, index + 2)? else { return Ok(None) };
    let by = Actor { who: get(row, index)?, why: get(row, index + 1)? };
    Ok(Some(Pause { by, since, until: instant_opt(row, index + 3)? }))
}

pub(crate) fn queue(row: &Row) -> Read<Queue> {
    // A limit that is no number of jobs is the nearest that is one.
    let max_running = get::<Option<i64>>(row, 5)?;
    let max_running = max_running.map(|most| u32::try_from(most.max(0)).unwrap_or(u32::MAX));
    Ok(Queue { name: get(row, 0)?, pause: pause(row, 1)?, limits: QueueLimits { max_running } })
}

pub(crate) fn queue_stats(row: &Row) -> Read<QueueStats> {
    Ok(QueueStats {
        queue: get(row, 0)?,
        kind: get(row, 1)?,
        ready: natural(row, 2)?,
        scheduled: natural(row, 3)?,
        retrying: natural(row, 4)?,
        blocked: natural(row, 5)?,
        running: natural(row, 6)?,
        failed: natural(row, 7)?,
        oldest_due_at: instant_opt(row, 8)?,
    })
}

/// What a node told of itself.
pub(crate) fn node_info(row: &Row) -> Read<NodeInfo> {
    Ok(NodeInfo {
        id: node_id(row, 0)?,
        name: get(row, 1)?,
        version: get(row, 2)?,
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
        running: natural(row, 10)?,
    })
}

/// `role, term, nonce, node, since, lease_until, renewed_at, watched` from `index` on.
pub(crate) fn leader_from(row: &Row, index: usize) -> Read<Leader> {
    let nonce = Nonce::from_bytes(get::<Uuid>(row, index + 2)?.into_bytes());
    let fence = Fence { role: get(row, index)?, term: get(row, index + 1)?, nonce };
    Ok(Leader {
        fence,
        node: node_id(row, index + 3)?,
        since: instant(row, index + 4)?,
        until: instant(row, index + 5)?,
        renewed_at: instant(row, index + 6)?,
        watched: length(row, index + 7)?,
    })
}

pub(crate) fn leader(row: &Row) -> Read<Leader> {
    leader_from(row, 0)
}

pub(crate) fn leader_change(row: &Row) -> Read<LeaderChange> {
    Ok(LeaderChange {
        role: get(row, 0)?,
        term: get(row, 1)?,
        node: node_id(row, 2)?,
        at: instant(row, 3)?,
    })
}

/// A schedule; one that cannot be read is shown as set aside, with what can.
pub(crate) fn schedule(row: &Row) -> Read<Schedule> {
    let spec = get::<Option<String>>(row, 17)?;
    let is_readable = spec.is_some();
    let schedule = Schedule {
        id: schedule_id(row, 0)?,
        tenant: get(row, 1)?,
        name: get(row, 2)?,
        owner: get(row, 3)?,
        set: get(row, 18)?,
        shard: get(row, 4)?,
        revision: get(row, 5)?,
        stamp: get(row, 6)?,
        enabled: get(row, 7)?,
        pause: pause(row, 8)?,
        set_aside: get(row, 12)?,
        next_slot: instant_opt(row, 13)?,
        held: held(row, 19)?,
        last_slot: instant_opt(row, 14)?,
        created_at: instant(row, 15)?,
        changed_at: instant(row, 16)?,
        spec: spec.map_or_else(Json::null, Json::from_canonical),
    };
    Ok(if is_readable { schedule } else { rules::unreadable(schedule) })
}

/// The slots that a schedule holds, from three columns.
pub(crate) fn held(row: &Row, first: usize) -> Read<Option<HeldSlots>> {
    let Some(queue) = get(row, first)? else { return Ok(None) };
    let (since, until) = (instant(row, first + 1)?, instant(row, first + 2)?);
    Ok(Some(HeldSlots { queue, since, until }))
}

pub(crate) fn revision(row: &Row) -> Read<RevisionView> {
    Ok(RevisionView {
        revision: get(row, 0)?,
        spec: json(row, 1)?,
        who: get(row, 2)?,
        why: get(row, 3)?,
        at: instant(row, 4)?,
        superseded_at: instant_opt(row, 5)?,
    })
}

pub(crate) fn step(row: &Row) -> Read<StepView> {
    Ok(StepView { name: get(row, 0)?, result: json(row, 1)?, at: instant(row, 2)? })
}

/// A line of a log. A level that nobody knows may be one that matters.
pub(crate) fn log_line(row: &Row) -> Read<LogView> {
    Ok(LogView {
        attempt: shown(row, 0)?,
        number: shown(row, 1)?,
        level: LogLevel::from_code(get(row, 2)?).unwrap_or(LogLevel::Error),
        text: get(row, 3)?,
        at: instant(row, 4)?,
    })
}

/// `progress_at, progress_percent, progress_note` from `index` on.
pub(crate) fn progress(row: &Row, index: usize) -> Read<Option<ProgressView>> {
    let Some(said_at) = instant_opt(row, index)? else { return Ok(None) };
    let percent = get::<Option<i16>>(row, index + 1)?;
    let percent = percent.and_then(|percent| u8::try_from(percent).ok());
    let note = get::<Option<String>>(row, index + 2)?.unwrap_or_default();
    Ok(Some(ProgressView { percent, note, at: said_at }))
}

pub(crate) fn slot(row: &Row) -> Read<SlotView> {
    let code: i16 = get(row, 4)?;
    let outcome = SlotOutcome::from_code(code).ok_or_else(|| meaningless("slot outcome", code))?;
    Ok(SlotView {
        slot: instant(row, 0)?,
        run: get(row, 1)?,
        end: instant_opt(row, 2)?,
        count: natural(row, 3)?,
        outcome,
        reason: get(row, 5)?,
        job: get::<Option<Uuid>>(row, 6)?.map(|job| JobId::from_bytes(job.into_bytes())),
        term: get(row, 7)?,
        node: node_id(row, 8)?,
        revision: get(row, 9)?,
        decided_at: instant(row, 10)?,
    })
}

pub(crate) fn rollup(row: &Row) -> Read<RollupCount> {
    Ok(RollupCount {
        minute: instant(row, 0)?,
        metric: get(row, 1)?,
        queue: get(row, 2)?,
        kind: get(row, 3)?,
        count: get(row, 4)?,
        sum: get(row, 5)?,
    })
}

pub(crate) fn audit(row: &Row) -> Read<AuditView> {
    let actor = Actor { who: get(row, 2)?, why: get(row, 3)? };
    let action = AuditAction::from(get::<&str>(row, 4)?);
    let entry = AuditEntry { actor, action, subject: get(row, 5)? };
    Ok(AuditView { id: get(row, 0)?, at: instant(row, 1)?, entry })
}

/// The columns that `jobs.sql` and `job.sql` begin with, as far as they can be read; none if the
/// job is in no place.
pub(crate) fn job_view(row: &Row) -> Read<Option<JobView>> {
    let tried = |index: usize| -> Read<Option<u32>> {
        let attempt = get::<Option<i32>>(row, index)?;
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
        tenant: get(row, 1)?,
        queue: get(row, 2)?,
        kind: get(row, 3)?,
        priority: get(row, 4)?,
        attempt,
        max_attempts: shown(row, 5)?,
        created_at: instant(row, 6)?,
        due_at,
        finished_at: instant_opt(row, 19)?,
        schedule: schedule_and_slot(row, 7)?,
        error: get(row, 20)?,
    }))
}
