//! The hash that a file keeps of the payload behind a unique key.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_core::{JobId, Timestamp};
use punctual_sqlite::{Options, SqliteStore, in_transaction};
use punctual_store::{
    Actor, At, EnqueueAnswer, Json, KeyLifetime, KeyScope, NewJob, Rejection, RequeueAnswer, Store,
    UniqueKey,
};
use rusqlite::{Connection, TransactionBehavior};
use tempfile::TempDir;

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);
const AT: At = At::Fixed(NOW);
const PAYLOAD: &str = r#"{"card":"4000-1234"}"#;

fn fresh() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().canonicalize().expect("it is there").join("jobs.db");
    (directory, path)
}

/// A new job with this unique key.
fn keyed(key: &str, payload: &str) -> NewJob {
    static JOBS: AtomicU32 = AtomicU32::new(1);
    let mut random = [0; 10];
    random[6..].copy_from_slice(&JOBS.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    let payload = Json::parse(payload).expect("it is JSON");
    let unique = UniqueKey {
        key: key.to_owned(),
        scope: KeyScope::Tenant,
        lifetime: KeyLifetime::Job,
        is_by_payload: false,
    };
    NewJob {
        unique: Some(unique),
        ..NewJob::new(JobId::mint(NOW, random), "default", "send", payload)
    }
}

/// A new job that is unique by its payload.
fn by_payload(payload: &str) -> NewJob {
    let job = keyed("", payload);
    let unique = job.unique.clone().map(|unique| UniqueKey { is_by_payload: true, ..unique });
    NewJob { unique, ..job }
}

async fn enqueue(store: &SqliteStore, job: NewJob) -> EnqueueAnswer {
    store.enqueue(AT, &[job]).await.expect("it is answered").answers.remove(0)
}

/// The stored hash of a unique key.
fn hash_of(path: &Path, key: &str) -> Vec<u8> {
    let db = Connection::open(path).expect("a file");
    let text = "SELECT hash FROM punctual_job_key WHERE key = ?1";
    db.query_row(text, [format!("t\n{key}")], |row| row.get(0)).expect("the key is held")
}

/// All stored keys.
fn keys(path: &Path) -> Vec<String> {
    let db = Connection::open(path).expect("a file");
    let mut all = db.prepare("SELECT key FROM punctual_job_key ORDER BY key").expect("a table");
    let keys = all.query_map([], |row| row.get(0)).expect("rows");
    keys.map(|key| key.expect("a text")).collect()
}

fn engine(path: &Path) -> SqliteStore {
    SqliteStore::open(path, Options::engine()).expect("it opens")
}

#[tokio::test]
async fn the_hash_of_a_payload_belongs_to_one_file_and_survives_reopening() {
    let ((_here, path), (_there, other_path)) = (fresh(), fresh());
    let store = engine(&path);
    let first = keyed("a", PAYLOAD);
    assert_eq!(enqueue(&store, first.clone()).await, EnqueueAnswer::Created);
    enqueue(&store, keyed("b", PAYLOAD)).await;
    enqueue(&store, keyed("c", "[]")).await;
    drop(store);
    let store = engine(&path);
    enqueue(&store, keyed("d", PAYLOAD)).await;

    let hash = hash_of(&path, "a");
    assert_eq!(hash.len(), 16);
    assert_eq!(hash_of(&path, "b"), hash);
    assert_eq!(hash_of(&path, "d"), hash);
    assert_ne!(hash_of(&path, "c"), hash);
    assert_eq!(enqueue(&store, keyed("a", PAYLOAD)).await, EnqueueAnswer::Duplicate(first.id));
    let taken = EnqueueAnswer::Rejected(Rejection::KeyTaken(first.id));
    assert_eq!(enqueue(&store, keyed("a", "[]")).await, taken);

    // A plain hash of the payload would be the same in both files.
    enqueue(&engine(&other_path), keyed("a", PAYLOAD)).await;
    assert_ne!(hash_of(&other_path, "a"), hash);
}

#[tokio::test]
async fn a_transaction_of_the_caller_writes_the_hash_that_the_store_writes() {
    let (_directory, path) = fresh();
    let store = engine(&path);
    let first = keyed("a", PAYLOAD);
    enqueue(&store, first.clone()).await;
    let mut db = Connection::open(&path).expect("a file");
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).expect("it begins");
    let jobs = [keyed("a", PAYLOAD), keyed("a", "[]"), keyed("b", PAYLOAD)];
    let enqueued = in_transaction::enqueue(&tx, AT, &jobs).expect("it is answered");
    tx.commit().expect("it commits");
    let answers = [
        EnqueueAnswer::Duplicate(first.id),
        EnqueueAnswer::Rejected(Rejection::KeyTaken(first.id)),
        EnqueueAnswer::Created,
    ];
    assert_eq!(enqueued.answers, answers);
    assert_eq!(hash_of(&path, "a"), hash_of(&path, "b"));
}

#[tokio::test]
async fn a_key_by_payload_cannot_be_guessed_and_is_one_key_everywhere() {
    let ((_here, path), (_there, other_path)) = (fresh(), fresh());
    let (store, long) = (engine(&path), format!("[\"{}\"]", "x".repeat(300)));
    let (first, second) = (by_payload(PAYLOAD), by_payload(&long));
    assert_eq!(enqueue(&store, first.clone()).await, EnqueueAnswer::Created);
    assert_eq!(enqueue(&store, second.clone()).await, EnqueueAnswer::Created);
    let stored = keys(&path);
    let is_code = |key: &String| {
        key.strip_prefix("t\n")
            .is_some_and(|key| key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    assert!(stored.len() == 2 && stored.iter().all(is_code), "{stored:?}");

    // The same in transactions of the caller, and for questions about the key.
    let duplicates = [EnqueueAnswer::Duplicate(first.id), EnqueueAnswer::Duplicate(second.id)];
    let again = [by_payload(PAYLOAD), by_payload(&long)];
    assert_eq!(store.enqueue(AT, &again).await.expect("answers").answers, duplicates);
    assert_eq!(store.key_holder(AT, &again[0]).await, Ok(Some(first.id)));
    let mut db = Connection::open(&path).expect("a file");
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).expect("it begins");
    let answers = in_transaction::enqueue(&tx, AT, &again).expect("it is answered").answers;
    tx.commit().expect("it commits");
    assert_eq!(answers, duplicates);
    // A requeued job takes the same key.
    let actor = Actor::new("ana", "index rebuild");
    store.cancel(AT, first.id, &actor).await.expect("it is cancelled");
    assert_eq!(keys(&path).len(), 1);
    store.requeue(AT, &[first.id], &actor).await.expect("it is requeued");
    assert_eq!(keys(&path), stored);

    // A plain digest of the payload would be the same in both files.
    enqueue(&engine(&other_path), by_payload(PAYLOAD)).await;
    assert!(!stored.contains(&keys(&other_path)[0]));
}

#[tokio::test]
async fn a_requeued_job_takes_its_key_with_the_same_hash() {
    let (_directory, path) = fresh();
    let store = engine(&path);
    let job = keyed("a", PAYLOAD);
    enqueue(&store, job.clone()).await;
    let hash = hash_of(&path, "a");
    let actor = Actor::new("ana", "index rebuild");
    store.cancel(AT, job.id, &actor).await.expect("it is cancelled");
    let requeued = store.requeue(AT, &[job.id], &actor).await.expect("it is answered");
    assert_eq!(requeued, [RequeueAnswer::Requeued]);
    assert_eq!(hash_of(&path, "a"), hash);
    assert_eq!(enqueue(&store, keyed("a", PAYLOAD)).await, EnqueueAnswer::Duplicate(job.id));
}

#[tokio::test]
async fn a_backup_contains_the_cluster_key() {
    let (directory, path) = fresh();
    let store = engine(&path);
    let first = keyed("a", PAYLOAD);
    enqueue(&store, first.clone()).await;
    let copy = directory.path().join("copy.db");
    store.backup(&copy).await.expect("it is copied");
    let restored = engine(&copy);
    assert_eq!(enqueue(&restored, keyed("a", PAYLOAD)).await, EnqueueAnswer::Duplicate(first.id));
}

#[test]
fn twenty_processes_that_create_a_file_at_once_use_one_cluster_key() {
    let (_directory, path) = fresh();
    let gate = Barrier::new(20);
    std::thread::scope(|scope| {
        for number in 0..20 {
            let (gate, path) = (&gate, &path);
            scope.spawn(move || {
                gate.wait();
                let store = SqliteStore::open(path, Options::client()).expect("it opens");
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                let job = keyed(&number.to_string(), PAYLOAD);
                runtime.expect("a runtime").block_on(enqueue(&store, job));
            });
        }
    });
    let db = Connection::open(&path).expect("a file");
    let count = |what: &str| -> i64 {
        let text = format!("SELECT count({what}) FROM punctual_job_key");
        db.query_row(&text, [], |row| row.get(0)).expect("a count")
    };
    assert_eq!((count("*"), count("DISTINCT hash")), (20, 1));
}

#[test]
fn a_file_without_a_cluster_key_is_refused() {
    let (_directory, path) = fresh();
    drop(engine(&path));
    let db = Connection::open(&path).expect("a file");
    db.execute("DELETE FROM punctual_cluster_key", []).expect("it is deleted");
    let error = SqliteStore::open(&path, Options::engine()).expect_err("it is refused");
    insta::assert_snapshot!(error, @"table `punctual_cluster_key` is empty; restore its row from a backup, or, without a backup, run `INSERT INTO punctual_cluster_key (id, key) VALUES (1, randomblob(32))`");
    db.execute("INSERT INTO punctual_cluster_key (id, key) VALUES (1, randomblob(32))", [])
        .expect("the remedy works");
    engine(&path);
}
