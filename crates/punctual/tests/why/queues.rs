//! Queues.

use punctual_store::{Delay, NewJob, QueueChange, QueueLimits};

use crate::common::*;
use crate::{codes, why_queue};

#[tokio::test]
async fn an_empty_queue_says_so() {
    let why = on_both(async |world| {
        web_1(world).await;
        why_queue(world, "default").await
    })
    .await;
    assert_eq!((why.state.as_str(), codes(&why)), ("open", vec!["empty"]));
    insta::assert_snapshot!(why, @"
    queue `default`: open
    - nothing waits or runs in it
    ");
}

#[tokio::test]
async fn a_queue_tells_what_is_in_it_and_since_when() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        fail_one(world, node).await;
        world.enqueue_one().await;
        world.claim_one(node).await;
        world.enqueue_one().await;
        world.pass(10);
        world.enqueue_one().await;
        world.enqueue(NewJob { delay: Delay::For(seconds(60)), ..world.new_job() }).await;
        why_queue(world, "default").await
    })
    .await;
    assert_eq!(codes(&why), ["waiting", "dead_letters"]);
    insta::assert_snapshot!(why, @"
    queue `default`: open
    - 2 jobs are ready, the oldest for 10s, since 2027-01-01T00:00:00Z; 1 runs; 1 scheduled
    - 1 of its jobs has failed: 1 `mail`
        → see which: `punctual job list --state failed --queue default`
    ");
}

#[tokio::test]
async fn a_paused_queue_at_its_limit_says_both() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        world.enqueue_one().await;
        world.enqueue_one().await;
        world.claim_one(node).await;
        let limits = QueueLimits { max_running: Some(1) };
        change_queue(world, "default", QueueChange::Limit(limits)).await;
        change_queue(world, "default", QueueChange::Pause { until: None }).await;
        world.pass(2);
        why_queue(world, "default").await
    })
    .await;
    assert_eq!(
        (why.state.as_str(), codes(&why)),
        ("paused", vec!["paused_queue", "queue_limit", "waiting"])
    );
    insta::assert_snapshot!(why, @"
    queue `default`: paused
    - queue `default` is paused by ana for 2s, since 2027-01-01T00:00:00Z: index rebuild; the pause has no set end
        → resume it: `punctual queue resume default`
    - queue `default` is at its limit: 1 job runs on all nodes together, and max_running = 1
        → wait until one of them ends, or raise the limit: `punctual queue limit default`
    - 1 job is ready, the oldest for 2s, since 2027-01-01T00:00:00Z; 1 runs
    ");
}

#[tokio::test]
async fn kinds_that_nobody_handles_are_told_each() {
    let why = on_both(async |world| {
        web_1(world).await;
        for kind in ["mail", "mails", "report"] {
            world.enqueue(NewJob { kind: kind.to_owned(), ..world.new_job() }).await;
        }
        why_queue(world, "default").await
    })
    .await;
    assert_eq!(codes(&why), ["no_node_for_kind", "no_node_for_kind", "waiting"]);
    insta::assert_snapshot!(why, @"
    queue `default`: open
    - no live node that serves queue `default` has a handler for kind `mails`: `web-1` handles `mail`; did you mean `mail`?
        → start a node that serves queue `default` and handles kind `mails`
    - no live node that serves queue `default` has a handler for kind `report`: `web-1` handles `mail`
        → start a node that serves queue `default` and handles kind `report`
    - 3 jobs are ready, the oldest for less than 1s, since 2027-01-01T00:00:00Z; 0 run
    ");
}

#[tokio::test]
async fn a_queue_that_nobody_serves_says_who_serves_what() {
    let why = on_both(async |world| {
        web_1(world).await;
        world.enqueue(NewJob { queue: "night".to_owned(), ..world.new_job() }).await;
        why_queue(world, "night").await
    })
    .await;
    assert_eq!(codes(&why), ["no_node_for_queue", "waiting"]);
    insta::assert_snapshot!(why, @"
    queue `night`: open
    - no live node serves queue `night`: `web-1` serves `default`
        → start a node that serves queue `night`
    - 1 job is ready, the oldest for less than 1s, since 2027-01-01T00:00:00Z; 0 run
    ");
}

#[tokio::test]
async fn a_queue_without_any_node_says_so() {
    let why = on_both(async |world| {
        world.enqueue_one().await;
        why_queue(world, "default").await
    })
    .await;
    assert_eq!(codes(&why), ["no_node", "waiting"]);
}

#[tokio::test]
async fn a_queue_that_nobody_uses_is_perhaps_another() {
    let why = on_both(async |world| {
        web_1(world).await;
        why_queue(world, "defualt").await
    })
    .await;
    assert_eq!((why.state.as_str(), codes(&why)), ("unused", vec!["unused"]));
    insta::assert_snapshot!(why, @"
    queue `defualt`: unused
    - no job is in queue `defualt`, no live node serves it, and nobody has set anything for it; did you mean `default`?
    ");
}
