//! Workers elsewhere: what they are given, and when it is taken from them.

use std::time::Duration;

use punctual::remote::{Failed, Held, Holder, Report, Wish};
use punctual::testing::Frozen;
use punctual::{
    Definition, ErrorKind, JobState, LeaseId, LogLevel, NodeId, Order, RollupFilter, Timestamp,
};

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
    assert!(error.to_string().contains("does not belong to node"), "{error}");
}

/// When a node was last heard of.
async fn seen(frozen: &Frozen, node: NodeId) -> Timestamp {
    let nodes = frozen.admin().nodes().await.unwrap();
    nodes.iter().find(|it| it.info.id == node).unwrap().seen_at
}

/// Every call about a lease of this name is refused as one that is lost.
async fn assert_lost(frozen: &Frozen, held: &Held) {
    let remote = frozen.remote();
    let failed = Failed { error: "no paint".to_owned(), retry: true, retry_after: None };
    let line = vec![(LogLevel::Info, "not mine".to_owned())];
    let errors = [
        ("heartbeat", remote.heartbeat(held, None).await.map(drop)),
        ("log", remote.write_log(held, Some(1), line).await.map(drop)),
        ("fail", remote.fail(held, failed).await.map(drop)),
        ("snooze", remote.snooze(held, Duration::from_secs(1)).await.map(drop)),
        ("complete", remote.complete(held, None).await.map(drop)),
    ];
    for (call, answer) in errors {
        let kind = answer.map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::Fenced), "{call} of {held}");
    }
}

#[tokio::test]
async fn a_name_that_the_store_does_not_agree_with_is_good_for_nothing() {
    let frozen = mailing().await;
    for _ in 0..2 {
        frozen.enqueue(paint()).await.unwrap();
    }
    let one = Wish { most: 1, ..wish(&frozen, &[]) };
    let own = frozen.remote().claim(&one).await.unwrap().leases[0].held;
    let other = Wish { most: 1, ..wish(&frozen, &[]) };
    let theirs = frozen.remote().claim(&other).await.unwrap().leases[0].held;
    let made_up = [
        Held { job: theirs.job, ..own },
        Held { lease: own.lease, ..theirs },
        Held { attempt: own.attempt + 1, ..own },
        Held { by: theirs.by, ..own },
        // As if a node with a handler held it, which keeps to its time by itself.
        Held { by: None, ..own },
        Held { job: theirs.job, by: None, ..own },
    ];
    for held in &made_up {
        assert_lost(&frozen, held).await;
    }
    for held in [own, theirs] {
        let log = frozen.admin().log(held.job, None, 10).await.unwrap();
        assert!(log.items.is_empty(), "{log:?}");
        assert_eq!(frozen.remote().complete(&held, None).await.unwrap(), JobState::Succeeded);
    }
}

#[tokio::test]
async fn lines_have_numbers_from_1_to_the_most_of_an_attempt() {
    let frozen = mailing().await;
    frozen.enqueue(paint()).await.unwrap();
    let held = frozen.remote().claim(&wish(&frozen, &[])).await.unwrap().leases[0].held;
    let lines = |count| vec![(LogLevel::Info, "a line".to_owned()); count];
    for (first, count) in [(0, 1), (u32::MAX, 1), (u32::MAX, 2), (10_000, 2), (10_001, 1)] {
        let answer = frozen.remote().write_log(&held, Some(first), lines(count)).await;
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{first}: {error}");
    }
    assert_eq!(frozen.remote().write_log(&held, Some(10_000), lines(1)).await.unwrap(), 10_001);
    let error = frozen.remote().write_log(&held, None, lines(1)).await.unwrap_err();
    insta::assert_snapshot!(error, @"too many log lines: 1 from number 10001, maximum 10000 per attempt; write fewer or longer lines");
}

#[tokio::test]
async fn a_call_that_is_refused_is_nobodys_heartbeat() {
    let frozen = mailing().await;
    frozen.enqueue(paint()).await.unwrap();
    let worker = wish(&frozen, &[]);
    let held = frozen.remote().claim(&worker).await.unwrap().leases[0].held;
    let handlers = frozen.admin().nodes().await.unwrap();
    let handlers = handlers.iter().find(|node| node.info.id != worker.node).unwrap().info.id;
    let before = [seen(&frozen, worker.node).await, seen(&frozen, handlers).await];
    frozen.outage("5s");
    let lease = LeaseId::mint(frozen.now(), [7; 10]);
    for node in [worker.node, handlers] {
        let made_up = Held { lease, by: Some(Holder { node }), ..held };
        assert_lost(&frozen, &made_up).await;
        let report = Some(Report { percent: Some(1), note: String::new() });
        assert!(frozen.remote().heartbeat(&made_up, report).await.is_err());
    }
    let error =
        frozen.remote().claim(&Wish { node: handlers, ..worker.clone() }).await.unwrap_err();
    assert!(error.to_string().contains("belongs to the server node"), "{error}");
    let after = [seen(&frozen, worker.node).await, seen(&frozen, handlers).await];
    assert_eq!(after, before);
    frozen.remote().heartbeat(&held, None).await.unwrap();
    assert!(seen(&frozen, worker.node).await > before[0], "a call of its own is one");
}

/// By the process that claimed it, and by another one.
#[tokio::test]
async fn no_result_of_an_overdue_attempt_is_accepted() {
    let failed = Failed { error: "no paint".to_owned(), retry: false, retry_after: None };
    let frozen = mailing().await;
    let minute = Duration::from_secs(60);
    let id = frozen.enqueue(paint().timeout(minute).max_attempts(1)).await.unwrap().id;
    let claiming = frozen.remote();
    let leased = claiming.claim(&wish(&frozen, &[])).await.unwrap().leases.remove(0);
    let held = leased.held;
    assert_eq!(leased.deadline, frozen.now() + minute);
    frozen.outage("60s");
    assert_eq!(claiming.heartbeat(&held, None).await.unwrap().deadline, Some(leased.deadline));
    frozen.outage("1s");
    for remote in [claiming, frozen.remote()] {
        let answers = [
            ("complete", remote.complete(&held, None).await.map(drop)),
            ("fail", remote.fail(&held, failed.clone()).await.map(drop)),
            ("snooze", remote.snooze(&held, minute).await.map(drop)),
            ("log", remote.write_log(&held, None, Vec::new()).await.map(drop)),
            ("heartbeat", remote.heartbeat(&held, None).await.map(drop)),
        ];
        for (call, answer) in answers {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::Fenced, "{call}");
        }
    }
    assert_eq!(frozen.admin().job(id).await.unwrap().view.state, JobState::Running);
}

/// The process that claimed a lease needs not read it, and must not be deceived by that.
#[tokio::test]
async fn a_process_that_knows_a_lease_refuses_invented_names_of_it() {
    let frozen = mailing().await;
    for _ in 0..2 {
        frozen.enqueue(paint()).await.unwrap();
    }
    let remote = frozen.remote();
    let claims = remote.claim(&wish(&frozen, &[])).await.unwrap();
    let [own, other] = &claims.leases[..] else { panic!("two jobs: {claims:?}") };
    let (own, other) = (own.held, other.held);
    let lease = other.lease;
    let by = Some(Holder { node: remote.mint() });
    let attempt = own.attempt + 1;
    for held in [
        Held { lease, ..own },
        Held { by, ..own },
        Held { by: None, ..own },
        Held { attempt, ..own },
    ] {
        let error = remote.complete(&held, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced, "{held}");
    }
    for held in [own, other] {
        assert_eq!(remote.complete(&held, None).await.unwrap(), JobState::Succeeded);
        assert_eq!(remote.complete(&held, None).await.unwrap(), JobState::Succeeded, "repeated");
    }
}

#[tokio::test]
async fn results_are_heartbeats_once_a_second() {
    let frozen = mailing().await;
    for _ in 0..4 {
        frozen.enqueue(paint()).await.unwrap();
    }
    let (remote, worker) = (frozen.remote(), wish(&frozen, &[]));
    let claims = remote.claim(&worker).await.unwrap();
    let joined = seen(&frozen, worker.node).await;
    let mut heard = Vec::new();
    for leased in &claims.leases {
        frozen.outage("400ms");
        remote.complete(&leased.held, None).await.unwrap();
        heard.push(seen(&frozen, worker.node).await.since(joined).as_millis());
    }
    assert_eq!(heard, [0, 0, 1_200, 1_200]);
}

#[tokio::test]
async fn results_of_remote_workers_are_in_the_statistics_when_the_process_stops() {
    let frozen = mailing().await;
    for _ in 0..3 {
        frozen.enqueue(paint()).await.unwrap();
    }
    let remote = frozen.remote();
    for leased in remote.claim(&wish(&frozen, &[])).await.unwrap().leases {
        remote.complete(&leased.held, None).await.unwrap();
    }
    frozen.stop().await;
    let (from, to) = (Timestamp::EPOCH, Timestamp::MAX);
    let filter = RollupFilter { from, to, metric: Some("succeeded".to_owned()) };
    let rows = frozen.admin().rollups(&filter, None, 10).await.unwrap().items;
    let counted: Vec<_> = rows.iter().map(|row| (row.kind.as_str(), row.count)).collect();
    assert_eq!(counted, [("paint", 3)]);
}

#[tokio::test]
async fn an_attempt_has_what_is_left_of_its_jobs_budget() {
    let frozen = mailing().await;
    let minute = Duration::from_secs(60);
    let id = frozen.enqueue(paint().budget(minute)).await.unwrap().id;
    let first = frozen.remote().claim(&wish(&frozen, &[])).await.unwrap().leases[0].held;
    frozen.outage("40s");
    let retry_after = Some(Duration::ZERO);
    let failed = Failed { error: "no paint".to_owned(), retry: true, retry_after };
    frozen.remote().fail(&first, failed).await.unwrap();
    frozen.drain().await;
    let claims = frozen.remote().claim(&wish(&frozen, &[])).await.unwrap();
    let [again] = &claims.leases[..] else { panic!("one job: {claims:?}") };
    assert_eq!(again.deadline, claims.at + Duration::from_secs(20));
    let pulse = frozen.remote().heartbeat(&again.held, None).await.unwrap();
    assert_eq!(pulse.deadline, Some(again.deadline), "job {id}");
}

#[tokio::test]
async fn a_failed_job_waits_as_its_schedule_says() {
    let frozen = mailing().await;
    let mut definition = Definition::new("@yearly", "paint");
    definition.job.backoff = Some("fixed 3h".to_owned());
    definition.job.timeout = Some("1m".to_owned());
    frozen.admin().create_schedule("yearly", &definition).await.unwrap();
    let told: punctual::Backoff = "fixed 3h".parse().unwrap();
    let id = frozen.admin().run_now("yearly").await.unwrap();
    let first = frozen.remote().claim(&wish(&frozen, &[])).await.unwrap();
    assert_eq!(first.leases[0].job.backoff(), Some(told), "and its worker is told so");
    let failed = Failed { error: "no paint".to_owned(), retry: true, retry_after: None };
    frozen.remote().fail(&first.leases[0].held, failed).await.unwrap();
    let due = frozen.admin().job(id).await.unwrap().view.due_at.unwrap();
    assert_eq!(due, frozen.now() + told.wait(id, 1, 1));
    assert!(due > frozen.now() + Duration::from_secs(60), "it is no usual wait");
}
