//! A restart after a crash: the engine's lock proves that the process of before has ended.

use std::path::Path;
use std::time::Duration;

use punctual_core::job::{JobState, RetryPolicy};
use punctual_core::{JobId, LeaseId, NodeId, Nonce, Timestamp};
use punctual_sqlite::{Options, SqliteStore};
use punctual_store::{
    Acquired, At, ClaimAsk, Fence, Json, MAINTENANCE, NewJob, NodeInfo, QueueShare, REMOTE_LABEL,
    ReapAsk, Store,
};

const LEASE: Duration = Duration::from_secs(3_600);

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, Options::engine()).expect("the file is free")
}

/// Enters a node that can run jobs of the kind `send`.
async fn join(store: &SqliteStore, number: u8, labels: Vec<(String, String)>) -> NodeId {
    let info = NodeInfo {
        id: NodeId::mint(Timestamp::EPOCH, [number; 10]),
        name: format!("web-{number}"),
        version: String::new(),
        queues: vec!["default".to_owned()],
        kinds: vec!["send".to_owned()],
        labels,
    };
    store.join(At::Database, &info).await.expect("join");
    info.id
}

/// Enqueues a job and claims it for the node.
async fn claim(store: &SqliteStore, number: u8, node: NodeId) -> JobId {
    let id = JobId::mint(Timestamp::EPOCH, [number; 10]);
    let job = NewJob::new(id, "default", "send", Json::null());
    store.enqueue(At::Database, &[job]).await.expect("enqueue");
    let ask = ClaimAsk {
        node,
        lease: LeaseId::from_bytes([number; 16]),
        more: Vec::new(),
        queues: vec![QueueShare { name: "default".to_owned(), most: 1 }],
        kinds: vec!["send".to_owned()],
        most: 1,
    };
    let claimed = store.claim(At::Database, &ask).await.expect("claim").jobs;
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    id
}

/// Takes the role `maintenance`, which must be free.
async fn lead(store: &SqliteStore, number: u8, node: NodeId) -> Fence {
    let nonce = Nonce::from_bytes([number; 16]);
    match store.acquire(At::Database, MAINTENANCE, node, nonce, LEASE).await.expect("acquire") {
        Acquired::Won { term, .. } => Fence { role: MAINTENANCE.to_owned(), term, nonce },
        held => panic!("another node holds the role: {held:?}"),
    }
}

#[tokio::test]
async fn the_first_reap_after_a_restart_reclaims_the_jobs_of_the_killed_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("jobs.db");
    let store = open(&path);
    let killed = join(&store, 1, Vec::new()).await;
    let label = (REMOTE_LABEL.0.to_owned(), REMOTE_LABEL.1.to_owned());
    let remote = join(&store, 2, vec![label]).await;
    lead(&store, 1, killed).await;
    let lost = claim(&store, 1, killed).await;
    let kept = claim(&store, 2, remote).await;
    drop(store);

    let store = open(&path);
    let node = join(&store, 3, Vec::new()).await;
    let fence = lead(&store, 2, node).await;
    let ask = ReapAsk {
        fence,
        lease: LEASE,
        node_lifetime: Duration::from_secs(15),
        policy: RetryPolicy::default(),
        most: 10,
    };
    let reaped = store.reap(At::Database, &ask).await.expect("reap");
    assert_eq!(reaped.jobs.iter().map(|reaped| reaped.job).collect::<Vec<_>>(), [lost]);
    let state = store.job(kept).await.expect("job").expect("the job exists").view.state;
    assert_eq!(state, JobState::Running, "the remote worker is not part of the killed process");
    let nodes = store.nodes().await.expect("nodes");
    let is_dead = |id| nodes.iter().any(|node| node.info.id == id && node.dead_at.is_some());
    assert_eq!([killed, remote, node].map(is_dead), [true, false, false]);
}
