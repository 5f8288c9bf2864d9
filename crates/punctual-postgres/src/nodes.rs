//! Nodes and their heartbeats.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::{JobId, LeaseId, NodeId, Timestamp};
use punctual_store::{
    At, BeatAsk, Beaten, JoinResponse, MAINTENANCE, NodeInfo, Progress, Released, RoleBeat,
    Settlement, awaited_queues, limits, rules,
};
use uuid::Uuid;

use crate::connect::sleep;
use crate::connection::{Bound, Conn};
use crate::error::Outcome;
use crate::history::Watch;
use crate::pool::Pool;
use crate::retry::run;
use crate::rows::{self, Instant};
use crate::settle::settle_within;
use crate::shared::Shared;
use crate::{jobs, sql};

/// How often schedules are woken that were locked when a node joined, and the pause before each time:
/// longer together than a fire takes that has locked them.
const WAKES_MAX: usize = 5;
const WAKE_PAUSE: Duration = Duration::from_secs(1);

/// Enters a node, and makes schedules due whose held slots it may run. Returns whether some of them
/// were locked.
pub(crate) async fn join(
    conn: &mut Conn,
    at: At,
    info: &NodeInfo,
) -> Outcome<(JoinResponse, bool)> {
    let joined = conn
        .query_one(
            &sql::NODE_JOIN,
            &[
                &info.id.as_uuid(),
                &info.name,
                &rows::text(&info.version),
                &rows::list_text(&info.queues),
                &rows::list_text(&info.kinds),
                &rows::list_text(&info.labels),
                &rows::at(at),
                &MAINTENANCE,
                &awaited_queues(info),
                &rows::count(limits::HELD_WAKE_MAX),
            ],
        )
        .await?;
    let (found, woken): (i64, i64) = (rows::get(&joined, 1)?, rows::get(&joined, 2)?);
    let response = JoinResponse { at: rows::instant(&joined, 0)?, wakes_schedules: woken > 0 };
    Ok((response, woken < found))
}

/// Makes schedules due whose slots are held for nodes of these queues. Returns how many, and whether
/// some of them were locked.
pub(crate) async fn wake_held(
    conn: &mut Conn,
    at: At,
    queues: &[String],
) -> Outcome<(usize, bool)> {
    let bound: Bound<'_> = &[&rows::at(at), &queues, &rows::count(limits::HELD_WAKE_MAX)];
    let row = conn.query_one(&sql::SCHEDULE_WAKE, bound).await?;
    let (found, woken): (i64, i64) = (rows::get(&row, 0)?, rows::get(&row, 1)?);
    Ok((usize::try_from(woken).unwrap_or_default(), woken < found))
}

/// Wakes the schedules that were locked when a node joined. The fire that had locked them may have held
/// their slots again without seeing the node. The node itself does not wait for it: those that stay
/// locked, or cannot be woken, are examined when their time comes.
pub(crate) async fn wake_locked(pool: Pool, shared: Arc<Shared>, at: At, queues: Vec<String>) {
    for _ in 0..WAKES_MAX {
        sleep(WAKE_PAUSE).await;
        match run!(pool, join, conn => wake_held(conn, at, &queues)) {
            Ok((woken, are_locked)) => {
                if woken > 0 {
                    shared.wake.tell_schedules();
                }
                if !are_locked {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "waking held schedules for a node that joined failed");
            }
        }
    }
}

pub(crate) async fn beat(
    conn: &mut Conn,
    history: &Watch,
    at: At,
    ask: &BeatAsk,
) -> Outcome<Beaten> {
    let roles: Vec<&str> = ask.roles.iter().map(|fence| fence.role.as_str()).collect();
    let terms: Vec<i64> = ask.roles.iter().map(|fence| fence.term).collect();
    let nonces: Vec<Uuid> = ask.roles.iter().map(|fence| fence.nonce.as_uuid()).collect();
    let leases: Vec<Uuid> = ask.leases.iter().map(LeaseId::as_uuid).collect();
    let progress = newest(&ask.progress);
    let jobs: Vec<Uuid> = progress.iter().map(|progress| progress.job.as_uuid()).collect();
    let held: Vec<Uuid> = progress.iter().map(|progress| progress.lease.as_uuid()).collect();
    let kept: Vec<_> = progress.iter().map(|progress| progress.kept(Timestamp::EPOCH)).collect();
    let percents: Vec<Option<i16>> = kept.iter().map(|kept| kept.percent.map(i16::from)).collect();
    let notes: Vec<_> = kept.iter().map(|kept| rows::text(&kept.note)).collect();
    let found = conn
        .query(
            &sql::BEAT,
            &[
                &rows::at(at),
                &ask.node.as_uuid(),
                &roles,
                &terms,
                &nonces,
                &rows::micros(ask.lease),
                &leases,
                &jobs,
                &held,
                &percents,
                &notes,
                &rules::UNREADABLE,
                &rows::count(limits::LEASES_MAX),
                &ask.seeks,
                &MAINTENANCE,
            ],
        )
        .await?;
    let mut beaten = Beaten {
        at: Timestamp::EPOCH,
        alive: false,
        strays: Vec::new(),
        cancels: Vec::new(),
        unreadable: Vec::new(),
        roles: Vec::new(),
        sought: Vec::new(),
        forked_at: None,
    };
    let mut renewed: HashMap<(String, i64, Uuid), RoleBeat> = HashMap::new();
    for row in &found {
        beaten.at = rows::instant(row, 0)?;
        beaten.alive = rows::get(row, 1)?;
        // What a dead node holds is the reaper's.
        let strays = rows::get::<Option<Vec<Uuid>>>(row, 2)?.filter(|_| beaten.alive);
        let strays = strays.unwrap_or_default().into_iter();
        beaten.strays = strays.map(|lease| LeaseId::from_bytes(lease.into_bytes())).collect();
        let cancels = rows::get::<Option<Vec<Uuid>>>(row, 3)?.unwrap_or_default();
        beaten.cancels =
            cancels.into_iter().map(|job| JobId::from_bytes(job.into_bytes())).collect();
        beaten.unreadable = rows::unreadable_jobs(row, 10)?;
        history.saw(None, rows::get(row, 4)?, beaten.at);
        let sought = rows::get::<Option<Vec<Option<Instant>>>>(row, 9)?.unwrap_or_default();
        beaten.sought = sought.into_iter().map(|until| Some(until?.0)).collect();
        if let Some(role) = rows::get::<Option<String>>(row, 5)? {
            let until = rows::instant(row, 8)?;
            let term = (role, rows::get(row, 6)?, rows::get(row, 7)?);
            renewed.insert(term, RoleBeat::Renewed { until });
        }
    }
    let role = |fence: &punctual_store::Fence| {
        let term = (fence.role.clone(), fence.term, fence.nonce.as_uuid());
        renewed.get(&term).copied().unwrap_or(RoleBeat::Lost)
    };
    beaten.roles = ask.roles.iter().map(role).collect();
    history.record(conn, beaten.at).await?;
    beaten.forked_at = history.forked_at();
    Ok(beaten)
}

/// Each attempt's last word, by job, so that two beats lock in one order.
fn newest(progress: &[Progress]) -> Vec<&Progress> {
    let mut last: HashMap<(JobId, LeaseId), &Progress> = HashMap::new();
    for report in progress {
        last.insert((report.job, report.lease), report);
    }
    let mut last: Vec<&Progress> = last.into_values().collect();
    last.sort_by_key(|report| (report.job, report.lease));
    last
}

pub(crate) async fn release(
    conn: &mut Conn,
    at: At,
    node: NodeId,
    leases: &[LeaseId],
) -> Outcome<Released> {
    let now = jobs::begin(conn, at).await?;
    let leases: Vec<Uuid> = leases.iter().map(LeaseId::as_uuid).collect();
    let most = rows::count(limits::RELEASE_MAX);
    let held = conn.query(&sql::LEASES_OF, &[&node.as_uuid(), &leases, &most]).await?;
    let mut items = Vec::with_capacity(held.len());
    for row in &held {
        let (job, lease) = (rows::job_id(row, 0)?, rows::lease_id(row, 1)?);
        items.push(Settlement {
            job,
            lease,
            transition: rules::RELEASED,
            result: None,
            then: Vec::new(),
        });
    }
    settle_within(conn, At::Fixed(now), &items).await?;
    conn.commit().await?;
    Ok(Released { at: now, jobs: items.iter().map(|item| item.job).collect() })
}

pub(crate) async fn leave(conn: &mut Conn, node: NodeId) -> Outcome<()> {
    let held = conn.query_one(&sql::NODE_LEAVE, &[&node.as_uuid()]).await?;
    match rows::natural(&held, 0)? {
        0 => Ok(()),
        leases => Err(rules::still_at_work(node, leases).into()),
    }
}
