//! Jobs that follow an attempt: with its settlement or not at all, and where a claim finds them.

use std::time::Duration;

use punctual_core::job::{AttemptOutcome, JobState, Next, Transition};
use punctual_core::{JobId, LeaseId, NodeId, Timestamp};
use punctual_store::{
    At, ClaimAsk, ClaimedJob, JobFilter, NewJob, QueueShare, Settled, Settlement, Store,
};

use super::{NOW, Schema, connect, job, node};
use crate::PostgresStore;

const AT: At = At::Fixed(NOW);

fn ask(number: u8) -> ClaimAsk {
    ClaimAsk {
        node: NodeId::mint(NOW, [1; 10]),
        lease: LeaseId::mint(NOW, [number; 10]),
        more: Vec::new(),
        queues: vec![QueueShare { name: "default".to_owned(), most: 1 }],
        kinds: vec!["send".to_owned()],
        most: 1,
    }
}

/// A store with a job that is under way.
async fn at_work(schema: &Schema) -> (PostgresStore, ClaimedJob) {
    let store = schema.open().await;
    store.join(AT, &node(ask(1).node)).await.unwrap();
    store.enqueue(AT, &[job(NOW, 1)]).await.unwrap();
    let held = store.claim(AT, &ask(1)).await.unwrap().jobs.remove(0);
    (store, held)
}

fn followed(held: &ClaimedJob, then: Vec<NewJob>) -> Settlement {
    let transition =
        Transition { outcome: AttemptOutcome::Succeeded, next: Next::Succeeded, error: None };
    Settlement { job: held.id, lease: held.lease, transition, result: None, then }
}

#[tokio::test]
async fn a_settlement_whose_jobs_cannot_be_written_is_not_applied() {
    let schema = Schema::new();
    let (store, held) = at_work(&schema).await;
    let client = connect().await;
    let table = format!("{}.job", schema.0);
    let refuse = format!("ALTER TABLE {table} ADD CONSTRAINT refuse CHECK (kind <> 'bad')");
    client.batch_execute(&refuse).await.unwrap();
    let bad = NewJob { kind: "bad".to_owned(), ..job(NOW, 3) };
    let settlement = followed(&held, vec![job(NOW, 2), bad]);
    let settle = async || store.settle(AT, std::slice::from_ref(&settlement)).await;
    settle().await.unwrap_err();
    assert_eq!(store.job(held.id).await.unwrap().unwrap().view.state, JobState::Running);
    assert_eq!(store.job(job(NOW, 2).id).await.unwrap(), None);
    client.batch_execute(&format!("ALTER TABLE {table} DROP CONSTRAINT refuse")).await.unwrap();
    assert_eq!(settle().await.unwrap().answers, [Settled::Applied(JobState::Succeeded)]);
    assert_eq!(store.jobs(&JobFilter::default(), None, 10).await.unwrap().items.len(), 3);
}

/// The queue was read whole so slowly that it is not again for a while.
#[tokio::test]
async fn a_job_that_follows_before_a_mark_is_claimed() {
    let schema = Schema::new();
    let (store, held) = at_work(&schema).await;
    let (marks, kinds) = (&store.shared.marks, &ask(1).kinds);
    let mark = (NOW - Duration::from_secs(60), JobId::mint(Timestamp::EPOCH, [0; 10]));
    let took = Duration::from_secs(3_600);
    marks.advance("default", kinds, marks.begin("default", kinds), mark, took);
    let urgent = NewJob { priority: 50, ..job(NOW, 2) };
    let id = urgent.id;
    store.settle(AT, &[followed(&held, vec![urgent])]).await.unwrap();
    let claimed = store.claim(AT, &ask(2)).await.unwrap().jobs;
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
}
