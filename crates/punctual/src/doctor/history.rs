//! Whether old history goes.

use std::time::Duration;

use punctual_core::job::JobState;
use punctual_core::{JobId, Timestamp};
use punctual_store::{Cursor, JobFilter, JobView, Result, RollupFilter, Store};

use super::{Finding, Thresholds};
use crate::why::Reason;
use crate::why::cluster::Cluster;
use crate::wording::{apart, count, instant, length};

/// The newest of what should have been pruned: found by where lists begin, not by counting.
pub(super) struct Facts {
    succeeded: Option<JobView>,
    failed: Option<JobView>,
    /// The minute of a counter.
    counter: Option<Timestamp>,
}

/// Jobs among which one is looked for that ended too long ago; a list by id has others between.
const SEEN: usize = 50;

impl Facts {
    pub(super) async fn read(
        store: &dyn Store,
        now: Timestamp,
        limits: &Thresholds,
    ) -> Result<Facts> {
        let before = |kept: Duration| now - kept - limits.overdue;
        let kept = &limits.retention;
        let ended_before = async |state: JobState, after: Cursor, limit: Timestamp| {
            let filter = JobFilter { state: Some(state), ..JobFilter::default() };
            let page = store.jobs(&filter, Some(after), SEEN).await?;
            let is_old = |job: &JobView| job.finished_at.is_some_and(|ended| ended < limit);
            Ok(page.items.into_iter().find(is_old))
        };
        let (finished, failed) = (before(kept.finished), before(kept.failed));
        let by_id = Cursor { ended: None, job: JobId::mint(finished, [0; 10]) };
        let by_end = Cursor { ended: Some(failed), job: JobId::from_bytes([0; 16]) };
        let old = RollupFilter { from: Timestamp::EPOCH, to: before(kept.records), metric: None };
        let counters = store.rollups(&old, None, 1).await?.items;
        Ok(Facts {
            succeeded: ended_before(JobState::Succeeded, by_id, finished).await?,
            failed: ended_before(JobState::Failed, by_end, failed).await?,
            counter: counters.first().map(|counter| counter.minute),
        })
    }
}

pub(super) fn findings(facts: &Facts, cluster: &Cluster, limits: &Thresholds) -> Option<Finding> {
    let kept = &limits.retention;
    let job = |job: &Option<JobView>, how: &str, kept: Duration| {
        let job = job.as_ref()?;
        let at = instant(job.finished_at?);
        Some(format!("job {} {how} at {at} ({})", job.id, rule(kept)))
    };
    let counter = facts
        .counter
        .map(|minute| format!("statistics from {} ({})", instant(minute), rule(kept.records)));
    let limit = cluster.now - kept.nodes - limits.overdue;
    let dead = cluster.nodes.iter().filter(|node| node.running == 0);
    let dead = dead.filter(|node| node.dead_at.is_some_and(|at| at < limit)).count() as u64;
    let nodes = || {
        let nodes = count(dead, "node", "nodes");
        format!("{nodes} dead since before {} ({})", instant(limit), rule(kept.nodes))
    };
    let left: Vec<String> = [
        job(&facts.succeeded, "succeeded", kept.finished),
        job(&facts.failed, "failed", kept.failed),
        counter,
        (dead > 0).then(nodes),
    ]
    .into_iter()
    .flatten()
    .collect();
    let text = format!("old history is not pruned: {}", apart(&left));
    let remedy = "check that a node leads `maintenance` (`punctual leader`) and read its log; \
                  or the nodes are configured with a longer retention";
    let reason = Reason::new("history_overdue", text).remedy(remedy);
    (!left.is_empty()).then(|| Finding::problem(reason))
}

fn rule(kept: Duration) -> String {
    format!("retention {}", length(kept))
}
