//! Taking jobs to work on.

use std::collections::HashMap;
use std::time::Duration;

use punctual_core::{JobId, LeaseId, Timestamp};
use punctual_store::{At, ClaimAsk, Claimed, ClaimedJob, Result, UnreadableJob, rules};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::connection::Conn;
use crate::error::Outcome;
use crate::marks::{From, Marks, Place, clock};
use crate::pool::Pool;
use crate::retry::run;
use crate::rows::{self, Instant, Read};
use crate::sql;
use crate::store::Shared;

/// What a claim statement answered.
struct Taken {
    now: Timestamp,
    is_alive: bool,
    /// A queue has a limit, and nothing was taken.
    is_limited: bool,
    /// How many were taken out of the line, with those that cannot be read and have ended.
    picked: i64,
    jobs: Vec<(Place, ClaimedJob)>,
    unreadable: Vec<UnreadableJob>,
    /// Queues with a limit that another claim had locked.
    contended: Vec<String>,
}

/// Claims. Not repeated after a lost answer: it would take other jobs, and the node learns of those
/// it does not know from its next beat.
pub(crate) async fn claim(pool: &Pool, shared: &Shared, at: At, ask: &ClaimAsk) -> Result<Claimed> {
    let claimed = claim_from_marks(pool, shared, at, ask).await;
    if claimed.is_err() {
        // What it had locked stands in line again, perhaps behind the mark of a claim beside it.
        shared.marks.forget();
    }
    claimed
}

async fn claim_from_marks(pool: &Pool, shared: &Shared, at: At, ask: &ClaimAsk) -> Result<Claimed> {
    let mut from: Vec<From> =
        ask.queues.iter().map(|queue| shared.marks.begin(&queue.name, &ask.kinds)).collect();
    let began = clock();
    let is_limited = shared.is_limited(ask.queues.iter().map(|queue| queue.name.as_str()));
    let mut taken = if is_limited {
        run!(*pool, claim, conn => claim_limited(conn, shared, at, ask))?
    } else {
        let quotas: Vec<i32> = ask.queues.iter().map(|queue| quota(queue.most)).collect();
        run!(*pool, claim, conn => take(conn, at, ask, &quotas, &from, false))?
    };
    // What others have put behind the marks is looked for before the answer is that there is nothing.
    let has_marks = from.iter().any(|from| from.place.is_some());
    if taken.picked == 0 && has_marks && shared.marks.is_quick(&ask.queues, &ask.kinds) {
        from = vec![From::START; ask.queues.len()];
        let quotas: Vec<i32> = ask.queues.iter().map(|queue| quota(queue.most)).collect();
        taken = run!(*pool, claim, conn => take(conn, at, ask, &quotas, &from, false))?;
    }
    if taken.is_limited {
        taken = run!(*pool, claim, conn => claim_limited(conn, shared, at, ask))?;
    }
    if !taken.is_alive {
        return Err(rules::not_alive(ask.node));
    }
    let took = clock() - began;
    let order: HashMap<&str, usize> =
        ask.queues.iter().enumerate().map(|(index, queue)| (queue.name.as_str(), index)).collect();
    let index_of = |job: &ClaimedJob| order.get(job.queue.as_str()).copied().unwrap_or(usize::MAX);
    taken.jobs.sort_by_key(|(place, job)| (index_of(job), *place));
    if !is_limited && !taken.is_limited {
        advance(&shared.marks, ask, &from, &taken.jobs, took);
    }
    taken.unreadable.sort();
    let jobs = taken.jobs.into_iter().map(|(_, job)| job).collect();
    Ok(Claimed { at: taken.now, jobs, unreadable: taken.unreadable, contended: taken.contended })
}

fn quota(most: usize) -> i32 {
    i32::try_from(most).unwrap_or(i32::MAX)
}

/// Notes how far each queue was claimed.
fn advance(
    marks: &Marks,
    ask: &ClaimAsk,
    from: &[From],
    jobs: &[(Place, ClaimedJob)],
    took: Duration,
) {
    for (queue, from) in ask.queues.iter().zip(from) {
        let last = jobs.iter().rev().find(|(_, job)| job.queue == queue.name);
        if let Some((place, _)) = last {
            marks.advance(&queue.name, &ask.kinds, *from, *place, took);
        }
    }
}

/// Claims from queues of which some have a limit: locks those, counts what runs, and only then
/// takes; a count in the claim itself would not see what others take at the same time.
async fn claim_limited(conn: &mut Conn, shared: &Shared, at: At, ask: &ClaimAsk) -> Outcome<Taken> {
    let names: Vec<&str> = ask.queues.iter().map(|queue| queue.name.as_str()).collect();
    let locked = conn.begin_with(&sql::QUEUE_LOCK, &[&names]).await?;
    let mut limits: HashMap<String, i64> = HashMap::new();
    for row in &locked {
        limits.insert(rows::get(row, 0)?, rows::get(row, 1)?);
    }
    let locked: Vec<&str> = limits.keys().map(String::as_str).collect();
    let mut running: HashMap<String, i64> = HashMap::new();
    for row in &conn.query(&sql::LEASE_RUNNING, &[&locked]).await? {
        running.insert(rows::get(row, 0)?, rows::get(row, 1)?);
    }
    // A queue with a limit that could not be locked is in use by another claim. That claim may leave
    // jobs and room in it, so the response does not present it as empty.
    let limited = shared.remember_limited(conn, &names).await?;
    let is_contended = |name: &&&str| limited.contains(**name) && !limits.contains_key(**name);
    let contended = names.iter().filter(is_contended).map(|name| (*name).to_owned()).collect();
    let quotas: Vec<i32> = ask
        .queues
        .iter()
        .map(|queue| match limits.get(&queue.name) {
            Some(most) => {
                let room = most - running.get(&queue.name).copied().unwrap_or(0);
                quota(queue.most).min(i32::try_from(room.max(0)).unwrap_or(i32::MAX))
            }
            None if limited.contains(&queue.name) => 0,
            None => quota(queue.most),
        })
        .collect();
    let from = vec![From::START; ask.queues.len()];
    let taken = take(conn, at, ask, &quotas, &from, true).await?;
    conn.commit().await?;
    Ok(Taken { contended, ..taken })
}

async fn take(
    conn: &mut Conn,
    at: At,
    ask: &ClaimAsk,
    quotas: &[i32],
    from: &[From],
    is_locked: bool,
) -> Outcome<Taken> {
    let start = (Timestamp::MIN, JobId::from_bytes([0; 16]));
    let names: Vec<&str> = ask.queues.iter().map(|queue| queue.name.as_str()).collect();
    let places = from.iter().map(|from| from.place.unwrap_or(start));
    let ranks: Vec<Instant> = places.clone().map(|(rank, _)| Instant(rank)).collect();
    let jobs: Vec<Uuid> = places.map(|(_, job)| job.as_uuid()).collect();
    let leases: Vec<Uuid> =
        std::iter::once(&ask.lease).chain(&ask.more).map(LeaseId::as_uuid).collect();
    let found = conn
        .query(
            &sql::CLAIM,
            &[
                &rows::at(at),
                &names,
                &quotas,
                &ranks,
                &jobs,
                &ask.kinds,
                &rows::count(ask.most),
                &leases,
                &ask.node.as_uuid(),
                &is_locked,
                &rules::UNREADABLE,
            ],
        )
        .await?;
    read_taken(&found)
}

fn read_taken(found: &[Row]) -> Outcome<Taken> {
    let mut taken = Taken {
        now: Timestamp::EPOCH,
        is_alive: false,
        is_limited: false,
        picked: 0,
        jobs: Vec::new(),
        unreadable: Vec::new(),
        contended: Vec::new(),
    };
    for row in found {
        taken.now = rows::instant(row, 0)?;
        taken.is_alive = rows::get(row, 1)?;
        taken.is_limited = rows::get(row, 2)?;
        taken.picked = rows::get(row, 25)?;
        match rows::get::<Option<bool>>(row, 28)? {
            Some(true) => {
                let place = (rows::instant(row, 3)?, rows::job_id(row, 4)?);
                taken.jobs.push((place, read_claimed(row, taken.now)?));
            }
            Some(false) => {
                let (job, queue, kind) =
                    (rows::job_id(row, 4)?, rows::get(row, 5)?, rows::get(row, 6)?);
                taken.unreadable.push(UnreadableJob { job, queue, kind });
            }
            None => {}
        }
    }
    Ok(taken)
}

fn read_claimed(row: &Row, now: Timestamp) -> Read<ClaimedJob> {
    Ok(ClaimedJob {
        id: rows::job_id(row, 4)?,
        lease: rows::lease_id(row, 26)?,
        queue: rows::get(row, 5)?,
        kind: rows::get(row, 6)?,
        due_at: rows::instant(row, 7)?,
        attempt: rows::natural(row, 8)?,
        spent: rows::natural(row, 9)?,
        crashes: rows::natural(row, 10)?,
        resource_releases: rules::resource_releases(rows::get::<i16>(row, 27)?.into()),
        priority: rows::get(row, 11)?,
        tenant: rows::get(row, 12)?,
        owner: rows::get(row, 13)?,
        max_attempts: rows::natural(row, 14)?,
        timeout: rows::length_opt(row, 15)?,
        budget: rows::length_opt(row, 16)?,
        used: rows::length_opt(row, 17)?.unwrap_or_default(),
        expires_at: rows::instant_opt(row, 18)?,
        origin: rows::origin(row, 19)?,
        tags: rows::list(row, 22)?,
        trace: rows::get(row, 23)?,
        payload: rows::json(row, 24)?,
        claimed_at: now,
    })
}
