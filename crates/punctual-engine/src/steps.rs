//! A node, one step at a time, for tests that own the clock and choose what happens between two
//! steps. The services are the node's own; what is missing is the watchdog, so that no attempt
//! times out.

use std::sync::Arc;

use punctual_core::job::{AttemptOutcome, JobState};
use punctual_core::{JobId, NodeId};
use punctual_store::{Fence, Promoted, Result, Store};

use crate::beat::Beat;
use crate::claimer::Claimer;
use crate::config::Config;
use crate::database::Database;
use crate::env::Env;
use crate::expirer::Expirer;
use crate::handler::Handlers;
use crate::leader::{MAINTENANCE, Roles, SCHEDULER, Seeker};
use crate::log::Scribe;
use crate::places::Places;
use crate::scheduler::Scheduler;
use crate::service::{Rest, Service};
use crate::settler::Settler;
use crate::wiring::{NodeLife, Parts};

/// The services of a node that fires schedules and, if it has handlers, runs jobs.
pub struct Steps {
    roles: Arc<Roles>,
    beat: Beat,
    seeker: Seeker,
    scheduler: Scheduler,
    claimer: Claimer,
    settler: Settler,
    scribe: Scribe,
    expirer: Expirer,
}

impl Steps {
    /// A node that has joined under this id, stands for firing, and runs nothing.
    pub fn new(env: Arc<dyn Env>, store: Arc<dyn Store>, node: NodeId) -> Steps {
        let config = Config { queues: Vec::new(), ..Config::default() };
        Steps::with(env, store, node, config, Handlers::default())
    }

    /// A node that has joined under this id, stands for firing, and runs jobs.
    pub fn with(
        env: Arc<dyn Env>,
        store: Arc<dyn Store>,
        node: NodeId,
        config: Config,
        handlers: Handlers,
    ) -> Steps {
        let roles = Arc::new(Roles::new(env.clone(), &config.timing));
        if config.schedules {
            roles.want(SCHEDULER);
        }
        let parts = Parts {
            database: Arc::new(Database::new(env.clone(), &config.timing)),
            places: Arc::new(Places::new(config.max_running)),
            env,
            store,
            config: Arc::new(config),
            handlers: Arc::new(handlers),
            roles: roles.clone(),
            counts: Arc::default(),
            out_of_time: Arc::default(),
        };
        let life = NodeLife::new(Arc::new(parts), node);
        Steps {
            roles,
            beat: life.beat(),
            seeker: life.seeker(),
            scheduler: life.scheduler(),
            claimer: life.claimer(),
            settler: life.settler(),
            scribe: life.scribe(),
            expirer: life.expirer(),
        }
    }

    /// The term under which the node leads, as far as it may trust.
    pub fn term(&self) -> Option<Fence> {
        self.roles.current(SCHEDULER)
    }

    /// Beats, and asks for the role if it is time to.
    pub async fn live(&mut self) -> Result<()> {
        self.beat.run_once().await?;
        self.seeker.run_once().await?;
        Ok(())
    }

    /// Fires what is due, until nothing more can be; how many schedules were decided.
    pub async fn fire(&mut self) -> Result<usize> {
        let mut decided = 0;
        loop {
            let pass = self.scheduler.run_once().await?;
            decided += pass.done;
            if pass.rest != Rest::None {
                return Ok(decided);
            }
        }
    }

    /// Pauses schedules whose jobs have failed too often, as whoever has just begun to lead would; how
    /// many.
    pub async fn pause_failing(&mut self) -> Result<usize> {
        let Scheduler { env, store, timing, .. } = &self.scheduler;
        let paused = crate::breaker::pause_failing(&**env, &**store, timing.call, None).await?;
        Ok(paused.0)
    }

    /// Calls off what waits for a node that does not come back; how many jobs.
    pub async fn call_off_stranded(&mut self) -> Result<usize> {
        let Scheduler { env, store, timing, .. } = &self.scheduler;
        crate::stranded::call_off(&**env, &**store, timing.call).await
    }

    /// Ends jobs whose start deadline has passed, as the leader of the upkeep would; how many. It asks for
    /// that role only if there is such a job.
    pub async fn expire(&mut self, promoted: &Promoted) -> Result<usize> {
        if promoted.next_deadline.is_none_or(|deadline| deadline >= promoted.at) {
            return Ok(0);
        }
        if self.roles.current(MAINTENANCE).is_none() {
            self.roles.want(MAINTENANCE);
            self.live().await?;
        }
        let Expirer { env, database, passed, .. } = &self.expirer;
        database.told_time(promoted.at, env.elapsed());
        passed.note(promoted);
        Ok(self.expirer.run_once().await?.done)
    }

    /// Claims what may run now, runs it to its end and writes down how it ended; but for the first
    /// `lost` of them, whose node dies with their outcome. How the attempts ended.
    pub async fn work(&mut self, lost: usize) -> Result<Vec<(JobId, AttemptOutcome)>> {
        let work = self.beat.work.clone();
        self.claimer.look_again();
        self.claimer.run_once().await?;
        while !work.is_still() {
            work.wakes.settler.notified().await;
        }
        while self.scribe.run_once().await?.rest == Rest::None {}
        work.lose_outcomes(lost);
        let outcomes = work.outcomes();
        while self.settler.run_once().await?.rest == Rest::None {}
        let mut ended = Vec::new();
        for (job, outcome, is_settled) in outcomes {
            // Whether the handler's own transaction was committed, the store knows.
            let has_succeeded = is_settled
                && self
                    .settler
                    .store
                    .job(job)
                    .await?
                    .is_some_and(|job| job.view.state == JobState::Succeeded);
            ended.push((job, if has_succeeded { AttemptOutcome::Succeeded } else { outcome }));
        }
        Ok(ended)
    }
}
