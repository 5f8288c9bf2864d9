//! Several processes at once, and what they must not be able to do to each other. Each store here
//! is a process of its own to the database.
//!
//! `PUNCTUAL_PROOF_SECONDS` sets how long the long ones go on; if it is set, the others are larger, too.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod firing;
mod life;
mod overlap;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Schema, connect, direct_url, options, pooled_url, schema};
use punctual_core::job::{
    AttemptOutcome, Backoff, Growth, JobState, Next, Outcome, RetryPolicy, Spread, Transition,
    decide,
};
use punctual_core::{JobId, LeaseId, NodeId, Timestamp, hash};
use punctual_postgres::PostgresStore;
use punctual_store::*;

const AT: At = At::Database;

/// How long the long attacks go on.
fn seconds() -> u64 {
    std::env::var("PUNCTUAL_PROOF_SECONDS").map_or(3, |text| text.parse().expect("seconds"))
}

/// How many there are of something: in a normal run, and in a proof.
fn size(usual: usize, full: usize) -> usize {
    if std::env::var_os("PUNCTUAL_PROOF_SECONDS").is_some() { full } else { usual }
}

#[expect(clippy::disallowed_methods, reason = "how long a claim takes is a measurement")]
fn clock() -> Instant {
    Instant::now()
}

/// Numbers that differ from each other, for ids and choices.
fn draw() -> u64 {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    hash::draw(u64::from(std::process::id()), DRAWN.fetch_add(1, Ordering::Relaxed))
}

fn below(end: u64) -> u64 {
    draw() % end
}

fn random() -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[2..].copy_from_slice(&draw().to_be_bytes());
    bytes
}

fn mint(at: Timestamp) -> JobId {
    JobId::mint(at, random())
}

/// Every second process goes through the pooler. Each makes the days that are missing, as by default.
async fn open(schema: &Schema) -> Arc<PostgresStore> {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let is_pooled = OPENED.fetch_add(1, Ordering::Relaxed) % 2 == 1;
    let options = options(&schema.0).days_ahead(2);
    let opened = match is_pooled {
        false => PostgresStore::connect(&direct_url(), options).await,
        true => PostgresStore::connect(&pooled_url(), options.pooled()).await,
    };
    Arc::new(opened.expect("a store"))
}

async fn join(store: &PostgresStore) -> NodeId {
    let id = NodeId::mint(Timestamp::EPOCH, random());
    let info = NodeInfo {
        id,
        name: "n".to_owned(),
        version: String::new(),
        queues: Vec::new(),
        kinds: Vec::new(),
        labels: Vec::new(),
    };
    store.join(AT, &info).await.expect("it is entered");
    id
}

fn ask(node: NodeId, queues: &[&str], kinds: &[&str], most: usize) -> ClaimAsk {
    ClaimAsk {
        node,
        lease: LeaseId::mint(Timestamp::EPOCH, random()),
        more: Vec::new(),
        queues: queues.iter().map(|name| QueueShare { name: (*name).to_owned(), most }).collect(),
        kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
        most,
    }
}

fn policy() -> RetryPolicy {
    let backoff = Backoff {
        growth: Growth::Fixed,
        spread: Spread::None,
        base: Duration::from_millis(10),
        ..Backoff::default()
    };
    RetryPolicy { backoff }
}

async fn number(text: String) -> i64 {
    connect().await.query_one(&text, &[]).await.expect("a number").get(0)
}

/// Lets time pass in which nothing happens, as for a process that is frozen.
async fn freeze(length: Duration) {
    let never = std::future::pending::<()>();
    assert!(tokio::time::timeout(length, never).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_settles_of_one_lease_apply_once_and_leave_no_lease() {
    let schema = Schema(schema());
    let (one, other) = (open(&schema).await, open(&schema).await);
    let node = join(&one).await;
    let now = one.now(AT).await.unwrap();
    for _ in 0..50 {
        let jobs: Vec<NewJob> =
            (0..20).map(|_| NewJob::new(mint(now), "q", "k", Json::null())).collect();
        one.enqueue(AT, &jobs).await.unwrap();
        let claimed = one.claim(AT, &ask(node, &["q"], &["k"], 20)).await.unwrap().jobs;
        let settlement = |job: &ClaimedJob, outcome: Outcome| Settlement {
            job: job.id,
            lease: job.lease,
            transition: decide(&job.standing(), outcome, &policy(), now),
            result: None,
            then: Vec::new(),
        };
        let done: Vec<_> = claimed.iter().map(|job| settlement(job, Outcome::Done)).collect();
        let given: Vec<_> =
            claimed.iter().rev().map(|job| settlement(job, Outcome::Released)).collect();
        let (left, right) = tokio::join!(one.settle(AT, &done), other.settle(AT, &given));
        let (left, right) = (left.unwrap().answers, right.unwrap().answers);
        for (left, right) in left.iter().zip(right.iter().rev()) {
            let applied =
                [left, right].iter().filter(|it| matches!(it, Settled::Applied(_))).count();
            assert_eq!(applied, 1, "{left:?} {right:?}");
        }
        let leases = number(format!("SELECT count(*) FROM {}.job_lease", schema.0)).await;
        assert_eq!(leases, 0);
        // Those that were given back are ready, those that were done are not; whoever gave them back
        // knows at once, and others when they next look at the whole queue.
        let again = other.claim(AT, &ask(node, &["q"], &["k"], 20)).await.unwrap().jobs;
        let given = right.iter().filter(|it| **it == Settled::Applied(JobState::Ready)).count();
        assert_eq!(again.len(), given);
        let done: Vec<_> = again.iter().map(|job| settlement(job, Outcome::Done)).collect();
        one.settle(AT, &done).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_claims_take_each_job_once() {
    let schema = Schema(schema());
    let stores =
        [open(&schema).await, open(&schema).await, open(&schema).await, open(&schema).await];
    let now = stores[0].now(AT).await.unwrap();
    let kinds = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let total = size(4_000, 24_000);
    for part in 0..total / 1_000 {
        let job = |index: usize| {
            NewJob::new(mint(now), ["x", "y"][index % 2], kinds[index % kinds.len()], Json::null())
        };
        let jobs: Vec<NewJob> = (part * 1_000..(part + 1) * 1_000).map(job).collect();
        stores[0].enqueue(AT, &jobs).await.unwrap();
    }
    let claims = stores.iter().enumerate().map(|(index, store)| {
        let store = store.clone();
        tokio::spawn(async move {
            let node = join(&store).await;
            let order: [&str; 2] = if index % 2 == 0 { ["x", "y"] } else { ["y", "x"] };
            let mut mine = Vec::new();
            loop {
                let most = 1 + below(60) as usize;
                let claimed = store.claim(AT, &ask(node, &order, &kinds, most)).await.unwrap().jobs;
                assert!(claimed.len() <= most);
                if claimed.is_empty() {
                    return mine;
                }
                mine.extend(claimed.iter().map(|job| job.id));
            }
        })
    });
    let mut all = Vec::new();
    for claims in claims.collect::<Vec<_>>() {
        all.extend(claims.await.unwrap());
    }
    assert_eq!(all.len(), total);
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), total);
}

/// Jobs of kinds that nobody serves stand ahead of all others: they are read past once, and not again
/// with every claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn jobs_that_nobody_serves_hold_up_no_others() {
    const OURS: usize = 1_000;
    const BATCH: usize = 50;
    let schema = Schema(schema());
    let (producer, store) = (open(&schema).await, open(&schema).await);
    let now = producer.now(AT).await.unwrap();
    let foreign = size(20_000, 999_000);
    let write = async |kind: &str, count: usize| {
        let mut written = 0;
        while written < count {
            let batch = limits::ENQUEUE_MAX.min(count - written);
            let jobs = (0..batch).map(|_| NewJob::new(mint(now), "q", kind, Json::null()));
            producer.enqueue(AT, &jobs.collect::<Vec<_>>()).await.unwrap();
            written += batch;
        }
    };
    write("foreign", foreign).await;
    write("ours", OURS).await;
    let node = join(&store).await;
    let (mut ids, mut lengths) = (HashSet::new(), Vec::new());
    while ids.len() < OURS {
        let began = clock();
        let claimed = store.claim(AT, &ask(node, &["q"], &["ours"], BATCH)).await.unwrap().jobs;
        lengths.push(began.elapsed());
        assert!(!claimed.is_empty(), "{} of {OURS} were found", ids.len());
        ids.extend(claimed.iter().map(|job| job.id));
    }
    let first = lengths.remove(0);
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    println!("behind {foreign} foreign jobs: the first claim {first:?}, the next {median:?}");
    // With fewer rows both are short.
    assert!(foreign < 100_000 || median < first / 5, "{first:?} at first, then {median:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_key_makes_one_job_whoever_asks_and_however_often() {
    let schema = Schema(schema());
    let (calls, keys) = (size(40, 270), size(60, 400) as u64);
    let mut asking = Vec::new();
    let answers: Arc<Mutex<HashMap<String, HashSet<JobId>>>> = Arc::default();
    for _ in 0..6 {
        let store = open(&schema).await;
        let answers = answers.clone();
        asking.push(tokio::spawn(async move {
            let now = store.now(AT).await.unwrap();
            for _ in 0..calls {
                let mut jobs: Vec<NewJob> = (0..8)
                    .map(|_| NewJob {
                        unique: Some(UniqueKey {
                            key: below(keys).to_string(),
                            scope: KeyScope::Tenant,
                            lifetime: KeyLifetime::Job,
                            is_by_payload: false,
                        }),
                        ..NewJob::new(mint(now), "q", "k", Json::null())
                    })
                    .collect();
                if below(2) == 0 {
                    jobs.push(NewJob::new(mint(now), "q", "plain", Json::null()));
                }
                for _ in 0..1 + u64::from(below(10) < 3) {
                    let told = store.enqueue(AT, &jobs).await.unwrap().answers;
                    for (job, answer) in jobs.iter().zip(told) {
                        let Some(unique) = &job.unique else {
                            assert_eq!(answer, EnqueueAnswer::Created);
                            continue;
                        };
                        let holder = match answer {
                            EnqueueAnswer::Created => job.id,
                            EnqueueAnswer::Duplicate(holder) => holder,
                            EnqueueAnswer::Rejected(why) => panic!("{why:?}"),
                        };
                        answers
                            .lock()
                            .unwrap()
                            .entry(unique.key.clone())
                            .or_default()
                            .insert(holder);
                    }
                }
            }
        }));
    }
    for asking in asking {
        asking.await.unwrap();
    }
    let answers = std::mem::take(&mut *answers.lock().unwrap());
    assert!(answers.values().all(|holders| holders.len() == 1), "{answers:?}");
    let keyed = format!("SELECT count(*) FROM {}.job WHERE kind = 'k'", schema.0);
    let keys = format!("SELECT count(*) FROM {}.job_key", schema.0);
    assert_eq!(number(keyed).await, number(keys).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_key_that_is_being_taken_keeps_nobody_else_waiting() {
    let schema = Schema(schema());
    let store = open(&schema).await;
    let now = store.now(AT).await.unwrap();
    let keyed = |key: &str| NewJob {
        unique: Some(UniqueKey {
            key: key.to_owned(),
            scope: KeyScope::Tenant,
            lifetime: KeyLifetime::Job,
            is_by_payload: false,
        }),
        ..NewJob::new(mint(now), "q", "k", Json::null())
    };
    // Somebody's transaction, left open, in which a key is taken.
    let mut client = connect().await;
    let open_transaction = client.transaction().await.unwrap();
    let take = format!(
        "INSERT INTO {}.job_key (tenant, key, job, hash) VALUES ('', E't\\nheld', $1, uuid_send($1))",
        schema.0
    );
    let holder = mint(now);
    open_transaction.execute(&take, &[&holder.as_uuid()]).await.unwrap();

    let waiting = {
        let (store, job) = (store.clone(), keyed("held"));
        tokio::spawn(async move { store.enqueue(AT, &[job]).await })
    };
    let others: Vec<_> = (0..20)
        .map(|number| {
            let (store, job) = (store.clone(), keyed(&format!("free {number}")));
            tokio::spawn(async move { store.enqueue(AT, &[job]).await })
        })
        .collect();
    for other in others {
        assert_eq!(other.await.unwrap().unwrap().answers, [EnqueueAnswer::Created]);
    }
    assert!(!waiting.is_finished());
    open_transaction.rollback().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().answers, [EnqueueAnswer::Created]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_duplicate_in_an_open_transaction_does_not_hold_up_the_holder() {
    let schema = Schema(schema());
    let store = open(&schema).await;
    let node = join(&store).await;
    let now = store.now(AT).await.unwrap();
    let unique = UniqueKey {
        key: "k".to_owned(),
        scope: KeyScope::Tenant,
        lifetime: KeyLifetime::Job,
        is_by_payload: false,
    };
    let job = NewJob { unique: Some(unique), ..NewJob::new(mint(now), "q", "k", Json::null()) };
    store.enqueue(AT, std::slice::from_ref(&job)).await.unwrap();
    let mut client = connect().await;
    let open_transaction = client.transaction().await.unwrap();
    let take = format!(
        "INSERT INTO {}.job_key (tenant, key, job, hash) VALUES ('', E't\\nk', $1, uuid_send($1)) ON CONFLICT DO NOTHING",
        schema.0
    );
    assert_eq!(open_transaction.execute(&take, &[&mint(now).as_uuid()]).await.unwrap(), 0);
    let claimed = store.claim(AT, &ask(node, &["q"], &["k"], 1)).await.unwrap().jobs;
    let transition =
        Transition { outcome: AttemptOutcome::Succeeded, next: Next::Succeeded, error: None };
    let item = Settlement {
        job: job.id,
        lease: claimed[0].lease,
        transition,
        result: None,
        then: Vec::new(),
    };
    let settled = store.settle(AT, &[item]).await.unwrap().answers;
    assert_eq!(settled, [Settled::Applied(JobState::Succeeded)]);
    open_transaction.rollback().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_limit_is_never_exceeded() {
    const LIMIT: u32 = 5;
    let schema = Schema(schema());
    let stores =
        [open(&schema).await, open(&schema).await, open(&schema).await, open(&schema).await];
    let limit = QueueChange::Limit(QueueLimits { max_running: Some(LIMIT) });
    stores[0].change_queue(AT, "q", &limit, &Actor::new("ana", "test")).await.unwrap();
    let now = stores[0].now(AT).await.unwrap();
    let total = 300;
    let jobs: Vec<NewJob> =
        (0..total).map(|_| NewJob::new(mint(now), "q", "k", Json::null())).collect();
    stores[0].enqueue(AT, &jobs).await.unwrap();
    let running = Arc::new(AtomicU64::new(0));
    let most = Arc::new(AtomicU64::new(0));
    let left = Arc::new(AtomicU64::new(total));
    let mut working = Vec::new();
    for store in stores {
        let (running, most, left) = (running.clone(), most.clone(), left.clone());
        working.push(tokio::spawn(async move {
            let node = join(&store).await;
            while left.load(Ordering::SeqCst) > 0 {
                let claimed = store.claim(AT, &ask(node, &["q"], &["k"], 4)).await.unwrap().jobs;
                let count = claimed.len() as u64;
                let now = running.fetch_add(count, Ordering::SeqCst) + count;
                most.fetch_max(now, Ordering::SeqCst);
                tokio::task::yield_now().await;
                let items: Vec<Settlement> = claimed
                    .iter()
                    .map(|job| Settlement {
                        job: job.id,
                        lease: job.lease,
                        transition: Transition {
                            outcome: AttemptOutcome::Succeeded,
                            next: Next::Succeeded,
                            error: None,
                        },
                        result: None,
                        then: Vec::new(),
                    })
                    .collect();
                // Counted before it is settled, so that what is counted is never too much.
                running.fetch_sub(count, Ordering::SeqCst);
                store.settle(AT, &items).await.unwrap();
                left.fetch_sub(count, Ordering::SeqCst);
            }
        }));
    }
    for working in working {
        working.await.unwrap();
    }
    let most = most.load(Ordering::SeqCst);
    assert!((1..=u64::from(LIMIT)).contains(&most), "{most} at once");
}

/// Two queues allow one job each, and two nodes have one permit each. A node that gets nothing, because the
/// other one had locked the queues, learns that the queue that was left may have a job.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_claim_that_is_locked_out_of_a_limited_queue_is_told_so() {
    let schema = Schema(schema());
    let stores = [open(&schema).await, open(&schema).await];
    let limit = QueueChange::Limit(QueueLimits { max_running: Some(1) });
    let now = stores[0].now(AT).await.unwrap();
    for queue in ["q", "r"] {
        stores[0].change_queue(AT, queue, &limit, &Actor::new("ana", "test")).await.unwrap();
        let jobs: Vec<NewJob> =
            (0..100).map(|_| NewJob::new(mint(now), queue, "k", Json::null())).collect();
        stores[0].enqueue(AT, &jobs).await.unwrap();
    }
    let nodes = [join(&stores[0]).await, join(&stores[1]).await];
    for _ in 0..size(40, 400) {
        let claim = |which: usize| {
            let (store, node) = (stores[which].clone(), nodes[which]);
            tokio::spawn(async move {
                store.claim(AT, &ask(node, &["q", "r"], &["k"], 1)).await.unwrap()
            })
        };
        let (first, second) = tokio::join!(claim(0), claim(1));
        let answers = [first.unwrap(), second.unwrap()];
        let taken: Vec<&str> =
            answers.iter().flat_map(|it| &it.jobs).map(|job| job.queue.as_str()).collect();
        assert!(!taken.is_empty(), "each node waits for the other");
        for answer in answers.iter().filter(|answer| answer.jobs.is_empty()) {
            let left = if taken[0] == "q" { "r" } else { "q" };
            assert!(answer.contended.iter().any(|queue| queue == left), "{answer:?}");
        }
        for (which, answer) in answers.iter().enumerate() {
            let leases: Vec<LeaseId> = answer.jobs.iter().map(|job| job.lease).collect();
            stores[which].release(AT, nodes[which], &leases).await.unwrap();
        }
    }
}

/// The answer to a first try was lost, and its commit is under way when the second looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_repeat_that_meets_its_first_try_leaves_the_key_alone() {
    let schema = Schema(schema());
    let store = open(&schema).await;
    let now = store.now(AT).await.unwrap();
    let unique = UniqueKey {
        key: "k".to_owned(),
        scope: KeyScope::Tenant,
        lifetime: KeyLifetime::Job,
        is_by_payload: false,
    };
    let job = NewJob { unique: Some(unique), ..NewJob::new(mint(now), "q", "k", Json::null()) };
    let mut client = connect().await;
    let first = client.transaction().await.unwrap();
    store.in_transaction().enqueue(&first, std::slice::from_ref(&job)).await.unwrap();
    let row = format!("SELECT xmin::text || ctid::text FROM {}.job_key", schema.0);
    let taken: String = first.query_one(&row, &[]).await.unwrap().get(0);

    let repeat = {
        let (store, job) = (store.clone(), job.clone());
        tokio::spawn(async move { store.enqueue(AT, &[job]).await })
    };
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}.job_key%'",
        schema.0
    );
    while number(waiting.clone()).await == 0 {}
    first.commit().await.unwrap();
    assert_eq!(repeat.await.unwrap().unwrap().answers, [EnqueueAnswer::Created]);
    // Whoever settles the job just then would not see a key that was taken anew.
    let kept: String = client.query_one(&row, &[]).await.unwrap().get(0);
    assert_eq!(kept, taken);
    assert_eq!(number(format!("SELECT count(*) FROM {}.job", schema.0)).await, 1);
}
