//! Claims that begin at a mark.

use std::time::Duration;

use punctual_core::job::JobState;
use punctual_core::{JobId, LeaseId, NodeId, Timestamp};
use punctual_store::rules::Spoil;
use punctual_store::{Actor, At, ClaimAsk, NewJob, QueueChange, QueueLimits, QueueShare, Store};

use super::{NOW, Schema, job, node};
use crate::PostgresStore;

const AT: At = At::Fixed(NOW);

/// A store whose queue was claimed up to an instant, and read whole so slowly that it is not again
/// for a while.
async fn marked(schema: &Schema, took: Duration) -> (PostgresStore, ClaimAsk) {
    let store = schema.open().await;
    let ask = ClaimAsk {
        node: NodeId::mint(NOW, [1; 10]),
        lease: LeaseId::mint(NOW, [2; 10]),
        more: Vec::new(),
        queues: vec![QueueShare { name: "default".to_owned(), most: 1 }],
        kinds: vec!["send".to_owned()],
        most: 1,
    };
    store.join(AT, &node(ask.node)).await.unwrap();
    let marks = &store.shared.marks;
    let mark = (NOW - Duration::from_secs(60), JobId::mint(Timestamp::EPOCH, [0; 10]));
    marks.advance("default", &ask.kinds, marks.begin("default", &ask.kinds), mark, took);
    (store, ask)
}

#[tokio::test]
async fn a_job_that_cannot_be_read_is_all_that_its_claim_takes() {
    let schema = Schema::new();
    let (store, ask) = marked(&schema, Duration::from_millis(19)).await;
    let (bad, good) = (job(NOW, 1), job(NOW, 2));
    store.enqueue(AT, &[bad.clone(), good.clone()]).await.unwrap();
    store.spoil(Spoil::Body(bad.id)).await.unwrap();
    assert_eq!(store.claim(AT, &ask).await.unwrap().jobs, []);
    assert_eq!(store.job(bad.id).await.unwrap().unwrap().view.state, JobState::Failed);
    assert_eq!(store.job(good.id).await.unwrap().unwrap().view.state, JobState::Ready);
    assert_eq!(store.claim(AT, &ask).await.unwrap().jobs[0].id, good.id);
}

#[tokio::test]
async fn a_job_that_somebody_else_puts_behind_the_mark_is_found() {
    let schema = Schema::new();
    let (store, ask) = marked(&schema, Duration::from_millis(19)).await;
    // Another process, of which this one hears nothing.
    let other = schema.open().await;
    let urgent = NewJob { priority: 2, ..job(NOW, 1) };
    other.enqueue(AT, std::slice::from_ref(&urgent)).await.unwrap();
    assert_eq!(store.claim(AT, &ask).await.unwrap().jobs[0].id, urgent.id);
}

#[tokio::test]
async fn a_job_that_this_process_puts_behind_the_mark_goes_first() {
    let schema = Schema::new();
    let (store, ask) = marked(&schema, Duration::from_secs(10)).await;
    let (usual, urgent) = (job(NOW, 1), NewJob { priority: 2, ..job(NOW, 2) });
    store.enqueue(AT, &[usual, urgent.clone()]).await.unwrap();
    assert_eq!(store.claim(AT, &ask).await.unwrap().jobs[0].id, urgent.id);
}

/// Two queues allow one job each. Another node's claim has locked the first queue, and takes from it.
#[tokio::test]
async fn a_claim_reports_limited_queues_that_another_claim_has_locked() {
    let schema = Schema::new();
    let (store, ask) = marked(&schema, Duration::ZERO).await;
    let queues = ["first", "second"];
    let actor = Actor::new("ana", "one at a time");
    let limit = QueueChange::Limit(QueueLimits { max_running: Some(1) });
    let in_queue = |queue: &str, seed: u32| NewJob { queue: queue.to_owned(), ..job(NOW, seed) };
    for queue in queues {
        store.change_queue(AT, queue, &limit, &actor).await.unwrap();
    }
    let jobs = [in_queue("first", 1), in_queue("second", 2)];
    store.enqueue(AT, &jobs).await.unwrap();
    let share = |queue: &str| QueueShare { name: queue.to_owned(), most: 2 };
    let ask = ClaimAsk { queues: queues.map(share).to_vec(), most: 2, ..ask };
    let mut client = super::connect().await;
    let other = client.transaction().await.unwrap();
    let lock = format!("SELECT FROM {}.queue WHERE name = 'first' FOR NO KEY UPDATE", schema.0);
    other.query(&lock, &[]).await.unwrap();
    let claimed = store.claim(AT, &ask).await.unwrap();
    let taken: Vec<JobId> = claimed.jobs.iter().map(|job| job.id).collect();
    assert_eq!((taken, claimed.contended), (vec![jobs[1].id], vec!["first".to_owned()]));
    other.rollback().await.unwrap();
    let ask = ClaimAsk { lease: LeaseId::mint(NOW, [3; 10]), ..ask };
    let claimed = store.claim(AT, &ask).await.unwrap();
    let taken: Vec<JobId> = claimed.jobs.iter().map(|job| job.id).collect();
    assert_eq!((taken, claimed.contended), (vec![jobs[0].id], Vec::new()));
}
