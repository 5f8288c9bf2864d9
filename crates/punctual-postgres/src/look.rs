//! What pictures are made of.

use punctual_core::job::JobState;
use punctual_core::{JobId, NodeId, ScheduleId, Timestamp};
use punctual_store::{
    AHEAD_MIN, AheadSchedules, JobRun, RollupSum, Schedule, SlotRun, Span, SumAsk, limits,
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::connection::{Bound, Conn};
use crate::error::Outcome;
use crate::lists::all;
use crate::rows::{self, Instant, Read};
use crate::sql;

pub(crate) async fn recent_slots(
    conn: &mut Conn,
    schedules: &[ScheduleId],
    most: usize,
) -> Outcome<Vec<SlotRun>> {
    let schedules: Vec<Uuid> = schedules.iter().map(ScheduleId::as_uuid).collect();
    let most = rows::count(most.clamp(1, limits::PAGE_MAX));
    let read = |row: &Row| {
        let schedule = rows::schedule_id(row, 17)?;
        Ok(SlotRun { schedule, slot: rows::slot(row)?, run: job_run(row)? })
    };
    all(conn, &sql::RECENT_SLOTS, &[&schedules, &most], read).await
}

fn job_run(row: &Row) -> Read<Option<JobRun>> {
    if let Some(claimed_at) = rows::instant_opt(row, 12)? {
        let (state, claimed_at) = (JobState::Running, Some(claimed_at));
        let attempt = rows::shown(row, 11)?;
        return Ok(Some(JobRun { state, attempt, claimed_at, finished_at: None }));
    }
    let Some(finished_at) = rows::instant_opt(row, 16)? else { return Ok(None) };
    Ok(Some(JobRun {
        state: rows::end_state(row, 15)?,
        attempt: rows::shown(row, 13)?,
        claimed_at: rows::instant_opt(row, 14)?,
        finished_at: Some(finished_at),
    }))
}

pub(crate) async fn upcoming(conn: &mut Conn, shard: i16, most: usize) -> Outcome<Vec<Schedule>> {
    let most = rows::count(most.min(limits::PAGE_MAX));
    let found = all(conn, &sql::UPCOMING, &[&shard, &most], rows::schedule).await?;
    // One that cannot be read is shown as set aside by lists, and has nothing to decide.
    Ok(found.into_iter().filter(|schedule| schedule.set_aside.is_none()).collect())
}

pub(crate) async fn schedules_ahead(
    conn: &mut Conn,
    now: Timestamp,
    most: usize,
) -> Outcome<AheadSchedules> {
    let most = most.min(limits::PAGE_MAX);
    let after = Instant(now + AHEAD_MIN);
    let (examine, limit) = (rows::count(limits::EXAMINE_MAX), rows::count(most + 1));
    let read = |row: &Row| Ok((rows::schedule(row)?, rows::natural::<usize>(row, 22)?));
    let found = all(conn, &sql::SCHEDULES_AHEAD, &[&after, &examine, &limit], read).await?;
    let is_partial =
        found.len() > most || found.iter().any(|(_, examined)| *examined >= limits::EXAMINE_MAX);
    let schedules = found.into_iter().map(|(schedule, _)| schedule).take(most).collect();
    Ok(AheadSchedules { schedules, is_partial })
}

pub(crate) async fn sums(conn: &mut Conn, ask: SumAsk) -> Outcome<Vec<RollupSum>> {
    let SumAsk { from, to, by_queue, minutes } = ask;
    let seconds = f64::from(minutes) * 60.0;
    let bound: Bound<'_> = &[&Instant(from), &Instant(to), &seconds, &by_queue];
    let read = |row: &Row| {
        Ok(RollupSum {
            at: rows::instant(row, 0)?,
            metric: rows::get(row, 1)?,
            queue: rows::get(row, 2)?,
            count: rows::get(row, 3)?,
            sum: rows::get(row, 4)?,
        })
    };
    let mut sums = all(conn, &sql::SUMS, bound, read).await?;
    sums.sort_unstable_by(|one, other| {
        (one.at, &one.metric, &one.queue).cmp(&(other.at, &other.metric, &other.queue))
    });
    Ok(sums)
}

pub(crate) async fn spans(
    conn: &mut Conn,
    since: Timestamp,
    until: Timestamp,
    most: usize,
) -> Outcome<Vec<Span>> {
    let most = rows::count(most.min(limits::SPANS_MAX));
    let (floor, end) = (JobId::floor(since).as_uuid(), JobId::floor(until).as_uuid());
    all(conn, &sql::SPANS, &[&floor, &most, &end], read_span).await
}

fn read_span(row: &Row) -> Read<Span> {
    let node = rows::get::<Option<Uuid>>(row, 2)?;
    Ok(Span {
        job: rows::job_id(row, 0)?,
        attempt: rows::shown(row, 1)?,
        node: node.map(|node| NodeId::from_bytes(node.into_bytes())),
        claimed_at: rows::instant(row, 3)?,
        ended_at: rows::instant_opt(row, 4)?,
        outcome: match rows::get::<Option<i16>>(row, 5)? {
            Some(_) => rows::attempt_outcome(row, 5)?,
            None => None,
        },
        queue: rows::get(row, 6)?,
        kind: rows::get(row, 7)?,
        schedule: rows::schedule_and_slot(row, 8)?,
    })
}
