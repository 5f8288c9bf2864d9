//! Calls off jobs of schedules that wait for a node which does not come back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::format_duration;
use punctual_core::job::JobState;
use punctual_core::schedule::NODE_QUEUE;
use punctual_store::{
    Actor, CancelAnswer, Cursor, JobFilter, JobView, Node, Result, StatsCursor, Store, limits,
};

use crate::config::Timing;
use crate::env::Env;
use crate::leader::{MAINTENANCE, Roles};
use crate::service::{Report, Rest, Service, within};
use crate::telemetry;

/// How long a job of a schedule waits for a node of its own to come back: as long as a missed slot
/// may be caught up, if the schedule does not say.
pub(crate) const STRANDED: Duration = Duration::from_secs(86_400);
/// Nobody is in a hurry for what has waited for a day.
const PERIOD: Duration = Duration::from_secs(600);
/// Pages of a queue that one pass looks at; the next goes on.
const PAGES: usize = 50;

/// Looks after the queues of nodes that are gone.
pub(crate) struct Stranded {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) roles: Arc<Roles>,
    pub(crate) timing: Timing,
}

#[async_trait]
impl Service for Stranded {
    fn name(&self) -> &'static str {
        "stranded"
    }

    async fn run_once(&mut self) -> Result<Report> {
        if self.roles.current(MAINTENANCE).is_none() {
            return Ok(Report::new(0, Rest::AtMost(PERIOD)));
        }
        let called_off = call_off(&*self.env, &*self.store, self.timing.call).await?;
        telemetry::stranded(called_off);
        Ok(Report::new(called_off, Rest::AtMost(PERIOD)))
    }
}

/// Calls off what has waited for too long; how many jobs.
pub(crate) async fn call_off(
    env: &dyn Env,
    store: &dyn Store,
    patience: Duration,
) -> Result<usize> {
    let nodes = within(env, patience, store.nodes()).await?;
    let live = nodes.iter().filter(|node| node.dead_at.is_none());
    let served: BTreeSet<&str> = live.flat_map(queues).collect();
    let mut called_off = 0;
    for queue in waiting(env, store, patience).await? {
        if !served.contains(queue.as_str()) {
            called_off += call_off_in(env, store, patience, &queue).await?;
        }
    }
    Ok(called_off)
}

fn queues(node: &Node) -> impl Iterator<Item = &str> {
    node.info.queues.iter().map(String::as_str)
}

/// The queues of nodes and labels in which something waits.
async fn waiting(env: &dyn Env, store: &dyn Store, patience: Duration) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut after = Some(StatsCursor { queue: NODE_QUEUE.to_string(), kind: String::new() });
    while let Some(cursor) = after {
        let call = store.queue_stats(Some(&cursor), limits::PAGE_MAX);
        let page = within(env, patience, call).await?;
        after = page.next;
        for stats in page.items {
            if !stats.queue.starts_with(NODE_QUEUE) {
                return Ok(names);
            }
            if stats.ready + stats.scheduled + stats.retrying + stats.blocked > 0 {
                names.insert(stats.queue);
            }
        }
    }
    Ok(names)
}

async fn call_off_in(
    env: &dyn Env,
    store: &dyn Store,
    patience: Duration,
    queue: &str,
) -> Result<usize> {
    let now = within(env, patience, store.now(env.at())).await?;
    let is_stranded = |job: &JobView| {
        let is_waiting = matches!(
            job.state,
            JobState::Ready | JobState::Scheduled | JobState::Retrying | JobState::Blocked
        );
        // What somebody put there by hand is for that somebody to take away.
        is_waiting && job.schedule.is_some() && job.due_at.is_some_and(|due| due + STRANDED <= now)
    };
    let length = format_duration(STRANDED);
    let why =
        format!("no live node serves queue `{queue}`; the job was due more than {length} ago");
    let actor = Actor::new("punctual", &why);
    let filter = JobFilter { queue: Some(queue.to_owned()), ..JobFilter::default() };
    let (mut after, mut called_off) = (None::<Cursor>, 0);
    for _ in 0..PAGES {
        let page =
            within(env, patience, store.upkeep_jobs(&filter, after, limits::PAGE_MAX)).await?;
        for job in page.items.iter().filter(|job| is_stranded(job)) {
            let answer = within(env, patience, store.cancel(env.at(), job.id, &actor)).await?;
            called_off += usize::from(answer == CancelAnswer::Cancelled);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(called_off)
}
