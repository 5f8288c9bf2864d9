//! Whether what waits can run.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_store::{Queue, QueueStats, Result, StatsCursor, Store, limits as bounds};

use super::{Finding, Thresholds};
use crate::why::Reason;
use crate::why::cluster::Cluster;
use crate::why::line::paused;
use crate::wording::{argument, count, lasting, length, listed};

/// What is in the queues, and their settings.
pub(super) struct Facts {
    queues: Vec<Queue>,
    pub(super) stats: Vec<QueueStats>,
    /// When stored counts were counted; none: they were counted for this check.
    counted_at: Option<Timestamp>,
    /// Are not all jobs counted yet?
    is_partial: bool,
    pub(super) has_more: bool,
}

impl Facts {
    pub(super) async fn read(store: &dyn Store, limits: &Thresholds) -> Result<Facts> {
        let queues = store.queues().await?;
        let (stats, counted_at) = (Vec::new(), None);
        let mut facts = Facts { queues, stats, counted_at, is_partial: false, has_more: false };
        let mut after: Option<StatsCursor> = None;
        loop {
            let most = limits.kinds.saturating_sub(facts.stats.len()).min(bounds::PAGE_MAX);
            if most == 0 {
                facts.has_more = true;
                return Ok(facts);
            }
            let page = store.queue_stats(after.as_ref(), most).await?;
            facts.stats.extend(page.items);
            facts.is_partial |= page.is_partial;
            facts.counted_at = facts.counted_at.or(page.counted_at);
            after = page.next;
            if after.is_none() {
                return Ok(facts);
            }
        }
    }
}

/// The age of stored job counts that is reported. Counts are made every two seconds, or every 20
/// times as long as a count takes, so that older ones mean that counting fails.
const COUNTS_OLD: Duration = Duration::from_secs(600);

/// The stored job counts are missing or not renewed.
fn old_counts(facts: &Facts, cluster: &Cluster) -> Option<Reason> {
    if facts.is_partial {
        let text = "not all jobs are counted yet, so that job counts are too low";
        let remedy = "a server counts all jobs within a minute of its start; if it does not, look for errors \
                      of the service `queue_counter` in its log";
        return Some(Reason::new("partial_counts", text).remedy(remedy));
    }
    let age = cluster.now.since(facts.counted_at?);
    let text = format!("the job counts of all queues are {} old", length(age));
    let remedy = "check that a node holds the role `maintenance`: `punctual leader list`; and look \
                  for errors of the service `queue_counter` in its log";
    (age >= COUNTS_OLD).then(|| Reason::new("old_counts", text).remedy(remedy))
}

pub(super) fn findings(facts: &Facts, cluster: &Cluster, limits: &Thresholds) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    // That no node is alive was told, and is why for every queue.
    if cluster.no_node().is_none() {
        findings.extend(without_node(facts, cluster).into_iter().map(Finding::problem));
    }
    let long = facts.queues.iter().filter_map(|queue| paused_long(queue, cluster, limits));
    findings.extend(long.map(Finding::warning));
    findings.extend(old_counts(facts, cluster).map(Finding::warning));
    findings.extend(dead_letters(&facts.stats, limits).map(Finding::warning));
    findings
}

/// Jobs are ready that nobody can claim: one finding for a queue that nobody serves, one for each
/// kind that nobody handles.
fn without_node(facts: &Facts, cluster: &Cluster) -> Vec<Reason> {
    let ready = facts.stats.iter().filter(|stats| stats.ready > 0);
    let mut unserved = BTreeSet::new();
    let mut reasons = Vec::new();
    for stats in ready {
        let Some(reason) = cluster.no_taker(&stats.queue, &stats.kind) else { continue };
        let is_unserved = cluster.no_server(&stats.queue).is_some();
        if is_unserved && !unserved.insert(&stats.queue) {
            continue;
        }
        let is_it = |other: &&QueueStats| {
            other.queue == stats.queue && (is_unserved || other.kind == stats.kind)
        };
        let waiting = facts.stats.iter().filter(is_it);
        let jobs: u64 = waiting.clone().map(|stats| stats.ready).sum();
        let oldest = waiting.filter_map(|stats| stats.oldest_due_at).min();
        let oldest = oldest.map_or_else(String::new, |oldest| {
            format!(", the oldest ready {}", lasting(cluster.now, oldest))
        });
        let wait = count(jobs, "job", "jobs");
        let text = format!("{wait} cannot run{oldest}: {}", reason.text);
        reasons.push(Reason { text, ..reason });
    }
    reasons
}

/// A pause that somebody may have forgotten.
fn paused_long(queue: &Queue, cluster: &Cluster, limits: &Thresholds) -> Option<Reason> {
    let pause = queue.pause.as_ref().filter(|pause| pause.until.is_none())?;
    if cluster.now.since(pause.since) < limits.pause {
        return None;
    }
    let text = format!("queue `{}` is {}", queue.name, paused(pause, cluster.now));
    let remedy = format!(
        "resume it: `punctual queue resume {0}`; or set an end: \
         `punctual queue pause {0} --until TIME`",
        argument(&queue.name)
    );
    Some(Reason::new("paused_long", text).remedy(remedy))
}

/// Jobs that have failed and that nobody has tried again.
fn dead_letters(stats: &[QueueStats], limits: &Thresholds) -> Option<Reason> {
    let mut with: Vec<&QueueStats> = stats.iter().filter(|stats| stats.failed > 0).collect();
    with.sort_by_key(|stats| std::cmp::Reverse(stats.failed));
    let failed: u64 = with.iter().map(|stats| stats.failed).sum();
    if failed < limits.dead_letters.max(1) {
        return None;
    }
    let kinds = with.iter().map(|stats| {
        format!("{} of kind `{}` in queue `{}`", stats.failed, stats.kind, stats.queue)
    });
    let text = format!("{}: {}", count(failed, "failed job", "failed jobs"), listed(kinds));
    let remedy = "list them: `punctual job list --state failed`; after fixing the cause, retry \
                  all: `punctual job retry --all-matching state:failed`";
    Some(Reason::new("failed_jobs", text).remedy(remedy))
}
