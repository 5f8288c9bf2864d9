//! What every harness in Rust shares, ours and the rivals': one way to measure for all of them.
//! `bench/peers/README.md` says what is measured.

use std::env;
use std::error::Error;
use std::future::Future;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// What is asked of a harness.
#[allow(dead_code, reason = "ours takes its default configuration, whatever is asked")]
pub(crate) struct Ask {
    pub(crate) measure: String,
    /// How many jobs `bulk` and `drain` are about.
    pub(crate) jobs: u64,
    /// Workers or jobs at once, whatever the peer counts.
    pub(crate) concurrency: usize,
    /// A configuration that is not the default one.
    pub(crate) variant: String,
}

impl Ask {
    /// Reads `<measure> <jobs> <concurrency> [variant]`.
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Ask, Failure> {
        let mut word = || words.next().ok_or("usage: <measure> <jobs> <concurrency> [variant]");
        let (measure, jobs, concurrency) =
            (word()?, word()?.parse::<u64>()?, word()?.parse::<usize>()?);
        Ok(Ask { measure, jobs, concurrency, variant: word().unwrap_or_default() })
    }
}

/// Where the database is.
pub(crate) fn url() -> Result<String, Failure> {
    Ok(env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL")?)
}

/// A queue that can be measured. Each producer has a clone of its own.
pub(crate) trait Peer: Clone + Send + 'static {
    /// Has it a call that writes many jobs at once?
    const WRITES_MANY: bool = true;

    /// Writes a job, and returns when it is durable.
    fn enqueue(&mut self, job: u64) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Writes many jobs by the quickest call there is.
    fn enqueue_many(
        &mut self,
        jobs: Range<u64>,
    ) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Works until it is dropped; each job calls `handled`.
    fn work(&self) -> impl Future<Output = Result<(), Failure>>;

    /// How many jobs have not ended, by the database's account.
    fn remaining(&self) -> impl Future<Output = Result<i64, Failure>>;
}

/// About a hundred bytes with the number beside it.
pub(crate) fn padding() -> String {
    "x".repeat(80)
}

static BEGAN: LazyLock<Instant> = LazyLock::new(now);
static DONE: AtomicU64 = AtomicU64::new(0);
static LAST_NANOS: AtomicU64 = AtomicU64::new(0);
static HANDLED: Notify = Notify::const_new();

/// What the handler of each job does.
pub(crate) fn handled() {
    LAST_NANOS.store(nanos(), SeqCst);
    DONE.fetch_add(1, SeqCst);
    HANDLED.notify_one();
}

fn nanos() -> u64 {
    u64::try_from(BEGAN.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a benchmark takes real time")]
async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Jobs in one call of `enqueue_many`.
const MANY: u64 = 1_000;
/// How long jobs are enqueued one by one.
const ENQUEUE: Duration = Duration::from_secs(2);
/// Producers at once where one would take too long.
const PRODUCERS: u64 = 8;
/// Jobs that are picked up one by one; the first few warm up.
const PICKUPS: usize = 205;
const WARM: usize = 5;
/// No more pickups after this long: some peers take seconds for each.
const PICKUPS_MAX: Duration = Duration::from_secs(15);
/// A peer that has not drained its jobs by now never will.
const DRAIN_MAX: Duration = Duration::from_secs(120);
/// How often the database is asked whether it is done. Asking costs it something.
const ASK_MILLIS: u64 = 10;

/// Measures, and prints one line of JSON.
pub(crate) async fn measure<P: Peer>(ask: &Ask, peer: P) -> Result<(), Failure> {
    match ask.measure.as_str() {
        "enqueue1" => enqueue(&peer, 1).await,
        "enqueue8" => enqueue(&peer, PRODUCERS).await,
        "bulk" => bulk(peer, ask.jobs).await,
        "drain" => {
            fill(&peer, ask.jobs).await?;
            let start = now();
            tokio::select! {
                ended = peer.work() => Err(format!("the worker ended: {ended:?}").into()),
                done = drained(&peer, start, ask.jobs) => done,
            }
        }
        "latency" => tokio::select! {
            ended = peer.work() => Err(format!("the worker ended: {ended:?}").into()),
            done = pick_up(peer.clone()) => done,
        },
        "idle" => {
            println!("READY");
            peer.work().await
        }
        other => Err(format!("there is no measure `{other}`").into()),
    }
}

async fn enqueue<P: Peer>(peer: &P, producers: u64) -> Result<(), Failure> {
    for job in 0..20 {
        peer.clone().enqueue(job).await?;
    }
    let start = now();
    let produce = |mut peer: P| async move {
        let mut jobs = 0;
        while start.elapsed() < ENQUEUE {
            peer.enqueue(jobs).await?;
            jobs += 1;
        }
        Ok::<_, Failure>(jobs)
    };
    let all: Vec<_> = (0..producers).map(|_| tokio::spawn(produce(peer.clone()))).collect();
    let mut jobs = 0;
    for one in all {
        jobs += one.await??;
    }
    tell(jobs as f64 / start.elapsed().as_secs_f64(), "");
    Ok(())
}

async fn bulk<P: Peer>(mut peer: P, jobs: u64) -> Result<(), Failure> {
    let start = now();
    for first in (0..jobs).step_by(MANY as usize) {
        peer.enqueue_many(first..jobs.min(first + MANY)).await?;
    }
    let rate = jobs as f64 / start.elapsed().as_secs_f64();
    let remaining = peer.remaining().await?;
    if remaining != jobs as i64 {
        return Err(format!("{remaining} of {jobs} jobs are in the database").into());
    }
    tell(rate, "");
    Ok(())
}

/// Writes the jobs that are to be drained; this is not timed.
async fn fill<P: Peer>(peer: &P, jobs: u64) -> Result<(), Failure> {
    let part = if P::WRITES_MANY { jobs } else { jobs.div_ceil(PRODUCERS) };
    let parts = (0..jobs).step_by(part as usize).map(|first| first..jobs.min(first + part));
    let write = |mut peer: P, range: Range<u64>| async move {
        if P::WRITES_MANY {
            for first in range.clone().step_by(MANY as usize) {
                peer.enqueue_many(first..range.end.min(first + MANY)).await?;
            }
        } else {
            for job in range {
                peer.enqueue(job).await?;
            }
        }
        Ok::<_, Failure>(())
    };
    let all: Vec<_> = parts.map(|part| tokio::spawn(write(peer.clone(), part))).collect();
    for one in all {
        one.await??;
    }
    Ok(())
}

/// Waits until every handler ran and the database agrees that nothing is left. What counts is when
/// it was asked, not when it answered.
async fn drained<P: Peer>(peer: &P, start: Instant, jobs: u64) -> Result<(), Failure> {
    while DONE.load(SeqCst) < jobs && start.elapsed() < DRAIN_MAX {
        pause(1).await;
    }
    loop {
        let took = start.elapsed().as_secs_f64();
        let remaining = peer.remaining().await?;
        let done = DONE.load(SeqCst);
        if remaining == 0 && done >= jobs {
            tell(jobs as f64 / took, &format!(r#","again":{}"#, done - jobs));
            return Ok(());
        }
        if start.elapsed() > DRAIN_MAX {
            return Err(format!("{done} handled and {remaining} left of {jobs} jobs").into());
        }
        pause(ASK_MILLIS).await;
    }
}

/// One job at a time on an idle system: from the call of enqueue to the handler's start.
async fn pick_up<P: Peer>(mut peer: P) -> Result<(), Failure> {
    pause(2_000).await;
    let (began, mut seen) = (now(), Vec::new());
    for number in 0..PICKUPS {
        if began.elapsed() > PICKUPS_MAX {
            break;
        }
        let (wanted, start) = (DONE.load(SeqCst) + 1, nanos());
        peer.enqueue(number as u64).await?;
        while DONE.load(SeqCst) < wanted {
            HANDLED.notified().await;
        }
        if number >= WARM {
            seen.push(LAST_NANOS.load(SeqCst).saturating_sub(start) as f64 / 1e6);
        }
        // From 5 to 25 ms, in no step with anybody's polling.
        pause(5 + start % 20).await;
    }
    seen.sort_by(f64::total_cmp);
    let at = |share: f64| seen.get((seen.len() as f64 * share) as usize).copied();
    let (Some(p50), Some(p99)) = (at(0.5), at(0.99)) else {
        return Err("no job was picked up in time".into());
    };
    tell(p50, &format!(r#","p99":{p99},"samples":{}"#, seen.len()));
    Ok(())
}

fn tell(value: f64, more: &str) {
    println!(r#"{{"value":{value}{more}}}"#);
}
