//! A node: started once, stopped once.

use std::sync::{Arc, Mutex, OnceLock};

use punctual_core::NodeId;
use punctual_store::{Leader, LeaderChange, Retention, Store, StoreError};

use crate::EngineError;
use crate::config::Config;
use crate::counts::Counts;
use crate::database::Database;
use crate::env::Env;
use crate::handler::Handlers;
use crate::leader::{Leadership, MAINTENANCE, Roles, SCHEDULER};
use crate::level::Level;
use crate::places::Places;
use crate::schedules::Schedules;
use crate::service::within;
use crate::session::{Over, Parts, STOP, STOP_NOW, Session};
use crate::telemetry;
use crate::work::Work;

/// A running node. Dropping it stops the node at once, without waiting.
pub struct Engine {
    roles: Arc<Roles>,
    parts: Arc<Parts>,
    current: Arc<Mutex<Current>>,
    wish: Arc<Level>,
    outcome: Arc<Outcome>,
}

/// The present life of the node.
struct Current {
    node: NodeId,
    work: Arc<Work>,
}

/// How the node stopped, once it has.
#[derive(Default)]
struct Outcome {
    stopped: OnceLock<Stopped>,
    is_over: Level,
}

/// How a node stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Jobs whose outcome could not be written; others take them back once they notice.
    pub unsettled: usize,
}

/// How a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Its present id.
    pub node: NodeId,
    /// Has it beaten lately? If not, it takes no work.
    pub is_in_touch: bool,
    /// Jobs it holds.
    pub held: usize,
    /// Places that are free for handlers.
    pub free: usize,
    /// Does it trust the database's clock? If not, slots that lie far ahead of what the clock said
    /// before have to wait.
    pub is_clock_trusted: bool,
    /// Is the database's history the one that it knows? For a lease after it has forked, as at a
    /// failover, nothing is fired.
    pub is_history_trusted: bool,
}

/// Who leads a role, and who did before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleReport {
    /// The last one that led it.
    pub leader: Leader,
    /// Does it still?
    pub is_led: bool,
    /// The last terms, newest first.
    pub changes: Vec<LeaderChange>,
}

/// Terms that are told of each role.
const CHANGES_TOLD: usize = 20;

impl Engine {
    /// Joins the store and starts to work. An error says what to do; nothing runs then.
    pub async fn start(
        env: Arc<dyn Env>,
        store: Arc<dyn Store>,
        config: Config,
        handlers: Handlers,
    ) -> Result<Engine, EngineError> {
        config.check()?;
        handlers.check()?;
        let config = config.with_own_queues();
        let roles = Arc::new(Roles::new(env.clone(), &config.timing));
        if config.maintains {
            roles.want(MAINTENANCE);
        }
        if config.schedules {
            roles.want(SCHEDULER);
        }
        let parts = Arc::new(Parts {
            places: Arc::new(Places::new(config.max_running)),
            roles: roles.clone(),
            counts: Arc::<Counts>::default(),
            database: Arc::new(Database::new(env.clone(), &config.timing)),
            handlers: Arc::new(handlers),
            config: Arc::new(config),
            store,
            env: env.clone(),
        });
        let session = Session::begin(parts.clone()).await?;
        let current = Arc::new(Mutex::new(Current::of(&session)));
        let (wish, outcome) = (Arc::<Level>::default(), Arc::<Outcome>::default());
        env.spawn(Box::pin(live(
            parts.clone(),
            session,
            current.clone(),
            wish.clone(),
            outcome.clone(),
        )));
        Ok(Engine { roles, parts, current, wish, outcome })
    }

    /// Its present id. A node that was declared dead comes back with another.
    pub fn node(&self) -> NodeId {
        self.health().node
    }

    /// How it is.
    pub fn health(&self) -> Health {
        let current = self.current.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Health {
            node: current.node,
            is_in_touch: current.work.is_in_touch(),
            held: current.work.held(),
            free: self.parts.places.free(),
            is_clock_trusted: !self.parts.database.is_clock_held(),
            is_history_trusted: self.parts.database.suspended().is_none(),
        }
    }

    /// How long this node keeps history, if it may look after the store at all.
    pub fn retention(&self) -> Option<Retention> {
        self.parts.config.maintains.then_some(self.parts.config.retention)
    }

    /// Who leads what, since when and until when, and who did before.
    pub async fn leaders(&self) -> Result<Vec<RoleReport>, StoreError> {
        let (store, patience) = (&self.parts.store, self.parts.config.timing.call);
        let read = async {
            let now = store.now(self.parts.env.at()).await?;
            let mut reports = Vec::new();
            for leader in store.leaders().await? {
                let changes = store.leader_changes(&leader.fence.role, CHANGES_TOLD).await?;
                reports.push(RoleReport { is_led: leader.until > now, leader, changes });
            }
            Ok(reports)
        };
        within(&*self.parts.env, patience, read).await
    }

    /// The schedules of the store.
    pub fn schedules(&self) -> Schedules {
        Schedules::new(self.parts.env.clone(), self.parts.store.clone())
    }

    /// Stands for leading a role of the application's own.
    pub fn lead(&self, role: &str) -> Leadership {
        self.roles.want(role);
        Leadership { role: role.to_owned(), roles: self.roles.clone() }
    }

    /// A role that the engine seeks by itself.
    pub fn leadership(&self, role: &str) -> Leadership {
        Leadership { role: role.to_owned(), roles: self.roles.clone() }
    }

    /// Asks the node to finish what runs and to stop.
    pub fn stop(&self) {
        self.wish.raise(STOP);
    }

    /// Asks the node to stop at once; what runs is given back.
    pub fn stop_now(&self) {
        self.wish.raise(STOP_NOW);
    }

    /// Ends when the node has stopped.
    pub async fn stopped(&self) -> Stopped {
        self.outcome.is_over.reached(1).await;
        self.outcome.stopped.get().copied().unwrap_or(Stopped { unsettled: 0 })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop_now();
    }
}

impl Outcome {
    fn tell(&self, stopped: Stopped) {
        // There is one telling, by whoever runs the node.
        let _ = self.stopped.set(stopped);
        self.is_over.raise(1);
    }
}

impl Current {
    fn of(session: &Session) -> Current {
        Current { node: session.node, work: session.work.clone() }
    }
}

/// Life after life, until the node is told to stop.
async fn live(
    parts: Arc<Parts>,
    mut session: Session,
    current: Arc<Mutex<Current>>,
    wish: Arc<Level>,
    outcome: Arc<Outcome>,
) {
    loop {
        if let Over::Stopped { unsettled } = session.live(&wish).await {
            outcome.tell(Stopped { unsettled });
            return;
        }
        session = loop {
            if wish.get() >= STOP {
                outcome.tell(Stopped { unsettled: 0 });
                return;
            }
            match Session::begin(parts.clone()).await {
                Ok(session) => break session,
                Err(error) => telemetry::not_rejoined(&error),
            }
            parts.env.sleep(parts.env.jitter(parts.config.timing.beat)).await;
        };
        *current.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Current::of(&session);
    }
}
