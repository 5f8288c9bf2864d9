//! The engine beside the store it runs on: how much of the bare loop it drains, how soon it picks
//! up a job, and what it costs when there is nothing to do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use punctual_conformance::{Fault, Faulty};
use punctual_core::job::{AttemptOutcome, Next, Outcome, Transition};
use punctual_engine::{Attempt, Config, Ended, Engine, Env, Handler, Handlers, System};
use punctual_sqlite::{Options, SqliteStore};
use punctual_store::{At, ClaimAsk, Json, NewJob, QueueShare, Settlement, Store, limits};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;

use crate::ids::Ids;
use crate::raw::{KIND, PAYLOAD, QUEUE, Raw};
use crate::{Failure, node_info, tell};

/// How large the bench is.
pub(crate) struct Scale {
    /// Jobs that each turn drains.
    pub(crate) jobs: usize,
    /// Jobs that are picked up one by one.
    pub(crate) pickups: usize,
    /// How long an idle node is watched.
    pub(crate) idle: Duration,
}

/// Odd, so that the median is a measured value. The first turn warms caches and is not counted.
const ROUNDS: usize = 5;
/// Jobs claimed and settled at once by the bare loop.
const BATCH: usize = 200;

pub(crate) fn run(
    directory: Option<PathBuf>,
    scale: &Scale,
    print_json: bool,
) -> Result<(), Failure> {
    let directory = match directory {
        Some(directory) => tempfile::tempdir_in(directory)?,
        None => tempfile::tempdir()?,
    };
    let file = |name: &str| directory.path().join(name);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    eprintln!("drain …");
    let (bare, drained) =
        runtime.block_on(drain(&file("bare.db"), &file("drain.db"), scale.jobs))?;
    eprintln!("pickup …");
    let (by_hand, picked_up) =
        runtime.block_on(pick_up(&file("by-hand.db"), &file("pickup.db"), scale.pickups))?;
    eprintln!("idle …");
    let idle = runtime.block_on(idle(&file("idle.db"), scale.idle))?;

    let share = drained / bare;
    let times = picked_up.median.as_secs_f64() / by_hand.median.as_secs_f64();
    if print_json {
        let round =
            |value: f64, digits: i32| (value * 10_f64.powi(digits)).round() / 10_f64.powi(digits);
        let us = |time: Duration| time.as_micros() as u64;
        let said = json!({
            "backend": "sqlite", "jobs": scale.jobs,
            "drain": {"bare_per_s": bare.round(), "engine_per_s": drained.round(), "share": round(share, 2), "goal": 0.6},
            "pickup": {"insert_and_claim_us": us(by_hand.median), "engine_us": us(picked_up.median),
                "insert_and_claim_p99_us": us(by_hand.p99), "engine_p99_us": us(picked_up.p99),
                "times": round(times, 2), "goal": 2.0},
            "idle": {"cpu_percent": round(idle.cpu * 100.0, 3), "calls_per_s": round(idle.calls, 2), "seconds": scale.idle.as_secs_f64()},
        });
        return tell("queue-bench", said);
    }
    println!("{:<44} {:>12} {:>12} {:>8} {:>8}", "SQLite", "yardstick", "engine", "is", "goal");
    println!(
        "{:<44} {bare:>10.0}/s {drained:>10.0}/s {:>7.0}% {:>8}",
        "drain of no-op jobs, of the bare loop",
        share * 100.0,
        "≥ 60%"
    );
    let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1_000.0);
    println!(
        "{:<44} {:>12} {:>12} {times:>7.2}× {:>8}",
        "pickup when idle, to durable insert + claim",
        ms(by_hand.median),
        ms(picked_up.median),
        "≤ 2×"
    );
    println!(
        "{:<44} {:>12} {:>12}",
        "the same, 99th percentile",
        ms(by_hand.p99),
        ms(picked_up.p99)
    );
    println!("{:<44} {:>12} {:>11.2}%", "an idle node: share of a core", "", idle.cpu * 100.0);
    println!("{:<44} {:>12} {:>10.2}/s", "an idle node: calls of the store", "", idle.calls);
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}

fn median(mut seen: Vec<f64>) -> f64 {
    seen.sort_by(f64::total_cmp);
    seen[seen.len() / 2]
}

/// A store, and jobs for it.
struct Queue {
    store: Arc<SqliteStore>,
    ids: Ids,
}

impl Queue {
    fn open(file: &Path, seed: u64) -> Result<Queue, Failure> {
        let store = Arc::new(SqliteStore::open(file, Options::engine())?);
        Ok(Queue { store, ids: Ids::new(seed) })
    }

    async fn enqueue(&self, count: usize) -> Result<(), Failure> {
        let payload = || Json::from_canonical(PAYLOAD.to_owned());
        let jobs: Vec<NewJob> =
            (0..count).map(|_| NewJob::new(self.ids.job(), QUEUE, KIND, payload())).collect();
        for part in jobs.chunks(limits::ENQUEUE_MAX) {
            self.store.enqueue(At::Database, part).await?;
        }
        Ok(())
    }
}

/// An engine as it is without any settings.
async fn start(store: Arc<dyn Store>, handler: impl Handler) -> Result<Engine, Failure> {
    let mut handlers = Handlers::default();
    handlers.add(KIND, handler);
    Ok(Engine::start(Arc::new(System), store, Config::default(), handlers).await?)
}

async fn stop(engine: &Engine) {
    engine.stop();
    engine.stopped().await;
}

/// A handler that does nothing, and tells when it has done so this often.
fn counts_to(last: usize, reached: Arc<Notify>) -> impl Handler {
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

/// Jobs per second of the bare loop and of the engine, in turns.
async fn drain(bare: &Path, ours: &Path, jobs: usize) -> Result<(f64, f64), Failure> {
    let raw = Raw::open(bare)?;
    let queue = Queue::open(ours, 2)?;
    let (mut by_hand, mut by_engine) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        raw.fill(jobs)?;
        let started = now();
        let mut done = 0;
        while done < jobs {
            done += usize::try_from(raw.drain(BATCH)?)?;
        }
        let bare_rate = jobs as f64 / started.elapsed().as_secs_f64();

        queue.enqueue(jobs).await?;
        let started = now();
        let reached = Arc::new(Notify::new());
        let engine = start(queue.store.clone(), counts_to(jobs, reached.clone())).await?;
        reached.notified().await;
        rested(&engine).await;
        let rate = jobs as f64 / started.elapsed().as_secs_f64();
        stop(&engine).await;
        if round > 0 {
            by_hand.push(bare_rate);
            by_engine.push(rate);
        }
    }
    Ok((median(by_hand), median(by_engine)))
}

struct Times {
    median: Duration,
    p99: Duration,
}

impl Times {
    fn of(mut seen: Vec<Duration>) -> Times {
        seen.sort();
        Times { median: seen[seen.len() / 2], p99: seen[(seen.len() - 1) * 99 / 100] }
    }
}

/// From the call of enqueue to the claimed job by hand, and to the handler's start by an idle
/// engine, one by one in turns.
async fn pick_up(bare: &Path, ours: &Path, count: usize) -> Result<(Times, Times), Failure> {
    let by_hand = Queue::open(bare, 3)?;
    let node = by_hand.ids.node();
    by_hand.store.join(At::Database, &node_info(node)).await?;
    let queue = Queue::open(ours, 4)?;
    let (tell, mut began) = unbounded_channel();
    let tells = move |_: Attempt| {
        // Nobody listens when all is over.
        let _ = tell.send(now());
        async { Ended::from(Outcome::Done) }
    };
    let engine = start(queue.store.clone(), tells).await?;
    let (mut hand, mut picked) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let start = now();
        by_hand.enqueue(1).await?;
        let ask = ClaimAsk {
            node,
            lease: by_hand.ids.lease(),
            queues: vec![QueueShare { name: QUEUE.to_owned(), most: 100 }],
            kinds: vec![KIND.to_owned()],
            most: 100,
        };
        let claimed = by_hand.store.claim(At::Database, &ask).await?.jobs;
        hand.push(start.elapsed());
        let transition =
            Transition { outcome: AttemptOutcome::Succeeded, next: Next::Succeeded, error: None };
        let settle = |job: &punctual_store::ClaimedJob| Settlement {
            job: job.id,
            lease: job.lease,
            transition: transition.clone(),
            result: None,
        };
        let batch: Vec<Settlement> = claimed.iter().map(settle).collect();
        by_hand.store.settle(At::Database, &batch).await?;

        let start = now();
        queue.enqueue(1).await?;
        picked.push(began.recv().await.ok_or("the engine is gone")? - start);
        rested(&engine).await;
    }
    stop(&engine).await;
    Ok((Times::of(hand), Times::of(picked)))
}

struct Idle {
    /// Of one core.
    cpu: f64,
    /// Of the store, per second.
    calls: f64,
}

/// What a node costs that has nothing to do.
async fn idle(file: &Path, watched: Duration) -> Result<Idle, Failure> {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let counting = Faulty::new(SqliteStore::open(file, Options::engine())?, move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Fault::None
    });
    let engine = start(Arc::new(counting), counts_to(usize::MAX, Arc::default())).await?;
    // It looks often at first.
    System.sleep(Duration::from_secs(2).min(watched)).await;
    let (start, cpu, before) = (now(), cpu_time(), calls.load(Ordering::Relaxed));
    System.sleep(watched).await;
    let seconds = start.elapsed().as_secs_f64();
    let idle = Idle {
        cpu: (cpu_time() - cpu).as_secs_f64() / seconds,
        calls: (calls.load(Ordering::Relaxed) - before) as f64 / seconds,
    };
    stop(&engine).await;
    Ok(idle)
}

/// What this process has used of all cores.
fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), u32::try_from(used.tv_nsec).unwrap_or(0))
}
