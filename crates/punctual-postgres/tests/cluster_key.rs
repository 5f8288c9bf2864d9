//! The hash that a database keeps of the payload behind a unique key.

mod common;

use std::sync::atomic::{AtomicU32, Ordering};

use common::{Fresh, Schema, connect, direct_url, options, schema};
use punctual_core::{JobId, Timestamp};
use punctual_postgres::{InTransaction, PostgresStore};
use punctual_store::{
    Actor, At, EnqueueAnswer, Json, KeyLifetime, KeyScope, NewJob, Rejection, RequeueAnswer, Store,
    UniqueKey,
};

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);
const AT: At = At::Fixed(NOW);
const PAYLOAD: &str = r#"{"card":"4000-1234"}"#;

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

async fn enqueue(store: &PostgresStore, job: NewJob) -> EnqueueAnswer {
    store.enqueue(AT, &[job]).await.expect("it is answered").answers.remove(0)
}

/// The stored hash of a unique key.
async fn hash_of(schema: &Schema, key: &str) -> Vec<u8> {
    let text = format!("SELECT hash FROM {}.job_key WHERE key = $1", schema.0);
    let key = format!("t\n{key}");
    connect().await.query_one(&text, &[&key]).await.expect("the key is held").get(0)
}

/// All stored keys.
async fn keys(schema: &Schema) -> Vec<String> {
    let text = format!("SELECT key FROM {}.job_key ORDER BY key COLLATE \"C\"", schema.0);
    let rows = connect().await.query(&text, &[]).await.expect("keys");
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn a_key_by_payload_cannot_be_guessed_and_is_one_key_everywhere() {
    let (fresh, other) = (Fresh::direct().await, Fresh::direct().await);
    let Fresh { store, schema } = &fresh;
    let long = format!("[\"{}\"]", "x".repeat(300));
    let (first, second) = (by_payload(PAYLOAD), by_payload(&long));
    assert_eq!(enqueue(store, first.clone()).await, EnqueueAnswer::Created);
    assert_eq!(enqueue(store, second.clone()).await, EnqueueAnswer::Created);
    let stored = keys(schema).await;
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
    let mut client = connect().await;
    for tables in [store.in_transaction(), InTransaction::new(&schema.0).expect("a schema")] {
        let tx = client.transaction().await.expect("it begins");
        let enqueued = tables.at(AT).enqueue(&tx, &again).await.expect("it is answered");
        tx.commit().await.expect("it commits");
        assert_eq!(enqueued.answers, duplicates);
    }
    // A requeued job takes the same key.
    let actor = Actor::new("ana", "index rebuild");
    store.cancel(AT, first.id, &actor).await.expect("it is cancelled");
    assert_eq!(keys(schema).await.len(), 1);
    store.requeue(AT, &[first.id], &actor).await.expect("it is requeued");
    assert_eq!(keys(schema).await, stored);

    // A plain digest of the payload would be the same in both schemas.
    enqueue(&other.store, by_payload(PAYLOAD)).await;
    assert!(!stored.contains(&keys(&other.schema).await[0]));
}

#[tokio::test]
async fn the_hash_of_a_payload_belongs_to_one_schema_and_survives_reopening() {
    let (fresh, other) = (Fresh::direct().await, Fresh::direct().await);
    let first = keyed("a", PAYLOAD);
    assert_eq!(enqueue(&fresh.store, first.clone()).await, EnqueueAnswer::Created);
    enqueue(&fresh.store, keyed("b", PAYLOAD)).await;
    enqueue(&fresh.store, keyed("c", "[]")).await;
    let Fresh { store, schema } = fresh;
    drop(store);
    let store = PostgresStore::connect(&direct_url(), options(&schema.0)).await.expect("a store");
    enqueue(&store, keyed("d", PAYLOAD)).await;

    let hash = hash_of(&schema, "a").await;
    assert_eq!(hash.len(), 16);
    assert_eq!(hash_of(&schema, "b").await, hash);
    assert_eq!(hash_of(&schema, "d").await, hash);
    assert_ne!(hash_of(&schema, "c").await, hash);
    assert_eq!(enqueue(&store, keyed("a", PAYLOAD)).await, EnqueueAnswer::Duplicate(first.id));
    let taken = EnqueueAnswer::Rejected(Rejection::KeyTaken(first.id));
    assert_eq!(enqueue(&store, keyed("a", "[]")).await, taken);

    // A plain hash of the payload would be the same in both schemas.
    enqueue(&other.store, keyed("a", PAYLOAD)).await;
    assert_ne!(hash_of(&other.schema, "a").await, hash);
}

#[tokio::test]
async fn a_transaction_of_the_caller_writes_the_hash_that_the_store_writes() {
    let fresh = Fresh::direct().await;
    let first = keyed("a", PAYLOAD);
    enqueue(&fresh.store, first.clone()).await;
    let mut client = connect().await;
    let without_store = InTransaction::new(&fresh.schema.0).expect("a schema");
    for (number, tables) in [fresh.store.in_transaction(), without_store].into_iter().enumerate() {
        let key = format!("by way {number}");
        let tx = client.transaction().await.expect("it begins");
        let jobs = [keyed("a", PAYLOAD), keyed("a", "[]"), keyed(&key, PAYLOAD)];
        let enqueued = tables.at(AT).enqueue(&tx, &jobs).await.expect("it is answered");
        tx.commit().await.expect("it commits");
        let answers = [
            EnqueueAnswer::Duplicate(first.id),
            EnqueueAnswer::Rejected(Rejection::KeyTaken(first.id)),
            EnqueueAnswer::Created,
        ];
        assert_eq!(enqueued.answers, answers);
        assert_eq!(hash_of(&fresh.schema, &key).await, hash_of(&fresh.schema, "a").await);
    }
}

#[tokio::test]
async fn a_requeued_job_takes_its_key_with_the_same_hash() {
    let Fresh { store, schema } = Fresh::direct().await;
    let job = keyed("a", PAYLOAD);
    enqueue(&store, job.clone()).await;
    let hash = hash_of(&schema, "a").await;
    let actor = Actor::new("ana", "index rebuild");
    store.cancel(AT, job.id, &actor).await.expect("it is cancelled");
    let requeued = store.requeue(AT, &[job.id], &actor).await.expect("it is answered");
    assert_eq!(requeued, [RequeueAnswer::Requeued]);
    assert_eq!(hash_of(&schema, "a").await, hash);
    assert_eq!(enqueue(&store, keyed("a", PAYLOAD)).await, EnqueueAnswer::Duplicate(job.id));
}

#[tokio::test]
async fn twenty_stores_that_open_at_once_use_one_cluster_key() {
    let schema = Schema(schema());
    let opening: Vec<_> = (0..20)
        .map(|number| {
            let options = options(&schema.0);
            tokio::spawn(async move {
                let store = PostgresStore::connect(&direct_url(), options).await.expect("a store");
                enqueue(&store, keyed(&number.to_string(), PAYLOAD)).await
            })
        })
        .collect();
    for opened in opening {
        assert_eq!(opened.await.expect("it ends"), EnqueueAnswer::Created);
    }
    let text = format!("SELECT count(*), count(DISTINCT hash) FROM {}.job_key", schema.0);
    let counts = connect().await.query_one(&text, &[]).await.expect("counts");
    assert_eq!((counts.get::<_, i64>(0), counts.get::<_, i64>(1)), (20, 1));
}

#[tokio::test]
async fn a_schema_without_a_cluster_key_is_refused() {
    let Fresh { store, schema } = Fresh::direct().await;
    drop(store);
    let delete = format!("DELETE FROM {}.cluster_key", schema.0);
    connect().await.batch_execute(&delete).await.expect("it is deleted");
    let refused = PostgresStore::connect(&direct_url(), options(&schema.0)).await;
    insta::assert_snapshot!(refused.expect_err("it is refused"), @"table `cluster_key` of the punctual schema is empty; restore its row from a backup, or, without a backup, run the INSERT for it from the output of `punctual db migrate --print`");
    let printed = punctual_postgres::migrations_sql(&schema.0).expect("a schema");
    let start = printed.find(&format!("INSERT INTO {}.cluster_key", schema.0)).expect("printed");
    let remedy = printed[start..].split_inclusive(';').next().expect("a statement");
    connect().await.batch_execute(remedy).await.expect("the remedy works");
    PostgresStore::connect(&direct_url(), options(&schema.0)).await.expect("a store");
}
