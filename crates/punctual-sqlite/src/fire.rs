//! What is due, and turning slots into jobs.

use std::time::Duration;

use punctual_core::{NodeId, ScheduleId, Timestamp};
use punctual_store::{
    Due, DueSchedule, Fence, FireAnswer, Fired, Schedule, SlotPlan, SlotView, limits, rules,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Outcome;
use crate::{jobs, leaders, rows, sql};

/// What is due, and which schedules cannot be read and must be set aside.
pub(crate) fn due(
    db: &Connection,
    now: Timestamp,
    shard: i16,
    most: usize,
) -> Outcome<(Due, Vec<Schedule>)> {
    let most = rows::rows(most.min(limits::FIRE_MAX));
    let mut due = db.prepare_cached(sql::SCHEDULE_DUE)?;
    let mut live = db.prepare_cached(sql::LIVE)?;
    let (mut schedules, mut unreadable) = (Vec::new(), Vec::new());
    for schedule in due.query_map(params![shard, now.as_micros(), most], rows::schedule)? {
        let schedule = schedule?;
        // None that was set aside before is due.
        if schedule.set_aside.is_some() {
            unreadable.push(schedule);
            continue;
        }
        let asked = params![schedule.id.as_bytes(), rows::rows(limits::LIVE_COUNT_MAX)];
        let jobs = live.query_map(asked, |row| Ok(rows::job_id(row, 0).ok()))?;
        let mut live = jobs.filter_map(Result::transpose).collect::<rusqlite::Result<Vec<_>>>()?;
        let live_count = live.len();
        live.truncate(limits::LIVE_MAX);
        schedules.push(DueSchedule { schedule, live, live_count });
    }
    Ok((Due { at: now, schedules }, unreadable))
}

/// Sets schedules aside that cannot be read, unless somebody has changed them since.
pub(crate) fn set_aside(db: &Connection, unreadable: &[Schedule]) -> Outcome<()> {
    for Schedule { id, stamp, .. } in unreadable {
        let mark = mark(db, *id)?.filter(|mark| mark.stamp == *stamp);
        if let Some(Mark { rowid, .. }) = mark {
            let reason = params![rowid, rules::UNREADABLE];
            db.prepare_cached(sql::SCHEDULE_SET_ASIDE)?.execute(reason)?;
        }
    }
    Ok(())
}

pub(crate) fn fire(
    db: &Connection,
    now: Timestamp,
    fence: &Fence,
    lease: Duration,
    plans: &[SlotPlan],
) -> Outcome<Fired> {
    let Some(leader) = leaders::renew(db, now, fence, lease)? else {
        return Ok(Fired { at: now, until: None, answers: Vec::new() });
    };
    let by = (fence.term, leader.node);
    let answers = plans.iter().map(|plan| fire_one(db, now, by, plan)).collect::<Outcome<_>>()?;
    Ok(Fired { at: now, until: Some(leader.until), answers })
}

/// What a plan is compared with.
struct Mark {
    rowid: i64,
    stamp: i64,
    enabled: bool,
    next_slot: Option<Timestamp>,
    last_slot: Option<Timestamp>,
    revision: i64,
}

fn mark(db: &Connection, schedule: ScheduleId) -> Outcome<Option<Mark>> {
    let read = |row: &Row| {
        Ok(Mark {
            rowid: row.get(0)?,
            stamp: row.get(1)?,
            enabled: row.get(2)?,
            next_slot: rows::instant_opt(row, 3)?,
            last_slot: rows::instant_opt(row, 4)?,
            revision: row.get(5)?,
        })
    };
    Ok(db.prepare_cached(sql::SCHEDULE_MARK)?.query_row([schedule.as_bytes()], read).optional()?)
}

fn fire_one(
    db: &Connection,
    now: Timestamp,
    (term, node): (i64, NodeId),
    plan: &SlotPlan,
) -> Outcome<FireAnswer> {
    let mark = mark(db, plan.schedule)?;
    let Some(mark) = mark.filter(|mark| mark.stamp == plan.stamp && mark.enabled) else {
        return Ok(FireAnswer::Stale);
    };
    let (slots, next_slot) = match plan.check(mark.next_slot, now) {
        Ok(advance) => advance,
        Err(reason) => {
            db.prepare_cached(sql::SCHEDULE_SET_ASIDE)?.execute(params![mark.rowid, reason])?;
            return Ok(FireAnswer::SetAside(reason));
        }
    };
    let last_slot = slots.last().map(|row| row.end.unwrap_or(row.slot)).or(mark.last_slot);
    db.prepare_cached(sql::SCHEDULE_ADVANCE)?.execute(params![
        mark.rowid,
        next_slot.map(Timestamp::as_micros),
        last_slot.map(Timestamp::as_micros),
        now.as_micros(),
    ])?;
    for row in slots {
        insert_slot(db, plan.schedule, &row.decided(term, node, mark.revision, now))?;
        if let Some(job) = &row.job {
            jobs::insert_fired(db, now, job, plan.schedule, row.slot)?;
        }
    }
    Ok(FireAnswer::Applied)
}

fn insert_slot(db: &Connection, schedule: ScheduleId, view: &SlotView) -> Outcome<()> {
    db.prepare_cached(sql::SLOT_INSERT)?.execute(params![
        schedule.as_bytes(),
        view.slot.as_micros(),
        view.run,
        view.end.map(Timestamp::as_micros),
        i64::try_from(view.count).unwrap_or(i64::MAX),
        view.outcome.code(),
        view.reason,
        view.job.as_ref().map(|job| job.as_bytes()),
        view.term,
        view.node.as_bytes(),
        view.revision,
        view.decided_at.as_micros(),
    ])?;
    Ok(())
}
