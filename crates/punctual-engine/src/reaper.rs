//! Takes back the jobs of dead nodes, ends overdue attempts of remote workers, and drops what is too old to keep.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::job::{AttemptOutcome, Next};
use punctual_store::{OverdueJob, ReapAsk, Result, Store};

use crate::config::Config;
use crate::counts::{Counts, Finished};
use crate::env::Env;
use crate::leader::{MAINTENANCE, Roles};
use crate::promoter::Timers;
use crate::service::{Report, Rest, Service, within};
use crate::telemetry;

/// Leases taken back at once: more makes others wait for the commit.
const REAP_AT_ONCE: usize = 500;

/// Takes back the jobs of nodes that have been silent for too long, and ends the attempts of remote
/// workers that exceed their time.
pub(crate) struct Reaper {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) roles: Arc<Roles>,
    pub(crate) timers: Arc<Timers>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) config: Arc<Config>,
}

#[async_trait]
impl Service for Reaper {
    fn name(&self) -> &'static str {
        "reaper"
    }

    async fn run_once(&mut self) -> Result<Report> {
        let timing = &self.config.timing;
        let rest = Rest::AtMost(timing.reap);
        let Some(fence) = self.roles.current(MAINTENANCE) else {
            return Ok(Report::new(0, rest));
        };
        let ask = ReapAsk {
            fence,
            lease: timing.leader_lease,
            node_lifetime: timing.dead,
            policy: self.config.policy,
            most: REAP_AT_ONCE,
        };
        let call = self.store.reap(self.env.at(), &ask);
        let reaped = match within(&*self.env, timing.call, call).await {
            Ok(reaped) => reaped,
            Err(error) => {
                self.roles.unsure(std::slice::from_ref(&ask.fence));
                return Err(error);
            }
        };
        if !reaped.led {
            self.roles.lost(&ask.fence);
            return Ok(Report::new(0, rest));
        }
        telemetry::reaped(&reaped);
        let now = self.env.elapsed();
        let overdue = reaped.overdue.iter().map(|job| job.next);
        for next in reaped.jobs.iter().map(|job| job.next).chain(overdue) {
            if let Next::After(wait) = next {
                self.timers.note(now.saturating_add(wait));
            }
        }
        let ended = reaped.jobs.len() + reaped.overdue.len();
        for overdue in reaped.overdue {
            self.count(reaped.at, overdue);
        }
        let is_more = ended >= REAP_AT_ONCE;
        Ok(Report::new(ended, if is_more { Rest::None } else { rest }))
    }
}

impl Reaper {
    /// Counts an attempt of a remote worker that was ended: its server learns nothing of it.
    fn count(&self, at: Timestamp, overdue: OverdueJob) {
        let OverdueJob { attempt, queue, kind, claimed_at, .. } = overdue;
        let took = at.since(claimed_at);
        let finished = Finished { queue, kind, attempt, took, is_settled: false, waited: None };
        self.counts.add(at, AttemptOutcome::TimedOut, finished);
    }
}

/// Drops history that is older than it must be kept.
pub(crate) struct Pruner {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) roles: Arc<Roles>,
    pub(crate) config: Arc<Config>,
}

/// Rows dropped at once: few enough that nobody waits for them.
const PRUNE_AT_ONCE: usize = 500;

/// How long a prune may take. A store that drops whole days makes sure of each before, and whoever
/// does not wait for that leaves a transaction behind that goes on at the server.
const PRUNE_PATIENCE: Duration = Duration::from_secs(30);

/// Between two drops, so that others have their turn.
const PRUNE_PAUSE: Duration = Duration::from_millis(20);

#[async_trait]
impl Service for Pruner {
    fn name(&self) -> &'static str {
        "pruner"
    }

    async fn run_once(&mut self) -> Result<Report> {
        let timing = &self.config.timing;
        if self.roles.current(MAINTENANCE).is_none() {
            return Ok(Report::new(0, Rest::AtMost(timing.prune)));
        }
        let call = self.store.prune(self.env.at(), &self.config.retention, PRUNE_AT_ONCE);
        let pruned = within(&*self.env, timing.call.max(PRUNE_PATIENCE), call).await?;
        let punctual_store::Pruned { jobs, slots, revisions, keys, records, nodes } = pruned;
        let rows = jobs + slots + revisions + keys + records + nodes;
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        let rest = if rows >= PRUNE_AT_ONCE { PRUNE_PAUSE } else { timing.prune };
        Ok(Report::new(rows, Rest::AtMost(rest)))
    }
}
