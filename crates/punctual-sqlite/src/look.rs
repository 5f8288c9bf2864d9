//! What pictures are made of.

use punctual_core::job::{AttemptOutcome, JobState};
use punctual_core::{JobId, ScheduleId, Timestamp};
use punctual_store::{
    AHEAD_MIN, AheadSchedules, JobRun, RollupSum, Schedule, SlotRun, Span, SumAsk, limits,
};
use rusqlite::{Connection, Row, params};

use crate::error::Outcome;
use crate::lists::all;
use crate::rows::{self, Read};
use crate::sql;

pub(crate) fn recent_slots(
    db: &Connection,
    schedules: &[ScheduleId],
    most: usize,
) -> Outcome<Vec<SlotRun>> {
    let most = rows::rows(most.clamp(1, limits::PAGE_MAX));
    let mut runs = Vec::new();
    for schedule in schedules {
        let read = |row: &Row| {
            Ok(SlotRun { schedule: *schedule, slot: rows::slot(row)?, run: job_run(row)? })
        };
        runs.extend(all(db, sql::RECENT_SLOTS, params![schedule.as_bytes(), most], read)?);
    }
    Ok(runs)
}

fn job_run(row: &Row) -> Read<Option<JobRun>> {
    if let Some(claimed_at) = rows::instant_opt(row, 12)? {
        let attempt = rows::or_none(row, 11).unwrap_or(0);
        let (state, claimed_at) = (JobState::Running, Some(claimed_at));
        return Ok(Some(JobRun { state, attempt, claimed_at, finished_at: None }));
    }
    let Some(finished_at) = rows::instant_opt(row, 16)? else { return Ok(None) };
    Ok(Some(JobRun {
        state: rows::end_state(row, 15)?,
        attempt: rows::or_none(row, 13).unwrap_or(0),
        claimed_at: rows::instant_opt(row, 14)?,
        finished_at: Some(finished_at),
    }))
}

pub(crate) fn upcoming(db: &Connection, shard: i16, most: usize) -> Outcome<Vec<Schedule>> {
    let most = rows::rows(most.min(limits::PAGE_MAX));
    let found = all(db, sql::UPCOMING, params![shard, most], rows::schedule)?;
    // One that cannot be read is shown as set aside by lists, and has nothing to decide.
    Ok(found.into_iter().filter(|schedule| schedule.set_aside.is_none()).collect())
}

pub(crate) fn schedules_ahead(
    db: &Connection,
    now: Timestamp,
    most: usize,
) -> Outcome<AheadSchedules> {
    let most = most.min(limits::PAGE_MAX);
    let after = (now + AHEAD_MIN).as_micros();
    let bound = params![after, rows::rows(limits::EXAMINE_MAX), rows::rows(most + 1)];
    let read = |row: &Row| Ok((rows::schedule(row)?, row.get::<_, usize>(22)?));
    let found = all(db, sql::SCHEDULES_AHEAD, bound, read)?;
    let is_partial =
        found.len() > most || found.iter().any(|(_, examined)| *examined >= limits::EXAMINE_MAX);
    let schedules = found.into_iter().map(|(schedule, _)| schedule).take(most).collect();
    Ok(AheadSchedules { schedules, is_partial })
}

pub(crate) fn sums(db: &Connection, ask: SumAsk) -> Outcome<Vec<RollupSum>> {
    let SumAsk { from, to, by_queue, .. } = ask;
    let bound = params![from.as_micros(), to.as_micros(), ask.micros(), by_queue];
    all(db, sql::SUMS, bound, |row| {
        Ok(RollupSum {
            at: rows::instant(row, 0)?,
            metric: row.get(1)?,
            queue: row.get(2)?,
            count: row.get(3)?,
            sum: row.get(4)?,
        })
    })
}

pub(crate) fn spans(
    db: &Connection,
    since: Timestamp,
    until: Timestamp,
    most: usize,
) -> Outcome<Vec<Span>> {
    let most = rows::rows(most.min(limits::SPANS_MAX));
    let (floor, end) = (JobId::floor(since), JobId::floor(until));
    all(db, sql::SPANS, params![floor.as_bytes(), most, end.as_bytes()], read_span)
}

fn read_span(row: &Row) -> Read<Span> {
    Ok(Span {
        job: rows::job_id(row, 0)?,
        attempt: rows::or_none(row, 1).unwrap_or(0),
        node: rows::node_id(row, 2).ok(),
        claimed_at: rows::instant(row, 3)?,
        ended_at: rows::instant_opt(row, 4)?,
        outcome: rows::or_none::<i16>(row, 5).and_then(AttemptOutcome::from_code),
        queue: rows::text(row, 6),
        kind: rows::text(row, 7),
        schedule: rows::schedule_and_slot(row, 8)?,
    })
}
