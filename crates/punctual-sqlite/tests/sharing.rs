//! Several threads, connections and processes on one file.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use punctual_core::job::{AttemptOutcome, Next, RetryPolicy, Transition};
use punctual_core::{JobId, LeaseId, NodeId, Nonce, Timestamp};
use punctual_sqlite::{Options, SqliteStore};
use punctual_store::{
    At, BeatAsk, ClaimAsk, Event, EventCursor, Fence, JobFilter, Json, NewJob, NodeInfo,
    QueueShare, ReapAsk, Retention, Settled, Settlement, Store, Topic,
};
use rusqlite::Connection;
use tempfile::TempDir;

const AT: At = At::Fixed(Timestamp::from_seconds(1_800_000_000));

fn fresh() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().canonicalize().expect("it is there").join("jobs.db");
    (directory, path)
}

fn random(number: u32) -> [u8; 10] {
    let mut random = [0; 10];
    random[6..].copy_from_slice(&number.to_be_bytes());
    random
}

fn job(number: u32) -> NewJob {
    let id = JobId::mint(Timestamp::from_seconds(1_800_000_000), random(number));
    NewJob::new(id, "default", "send", Json::null())
}

fn ask(number: u32, most: usize) -> ClaimAsk {
    ClaimAsk {
        node: NodeId::mint(Timestamp::EPOCH, random(1)),
        lease: LeaseId::mint(Timestamp::EPOCH, random(number)),
        more: Vec::new(),
        queues: vec![QueueShare { name: "default".to_owned(), most }],
        kinds: vec!["send".to_owned()],
        most,
    }
}

/// Enters the node that claims.
async fn join(store: &SqliteStore) {
    store.join(AT, &info()).await.expect("it is entered");
}

fn info() -> NodeInfo {
    NodeInfo {
        id: ask(0, 0).node,
        name: "n".to_owned(),
        version: String::new(),
        queues: Vec::new(),
        kinds: Vec::new(),
        labels: Vec::new(),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime")
}

#[test]
fn twenty_connections_may_create_a_file_at_once() {
    for _ in 0..3 {
        let (_directory, path) = fresh();
        let gate = Barrier::new(20);
        std::thread::scope(|scope| {
            let open = |number: u32| {
                gate.wait();
                let options = if number == 0 { Options::engine() } else { Options::client() };
                let store = SqliteStore::open(&path, options).unwrap();
                runtime().block_on(store.enqueue(AT, &[job(number)])).unwrap();
            };
            let threads: Vec<_> = (0..20).map(|number| scope.spawn(move || open(number))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let store = SqliteStore::open(&path, Options::engine()).unwrap();
        let schema = runtime().block_on(store.schema()).unwrap();
        assert_eq!((schema.backend, schema.version), ("sqlite", 1));
        let jobs = runtime().block_on(store.jobs(&JobFilter::default(), None, 500)).unwrap();
        assert_eq!(jobs.items.len(), 20);
    }
}

#[test]
fn eight_threads_claim_every_job_once() {
    const JOBS: u32 = 20_000;
    let (_directory, path) = fresh();
    let store = Arc::new(SqliteStore::open(&path, Options::engine()).unwrap());
    runtime().block_on(async {
        join(&store).await;
        for part in 0..JOBS / 1_000 {
            let jobs: Vec<NewJob> = (part * 1_000..(part + 1) * 1_000).map(job).collect();
            store.enqueue(AT, &jobs).await.unwrap();
        }
    });
    let claimed: Vec<JobId> = std::thread::scope(|scope| {
        let work = |thread: u32, store: Arc<SqliteStore>| {
            runtime().block_on(async {
                let mut mine = Vec::new();
                loop {
                    let number = thread * 100_000 + mine.len() as u32;
                    let claimed = store.claim(AT, &ask(number, 100)).await.unwrap();
                    if claimed.jobs.is_empty() {
                        return mine;
                    }
                    let batch: Vec<Settlement> = claimed
                        .jobs
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
                    let settled = store.settle(AT, &batch).await.unwrap();
                    assert!(
                        settled.answers.iter().all(|answer| matches!(answer, Settled::Applied(_)))
                    );
                    mine.extend(claimed.jobs.iter().map(|job| job.id));
                }
            })
        };
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let store = Arc::clone(&store);
                scope.spawn(move || work(thread, store))
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(claimed.len(), JOBS as usize);
    assert_eq!(claimed.iter().collect::<HashSet<_>>().len(), JOBS as usize);
}

#[tokio::test]
async fn the_engine_notices_what_others_commit() {
    let (_directory, path) = fresh();
    let engine = SqliteStore::open(&path, Options::engine()).unwrap();
    join(&engine).await;
    let client = SqliteStore::open(&path, Options::client()).unwrap();
    let mut hints = engine.hints(Topic::Schedules);
    engine.enqueue(AT, &[job(1)]).await.unwrap();
    client.enqueue(AT, &[job(2)]).await.unwrap();
    hints.heard().await;
    let claimed = engine.claim(AT, &ask(1, 10)).await.unwrap();
    assert_eq!(claimed.jobs.len(), 2);

    let own = Connection::open(&path).unwrap();
    own.execute("INSERT INTO punctual_rollup VALUES (0, 'm', 'q', 'k', 1, 1)", []).unwrap();
    hints.heard().await;
}

#[tokio::test]
async fn a_client_writes_jobs_and_leaves_the_rest_to_the_engine() {
    let (_directory, path) = fresh();
    let engine = SqliteStore::open(&path, Options::engine()).unwrap();
    let client = SqliteStore::open(&path, Options::client()).unwrap();
    let writers = (0..50).map(|number| {
        let store = if number % 2 == 0 { &engine } else { &client };
        let job = job(number);
        async move { store.enqueue(AT, &[job]).await.unwrap() }
    });
    for writer in writers {
        writer.await;
    }
    assert_eq!(client.jobs(&JobFilter::default(), None, 500).await.unwrap().items.len(), 50);

    let fence =
        Fence { role: "r".to_owned(), term: 1, nonce: Nonce::mint(Timestamp::EPOCH, [0; 10]) };
    let lease = Duration::from_secs(5);
    let reap = ReapAsk {
        fence: fence.clone(),
        lease,
        node_lifetime: lease,
        policy: RetryPolicy::default(),
        most: 1,
    };
    let node = ask(0, 0).node;
    let beat = BeatAsk {
        node,
        is_remote: false,
        roles: Vec::new(),
        seeks: Vec::new(),
        lease,
        leases: Vec::new(),
        progress: Vec::new(),
    };
    let refusals = [
        client.claim(AT, &ask(1, 1)).await.unwrap_err(),
        client.settle(AT, &[]).await.unwrap_err(),
        client.save_step(AT, job(1).id, ask(1, 1).lease, "a", &Json::null()).await.unwrap_err(),
        client.write_log(AT, &[]).await.unwrap_err(),
        client.join(AT, &info()).await.unwrap_err(),
        client.beat(AT, &beat).await.unwrap_err(),
        client.release(AT, node, &[]).await.unwrap_err(),
        client.leave(AT, node).await.unwrap_err(),
        client.acquire(AT, "r", node, fence.nonce, lease).await.unwrap_err(),
        client.resign(AT, &fence).await.unwrap_err(),
        client.promote(AT, 1).await.unwrap_err(),
        client.reap(AT, &reap).await.unwrap_err(),
        client.fire(AT, &fence, lease, &[]).await.unwrap_err(),
        client.prune(AT, &Retention::default(), 1).await.unwrap_err(),
        client.roll_up(&[]).await.unwrap_err(),
    ];
    let told: Vec<String> = refusals
        .iter()
        .map(|error| {
            format!("{:?}: {error}", error.kind()).replace(&path.display().to_string(), "FILE")
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"), @"
    Denied: `FILE` is open as a client and cannot run the operation `claim`; use the process that opened it as the engine
    Denied: `FILE` is open as a client and cannot run the operation `settle`; use the process that opened it as the engine
    Denied: `FILE` is open as a client and cannot run the operation `save_step`; use the process that opened it as the engine
    Denied: `FILE` is open as a client and cannot run the operation `write_log`; use the process that opened it as the engine
    Denied: `FILE` is open as a client and cannot run the operation `join`; use the process that opened it as the engine
    Denied: `FILE` is open as a client and cannot run the operation `beat`; use the process that opened it as the engine
    Denied: `FILE` is open as a client and cannot run the operation `release`; use the process that opened it as the engine
    Denied: `FILE` is open as a client and cannot run the operation `leave`; use the process that opened it as the engine
    Denied: `FILE` is open as a client and cannot run the operation `acquire`; use the process that opened it as the engine
    Denied: `FILE` is open as a client and cannot run the operation `resign`; use the process that opened it as the engine
    Denied: `FILE` is open as a client and cannot run the operation `promote`; use the process that opened it as the engine
    Denied: `FILE` is open as a client and cannot run the operation `reap`; use the process that opened it as the engine
    Denied: `FILE` is open as a client and cannot run the operation `fire`; use the process that opened it as the engine
    Denied: `FILE` is open as a client and cannot run the operation `prune`; use the process that opened it as the engine
    Denied: `FILE` is open as a client and cannot run the operation `roll_up`; use the process that opened it as the engine
    ");
}

#[tokio::test]
async fn a_file_that_another_process_keeps_locked_is_busy() {
    let (_directory, path) = fresh();
    let store = SqliteStore::open(&path, Options::client()).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.enqueue(AT, &[job(1)]).await.unwrap_err();
    let told = format!("{:?}: {error}", error.kind()).replace(&path.display().to_string(), "FILE");
    insta::assert_snapshot!(told, @"Retry: `FILE` is locked: another process held the write lock for 5 s; try again, and look for an open transaction");
    let source = std::error::Error::source(&error).expect("the error of the driver");
    assert!(source.is::<rusqlite::Error>(), "{source}");
    other.execute_batch("ROLLBACK").unwrap();
    store.enqueue(AT, &[job(1)]).await.unwrap();
}

#[tokio::test]
async fn a_backup_is_a_whole_copy_and_overwrites_nothing() {
    let (directory, path) = fresh();
    let store = SqliteStore::open(&path, Options::engine()).unwrap();
    let jobs: Vec<NewJob> = (0..1_000).map(job).collect();
    store.enqueue(AT, &jobs).await.unwrap();
    let copy = directory.path().join("copy.db");
    let late = [job(5_000)];
    let (backup, beside) = tokio::join!(store.backup(&copy), store.enqueue(AT, &late));
    assert_eq!((backup, beside.is_ok()), (Ok(()), true));

    let restored = SqliteStore::open(&copy, Options::engine()).unwrap();
    let mut names = 0;
    let mut after = None;
    loop {
        let page = restored.jobs(&JobFilter::default(), after, 500).await.unwrap();
        names += page.items.len();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(names == 1_000 || names == 1_001, "the copy holds {names} jobs");
    let error = store.backup(&copy).await.unwrap_err();
    let told = error.to_string().replace(&directory.path().display().to_string(), "DIR");
    insta::assert_snapshot!(told, @"`DIR/copy.db` already exists and is not overwritten; use another path");
}

/// What is told as having happened until an instant is all that has, also what somebody is just writing.
#[tokio::test(flavor = "multi_thread")]
async fn events_wait_for_what_is_being_written() {
    let (_directory, path) = fresh();
    let store = Arc::new(SqliteStore::open(&path, Options::engine()).expect("a store"));
    let until = store.now(At::Database).await.expect("a clock");
    let other = Connection::open(&path).expect("a connection");
    other.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
    let note = "INSERT INTO punctual_audit (at, who, why, action, subject) VALUES (?1, 'ana', '', 'ran', 'it')";
    other.execute(note, [until.as_micros() - 1]).expect("it is written");
    let mut told = tokio::spawn({
        let store = store.clone();
        async move { store.events(&EventCursor::at(Timestamp::EPOCH), until, 10).await }
    });
    let early = tokio::time::timeout(Duration::from_millis(200), &mut told).await;
    assert!(early.is_err(), "told before it was all there: {early:?}");
    other.execute_batch("COMMIT").expect("it is committed");
    let told = told.await.expect("it ends").expect("it is told").items;
    assert!(matches!(&told[..], [Event::Did(audit)] if audit.entry.subject == "it"), "{told:?}");
}
