//! The engine on PostgreSQL: several nodes, one truth.

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Schema, direct_url, options, pooled_url, schema};
use punctual_core::job::{JobState, Outcome};
use punctual_core::{JobId, Timestamp};
use punctual_engine::{Attempt, Config, Engine, Env, Handlers, System};
use punctual_postgres::{Options, PostgresStore};
use punctual_store::{At, Json, NewJob, Store};
use tokio::sync::Semaphore;

const JOBS: usize = 400;
const NODES: usize = 3;

/// How often each job ran, and a permit for each time.
#[derive(Default)]
struct Ran(Mutex<BTreeMap<JobId, u32>>);

fn handlers(ran: &Arc<Ran>, done: &Arc<Semaphore>) -> Handlers {
    let (ran, done) = (ran.clone(), done.clone());
    let mut handlers = Handlers::default();
    handlers.add("work", move |attempt: Attempt| {
        let (ran, done) = (ran.clone(), done.clone());
        async move {
            *ran.0.lock().expect("it works").entry(attempt.job.id).or_default() += 1;
            done.add_permits(1);
            Outcome::Done.into()
        }
    });
    handlers
}

fn job(env: &dyn Env) -> NewJob {
    let id = JobId::mint(Timestamp::from_seconds(1_800_000_000), env.seed());
    NewJob::new(id, "default", "work", Json::null())
}

/// Three nodes, each with a store of its own, share four hundred jobs.
async fn share(url: &str, options: Options) {
    let env: Arc<dyn Env> = Arc::new(System);
    let (ran, done) = (Arc::<Ran>::default(), Arc::new(Semaphore::new(0)));
    let (mut engines, mut stores) = (Vec::new(), Vec::new());
    for _ in 0..NODES {
        let store = Arc::new(PostgresStore::connect(url, options.clone()).await.expect("it works"));
        let config = Config { max_running: 10, ..Config::default() };
        let engine = Engine::start(env.clone(), store.clone(), config, handlers(&ran, &done));
        engines.push(engine.await.expect("it works"));
        stores.push(store);
    }
    let jobs: Vec<NewJob> = (0..JOBS).map(|_| job(&*env)).collect();
    stores[0].enqueue(At::Database, &jobs).await.expect("it works");
    drop(done.acquire_many(JOBS as u32).await.expect("it works"));
    for engine in &engines {
        engine.stop();
        assert_eq!(engine.stopped().await.unsettled, 0);
    }
    assert_eq!(ran.0.lock().expect("it works").len(), JOBS);
    assert!(ran.0.lock().expect("it works").values().all(|times| *times == 1), "a job ran twice");
    for job in &jobs {
        let found = stores[1].job(job.id).await.expect("it works").expect("it works");
        assert_eq!(found.view.state, JobState::Succeeded);
    }
    assert_eq!(stores[0].nodes().await.expect("it works"), [], "every node has left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_share_the_work_and_do_each_job_once() {
    let schema = Schema(schema());
    share(&direct_url(), options(&schema.0).listen(true)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_share_the_work_through_a_pooler() {
    let schema = Schema(schema());
    share(&pooled_url(), options(&schema.0).pooled()).await;
}

/// The heartbeat has a thread of its own, and so have the store's connections.
#[tokio::test]
async fn a_handler_that_blocks_every_thread_does_not_stop_the_heartbeat() {
    let schema = Schema(schema());
    block(&direct_url(), options(&schema.0)).await;
}

#[tokio::test]
async fn nor_does_it_behind_a_pooler() {
    let schema = Schema(schema());
    block(&pooled_url(), options(&schema.0).pooled()).await;
}

/// A handler blocks the only thread of the test's runtime, while another one counts heartbeats.
async fn block(url: &str, options: Options) {
    let env: Arc<dyn Env> = Arc::new(System);
    let store = PostgresStore::connect(url, options.clone()).await.expect("it works");
    let store: Arc<dyn Store> = Arc::new(store);
    let (began, end) = (Arc::new(Semaphore::new(0)), std::sync::mpsc::channel::<()>());
    let (let_go, held) = (end.0, Arc::new(Mutex::new(end.1)));
    let mut handlers = Handlers::default();
    let told = began.clone();
    handlers.add("work", move |_: Attempt| {
        let (held, told) = (held.clone(), told.clone());
        async move {
            // One for each who waits: the first may be the one that is about to be blocked.
            told.add_permits(2);
            // Blocks the only thread of this runtime until the other one has seen enough.
            let freed = held.lock().expect("it works").recv_timeout(Duration::from_secs(30));
            freed.expect("the other has seen enough");
            Outcome::Done.into()
        }
    });
    let engine = Engine::start(env.clone(), store.clone(), Config::default(), handlers);
    let engine = engine.await.expect("it works");
    let node = engine.node();
    let (begun, url) = (began.clone(), url.to_owned());
    let watcher = std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it works");
        runtime.block_on(async {
            drop(begun.acquire().await.expect("it works"));
            // Connections of the other store may be in the hands of tasks that cannot go on.
            let watched = PostgresStore::connect(&url, options).await;
            let watched = watched.expect("it works");
            let seen = || async {
                let nodes = watched.nodes().await.expect("it works");
                nodes.iter().find(|found| found.info.id == node).expect("it works").seen_at
            };
            let first = seen().await;
            let mut beats = 0;
            let mut last = first;
            while beats < 2 {
                let now = seen().await;
                beats += u32::from(now > last);
                last = now;
                tokio::task::yield_now().await;
            }
            let_go.send(()).expect("it works");
        });
    });
    // Not before somebody watches: the handler may begin, and block, before this is answered.
    store.enqueue(At::Database, &[job(&*env)]).await.expect("it works");
    drop(began.acquire().await.expect("it works"));
    engine.stop();
    assert_eq!(engine.stopped().await.unsettled, 0);
    watcher.join().expect("it works");
}
