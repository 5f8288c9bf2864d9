//! Jobs that have ended, and those that are not there.

use punctual_core::job::{Outcome, refuse_start};
use punctual_core::{JobId, Timestamp};
use punctual_store::rules::Spoil;
use punctual_store::{NewJob, Retention, Settlement};

use crate::common::*;
use crate::{codes, why_job};

#[tokio::test]
async fn a_success_says_when_and_where() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let job = world.enqueue_one().await;
        let claimed = world.claim_one(node).await;
        world.pass(3);
        world.settle(&claimed, Outcome::Done).await;
        world.pass(300);
        why_job(world, job).await
    })
    .await;
    assert_eq!((why.state.as_str(), codes(&why)), ("succeeded", vec!["succeeded"]));
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`: succeeded
    - succeeded 5m ago (2027-01-01T00:00:03Z) on `web-1`, attempt 1, duration 3s
    ");
}

#[tokio::test]
async fn a_job_whose_attempts_are_used_up_tells_of_the_last_one() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let job = world.enqueue(NewJob { max_attempts: 2, ..world.new_job() }).await;
        let claimed = world.claim_one(node).await;
        world.settle(&claimed, boom()).await;
        world.pass(5);
        world.store().promote(world.at(), 10).await.unwrap();
        let claimed = world.claim_one(node).await;
        world.settle(&claimed, Outcome::TimedOut(seconds(60))).await;
        world.pass(300);
        why_job(world, job).await
    })
    .await;
    assert_eq!((why.state.as_str(), codes(&why)), ("failed", vec!["attempts_used_up"]));
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`: failed
    - no attempts left, 2 of 2 used: attempt 2 timed out on `web-1` 5m ago (2027-01-01T00:00:05Z): exceeded the time limit of 1m
        → fix the cause, then retry: `punctual job retry 01a2ce8b-d400-7000-a698-4080bab12a02`
    ");
}

#[tokio::test]
async fn a_failure_that_no_attempt_can_mend_says_so() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let job = world.enqueue_one().await;
        let claimed = world.claim_one(node).await;
        world.settle(&claimed, Outcome::FailForGood("no such user".to_owned())).await;
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["failed_permanently"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`: failed
    - failed permanently after 1 of 5 attempts (the error is marked as not retryable): attempt 1 failed on `web-1` less than 1s ago (2027-01-01T00:00:00Z): no such user
        → fix the cause, then retry: `punctual job retry 01a2ce8b-d400-7000-a698-4080bab12a02`
    ");
}

#[tokio::test]
async fn a_job_that_kills_its_nodes_is_not_tried_again() {
    let why = on_both(async |world| {
        let leading = node(world, "web-0", &[], &[]).await;
        let fence = world.lead("maintenance", leading).await;
        let job = world.enqueue_one().await;
        for _ in 0..3 {
            let lost = web_1(world).await;
            world.claim_one(lost).await;
            pass(world, 20, leading, std::slice::from_ref(&fence)).await;
            world.reap(&fence).await;
            pass(world, 5, leading, std::slice::from_ref(&fence)).await;
            world.store().promote(world.at(), 10).await.unwrap();
        }
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["crashed"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-953a-eb70673e29cb of kind `mail` in queue `default`: failed
    - failed 5s ago (2027-01-01T00:01:10Z): its node died 3 times while running it; not retried, to protect other nodes
        → check why the nodes died: `punctual job show 01a2ce8b-d400-7000-953a-eb70673e29cb`; then retry: `punctual job retry 01a2ce8b-d400-7000-953a-eb70673e29cb`
    ");
}

#[tokio::test]
async fn a_job_whose_time_is_used_up_says_so() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let job = NewJob { budget: Some(seconds(10)), ..world.new_job() };
        let job = world.enqueue(job).await;
        let claimed = world.claim_one(node).await;
        world.pass(11);
        world.settle(&claimed, boom()).await;
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["budget_used_up"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`: failed
    - its attempts used all of its time budget: attempt 1 failed on `web-1` less than 1s ago (2027-01-01T00:00:11Z): boom (and its time budget is used up)
        → fix the cause, then retry: `punctual job retry 01a2ce8b-d400-7000-a698-4080bab12a02`
    ");
}

#[tokio::test]
async fn a_job_that_starts_too_late_has_expired() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let limited = || NewJob { start_within: Some(seconds(10)), ..world.new_job() };
        let late = world.enqueue(limited()).await;
        world.pass(11);
        let claimed = world.claim_one(node).await;
        let transition = refuse_start(&claimed.standing(), world.now()).expect("it is too late");
        let (job, lease) = (claimed.id, claimed.lease);
        world
            .settle_all(&[Settlement { job, lease, transition, result: None, then: Vec::new() }])
            .await;
        let tried = world.enqueue(limited()).await;
        let claimed = world.claim_one(node).await;
        world.pass(6);
        world.settle(&claimed, boom()).await;
        (why_job(world, late).await, why_job(world, tried).await)
    })
    .await;
    assert_eq!((codes(&why.0), codes(&why.1)), (vec!["expired"], vec!["expired"]));
    insta::assert_snapshot!(why.0, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`: failed
    - expired 6s ago (2027-01-01T00:00:11Z): it did not start within `start_within`
        → check why it waited: `punctual why queue default`; then retry, which removes the deadline: `punctual job retry 01a2ce8b-d400-7000-a698-4080bab12a02`
    ");
    insta::assert_snapshot!(why.1, @"
    job 01a2ce8b-fef8-7000-b3d3-3b666a1e21da of kind `mail` in queue `default`: failed
    - no retry within `start_within` was possible: attempt 1 failed on `web-1` less than 1s ago (2027-01-01T00:00:17Z): boom (and it expires before the next attempt)
        → fix the cause, then retry: `punctual job retry 01a2ce8b-fef8-7000-b3d3-3b666a1e21da`
    ");
}

#[tokio::test]
async fn a_job_whose_row_is_damaged_says_so() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let job = world.enqueue_one().await;
        world.spoil(Spoil::Body(job)).await;
        assert_eq!(world.claim(&world.ask(node, 1)).await, []);
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["unreadable"]);
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`: failed
    - failed less than 1s ago (2027-01-01T00:00:00Z): its row cannot be read; it is damaged or was written by another program
        → find out what wrote or damaged the row, then enqueue the job again
    ");
}

#[tokio::test]
async fn a_cancelled_job_says_by_whom_and_why() {
    let why = on_both(async |world| {
        let job = world.enqueue_one().await;
        world.store().cancel(world.at(), job, &ana()).await.unwrap();
        world.pass(300);
        let node = web_1(world).await;
        let own = world.enqueue_one().await;
        let claimed = world.claim_one(node).await;
        world.settle(&claimed, Outcome::Cancel("the account is closed".to_owned())).await;
        (why_job(world, job).await, why_job(world, own).await)
    })
    .await;
    assert_eq!(codes(&why.0), ["cancelled"]);
    insta::assert_snapshot!(why.0, @"
    job 01a2ce8b-d400-7000-844c-3cd7f43c661c of kind `mail` in queue `default`: cancelled
    - cancelled 5m ago (2027-01-01T00:00:00Z) by ana: index rebuild
        → to run it anyway: `punctual job retry 01a2ce8b-d400-7000-844c-3cd7f43c661c`
    ");
    insta::assert_snapshot!(why.1, @"
    job 01a2ce90-67e0-7000-953a-eb70673e29cb of kind `mail` in queue `default`: cancelled
    - cancelled less than 1s ago (2027-01-01T00:05:00Z) by its handler: the account is closed
        → to run it anyway: `punctual job retry 01a2ce90-67e0-7000-953a-eb70673e29cb`
    ");
}

#[tokio::test]
async fn a_job_that_was_never_written_says_when_its_id_was_made() {
    let why = on_both(async |world| {
        let job = world.job_id();
        world.pass(90);
        why_job(world, job).await
    })
    .await;
    assert_eq!((why.state.as_str(), codes(&why)), ("not_found", vec!["not_found"]));
    insta::assert_snapshot!(why, @"
    job 01a2ce8b-d400-7000-844c-3cd7f43c661c: not found
    - job not found; its id was created 1m30s ago (2027-01-01T00:00:00Z); the job was never enqueued in this database, or it was deleted: by default, finished jobs are deleted after 14d and failed jobs after 90d
        → check that this is the right database, and that the transaction that enqueued the job was committed
    ");
}

#[tokio::test]
async fn a_job_that_was_pruned_says_how_long_jobs_are_kept() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let job = world.enqueue_one().await;
        let claimed = world.claim_one(node).await;
        world.settle(&claimed, Outcome::Done).await;
        world.pass(30 * 86_400);
        world.store().prune(world.at(), &Retention::default(), 100).await.unwrap();
        why_job(world, job).await
    })
    .await;
    assert_eq!(codes(&why), ["not_found"]);
    insta::assert_snapshot!(why.reasons[0].text, @"job not found; its id was created 30d ago (2027-01-01T00:00:00Z); by default, finished jobs are deleted after 14d and failed jobs after 90d");
}

#[tokio::test]
async fn an_id_of_another_make_is_told_to_be_one() {
    let why = on_both(async |world| {
        let ahead = JobId::mint(Timestamp::from_seconds(1_900_000_000), [7; 10]);
        let foreign = JobId::from_bytes([7; 16]);
        (why_job(world, ahead).await, why_job(world, foreign).await)
    })
    .await;
    insta::assert_snapshot!(why.0.reasons[0].text, @"job not found; its id is from the future: in 1171d17h46m (2030-03-17T17:46:40Z)");
    insta::assert_snapshot!(why.1.reasons[0].text, @"job not found; its id was not created by punctual");
}
