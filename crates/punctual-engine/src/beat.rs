//! The heartbeat: one statement that says the node is alive, renews what it leads, tells how far
//! its jobs are, and brings back what the store has to say.

use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::{LeaseId, NodeId};
use punctual_store::bugs::{Bug, is_planted};
use punctual_store::{BeatAsk, Result, Store};

use crate::config::Timing;
use crate::database::Database;
use crate::env::Env;
use crate::leader::Roles;
use crate::level::Level;
use crate::service::{Report, Rest, Service, within};
use crate::telemetry;
use crate::work::Work;

pub(crate) struct Beat {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) database: Arc<Database>,
    pub(crate) work: Arc<Work>,
    pub(crate) roles: Arc<Roles>,
    pub(crate) node: NodeId,
    pub(crate) timing: Timing,
    pub(crate) dead: Arc<Level>,
}

impl Beat {
    /// Gives back what the node holds without knowing: a claim was carried out, and its answer
    /// was lost. A lease that is not known here now never will be, since the node knows of each
    /// from before its claim is sent.
    async fn give_back(&self, strays: &[LeaseId]) -> Result<()> {
        let known = self.work.leases();
        let unknown: Vec<LeaseId> =
            strays.iter().copied().filter(|lease| !known.contains(lease)).collect();
        // Counted leases are not known before they are given.
        if unknown.is_empty() || is_planted(Bug::CountedLease) {
            return Ok(());
        }
        let call = self.store.release(self.env.at(), self.node, &unknown);
        let released = within(&*self.env, self.timing.call, call).await?;
        telemetry::strays(released.jobs.len());
        Ok(())
    }
}

#[async_trait]
impl Service for Beat {
    fn name(&self) -> &'static str {
        "beat"
    }

    async fn run_once(&mut self) -> Result<Report> {
        self.work.give_back_late();
        let sent = self.env.elapsed();
        let ask = BeatAsk {
            node: self.node,
            is_remote: false,
            roles: self.roles.fences(),
            seeks: self.roles.sought(),
            lease: self.timing.leader_lease,
            leases: self.work.leases(),
            progress: self.work.take_progress(),
        };
        let call = self.store.beat(self.env.at(), &ask);
        let beaten = match within(&*self.env, self.timing.call, call).await {
            Ok(beaten) => beaten,
            Err(error) => {
                self.roles.unsure(&ask.roles);
                self.work.put_back_progress(ask.progress);
                return Err(error);
            }
        };
        telemetry::jobs_unreadable(&beaten.unreadable);
        self.database.told_time(beaten.at, sent);
        let is_forked = self.database.told_history(beaten.forked_at);
        if !beaten.alive {
            // The roles are forgotten with the node: were they lost here, it would seek them
            // once more under the id of a dead one, and keep them from all others for a lease.
            self.dead.raise(1);
            return Ok(Report::new(0, Rest::End));
        }
        if is_forked {
            // Any term may have been won in what is lost; those that this beat renewed are trusted
            // again at once.
            self.roles.unsure(&self.roles.fences());
        }
        self.roles.renewed(sent, &ask.roles, &beaten.roles, beaten.at);
        self.roles.told(&ask.seeks, &beaten.sought, beaten.at);
        self.work.beaten_at(sent);
        self.work.cancel(&beaten.cancels);
        self.give_back(&beaten.strays).await?;
        let spent = self.env.elapsed().saturating_sub(sent);
        Ok(Report::new(1, Rest::AtMost(self.timing.beat.saturating_sub(spent))))
    }
}
