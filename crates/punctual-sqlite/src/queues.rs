//! Queues: pause and limits.

use punctual_core::Timestamp;
use punctual_store::{Actor, Queue, QueueChange};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Outcome;
use crate::{rows, sql, upkeep};

/// How many more jobs of a queue may run. A queue without settings costs one look-up.
pub(crate) fn room(db: &Connection, now: Timestamp, name: &str) -> Outcome<usize> {
    let Some(queue) = find(db, name)? else { return Ok(usize::MAX) };
    if queue.pause.is_some_and(|pause| pause.until.is_none_or(|until| until > now)) {
        return Ok(0);
    }
    let Some(max_running) = queue.limits.max_running else { return Ok(usize::MAX) };
    let running: u32 =
        db.prepare_cached(sql::LEASE_RUNNING)?.query_row([name], |row| row.get(0))?;
    Ok(max_running.saturating_sub(running) as usize)
}

/// Does a queue have a limit for all nodes?
pub(crate) fn is_limited(db: &Connection, name: &str) -> Outcome<bool> {
    Ok(find(db, name)?.is_some_and(|queue| queue.limits.max_running.is_some()))
}

fn find(db: &Connection, name: &str) -> Outcome<Option<Queue>> {
    Ok(db.prepare_cached(sql::QUEUE)?.query_row([name], rows::queue).optional()?)
}

pub(crate) fn change(
    db: &Connection,
    now: Timestamp,
    name: &str,
    change: &QueueChange,
    actor: &Actor,
) -> Outcome<Queue> {
    let mut queue = find(db, name)?.unwrap_or_else(|| Queue::unset(name));
    let action = queue.change(change, actor, now);
    let pause = queue.pause.as_ref();
    db.prepare_cached(sql::QUEUE_PUT)?.execute(params![
        queue.name,
        pause.map(|pause| &pause.by.who),
        pause.map(|pause| &pause.by.why),
        pause.map(|pause| pause.since.as_micros()),
        pause.and_then(|pause| pause.until).map(Timestamp::as_micros),
        queue.limits.max_running,
    ])?;
    upkeep::note(db, now, actor, &action, name)?;
    Ok(queue)
}
