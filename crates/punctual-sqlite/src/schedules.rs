//! Schedules: creating, changing, removing.

use punctual_core::{ScheduleId, Timestamp};
use punctual_store::{
    Actor, AuditAction, DecidedRow, EditAnswer, NewSchedule, Realignment, Remainder, Schedule,
    ScheduleChange, limits, rules,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Outcome;
use crate::{fire, lists, rows, sql, upkeep};

pub(crate) fn create(db: &Connection, now: Timestamp, new: &NewSchedule) -> Outcome<Schedule> {
    if let Some(schedule) = find(db, new.id)? {
        return Ok(schedule);
    }
    if let Some(taken) = named(db, &new.tenant, &new.name)? {
        return Err(rules::name_taken(&taken.name).into());
    }
    let schedule = new.at_creation(now);
    let pause = schedule.pause.as_ref();
    db.prepare_cached(sql::SCHEDULE_INSERT)?.execute(params![
        schedule.id.as_bytes(),
        schedule.tenant,
        schedule.name,
        schedule.owner,
        schedule.shard,
        schedule.revision,
        schedule.stamp,
        schedule.enabled,
        pause.map(|pause| &pause.by.who),
        pause.map(|pause| &pause.by.why),
        pause.map(|pause| pause.since.as_micros()),
        pause.and_then(|pause| pause.until).map(Timestamp::as_micros),
        schedule.set_aside,
        schedule.next_slot.map(Timestamp::as_micros),
        schedule.last_slot.map(Timestamp::as_micros),
        schedule.created_at.as_micros(),
        schedule.changed_at.as_micros(),
        schedule.spec.as_str(),
        schedule.set,
    ])?;
    revise(db, now, &schedule, &new.actor)?;
    upkeep::note(db, now, &new.actor, &AuditAction::CreateSchedule, &new.name)?;
    Ok(schedule)
}

/// Keeps a definition.
fn revise(db: &Connection, now: Timestamp, schedule: &Schedule, actor: &Actor) -> Outcome<()> {
    let superseded = params![schedule.id.as_bytes(), now.as_micros()];
    db.prepare_cached(sql::REVISION_SUPERSEDE)?.execute(superseded)?;
    db.prepare_cached(sql::REVISION_INSERT)?.execute(params![
        schedule.id.as_bytes(),
        schedule.revision,
        schedule.spec.as_str(),
        actor.who,
        actor.why,
        now.as_micros(),
    ])?;
    Ok(())
}

pub(crate) fn change(
    db: &Connection,
    now: Timestamp,
    id: ScheduleId,
    stamp: i64,
    change: &ScheduleChange,
    actor: &Actor,
) -> Outcome<EditAnswer> {
    let Some(mut schedule) = find(db, id)? else { return Ok(EditAnswer::NotFound) };
    if schedule.stamp != stamp {
        return Ok(EditAnswer::Stale(schedule));
    }
    let Some(passed) = schedule.change(change, actor, now)? else {
        return Ok(EditAnswer::Stale(schedule));
    };
    for view in &passed {
        fire::insert_slot(db, id, view)?;
    }
    if let ScheduleChange::Realign(realignment) = change {
        realign(db, &mut schedule, realignment)?;
    }
    let is_defined = matches!(change, ScheduleChange::Define { .. });
    let (pause, held) = (schedule.pause.as_ref(), schedule.held.as_ref());
    db.prepare_cached(sql::SCHEDULE_UPDATE)?.execute(params![
        schedule.id.as_bytes(),
        is_defined.then_some(&schedule.owner),
        schedule.revision,
        schedule.stamp,
        schedule.enabled,
        pause.map(|pause| &pause.by.who),
        pause.map(|pause| &pause.by.why),
        pause.map(|pause| pause.since.as_micros()),
        pause.and_then(|pause| pause.until).map(Timestamp::as_micros),
        schedule.set_aside,
        schedule.next_slot.map(Timestamp::as_micros),
        schedule.last_slot.map(Timestamp::as_micros),
        schedule.changed_at.as_micros(),
        is_defined.then_some(schedule.spec.as_str()),
        held.map(|held| &held.queue),
        held.map(|held| held.since.as_micros()),
        held.map(|held| held.until.as_micros()),
    ])?;
    if is_defined {
        revise(db, now, &schedule, actor)?;
    }
    upkeep::note(db, now, actor, &change.action(), &schedule.name)?;
    Ok(EditAnswer::Done(schedule))
}

/// Discards decisions about slots after an instant.
fn realign(db: &Connection, schedule: &mut Schedule, realignment: &Realignment) -> Outcome<()> {
    let (id, after) = (schedule.id, realignment.after);
    // Before anything is written: a request that fails then does not harm the others of its batch.
    let last = last_decided(db, id, after)?;
    realignment.check(last.as_ref())?;
    let discard = params![id.as_bytes(), after.as_micros(), rows::rows(limits::REALIGN_ROWS_MAX)];
    let discarded: Vec<Timestamp> =
        lists::all(db, sql::SLOT_DISCARD, discard, |row| rows::instant(row, 0))?;
    let mut newest = None;
    if let Some(until) = schedule.last_slot.filter(|_| realignment.may_be_partial(discarded.len()))
    {
        newest = last_decided(db, id, until)?.filter(|row| row.slot > after);
    }
    let left = newest.zip(discarded.into_iter().min());
    let left = left.map(|(newest, discarded)| Remainder { newest, discarded });
    if let Some(cut) = realignment.apply(schedule, last.as_ref(), left) {
        db.prepare_cached(sql::SLOT_CUT)?.execute(params![
            id.as_bytes(),
            cut.slot.as_micros(),
            cut.end.map(Timestamp::as_micros),
            i64::try_from(cut.count).unwrap_or(i64::MAX),
        ])?;
    }
    Ok(())
}

/// The last decision of a schedule at its watermark about a slot not later than an instant.
fn last_decided(db: &Connection, id: ScheduleId, until: Timestamp) -> Outcome<Option<DecidedRow>> {
    let read = |row: &Row| {
        let (slot, end) = (rows::instant(row, 0)?, rows::instant_opt(row, 1)?);
        Ok(DecidedRow { slot, end, count: row.get(2)? })
    };
    let mut statement = db.prepare_cached(sql::SLOT_LAST)?;
    Ok(statement.query_row(params![id.as_bytes(), until.as_micros()], read).optional()?)
}

/// Another name, another set.
pub(crate) fn place(
    db: &Connection,
    now: Timestamp,
    schedule: &mut Schedule,
    name: &str,
    set: &str,
    actor: &Actor,
) -> Outcome<()> {
    let actions = rules::placed(schedule, name, set);
    schedule.place(name, set, now);
    db.prepare_cached(sql::SCHEDULE_PLACE)?.execute(params![
        schedule.id.as_bytes(),
        schedule.name,
        schedule.set,
        schedule.stamp,
        schedule.changed_at.as_micros(),
    ])?;
    for action in actions {
        upkeep::note(db, now, actor, &action, name)?;
    }
    Ok(())
}

pub(crate) fn delete(
    db: &Connection,
    now: Timestamp,
    id: ScheduleId,
    stamp: i64,
    actor: &Actor,
) -> Outcome<EditAnswer> {
    let Some(schedule) = find(db, id)? else { return Ok(EditAnswer::NotFound) };
    if schedule.stamp != stamp {
        return Ok(EditAnswer::Stale(schedule));
    }
    for statement in [sql::SCHEDULE_DELETE, sql::REVISION_DELETE] {
        db.prepare_cached(statement)?.execute([id.as_bytes()])?;
    }
    upkeep::note(db, now, actor, &AuditAction::DeleteSchedule, &schedule.name)?;
    Ok(EditAnswer::Done(schedule))
}

/// One schedule.
pub(crate) fn find(db: &Connection, id: ScheduleId) -> Outcome<Option<Schedule>> {
    let mut statement = db.prepare_cached(sql::SCHEDULE)?;
    Ok(statement.query_row([id.as_bytes()], rows::schedule).optional()?)
}

/// One schedule by its name.
pub(crate) fn named(db: &Connection, tenant: &str, name: &str) -> Outcome<Option<Schedule>> {
    let mut statement = db.prepare_cached(sql::SCHEDULE_NAMED)?;
    Ok(statement.query_row([tenant, name], rows::schedule).optional()?)
}
