//! Why the jobs of a queue wait.

use punctual_store::{At, QueueCounts, QueueStats, Store, limits};

use super::cluster::Cluster;
use super::line::{Line, counts};
use super::{Reason, Why, answered};
use crate::Result;
use crate::wording::{argument, count, did_you_mean, lasting, listed};

/// Says why the jobs of a queue wait: who paused it, whether its limit is reached, who serves it,
/// which kinds nobody handles, and how much is in it.
pub async fn queue(store: &dyn Store, at: At, name: &str) -> Result<Why> {
    let subject = format!("queue `{name}`");
    match counts(store, name).await {
        Ok(counts) => counted(store, at, name, counts).await,
        Err(error) => answered(&subject, Err(error)),
    }
}

/// The same, for somebody who has counted what is in it.
pub(crate) async fn counted(
    store: &dyn Store,
    at: At,
    name: &str,
    counts: QueueCounts,
) -> Result<Why> {
    let subject = format!("queue `{name}`");
    let facts = Facts::read(store, at, name, counts).await;
    answered(&subject, facts.map(|facts| explain(&facts, subject.clone())))
}

/// All that the answer depends on.
struct Facts {
    cluster: Cluster,
    line: Line,
    /// Has it a setting?
    is_set: bool,
    /// Of an unused queue: those that are used.
    others: Vec<String>,
}

impl Facts {
    async fn read(
        store: &dyn Store,
        at: At,
        name: &str,
        counts: QueueCounts,
    ) -> punctual_store::Result<Facts> {
        let cluster = Cluster::read(store, at).await?;
        let line = Line::of(store, name, counts).await?;
        let settings = store.queues().await?;
        let is_set = settings.iter().any(|queue| queue.name == name);
        let mut others: Vec<String> = settings.into_iter().map(|queue| queue.name).collect();
        if !is_set && line.stats.is_empty() {
            let stats = store.queue_stats(None, limits::PAGE_MAX).await?.items;
            others.extend(stats.into_iter().map(|stats| stats.queue));
            others.extend(cluster.live().flat_map(|node| node.info.queues.clone()));
        }
        others.sort_unstable();
        others.dedup();
        Ok(Facts { cluster, line, is_set, others })
    }
}

fn explain(facts: &Facts, subject: String) -> Why {
    let Facts { cluster, line, .. } = facts;
    let name = &line.queue.name;
    let paused = line.paused(cluster.now);
    let is_used = facts.is_set || !line.stats.is_empty() || facts.others.contains(name);
    let state = match (is_used, &paused) {
        (false, _) => "unused",
        (true, Some(_)) => "paused",
        (true, None) => "active",
    };
    if !is_used {
        let meant = did_you_mean(name, facts.others.iter().map(String::as_str));
        let meant = meant.map_or_else(String::new, |meant| format!("; {meant}"));
        let text = format!(
            "queue `{name}` is unused: no jobs, no settings, and no live node serves it{meant}"
        );
        let reasons = vec![Reason::new("unused", text)];
        return Why { subject, state: state.to_owned(), reasons };
    }
    let unserved = cluster.no_node().or_else(|| cluster.no_server(name));
    let is_served = unserved.is_none();
    let mut reasons: Vec<Reason> =
        [paused, unserved, line.limit(cluster.now)].into_iter().flatten().collect();
    if is_served {
        let waiting = line.stats.iter().filter(|stats| stats.ready > 0);
        reasons.extend(waiting.filter_map(|stats| cluster.no_taker(name, &stats.kind)));
    }
    reasons.push(depth(line, cluster));
    reasons.extend(dead_letters(line));
    Why { subject, state: state.to_owned(), reasons }
}

/// How much is in it, and since when the first one waits.
fn depth(line: &Line, cluster: &Cluster) -> Reason {
    let sum = |count: fn(&QueueStats) -> u64| line.stats.iter().map(count).sum::<u64>();
    let (ready, running) = (sum(|stats| stats.ready), sum(|stats| stats.running));
    let waiting = [
        (sum(|stats| stats.scheduled), "scheduled"),
        (sum(|stats| stats.retrying), "retrying"),
        (sum(|stats| stats.blocked), "blocked"),
    ];
    if ready + running == 0 && waiting.iter().all(|(count, _)| *count == 0) {
        let text = format!("no waiting or running jobs{}", line.count_age(cluster.now));
        return Reason::new("empty", text);
    }
    let oldest = line.stats.iter().filter_map(|stats| stats.oldest_due_at).min();
    let oldest = oldest.map_or_else(String::new, |oldest| {
        format!(", the oldest {}", lasting(cluster.now, oldest))
    });
    let others = waiting.iter().filter(|(count, _)| *count > 0);
    let others: Vec<String> = others.map(|(count, state)| format!("{count} {state}")).collect();
    let others = match others.is_empty() {
        true => String::new(),
        false => format!("; {}", listed(others)),
    };
    let age = line.count_age(cluster.now);
    let ready = count(ready, "job", "jobs");
    let text = format!("{ready} ready{oldest}; {running} running{others}{age}");
    Reason::new("waiting", text)
}

/// Jobs of it that have failed.
fn dead_letters(line: &Line) -> Option<Reason> {
    let failed: u64 = line.stats.iter().map(|stats| stats.failed).sum();
    let kinds = line.stats.iter().filter(|stats| stats.failed > 0);
    let kinds = listed(kinds.map(|stats| format!("{} of kind `{}`", stats.failed, stats.kind)));
    let text = format!("{}: {kinds}", count(failed, "failed job", "failed jobs"));
    let command = argument(&line.queue.name);
    let reason = || {
        Reason::new("failed_jobs", text)
            .remedy(format!("list them: `punctual job list --state failed --queue {command}`"))
    };
    (failed > 0).then(reason)
}
