//! Queues.

use punctual_store::{CountRequest, Delay, NewJob, QueueChange, QueueLimits, limits};

use crate::common::*;
use crate::{codes, why_queue};

#[tokio::test]
async fn an_empty_queue_says_so() {
    let why = on_both(async |world| {
        web_1(world).await;
        why_queue(world, "default").await
    })
    .await;
    assert_eq!((why.state.as_str(), codes(&why)), ("active", vec!["empty"]));
    insta::assert_snapshot!(why, @"
    queue `default`: active
    - no waiting or running jobs
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
    assert_eq!(codes(&why), ["waiting", "failed_jobs"]);
    insta::assert_snapshot!(why, @"
    queue `default`: active
    - 2 jobs ready, the oldest for 10s (since 2027-01-01T00:00:00Z); 1 running; 1 scheduled
    - 1 failed job: 1 of kind `mail`
        → list them: `punctual job list --state failed --queue default`
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
    - queue `default` is paused by ana for 2s (since 2027-01-01T00:00:00Z): index rebuild; the pause has no end time
        → resume it: `punctual queue resume default`
    - queue `default` is at its limit: 1 job running on all nodes, max_running = 1
        → wait for a job to finish, or raise the limit, for example: `punctual queue limit default 2`
    - 1 job ready, the oldest for 2s (since 2027-01-01T00:00:00Z); 1 running
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
    queue `default`: active
    - no live node handles kind `mails` in queue `default`: `web-1` handles `mail`; did you mean `mail`?
        → start a node that serves queue `default` and handles kind `mails`
    - no live node handles kind `report` in queue `default`: `web-1` handles `mail`
        → start a node that serves queue `default` and handles kind `report`
    - 3 jobs ready, the oldest for less than 1s (since 2027-01-01T00:00:00Z); 0 running
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
    queue `night`: active
    - no live node serves queue `night`: `web-1` serves `default`
        → start a node that serves it, or restart one with `--queue default,night`
    - 1 job ready, the oldest for less than 1s (since 2027-01-01T00:00:00Z); 0 running
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
    - queue `defualt` is unused: no jobs, no settings, and no live node serves it; did you mean `default`?
    ");
}

/// Stored counts can be minutes old, and what they say about the limit as well.
#[tokio::test]
async fn a_limit_that_is_judged_by_stored_counts_tells_their_age() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let new: Vec<NewJob> = (0..=limits::COUNT_LIVE_MAX).map(|_| world.new_job()).collect();
        for batch in new.chunks(limits::ENQUEUE_MAX) {
            world.enqueue_all(batch).await;
        }
        world.claim_one(node).await;
        let fence = world.lead("maintenance", node).await;
        let request = CountRequest { fence, lease: seconds(5) };
        assert!(world.store().count_queues(world.at(), &request).await.unwrap().led);
        let limits = QueueLimits { max_running: Some(1) };
        change_queue(world, "default", QueueChange::Limit(limits)).await;
        world.pass(90);
        why_queue(world, "default").await
    })
    .await;
    let limit = why.reasons.iter().find(|reason| reason.code == "queue_limit").unwrap();
    assert_eq!(
        limit.text,
        "queue `default` is at its limit: 1 job running on all nodes, max_running = 1; counted 1m30s ago"
    );
}
