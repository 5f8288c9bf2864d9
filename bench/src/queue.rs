//! The engine compared with the store it runs on: how much of a plain loop it drains, how soon it picks
//! up a job, and what it costs when there is nothing to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use punctual_core::job::Outcome;
use punctual_engine::{Attempt, Config, Ended, Engine, Env, Handler, Handlers, System};
use punctual_store::Store;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::databases::{Database, Databases, Place};
use crate::measure::{Times, now};
use crate::ours::Ours;
use crate::raw::KIND;
use crate::report::{Figure, Goal, Unit};
use crate::store::{BATCH, LARGE};
use crate::{Failure, report};

/// How large the bench is.
pub(crate) struct Scale {
    /// Jobs that each turn drains.
    pub(crate) jobs: usize,
    /// Turns that are counted: odd, so that the median is a measured value.
    pub(crate) rounds: usize,
    /// Jobs that are picked up one by one.
    pub(crate) pickups: usize,
    /// How long idle nodes are watched.
    pub(crate) idle: Duration,
}

/// Nodes of the cluster that is watched when it has nothing to do.
const NODES: usize = 3;
/// How long they are left alone before: they look often at first, and PostgreSQL's connections
/// tell of what they did ten seconds later at the latest.
const SETTLING: Duration = Duration::from_secs(12);

pub(crate) fn run(place: &Place, scale: &Scale, as_json: bool) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (databases, figures) = runtime.block_on(async {
        let databases = Databases::open(place).await?;
        eprintln!("drain …");
        let mut figures = drain(&databases, scale).await?;
        eprintln!("pickup …");
        figures.extend(pick_up(&databases, scale.pickups).await?);
        eprintln!("idle …");
        figures.extend(idle(&databases, 1, scale.idle).await?);
        if let Databases::Postgres(_) = &databases {
            figures.extend(idle(&databases, NODES, scale.idle).await?);
        }
        Ok::<_, Failure>((databases, figures))
    })?;
    let size =
        json!({"jobs": scale.jobs, "pickups": scale.pickups, "idle_s": scale.idle.as_secs_f64()});
    let proof = databases.manner().queue_bench;
    report::print(&databases, proof, &size, &figures, as_json)
}

/// An engine as it is without any settings.
pub(crate) async fn start(store: Arc<dyn Store>, handler: impl Handler) -> Result<Engine, Failure> {
    let mut handlers = Handlers::default();
    handlers.add(KIND, handler);
    Ok(Engine::start(Arc::new(System), store, Config::default(), handlers).await?)
}

pub(crate) async fn stop(engine: &Engine) {
    engine.stop();
    engine.stopped().await;
}

/// A handler that does nothing, and tells when it has done so this often.
pub(crate) fn counts_to(last: usize, reached: Arc<Notify>) -> impl Handler {
    let done = AtomicUsize::new(0);
    move |_: Attempt| {
        if done.fetch_add(1, Ordering::Relaxed) + 1 == last {
            reached.notify_one();
        }
        async { Ended::from(Outcome::Done) }
    }
}

/// Waits until a node holds nothing, which is when all it did is durable.
async fn rested(engine: &Engine) {
    while engine.health().held > 0 {
        System.sleep(Duration::from_millis(1)).await;
    }
}

/// The bare loop and the engine in turns, and the engine where more waits than it takes.
async fn drain(databases: &Databases, scale: &Scale) -> Result<Vec<Figure>, Failure> {
    let jobs = scale.jobs;
    let (bare, small) = (databases.fresh("bare").await?, databases.fresh("drain").await?);
    let large = databases.filled("large", (LARGE - 1) * jobs).await?;
    let raw = bare.raw().await?;
    let (ours, at_large) = (Ours::open(&small, 2).await?, Ours::open(&large, 2).await?);
    let [mut by_hand, mut by_engine, mut till_run, mut till_run_at_large] =
        [const { Vec::new() }; 4];
    for round in 0..=scale.rounds {
        raw.fill(jobs).await?;
        ours.enqueue(jobs).await?;
        at_large.enqueue(jobs).await?;
        for database in [&bare, &small, &large] {
            database.rest().await?;
        }
        let per_second = |time: Duration| jobs as f64 / time.as_secs_f64();
        let started = now();
        let mut done = 0;
        while done < jobs {
            done += usize::try_from(raw.drain(BATCH).await?)?;
        }
        let hand = per_second(started.elapsed());
        let drained = drain_by_engine(&ours, jobs, true).await?;
        let drained_at_large = drain_by_engine(&at_large, jobs, false).await?;
        // The first turn warms caches and is not counted.
        if round > 0 {
            by_hand.push(hand);
            by_engine.push(per_second(drained.durable));
            till_run.push(per_second(drained.run));
            till_run_at_large.push(per_second(drained_at_large.run));
        }
    }
    let at_large_name = "drain, large backlog compared with small backlog";
    Ok(vec![
        Figure::in_turns("drain of no-op jobs, compared with a plain loop", &by_hand, &by_engine)
            .goal(Goal::AtLeast(databases.manner().drain_goal)),
        Figure::in_turns(at_large_name, &till_run, &till_run_at_large).goal(Goal::AtLeast(0.9)),
    ])
}

/// How long a drain took: until all jobs had run, and until that was durable.
pub(crate) struct Drained {
    run: Duration,
    pub(crate) durable: Duration,
}

/// Runs so many jobs; all that there are, if it is to come to rest.
pub(crate) async fn drain_by_engine(
    ours: &Ours,
    jobs: usize,
    rests: bool,
) -> Result<Drained, Failure> {
    let started = now();
    let reached = Arc::new(Notify::new());
    let engine = start(ours.store.clone(), counts_to(jobs, reached.clone())).await?;
    reached.notified().await;
    let run = started.elapsed();
    if rests {
        rested(&engine).await;
    }
    let durable = started.elapsed();
    stop(&engine).await;
    Ok(Drained { run, durable })
}

/// From the call of enqueue to the claimed job by hand, and to the handler's start by an idle
/// engine, one by one in turns.
async fn pick_up(databases: &Databases, count: usize) -> Result<Vec<Figure>, Failure> {
    let (bare, ours) = (databases.fresh("by_hand").await?, databases.fresh("pickup").await?);
    let by_hand = Ours::open(&bare, 3).await?;
    let near = Ours::open(&ours, 4).await?;
    // On SQLite another process would be a client beside the engine.
    let far = match &ours {
        Database::Sqlite(_) => None,
        Database::Postgres(_) => Some(Ours::open(&ours, 5).await?),
    };
    let (tell, mut began) = unbounded_channel();
    let tells = move |_: Attempt| {
        // Nobody listens when all is over.
        let _ = tell.send(now());
        async { Ended::from(Outcome::Done) }
    };
    let engine = start(near.store.clone(), tells).await?;
    let [mut hand, mut picked, mut told] = [const { Vec::new() }; 3];
    for _ in 0..count {
        let start = now();
        by_hand.enqueue(1).await?;
        let claimed = by_hand.claim(100).await?;
        hand.push(start.elapsed());
        by_hand.settle(&claimed).await?;
        picked.push(picked_up(&near, &engine, &mut began).await?);
        if let Some(far) = &far {
            told.push(picked_up(far, &engine, &mut began).await?);
        }
    }
    stop(&engine).await;
    let (hand, picked) = (Times::of(hand), Times::of(picked));
    let ms = |name, bare, ours| Figure::of(name, Unit::Millis, bare, ours);
    let mut figures = vec![
        ms("pickup when idle, compared with durable insert + claim", hand.median, picked.median)
            .goal(Goal::AtMost(2.0)),
        ms("the same, 99th percentile", hand.p99, picked.p99).goal(Goal::AtMost(2.0)),
    ];
    if far.is_some() {
        let told = Times::of(told);
        figures.push(ms("pickup of another process's job", hand.median, told.median));
        figures.push(ms("the same, 99th percentile", hand.p99, told.p99));
    }
    Ok(figures)
}

/// How long it takes from the call of enqueue until the engine runs the job.
async fn picked_up(
    caller: &Ours,
    engine: &Engine,
    began: &mut UnboundedReceiver<Instant>,
) -> Result<Duration, Failure> {
    let start = now();
    caller.enqueue(1).await?;
    let took = began.recv().await.ok_or("the engine has stopped")? - start;
    rested(engine).await;
    Ok(took)
}

/// What nodes cost that have nothing to do.
async fn idle(
    databases: &Databases,
    nodes: usize,
    watched: Duration,
) -> Result<Vec<Figure>, Failure> {
    let database = databases.fresh("idle").await?;
    let Watched { cpu, calls, commits } = watch(databases, &database, nodes, watched).await?;
    let who = if nodes == 1 { "an idle node".to_owned() } else { format!("{nodes} idle nodes") };
    let mut figures = vec![
        Figure::alone(format!("{who}: share of a core"), Unit::Percent, cpu * 100.0),
        Figure::alone(format!("{who}: store calls"), Unit::PerSecond, calls),
    ];
    if let Databases::Postgres(_) = databases {
        let name = format!("{who}: database transactions");
        // One for each node, three for all of them.
        let goal = Goal::AtMost(nodes as f64 + 3.0);
        figures.push(Figure::alone(name, Unit::PerSecond, commits).goal(goal));
    }
    Ok(figures)
}

/// What nodes were seen to cost, each second.
pub(crate) struct Watched {
    /// Of one core.
    pub(crate) cpu: f64,
    pub(crate) calls: f64,
    pub(crate) commits: f64,
}

/// Watches nodes of a database for some time, after they have come to rest.
pub(crate) async fn watch(
    databases: &Databases,
    database: &Database,
    nodes: usize,
    watched: Duration,
) -> Result<Watched, Failure> {
    let calls = Arc::new(AtomicUsize::new(0));
    let mut engines = Vec::new();
    for _ in 0..nodes {
        let calls = calls.clone();
        let called = move || {
            calls.fetch_add(1, Ordering::Relaxed);
        };
        let store = database.watched_store(called).await?;
        engines.push(start(store, counts_to(usize::MAX, Arc::default())).await?);
    }
    System.sleep(SETTLING.min(watched)).await;
    // A server tidies the catalogs of a database in which nodes have just made their tables, in
    // transactions that are nobody's.
    database.rest().await?;
    System.sleep(SETTLING.min(watched)).await;
    let (start, cpu) = (now(), cpu_time());
    let (calls_before, commits_before) =
        (calls.load(Ordering::Relaxed), commits(databases, database).await?);
    System.sleep(watched).await;
    let seconds = start.elapsed().as_secs_f64();
    let per_second = |count: usize| count as f64 / seconds;
    let cpu = (cpu_time() - cpu).as_secs_f64() / seconds;
    let calls = per_second(calls.load(Ordering::Relaxed) - calls_before);
    let commits = per_second(commits(databases, database).await? - commits_before);
    for engine in &engines {
        stop(engine).await;
    }
    Ok(Watched { cpu, calls, commits })
}

/// The commits of a PostgreSQL database so far.
async fn commits(databases: &Databases, database: &Database) -> Result<usize, Failure> {
    match (databases, database) {
        (Databases::Postgres(server), Database::Postgres(database)) => {
            Ok(usize::try_from(server.spent(database).await?.commits)?)
        }
        _ => Ok(0),
    }
}

/// What this process has used of all cores.
fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or(0))
}
