//! Warnings that a node logs when it starts: handlers and waiting jobs that no live node serves.
//!
//! Reads the nodes and the job counts once, up to a bound, and changes nothing. The same facts are
//! available later from `why` and `doctor`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use punctual_store::{At, QueueStats, Result, StatsCursor, Store, limits};

use crate::why::cluster::Cluster;
use crate::wording::listed;

/// Maximum queue/kind pairs that are checked; `doctor` has the same default.
const PAIRS_MAX: usize = 1_000;

/// A handler of this node, with the queue of its job type.
#[derive(Clone, Debug)]
pub(crate) struct HandlerQueue {
    pub(crate) kind: &'static str,
    pub(crate) queue: &'static str,
}

/// Logs a warning for each queue of `handlers` that no live node serves, and for each queue/kind
/// pair with waiting jobs that no live node can claim. Call it after the node has joined.
///
/// A check that fails is logged too: it must not stop a node from starting.
pub(crate) async fn log_warnings(
    store: &dyn Store,
    at: At,
    lifetime: Duration,
    handlers: &[HandlerQueue],
) {
    if let Err(error) = check(store, at, lifetime, handlers).await {
        tracing::warn!(%error, "start check failed: cannot read nodes and job counts");
    }
}

async fn check(
    store: &dyn Store,
    at: At,
    lifetime: Duration,
    handlers: &[HandlerQueue],
) -> Result<()> {
    let cluster = Cluster::read_with(store, at, lifetime).await?;
    for (queue, kinds) in unserved(handlers, &cluster) {
        let kinds = listed(&kinds);
        tracing::warn!(
            queue,
            kinds,
            "no live node serves the queue of these handlers, so their jobs wait; add the queue to \
             `queues`"
        );
    }
    for stats in waiting(store).await? {
        let Some(reason) = cluster.no_taker(&stats.queue, &stats.kind) else { continue };
        let QueueStats { queue, kind, .. } = &stats;
        let jobs = jobs_waiting(&stats);
        tracing::warn!(queue, kind, jobs, reason = reason.text, "waiting jobs cannot run");
    }
    Ok(())
}

/// The queues that no live node serves, each with the kinds whose jobs wait there.
fn unserved(
    handlers: &[HandlerQueue],
    cluster: &Cluster,
) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut queues: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for HandlerQueue { kind, queue } in handlers {
        if cluster.no_server(queue).is_some() {
            queues.entry(*queue).or_default().insert(*kind);
        }
    }
    queues
}

/// The queue/kind pairs with waiting jobs.
async fn waiting(store: &dyn Store) -> Result<Vec<QueueStats>> {
    let mut pairs = Vec::new();
    let mut after: Option<StatsCursor> = None;
    let mut examined = 0;
    loop {
        let most = limits::PAGE_MAX.min(PAIRS_MAX - examined);
        if most == 0 {
            return Ok(pairs);
        }
        let page = store.queue_stats(after.as_ref(), most).await?;
        examined += page.items.len();
        pairs.extend(page.items.into_iter().filter(|stats| jobs_waiting(stats) > 0));
        after = page.next;
        if after.is_none() {
            return Ok(pairs);
        }
    }
}

fn jobs_waiting(stats: &QueueStats) -> u64 {
    stats.ready + stats.scheduled + stats.retrying + stats.blocked
}
