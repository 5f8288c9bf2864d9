//! Sets of schedules.

use punctual_core::Timestamp;
use punctual_store::{EditAnswer, Registered, Registration, Schedule, SetEntry};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Outcome;
use crate::{schedules, sql};

/// Looks at everything first: a request that has written must go through, or others that are in the
/// same transaction would have to be done again.
pub(crate) fn register(db: &Connection, now: Timestamp, ask: &Registration) -> Outcome<Registered> {
    if let Some(kept) = generation(db, &ask.set)?.filter(|kept| *kept > ask.generation) {
        return Ok(Registered::Superseded(kept));
    }
    for entry in &ask.entries {
        if !is_fresh(db, now, ask, entry)? {
            return Ok(Registered::Stale);
        }
    }
    db.prepare_cached(sql::GENERATION_PUT)?.execute(params![ask.set, ask.generation])?;
    let mut written = Vec::with_capacity(ask.entries.len());
    for entry in &ask.entries {
        written.extend(enter(db, now, ask, entry)?);
    }
    Ok(Registered::Done(written))
}

/// The generation of a set that is in force.
pub(crate) fn generation(db: &Connection, set: &str) -> Outcome<Option<i64>> {
    let mut statement = db.prepare_cached(sql::GENERATION)?;
    Ok(statement.query_row([set], |row| row.get(0)).optional()?)
}

/// Is a schedule as the caller saw it, and may be written so?
fn is_fresh(
    db: &Connection,
    now: Timestamp,
    ask: &Registration,
    entry: &SetEntry,
) -> Outcome<bool> {
    match entry {
        SetEntry::Create(new) => Ok(schedules::find(db, new.id)?.is_some()
            || schedules::named(db, &new.tenant, &new.name)?.is_none()),
        SetEntry::Change { id, stamp, .. }
        | SetEntry::Bring { id, stamp, .. }
        | SetEntry::Remove { id, stamp, .. } => {
            let Some(mut schedule) = schedules::find(db, *id)? else { return Ok(false) };
            entry.check_owner(&schedule, &ask.set)?;
            if schedule.stamp != *stamp {
                return Ok(false);
            }
            if !entry.carry_out(&mut schedule, &ask.set, &ask.actor, now)? {
                return Ok(false);
            }
            // Nobody else may have the name.
            let named = schedules::named(db, &schedule.tenant, &schedule.name)?;
            Ok(named.is_none_or(|named| named.id == *id))
        }
    }
}

/// Writes one schedule, which is as the caller saw it.
fn enter(
    db: &Connection,
    now: Timestamp,
    ask: &Registration,
    entry: &SetEntry,
) -> Outcome<Option<Schedule>> {
    match entry {
        SetEntry::Create(new) => schedules::create(db, now, new).map(Some),
        SetEntry::Change { id, .. } | SetEntry::Bring { id, .. } | SetEntry::Remove { id, .. } => {
            let Some(mut schedule) = schedules::find(db, *id)? else { return Ok(None) };
            if let SetEntry::Bring { name, .. } = entry {
                schedules::place(db, now, &mut schedule, name, &ask.set, &ask.actor)?;
            }
            for change in entry.changes().iter() {
                match schedules::change(db, now, *id, schedule.stamp, change, &ask.actor)? {
                    EditAnswer::Done(changed) => schedule = changed,
                    EditAnswer::Stale(_) | EditAnswer::NotFound => return Ok(None),
                }
            }
            if matches!(entry, SetEntry::Remove { .. }) {
                schedules::delete(db, now, *id, schedule.stamp, &ask.actor)?;
            }
            Ok(Some(schedule))
        }
    }
}
