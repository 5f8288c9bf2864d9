//! Schedules: creating, changing, removing.

use punctual_core::{ScheduleId, Timestamp};
use punctual_store::{
    Actor, At, AuditAction, DecidedRow, EditAnswer, ErrorKind, NewSchedule, Realignment, Remainder,
    Schedule, ScheduleChange, SlotView, StoreError, limits, rules,
};

use crate::connection::{Bound, Conn};
use crate::error::Outcome;
use crate::rows::{self, Instant};
use crate::{fire, jobs, lists, sql, upkeep};

pub(crate) async fn create(conn: &mut Conn, at: At, new: &NewSchedule) -> Outcome<Schedule> {
    let now = jobs::begin(conn, at).await?;
    if let Some(schedule) = create_within(conn, now, new).await? {
        conn.commit().await?;
        return Ok(schedule);
    }
    let named = named(conn, &new.tenant, &new.name).await?;
    conn.rollback().await?;
    match named {
        Some(taken) => Err(rules::name_taken(&taken.name).into()),
        // It was deleted in between.
        None => {
            let message = format!("schedule `{}` is being deleted; try again", new.name);
            Err(StoreError::new(ErrorKind::Retry, message).into())
        }
    }
}

/// Creates a schedule inside a transaction, or finds the one that is there already under this id;
/// none if the name is another's.
pub(crate) async fn create_within(
    conn: &mut Conn,
    now: Timestamp,
    new: &NewSchedule,
) -> Outcome<Option<Schedule>> {
    let schedule = new.at_creation(now);
    let created = conn
        .query(
            &sql::SCHEDULE_INSERT,
            &[
                &schedule.id.as_uuid(),
                &schedule.tenant,
                &schedule.name,
                &schedule.owner,
                &schedule.shard,
                &schedule.revision,
                &schedule.stamp,
                &schedule.enabled,
                &schedule.next_slot.map(Instant),
                &Instant(now),
                &schedule.spec.as_str(),
                &schedule.set,
            ],
        )
        .await?;
    if created.is_empty() {
        return find(conn, new.id).await;
    }
    revise(conn, now, &schedule, &new.actor).await?;
    upkeep::note(conn, now, &new.actor, &AuditAction::CreateSchedule, &new.name).await?;
    Ok(Some(schedule))
}

/// Keeps a definition.
async fn revise(
    conn: &mut Conn,
    now: Timestamp,
    schedule: &Schedule,
    actor: &Actor,
) -> Outcome<()> {
    conn.query(
        &sql::REVISION_INSERT,
        &[
            &schedule.id.as_uuid(),
            &schedule.revision,
            &schedule.spec.as_str(),
            &rows::text(&actor.who),
            &rows::text(&actor.why),
            &Instant(now),
        ],
    )
    .await?;
    Ok(())
}

/// A schedule, locked for a change.
pub(crate) async fn lock(conn: &mut Conn, id: ScheduleId) -> Outcome<Option<Schedule>> {
    let found = conn.query(&sql::SCHEDULE_LOCK, &[&id.as_uuid()]).await?;
    found.first().map(rows::schedule).transpose()
}

pub(crate) async fn change(
    conn: &mut Conn,
    at: At,
    id: ScheduleId,
    stamp: i64,
    change: &ScheduleChange,
    actor: &Actor,
) -> Outcome<EditAnswer> {
    let now = jobs::begin(conn, at).await?;
    let schedule = match lock(conn, id).await? {
        Some(schedule) if schedule.stamp == stamp => schedule,
        other => {
            conn.rollback().await?;
            return Ok(other.map_or(EditAnswer::NotFound, EditAnswer::Stale));
        }
    };
    let Some(changed) = change_within(conn, now, &schedule, change, actor).await? else {
        conn.rollback().await?;
        return Ok(EditAnswer::Stale(schedule));
    };
    conn.commit().await?;
    Ok(EditAnswer::Done(changed))
}

/// Changes a schedule that is locked inside a transaction. Returns none, and writes nothing, if the
/// change is stale.
pub(crate) async fn change_within(
    conn: &mut Conn,
    now: Timestamp,
    schedule: &Schedule,
    change: &ScheduleChange,
    actor: &Actor,
) -> Outcome<Option<Schedule>> {
    let mut schedule = schedule.clone();
    let Some(passed) = schedule.change(change, actor, now)? else { return Ok(None) };
    let passed: Vec<(ScheduleId, SlotView)> =
        passed.into_iter().map(|view| (schedule.id, view)).collect();
    fire::insert_slots(conn, &passed).await?;
    if let ScheduleChange::Realign(realignment) = change {
        realign(conn, &mut schedule, realignment).await?;
    }
    // One that cannot be read is worth keeping for whoever mends it.
    let spec = match change {
        ScheduleChange::Define { spec, .. } => Some(spec.as_str()),
        _ => None,
    };
    let (pause, held) = (schedule.pause.as_ref(), schedule.held.as_ref());
    conn.query(
        &sql::SCHEDULE_UPDATE,
        &[
            &schedule.id.as_uuid(),
            &schedule.owner,
            &schedule.revision,
            &schedule.stamp,
            &schedule.enabled,
            &pause.map(|pause| rows::text(&pause.by.who)),
            &pause.map(|pause| rows::text(&pause.by.why)),
            &pause.map(|pause| Instant(pause.since)),
            &pause.and_then(|pause| pause.until).map(Instant),
            &schedule.set_aside,
            &schedule.next_slot.map(Instant),
            &schedule.last_slot.map(Instant),
            &Instant(schedule.changed_at),
            &spec,
            &held.map(|held| held.queue.as_str()),
            &held.map(|held| Instant(held.since)),
            &held.map(|held| Instant(held.until)),
        ],
    )
    .await?;
    if matches!(change, ScheduleChange::Define { .. }) {
        revise(conn, now, &schedule, actor).await?;
    }
    upkeep::note(conn, now, actor, &change.action(), &schedule.name).await?;
    Ok(Some(schedule))
}

/// Discards decisions about slots after an instant.
async fn realign(
    conn: &mut Conn,
    schedule: &mut Schedule,
    realignment: &Realignment,
) -> Outcome<()> {
    let (id, after) = (schedule.id, realignment.after);
    let last = last_decided(conn, id, after).await?;
    realignment.check(last.as_ref())?;
    let discard: Bound<'_> =
        &[&id.as_uuid(), &Instant(after), &rows::count(limits::REALIGN_ROWS_MAX)];
    let discarded: Vec<Timestamp> =
        lists::all(conn, &sql::SLOT_DISCARD, discard, |row| rows::instant(row, 0)).await?;
    let mut newest = None;
    if let Some(until) = schedule.last_slot.filter(|_| realignment.may_be_partial(discarded.len()))
    {
        newest = last_decided(conn, id, until).await?.filter(|row| row.slot > after);
    }
    let left = newest.zip(discarded.into_iter().min());
    let left = left.map(|(newest, discarded)| Remainder { newest, discarded });
    if let Some(cut) = realignment.apply(schedule, last.as_ref(), left) {
        let count = i64::try_from(cut.count).unwrap_or(i64::MAX);
        let row: Bound<'_> = &[&id.as_uuid(), &Instant(cut.slot), &cut.end.map(Instant), &count];
        conn.query(&sql::SLOT_CUT, row).await?;
    }
    Ok(())
}

/// The last decision of a schedule at its watermark about a slot not later than an instant.
async fn last_decided(
    conn: &mut Conn,
    id: ScheduleId,
    until: Timestamp,
) -> Outcome<Option<DecidedRow>> {
    let found = conn.query(&sql::SLOT_LAST, &[&id.as_uuid(), &Instant(until)]).await?;
    let Some(row) = found.first() else { return Ok(None) };
    let (slot, end) = (rows::instant(row, 0)?, rows::instant_opt(row, 1)?);
    Ok(Some(DecidedRow { slot, end, count: rows::natural(row, 2)? }))
}

pub(crate) async fn delete(
    conn: &mut Conn,
    at: At,
    id: ScheduleId,
    stamp: i64,
    actor: &Actor,
) -> Outcome<EditAnswer> {
    let now = jobs::begin(conn, at).await?;
    let schedule = match lock(conn, id).await? {
        Some(schedule) if schedule.stamp == stamp => schedule,
        other => {
            conn.rollback().await?;
            return Ok(other.map_or(EditAnswer::NotFound, EditAnswer::Stale));
        }
    };
    delete_within(conn, now, &schedule, actor).await?;
    conn.commit().await?;
    Ok(EditAnswer::Done(schedule))
}

/// Removes a schedule that is locked inside a transaction.
pub(crate) async fn delete_within(
    conn: &mut Conn,
    now: Timestamp,
    schedule: &Schedule,
    actor: &Actor,
) -> Outcome<()> {
    conn.query(&sql::SCHEDULE_DELETE, &[&schedule.id.as_uuid()]).await?;
    upkeep::note(conn, now, actor, &AuditAction::DeleteSchedule, &schedule.name).await
}

/// Gives a schedule that is locked inside a transaction another name or set.
pub(crate) async fn place_within(
    conn: &mut Conn,
    now: Timestamp,
    schedule: &mut Schedule,
    name: &str,
    set: &str,
    actor: &Actor,
) -> Outcome<()> {
    let actions = rules::placed(schedule, name, set);
    schedule.place(name, set, now);
    conn.query(
        &sql::SCHEDULE_PLACE,
        &[
            &schedule.id.as_uuid(),
            &schedule.name,
            &schedule.set,
            &schedule.stamp,
            &Instant(schedule.changed_at),
        ],
    )
    .await?;
    for action in actions {
        upkeep::note(conn, now, actor, &action, name).await?;
    }
    Ok(())
}

/// One schedule.
pub(crate) async fn find(conn: &mut Conn, id: ScheduleId) -> Outcome<Option<Schedule>> {
    let found = conn.query(&sql::SCHEDULE, &[&id.as_uuid()]).await?;
    found.first().map(rows::schedule).transpose()
}

/// One schedule by its name.
pub(crate) async fn named(conn: &mut Conn, tenant: &str, name: &str) -> Outcome<Option<Schedule>> {
    let found = conn.query(&sql::SCHEDULE_NAMED, &[&tenant, &name]).await?;
    found.first().map(rows::schedule).transpose()
}
