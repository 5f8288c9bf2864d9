//! One life of a node: from joining under an id to leaving, or to being declared dead.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::NodeId;
use punctual_store::{ErrorKind, NodeInfo, Result, Store, Topic, limits};
use tokio::sync::Notify;

use crate::EngineError;
use crate::ahead::{AheadSearch, AheadWatch};
use crate::batch::BatchSize;
use crate::beat::Beat;
use crate::breaker::Breaker;
use crate::claimer::Claimer;
use crate::config::Config;
use crate::counts::{Counts, RollUp};
use crate::database::Database;
use crate::env::Env;
use crate::executor::Executor;
use crate::expirer::{EXPIRE_MAX, Expirer, PassedDeadlines};
use crate::handler::Handlers;
use crate::leader::{Roles, Seeker};
use crate::level::Level;
use crate::log::{Log, Scribe};
use crate::places::Places;
use crate::promoter::{Promoter, Timers};
use crate::queue_counter::QueueCounter;
use crate::reaper::{Pruner, Reaper};
use crate::scheduler::Scheduler;
use crate::service::{self, Rest, Service, within};
use crate::settler::Settler;
use crate::skip_log::SkipLog;
use crate::stop::StopReason;
use crate::stranded::Stranded;
use crate::telemetry;
use crate::watchdog::Watchdog;
use crate::work::{Wakes, Work};

/// What stays the same from life to life.
pub(crate) struct Parts {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) database: Arc<Database>,
    pub(crate) config: Arc<Config>,
    pub(crate) handlers: Arc<Handlers>,
    pub(crate) places: Arc<Places>,
    pub(crate) roles: Arc<Roles>,
    pub(crate) counts: Arc<Counts>,
    /// Raised when a shutdown has to end, whatever is left to do.
    pub(crate) out_of_time: Arc<Level>,
}

/// A wish of this level: finish what runs, start nothing, and stop.
pub(crate) const STOP: u64 = 1;
/// A wish of this level: stop at once.
pub(crate) const STOP_NOW: u64 = 2;

/// How a life ended.
pub(crate) enum Over {
    /// As asked; so many jobs could not be settled and are left to the reaper.
    Stopped { unsettled: usize },
    /// The others declared it dead.
    Dead,
}

pub(crate) struct Session {
    pub(crate) node: NodeId,
    pub(crate) work: Arc<Work>,
    parts: Arc<Parts>,
    wakes: Wakes,
    log: Arc<Log>,
    dead: Arc<Level>,
    /// Ends what makes new work: claims and offices.
    quiet: Arc<Level>,
    /// Ends everything.
    over: Arc<Level>,
}

impl Session {
    /// Joins under a new id and starts all services.
    pub(crate) async fn begin(parts: Arc<Parts>) -> std::result::Result<Session, EngineError> {
        let Parts { env, config, .. } = &*parts;
        let node = NodeId::mint(env.wall(), env.seed());
        let info = NodeInfo {
            id: node,
            name: config.name.clone(),
            version: config.version.clone(),
            queues: config.queues.iter().map(|queue| queue.name.clone()).collect(),
            kinds: parts.handlers.kinds(),
            labels: config.labels.clone(),
        };
        let wakes = Wakes::default();
        // Joining is the first heartbeat: trust in it begins before it is sent.
        let work = Work::new(env.clone(), config, parts.places.clone(), wakes.clone());
        let sent = env.elapsed();
        let joined = within(&**env, config.timing.call, parts.store.join(env.at(), &info)).await?;
        parts.database.told_time(joined.at, sent);
        let session = Session {
            node,
            work: Arc::new(work),
            log: Arc::new(Log::new(wakes.scribe.clone())),
            wakes,
            dead: Arc::default(),
            quiet: Arc::default(),
            over: Arc::default(),
            parts,
        };
        session.start()?;
        Ok(session)
    }

    fn start(&self) -> std::result::Result<(), EngineError> {
        let Parts { env, store, config, handlers, roles, counts, .. } = &*self.parts;
        let (timing, wakes) = (config.timing, &self.wakes);
        let timers = Arc::new(Timers::new(env.clone(), &timing, wakes.promoter.clone()));

        let watchdog = Watchdog { env: env.clone(), work: self.work.clone(), beat: timing.beat };
        // On a thread of their own: a handler that blocks must not make its node look dead, and
        // somebody has to notice that it does.
        let pulse = service::run(env.clone(), self.beat(), Arc::default(), self.over.clone());
        let watch = service::run(env.clone(), watchdog, wakes.watchdog.clone(), self.over.clone());
        let both = async {
            tokio::join!(pulse, watch);
        };
        env.spawn_apart("punctual-beat", Box::pin(both))
            .map_err(|error| EngineError::Thread(error.to_string()))?;

        self.run(
            Settler {
                env: env.clone(),
                store: store.clone(),
                work: self.work.clone(),
                timers: timers.clone(),
                counts: counts.clone(),
                patience: timing.call,
                size: BatchSize::new(limits::SETTLE_MAX),
            },
            &wakes.settler,
            &self.over,
        );
        if !config.queues.is_empty() {
            self.run(self.scribe(), &wakes.scribe, &self.over);
            let executor = Executor {
                env: env.clone(),
                work: self.work.clone(),
                handlers: handlers.clone(),
                log: self.log.clone(),
                timeout: config.timeout,
            };
            let claimer =
                Claimer::new(store.clone(), executor, self.node, config.clone(), self.dead.clone());
            self.run(claimer, &wakes.claimer, &self.quiet);
            self.pass_on(Topic::Work, &wakes.claimer);
        }
        let seeker = Seeker {
            store: store.clone(),
            roles: roles.clone(),
            node: self.node,
            timing,
            hints: store.hints(Topic::Roles),
        };
        self.run(seeker, &roles.seeker, &self.quiet);
        self.pass_on(Topic::Roles, &roles.seeker);
        let passed = Arc::<PassedDeadlines>::default();
        self.run(
            Promoter {
                env: env.clone(),
                store: store.clone(),
                roles: roles.clone(),
                timers: timers.clone(),
                database: self.parts.database.clone(),
                passed: passed.clone(),
                timing,
            },
            &wakes.promoter,
            &self.quiet,
        );
        let expirer = Expirer {
            env: env.clone(),
            store: store.clone(),
            roles: roles.clone(),
            database: self.parts.database.clone(),
            counts: counts.clone(),
            passed: passed.clone(),
            promoter: wakes.promoter.clone(),
            size: BatchSize::new(EXPIRE_MAX),
            timing,
        };
        self.run(expirer, &passed.wake, &self.quiet);
        if config.schedules {
            let ahead = Arc::<AheadWatch>::default();
            self.run(
                AheadSearch {
                    env: env.clone(),
                    store: store.clone(),
                    roles: roles.clone(),
                    timing,
                    watch: ahead.clone(),
                },
                &ahead.wake,
                &self.quiet,
            );
            self.run(
                Scheduler {
                    env: env.clone(),
                    store: store.clone(),
                    database: self.parts.database.clone(),
                    roles: roles.clone(),
                    timers: timers.clone(),
                    counts: counts.clone(),
                    timing,
                    size: BatchSize::new(limits::FIRE_MAX),
                    skips: SkipLog::default(),
                    ahead,
                },
                &wakes.scheduler,
                &self.quiet,
            );
            self.pass_on(Topic::Schedules, &wakes.scheduler);
            self.pass_on_terms(&wakes.scheduler);
        }
        let (idle, config) = (Arc::<Notify>::default(), config.clone());
        let (env, store, roles) = (env.clone(), store.clone(), roles.clone());
        self.run(
            Pruner {
                env: env.clone(),
                store: store.clone(),
                roles: roles.clone(),
                config: config.clone(),
            },
            &idle,
            &self.quiet,
        );
        let breaker = Breaker {
            env: env.clone(),
            store: store.clone(),
            roles: roles.clone(),
            timing,
            looked: None,
        };
        self.run(breaker, &Arc::default(), &self.quiet);
        let stranded =
            Stranded { env: env.clone(), store: store.clone(), roles: roles.clone(), timing };
        self.run(stranded, &Arc::default(), &self.quiet);
        let queue_counter =
            QueueCounter { env: env.clone(), store: store.clone(), roles: roles.clone(), timing };
        let new_term = Arc::<Notify>::default();
        self.run(queue_counter, &new_term, &self.quiet);
        self.pass_on_terms(&new_term);
        let roll_up = RollUp::new(env.clone(), store.clone(), counts.clone(), timing);
        self.run(roll_up, &Arc::default(), &self.over);
        let counts = counts.clone();
        let new_term = Arc::<Notify>::default();
        self.run(Reaper { env, store, roles, timers, counts, config }, &new_term, &self.quiet);
        self.pass_on_terms(&new_term);
        Ok(())
    }

    /// Writes what is left of the logs.
    async fn write_out(&self) -> Result<()> {
        let mut scribe = self.scribe();
        while scribe.run_once().await?.rest == Rest::None {}
        Ok(())
    }

    fn scribe(&self) -> Scribe {
        let Parts { env, store, config, .. } = &*self.parts;
        let patience = config.timing.call;
        Scribe { env: env.clone(), store: store.clone(), log: self.log.clone(), patience }
    }

    fn beat(&self) -> Beat {
        let Parts { env, store, database, config, roles, .. } = &*self.parts;
        Beat {
            env: env.clone(),
            store: store.clone(),
            database: database.clone(),
            work: self.work.clone(),
            roles: roles.clone(),
            node: self.node,
            timing: config.timing,
            dead: self.dead.clone(),
        }
    }

    fn run(&self, service: impl Service + 'static, wake: &Arc<Notify>, over: &Arc<Level>) {
        let env = &self.parts.env;
        let loops = service::run(env.clone(), service, wake.clone(), over.clone());
        env.spawn(Box::pin(loops));
    }

    /// Wakes a service whenever the store gives a hint.
    fn pass_on(&self, topic: Topic, wake: &Arc<Notify>) {
        let (mut hints, wake) = (self.parts.store.hints(topic), wake.clone());
        let quiet = self.quiet.clone();
        self.parts.env.spawn(Box::pin(async move {
            loop {
                tokio::select! {
                    biased;
                    () = quiet.reached(1) => return,
                    () = hints.heard() => wake.notify_one(),
                }
            }
        }));
    }

    /// Wakes a service whenever a term begins or ends.
    fn pass_on_terms(&self, wake: &Arc<Notify>) {
        let (roles, wake) = (self.parts.roles.clone(), wake.clone());
        let quiet = self.quiet.clone();
        self.parts.env.spawn(Box::pin(async move {
            let mut seen = roles.changed.get();
            loop {
                tokio::select! {
                    biased;
                    () = quiet.reached(1) => return,
                    () = roles.changed.reached(seen + 1) => {
                        seen = roles.changed.get();
                        wake.notify_one();
                    }
                }
            }
        }));
    }

    /// Lives until the node is told to stop or is declared dead.
    pub(crate) async fn live(&self, wish: &Level) -> Over {
        tokio::select! {
            biased;
            () = wish.reached(STOP) => {}
            () = self.dead.reached(1) => return self.die().await,
        }
        self.quiet.raise(1);
        self.work.close();
        tokio::select! {
            biased;
            () = self.shut_down(wish) => {}
            () = self.parts.out_of_time.reached(1) => {}
        }
        self.over.raise(1);
        Over::Stopped { unsettled: self.work.held() }
    }

    /// Hands over the roles, drains, and leaves.
    async fn shut_down(&self, wish: &Level) {
        let Parts { env, store, config, roles, counts, .. } = &*self.parts;
        tokio::join!(roles.resign_all(&**store, config.timing.call), self.drain(wish));
        self.over.raise(1);
        // With jobs that other nodes have to take back, the node stays on the list.
        if self.work.held() == 0 && self.dead.get() == 0 {
            let mut roll_up =
                RollUp::new(env.clone(), store.clone(), counts.clone(), config.timing);
            let (counted, written, left) =
                tokio::join!(roll_up.run_once(), self.write_out(), self.leave());
            let errors =
                [("roll_up", counted.err()), ("scribe", written.err()), ("leave", left.err())];
            for (what, error) in errors {
                error.inspect(|error| telemetry::failed(what, error));
            }
        }
    }

    /// Tells running attempts of the shutdown and lets them finish until the grace ends. Shortly
    /// before, they are requested to stop; at the end, they are dropped and released.
    async fn drain(&self, wish: &Level) {
        let Parts { env, config, .. } = &*self.parts;
        let ends = env.elapsed().saturating_add(config.shutdown_grace);
        let time_left = || ends.saturating_sub(env.elapsed());
        self.work.announce_shutdown(ends);
        // A second stop request skips the waiting.
        tokio::select! {
            biased;
            () = self.work.emptied() => return,
            () = wish.reached(STOP_NOW) => {}
            () = self.dead.reached(1) => {}
            () = env.sleep(time_left().saturating_sub(config.timing.cancel_grace)) => {}
        }
        self.work.stop_all(StopReason::Shutdown);
        tokio::select! {
            biased;
            () = self.work.emptied() => return,
            () = wish.reached(STOP_NOW) => {}
            () = self.dead.reached(1) => {}
            () = env.sleep(time_left()) => {}
        }
        self.work.drop_all();
        // The settler writes how they ended, until the node is out of time.
        tokio::select! {
            biased;
            () = self.work.emptied() => {}
            () = self.dead.reached(1) => {}
        }
    }

    /// Takes the node from the list.
    async fn leave(&self) -> Result<()> {
        match self.strike_off().await {
            // The answer to a claim was lost: a last heartbeat tells of its jobs and gives them
            // back.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.beat().run_once().await?;
                self.strike_off().await
            }
            left => left,
        }
    }

    async fn strike_off(&self) -> Result<()> {
        let Parts { env, store, config, .. } = &*self.parts;
        within(&**env, config.timing.call, store.leave(env.at(), self.node)).await
    }

    /// Its jobs are another's by now: whatever still runs has to end before the node comes back.
    async fn die(&self) -> Over {
        self.quiet.raise(1);
        self.parts.roles.forget();
        self.work.close();
        self.work.stop_all(StopReason::OutOfTouch);
        let grace: Duration = self.parts.config.timing.cancel_grace;
        tokio::select! {
            biased;
            () = self.work.emptied() => {}
            () = self.parts.env.sleep(grace) => {}
        }
        self.work.drop_all();
        self.over.raise(1);
        telemetry::rejoined();
        Over::Dead
    }
}

impl Drop for Session {
    /// A session that is dropped leaves no loop behind.
    fn drop(&mut self) {
        self.quiet.raise(1);
        self.over.raise(1);
    }
}
