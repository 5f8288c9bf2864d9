//! Word that something has changed. Each of these hangs if it does not come.

use punctual_core::job::Outcome;
use punctual_store::*;

use crate::World;
use crate::world::actor;

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
    world
        .enqueue(NewJob { delay: Delay::For(std::time::Duration::from_secs(5)), ..world.new_job() })
        .await;
    hints.heard().await;
    world.pass(5);
    world.store().promote(world.at(), 10).await.unwrap();
    hints.heard().await;
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
