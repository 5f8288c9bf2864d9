//! A whole life of jobs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_core::job::{Outcome, decide};
use punctual_core::{JobId, Nonce, Timestamp};
use punctual_postgres::PostgresStore;
use punctual_store::*;

use crate::common::{Schema, schema};
use crate::{AT, ask, below, freeze, join, mint, number, open, policy, random, seconds};

/// What the workers of a life have seen.
#[derive(Default)]
struct Seen {
    /// How often an end of each job was applied.
    ends: Mutex<HashMap<JobId, u64>>,
    fenced: AtomicU64,
    crashes: AtomicU64,
    /// Repeats that were answered as if they were the first.
    doubled: AtomicU64,
    enqueued: AtomicU64,
}

/// A whole life: workers that crash, freeze, lose answers and repeat themselves; two reapers, a
/// promoter, a canceller and an enqueuer beside them. In the end every job has ended once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_job_ends_once_whatever_happens_to_its_workers() {
    let schema = Schema(schema());
    let seen = Arc::new(Seen::default());
    // Wild while jobs come, tame until all have ended.
    let (is_tame, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let ids: Arc<Mutex<Vec<JobId>>> = Arc::default();
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let (store, seen) = (open(&schema).await, seen.clone());
        let (is_tame, is_over) = (is_tame.clone(), is_over.clone());
        tasks.push(tokio::spawn(work(store, seen, is_tame, is_over)));
    }
    for _ in 0..2 {
        tasks.push(tokio::spawn(reap(open(&schema).await, is_over.clone())));
    }
    tasks.push(tokio::spawn(promote(
        open(&schema).await,
        ids.clone(),
        is_tame.clone(),
        is_over.clone(),
    )));
    let enqueuer = open(&schema).await;
    let end = enqueuer.now(AT).await.unwrap() + Duration::from_secs(seconds());
    loop {
        let now = enqueuer.now(AT).await.unwrap();
        if now > end {
            break;
        }
        let jobs: Vec<NewJob> = (0..5)
            .map(|_| {
                let mut job = NewJob::new(mint(now), "q", "k", Json::null());
                job.max_attempts = 1 + below(4) as u32;
                job.priority = below(5) as i16;
                if below(3) == 0 {
                    let (scope, lifetime) = (KeyScope::Tenant, KeyLifetime::Job);
                    job.unique = Some(UniqueKey {
                        key: below(30).to_string(),
                        scope,
                        lifetime,
                        is_by_payload: false,
                    });
                }
                if below(4) == 0 {
                    job.delay = Delay::For(Duration::from_millis(below(200)));
                }
                job
            })
            .collect();
        let answers = enqueuer.enqueue(AT, &jobs).await.unwrap().answers;
        let created = jobs.iter().zip(answers).filter(|(_, it)| *it == EnqueueAnswer::Created);
        let mut ids = ids.lock().unwrap();
        let before = ids.len();
        ids.extend(created.map(|(job, _)| job.id));
        seen.enqueued.fetch_add((ids.len() - before) as u64, Ordering::SeqCst);
    }
    is_tame.store(true, Ordering::SeqCst);
    let total = seen.enqueued.load(Ordering::SeqCst) as i64;
    let done = format!("SELECT count(*) FROM {}.job_done", schema.0);
    while number(done.clone()).await < total {
        freeze(Duration::from_millis(50)).await;
    }
    is_over.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }

    let of = |text: &str| number(text.replace("{s}", &schema.0));
    assert_eq!(of("SELECT count(*) FROM {s}.job").await, total);
    assert_eq!(of("SELECT (SELECT count(*) FROM {s}.job_ready) + (SELECT count(*) FROM {s}.job_timer) + (SELECT count(*) FROM {s}.job_wait) + (SELECT count(*) FROM {s}.job_lease)").await, 0);
    assert_eq!(of("SELECT count(*) FROM {s}.job_done d LEFT JOIN {s}.job j ON j.id = d.job WHERE j.id IS NULL").await, 0);
    assert_eq!(of("SELECT count(*) FROM {s}.job_done d JOIN {s}.job j ON j.id = d.job WHERE d.spent > j.max_attempts OR d.crashes > 3").await, 0);
    assert_eq!(of("SELECT count(*) FROM {s}.job_key WHERE expires_at IS NULL").await, 0);
    // Attempts that were recorded have numbers of their own, none beyond the last start.
    assert_eq!(of("SELECT count(*) FROM {s}.job_attempt a JOIN {s}.job_done d ON d.job = a.job WHERE a.attempt > d.attempt").await, 0);
    assert_eq!(of("SELECT count(*) FROM (SELECT lease, job FROM {s}.job_attempt GROUP BY 1, 2 HAVING count(*) > 1) x").await, 0);
    let twice = seen.ends.lock().unwrap().values().filter(|count| **count > 1).count();
    assert_eq!(twice, 0);
    assert_eq!(seen.doubled.load(Ordering::SeqCst), 0);
    println!(
        "\n{{\"proof\":\"pg-attacks\",\"jobs\":{total},\"crashes\":{},\"fenced\":{},\"ended_twice\":{twice},\"left_behind\":0}}",
        seen.crashes.load(Ordering::SeqCst),
        seen.fenced.load(Ordering::SeqCst)
    );
}

/// A node's lifetime here.
const LIFETIME: Duration = Duration::from_millis(300);

async fn work(
    store: Arc<PostgresStore>,
    seen: Arc<Seen>,
    is_tame: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
) {
    while !is_over.load(Ordering::SeqCst) {
        let node = join(&store).await;
        let wild = |times: u64| !is_tame.load(Ordering::SeqCst) && below(times) == 0;
        while !is_over.load(Ordering::SeqCst) {
            let beat = BeatAsk {
                node,
                is_remote: false,
                seeks: Vec::new(),
                roles: Vec::new(),
                lease: LIFETIME,
                leases: Vec::new(),
                progress: Vec::new(),
            };
            let beaten = store.beat(AT, &beat).await.unwrap();
            if !beaten.alive {
                break;
            }
            store.release(AT, node, &beaten.strays).await.unwrap();
            let claimed = match store.claim(AT, &ask(node, &["q"], &["k"], 5)).await {
                Ok(claimed) => claimed,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
                    break;
                }
            };
            if claimed.jobs.is_empty() {
                freeze(Duration::from_millis(5)).await;
                continue;
            }
            // The answer is lost, and the next beat tells of strays.
            if wild(20) {
                continue;
            }
            if wild(25) {
                seen.crashes.fetch_add(1, Ordering::SeqCst);
                break;
            }
            if wild(25) {
                freeze(2 * LIFETIME).await;
            }
            settle_all(&store, &seen, &claimed).await;
        }
    }
}

async fn settle_all(store: &PostgresStore, seen: &Seen, claimed: &Claimed) {
    let items: Vec<Settlement> = claimed
        .jobs
        .iter()
        .map(|job| {
            let outcome = match below(10) {
                0 => Outcome::Fail("boom".to_owned()),
                1 => Outcome::Released,
                2 => Outcome::Snooze(Duration::from_millis(10)),
                3 => Outcome::FailForGood("no".to_owned()),
                4 => Outcome::Panicked("oh".to_owned()),
                _ => Outcome::Done,
            };
            let transition = decide(&job.standing(), outcome, &policy(), claimed.at);
            Settlement { job: job.id, lease: job.lease, transition, result: None, then: Vec::new() }
        })
        .collect();
    let answers = store.settle(AT, &items).await.unwrap().answers;
    for (item, answer) in items.iter().zip(&answers) {
        match answer {
            Settled::Applied(state) if state.is_final() => {
                *seen.ends.lock().unwrap().entry(item.job).or_default() += 1;
            }
            Settled::Fenced => drop(seen.fenced.fetch_add(1, Ordering::SeqCst)),
            _ => {}
        }
    }
    if below(3) == 0 {
        for (first, again) in answers.iter().zip(store.settle(AT, &items).await.unwrap().answers) {
            // An end that was applied is recorded; of a snooze another's may have taken the place.
            let is_end = matches!(first, Settled::Applied(state) if state.is_final());
            if matches!(again, Settled::Applied(_)) || (is_end && again != Settled::Already) {
                seen.doubled.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

async fn reap(store: Arc<PostgresStore>, is_over: Arc<AtomicBool>) {
    let node = join(&store).await;
    let lease = Duration::from_millis(400);
    while !is_over.load(Ordering::SeqCst) {
        let nonce = Nonce::mint(Timestamp::EPOCH, random());
        let won = store.acquire(AT, "maintenance", node, nonce, lease).await.unwrap();
        let Acquired::Won { term, .. } = won else {
            freeze(Duration::from_millis(50)).await;
            continue;
        };
        let fence = Fence { role: "maintenance".to_owned(), term, nonce };
        let ask = ReapAsk { fence, lease, node_lifetime: LIFETIME, policy: policy(), most: 100 };
        while !is_over.load(Ordering::SeqCst) && store.reap(AT, &ask).await.unwrap().led {
            freeze(Duration::from_millis(30)).await;
            if below(60) == 0 {
                store.resign(AT, &ask.fence).await.unwrap();
            }
        }
    }
}

async fn promote(
    store: Arc<PostgresStore>,
    ids: Arc<Mutex<Vec<JobId>>>,
    is_tame: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
) {
    while !is_over.load(Ordering::SeqCst) {
        store.promote(AT, 100).await.unwrap();
        let job = {
            let ids = ids.lock().unwrap();
            let count = ids.len() as u64;
            (count > 0 && !is_tame.load(Ordering::SeqCst)).then(|| ids[below(count) as usize])
        };
        if let Some(job) = job.filter(|_| below(4) == 0) {
            store.cancel(AT, job, &Actor::new("ana", "test")).await.unwrap();
        }
        freeze(Duration::from_millis(5)).await;
    }
}
