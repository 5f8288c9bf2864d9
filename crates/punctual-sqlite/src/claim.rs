//! Taking jobs to work on.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::job::JobState;
use punctual_core::{JobId, Timestamp};
use punctual_store::{ClaimAsk, Claimed, ClaimedJob, rules};
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, Row, params_from_iter};

use crate::error::Outcome;
use crate::places::{End, Seat};
use crate::rows::{self, Read};
use crate::{nodes, queues, sql};

/// A job at the head of its queue.
struct Pick {
    rank: Timestamp,
    job: JobId,
    seat: Seat,
    /// None: the body cannot be read.
    claimed: Option<ClaimedJob>,
}

pub(crate) fn claim(db: &Connection, now: Timestamp, ask: &ClaimAsk) -> Outcome<Claimed> {
    if !nodes::is_alive(db, ask.node)? {
        return Err(rules::not_alive(ask.node).into());
    }
    let mut kinds: Vec<&str> = ask.kinds.iter().map(String::as_str).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut jobs = Vec::new();
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
        let picks = pick(db, now, ask, &share.name, &kinds, room)?;
        picked += picks.len();
        take_from_line(db, &share.name, &picks)?;
        let mut lease = db.prepare_cached(sql::LEASE_INSERT)?;
        for pick in picks {
            jobs.extend(lease_one(db, &mut lease, now, ask, pick)?);
        }
    }
    Ok(Claimed { at: now, jobs })
}

/// The first jobs of a queue that the node can work on, in order.
fn pick(
    db: &Connection,
    now: Timestamp,
    ask: &ClaimAsk,
    queue: &str,
    kinds: &[&str],
    room: usize,
) -> Outcome<Vec<Pick>> {
    let text = |text: &str| Value::Text(text.to_owned());
    let bound = [text(queue), Value::Integer(rows::rows(room))];
    let mut statement = db.prepare_cached(&statement(kinds.len()))?;
    let mut found = statement
        .query(params_from_iter(bound.into_iter().chain(kinds.iter().map(|kind| text(kind)))))?;
    let mut picks = Vec::new();
    while let Some(row) = found.next()? {
        let (rank, job, seat) =
            (rows::instant(row, 0)?, rows::job_id(row, 1)?, Seat::read(row, 2)?);
        let claimed = read_claimed(row, now, ask, job, &seat).ok();
        picks.push(Pick { rank, job, seat, claimed });
    }
    picks.sort_unstable_by_key(|pick| (pick.rank, pick.job));
    Ok(picks)
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
        delete.execute((queue, kind, pick.rank.as_micros(), pick.job.as_bytes()))?;
    }
    Ok(())
}

/// Leases one job. One that cannot be read fails, so that it blocks nobody behind it.
fn lease_one(
    db: &Connection,
    lease: &mut CachedStatement,
    now: Timestamp,
    ask: &ClaimAsk,
    pick: Pick,
) -> Outcome<Option<ClaimedJob>> {
    let Pick { job, mut seat, claimed, .. } = pick;
    seat.attempt += 1;
    let Some(mut claimed) = claimed else {
        let end = End {
            state: JobState::Failed,
            at: now,
            attempt: None,
            error: Some(rules::UNREADABLE),
            result: None,
        };
        seat.end(db, job, &end)?;
        return Ok(None);
    };
    lease.execute(rusqlite::params![
        job.as_bytes(),
        ask.lease.as_bytes(),
        ask.node.as_bytes(),
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
    if claimed.budget.is_some() {
        claimed.used = used(db, job)?;
    }
    Ok(Some(claimed))
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
        payload: rows::json(row, 20)?,
        priority: seat.priority,
        attempt: seat.attempt + 1,
        spent: seat.spent,
        crashes: seat.crashes,
        max_attempts: row.get(12)?,
        timeout: rows::length_opt(row, 13)?,
        budget: rows::length_opt(row, 14)?,
        used: Duration::ZERO,
        expires_at: rows::instant_opt(row, 15)?,
        due_at: seat.due_at,
        claimed_at: now,
        schedule: rows::schedule_and_slot(row, 16)?,
        tags: rows::list(row, 18)?,
        trace: row.get(19)?,
    })
}

/// Time that the attempts of a job took.
pub(crate) fn used(db: &Connection, job: JobId) -> Outcome<Duration> {
    let micros: i64 =
        db.prepare_cached(sql::ATTEMPT_USED)?.query_row([job.as_bytes()], |row| row.get(0))?;
    Ok(Duration::from_micros(micros.unsigned_abs()))
}
