//! Nodes and their heartbeats.

use std::collections::{BTreeSet, HashSet};

use punctual_core::{JobId, LeaseId, NodeId, Timestamp};
use punctual_store::{
    BeatAsk, Beaten, MAINTENANCE, NodeInfo, Progress, Released, RoleBeat, Settlement,
    awaited_queues, limits, rules,
};
use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params};

use crate::error::Outcome;
use crate::rows::Read;
use crate::{leaders, lists, places, rows, settle, sql};

/// Enters a node, and makes schedules due whose held slots it may run; are there any?
pub(crate) fn join(db: &Connection, now: Timestamp, info: &NodeInfo) -> Outcome<(Timestamp, bool)> {
    db.prepare_cached(sql::NODE_JOIN)?.execute(params![
        info.id.as_bytes(),
        info.name,
        info.version,
        rows::list_text(&info.queues),
        rows::list_text(&info.kinds),
        rows::list_text(&info.labels),
        now.as_micros(),
        MAINTENANCE,
    ])?;
    Ok((now, wake_held(db, now, awaited_queues(info))? > 0))
}

/// Makes schedules due whose slots are held for nodes of these queues; how many.
pub(crate) fn wake_held<'q>(
    db: &Connection,
    now: Timestamp,
    queues: impl IntoIterator<Item = &'q str>,
) -> Outcome<usize> {
    let (mut wake, mut room) = (db.prepare_cached(sql::SCHEDULE_WAKE)?, limits::HELD_WAKE_MAX);
    for queue in queues {
        room -= wake.execute(params![queue, now.as_micros(), rows::rows(room)])?;
    }
    Ok(limits::HELD_WAKE_MAX - room)
}

pub(crate) fn beat(db: &Connection, now: Timestamp, ask: &BeatAsk) -> Outcome<Beaten> {
    let node = ask.node.as_bytes();
    let beat = params![node, now.as_micros(), MAINTENANCE];
    let alive = db.prepare_cached(sql::NODE_BEAT)?.execute(beat)? == 1;
    let mut roles = Vec::new();
    for fence in &ask.roles {
        let renewed = if alive { leaders::renew(db, now, fence, ask.lease)? } else { None };
        roles.push(match renewed {
            Some(leader) => RoleBeat::Renewed { until: leader.until },
            None => RoleBeat::Lost,
        });
    }
    if alive {
        for progress in &ask.progress {
            note_progress(db, now, progress)?;
        }
    }
    let (held, unreadable) = leases_of(db, ask.node)?;
    let mut failed = Vec::new();
    if alive {
        // They cannot be named, so that nobody else would ever give them back.
        for key in &unreadable {
            failed.extend(places::drop_lease(db, now, key)?.and_then(|(_, failed)| failed));
        }
    }
    failed.sort();
    let known: HashSet<&LeaseId> = ask.leases.iter().collect();
    let strays: BTreeSet<LeaseId> = held
        .iter()
        .map(|held| held.lease)
        .filter(|lease| alive && !known.contains(lease))
        .collect();
    let strays = strays.into_iter().take(limits::LEASES_MAX).collect();
    let cancels = held.iter().filter(|held| held.is_cancelled).map(|held| held.job).collect();
    let sought = ask.seeks.iter().map(|role| leaders::lease_until(db, role));
    let sought = sought.collect::<Outcome<_>>()?;
    let unreadable = failed;
    Ok(Beaten { at: now, alive, strays, cancels, unreadable, roles, sought, forked_at: None })
}

fn note_progress(db: &Connection, now: Timestamp, progress: &Progress) -> Outcome<()> {
    let kept = progress.kept(now);
    db.prepare_cached(sql::LEASE_PROGRESS)?.execute(params![
        progress.job.as_bytes(),
        progress.lease.as_bytes(),
        kept.at.as_micros(),
        kept.percent,
        kept.note,
    ])?;
    Ok(())
}

pub(crate) fn release(
    db: &Connection,
    now: Timestamp,
    node: NodeId,
    leases: &[LeaseId],
) -> Outcome<Released> {
    let leases: HashSet<&LeaseId> = leases.iter().collect();
    let mut jobs = Vec::new();
    let (held, _) = leases_of(db, node)?;
    let given = held.into_iter().filter(|held| leases.contains(&held.lease));
    for Held { job, lease, .. } in given.take(limits::RELEASE_MAX) {
        let item =
            Settlement { job, lease, transition: rules::RELEASED, result: None, then: Vec::new() };
        settle::settle_one(db, now, &item)?;
        jobs.push(job);
    }
    Ok(Released { at: now, jobs })
}

/// A job that a node has under lease.
struct Held {
    job: JobId,
    lease: LeaseId,
    /// Does somebody want it to stop?
    is_cancelled: bool,
}

/// The jobs that a node has under lease, by id; and of those whose lease cannot be read the bytes
/// that stand for the job.
fn leases_of(db: &Connection, node: NodeId) -> Outcome<(Vec<Held>, Vec<Vec<u8>>)> {
    let read = |row: &Row| -> Read<Held> {
        Ok(Held {
            job: rows::job_id(row, 0)?,
            lease: rows::lease_id(row, 1)?,
            is_cancelled: row.get(2)?,
        })
    };
    let mut statement = db.prepare_cached(sql::LEASES_OF)?;
    let mut found = statement.query([node.as_bytes()])?;
    let (mut held, mut unreadable) = (Vec::new(), Vec::new());
    while let Some(row) = found.next()? {
        match read(row) {
            Ok(job) => held.push(job),
            Err(_) => unreadable.push(rows::bytes(row, 0)?),
        }
    }
    Ok((held, unreadable))
}

/// Declares the nodes of earlier engines dead and ends their leases of roles. The caller has just
/// taken the engine's lock, which proves that their processes ended. Remote workers run elsewhere
/// and stay.
pub(crate) fn end_predecessors(db: &Connection, now: Timestamp) -> Outcome<()> {
    let transaction = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
    for node in lists::all(db, sql::NODE_LIVE, params![], rows::node_info)? {
        if !node.is_remote() {
            db.prepare_cached(sql::NODE_DIE)?
                .execute(params![node.id.as_bytes(), now.as_micros()])?;
        }
    }
    leaders::expire(db)?;
    Ok(transaction.commit()?)
}

/// Is the node there, and not declared dead?
pub(crate) fn is_alive(db: &Connection, node: NodeId) -> Outcome<bool> {
    Ok(db.prepare_cached(sql::NODE_ALIVE)?.exists([node.as_bytes()])?)
}

pub(crate) fn leave(db: &Connection, node: NodeId) -> Outcome<()> {
    let leases = leases(db, node)?;
    if leases > 0 {
        return Err(rules::still_at_work(node, leases).into());
    }
    db.prepare_cached(sql::NODE_LEAVE)?.execute([node.as_bytes()])?;
    Ok(())
}

/// How many jobs a node has under lease.
fn leases(db: &Connection, node: NodeId) -> Outcome<u64> {
    let mut statement = db.prepare_cached(sql::LEASE_COUNT)?;
    Ok(statement.query_row([node.as_bytes()], |row| row.get(0))?)
}
