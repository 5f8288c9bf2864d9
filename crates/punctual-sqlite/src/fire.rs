//! What is due, and turning slots into jobs.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_core::{JobId, NodeId, ScheduleId, Timestamp};
use punctual_store::{
    Advance, Due, Fence, FireAnswer, Fired, HeldSlots, NodeInfo, Schedule, Seated, Seats, SlotPlan,
    SlotView, limits, place, rules, skipped,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Outcome;
use crate::{jobs, leaders, lists, nodes, rows, sql};

/// What is due, and which schedules cannot be read and must be set aside.
pub(crate) fn due(
    db: &Connection,
    now: Timestamp,
    shard: i16,
    most: usize,
) -> Outcome<(Due, Vec<Schedule>)> {
    let most = most.min(limits::FIRE_MAX);
    let fresh = now - rules::FRESH;
    let between = |after: i64, until: Timestamp| -> Outcome<Vec<Schedule>> {
        let mut due = db.prepare_cached(sql::SCHEDULE_DUE)?;
        let bound = params![shard, after, until.as_micros(), rows::rows(most)];
        Ok(due.query_map(bound, rows::schedule)?.collect::<rusqlite::Result<_>>()?)
    };
    let (fresh, behind) = (between(fresh.as_micros(), now)?, between(i64::MIN, fresh)?);
    // None that was set aside before is due.
    let (unreadable, schedules) = rules::fresh_first(fresh, behind, most)
        .into_iter()
        .partition(|schedule| schedule.set_aside.is_some());
    let mut next = db.prepare_cached(sql::SCHEDULE_NEXT)?;
    let next = next.query_row(params![shard, now.as_micros()], |row| rows::instant(row, 0));
    Ok((Due { at: now, schedules, next: next.optional()? }, unreadable))
}

/// Sets schedules aside that cannot be read, unless somebody has changed them since.
pub(crate) fn set_aside(db: &Connection, unreadable: &[Schedule]) -> Outcome<()> {
    for Schedule { id, stamp, .. } in unreadable {
        let mark = mark(db, *id)?.filter(|mark| mark.stamp == *stamp);
        if let Some(Mark { rowid, stamp, .. }) = mark {
            let reason = params![rowid, rules::UNREADABLE, stamp + 1];
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
        return Ok(Fired {
            at: now,
            until: None,
            answers: Vec::new(),
            refused: 0,
            unplaced: 0,
            skipped: Vec::new(),
            woken: 0,
        });
    };
    let mut live = Vec::new();
    if plans.iter().any(SlotPlan::asks_for_nodes) {
        live = lists::all(db, sql::NODE_LIVE, params![], rows::node_info)?;
    }
    let firing = Firing { now, term: fence.term, node: leader.node, live };
    let until = Some(leader.until);
    let mut fired = Fired {
        at: now,
        until,
        answers: Vec::new(),
        refused: 0,
        unplaced: 0,
        skipped: Vec::new(),
        woken: 0,
    };
    let mut freed = BTreeSet::new();
    for plan in plans {
        let answer = firing.fire(db, plan, &mut fired, &mut freed)?;
        fired.answers.push(answer);
    }
    if !freed.is_empty() {
        fired.woken = nodes::wake_held(db, now, freed.iter().map(String::as_str))?;
    }
    Ok(fired)
}

/// A fire that is under way.
struct Firing {
    now: Timestamp,
    term: i64,
    node: NodeId,
    /// The nodes that are alive, if any plan depends on them.
    live: Vec<NodeInfo>,
}

/// What a plan is compared with.
struct Mark {
    rowid: i64,
    stamp: i64,
    enabled: bool,
    next_slot: Option<Timestamp>,
    last_slot: Option<Timestamp>,
    revision: i64,
    held: Option<HeldSlots>,
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
            held: rows::held(row, 6)?,
        })
    };
    Ok(db.prepare_cached(sql::SCHEDULE_MARK)?.query_row([schedule.as_bytes()], read).optional()?)
}

impl Firing {
    fn fire(
        &self,
        db: &Connection,
        plan: &SlotPlan,
        fired: &mut Fired,
        freed: &mut BTreeSet<String>,
    ) -> Outcome<FireAnswer> {
        let Firing { now, term, node, .. } = *self;
        let mark = mark(db, plan.schedule)?;
        let is_current =
            |mark: &Mark| mark.stamp == plan.stamp && mark.enabled && !plan.is_early(now);
        let Some(mark) = mark.filter(is_current) else {
            return Ok(FireAnswer::Stale);
        };
        let stamp = rules::next_stamp(mark.stamp, now);
        let checked = plan.check(mark.next_slot, mark.held.as_ref(), &self.live, now);
        let advance = match checked {
            Ok(advance) => advance,
            Err(reason) => {
                db.prepare_cached(sql::SCHEDULE_SET_ASIDE)?
                    .execute(params![mark.rowid, reason, stamp])?;
                return Ok(FireAnswer::SetAside(reason));
            }
        };
        freed.extend(advance.freed_queue(mark.held.as_ref()).map(str::to_owned));
        let held = advance.held.as_ref();
        db.prepare_cached(sql::SCHEDULE_ADVANCE)?.execute(params![
            mark.rowid,
            advance.next_slot.map(Timestamp::as_micros),
            advance.last_slot().or(mark.last_slot).map(Timestamp::as_micros),
            advance.decided_to(now).as_micros(),
            stamp,
            held.map(|held| &held.queue),
            held.map(|held| held.since.as_micros()),
            held.map(|held| held.until.as_micros()),
        ])?;
        let mut seats = seats(db, now, &advance)?;
        for placed in place(&advance, &self.live) {
            let row = &placed.row;
            let seated = seats.take(row);
            fired.refused += usize::from(matches!(seated, Seated::Refused(_)));
            fired.unplaced += usize::from(placed.is_unplaced);
            let view = placed.decided(&seated, term, node, mark.revision, now);
            skipped::add(&mut fired.skipped, plan.schedule, &view);
            insert_slot(db, plan.schedule, &view)?;
            if let Some(job) = row.job.as_ref().filter(|_| view.job.is_some()) {
                jobs::insert_fired(db, now, job, (plan.schedule, row.slot), &seated)?;
            }
        }
        Ok(advance.answer())
    }
}

/// Who is in the way of a plan's jobs; those that it calls off are called off here.
fn seats(db: &Connection, now: Timestamp, plan: &Advance<'_>) -> Outcome<Seats> {
    let mut live = Vec::new();
    if plan.asks_for_unfinished() {
        live = unfinished(db, plan.schedule)?;
    }
    if let Some(actor) = plan.calls_off() {
        for (job, _) in live.clone().into_iter().take(limits::FIRE_CANCEL_MAX) {
            if Seats::are_free_of(jobs::cancel(db, now, job, &actor)?) {
                live.retain(|(other, _)| *other != job);
            }
        }
    }
    if plan.is_for_every_node() {
        return seats_of_nodes(db, plan, &live);
    }
    let waiting = live.iter().filter(|(_, is_waiting)| *is_waiting).count();
    Ok(Seats::new(plan, live.into_iter().map(|(job, _)| job).collect(), waiting))
}

/// Each node's own jobs are in the way of no other's.
fn seats_of_nodes(db: &Connection, plan: &Advance<'_>, live: &[(JobId, bool)]) -> Outcome<Seats> {
    let mut queue = db.prepare_cached(sql::JOB_QUEUE)?;
    let mut unfinished = Vec::new();
    for (job, _) in live {
        let found = queue.query_row([job.as_bytes()], |row| Ok(rows::text(row, 0))).optional()?;
        unfinished.extend(found.map(|queue| (*job, queue)));
    }
    Ok(Seats::of_nodes(plan, unfinished))
}

/// The unfinished jobs of a schedule, oldest first, and whether each waits for others.
fn unfinished(db: &Connection, schedule: ScheduleId) -> Outcome<Vec<(JobId, bool)>> {
    let asked = params![schedule.as_bytes(), rows::rows(limits::LIVE_MAX)];
    lists::all(db, sql::LIVE, asked, |row| Ok((rows::job_id(row, 0)?, row.get(1)?)))
}

pub(crate) fn insert_slot(db: &Connection, schedule: ScheduleId, view: &SlotView) -> Outcome<()> {
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
