//! Jobs at work.

use punctual_store::{BeatAsk, Progress};

use crate::common::*;
use crate::{codes, why_job};

#[tokio::test]
async fn a_running_job_says_where_since_when_and_how_far() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let job = world.enqueue_one().await;
        let claimed = world.claim_one(node).await;
        world.pass(4);
        let note = "sending".to_owned();
        let progress = Progress { job, lease: claimed.lease, percent: Some(60), note };
        let ask = BeatAsk {
            node,
            is_remote: false,
            roles: Vec::new(),
            seeks: Vec::new(),
            lease: seconds(5),
            leases: vec![claimed.lease],
            progress: vec![progress],
        };
        world.beat_as(&ask).await;
        world.pass(3);
        why_job(world, job).await
    })
    .await;
    assert_eq!((why.state.as_str(), codes(&why)), ("running", vec!["running"]));
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`: running
    - running on `web-1` for 7s (since 2027-01-01T00:00:00Z), attempt 1; 0 of 5 attempts used before; progress 3s ago (2027-01-01T00:00:04Z): 60 % sending
    ");
}

#[tokio::test]
async fn a_running_job_that_should_stop_says_who_asked() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let job = world.enqueue_one().await;
        world.claim_one(node).await;
        world.pass(4);
        world.store().cancel(world.at(), job, &ana()).await.unwrap();
        world.pass(3);
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["cancel_requested", "running"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`: running
    - cancel requested by ana 3s ago (2027-01-01T00:00:04Z): index rebuild; the handler is still running
    - running on `web-1` for 7s (since 2027-01-01T00:00:00Z), attempt 1; 0 of 5 attempts used before
    ");
}

#[tokio::test]
async fn a_running_job_of_a_silent_node_will_be_taken_back() {
    let why = on_both(async |world| {
        let lost = web_1(world).await;
        let leading = node(world, "web-2", &["default"], &["mail"]).await;
        let fence = world.lead("maintenance", leading).await;
        let job = world.enqueue_one().await;
        world.claim_one(lost).await;
        pass(world, 16, leading, &[fence]).await;
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["node_silent", "running"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-b3d3-3b666a1e21da of kind `mail` in queue `default`: running
    - the last heartbeat of its node `web-1` was 16s ago (2027-01-01T00:00:00Z); a node without a heartbeat for 15s is declared dead, and its jobs are reclaimed
    - running on `web-1` for 16s (since 2027-01-01T00:00:00Z), attempt 1; 0 of 5 attempts used before
    ");
}

#[tokio::test]
async fn nobody_takes_a_job_back_without_a_leader() {
    let why = on_both(async |world| {
        let lost = web_1(world).await;
        let other = node(world, "web-2", &["default"], &["mail"]).await;
        let job = world.enqueue_one().await;
        world.claim_one(lost).await;
        leap(world, 60, other, &[]).await;
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["node_silent", "no_leader", "running"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-953a-eb70673e29cb of kind `mail` in queue `default`: running
    - the last heartbeat of its node `web-1` was 1m ago (2027-01-01T00:00:00Z); a node without a heartbeat for 15s is declared dead, and its jobs are reclaimed
    - role `maintenance` has no leader: jobs of dead nodes are not reclaimed; live nodes: `web-2`
        → start a node with the role `scheduler`, or restart one with `--role api,scheduler,worker`
    - running on `web-1` for 1m (since 2027-01-01T00:00:00Z), attempt 1; 0 of 5 attempts used before
    ");
}

/// A reap takes back so many leases at once; the others are still there for a moment.
#[tokio::test]
async fn a_running_job_of_a_dead_node_is_about_to_be_taken_back() {
    let why = on_both(async |world| {
        let lost = web_1(world).await;
        let leading = node(world, "web-2", &["default"], &["mail"]).await;
        let fence = world.lead("maintenance", leading).await;
        let first = world.enqueue_one().await;
        let job = world.enqueue_one().await;
        world.claim(&world.ask(lost, 2)).await;
        pass(world, 16, leading, std::slice::from_ref(&fence)).await;
        let ask = punctual_store::ReapAsk {
            fence,
            lease: seconds(5),
            node_lifetime: seconds(15),
            policy: punctual_core::job::RetryPolicy::default(),
            most: 1,
        };
        world.store().reap(world.at(), &ask).await.unwrap();
        let left = [first, job].into_iter();
        let mut answers = Vec::new();
        for job in left {
            answers.push(why_job(world, job).await);
        }
        answers.retain(|why| why.state == "running");
        answers.remove(0)
    })
    .await;
    assert_eq!(codes(&why), ["node_dead", "running"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-bfda-be86cbbeaa11 of kind `mail` in queue `default`: running
    - its node `web-1` was declared dead less than 1s ago (2027-01-01T00:00:16Z); the job will be reclaimed, and the attempt counts as a crash
    - running on `web-1` for 16s (since 2027-01-01T00:00:00Z), attempt 1; 0 of 5 attempts used before
    ");
}
