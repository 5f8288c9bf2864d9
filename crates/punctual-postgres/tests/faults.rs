//! Servers that crash, fail over and cut connections; and word that travels between processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use common::{Schema, connect, direct_url, options, pooled_url, schema};
use punctual_conformance::cluster::Cluster;
use punctual_core::job::{AttemptOutcome, Next, Transition};
use punctual_core::{JobId, LeaseId, NodeId, ScheduleId, Timestamp, hash};
use punctual_postgres::PostgresStore;
use punctual_store::{
    Actor, At, BeatAsk, Beaten, ClaimAsk, EnqueueAnswer, ErrorKind, JobFilter, Json, NewJob,
    NewSchedule, NodeInfo, QueueChange, QueueLimits, QueueShare, Settlement, Store, Topic,
};

const AT: At = At::Database;

fn random(number: u64) -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[2..].copy_from_slice(&hash::draw(7, number).to_be_bytes());
    bytes
}

fn job(number: u64) -> NewJob {
    let id = JobId::mint(Timestamp::from_seconds(1_800_000_000), random(number));
    NewJob::new(id, "q", "k", Json::null())
}

fn schedule(number: u64) -> NewSchedule {
    NewSchedule {
        id: ScheduleId::mint(Timestamp::EPOCH, random(number)),
        tenant: String::new(),
        name: format!("s{number}"),
        owner: String::new(),
        set: String::new(),
        shard: 0,
        enabled: true,
        spec: Json::null(),
        next_slot: None,
        actor: Actor::new("ana", "test"),
    }
}

/// Repeats a job's enqueue until it is acknowledged, as any caller may; says how often it failed.
async fn insist(store: &PostgresStore, job: &NewJob) -> u32 {
    for failed in 0.. {
        match store.enqueue(AT, std::slice::from_ref(job)).await {
            Ok(enqueued) => {
                assert_eq!(enqueued.answers, [EnqueueAnswer::Created]);
                return failed;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
                assert!(failed < 200, "it never works again: {error}");
            }
        }
    }
    0
}

async fn count(store: &PostgresStore) -> usize {
    store.jobs(&JobFilter::default(), None, 500).await.unwrap().items.len()
}

#[tokio::test]
async fn a_store_outlives_crashes_of_its_server() {
    let mut cluster = Cluster::new(&[], None);
    let store = PostgresStore::connect(&cluster.url(), options("x").listen(true)).await.unwrap();
    for round in 0..3 {
        assert_eq!(insist(&store, &job(round * 2)).await, 0);
        cluster.crash();
        let error = store.enqueue(AT, &[job(1_000 + round)]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        cluster.start();
        // All kinds of connections work again by themselves.
        insist(&store, &job(round * 2 + 1)).await;
        assert!(store.queues().await.is_ok());
    }
    assert_eq!(count(&store).await, 6);
    assert_eq!(store.history().borrow().forked_at, None);
}

#[tokio::test]
async fn connections_that_are_cut_are_replaced_unseen() {
    let schema = Schema(schema());
    let name = format!("cut_{}", std::process::id());
    let url = format!("{}?application_name={name}", direct_url());
    let store = PostgresStore::connect(&url, options(&schema.0)).await.unwrap();
    let client = connect().await;
    for round in 0..10 {
        assert_eq!(insist(&store, &job(round)).await, 0);
        let cut = client
            .query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1",
                &[&name],
            )
            .await
            .unwrap();
        assert!(!cut.is_empty());
    }
    assert_eq!(count(&store).await, 10);
}

/// Sends a signal to every process that serves this store at the server.
async fn signal(cluster: &Cluster, signal: &str) {
    let (client, connection) =
        tokio_postgres::connect(&cluster.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let text = "SELECT pid::text FROM pg_stat_activity WHERE application_name = 'punctual'";
    for row in client.query(text, &[]).await.unwrap() {
        let mut kill = std::process::Command::new("kill");
        assert!(kill.args(["-s", signal, row.get(0)]).status().unwrap().success());
    }
}

/// Connections are there, and nobody answers: as behind a firewall that forgot them.
#[tokio::test]
async fn connections_that_went_silent_are_not_used_again() {
    let cluster = Cluster::new(&[], None);
    let store = PostgresStore::connect(&cluster.url(), options("x")).await.unwrap();
    store.enqueue(AT, &[job(1)]).await.unwrap();
    // Two for reads, since the first of them takes the others along.
    let (one, other) = tokio::join!(store.queues(), store.queues());
    assert!(one.is_ok() && other.is_ok());
    signal(&cluster, "STOP").await;
    // Whoever waits less long than the store leaves no trap for the next one.
    let left = tokio::time::timeout(Duration::from_millis(100), store.queues()).await;
    assert!(left.is_err(), "nobody answers");
    let soon = tokio::time::timeout(Duration::from_secs(4), store.queues()).await;
    soon.expect("a new connection answers at once").unwrap();
    // Whoever waits is answered: what is harmless is tried once more.
    assert_eq!(insist(&store, &job(2)).await, 0);
    signal(&cluster, "CONT").await;
    assert_eq!(count(&store).await, 2);
}

#[tokio::test]
async fn a_failover_is_noticed_and_told() {
    let mut primary = Cluster::new(&["synchronous_standby_names = ''"], None);
    let before = PostgresStore::connect(&primary.url(), options("x")).await.unwrap();
    drop(before);
    let standby = Cluster::standby_of(&primary);
    let url = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
        primary.port, standby.port
    );
    let store = PostgresStore::connect(&url, options("x")).await.unwrap();
    insist(&store, &job(1)).await;
    let mut history = store.history();
    let first = history.borrow_and_update().clone();
    assert_eq!((first.timeline.as_str(), first.forked_at), ("00000001", None));
    primary.crash();
    standby.promote();
    insist(&store, &job(2)).await;
    let beaten = beat_of_new_node(&store, 9).await;
    assert!(beaten.alive);
    assert!(history.has_changed().unwrap());
    let second = history.borrow().clone();
    assert_eq!((second.system, second.timeline.as_str()), (first.system, "00000002"));
    let forked_at = second.forked_at.expect("it was noticed");
    assert!(forked_at <= beaten.at && beaten.at.since(forked_at) < Duration::from_secs(60));
    assert_eq!(beaten.forked_at, Some(forked_at));
    assert_eq!(store.schema().await.unwrap().forked_at, Some(forked_at));
}

#[tokio::test]
async fn a_process_that_starts_after_a_failover_detects_it_too() {
    let mut primary = Cluster::new(&["synchronous_standby_names = ''"], None);
    let store = PostgresStore::connect(&primary.url(), options("x")).await.unwrap();
    assert_eq!(beat_of_new_node(&store, 1).await.forked_at, None);
    drop(store);
    // A restart without a failover is no news.
    let store = PostgresStore::connect(&primary.url(), options("x")).await.unwrap();
    assert_eq!(beat_of_new_node(&store, 2).await.forked_at, None);
    drop(store);
    let standby = Cluster::standby_of(&primary);
    primary.crash();
    standby.promote();

    let store = PostgresStore::connect(&standby.url(), options("x")).await.unwrap();
    let beaten = beat_of_new_node(&store, 3).await;
    assert_eq!(beaten.forked_at, Some(beaten.at));
    drop(store);
    // Later processes have nothing to wait for, but still report it.
    let store = PostgresStore::connect(&standby.url(), options("x")).await.unwrap();
    assert_eq!(beat_of_new_node(&store, 4).await.forked_at, None);
    assert_eq!(store.schema().await.unwrap().forked_at, beaten.forked_at);
}

/// The response to the first heartbeat of a new node.
async fn beat_of_new_node(store: &PostgresStore, number: u64) -> Beaten {
    let node = NodeInfo {
        id: NodeId::mint(Timestamp::EPOCH, random(number)),
        name: format!("n{number}"),
        version: String::new(),
        queues: Vec::new(),
        kinds: Vec::new(),
        labels: Vec::new(),
    };
    store.join(AT, &node).await.unwrap();
    let beat = BeatAsk {
        node: node.id,
        is_remote: false,
        roles: Vec::new(),
        seeks: Vec::new(),
        lease: Duration::from_secs(5),
        leases: Vec::new(),
        progress: Vec::new(),
    };
    store.beat(AT, &beat).await.unwrap()
}

/// A node of another process waits for the one place of a queue with a limit.
#[tokio::test]
async fn the_end_of_a_job_in_a_limited_queue_is_heard_by_other_processes() {
    let schema = Schema(schema());
    let listening = options(&schema.0).listen(true);
    let one = PostgresStore::connect(&direct_url(), listening.clone()).await.unwrap();
    let other = PostgresStore::connect(&direct_url(), listening).await.unwrap();
    let (mut work, mut schedules) = (other.hints(Topic::Work), other.hints(Topic::Schedules));
    let limit = QueueChange::Limit(QueueLimits { max_running: Some(1) });
    one.change_queue(AT, "q", &limit, &Actor::new("ana", "test")).await.unwrap();
    one.enqueue(AT, &[job(1)]).await.unwrap();
    let node = NodeInfo {
        id: NodeId::mint(Timestamp::EPOCH, random(2)),
        name: "a".to_owned(),
        version: String::new(),
        queues: vec!["q".to_owned()],
        kinds: vec!["k".to_owned()],
        labels: Vec::new(),
    };
    one.join(AT, &node).await.unwrap();
    let ask = ClaimAsk {
        node: node.id,
        lease: LeaseId::mint(Timestamp::EPOCH, random(3)),
        more: Vec::new(),
        queues: vec![QueueShare { name: "q".to_owned(), most: 1 }],
        kinds: node.kinds.clone(),
        most: 1,
    };
    let claimed = one.claim(AT, &ask).await.unwrap().jobs;
    // The message about the schedule is sent after those about the limit and the job. The first hint
    // of all may come when listening begins.
    for number in [10, 11] {
        one.create_schedule(AT, &schedule(number)).await.unwrap();
        heard(&mut schedules).await;
    }
    work.take();
    let transition =
        Transition { outcome: AttemptOutcome::Succeeded, next: Next::Succeeded, error: None };
    let (job, lease) = (claimed[0].id, claimed[0].lease);
    let end = Settlement { job, lease, transition, result: None, then: Vec::new() };
    one.settle(AT, &[end]).await.unwrap();
    heard(&mut work).await;
}

/// Waits for a hint, but not for ever.
async fn heard(hints: &mut punctual_store::Hints) {
    tokio::time::timeout(Duration::from_secs(20), hints.heard()).await.expect("a hint");
}

#[tokio::test]
async fn word_travels_between_processes_also_through_a_pooler() {
    let schema = Schema(schema());
    let direct =
        PostgresStore::connect(&direct_url(), options(&schema.0).listen(true)).await.unwrap();
    let behind = options(&schema.0).listen(true).pooled().direct_url(&direct_url());
    let pooled = PostgresStore::connect(&pooled_url(), behind).await.unwrap();
    for (one, other) in [(&direct, &pooled), (&pooled, &direct)] {
        let mut work = other.hints(Topic::Work);
        // The first one comes when listening begins, and tells that it has.
        one.enqueue(AT, &[job(1)]).await.unwrap();
        heard(&mut work).await;
        let mut schedules = other.hints(Topic::Schedules);
        one.create_schedule(AT, &schedule(3)).await.unwrap();
        heard(&mut schedules).await;
    }
}

#[tokio::test]
async fn listening_begins_again_after_its_connection_was_cut() {
    let schema = Schema(schema());
    let name = format!("listen_{}", std::process::id());
    let url = format!("{}?application_name={name}", direct_url());
    let store = PostgresStore::connect(&url, options(&schema.0).listen(true)).await.unwrap();
    let mut hints = store.hints(Topic::Roles);
    let client = connect().await;
    for _ in 0..2 {
        // With each new beginning everybody is told to look.
        heard(&mut hints).await;
        client
            .query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND query LIKE 'LISTEN%'",
                &[&name],
            )
            .await
            .unwrap();
    }
    heard(&mut hints).await;
}
