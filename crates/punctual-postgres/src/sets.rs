//! Sets of schedules.

use std::collections::BTreeMap;

use punctual_core::{ScheduleId, Timestamp};
use punctual_store::{At, Registered, Registration, Schedule, SetEntry, rules};

use crate::connection::Conn;
use crate::error::Outcome;
use crate::{jobs, rows, schedules, sql};

pub(crate) async fn register(conn: &mut Conn, at: At, ask: &Registration) -> Outcome<Registered> {
    let now = jobs::begin(conn, at).await?;
    let raised = conn.query_one(&sql::GENERATION_RAISE, &[&ask.set, &ask.generation]).await?;
    let in_force: i64 = rows::get(&raised, 0)?;
    if in_force > ask.generation {
        conn.rollback().await?;
        return Ok(Registered::Superseded(in_force));
    }
    let mut locked = lock(conn, ask).await?;
    // First a look at all of it: a number of the audit that was drawn is not given back.
    for entry in &ask.entries {
        if !is_fresh(conn, now, ask, &locked, entry).await? {
            conn.rollback().await?;
            return Ok(Registered::Stale);
        }
    }
    let mut written = Vec::with_capacity(ask.entries.len());
    for entry in &ask.entries {
        let Some(schedule) = enter(conn, now, ask, &mut locked, entry).await? else {
            conn.rollback().await?;
            return Ok(Registered::Stale);
        };
        written.push(schedule);
    }
    conn.commit().await?;
    Ok(Registered::Done(written))
}

/// The schedules that are to be changed, locked in the order of their ids, as a fire does it.
async fn lock(conn: &mut Conn, ask: &Registration) -> Outcome<BTreeMap<ScheduleId, Schedule>> {
    let changed = ask.entries.iter().filter_map(|entry| match entry {
        SetEntry::Change { id, .. } => Some(*id),
        SetEntry::Create(_) => None,
    });
    let mut ids: Vec<ScheduleId> = changed.collect();
    ids.sort_unstable();
    let mut locked = BTreeMap::new();
    for id in ids {
        locked.extend(schedules::lock(conn, id).await?.map(|schedule| (id, schedule)));
    }
    Ok(locked)
}

/// Is a schedule as the caller saw it, and may be written so?
async fn is_fresh(
    conn: &mut Conn,
    now: Timestamp,
    ask: &Registration,
    locked: &BTreeMap<ScheduleId, Schedule>,
    entry: &SetEntry,
) -> Outcome<bool> {
    match entry {
        SetEntry::Create(new) => match schedules::named(conn, &new.tenant, &new.name).await? {
            Some(other) if other.id != new.id => Ok(schedules::find(conn, new.id).await?.is_some()),
            _ => Ok(true),
        },
        SetEntry::Change { id, stamp, change } => {
            let Some(mut schedule) = locked.get(id).cloned() else { return Ok(false) };
            if schedule.set != ask.set {
                return Err(rules::not_of_set(&schedule.name, &ask.set).into());
            }
            if schedule.stamp != *stamp {
                return Ok(false);
            }
            schedule.change(change, &ask.actor, now)?;
            Ok(true)
        }
    }
}

/// Writes one schedule; none if somebody has taken its name since.
async fn enter(
    conn: &mut Conn,
    now: Timestamp,
    ask: &Registration,
    locked: &mut BTreeMap<ScheduleId, Schedule>,
    entry: &SetEntry,
) -> Outcome<Option<Schedule>> {
    match entry {
        SetEntry::Create(new) => schedules::create_within(conn, now, new).await,
        SetEntry::Change { id, change, .. } => {
            let Some(schedule) = locked.remove(id) else { return Ok(None) };
            schedules::change_within(conn, now, schedule, change, &ask.actor).await.map(Some)
        }
    }
}

/// The generation of a set that is in force.
pub(crate) async fn generation(conn: &mut Conn, set: &str) -> Outcome<Option<i64>> {
    let found = conn.query(&sql::GENERATION, &[&set]).await?;
    found.first().map(|row| rows::get(row, 0)).transpose()
}
