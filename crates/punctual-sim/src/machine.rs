//! A machine on which a process runs an engine, dies, and is started again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_core::job::{Backoff, RetryPolicy};
use punctual_engine::{Config, Engine, Env, QueueOrder, ServedQueue, Timing};
use punctual_store::Store;

use crate::chance::Chance;
use crate::mix;
use crate::network::{Connection, Database, Link};
use crate::process::{Process, SimEnv};
use crate::workload;

/// Handlers at work at once in a process.
pub(crate) const MAX_RUNNING: usize = 4;

/// The label of machines that are in a zone.
pub(crate) const ZONE: &str = "zone";

/// One machine.
pub(crate) struct Machine {
    pub(crate) process: Arc<Process>,
    pub(crate) connection: Arc<Connection>,
    engine: Arc<Mutex<Option<Arc<Engine>>>>,
}

impl Machine {
    /// Starts a process that joins as soon as it can.
    pub(crate) fn start(
        number: u32,
        zone: Option<&str>,
        database: &Arc<Database>,
        chance: &Chance,
    ) -> Machine {
        let clock = database.clock.clone();
        let process = Arc::new(Process::new(number, clock, chance.fork(1)));
        let connection = Link::connect(database.clone(), Some(process.clone()), chance.fork(2));
        let connection = Arc::new(connection);
        let machine = Machine { process: process.clone(), connection, engine: Arc::default() };
        let env: Arc<dyn Env> = Arc::new(SimEnv(process.clone()));
        let store: Arc<dyn Store> = machine.connection.clone();
        let handlers = workload::handlers(&process, &database.record);
        let config = config(number, zone, chance, database.mix.is_deaf);
        let engine = machine.engine.clone();
        env.clone().spawn(Box::pin(async move {
            loop {
                let start =
                    Engine::start(env.clone(), store.clone(), config.clone(), handlers.clone());
                match start.await {
                    Ok(started) => {
                        *engine.lock().expect("single thread") = Some(Arc::new(started));
                        return;
                    }
                    Err(_) => env.sleep(Duration::from_millis(100)).await,
                }
            }
        }));
        machine
    }

    /// The engine, once it has started.
    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.lock().expect("single thread").clone()
    }

    /// Does it believe that it leads this role?
    pub(crate) fn leads(&self, role: &str) -> bool {
        !self.process.is_dead()
            && self.engine().is_some_and(|engine| engine.leadership(role).is_leader())
    }
}

fn config(number: u32, zone: Option<&str>, chance: &Chance, is_deaf: bool) -> Config {
    // Where only hints wake, a lost one is seen.
    let usual = mix::timing().poll;
    let poll = if is_deaf { usual } else { chance.pick(&[usual, usual * 25]) };
    let backoff = Backoff {
        base: Duration::from_millis(200),
        cap: Duration::from_secs(2),
        ..Backoff::default()
    };
    Config {
        name: format!("machine {number}"),
        labels: zone.map(|zone| (ZONE.to_owned(), zone.to_owned())).into_iter().collect(),
        queues: vec![
            ServedQueue::new("fast"),
            ServedQueue { weight: 3, ..ServedQueue::new("slow") },
        ],
        order: chance.pick(&[QueueOrder::Strict, QueueOrder::Weighted]),
        max_running: MAX_RUNNING,
        timeout: Duration::from_secs(6),
        policy: RetryPolicy { backoff },
        shutdown_grace: Duration::from_secs(1),
        timing: Timing { poll, ..mix::timing() },
        ..Config::default()
    }
}
