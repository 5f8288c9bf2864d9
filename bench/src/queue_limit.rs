//! A limit for all nodes compared with a limit of one node: two nodes that share a queue of which one
//! job may run at a time, and one node that runs one job at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use punctual_core::job::Outcome;
use punctual_engine::{Attempt, Config, Ended, Engine, Env, Handlers, ServedQueue, System};
use punctual_store::{Actor, At, QueueChange, QueueLimits, Store};
use serde_json::json;
use tokio::sync::Notify;

use crate::databases::{Database, Databases, Place};
use crate::measure::now;
use crate::ours::Ours;
use crate::queue::stop;
use crate::raw::{KIND, QUEUE};
use crate::report::{Figure, Goal};
use crate::{Failure, report};

/// How long a job runs: much shorter than the longest wait of an idle node, and long enough for the
/// first waits of one that polls to end in between.
const JOB_TIME: Duration = Duration::from_millis(60);

/// How large the bench is.
#[derive(clap::Args)]
pub(crate) struct Scale {
    /// Number of jobs per round
    #[arg(long, default_value_t = 100)]
    jobs: usize,
    /// Number of counted rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

pub(crate) fn run(place: &Place, scale: &Scale, as_json: bool) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let databases = Databases::open(place).await?;
        let (alone, shared) = (databases.fresh("alone").await?, databases.fresh("shared").await?);
        let (one, two) = (nodes(&alone, 1).await?, nodes(&shared, 2).await?);
        let limit = QueueChange::Limit(QueueLimits { max_running: Some(1) });
        let actor = Actor::new("bench", "one job at a time");
        two.ours.store.change_queue(At::Database, QUEUE, &limit, &actor).await?;
        let (mut by_one, mut by_two) = (Vec::new(), Vec::new());
        for round in 0..=scale.rounds {
            let rates = (one.drain(scale.jobs).await?, two.drain(scale.jobs).await?);
            // The first round warms caches and is not counted.
            if round > 0 {
                by_one.push(rates.0);
                by_two.push(rates.1);
            }
        }
        let name = "two nodes, cluster limit 1, compared with max_running = 1";
        let figure = Figure::in_turns(name, &by_one, &by_two).goal(Goal::AtLeast(0.9));
        let size = json!({"jobs": scale.jobs, "rounds": scale.rounds});
        report::print(&databases, "queue-limit", &size, &[figure], as_json)
    })
}

/// The stores of the nodes that drain one database.
struct Nodes {
    ours: Ours,
    stores: Vec<Arc<dyn Store>>,
    /// Of each node.
    max_running: Option<usize>,
}

async fn nodes(database: &Database, count: usize) -> Result<Nodes, Failure> {
    let mut stores = Vec::new();
    for _ in 0..count {
        stores.push(database.store().await?);
    }
    let max_running = (count == 1).then_some(1);
    Ok(Nodes { ours: Ours::open(database, 2).await?, stores, max_running })
}

impl Nodes {
    /// Runs so many jobs, and returns how many ended per second.
    async fn drain(&self, jobs: usize) -> Result<f64, Failure> {
        self.ours.enqueue(jobs).await?;
        let (done, reached) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let started = now();
        let mut engines = Vec::new();
        for store in &self.stores {
            let (done, reached) = (done.clone(), reached.clone());
            let mut handlers = Handlers::default();
            handlers.add(KIND, move |_: Attempt| {
                let (done, reached) = (done.clone(), reached.clone());
                async move {
                    System.sleep(JOB_TIME).await;
                    if done.fetch_add(1, Ordering::Relaxed) + 1 == jobs {
                        reached.notify_one();
                    }
                    Ended::from(Outcome::Done)
                }
            });
            let queue = ServedQueue { max_running: self.max_running, ..ServedQueue::new(QUEUE) };
            let config = Config { queues: vec![queue], ..Config::default() };
            let env = Arc::new(System);
            engines.push(Engine::start(env, store.clone(), config, handlers).await?);
        }
        reached.notified().await;
        let rate = jobs as f64 / started.elapsed().as_secs_f64();
        for engine in &engines {
            stop(engine).await;
        }
        Ok(rate)
    }
}
