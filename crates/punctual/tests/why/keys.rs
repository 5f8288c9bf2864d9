//! Unique keys.

use punctual::why::{self, Why};
use punctual_conformance::World;
use punctual_core::job::Outcome;
use punctual_store::{KeyLifetime, KeyScope, NewJob, Retention, UniqueKey};

use crate::codes;
use crate::common::*;

fn keyed(world: &World<'_>, scope: KeyScope, lifetime: KeyLifetime) -> NewJob {
    let unique =
        Some(UniqueKey { key: "user-7".to_owned(), scope, lifetime, is_by_payload: false });
    NewJob { unique, ..world.new_job() }
}

async fn why_key(world: &World<'_>, job: &NewJob) -> Why {
    why::key(world.store(), world.at(), job).await.unwrap()
}

#[tokio::test]
async fn a_key_that_nobody_holds_is_free() {
    let why = on_both(async |world| {
        let free = why_key(world, &keyed(world, KeyScope::Kind, KeyLifetime::Job)).await;
        (free, why_key(world, &world.new_job()).await)
    })
    .await;
    assert_eq!((why.0.state.as_str(), codes(&why.0)), ("free", vec!["key_free"]));
    assert_eq!((why.1.state.as_str(), codes(&why.1)), ("free", vec!["no_key"]));
    insta::assert_snapshot!(why.0, @"
    key `user-7` among jobs of kind `mail`: free
    - no job holds the key `user-7`
    ");
    insta::assert_snapshot!(why.1, @"
    job 01a2ce8b-d400-7000-a698-4080bab12a02 without a key: free
    - the job has no unique key
    ");
}

#[tokio::test]
async fn a_key_that_is_held_says_by_which_job_until_it_ends() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let job = || keyed(world, KeyScope::Queue, KeyLifetime::Job);
        world.enqueue(job()).await;
        let asked = job();
        let waiting = why_key(world, &asked).await;
        let claimed = world.claim_one(node).await;
        world.pass(10);
        let running = why_key(world, &asked).await;
        world.settle(&claimed, Outcome::Done).await;
        assert_eq!(codes(&why_key(world, &asked).await), ["key_free"]);
        (waiting, running)
    })
    .await;
    assert_eq!((why.1.state.as_str(), codes(&why.1)), ("held", vec!["key_held"]));
    insta::assert_snapshot!(why.0, @"
    key `user-7` in queue `default`: held
    - the key `user-7` is held by job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`, ready for less than 1s (since 2027-01-01T00:00:00Z); it becomes free when that job finishes
        → wait, or cancel that job: `punctual job cancel 01a2ce8b-d400-7000-a698-4080bab12a02`; for its state: `punctual why job 01a2ce8b-d400-7000-a698-4080bab12a02`
    ");
    insta::assert_snapshot!(why.1, @"
    key `user-7` in queue `default`: held
    - the key `user-7` is held by job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`, running on `web-1` for 10s (since 2027-01-01T00:00:00Z); it becomes free when that job finishes
        → wait, or cancel that job: `punctual job cancel 01a2ce8b-d400-7000-a698-4080bab12a02`; for its state: `punctual why job 01a2ce8b-d400-7000-a698-4080bab12a02`
    ");
}

#[tokio::test]
async fn a_key_may_outlive_its_job() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let lifetime = KeyLifetime::For(seconds(3_600));
        world.enqueue(keyed(world, KeyScope::Tenant, lifetime)).await;
        let claimed = world.claim_one(node).await;
        world.settle(&claimed, Outcome::Done).await;
        world.pass(600);
        let alike = why_key(world, &keyed(world, KeyScope::Tenant, lifetime)).await;
        let other = why_key(world, &keyed(world, KeyScope::Tenant, KeyLifetime::Job)).await;
        world.pass(3_001);
        let after = why_key(world, &keyed(world, KeyScope::Tenant, lifetime)).await;
        assert_eq!(codes(&after), ["key_free"]);
        (alike, other)
    })
    .await;
    insta::assert_snapshot!(why.0, @"
    key `user-7`: held
    - the key `user-7` is held by job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`, succeeded 10m ago (2027-01-01T00:00:00Z); if it is held for 1h, as this job requests, it becomes free in 50m (2027-01-01T01:00:00Z)
        → wait, or use another key
    ");
    insta::assert_snapshot!(why.1, @"
    key `user-7`: held
    - the key `user-7` is held by job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `default`, succeeded 10m ago (2027-01-01T00:00:00Z); it is held for a fixed time, which has not passed yet
        → wait, or use another key
    ");
}

#[tokio::test]
async fn a_job_may_hold_its_own_key() {
    let why = on_both(async |world| {
        let job = keyed(world, KeyScope::Tenant, KeyLifetime::Job);
        world.enqueue(job.clone()).await;
        why_key(world, &job).await
    })
    .await;
    insta::assert_snapshot!(why.reasons[0].text, @"the key `user-7` is held by this job itself, 01a2ce8b-d400-7000-844c-3cd7f43c661c of kind `mail` in queue `default`, ready for less than 1s (since 2027-01-01T00:00:00Z); it becomes free when that job finishes");
}

/// Jobs are pruned, and a key that was taken for longer is held by one that is not there.
#[tokio::test]
async fn a_key_may_outlive_the_row_of_its_job() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let lifetime = KeyLifetime::For(seconds(30 * 86_400));
        world.enqueue(keyed(world, KeyScope::Tenant, lifetime)).await;
        let claimed = world.claim_one(node).await;
        world.settle(&claimed, Outcome::Done).await;
        world.pass(20 * 86_400);
        world.store().prune(world.at(), &Retention::default(), 100).await.unwrap();
        why_key(world, &keyed(world, KeyScope::Tenant, lifetime)).await
    })
    .await;
    assert_eq!((why.state.as_str(), codes(&why)), ("held", vec!["key_held"]));
    insta::assert_snapshot!(why, @"
    key `user-7`: held
    - the key `user-7` is held by job 01a2ce8b-d400-7000-a698-4080bab12a02, which was deleted; the key has not expired yet
        → wait, or use another key
    ");
}
