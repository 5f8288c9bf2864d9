//! Jobs that wait.

use punctual_conformance::World;
use punctual_core::job::Outcome;
use punctual_core::schedule::Overlap;
use punctual_store::{Delay, ExpireRequest, Fence, NewJob, QueueChange, QueueLimits};

use crate::common::*;
use crate::{codes, why_job};

#[tokio::test]
async fn a_job_of_the_future_says_when() {
    let why = on_both(async |world| {
        web_1(world).await;
        let job = NewJob { delay: Delay::For(seconds(250)), ..world.new_job() };
        why_job(world, world.enqueue(job).await).await
    })
    .await;
    assert_eq!(codes(&why), ["due_later"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`: scheduled
    - due in 4m10s (2027-01-01T00:04:10Z)
    ");
}

#[tokio::test]
async fn what_will_keep_a_job_back_later_is_told_before() {
    let why = on_both(async |world| {
        web_1(world).await;
        change_queue(world, "default", QueueChange::Pause { until: None }).await;
        let job = NewJob { delay: Delay::For(seconds(250)), ..world.new_job() };
        why_job(world, world.enqueue(job).await).await
    })
    .await;
    assert_eq!(codes(&why), ["due_later", "paused_queue"]);
}

#[tokio::test]
async fn a_paused_queue_says_by_whom_why_and_until_when() {
    let why = on_both(async |world| {
        web_1(world).await;
        let until = world.now() + seconds(3_600);
        change_queue(world, "default", QueueChange::Pause { until: Some(until) }).await;
        let job = world.enqueue_one().await;
        world.pass(10);
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["paused_queue", "next_to_start"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`: ready
    - queue `default` is paused by ana for 10s (since 2027-01-01T00:00:00Z): index rebuild; the pause ends in 59m50s (2027-01-01T01:00:00Z)
        → resume it: `punctual queue resume default`
    - ready for 10s (since 2027-01-01T00:00:00Z); it is next to start once the reasons above are resolved
    ");
}

#[tokio::test]
async fn a_pause_that_has_ended_is_none() {
    let why = on_both(async |world| {
        web_1(world).await;
        let until = world.now() + seconds(5);
        change_queue(world, "default", QueueChange::Pause { until: Some(until) }).await;
        let job = world.enqueue_one().await;
        world.pass(6);
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["next_claim"]);
}

#[tokio::test]
async fn without_any_node_nothing_runs() {
    let why = on_both(async |world| why_job(world, world.enqueue_one().await).await).await;
    assert_eq!(codes(&why), ["no_node", "next_to_start"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-844c-3cd7f43c661c of kind `mail` in queue `default`: ready
    - no live nodes
        → start a node that serves queue `default` and handles kind `mail`
    - ready for less than 1s (since 2027-01-01T00:00:00Z); it is next to start once the reasons above are resolved
    ");
}

#[tokio::test]
async fn nodes_that_are_silent_or_dead_are_no_nodes() {
    let why = on_both(async |world| {
        web_1(world).await;
        let job = world.enqueue_one().await;
        world.pass(7_200);
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["no_node", "next_to_start"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`: ready
    - no live nodes; the last heartbeat was 2h ago (2027-01-01T00:00:00Z) from `web-1`
        → start a node that serves queue `default` and handles kind `mail`
    - ready for 2h (since 2027-01-01T00:00:00Z); it is next to start once the reasons above are resolved
    ");
}

#[tokio::test]
async fn a_queue_that_nobody_serves_is_perhaps_another() {
    let why = on_both(async |world| {
        node(world, "web-1", &["default", "mails"], &["mail"]).await;
        node(world, "ui-1", &[], &[]).await;
        let job = NewJob { queue: "mail".to_owned(), ..world.new_job() };
        why_job(world, world.enqueue(job).await).await
    })
    .await;
    assert_eq!(codes(&why), ["no_node_for_queue", "next_to_start"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-953a-eb70673e29cb of kind `mail` in queue `mail`: ready
    - no live node serves queue `mail`: `web-1` serves `default` and `mails`; `ui-1` serves no queues; did you mean `mails`?
        → start a node that serves it, or restart one with `--queue default,mail`
    - ready for less than 1s (since 2027-01-01T00:00:00Z); it is next to start once the reasons above are resolved
    ");
}

#[tokio::test]
async fn a_kind_that_nobody_handles_is_perhaps_another() {
    let why = on_both(async |world| {
        node(world, "web-1", &["default"], &["mail", "resize_image"]).await;
        node(world, "web-2", &["default"], &["report"]).await;
        node(world, "gpu-1", &["gpu"], &["resize_imag"]).await;
        let job = NewJob { kind: "resize_imag".to_owned(), ..world.new_job() };
        why_job(world, world.enqueue(job).await).await
    })
    .await;
    assert_eq!(codes(&why), ["no_node_for_kind", "next_to_start"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-b3d3-3b666a1e21da of kind `resize_imag` in queue `default`: ready
    - no live node handles kind `resize_imag` in queue `default`: `web-1` handles `mail` and `resize_image`; `web-2` handles `report`; handled in other queues by `gpu-1`; did you mean `resize_image`?
        → start a node that serves queue `default` and handles kind `resize_imag`
    - ready for less than 1s (since 2027-01-01T00:00:00Z); it is next to start once the reasons above are resolved
    ");
}

#[tokio::test]
async fn a_queue_at_its_limit_says_how_many_run() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let limits = QueueLimits { max_running: Some(1) };
        change_queue(world, "default", QueueChange::Limit(limits)).await;
        world.enqueue_one().await;
        world.claim_one(node).await;
        let job = world.enqueue_one().await;
        world.pass(3);
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["queue_limit", "next_to_start"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-b3d3-3b666a1e21da of kind `mail` in queue `default`: ready
    - queue `default` is at its limit: 1 job running on all nodes, max_running = 1
        → wait for a job to finish, or raise the limit, for example: `punctual queue limit default 2`
    - ready for 3s (since 2027-01-01T00:00:00Z); it is next to start once the reasons above are resolved
    ");
}

#[tokio::test]
async fn a_limit_of_none_is_said_to_be_one() {
    let why = on_both(async |world| {
        web_1(world).await;
        let limits = QueueLimits { max_running: Some(0) };
        change_queue(world, "default", QueueChange::Limit(limits)).await;
        why_job(world, world.enqueue_one().await).await
    })
    .await;
    insta::assert_snapshot!(why.reasons[0].text, @"queue `default` has a limit of 0 jobs (max_running = 0): its jobs cannot run");
}

/// Those due earlier and those of a higher priority go first; those that nobody could take do not.
#[tokio::test]
async fn jobs_ahead_are_counted() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        world.enqueue_one().await;
        world.claim_one(node).await;
        world.enqueue_one().await;
        world.enqueue(NewJob { kind: "unheard_of".to_owned(), ..world.new_job() }).await;
        world.enqueue(NewJob { queue: "other".to_owned(), ..world.new_job() }).await;
        world.pass(1);
        let job = world.enqueue_one().await;
        world.pass(1);
        world.enqueue_one().await;
        world.enqueue(NewJob { priority: 10, ..world.new_job() }).await;
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["jobs_ahead"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d7e8-7000-93fc-d6513d02befe of kind `mail` in queue `default`: ready
    - ready for 1s (since 2027-01-01T00:00:01Z); 2 jobs are ahead of it in queue `default`, due earlier or with a higher priority; running now: 1 on `web-1`
    ");
}

/// A page is read of them, the newest, and then nobody says that these are all.
#[tokio::test]
async fn very_many_jobs_ahead_are_at_least_so_many() {
    let why = on_both(async |world| {
        web_1(world).await;
        let urgent: Vec<NewJob> =
            (0..600).map(|_| NewJob { priority: 1, ..world.new_job() }).collect();
        let job = world.enqueue_one().await;
        world.enqueue_all(&urgent).await;
        why_job(world, job).await.reasons.remove(0)
    })
    .await;
    insta::assert_snapshot!(why.text, @"ready for less than 1s (since 2027-01-01T00:00:00Z); at least 500 jobs are ahead of it in queue `default`, due earlier or with a higher priority; running now: 0 on `web-1`");
}

#[tokio::test]
async fn a_job_with_nothing_in_its_way_is_claimed_next() {
    let why = on_both(async |world| {
        web_1(world).await;
        why_job(world, world.enqueue_one().await).await
    })
    .await;
    assert_eq!(codes(&why), ["next_claim"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`: ready
    - ready for less than 1s (since 2027-01-01T00:00:00Z); the next claim takes it; nodes that can run it: `web-1`
    ");
}

#[tokio::test]
async fn a_first_in_line_that_waits_waits_for_a_place() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        world.enqueue_one().await;
        world.claim_one(node).await;
        let job = world.enqueue_one().await;
        pass(world, 11, node, &[]).await;
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["nodes_busy"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-b3d3-3b666a1e21da of kind `mail` in queue `default`: ready
    - ready for 11s (since 2027-01-01T00:00:00Z); it is next to start, but the nodes that can run it seem to be at their limit (`max_running`); running now: 1 on `web-1`
        → wait, raise `max_running` of these nodes, or start another node
    ");
}

#[tokio::test]
async fn a_failed_attempt_is_told_with_the_wait_after_it() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let job = world.enqueue_one().await;
        let claimed = world.claim_one(node).await;
        world.pass(2);
        let error = "status 503\nbody: <html>".to_owned();
        world.settle(&claimed, Outcome::Fail(error)).await;
        world.pass(1);
        why_job(world, job).await
    })
    .await;
    assert_eq!((why.state.as_str(), codes(&why)), ("retrying", vec!["retry_backoff"]));
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`: retrying
    - attempt 1 failed on `web-1` 1s ago (2027-01-01T00:00:02Z): status 503 …; 1 of 5 attempts used; next attempt due in 4s (2027-01-01T00:00:07Z)
        → show its attempts: `punctual job show 01a2ce8b-d400-7000-a698-4080bab12a02`
    ");
}

#[tokio::test]
async fn a_snooze_costs_nothing_and_says_so() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let job = world.enqueue_one().await;
        let claimed = world.claim_one(node).await;
        world.settle(&claimed, Outcome::Snooze(seconds(90))).await;
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["snoozed"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`: retrying
    - snoozed by its handler less than 1s ago (2027-01-01T00:00:00Z), which is not counted as an attempt; due in 1m30s (2027-01-01T00:01:30Z)
    ");
}

#[tokio::test]
async fn what_is_due_becomes_ready_only_under_a_leader() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let fence = world.lead("maintenance", node).await;
        let job = NewJob { delay: Delay::For(seconds(10)), ..world.new_job() };
        let job = world.enqueue(job).await;
        pass(world, 11, node, std::slice::from_ref(&fence)).await;
        let led = why_job(world, job).await;
        pass(world, 10, node, &[]).await;
        (led, why_job(world, job).await)
    })
    .await;
    assert_eq!((codes(&why.0), codes(&why.1)), (vec!["due_now"], vec!["no_leader"]));
    insta::assert_snapshot!(why.0, @"
    job 01a2ce8b-d400-7000-953a-eb70673e29cb of kind `mail` in queue `default`: scheduled
    - was due 1s ago (2027-01-01T00:00:10Z); it becomes ready at the next check, which runs every second
    ");
    insta::assert_snapshot!(why.1, @"
    job 01a2ce8b-d400-7000-953a-eb70673e29cb of kind `mail` in queue `default`: scheduled
    - role `maintenance` has had no leader for 5s (since 2027-01-01T00:00:16Z): due jobs do not become ready; this job was due 11s ago (2027-01-01T00:00:10Z); live nodes: `web-1`
        → start a node with the role `scheduler`, or restart one with `--role api,scheduler,worker`
    ");
}

#[tokio::test]
async fn a_blocked_job_names_the_one_before_it() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let fence = world.lead("scheduler/0", node).await;
        let nightly = schedule(world, "nightly", &overlapping(Overlap::QueueAll)).await;
        let jobs = fire(world, &fence, &nightly, Overlap::QueueAll, 3).await;
        world.claim_one(node).await;
        pass(world, 5, node, &[]).await;
        (why_job(world, jobs[1]).await, why_job(world, jobs[2]).await)
    })
    .await;
    assert_eq!((why.0.state.as_str(), codes(&why.0)), ("blocked", vec!["waits_for_job"]));
    insta::assert_snapshot!(why.0, @"
    job 01a2ce8b-d400-7000-bfda-be86cbbeaa11 of kind `mail` in queue `default`: blocked
    - blocked by job 01a2ce8b-d400-7000-b3d3-3b666a1e21da of schedule `nightly`, running on `web-1` for 5s (since 2027-01-01T00:03:00Z); jobs of this schedule run one at a time, in the order of their slots
        → wait, or cancel that job: `punctual job cancel 01a2ce8b-d400-7000-b3d3-3b666a1e21da`; for its state: `punctual why job 01a2ce8b-d400-7000-b3d3-3b666a1e21da`
    ");
    insta::assert_snapshot!(why.1, @"
    job 01a2ce8b-d400-7000-b7cb-c4a133c2d0f6 of kind `mail` in queue `default`: blocked
    - blocked by job 01a2ce8b-d400-7000-b3d3-3b666a1e21da of schedule `nightly`, running on `web-1` for 5s (since 2027-01-01T00:03:00Z); 1 blocked job has an earlier slot; jobs of this schedule run one at a time, in the order of their slots
        → wait, or cancel that job: `punctual job cancel 01a2ce8b-d400-7000-b3d3-3b666a1e21da`; for its state: `punctual why job 01a2ce8b-d400-7000-b3d3-3b666a1e21da`
    ");
}

#[tokio::test]
async fn a_blocked_job_without_one_before_it_is_freed_by_a_leader() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let fence = world.lead("scheduler/0", node).await;
        let nightly = schedule(world, "nightly", &overlapping(Overlap::QueueAll)).await;
        let jobs = fire(world, &fence, &nightly, Overlap::QueueAll, 2).await;
        let claimed = world.claim_one(node).await;
        world.settle(&claimed, Outcome::Done).await;
        beat(world, node, &[]).await;
        let unled = why_job(world, jobs[1]).await;
        world.lead("maintenance", node).await;
        (unled, why_job(world, jobs[1]).await)
    })
    .await;
    assert_eq!((codes(&why.0), codes(&why.1)), (vec!["no_leader"], vec!["unblocked_soon"]));
    insta::assert_snapshot!(why.0, @"
    job 01a2ce8b-d400-7000-bfda-be86cbbeaa11 of kind `mail` in queue `default`: blocked
    - role `maintenance` has no leader: blocked jobs are not unblocked; live nodes: `web-1`
        → start a node with the role `scheduler`, or restart one with `--role api,scheduler,worker`
    ");
    insta::assert_snapshot!(why.1, @"
    job 01a2ce8b-d400-7000-bfda-be86cbbeaa11 of kind `mail` in queue `default`: blocked
    - the other jobs of schedule `nightly` have finished; its first blocked job is unblocked within a second
    ");
}

#[tokio::test]
async fn a_job_with_a_start_deadline_says_until_when_it_may_start() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        world.lead("maintenance", node).await;
        let job = NewJob {
            queue: "reports".to_owned(),
            start_within: Some(seconds(60)),
            ..world.new_job()
        };
        let job = world.enqueue(job).await;
        let before = why_job(world, job).await;
        world.pass(61);
        world.beat(node, &[]).await;
        let fence = world.lead("maintenance", node).await;
        let passed = why_job(world, job).await;
        expire(world, &fence).await;
        world.pass(2);
        (before, passed, why_job(world, job).await)
    })
    .await;
    let all = [&why.0, &why.1, &why.2].map(codes);
    assert_eq!(all[0], ["no_node_for_queue", "next_to_start", "start_deadline"]);
    assert_eq!(all[1], ["expired", "no_node_for_queue"]);
    assert_eq!(all[2], ["expired"]);
    insta::assert_snapshot!(why.0, @"
    job 01a2ce8b-d400-7000-953a-eb70673e29cb of kind `mail` in queue `reports`: ready
    - no live node serves queue `reports`: `web-1` serves `default`
        → start a node that serves it, or restart one with `--queue default,reports`
    - ready for less than 1s (since 2027-01-01T00:00:00Z); it is next to start once the reasons above are resolved
    - its start deadline (`start_within`) is in 1m (2027-01-01T00:01:00Z); it fails if no attempt has started until then
    ");
    insta::assert_snapshot!(why.1, @"
    job 01a2ce8b-d400-7000-953a-eb70673e29cb of kind `mail` in queue `reports`: ready
    - its start deadline (`start_within`) passed 1s ago (2027-01-01T00:01:00Z); it fails at the next check, which runs every second
    - no live node serves queue `reports`: `web-1` serves `default`
        → start a node that serves it, or restart one with `--queue default,reports`
    ");
    insta::assert_snapshot!(why.2, @"
    job 01a2ce8b-d400-7000-953a-eb70673e29cb of kind `mail` in queue `reports`: failed
    - expired 2s ago (2027-01-01T00:01:01Z): it did not start within `start_within`
        → check why it waited: `punctual why queue reports`; then retry, which removes the deadline: `punctual job retry 01a2ce8b-d400-7000-953a-eb70673e29cb`
    ");
}

#[tokio::test]
async fn without_a_leader_expired_jobs_are_not_ended() {
    let why = on_both(async |world| {
        web_1(world).await;
        let job = NewJob { start_within: Some(seconds(1)), ..world.new_job() };
        let job = world.enqueue(job).await;
        world.pass(2);
        why_job(world, job).await
    })
    .await;
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`: ready
    - role `maintenance` has no leader: its start deadline (`start_within`) passed 1s ago (2027-01-01T00:00:01Z), but expired jobs are not ended; live nodes: `web-1`
        → start a node with the role `scheduler`, or restart one with `--role api,scheduler,worker`
    ");
}

#[tokio::test]
async fn a_retry_that_expired_names_the_last_attempt() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let fence = world.lead("maintenance", node).await;
        let job = NewJob { start_within: Some(seconds(10)), ..world.new_job() };
        let job = world.enqueue(job).await;
        let claimed = world.claim_one(node).await;
        world.settle(&claimed, boom()).await;
        world.pass(11);
        expire(world, &fence).await;
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["expired"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-953a-eb70673e29cb of kind `mail` in queue `default`: failed
    - expired less than 1s ago (2027-01-01T00:00:11Z): no further attempt started within `start_within`; attempt 1 failed on `web-1` 11s ago (2027-01-01T00:00:00Z): boom
        → check why it waited: `punctual why queue default`; then retry, which removes the deadline: `punctual job retry 01a2ce8b-d400-7000-953a-eb70673e29cb`
    ");
}

/// As the maintenance leader does.
async fn expire(world: &World<'_>, fence: &Fence) {
    let request = ExpireRequest {
        fence: fence.clone(),
        lease: seconds(5),
        recheck_after: seconds(15),
        limit: 10,
    };
    assert!(world.store().expire(world.at(), &request).await.unwrap().led);
}
