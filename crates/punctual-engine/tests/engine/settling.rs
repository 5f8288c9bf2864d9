//! Outcomes become durable: in batches, until they are, and never too many at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual_conformance::Fault;
use punctual_core::Timestamp;
use punctual_core::job::{AttemptOutcome, JobState};
use punctual_engine::{Attempt, Config};
use punctual_store::{RollupCount, RollupFilter, Store, limits};

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn an_outcome_is_tried_until_it_is_durable() {
    let world = World::new();
    for fault in [Fault::Request, Fault::Reply] {
        let node = world.start(config("a", 3), on("mail", done)).await;
        node.line.fail(&["settle"], fault);
        let job = world.enqueue(world.job("mail")).await;
        world.until("it is tried", || node.line.calls("settle") >= 3).await;
        node.line.heal();
        let detail = world.comes_to(job, JobState::Succeeded).await;
        assert_eq!((detail.view.attempt, detail.spent), (1, 1));
        world.until("the node lets go of it", || node.health().held == 0).await;
        node.stop();
        assert_eq!(world.soon(node.stopped()).await.unsettled, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_outcomes_are_not_durable_stops_starting_jobs() {
    let world = World::new();
    let jobs = limits::SETTLE_MAX + 2_000;
    world.enqueue_some("mail", jobs).await;
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let counts = move |attempt: Attempt| {
        count.fetch_add(1, Ordering::Relaxed);
        done(attempt)
    };
    let node = world.start(config("a", 50), on("mail", counts)).await;
    node.line.fail(&["settle"], Fault::Request);
    world.pass(s(8)).await;
    let begun = begun.load(Ordering::Relaxed);
    assert!((limits::SETTLE_MAX..=limits::SETTLE_MAX + 50).contains(&begun), "{begun} began");
    let held = node.health().held;
    let most = limits::SETTLE_MAX + 50 + 4 * limits::CLAIM_MAX;
    assert!((limits::SETTLE_MAX..=most).contains(&held), "{held} are held");
    node.line.heal();
    let start = world.now();
    while world.stats("mail").await.ready + world.stats("mail").await.running > 0 {
        world.pass(ms(10)).await;
        assert!(world.now() - start < s(60));
    }
}

#[tokio::test(start_paused = true)]
async fn outcomes_that_gather_are_settled_together() {
    let world = World::new();
    let gate = Gate::new();
    world.enqueue_some("mail", 100).await;
    let node = world.start(config("a", 100), on("mail", gate.handler())).await;
    world.until("all run", || gate.began().len() == 100).await;
    gate.open(100);
    world.until("all are settled", || node.health().held == 0).await;
    assert!(node.line.calls("settle") <= 2, "{} settles", node.line.calls("settle"));
}

/// The same batch would take too long again, and the node would settle nothing more.
#[tokio::test(start_paused = true)]
async fn a_settle_that_takes_too_long_is_sent_again_with_half_of_its_batch() {
    let world = World::new();
    let gate = Gate::new();
    world.enqueue_some("mail", 80).await;
    let node = world.start(config("a", 80), on("mail", gate.handler())).await;
    world.until("all run", || gate.began().len() == 80).await;
    node.line.fail(&["settle"], Fault::Request);
    gate.open(80);
    world.pass(s(1)).await;
    // What each call of settle meets, and how many jobs are not settled after the last one. A timeout
    // halves the batch: 80, 40, 20. One success does not double it again.
    for (script, left) in
        [(vec![Fault::Timeout, Fault::Timeout, Fault::None], 60), (vec![Fault::None], 40)]
    {
        let (calls, count) = (node.line.calls("settle"), script.len());
        let mut script = script.into_iter();
        node.line.suffer(move |method| match method {
            "settle" => script.next().unwrap_or(Fault::Request),
            _ => Fault::None,
        });
        world.until("all of it is sent", || node.line.calls("settle") > calls + count).await;
        assert_eq!(world.stats("mail").await.running, left);
    }
    node.line.heal();
    world.until("all are settled", || node.health().held == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_result_that_comes_too_late_is_dropped_and_the_node_lets_go() {
    let world = World::new();
    let gate = Gate::new();
    let node = world.start(config("a", 3), on("mail", gate.handler())).await;
    let before = world.memory.snapshot();
    let job = world.enqueue(world.job("mail")).await;
    world.until("it runs", || gate.began().len() == 1).await;
    // A failover to a state in which the lease was never given, and the job written again.
    world.memory.restore(before);
    gate.open(1);
    world.until("the node lets go of it", || node.health().held == 0).await;
    assert!(world.memory.job(job).await.unwrap().is_none());
}

async fn counted(world: &World) -> Vec<RollupCount> {
    let (from, to) = (Timestamp::EPOCH, Timestamp::MAX);
    let filter = RollupFilter { from, to, metric: None };
    let mut counted = world.memory.rollups(&filter, None, 500).await.unwrap().items;
    counted.retain(|row| row.metric.parse::<AttemptOutcome>().is_ok());
    counted
}

/// A row of the histograms.
async fn lengths(world: &World, prefix: &str) -> Vec<(String, i64)> {
    let filter = RollupFilter { from: Timestamp::EPOCH, to: Timestamp::MAX, metric: None };
    let rows = world.memory.rollups(&filter, None, 500).await.unwrap().items;
    let of_it = rows.into_iter().filter(|row| row.metric.starts_with(prefix));
    of_it.map(|row| (row.metric, row.count)).collect()
}

#[tokio::test(start_paused = true)]
async fn how_long_jobs_waited_and_took_is_counted_in_buckets() {
    let world = World::new();
    let gate = Gate::new();
    world.enqueue_some("mail", 3).await;
    world.pass(s(3)).await;
    let _node = world.start(config("a", 3), on("mail", gate.handler())).await;
    world.until("all run", || gate.began().len() == 3).await;
    world.pass(s(8)).await;
    gate.open(3);
    world.pass(s(30)).await;
    // They waited for more than two seconds and took more than five.
    assert_eq!(lengths(&world, "waited_").await, [("waited_11".to_owned(), 3)]);
    assert_eq!(lengths(&world, "took_").await, [("took_12".to_owned(), 3)]);
    assert_eq!(lengths(&world, "late_").await, []);
}

#[tokio::test(start_paused = true)]
async fn attempts_are_counted_by_minute_outcome_queue_and_kind() {
    let world = World::new();
    let failure = punctual_core::job::Outcome::FailForGood("no".to_owned());
    let handlers = and(on("mail", done), "bad", ends(failure));
    let node = world.start(config("a", 3), handlers).await;
    world.enqueue_some("mail", 7).await;
    world.enqueue_some("bad", 2).await;
    world.pass(s(15)).await;
    let count = |metric: &str, kind: &str, count: i64| (metric.to_owned(), kind.to_owned(), count);
    let seen: Vec<_> = counted(&world)
        .await
        .into_iter()
        .map(|row| {
            assert_eq!((row.minute, row.queue.as_str()), (START, "default"));
            (row.metric, row.kind, row.count)
        })
        .collect();
    assert_eq!(seen, [count("failed", "bad", 2), count("succeeded", "mail", 7)]);
    // A busy store is asked again; one whose answer was lost is not, lest they count twice.
    let calls = AtomicUsize::new(0);
    node.line.suffer(move |method| match method {
        "roll_up" if calls.fetch_add(1, Ordering::Relaxed) == 0 => Fault::Reply,
        _ => Fault::None,
    });
    world.enqueue_some("mail", 3).await;
    world.pass(s(30)).await;
    let total: i64 =
        counted(&world).await.iter().filter(|row| row.kind == "mail").map(|row| row.count).sum();
    assert_eq!(total, 10);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_writes_down_what_it_counted() {
    let world = World::new();
    let node = world.start(Config { maintains: false, ..config("a", 3) }, on("mail", done)).await;
    let jobs = world.enqueue_some("mail", 4).await;
    for job in jobs {
        world.comes_to(job, JobState::Succeeded).await;
    }
    assert_eq!(counted(&world).await, []);
    node.stop();
    world.soon(node.stopped()).await;
    assert_eq!(counted(&world).await.iter().map(|row| row.count).sum::<i64>(), 4);
}
