//! Sets of schedules.

use std::collections::BTreeMap;

use punctual_core::{ScheduleId, Timestamp};
use punctual_store::{At, Registered, Registration, Schedule, SetEntry};

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
    let seen = ask.entries.iter().filter_map(SetEntry::seen);
    let mut ids: Vec<ScheduleId> = seen.map(|(id, _)| id).collect();
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
        SetEntry::Change { id, stamp, .. }
        | SetEntry::Bring { id, stamp, .. }
        | SetEntry::Remove { id, stamp, .. } => {
            let Some(mut schedule) = locked.get(id).cloned() else { return Ok(false) };
            entry.check_owner(&schedule, &ask.set)?;
            if schedule.stamp != *stamp {
                return Ok(false);
            }
            if !entry.carry_out(&mut schedule, &ask.set, &ask.actor, now)? {
                return Ok(false);
            }
            // Nobody else may have the name.
            let named = schedules::named(conn, &schedule.tenant, &schedule.name).await?;
            Ok(named.is_none_or(|named| named.id == *id))
        }
    }
}

/// Writes one schedule; none if its name was taken meanwhile, or if its change is stale.
async fn enter(
    conn: &mut Conn,
    now: Timestamp,
    ask: &Registration,
    locked: &mut BTreeMap<ScheduleId, Schedule>,
    entry: &SetEntry,
) -> Outcome<Option<Schedule>> {
    match entry {
        SetEntry::Create(new) => schedules::create_within(conn, now, new).await,
        SetEntry::Change { id, .. } | SetEntry::Bring { id, .. } | SetEntry::Remove { id, .. } => {
            let Some(mut schedule) = locked.remove(id) else { return Ok(None) };
            if let SetEntry::Bring { name, .. } = entry {
                let place =
                    schedules::place_within(conn, now, &mut schedule, name, &ask.set, &ask.actor);
                match place.await {
                    Err(fault) if fault.is_duplicate() => return Ok(None),
                    placed => placed?,
                }
            }
            for change in entry.changes().iter() {
                let changed = schedules::change_within(conn, now, &schedule, change, &ask.actor);
                let Some(changed) = changed.await? else { return Ok(None) };
                schedule = changed;
            }
            if matches!(entry, SetEntry::Remove { .. }) {
                schedules::delete_within(conn, now, &schedule, &ask.actor).await?;
            }
            Ok(Some(schedule))
        }
    }
}

/// The generation of a set that is in force.
pub(crate) async fn generation(conn: &mut Conn, set: &str) -> Outcome<Option<i64>> {
    let found = conn.query(&sql::GENERATION, &[&set]).await?;
    found.first().map(|row| rows::get(row, 0)).transpose()
}
