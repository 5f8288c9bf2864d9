//! What a queue allows, and what is in it.

use punctual_core::Timestamp;
use punctual_store::{Pause, Queue, QueueCounts, QueueStats, Result, StatsCursor, Store};

use super::Reason;
use super::cluster::Cluster;
use crate::wording::{after_colon, argument, count, lasting, length, when};

/// A queue: its settings, and what is in it by kind.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) queue: Queue,
    pub(super) stats: Vec<QueueStats>,
    /// When stored counts were counted; none: they were counted for this answer.
    pub(super) counted_at: Option<Timestamp>,
    /// Are not all jobs counted yet?
    is_partial: bool,
}

impl Line {
    /// Reads a queue, with or without settings; of its kinds as many as a page has.
    pub(super) async fn read(store: &dyn Store, name: &str) -> Result<Line> {
        let counts = counts(store, name).await?;
        Line::of(store, name, counts).await
    }

    /// The same, with counts that somebody has read just now.
    pub(super) async fn of(store: &dyn Store, name: &str, counts: QueueCounts) -> Result<Line> {
        let queues = store.queues().await?;
        let queue = queues.into_iter().find(|queue| queue.name == name);
        let queue = queue.unwrap_or_else(|| Queue::unset(name));
        Ok(Line {
            queue,
            stats: counts.items,
            counted_at: counts.counted_at,
            is_partial: counts.is_partial,
        })
    }

    /// How many of its jobs run, on all nodes.
    pub(super) fn running(&self) -> u64 {
        self.stats.iter().map(|stats| stats.running).sum()
    }

    /// What keeps every job of a kind in this queue from being claimed, the worst first.
    pub(super) fn hindrances(&self, cluster: &Cluster, kind: &str) -> Vec<Reason> {
        let name = &self.queue.name;
        let taken = cluster.no_taker(name, kind);
        [self.paused(cluster.now), taken, self.limit(cluster.now)].into_iter().flatten().collect()
    }

    /// Somebody paused it.
    pub(super) fn paused(&self, now: Timestamp) -> Option<Reason> {
        let name = &self.queue.name;
        let pause = self.queue.pause.as_ref().filter(|pause| pause.is_in_force(now))?;
        let text = format!("queue `{name}` is {}", paused(pause, now));
        let remedy = format!("resume it: `punctual queue resume {}`", argument(name));
        Some(Reason::new("paused_queue", text).remedy(remedy))
    }

    /// How old the counts are, or that they are incomplete; empty if they are of this moment.
    pub(super) fn count_age(&self, now: Timestamp) -> String {
        match self.counted_at {
            Some(counted_at) => format!("; counted {} ago", length(now.since(counted_at))),
            None if self.is_partial => "; not all jobs are counted yet".to_owned(),
            None => String::new(),
        }
    }

    /// As many of its jobs run as may.
    pub(super) fn limit(&self, now: Timestamp) -> Option<Reason> {
        let (name, running) = (&self.queue.name, self.running());
        let most = self.queue.limits.max_running.filter(|most| running >= u64::from(*most))?;
        let text = match most {
            0 => format!(
                "queue `{name}` has a limit of 0 jobs (max_running = 0): its jobs cannot run"
            ),
            _ => format!(
                "queue `{name}` is at its limit: {} running on all nodes, max_running = {most}{}",
                count(running, "job", "jobs"),
                self.count_age(now)
            ),
        };
        let remedy = format!(
            "wait for a job to finish, or raise the limit, for example: \
             `punctual queue limit {} {}`",
            argument(name),
            most.saturating_mul(2)
        );
        let remedy = match most {
            0 => format!("remove the limit: `punctual queue limit {} --none`", argument(name)),
            _ => remedy,
        };
        Some(Reason::new("queue_limit", text).remedy(remedy))
    }
}

/// Maximum number of kinds of one queue in an explanation.
const KINDS: usize = 100;

/// The job counts of one queue, by kind.
pub(crate) async fn counts(store: &dyn Store, name: &str) -> Result<QueueCounts> {
    // No kind is empty, so that all of them come after it.
    let before = StatsCursor { queue: name.to_owned(), kind: String::new() };
    let mut counts = store.queue_stats(Some(&before), KINDS).await?;
    counts.items.retain(|stats| stats.queue == name);
    Ok(counts)
}

/// A pause that is in force, in words: by whom, since when, until when, why.
pub(crate) fn paused(pause: &Pause, now: Timestamp) -> String {
    let until = match pause.until {
        Some(until) => format!("; the pause ends {}", when(now, until)),
        None => "; the pause has no end time".to_owned(),
    };
    let by = match pause.by.who.as_str() {
        "" => String::new(),
        who => format!(" by {who}"),
    };
    format!("paused{by} {}{}{until}", lasting(now, pause.since), after_colon(&pause.by.why))
}
