//! Promote, reap, prune, counters and the audit.

use std::time::Duration;

use punctual_core::job::{JobState, Next, Outcome as Ended, Standing, decide};
use punctual_core::{JobId, LeaseId, NodeId, Timestamp};
use punctual_store::{
    Actor, AuditAction, Promoted, Pruned, ReapAsk, Reaped, ReapedAttempt, ReapedJob, Retention,
    RollupCount, Settlement, rules,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Outcome;
use crate::places::{self, Taken};
use crate::rows::{self, Read};
use crate::{claim, expiry, leaders, overdue, settle, sql};

pub(crate) fn promote(db: &Connection, now: Timestamp, most: usize) -> Outcome<Promoted> {
    let next_deadline = expiry::next(db)?;
    let mut promoted = Promoted {
        at: now,
        queues: Default::default(),
        next_due: None,
        next_deadline,
        unreadable: Vec::new(),
    };
    let due = due_timers(db, now, most)?;
    if let Some(last) = due.last() {
        db.prepare_cached(sql::TIMER_DELETE)?.execute(params![last.due_at, last.key])?;
    }
    for Timer { job, .. } in due {
        match job {
            Some((job, Taken { seat, is_readable: true })) => {
                seat.in_line(db, job)?;
                *promoted.queues.entry(seat.queue).or_default() += 1;
            }
            Some((job, Taken { seat, .. })) => {
                promoted.unreadable.extend(places::set_aside(db, now, job, &seat)?);
            }
            None => {}
        }
    }
    free(db, &mut promoted, most)?;
    let mut next = db.prepare_cached(sql::TIMER_NEXT)?;
    promoted.next_due = next.query_row([], |row| rows::instant(row, 0)).optional()?;
    promoted.unreadable.sort();
    Ok(promoted)
}

/// Lets the oldest waiting job go of each schedule that has no unfinished ones but those that wait.
fn free(db: &Connection, promoted: &mut Promoted, most: usize) -> Outcome<()> {
    let mut schedule: Vec<u8> = Vec::new();
    let mut freed = 0;
    let mut statement = db.prepare_cached(sql::WAIT_NEXT)?;
    while freed < most {
        let mut found = statement.query([&schedule])?;
        let Some(row) = found.next()? else { break };
        let (key, job) = (rows::bytes(row, 0)?, rows::job_id(row, 0).ok());
        schedule = rows::bytes(row, 9)?;
        if row.get(10)? {
            continue;
        }
        freed += 1;
        let taken = match job {
            Some(job) => Some((job, Taken::read(db, job, row, 1)?)),
            None => None,
        };
        drop(found);
        db.prepare_cached(sql::WAIT_DELETE)?.execute(params![schedule, key])?;
        match taken {
            Some((job, Taken { seat, is_readable: true })) => {
                let state = seat.wait(db, job, promoted.at)?;
                if state == JobState::Ready {
                    *promoted.queues.entry(seat.queue).or_default() += 1;
                }
            }
            Some((job, Taken { seat, .. })) => {
                promoted.unreadable.extend(places::set_aside(db, promoted.at, job, &seat)?);
            }
            None => {}
        }
    }
    Ok(())
}

/// A timer whose time has come.
struct Timer {
    due_at: i64,
    /// The bytes that stand for the job's id.
    key: Vec<u8>,
    /// The job, if they are an id.
    job: Option<(JobId, Taken)>,
}

/// The timers whose time has come, earliest first.
fn due_timers(db: &Connection, now: Timestamp, most: usize) -> Outcome<Vec<Timer>> {
    let mut statement = db.prepare_cached(sql::TIMER_DUE)?;
    let mut found = statement.query(params![now.as_micros(), rows::rows(most)])?;
    let mut due = Vec::new();
    while let Some(row) = found.next()? {
        let job = match rows::job_id(row, 0) {
            Ok(job) => Some((job, Taken::read(db, job, row, 1)?)),
            Err(_) => None,
        };
        due.push(Timer { due_at: row.get(3)?, key: rows::bytes(row, 0)?, job });
    }
    Ok(due)
}

pub(crate) fn reap(db: &Connection, now: Timestamp, ask: &ReapAsk) -> Outcome<Reaped> {
    let mut reaped = Reaped::nothing(now);
    let Some(renewed) = leaders::renew(db, now, &ask.fence, ask.lease)? else {
        return Ok(reaped);
    };
    reaped.led = true;
    // A clock that was set back must not keep a dead node alive.
    let latest = now + ask.node_lifetime;
    db.prepare_cached(sql::NODE_UNSEEN)?.execute(params![now.as_micros(), latest.as_micros()])?;
    if let Some(watch) = renewed.watched.checked_sub(ask.node_lifetime) {
        reaped.dead = bury(db, now, now - ask.node_lifetime, watch)?;
    }
    let mut statement = db.prepare_cached(sql::LEASE_ORPHANS)?;
    let either = |row: &Row| Ok((rows::bytes(row, 0)?, read_orphan(row).ok()));
    let orphans: Vec<(Vec<u8>, Option<Orphan>)> =
        statement.query_map([rows::rows(ask.most)], either)?.collect::<Read<_>>()?;
    for (key, orphan) in orphans {
        match orphan {
            Some(orphan) => reaped.jobs.push(take_back(db, now, ask, orphan)?),
            None => {
                let job = places::drop_lease(db, now, &key)?;
                let failed = |(job, _)| ReapedJob { job, next: Next::Failed, attempt: None };
                reaped.jobs.extend(job.map(failed));
            }
        }
    }
    reaped.overdue = overdue::end(db, now, &ask.policy, ask.most - reaped.jobs.len())?;
    Ok(reaped)
}

/// Declares the nodes dead whose last heartbeat is older than `silent_since` and not later than
/// `watch` in watched time.
fn bury(
    db: &Connection,
    now: Timestamp,
    silent_since: Timestamp,
    watch: Duration,
) -> Outcome<Vec<NodeId>> {
    let mut statement = db.prepare_cached(sql::NODE_SILENT)?;
    let silent: Vec<Option<NodeId>> = statement
        .query_map([silent_since.as_micros(), rows::micros(watch)], |row| {
            Ok(rows::node_id(row, 0).ok())
        })?
        .collect::<Read<_>>()?;
    let silent: Vec<NodeId> = silent.into_iter().flatten().collect();
    for node in &silent {
        db.prepare_cached(sql::NODE_DIE)?.execute(params![node.as_bytes(), now.as_micros()])?;
    }
    Ok(silent)
}

/// A lease whose node is dead.
struct Orphan {
    job: JobId,
    lease: LeaseId,
    attempt: u32,
    spent: u32,
    crashes: u32,
    claimed_at: Timestamp,
    cancel: Option<String>,
    queue: String,
    kind: String,
}

fn read_orphan(row: &Row) -> Read<Orphan> {
    Ok(Orphan {
        job: rows::job_id(row, 0)?,
        lease: rows::lease_id(row, 1)?,
        attempt: row.get(2)?,
        spent: row.get(3)?,
        crashes: row.get(4)?,
        claimed_at: rows::instant(row, 5)?,
        cancel: rows::text_opt(row, 6),
        queue: rows::text(row, 7),
        kind: rows::text(row, 8),
    })
}

fn take_back(db: &Connection, now: Timestamp, ask: &ReapAsk, orphan: Orphan) -> Outcome<ReapedJob> {
    let job = orphan.job;
    let (max_attempts, budget, expires_at) = match standing_of(db, job) {
        Ok(found) => found,
        // What cannot be read must not keep the others from being taken back; the next claim
        // sets it aside.
        Err(error) if error.sqlite_error().is_none() => (u32::MAX, None, None),
        Err(error) => return Err(error.into()),
    };
    let standing = Standing {
        job,
        attempt: orphan.attempt,
        spent: orphan.spent,
        crashes: orphan.crashes,
        resource_releases: 0,
        max_attempts,
        used: if budget.is_some() { claim::used(db, job)? } else { Duration::ZERO },
        claimed_at: orphan.claimed_at,
        budget,
        expires_at,
    };
    let transition = decide(&standing, Ended::Abandoned, &ask.policy, now);
    let applied = rules::with_cancel(&transition, orphan.cancel.as_deref());
    let attempt = ReapedAttempt {
        kind: orphan.kind,
        queue: orphan.queue,
        number: orphan.attempt,
        held: now.since(orphan.claimed_at),
        error: applied.error,
    };
    let item = Settlement { job, lease: orphan.lease, transition, result: None, then: Vec::new() };
    settle::settle_one(db, now, &item)?;
    Ok(ReapedJob { job, next: applied.next, attempt: Some(attempt) })
}

/// What a job's body says about further attempts.
fn standing_of(db: &Connection, job: JobId) -> Read<(u32, Option<Duration>, Option<Timestamp>)> {
    db.prepare_cached(sql::JOB_STANDING)?.query_row([job.as_bytes()], |row| {
        Ok((row.get(0)?, rows::length_opt(row, 1)?, rows::instant_opt(row, 2)?))
    })
}

pub(crate) fn prune(
    db: &Connection,
    now: Timestamp,
    retention: &Retention,
    most: usize,
) -> Outcome<Pruned> {
    let before = |kept: Duration| (now - kept).as_micros();
    let most = rows::rows(most);
    let mut statement = db.prepare_cached(sql::DONE_OLD)?;
    let bounds = params![before(retention.finished), before(retention.failed), most];
    let old: Vec<Vec<u8>> =
        statement.query_map(bounds, |row| rows::bytes(row, 1))?.collect::<Read<_>>()?;
    for job in &old {
        let own = [sql::DONE_DELETE, sql::ATTEMPT_DELETE, sql::STEP_DELETE, sql::LOG_DELETE];
        for statement in own.into_iter().chain([sql::JOB_DELETE]) {
            db.prepare_cached(statement)?.execute([job])?;
        }
    }
    let delete = |statement: &str, bounds: &[i64]| -> Outcome<u64> {
        Ok(db.prepare_cached(statement)?.execute(rusqlite::params_from_iter(bounds))? as u64)
    };
    Ok(Pruned {
        jobs: old.len() as u64,
        slots: delete(sql::SLOT_PRUNE, &[before(retention.ledger), most])?,
        revisions: delete(sql::REVISION_PRUNE, &[before(retention.ledger), most])?,
        keys: delete(sql::KEY_PRUNE, &[now.as_micros(), most])?,
        records: delete(sql::ROLLUP_PRUNE, &[before(retention.records), most])?
            + delete(sql::AUDIT_PRUNE, &[before(retention.records), most])?
            + delete(sql::LEADER_CHANGE_PRUNE, &[before(retention.records), most])?,
        nodes: delete(sql::NODE_PRUNE, &[before(retention.nodes)])?,
    })
}

pub(crate) fn roll_up(db: &Connection, counts: &[RollupCount]) -> Outcome<()> {
    let mut add = db.prepare_cached(sql::ROLLUP_ADD)?;
    for count in counts {
        add.execute(params![
            count.minute.as_micros(),
            count.metric,
            count.queue,
            count.kind,
            count.count,
            count.sum,
        ])?;
    }
    Ok(())
}

/// Notes what somebody did.
pub(crate) fn note(
    db: &Connection,
    now: Timestamp,
    actor: &Actor,
    action: &AuditAction,
    subject: &str,
) -> Outcome<()> {
    let entry = params![now.as_micros(), actor.who, actor.why, action.as_str(), subject];
    db.prepare_cached(sql::AUDIT_INSERT)?.execute(entry)?;
    Ok(())
}
