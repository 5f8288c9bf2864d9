//! The services of a node. Each is built in one place, for [nodes](crate::session) and for
//! [tests](crate::steps) that run a node step by step.

use std::sync::Arc;

use punctual_core::NodeId;
use punctual_store::{NodeInfo, Store, Topic, limits};

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
use crate::settler::Settler;
use crate::skip_log::SkipLog;
use crate::stranded::Stranded;
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

impl Parts {
    /// How the node registers under this id.
    pub(crate) fn info(&self, node: NodeId) -> NodeInfo {
        NodeInfo {
            id: node,
            name: self.config.name.clone(),
            version: self.config.version.clone(),
            queues: self.config.queues.iter().map(|queue| queue.name.clone()).collect(),
            kinds: self.handlers.kinds(),
            labels: self.config.labels.clone(),
        }
    }
}

/// What the services of one life share.
pub(crate) struct NodeLife {
    pub(crate) parts: Arc<Parts>,
    pub(crate) node: NodeId,
    pub(crate) work: Arc<Work>,
    pub(crate) wakes: Wakes,
    pub(crate) log: Arc<Log>,
    pub(crate) timers: Arc<Timers>,
    /// Jobs whose start deadline has passed.
    pub(crate) passed: Arc<PassedDeadlines>,
    /// The clock that the search for schedules ahead of it examines.
    pub(crate) ahead: Arc<AheadWatch>,
    /// Raised when the others have declared the node dead.
    pub(crate) dead: Arc<Level>,
}

impl NodeLife {
    /// A life under this id, before the node joins.
    pub(crate) fn new(parts: Arc<Parts>, node: NodeId) -> NodeLife {
        let Parts { env, config, places, .. } = &*parts;
        let wakes = Wakes::default();
        NodeLife {
            node,
            work: Arc::new(Work::new(env.clone(), config, places.clone(), wakes.clone())),
            log: Arc::new(Log::new(wakes.scribe.clone())),
            timers: Arc::new(Timers::new(env.clone(), &config.timing, wakes.promoter.clone())),
            wakes,
            passed: Arc::default(),
            ahead: Arc::default(),
            dead: Arc::default(),
            parts,
        }
    }

    pub(crate) fn beat(&self) -> Beat {
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

    pub(crate) fn watchdog(&self) -> Watchdog {
        let Parts { env, config, .. } = &*self.parts;
        Watchdog { env: env.clone(), work: self.work.clone(), beat: config.timing.beat }
    }

    pub(crate) fn settler(&self) -> Settler {
        let Parts { env, store, config, counts, .. } = &*self.parts;
        Settler {
            env: env.clone(),
            store: store.clone(),
            work: self.work.clone(),
            timers: self.timers.clone(),
            counts: counts.clone(),
            patience: config.timing.call,
            size: BatchSize::new(limits::SETTLE_MAX),
        }
    }

    pub(crate) fn scribe(&self) -> Scribe {
        let Parts { env, store, config, .. } = &*self.parts;
        Scribe {
            env: env.clone(),
            store: store.clone(),
            log: self.log.clone(),
            patience: config.timing.call,
        }
    }

    pub(crate) fn claimer(&self) -> Claimer {
        let Parts { env, store, config, handlers, .. } = &*self.parts;
        let executor = Executor {
            env: env.clone(),
            work: self.work.clone(),
            handlers: handlers.clone(),
            log: self.log.clone(),
            timeout: config.timeout,
        };
        Claimer::new(store.clone(), executor, self.node, config.clone(), self.dead.clone())
    }

    pub(crate) fn seeker(&self) -> Seeker {
        let Parts { store, config, roles, .. } = &*self.parts;
        Seeker {
            store: store.clone(),
            roles: roles.clone(),
            node: self.node,
            timing: config.timing,
            hints: store.hints(Topic::Roles),
        }
    }

    pub(crate) fn promoter(&self) -> Promoter {
        let Parts { env, store, database, config, roles, .. } = &*self.parts;
        Promoter {
            env: env.clone(),
            store: store.clone(),
            roles: roles.clone(),
            timers: self.timers.clone(),
            database: database.clone(),
            passed: self.passed.clone(),
            timing: config.timing,
        }
    }

    pub(crate) fn expirer(&self) -> Expirer {
        let Parts { env, store, database, config, roles, counts, .. } = &*self.parts;
        Expirer {
            env: env.clone(),
            store: store.clone(),
            roles: roles.clone(),
            database: database.clone(),
            counts: counts.clone(),
            passed: self.passed.clone(),
            promoter: self.wakes.promoter.clone(),
            size: BatchSize::new(EXPIRE_MAX),
            timing: config.timing,
        }
    }

    pub(crate) fn scheduler(&self) -> Scheduler {
        let Parts { env, store, database, config, roles, counts, .. } = &*self.parts;
        Scheduler {
            env: env.clone(),
            store: store.clone(),
            database: database.clone(),
            roles: roles.clone(),
            timers: self.timers.clone(),
            counts: counts.clone(),
            timing: config.timing,
            size: BatchSize::new(limits::FIRE_MAX),
            skips: SkipLog::default(),
            ahead: self.ahead.clone(),
        }
    }

    pub(crate) fn ahead_search(&self) -> AheadSearch {
        let Parts { env, store, config, roles, .. } = &*self.parts;
        AheadSearch {
            env: env.clone(),
            store: store.clone(),
            roles: roles.clone(),
            timing: config.timing,
            watch: self.ahead.clone(),
        }
    }

    pub(crate) fn pruner(&self) -> Pruner {
        let Parts { env, store, config, roles, .. } = &*self.parts;
        Pruner {
            env: env.clone(),
            store: store.clone(),
            roles: roles.clone(),
            config: config.clone(),
        }
    }

    pub(crate) fn breaker(&self) -> Breaker {
        let Parts { env, store, config, roles, .. } = &*self.parts;
        Breaker {
            env: env.clone(),
            store: store.clone(),
            roles: roles.clone(),
            timing: config.timing,
            looked: None,
        }
    }

    pub(crate) fn stranded(&self) -> Stranded {
        let Parts { env, store, config, roles, .. } = &*self.parts;
        Stranded {
            env: env.clone(),
            store: store.clone(),
            roles: roles.clone(),
            timing: config.timing,
        }
    }

    pub(crate) fn queue_counter(&self) -> QueueCounter {
        let Parts { env, store, config, roles, .. } = &*self.parts;
        QueueCounter {
            env: env.clone(),
            store: store.clone(),
            roles: roles.clone(),
            timing: config.timing,
        }
    }

    pub(crate) fn roll_up(&self) -> RollUp {
        let Parts { env, store, config, counts, .. } = &*self.parts;
        RollUp::new(env.clone(), store.clone(), counts.clone(), config.timing)
    }

    pub(crate) fn reaper(&self) -> Reaper {
        let Parts { env, store, config, roles, counts, .. } = &*self.parts;
        Reaper {
            env: env.clone(),
            store: store.clone(),
            roles: roles.clone(),
            timers: self.timers.clone(),
            counts: counts.clone(),
            config: config.clone(),
        }
    }
}
