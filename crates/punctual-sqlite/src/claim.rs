//! Taking jobs to work on.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::{JobId, LeaseId, NodeId, Timestamp};
use punctual_store::{ClaimAsk, Claimed, ClaimedJob, UnreadableJob, rules};
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, Row, params_from_iter};

use crate::error::Outcome;
use crate::places::{self, Seat};
use crate::rows::{self, Read};
use crate::{nodes, queues, sql};

/// A job at the head of its queue.
struct Pick {
    rank: i64,
    job: JobId,
    seat: Seat,
    /// None: the body cannot be read.
    claimed: Option<ClaimedJob>,
}

/// A row at the head of a queue that cannot be read.
struct Bad {
    kind: String,
    rank: i64,
    /// The bytes that stand for the job's id.
    key: Vec<u8>,
    /// The job, if they are an id, and what could be read of its seat.
    job: Option<(JobId, Seat)>,
}

pub(crate) fn claim(db: &Connection, now: Timestamp, ask: &ClaimAsk) -> Outcome<Claimed> {
    if !nodes::is_alive(db, ask.node)? {
        return Err(rules::not_alive(ask.node).into());
    }
    let mut kinds: Vec<&str> = ask.kinds.iter().map(String::as_str).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let (mut jobs, mut unreadable) = (Vec::new(), Vec::new());
    let mut picked = 0;
    for share in &ask.queues {
        let most = share.most.min(ask.most - picked);
        if most == 0 || kinds.is_empty() {
            continue;
        }
        let room = most.min(queues::room(db, now, &share.name)?);
        if room == 0 {
            continue;
        }
        let (picks, bad) = pick(db, now, ask, &share.name, &kinds, room)?;
        picked += picks.len() + bad.len();
        take_from_line(db, &share.name, &picks)?;
        unreadable.extend(drop_bad(db, now, &share.name, &bad)?);
        let mut lease = db.prepare_cached(sql::LEASE_INSERT)?;
        for pick in picks {
            let id = ask.lease_at(jobs.len());
            match lease_one(db, &mut lease, now, (ask.node, id), pick)? {
                Ok(job) => jobs.push(job),
                Err(failed) => unreadable.extend(failed),
            }
        }
    }
    unreadable.sort();
    Ok(Claimed { at: now, jobs, unreadable, contended: Vec::new() })
}

/// The first jobs of a queue that the node can work on, in order.
fn pick(
    db: &Connection,
    now: Timestamp,
    ask: &ClaimAsk,
    queue: &str,
    kinds: &[&str],
    room: usize,
) -> Outcome<(Vec<Pick>, Vec<Bad>)> {
    let text = |text: &str| Value::Text(text.to_owned());
    let bound = [text(queue), Value::Integer(rows::rows(room))];
    let mut statement = db.prepare_cached(&statement(kinds.len()))?;
    let mut found = statement
        .query(params_from_iter(bound.into_iter().chain(kinds.iter().map(|kind| text(kind)))))?;
    let (mut picks, mut bad) = (Vec::new(), Vec::new());
    while let Some(row) = found.next()? {
        let (rank, job) = (row.get(0)?, rows::job_id(row, 1).ok());
        let (Some(job), Ok(seat)) = (job, Seat::read(row, 2)) else {
            let job = match job {
                Some(job) => Some((job, Seat::salvage(db, job, row, 2)?)),
                None => None,
            };
            bad.push(Bad { kind: rows::text(row, 3), rank, key: rows::bytes(row, 1)?, job });
            continue;
        };
        let claimed = read_claimed(row, now, ask, job, &seat).ok();
        picks.push(Pick { rank, job, seat, claimed });
    }
    picks.sort_unstable_by_key(|pick| (pick.rank, pick.job));
    Ok((picks, bad))
}

/// The claim for this many kinds.
pub(crate) fn statement(kinds: usize) -> String {
    let arm = |number: usize| {
        format!(
            "SELECT rank, job, queue, kind, due_at, priority, attempt, spent, crashes, flags \
             FROM punctual_job_ready WHERE queue = ?1 AND kind = ?{}",
            number + 3
        )
    };
    let arms: Vec<String> = (0..kinds).map(arm).collect();
    sql::CLAIM.replace("{arms}", &arms.join("\n  UNION ALL "))
}

/// Deletes what was picked: it is the head of each kind, so one statement per kind does.
fn take_from_line(db: &Connection, queue: &str, picks: &[Pick]) -> Outcome<()> {
    let mut last: BTreeMap<&str, &Pick> = BTreeMap::new();
    for pick in picks {
        last.insert(&pick.seat.kind, pick);
    }
    let mut delete = db.prepare_cached(sql::READY_DELETE)?;
    for (kind, pick) in last {
        delete.execute((queue, kind, pick.rank, pick.job.as_bytes()))?;
    }
    Ok(())
}

/// Takes rows that cannot be read out of the line, and fails their jobs.
fn drop_bad(
    db: &Connection,
    now: Timestamp,
    queue: &str,
    bad: &[Bad],
) -> Outcome<Vec<UnreadableJob>> {
    let mut failed = Vec::new();
    for Bad { kind, rank, key, job } in bad {
        db.prepare_cached(sql::READY_DROP)?.execute((queue, kind, rank, key))?;
        if let Some((job, seat)) = job {
            failed.extend(places::set_aside(db, now, *job, seat)?);
        }
    }
    Ok(failed)
}

/// Leases one job. A job that cannot be read fails, so that it does not block the jobs behind it. A job that does not
/// exist any more is neither leased nor failed.
fn lease_one(
    db: &Connection,
    lease: &mut CachedStatement,
    now: Timestamp,
    (node, lease_id): (NodeId, LeaseId),
    pick: Pick,
) -> Outcome<Result<ClaimedJob, Option<UnreadableJob>>> {
    let Pick { job, mut seat, claimed, .. } = pick;
    seat.attempt += 1;
    let Some(mut claimed) = claimed else {
        return Ok(Err(places::set_aside(db, now, job, &seat)?));
    };
    lease.execute(rusqlite::params![
        job.as_bytes(),
        lease_id.as_bytes(),
        node.as_bytes(),
        seat.queue,
        seat.kind,
        seat.due_at.as_micros(),
        seat.priority,
        seat.attempt,
        seat.spent,
        seat.crashes,
        seat.flags,
        now.as_micros(),
    ])?;
    claimed.lease = lease_id;
    if claimed.budget.is_some() {
        claimed.used = used(db, job)?;
    }
    Ok(Ok(claimed))
}

/// The claimed job, from the columns behind the seat's.
fn read_claimed(
    row: &Row,
    now: Timestamp,
    ask: &ClaimAsk,
    id: JobId,
    seat: &Seat,
) -> Read<ClaimedJob> {
    Ok(ClaimedJob {
        id,
        lease: ask.lease,
        tenant: row.get(10)?,
        owner: row.get(11)?,
        queue: seat.queue.clone(),
        kind: seat.kind.clone(),
        payload: rows::json(row, 21)?,
        priority: seat.priority,
        attempt: seat.attempt + 1,
        spent: seat.spent,
        crashes: seat.crashes,
        resource_releases: rules::resource_releases(seat.flags),
        max_attempts: row.get(12)?,
        timeout: rows::length_opt(row, 13)?,
        budget: rows::length_opt(row, 14)?,
        used: Duration::ZERO,
        expires_at: rows::instant_opt(row, 15)?,
        due_at: seat.due_at,
        claimed_at: now,
        origin: rows::origin(row, 16)?,
        tags: rows::list(row, 19)?,
        trace: row.get(20)?,
    })
}

/// Time that the attempts of a job took.
pub(crate) fn used(db: &Connection, job: JobId) -> Outcome<Duration> {
    let micros: i64 =
        db.prepare_cached(sql::ATTEMPT_USED)?.query_row([job.as_bytes()], |row| row.get(0))?;
    Ok(Duration::from_micros(micros.unsigned_abs()))
}
