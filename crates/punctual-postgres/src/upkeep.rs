//! Promote, reap, prune, counters and the audit.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::job::{Next, Outcome as Ended, Standing, decide};
use punctual_core::{LeaseId, NodeId, Timestamp};
use punctual_store::{
    Actor, At, AuditAction, Promoted, Pruned, ReapAsk, Reaped, ReapedAttempt, ReapedJob, Retention,
    RollupCount, Settlement, rules,
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::connection::{Bound, Conn};
use crate::error::Outcome;
use crate::lists::all;
use crate::rows::{self, Instant, Read};
use crate::settle::settle_within;
use crate::sql::{self, Statement};
use crate::{jobs, leaders, overdue};

pub(crate) async fn promote(conn: &mut Conn, at: At, most: usize) -> Outcome<Promoted> {
    let bound: Bound<'_> = &[&rows::at(at), &rows::count(most), &rules::UNREADABLE];
    let found = conn.query(&sql::PROMOTE, bound).await?;
    let mut promoted = Promoted {
        at: Timestamp::EPOCH,
        queues: BTreeMap::new(),
        next_due: None,
        next_deadline: None,
        unreadable: Vec::new(),
    };
    let mut has_waiting = false;
    for row in &found {
        promoted.at = rows::instant(row, 0)?;
        promoted.next_due = rows::instant_opt(row, 1)?;
        if let Some(queue) = rows::get::<Option<String>>(row, 2)? {
            promoted.queues.insert(queue, rows::natural(row, 3)?);
        }
        has_waiting = rows::get(row, 4)?;
        promoted.next_deadline = rows::instant_opt(row, 5)?;
        promoted.unreadable = rows::unreadable_jobs(row, 6)?;
    }
    if has_waiting {
        free(conn, &mut promoted, most).await?;
    }
    Ok(promoted)
}

/// Lets the oldest waiting job go of each schedule that has no unfinished ones but those that wait.
/// A statement of its own, which sees what the first has ended, and only if any job waits.
async fn free(conn: &mut Conn, promoted: &mut Promoted, most: usize) -> Outcome<()> {
    let bound: Bound<'_> = &[&Instant(promoted.at), &rows::count(most), &rules::UNREADABLE];
    let mut unreadable = Vec::new();
    for row in &conn.query(&sql::WAIT_FREE, bound).await? {
        promoted.next_due = rows::instant_opt(row, 0)?;
        if let Some(queue) = rows::get::<Option<String>>(row, 1)? {
            *promoted.queues.entry(queue).or_default() += rows::natural::<u64>(row, 2)?;
        }
        unreadable = rows::unreadable_jobs(row, 3)?;
    }
    promoted.unreadable.extend(unreadable);
    promoted.unreadable.sort();
    Ok(())
}

pub(crate) async fn reap(conn: &mut Conn, at: At, ask: &ReapAsk) -> Outcome<Reaped> {
    let (now, renewed) = leaders::begin_renewed(conn, at, &ask.fence, ask.lease).await?;
    let mut reaped = Reaped::nothing(now);
    let Some(leader) = renewed else {
        conn.rollback().await?;
        return Ok(reaped);
    };
    reaped.led = true;
    reaped.dead = bury(conn, now, ask.node_lifetime, leader.watched).await?;
    let orphans = conn.query(&sql::LEASE_ORPHANS, &[&rows::count(ask.most)]).await?;
    let (mut items, mut bad) = (Vec::with_capacity(orphans.len()), Vec::new());
    for row in &orphans {
        let Some(orphan) = read_orphan(row)? else {
            let job = rows::job_id(row, 0)?;
            reaped.jobs.push(ReapedJob { job, next: Next::Failed, attempt: None });
            bad.push(job.as_uuid());
            continue;
        };
        let transition = decide(&orphan.standing, Ended::Abandoned, &ask.policy, now);
        let applied = rules::with_cancel(&transition, orphan.cancel.as_deref());
        let Standing { job, attempt: number, claimed_at, .. } = orphan.standing;
        let attempt = ReapedAttempt {
            kind: orphan.kind,
            queue: orphan.queue,
            number,
            held: now.since(claimed_at),
            error: applied.error,
        };
        reaped.jobs.push(ReapedJob { job, next: applied.next, attempt: Some(attempt) });
        items.push(Settlement {
            job,
            lease: orphan.lease,
            transition,
            result: None,
            then: Vec::new(),
        });
    }
    if !bad.is_empty() {
        conn.query(&sql::LEASE_DROP, &[&bad, &Instant(now), &rules::UNREADABLE]).await?;
    }
    if !items.is_empty() {
        settle_within(conn, At::Fixed(now), &items).await?;
    }
    reaped.overdue = overdue::end(conn, now, &ask.policy, ask.most - reaped.jobs.len()).await?;
    conn.commit().await?;
    Ok(reaped)
}

/// Declares the nodes dead whose last heartbeat is older than a lifetime, if the role was led for as
/// long since then. A clock that was set back must not keep a dead one alive.
async fn bury(
    conn: &mut Conn,
    now: Timestamp,
    lifetime: Duration,
    watched: Duration,
) -> Outcome<Vec<NodeId>> {
    let watch = watched.checked_sub(lifetime).map(rows::micros);
    let bound: Bound<'_> =
        &[&Instant(now), &Instant(now - lifetime), &Instant(now + lifetime), &watch];
    let mut dead = Vec::new();
    for row in &conn.query(&sql::NODE_DIE, bound).await? {
        if rows::get(row, 1)? {
            dead.push(rows::node_id(row, 0)?);
        }
    }
    dead.sort_unstable();
    Ok(dead)
}

/// A lease whose node is dead.
struct Orphan {
    standing: Standing,
    lease: LeaseId,
    cancel: Option<String>,
    queue: String,
    kind: String,
}

/// None: the lease cannot be read.
fn read_orphan(row: &Row) -> Read<Option<Orphan>> {
    let lease = rows::lease_id(row, 1)?;
    let seat: [i32; 3] = [rows::get(row, 2)?, rows::get(row, 3)?, rows::get(row, 4)?];
    if lease.as_bytes() == &[0; 16] || seat.iter().any(|number| *number < 0) {
        return Ok(None);
    }
    // A body that cannot be read must not keep the others from being taken back; the next claim
    // sets it aside.
    let budget = rows::length_opt(row, 8).unwrap_or(None);
    let standing = Standing {
        job: rows::job_id(row, 0)?,
        attempt: rows::natural(row, 2)?,
        spent: rows::natural(row, 3)?,
        crashes: rows::natural(row, 4)?,
        resource_releases: 0,
        max_attempts: rows::natural(row, 7).unwrap_or(u32::MAX),
        used: rows::length_opt(row, 10).unwrap_or(None).unwrap_or_default(),
        claimed_at: rows::instant(row, 5)?,
        budget,
        expires_at: rows::instant_opt(row, 9)?,
    };
    let (cancel, queue, kind) = (rows::get(row, 6)?, rows::get(row, 11)?, rows::get(row, 12)?);
    Ok(Some(Orphan { standing, lease, cancel, queue, kind }))
}

/// Drops old rows where they lie in no day.
pub(crate) async fn prune(
    conn: &mut Conn,
    at: At,
    retention: &Retention,
    most: usize,
) -> Outcome<(Timestamp, Pruned)> {
    let now = jobs::begin(conn, at).await?;
    let before = |kept: Duration| Instant(now - kept);
    let most = rows::count(most);
    let finished = (before(retention.finished), before(retention.failed));
    let gone: Vec<Uuid> =
        all(conn, &sql::DONE_OLD, &[&finished.0, &finished.1, &most], |row| rows::get(row, 0))
            .await?;
    if !gone.is_empty() {
        conn.query(&sql::NOTES_PRUNE, &[&gone]).await?;
    }
    let (ledger, records) = (before(retention.ledger), before(retention.records));
    let pruned = Pruned {
        jobs: gone.len() as u64,
        slots: drop_old(conn, &sql::SLOT_PRUNE, ledger, most).await?,
        revisions: drop_old(conn, &sql::REVISION_PRUNE, ledger, most).await?,
        keys: drop_old(conn, &sql::KEY_PRUNE, Instant(now), most).await?,
        records: drop_old(conn, &sql::ROLLUP_PRUNE, records, most).await?
            + drop_old(conn, &sql::AUDIT_PRUNE, records, most).await?
            + drop_old(conn, &sql::LEADER_CHANGE_PRUNE, records, most).await?,
        nodes: {
            let gone = conn.query_one(&sql::NODE_PRUNE, &[&before(retention.nodes)]).await?;
            rows::natural(&gone, 0)?
        },
    };
    conn.commit().await?;
    Ok((now, pruned))
}

async fn drop_old(
    conn: &mut Conn,
    statement: &Statement,
    before: Instant,
    most: i64,
) -> Outcome<u64> {
    let gone = conn.query_one(statement, &[&before, &most]).await?;
    rows::natural(&gone, 0)
}

pub(crate) async fn roll_up(conn: &mut Conn, counts: &[RollupCount]) -> Outcome<()> {
    let mut sums: BTreeMap<(Timestamp, &str, &str, &str), (i64, i64)> = BTreeMap::new();
    for count in counts {
        let key = (count.minute, count.metric.as_str(), count.queue.as_str(), count.kind.as_str());
        let total = sums.entry(key).or_default();
        total.0 = total.0.saturating_add(count.count);
        total.1 = total.1.saturating_add(count.sum);
    }
    let minutes: Vec<Instant> = sums.keys().map(|key| Instant(key.0)).collect();
    let metrics: Vec<&str> = sums.keys().map(|key| key.1).collect();
    let queues: Vec<&str> = sums.keys().map(|key| key.2).collect();
    let kinds: Vec<&str> = sums.keys().map(|key| key.3).collect();
    let counts: Vec<i64> = sums.values().map(|total| total.0).collect();
    let totals: Vec<i64> = sums.values().map(|total| total.1).collect();
    let bound: Bound<'_> = &[&minutes, &metrics, &queues, &kinds, &counts, &totals];
    conn.query(&sql::ROLLUP_ADD, bound).await?;
    Ok(())
}

/// Notes what somebody did.
pub(crate) async fn note(
    conn: &mut Conn,
    now: Timestamp,
    actor: &Actor,
    action: &AuditAction,
    subject: &str,
) -> Outcome<()> {
    note_at(conn, At::Fixed(now), actor, action, subject).await
}

/// The same, by whatever clock.
pub(crate) async fn note_at(
    conn: &mut Conn,
    at: At,
    actor: &Actor,
    action: &AuditAction,
    subject: &str,
) -> Outcome<()> {
    let entry = [&actor.who, &actor.why, action.as_str(), subject].map(rows::text);
    conn.query(&sql::AUDIT_INSERT, &[&rows::at(at), &entry[0], &entry[1], &entry[2], &entry[3]])
        .await?;
    Ok(())
}
