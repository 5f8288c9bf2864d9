//! What is due, and turning slots into jobs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use punctual_core::{JobId, NodeId, ScheduleId, Timestamp};
use punctual_store::{
    At, Due, DueSchedule, Fence, FireAnswer, Fired, NewJob, Schedule, SlotPlan, SlotView, limits,
    rules,
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::bodies::Bodies;
use crate::connection::Conn;
use crate::error::Outcome;
use crate::leaders;
use crate::rows::{self, Instant, Read};
use crate::sql;

/// What is due, and which schedules cannot be read and must be set aside.
pub(crate) async fn due(
    conn: &mut Conn,
    at: At,
    shard: i16,
    most: usize,
) -> Outcome<(Due, Vec<Schedule>)> {
    let most = rows::count(most.min(limits::FIRE_MAX));
    let live = rows::count(limits::LIVE_COUNT_MAX);
    let found = conn.query(&sql::SCHEDULE_DUE, &[&rows::at(at), &shard, &most, &live]).await?;
    let mut due = Due { at: Timestamp::EPOCH, schedules: Vec::new() };
    let mut unreadable = Vec::new();
    for row in &found {
        due.at = rows::instant(row, 18)?;
        if rows::get::<Option<Uuid>>(row, 0)?.is_some() {
            let schedule = rows::schedule(row)?;
            // None that was set aside before is due.
            if schedule.set_aside.is_some() {
                unreadable.push(schedule);
                continue;
            }
            let live = rows::get::<Option<Vec<Uuid>>>(row, 19)?.unwrap_or_default();
            let live_count = live.len();
            let live = live.into_iter().take(limits::LIVE_MAX);
            let live = live.map(|job| JobId::from_bytes(job.into_bytes())).collect();
            due.schedules.push(DueSchedule { schedule, live, live_count });
        }
    }
    due.schedules.sort_by_key(|due| (due.schedule.next_slot, due.schedule.id));
    Ok((due, unreadable))
}

/// Sets schedules aside that cannot be read, unless somebody has changed them since.
pub(crate) async fn set_aside(conn: &mut Conn, unreadable: &[Schedule]) -> Outcome<()> {
    let ids: Vec<Uuid> = unreadable.iter().map(|schedule| schedule.id.as_uuid()).collect();
    let locked = conn.begin_with(&sql::SCHEDULE_MARK, &[&ids]).await?;
    let mut same = Vec::new();
    for row in &locked {
        let (id, mark) = read_mark(row)?;
        if unreadable.iter().any(|schedule| schedule.id == id && schedule.stamp == mark.stamp) {
            same.push((id.as_uuid(), mark.stamp + 1));
        }
    }
    let (ids, stamps): (Vec<Uuid>, Vec<i64>) = same.into_iter().unzip();
    let reasons = vec![rules::UNREADABLE; ids.len()];
    conn.commit_with(&sql::SCHEDULE_SET_ASIDE, &[&ids, &stamps, &reasons]).await?;
    Ok(())
}

/// What a plan is compared with.
#[derive(Clone)]
struct Mark {
    stamp: i64,
    enabled: bool,
    next_slot: Option<Timestamp>,
    last_slot: Option<Timestamp>,
    revision: i64,
}

fn read_mark(row: &Row) -> Read<(ScheduleId, Mark)> {
    let mark = Mark {
        stamp: rows::get(row, 1)?,
        enabled: rows::get(row, 2)?,
        next_slot: rows::instant_opt(row, 3)?,
        last_slot: rows::instant_opt(row, 4)?,
        revision: rows::get(row, 5)?,
    };
    Ok((rows::schedule_id(row, 0)?, mark))
}

/// All that plans write, gathered so that each table is written once.
#[derive(Default)]
struct Writes<'a> {
    advanced: HashSet<ScheduleId>,
    set_aside: BTreeMap<ScheduleId, String>,
    slots: Vec<(ScheduleId, SlotView)>,
    bodies: Bodies<'a>,
    jobs: Vec<&'a NewJob>,
    ids: HashSet<JobId>,
}

/// Fires; also tells which jobs were made.
pub(crate) async fn fire<'a>(
    conn: &mut Conn,
    at: At,
    fence: &Fence,
    lease: Duration,
    plans: &'a [SlotPlan],
) -> Outcome<(Fired, Vec<&'a NewJob>)> {
    let (now, renewed) = leaders::begin_renewed(conn, at, fence, lease).await?;
    let Some(leader) = renewed else {
        conn.rollback().await?;
        return Ok((Fired { at: now, until: None, answers: Vec::new() }, Vec::new()));
    };
    let ids: Vec<Uuid> = plans.iter().map(|plan| plan.schedule.as_uuid()).collect();
    let mut marks: HashMap<ScheduleId, Mark> = HashMap::new();
    for row in &conn.query(&sql::SCHEDULE_MARK, &[&ids]).await? {
        let (id, mark) = read_mark(row)?;
        marks.insert(id, mark);
    }
    let mut writes = Writes::default();
    let by = (fence.term, leader.node);
    let mut answers = Vec::with_capacity(plans.len());
    for plan in plans {
        answers.push(decide(now, by, plan, &mut marks, &mut writes));
    }
    write(conn, now, by, &marks, &writes).await?;
    Ok((Fired { at: now, until: Some(leader.until), answers }, writes.jobs))
}

/// What becomes of one plan.
fn decide<'a>(
    now: Timestamp,
    (term, node): (i64, NodeId),
    plan: &'a SlotPlan,
    marks: &mut HashMap<ScheduleId, Mark>,
    writes: &mut Writes<'a>,
) -> FireAnswer {
    let current = marks.get_mut(&plan.schedule);
    let Some(mark) = current.filter(|mark| mark.stamp == plan.stamp && mark.enabled) else {
        return FireAnswer::Stale;
    };
    mark.stamp += 1;
    let (slots, next_slot) = match plan.check(mark.next_slot, now) {
        Ok(advance) => advance,
        Err(reason) => {
            writes.set_aside.insert(plan.schedule, reason.clone());
            return FireAnswer::SetAside(reason);
        }
    };
    mark.next_slot = next_slot;
    mark.last_slot = slots.last().map(|row| row.end.unwrap_or(row.slot)).or(mark.last_slot);
    writes.advanced.insert(plan.schedule);
    for row in slots {
        writes.slots.push((plan.schedule, row.decided(term, node, mark.revision, now)));
        if let Some(job) = row.job.as_ref().filter(|job| writes.ids.insert(job.id)) {
            writes.bodies.push(job, Some((plan.schedule, row.slot)));
            writes.jobs.push(job);
        }
    }
    FireAnswer::Applied
}

async fn write(
    conn: &mut Conn,
    now: Timestamp,
    (term, node): (i64, NodeId),
    marks: &HashMap<ScheduleId, Mark>,
    writes: &Writes<'_>,
) -> Outcome<()> {
    let advanced: Vec<(&ScheduleId, &Mark)> =
        marks.iter().filter(|(id, _)| writes.advanced.contains(*id)).collect();
    if !advanced.is_empty() {
        let ids: Vec<Uuid> = advanced.iter().map(|(id, _)| id.as_uuid()).collect();
        let stamps: Vec<i64> = advanced.iter().map(|(_, mark)| mark.stamp).collect();
        let next: Vec<Option<Instant>> =
            advanced.iter().map(|(_, mark)| mark.next_slot.map(Instant)).collect();
        let last: Vec<Option<Instant>> =
            advanced.iter().map(|(_, mark)| mark.last_slot.map(Instant)).collect();
        conn.query(&sql::SCHEDULE_ADVANCE, &[&ids, &stamps, &next, &last, &Instant(now)]).await?;
    }
    if !writes.set_aside.is_empty() {
        let stamp = |id: &ScheduleId| marks.get(id).map_or(0, |mark| mark.stamp);
        let ids: Vec<Uuid> = writes.set_aside.keys().map(ScheduleId::as_uuid).collect();
        let stamps: Vec<i64> = writes.set_aside.keys().map(stamp).collect();
        let reasons: Vec<_> = writes.set_aside.values().map(|reason| rows::text(reason)).collect();
        conn.query(&sql::SCHEDULE_SET_ASIDE, &[&ids, &stamps, &reasons]).await?;
    }
    insert_slots(conn, now, (term, node), &writes.slots).await?;
    if writes.bodies.is_empty() {
        return conn.commit().await;
    }
    writes.bodies.commit(conn, now).await
}

async fn insert_slots(
    conn: &mut Conn,
    now: Timestamp,
    (term, node): (i64, NodeId),
    slots: &[(ScheduleId, SlotView)],
) -> Outcome<()> {
    if slots.is_empty() {
        return Ok(());
    }
    let views = || slots.iter().map(|(_, view)| view);
    let schedules: Vec<Uuid> = slots.iter().map(|(schedule, _)| schedule.as_uuid()).collect();
    let starts: Vec<Instant> = views().map(|view| Instant(view.slot)).collect();
    let ends: Vec<Option<Instant>> = views().map(|view| view.end.map(Instant)).collect();
    let counts: Vec<i64> =
        views().map(|view| i64::try_from(view.count).unwrap_or(i64::MAX)).collect();
    let outcomes: Vec<i16> = views().map(|view| view.outcome.code()).collect();
    let reasons: Vec<_> = views().map(|view| view.reason.as_deref().map(rows::text)).collect();
    let jobs: Vec<Option<Uuid>> = views().map(|view| view.job.map(|job| job.as_uuid())).collect();
    let revisions: Vec<i64> = views().map(|view| view.revision).collect();
    conn.query(
        &sql::SLOT_INSERT,
        &[
            &schedules,
            &starts,
            &ends,
            &counts,
            &outcomes,
            &reasons,
            &jobs,
            &revisions,
            &term,
            &node.as_uuid(),
            &Instant(now),
        ],
    )
    .await?;
    Ok(())
}
