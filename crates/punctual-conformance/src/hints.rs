//! Word that something has changed. Each of these hangs if it does not come.

use std::time::Duration;

use punctual_core::job::Outcome;
use punctual_store::*;

use crate::World;
use crate::world::{LEASE, actor};

/// Whoever waits for work need not keep asking.
pub async fn new_work_is_hinted(world: &World<'_>) {
    let node = world.join().await;
    let mut hints = world.store().hints(Topic::Work);
    assert!(!hints.take());
    let id = world.enqueue_one().await;
    hints.heard().await;
    assert!(!hints.take(), "each hint is received once");

    let job = world.claim_one(node).await;
    world.settle(&job, Outcome::Released).await;
    hints.heard().await;

    world.claim_one(node).await;
    world.store().cancel(world.at(), id, &actor()).await.unwrap();
    world.enqueue(NewJob { delay: Delay::For(Duration::from_secs(5)), ..world.new_job() }).await;
    hints.heard().await;
    world.pass(5);
    world.store().promote(world.at(), 10).await.unwrap();
    hints.heard().await;
}

/// A node that waits for a place in a limited queue hears when one is free. A queue without a limit
/// pays nothing for it.
pub async fn a_free_place_in_a_limited_queue_is_hinted(world: &World<'_>) {
    let node = world.join().await;
    let ends = [Outcome::Done, Outcome::Fail("no reply".to_owned()), Outcome::Done];
    for limit in [Some(1), None] {
        let change = QueueChange::Limit(QueueLimits { max_running: limit });
        world.store().change_queue(world.at(), "default", &change, &actor()).await.unwrap();
        for end in ends.clone() {
            world.enqueue_one().await;
            let job = world.claim_one(node).await;
            let mut hints = world.store().hints(Topic::Work);
            let settlement = world.settlement(&job, end);
            let settled =
                world.store().settle(world.at(), std::slice::from_ref(&settlement)).await.unwrap();
            assert_eq!(settled.has_room, limit.is_some());
            assert_eq!(hints.take(), limit.is_some());
            let again = world.store().settle(world.at(), &[settlement]).await.unwrap();
            assert_eq!((again.answers[0], again.has_room), (Settled::Already, false));
        }
    }
}

/// A caller that waits for the end of a job does not poll. Retries and requests to stop do not end a job.
pub async fn a_finished_job_is_hinted(world: &World<'_>) {
    let node = world.join().await;
    let mut hints = world.store().hints(Topic::Finished);
    for (end, is_end) in [
        (Outcome::Done, true),
        (Outcome::Fail("no reply".to_owned()), false),
        (Outcome::FailForGood("no reply".to_owned()), true),
    ] {
        world.enqueue_one().await;
        let job = world.claim_one(node).await;
        let settlement = world.settlement(&job, end);
        // The second settlement is the repetition after a lost response.
        for _ in 0..2 {
            world.settle_all(std::slice::from_ref(&settlement)).await;
            assert_eq!(hints.take(), is_end);
        }
    }
}

/// The same for jobs that are cancelled.
pub async fn a_cancelled_job_is_hinted(world: &World<'_>) {
    let node = world.join().await;
    let mut hints = world.store().hints(Topic::Finished);
    let running = world.enqueue_one().await;
    world.claim_one(node).await;
    let waiting = world.enqueue_one().await;
    for (job, is_end) in [(running, false), (waiting, true), (waiting, false)] {
        world.store().cancel(world.at(), job, &actor()).await.unwrap();
        assert_eq!(hints.take(), is_end);
    }
}

/// The same for jobs that expire before they start.
pub async fn an_expired_job_is_hinted(world: &World<'_>) {
    let leader = world.join().await;
    let fence = world.lead("maintenance", leader).await;
    let start_within = Some(Duration::from_secs(10));
    world.enqueue(NewJob { start_within, ..world.new_job() }).await;
    let mut hints = world.store().hints(Topic::Finished);
    for (seconds, is_end) in [(10, false), (1, true)] {
        world.pass(seconds);
        let (fence, recheck_after) = (fence.clone(), Duration::from_secs(20));
        let request = ExpireRequest { fence, lease: LEASE, recheck_after, limit: 10 };
        world.store().expire(world.at(), &request).await.unwrap();
        assert_eq!(hints.take(), is_end);
    }
}

/// The same for jobs that fail with their node. Other jobs are retried.
pub async fn a_job_that_ends_with_its_node_is_hinted(world: &World<'_>) {
    for (max_attempts, is_end) in [(2, false), (1, true)] {
        let (dead, leader) = (world.join().await, world.join().await);
        let fence = world.lead("maintenance", leader).await;
        let id = world.enqueue(NewJob { max_attempts, ..world.new_job() }).await;
        world.claim_one(dead).await;
        let mut hints = world.store().hints(Topic::Finished);
        world.steady(leader, &fence).await;
        world.reap(&fence).await;
        assert_eq!((world.state(id).await.is_final(), hints.take()), (is_end, is_end));
        assert!(world.store().resign(world.at(), &fence).await.unwrap());
    }
}

/// A successor need not wait for the lease to end.
pub async fn a_freed_role_is_hinted(world: &World<'_>) {
    let node = world.join().await;
    let fence = world.lead("maintenance", node).await;
    let mut hints = world.store().hints(Topic::Roles);
    assert!(world.store().resign(world.at(), &fence).await.unwrap());
    hints.heard().await;
}

/// The scheduler may sleep until then.
pub async fn a_new_schedule_is_hinted(world: &World<'_>) {
    let mut hints = world.store().hints(Topic::Schedules);
    let schedule = world.schedule("nightly").await;
    hints.heard().await;
    let change = ScheduleChange::Pause { until: None };
    let paused = world
        .store()
        .change_schedule(world.at(), schedule.id, schedule.stamp, &change, &actor())
        .await;
    assert!(paused.is_ok());
    hints.heard().await;
}

/// The scheduler looks at once, if the node may run what is held.
pub async fn a_node_that_can_run_held_slots_is_hinted(world: &World<'_>) {
    let fence = world.lead("scheduler/0", world.join().await).await;
    let schedule = world.schedule("nightly").await;
    world.pass(60);
    let plan = world.plan_on(&schedule, "@b");
    let answers = world.fire(&fence, &[plan]).await.answers;
    assert!(matches!(answers.as_slice(), [FireAnswer::Held(0, _)]), "{answers:?}");
    let mut hints = world.store().hints(Topic::Schedules);
    for (queue, is_its) in [("@c", false), ("default", false), ("@b", true)] {
        world.join_for(queue).await;
        assert_eq!(hints.take(), is_its, "{queue}");
    }
}
