//! A node: started once, stopped once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use punctual_core::NodeId;
use punctual_store::{Leader, LeaderChange, Retention, Store, StoreError};

use crate::EngineError;
use crate::config::Config;
use crate::counts::Counts;
use crate::database::{Database, HeldClock};
use crate::env::{Boxed, Env};
use crate::handler::Handlers;
use crate::leader::{Leadership, MAINTENANCE, Roles, SCHEDULER};
use crate::level::Level;
use crate::places::Places;
use crate::schedules::Schedules;
use crate::service::{caught, within};
use crate::session::{Over, STOP, STOP_NOW, Session};
use crate::telemetry;
use crate::wiring::Parts;
use crate::work::Work;

/// A running node. Dropping it stops the node at once, without waiting; the node ends within a second.
pub struct Engine {
    roles: Arc<Roles>,
    parts: Arc<Parts>,
    current: Arc<Mutex<Current>>,
    wish: Arc<Level>,
    outcome: Arc<Outcome>,
    /// Is the end of the shutdown watched?
    is_watched: AtomicBool,
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
    /// Did it pause claiming within the last minute, because it lacks memory, processes or open files?
    pub lacks_resources: bool,
    /// Does it trust the database's clock? If not, slots that lie far ahead of what the clock said
    /// before have to wait.
    pub is_clock_trusted: bool,
    /// The jump of that clock, while it is not trusted.
    pub held_clock: Option<HeldClock>,
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

/// How long a shutdown may take after its grace, or after a request to stop at once: to record how
/// the last attempts ended, and to leave. The rest of a second is for threads that wake late.
const ENDING: Duration = Duration::from_millis(900);

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
            out_of_time: Arc::default(),
            config: Arc::new(config),
            store,
            env: env.clone(),
        });
        let session = Session::begin(parts.clone()).await?;
        let current = Arc::new(Mutex::new(Current::of(&session)));
        let (wish, outcome) = (Arc::<Level>::default(), Arc::<Outcome>::default());
        let life = live(parts.clone(), session, current.clone(), wish.clone(), outcome.clone());
        let (present, ended) = (current.clone(), outcome.clone());
        env.spawn(Box::pin(async move {
            if let Err(panic) = caught(life).await {
                // Its services have ended with it. Without an outcome, callers would never return.
                telemetry::panicked("node", &panic);
                ended.tell(Stopped { unsettled: held(&present) });
            }
        }));
        let is_watched = AtomicBool::new(false);
        Ok(Engine { roles, parts, current, wish, outcome, is_watched })
    }

    /// Its present id. A node that was declared dead comes back with another.
    pub fn node(&self) -> NodeId {
        self.health().node
    }

    /// How it is.
    pub fn health(&self) -> Health {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let held_clock = self.parts.database.held_clock();
        Health {
            node: current.node,
            is_in_touch: current.work.is_in_touch(),
            held: current.work.held(),
            free: self.parts.places.free(),
            lacks_resources: current.work.lacks_resources(),
            is_clock_trusted: held_clock.is_none(),
            held_clock,
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

    /// Asks the node to finish its running jobs and to stop. It has stopped at most a second after
    /// the shutdown grace, even if handlers ignore the request or block their threads, or the
    /// store does not respond.
    pub fn stop(&self) {
        self.wish.raise(STOP);
        self.watch_end(true);
    }

    /// Asks the node to stop at once; running jobs are released. Takes at most a second.
    pub fn stop_now(&self) {
        self.wish.raise(STOP_NOW);
        self.watch_end(true);
    }

    /// Ends when the node has stopped.
    pub async fn stopped(&self) -> Stopped {
        self.outcome.is_over.reached(1).await;
        self.outcome.get()
    }

    /// Ends when the node has stopped, and does not keep it.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let outcome = self.outcome.clone();
        async move { outcome.is_over.reached(1).await }
    }

    /// Ends when the node has stopped because its time was over, which may leave something undone.
    pub async fn out_of_time(&self) -> Stopped {
        self.parts.out_of_time.reached(1).await;
        self.stopped().await
    }

    /// Ends when the time of a shutdown that begins now is over: after the grace or a request to stop at
    /// once, and the time to end.
    pub fn shutdown_time(&self) -> impl Future<Output = ()> + Send + use<> {
        let (env, wish) = (self.parts.env.clone(), self.wish.clone());
        let grace = self.parts.config.shutdown_grace;
        async move {
            tokio::select! {
                biased;
                () = wish.reached(STOP_NOW) => {}
                () = env.sleep(grace) => {}
            }
            env.sleep(ENDING).await;
        }
    }

    /// Ends the shutdown when its time is over: on a thread of its own, since handlers may block
    /// all threads of the runtime. Without a thread it is a task, if there is a runtime here.
    fn watch_end(&self, has_runtime: bool) {
        if self.is_watched.swap(true, Ordering::AcqRel) {
            return;
        }
        let watch = || -> Boxed {
            // Without the store, which may be closed as soon as the node has stopped.
            let (end, time_is_over) = (self.parts.out_of_time.clone(), self.shutdown_time());
            let (current, outcome) = (self.current.clone(), self.outcome.clone());
            Box::pin(async move {
                tokio::select! {
                    biased;
                    () = outcome.is_over.reached(1) => {}
                    () = time_is_over => {
                        telemetry::out_of_time();
                        end.raise(1);
                        outcome.tell(Stopped { unsettled: held(&current) });
                    }
                }
            })
        };
        let env = &self.parts.env;
        if let Err(error) = env.spawn_apart("punctual-stop", watch()) {
            telemetry::no_thread("punctual-stop", &error);
            if has_runtime {
                env.spawn(watch());
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // No caller is left to wait for its end, which has a bound all the same: without one, a node whose
        // store does not respond would continue until it is declared dead.
        self.wish.raise(STOP_NOW);
        if self.outcome.is_over.get() == 0 {
            self.watch_end(false);
        }
    }
}

/// How many jobs the node holds.
fn held(current: &Mutex<Current>) -> usize {
    current.lock().unwrap_or_else(PoisonError::into_inner).work.held()
}

impl Outcome {
    fn get(&self) -> Stopped {
        self.stopped.get().copied().unwrap_or(Stopped { unsettled: 0 })
    }

    fn tell(&self, stopped: Stopped) {
        // The first outcome counts: the node may end just when its time is over.
        let _ = self.stopped.set(stopped);
        self.is_over.raise(1);
    }
}

impl Current {
    fn of(session: &Session) -> Current {
        Current { node: session.life.node, work: session.life.work.clone() }
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
        *current.lock().unwrap_or_else(PoisonError::into_inner) = Current::of(&session);
    }
}
