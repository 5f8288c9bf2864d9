//! Sets of schedules.

use punctual_core::Timestamp;
use punctual_store::{EditAnswer, Registered, Registration, Schedule, SetEntry, rules};
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
        SetEntry::Change { id, stamp, change } => {
            let Some(mut schedule) = schedules::find(db, *id)? else { return Ok(false) };
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

/// Writes one schedule, which is as the caller saw it.
fn enter(
    db: &Connection,
    now: Timestamp,
    ask: &Registration,
    entry: &SetEntry,
) -> Outcome<Option<Schedule>> {
    match entry {
        SetEntry::Create(new) => schedules::create(db, now, new).map(Some),
        SetEntry::Change { id, stamp, change } => {
            match schedules::change(db, now, *id, *stamp, change, &ask.actor)? {
                EditAnswer::Done(schedule) => Ok(Some(schedule)),
                EditAnswer::Stale(_) | EditAnswer::NotFound => Ok(None),
            }
        }
    }
}
