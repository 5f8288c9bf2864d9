//! Several processes at once, and what they must not be able to do to each other. Each store here
//! is a process of its own to the database.
//!
//! `PUNCTUAL_PROOF_SECONDS` sets how long the long ones go on.

mod common;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Schema, connect, direct_url, options, schema};
use punctual_core::job::{
    AttemptOutcome, Backoff, Growth, JobState, Next, Outcome, RetryPolicy, SlotOutcome, Spread,
    Transition, decide,
};
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp, hash};
use punctual_postgres::PostgresStore;
use punctual_store::*;

const AT: At = At::Database;

/// How long the long attacks go on.
fn seconds() -> u64 {
    std::env::var("PUNCTUAL_PROOF_SECONDS").map_or(3, |text| text.parse().expect("seconds"))
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

async fn open(schema: &Schema) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::connect(&direct_url(), options(&schema.0)).await.expect("a store"))
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
    RetryPolicy { backoff, rules: Vec::new() }
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
    let total = 4_000;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_key_makes_one_job_whoever_asks_and_however_often() {
    let schema = Schema(schema());
    let mut asking = Vec::new();
    let answers: Arc<Mutex<HashMap<String, HashSet<JobId>>>> = Arc::default();
    for _ in 0..6 {
        let store = open(&schema).await;
        let answers = answers.clone();
        asking.push(tokio::spawn(async move {
            let now = store.now(AT).await.unwrap();
            for _ in 0..40 {
                let mut jobs: Vec<NewJob> = (0..8)
                    .map(|_| NewJob {
                        unique: Some(UniqueKey {
                            key: below(60).to_string(),
                            scope: KeyScope::Tenant,
                            lifetime: KeyLifetime::Job,
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
    let answers = answers.lock().unwrap();
    assert!(answers.values().all(|holders| holders.len() == 1), "{answers:?}");
    let keyed = format!("SELECT count(*) FROM {}.job WHERE kind = 'k'", schema.0);
    let keys = format!("SELECT count(*) FROM {}.job_key", schema.0);
    drop(answers);
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
        }),
        ..NewJob::new(mint(now), "q", "k", Json::null())
    };
    // Somebody's transaction, left open, in which a key is taken.
    let mut client = connect().await;
    let open_transaction = client.transaction().await.unwrap();
    let take = format!(
        "INSERT INTO {}.job_key (tenant, key, job, hash) VALUES ('', E't\\nheld', $1, 0)",
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
    let unique =
        UniqueKey { key: "k".to_owned(), scope: KeyScope::Tenant, lifetime: KeyLifetime::Job };
    let job = NewJob { unique: Some(unique), ..NewJob::new(mint(now), "q", "k", Json::null()) };
    store.enqueue(AT, std::slice::from_ref(&job)).await.unwrap();
    let mut client = connect().await;
    let open_transaction = client.transaction().await.unwrap();
    let take = format!(
        "INSERT INTO {}.job_key (tenant, key, job, hash) VALUES ('', E't\\nk', $1, 0) ON CONFLICT DO NOTHING",
        schema.0
    );
    assert_eq!(open_transaction.execute(&take, &[&mint(now).as_uuid()]).await.unwrap(), 0);
    let claimed = store.claim(AT, &ask(node, &["q"], &["k"], 1)).await.unwrap().jobs;
    let transition =
        Transition { outcome: AttemptOutcome::Succeeded, next: Next::Succeeded, error: None };
    let item = Settlement { job: job.id, lease: claimed[0].lease, transition, result: None };
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

/// Tries what each of three leaders plans, with freezes, resignations and edits beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn slots_are_fired_once_each_and_without_gaps_whoever_leads() {
    const STEP: Duration = Duration::from_millis(20);
    const SCHEDULES: usize = 12;
    let schema = Schema(schema());
    let first = open(&schema).await;
    let start = first.now(AT).await.unwrap();
    let mut ids = Vec::new();
    for index in 0..SCHEDULES {
        let new = NewSchedule {
            id: ScheduleId::mint(start, random()),
            tenant: String::new(),
            name: format!("s{index}"),
            owner: String::new(),
            shard: 0,
            spec: Json::null(),
            next_slot: Some(start + STEP),
            actor: Actor::new("ana", "test"),
        };
        ids.push(first.create_schedule(AT, &new).await.unwrap().id);
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let fenced = Arc::new(AtomicU64::new(0));
    let mut leading = Vec::new();
    for _ in 0..3 {
        let (store, is_over, fenced) = (open(&schema).await, is_over.clone(), fenced.clone());
        leading.push(tokio::spawn(async move {
            let node = join(&store).await;
            let lease = Duration::from_millis(60);
            while !is_over.load(Ordering::SeqCst) {
                let nonce = Nonce::mint(Timestamp::EPOCH, random());
                let won = store.acquire(AT, "scheduler/0", node, nonce, lease).await.unwrap();
                let Acquired::Won { term, .. } = won else {
                    freeze(Duration::from_millis(10)).await;
                    continue;
                };
                let fence = Fence { role: "scheduler/0".to_owned(), term, nonce };
                for _ in 0..10 {
                    let due = store.due(AT, 0, 50).await.unwrap();
                    let plans: Vec<SlotPlan> = due
                        .schedules
                        .iter()
                        .map(|due_schedule| plan(&due_schedule.schedule, due.at, STEP))
                        .collect();
                    if below(12) == 0 {
                        freeze(Duration::from_millis(100)).await;
                    }
                    if store.fire(AT, &fence, lease, &plans).await.unwrap().until.is_none() {
                        fenced.fetch_add(1, Ordering::SeqCst);
                        break;
                    }
                }
                if below(2) == 0 {
                    store.resign(AT, &fence).await.unwrap();
                }
            }
        }));
    }
    let editing = {
        let (store, is_over, ids) = (open(&schema).await, is_over.clone(), ids.clone());
        tokio::spawn(async move {
            while !is_over.load(Ordering::SeqCst) {
                let id = ids[below(ids.len() as u64) as usize];
                let Some(seen) = store.schedule(id).await.unwrap() else { continue };
                let change = ScheduleChange::Define {
                    spec: Json::null(),
                    owner: String::new(),
                    next_slot: seen.next_slot,
                };
                let actor = Actor::new("ana", "edit");
                store.change_schedule(AT, id, seen.stamp, &change, &actor).await.unwrap();
            }
        })
    };
    freeze(Duration::from_secs(seconds())).await;
    is_over.store(true, Ordering::SeqCst);
    for leading in leading {
        leading.await.unwrap();
    }
    editing.await.unwrap();

    let client = connect().await;
    let rows = client
        .query(
            &format!(
                "SELECT schedule, slot, decided_at >= slot, job, (extract(epoch FROM slot) * 1000000)::bigint \
                 FROM {0}.slot ORDER BY schedule, slot",
                schema.0
            ),
            &[],
        )
        .await
        .unwrap();
    let mut by_schedule: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for row in &rows {
        assert!(row.get::<_, bool>(2), "a slot was fired early");
        let schedule: uuid::Uuid = row.get(0);
        by_schedule.entry(schedule.to_string()).or_default().push(row.get(4));
    }
    assert_eq!(by_schedule.len(), SCHEDULES);
    for slots in by_schedule.values() {
        assert_eq!(slots[0], (start + STEP).as_micros());
        assert!(slots.windows(2).all(|pair| pair[1] - pair[0] == STEP.as_micros() as i64), "a gap");
    }
    let jobs = number(format!("SELECT count(*) FROM {}.job", schema.0)).await;
    assert_eq!(jobs, rows.len() as i64);
}

/// Fires one slot.
fn plan(schedule: &Schedule, now: Timestamp, step: Duration) -> SlotPlan {
    let slot = schedule.next_slot.unwrap_or(now);
    let row = SlotRow {
        slot,
        end: None,
        count: 1,
        outcome: SlotOutcome::Fired,
        reason: None,
        job: Some(NewJob::new(mint(now), "q", "k", Json::null())),
    };
    SlotPlan {
        schedule: schedule.id,
        stamp: schedule.stamp,
        decision: SlotDecision::Advance { slots: vec![row], next_slot: Some(slot + step) },
    }
}

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
                    job.unique = Some(UniqueKey { key: below(30).to_string(), scope, lifetime });
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
    assert_eq!(of("SELECT (SELECT count(*) FROM {s}.job_ready) + (SELECT count(*) FROM {s}.job_timer) + (SELECT count(*) FROM {s}.job_lease)").await, 0);
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
                    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
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
            Settlement { job: job.id, lease: job.lease, transition, result: None }
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
