//! Workers elsewhere: what they are given, and when it is taken from them.

use std::time::Duration;

use punctual::remote::{Failed, Held, Wish};
use punctual::testing::Frozen;
use punctual::{ErrorKind, JobState, Order};

use crate::mailing;

fn wish(frozen: &Frozen, holds: &[Held]) -> Wish {
    Wish {
        node: frozen.remote().mint(),
        name: "elsewhere".to_owned(),
        version: String::new(),
        queues: vec!["default".to_owned()],
        kinds: vec!["paint".to_owned()],
        most: 10,
        wait: Duration::ZERO,
        holds: holds.to_vec(),
    }
}

fn paint() -> Order {
    Order::of_kind("paint", &"red")
}

#[tokio::test]
async fn whoever_is_asked_knows_a_lease_by_its_name() {
    let frozen = mailing().await;
    for _ in 0..2 {
        frozen.enqueue(paint()).await.unwrap();
    }
    let claims = frozen.remote().claim(&wish(&frozen, &[])).await.unwrap();
    let [first, second] = &claims.leases[..] else { panic!("two jobs: {claims:?}") };
    assert_ne!(first.held.lease, second.held.lease, "each has a lease of its own");
    // Another process, which was never asked before.
    let named: Held = first.held.to_string().parse().unwrap();
    assert!(!frozen.remote().heartbeat(&named, None).await.unwrap().cancel);
    assert_eq!(frozen.remote().complete(&named, None).await.unwrap(), JobState::Succeeded);
    assert_eq!(frozen.remote().complete(&named, None).await.unwrap(), JobState::Succeeded);
    let failed = Failed { error: "no paint".to_owned(), retry: false, retry_after: None };
    let error = frozen.remote().fail(&named, failed).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
}

#[tokio::test]
async fn what_must_not_start_any_more_is_not_given_to_anybody() {
    let frozen = mailing().await;
    let late = frozen.enqueue(paint().start_within(Duration::from_secs(60))).await.unwrap().id;
    let good = frozen.enqueue(paint()).await.unwrap().id;
    frozen.outage("2m");
    let claims = frozen.remote().claim(&wish(&frozen, &[])).await.unwrap();
    let given: Vec<_> = claims.leases.iter().map(|leased| leased.job.id).collect();
    assert_eq!(given, [good]);
    let expired = frozen.admin().job(late).await.unwrap().view;
    assert_eq!(expired.state, JobState::Failed);
    insta::assert_snapshot!(expired.error.unwrap(), @"expired before it could start");
}

#[tokio::test]
async fn an_attempt_ends_with_its_time_whether_it_says_something_or_not() {
    let frozen = mailing().await;
    let limit = Duration::from_secs(60);
    let id = frozen.enqueue(paint().timeout(limit).max_attempts(1)).await.unwrap().id;
    let first = wish(&frozen, &[]);
    let held = frozen.remote().claim(&first).await.unwrap().leases[0].held;
    frozen.outage("61s");
    // It claims again and says that it is still at it.
    let again = Wish { holds: vec![held], ..first };
    assert!(frozen.remote().claim(&again).await.unwrap().leases.is_empty());
    let ended = frozen.admin().job(id).await.unwrap().view;
    insta::assert_snapshot!(ended.error.unwrap(), @"took longer than 1m");
    let error = frozen.remote().heartbeat(&held, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced);
}

#[tokio::test]
async fn a_worker_that_drains_goes_on_draining_whatever_it_says_of_itself() {
    let frozen = mailing().await;
    let first = wish(&frozen, &[]);
    frozen.remote().claim(&first).await.unwrap();
    frozen.remote().drain(first.node, true).await.unwrap();
    frozen.enqueue(paint()).await.unwrap();
    // Another process, to which the node says that it has learned something new.
    let learned = Wish { kinds: vec!["paint".to_owned(), "draw".to_owned()], ..first.clone() };
    let claims = frozen.remote().claim(&learned).await.unwrap();
    assert!(claims.drain && claims.leases.is_empty(), "{claims:?}");
    let node = frozen.remote().drain(first.node, false).await.unwrap();
    assert_eq!(node.info.kinds, ["paint", "draw"]);
    assert_eq!(frozen.remote().claim(&learned).await.unwrap().leases.len(), 1);
}

#[tokio::test]
async fn a_lease_is_named_by_its_own_node() {
    let frozen = mailing().await;
    frozen.enqueue(paint()).await.unwrap();
    let held = frozen.remote().claim(&wish(&frozen, &[])).await.unwrap().leases[0].held;
    let error = frozen.remote().claim(&wish(&frozen, &[held])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("name what this node has claimed"), "{error}");
}
