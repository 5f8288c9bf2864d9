//! Connections that are kept for a purpose, and the one that listens.

use std::time::Duration;

use punctual_core::job::RetryPolicy;
use punctual_core::{NodeId, Nonce};
use punctual_store::{
    Acquired, At, BeatAsk, CountRequest, CountResponse, ErrorKind, Fence, JobFilter, NodeInfo,
    ReapAsk, Store, Topic, limits,
};

use super::{NOW, Schema, job, node};
use crate::{PostgresStore, wake};

const AT: At = At::Fixed(NOW);

/// After this time, a request that waits for an occupied connection is considered blocked. Long, because
/// the machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// A client reads as much as it can at once; slots, timers and roles do not wait for it.
#[tokio::test]
async fn what_leaders_do_waits_behind_nobodys_lists() {
    let schema = Schema::new();
    let options = schema.options().connections(1);
    let store = PostgresStore::connect(&super::url(), options).await.unwrap();
    let id = NodeId::mint(NOW, [1; 10]);
    store.join(AT, &node(id)).await.unwrap();
    let list = store.pool.take().await.unwrap();
    let lead = async {
        let (nonce, lease) = (Nonce::mint(NOW, [2; 10]), Duration::from_secs(5));
        let won = store.acquire(AT, "scheduler/0", id, nonce, lease).await.unwrap();
        let Acquired::Won { term, .. } = won else { panic!("{won:?}") };
        let fence = Fence { role: "scheduler/0".to_owned(), term, nonce };
        store.due(AT, 0, 10).await.unwrap();
        assert!(store.fire(AT, &fence, lease, &[]).await.unwrap().until.is_some());
        store.promote(AT, 10).await.unwrap();
        let (node_lifetime, policy) = (Duration::from_secs(15), RetryPolicy::default());
        let ask = ReapAsk { fence: fence.clone(), lease, node_lifetime, policy, most: 10 };
        assert!(store.reap(AT, &ask).await.unwrap().led);
        assert!(store.resign(AT, &fence).await.unwrap());
    };
    tokio::time::timeout(PATIENCE, lead).await.expect("it waits for the list");
    drop(list);
}

/// Each statement of the maintenance leader may take two seconds, and several run at a time. Slots fire
/// and leaders are elected meanwhile.
#[tokio::test]
async fn slots_and_roles_wait_for_no_statement_of_the_maintenance_leader() {
    let schema = Schema::new();
    let store = schema.open().await;
    let id = NodeId::mint(NOW, [1; 10]);
    store.join(AT, &node(id)).await.unwrap();
    let held = [store.leads.take().await.unwrap(), store.leads.take().await.unwrap()];
    let is_waiting = tokio::select! {
        biased;
        _ = store.promote(AT, 10) => false,
        led = lead(&store, id) => led,
    };
    assert!(is_waiting, "the maintenance leader has another connection");
    drop(held);
    store.promote(AT, 10).await.unwrap();
}

/// Acquires the role of the schedules, finds and fires what is due, and resigns.
async fn lead(store: &PostgresStore, id: NodeId) -> bool {
    let lead = async {
        let (nonce, lease) = (Nonce::mint(NOW, [2; 10]), Duration::from_secs(5));
        let won = store.acquire(AT, "scheduler/0", id, nonce, lease).await.unwrap();
        let Acquired::Won { term, .. } = won else { panic!("{won:?}") };
        let fence = Fence { role: "scheduler/0".to_owned(), term, nonce };
        store.due(AT, 0, 10).await.unwrap();
        assert!(store.fire(AT, &fence, lease, &[]).await.unwrap().until.is_some());
        store.resign(AT, &fence).await.unwrap()
    };
    let led = tokio::time::timeout(PATIENCE, lead).await;
    led.expect("it waits for the maintenance leader")
}

/// Remote workers are many, and a server must not be declared dead because of them.
#[tokio::test]
async fn the_heartbeat_of_a_server_waits_for_no_remote_worker() {
    let schema = Schema::new();
    let store = schema.open().await;
    let (own, other) = (NodeId::mint(NOW, [1; 10]), NodeId::mint(NOW, [2; 10]));
    for id in [own, other] {
        store.join(AT, &node(id)).await.unwrap();
    }
    let beat = |node: NodeId, is_remote: bool| BeatAsk {
        node,
        is_remote,
        roles: Vec::new(),
        lease: Duration::from_secs(5),
        seeks: Vec::new(),
        leases: Vec::new(),
        progress: Vec::new(),
    };
    let (remote, server) = (beat(other, true), beat(own, false));
    // The connection for heartbeats of remote workers is in use.
    let held = store.beats[1].take().await.unwrap();
    let beats = async {
        tokio::select! {
            biased;
            _ = store.beat(AT, &remote) => panic!("the heartbeat of the worker has a connection"),
            beaten = store.beat(AT, &server) => assert!(beaten.unwrap().alive),
        }
    };
    tokio::time::timeout(PATIENCE, beats).await.expect("the server beats");
    drop(held);
    assert!(store.beat(AT, &remote).await.unwrap().alive);
}

/// A fire that has locked schedules with held slots delays no node that joins, and may hold these slots
/// again without seeing the node. They are woken when it has ended.
#[tokio::test]
async fn a_join_waits_for_no_schedule_and_wakes_it_later() {
    let schema = Schema::new();
    let store = schema.open().await;
    let held = "INSERT INTO {schema}.schedule (id, tenant, name, owner, set_name, shard, enabled, revision, stamp,
          next_slot, held_queue, held_since, held_until, created_at, changed_at, spec)
        SELECT '00000000-0000-0000-0000-000000000001', '', 's', '', '', 0, true, 1, 1,
          t.at, '@b', t.at, t.at + interval '15 minutes', t.at, t.at, '{}'
        FROM (SELECT to_timestamp(1800000000) AS at) AS t";
    let mut client = super::connect().await;
    client.batch_execute(&crate::sql::qualify(held, &schema.0)).await.unwrap();
    let locked = client.transaction().await.unwrap();
    let lock = "SELECT FROM {schema}.schedule FOR NO KEY UPDATE";
    locked.batch_execute(&crate::sql::qualify(lock, &schema.0)).await.unwrap();
    let mut hints = store.hints(Topic::Schedules);
    let info = NodeInfo { queues: vec!["@b".to_owned()], ..node(NodeId::mint(NOW, [1; 10])) };
    store.join(AT, &info).await.unwrap();
    assert!(store.due(AT, 0, 10).await.unwrap().schedules.is_empty());
    locked.rollback().await.unwrap();
    tokio::time::timeout(PATIENCE, hints.heard()).await.expect("it is woken");
    assert_eq!(store.due(AT, 0, 10).await.unwrap().schedules.len(), 1);
}

#[tokio::test]
async fn lists_beyond_the_bound_are_rejected_at_once() {
    let schema = Schema::new();
    let store = schema.open().await;
    let all = JobFilter::default();
    let admitted: Vec<_> = (0..limits::LISTS_MAX).map(|_| store.lists.admit().unwrap()).collect();
    let refused = store.jobs(&all, None, 10).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Retry);
    store.due(AT, 0, 10).await.unwrap();
    assert!(store.nodes().await.unwrap().is_empty());
    // Metrics need the job counts most when there are many requests.
    assert!(store.queue_stats(None, 10).await.unwrap().items.is_empty());
    drop(admitted);
    store.jobs(&all, None, 10).await.unwrap();
}

#[tokio::test]
async fn the_maintenance_leader_waits_for_no_list_and_is_not_rejected() {
    let schema = Schema::new();
    let store =
        PostgresStore::connect(&super::url(), schema.options().connections(1)).await.unwrap();
    let admitted: Vec<_> = (0..limits::LISTS_MAX).map(|_| store.lists.admit().unwrap()).collect();
    let list = store.pool.take().await.unwrap();
    let all = JobFilter::default();
    let page = tokio::time::timeout(PATIENCE, store.upkeep_jobs(&all, None, 10));
    assert!(page.await.expect("it waits for the list").unwrap().items.is_empty());
    let ahead = tokio::time::timeout(PATIENCE, store.schedules_ahead(NOW, 10));
    assert!(ahead.await.expect("it waits for the list").unwrap().schedules.is_empty());
    drop((list, admitted));
}

/// A list waits for a lock, and another one for its place; a single row is read meanwhile.
#[tokio::test]
async fn single_rows_do_not_wait_for_lists() {
    let schema = Schema::new();
    let store =
        PostgresStore::connect(&super::url(), schema.options().connections(2)).await.unwrap();
    let mut client = super::connect().await;
    let locked = client.transaction().await.unwrap();
    locked.batch_execute(&format!("LOCK TABLE {}.job", schema.0)).await.unwrap();
    let all = JobFilter::default();
    let is_done = std::cell::Cell::new(false);
    let lists = async {
        // On a slow machine they time out, perhaps before they are seen.
        while !is_done.get() {
            drop(tokio::join!(store.jobs(&all, None, 10), store.jobs(&all, None, 10)));
        }
    };
    let rows = async {
        // The first list has its connection.
        let waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1";
        let query = format!("%{}.job%", schema.0);
        while locked.query(waits, &[&query]).await.unwrap().is_empty() {}
        assert!(store.nodes().await.unwrap().is_empty());
        assert!(store.queue_stats(None, 10).await.unwrap().items.is_empty());
        is_done.set(true);
        locked.rollback().await.unwrap();
    };
    let both = async { tokio::join!(lists, rows) };
    tokio::time::timeout(PATIENCE, both).await.expect("a single row waits for a list");
}

/// However long counting takes, it ends at some time, and the counts are stored.
#[tokio::test]
async fn a_count_that_exceeds_its_time_gets_more() {
    let schema = Schema::new();
    let store = schema.open().await;
    let id = NodeId::mint(NOW, [1; 10]);
    store.join(AT, &node(id)).await.unwrap();
    let jobs: Vec<_> = (0..=limits::COUNT_LIVE_MAX as u32).map(|n| job(NOW, n)).collect();
    for part in jobs.chunks(limits::ENQUEUE_MAX) {
        store.enqueue(AT, part).await.unwrap();
    }
    let (nonce, lease) = (Nonce::mint(NOW, [2; 10]), Duration::from_secs(5));
    let won = store.acquire(AT, "maintenance", id, nonce, lease).await.unwrap();
    let Acquired::Won { term, .. } = won else { panic!("{won:?}") };
    let fence = Fence { role: "maintenance".to_owned(), term, nonce };
    let slow = format!(
        "ALTER TABLE {0}.job_ready RENAME TO job_ready_kept;
         CREATE VIEW {0}.job_ready AS SELECT k.* FROM {0}.job_ready_kept AS k, pg_sleep(0.4)",
        schema.0
    );
    super::connect().await.batch_execute(&slow).await.unwrap();
    store.count_time.set(Duration::from_millis(150));
    let request = CountRequest { fence, lease };
    let first = store.count_queues(AT, &request).await.unwrap_err();
    assert!(first.is_timeout(), "{first}");
    // The second one has 300 ms; more are allowed for on a loaded machine.
    let mut counted = None;
    for _ in 0..8 {
        counted = store.count_queues(AT, &request).await.ok();
        if counted.is_some() {
            break;
        }
    }
    assert_eq!(counted, Some(CountResponse { led: true, jobs: jobs.len() as u64 }));
    assert_eq!(store.queue_stats(None, 10).await.unwrap().counted_at, Some(NOW));
}

/// Whoever is not let listen tries again ever more seldom, and not at once for ever.
#[tokio::test]
async fn a_refusal_to_listen_is_an_error() {
    let schema = Schema::new();
    let store = schema.open().await;
    // No channel has an empty name.
    let refused = wake::hear(&store.shared, &store.connector, "").await.unwrap_err();
    assert!(refused.to_string().contains("zero-length"), "{refused}");
}
