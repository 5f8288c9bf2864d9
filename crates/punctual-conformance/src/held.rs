//! Schedules whose slots wait for a node.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_store::*;

use crate::World;
use crate::world::actor;

/// Holds the next slot of a schedule for a node of this queue.
async fn hold(world: &World<'_>, fence: &Fence, schedule: &Schedule, queue: &str) -> HeldSlots {
    let fired = world.fire(fence, &[world.plan_on(schedule, queue)]).await;
    match fired.answers.as_slice() {
        [FireAnswer::Held(0, held)] => held.clone(),
        other => panic!("{other:?}"),
    }
}

/// The names of the schedules that are due, sorted, and when the next one is.
async fn due(world: &World<'_>) -> (Vec<String>, Option<Timestamp>) {
    let due = world.store().due(world.at(), 0, 10).await.unwrap();
    let mut names: Vec<String> = due.schedules.into_iter().map(|schedule| schedule.name).collect();
    names.sort_unstable();
    (names, due.next)
}

/// Others have nothing to do with it, and nothing is read in between.
pub async fn held_slots_are_due_when_a_node_of_their_queue_joins(world: &World<'_>) {
    let fence = world.lead("scheduler/0", world.join().await).await;
    let mut schedules = Vec::new();
    for (name, queue) in [("every", "@*"), ("named", "@b"), ("zoned", "@zone=eu")] {
        schedules.push((world.schedule(name).await, queue));
    }
    world.pass(60);
    let since = world.now();
    for _ in 0..2 {
        let until = world.now() + Duration::from_secs(30);
        for (schedule, queue) in &schedules {
            let schedule = world.reread(schedule).await;
            let held = hold(world, &fence, &schedule, queue).await;
            assert_eq!(held, HeldSlots { queue: (*queue).to_owned(), since, until });
        }
        world.pass(29);
        assert_eq!(due(world).await, (Vec::new(), Some(until)));
        world.pass(1);
        assert_eq!(due(world).await, (names(&["every", "named", "zoned"]), None));
    }
    for (schedule, queue) in &schedules {
        hold(world, &fence, &world.reread(schedule).await, queue).await;
    }
    world.pass(1);
    world.join().await;
    assert_eq!(due(world).await.0, names(&[]));
    world.join_for("@c").await;
    assert_eq!(due(world).await.0, names(&["every"]), "it serves its own queue");
    let zoned = world.join_for("@zone=eu").await;
    assert_eq!(due(world).await.0, names(&["every", "zoned"]));
    world.store().leave(world.at(), zoned).await.unwrap();
    world.join_for("@b").await;
    assert_eq!(due(world).await.0, names(&["every", "named", "zoned"]));
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A join must not take long, however many schedules wait for the node. Each fire of such schedules wakes
/// further ones.
pub async fn a_bounded_number_of_held_schedules_is_woken_at_once(world: &World<'_>) {
    let fence = world.lead("scheduler/0", world.join().await).await;
    let mut schedules = Vec::new();
    for number in 0..limits::HELD_WAKE_MAX + 10 {
        schedules.push(world.schedule(&format!("{number:03}")).await);
    }
    world.pass(60);
    let (later, earlier) = schedules.split_at(10);
    for part in [earlier, later] {
        let plans: Vec<SlotPlan> = part.iter().map(|one| world.plan_on(one, "@b")).collect();
        let fired = world.fire(&fence, &plans).await;
        assert!(fired.answers.iter().all(|answer| matches!(answer, FireAnswer::Held(..))));
        assert_eq!(fired.woken, 0);
        world.pass(1);
    }
    let due = async || world.store().due(world.at(), 0, limits::FIRE_MAX).await.unwrap().schedules;
    let ids = |schedules: &[Schedule]| {
        let mut ids: Vec<_> = schedules.iter().map(|schedule| schedule.id).collect();
        ids.sort_unstable();
        ids
    };
    world.join_for("@c").await;
    assert_eq!(due().await, []);
    world.join_for("@b").await;
    let woken = due().await;
    assert_eq!(ids(&woken), ids(earlier), "those that wait longest come first");
    let plans: Vec<SlotPlan> = woken.iter().map(|one| world.plan_on(one, "@b")).collect();
    assert_eq!(world.fire(&fence, &plans[..1]).await.woken, 10);
    let fired = world.fire(&fence, &plans[1..]).await;
    assert!(fired.answers.iter().all(|answer| *answer == FireAnswer::Applied));
    assert_eq!(fired.woken, 0, "none is left");
    assert_eq!(ids(&due().await), ids(later));
}

/// A node may serve the queue and not handle the kind.
pub async fn a_slot_is_held_until_a_node_of_its_queue_handles_its_kind(world: &World<'_>) {
    let fence = world.lead("scheduler/0", world.join().await).await;
    let schedule = world.schedule("named").await;
    let other = NodeInfo {
        id: world.node_id(),
        name: "b".to_owned(),
        version: String::new(),
        queues: vec!["@b".to_owned()],
        kinds: vec!["report".to_owned()],
        labels: Vec::new(),
    };
    world.store().join(world.at(), &other).await.unwrap();
    world.pass(60);
    hold(world, &fence, &schedule, "@b").await;
    let same = NodeInfo { kinds: vec!["mail".to_owned()], ..other };
    world.store().join(world.at(), &same).await.unwrap();
    assert_eq!(due(world).await.0, names(&["named"]));
    let schedule = world.reread(&schedule).await;
    let fired = world.fire(&fence, &[world.plan_on(&schedule, "@b")]).await;
    assert_eq!(fired.answers, [FireAnswer::Applied]);
    assert_eq!(world.ledger(schedule.id).await.len(), 1);
}

/// All reads return them; the watermark stays, and so does the last decided slot.
pub async fn held_slots_are_part_of_the_schedule(world: &World<'_>) {
    let fence = world.lead("scheduler/0", world.join().await).await;
    let schedule = world.schedule("named").await;
    world.pass(60);
    let held = hold(world, &fence, &schedule, "@b").await;
    let waiting = world.reread(&schedule).await;
    assert_ne!(waiting.stamp, schedule.stamp, "a plan made before is stale");
    assert_eq!(
        waiting,
        Schedule { held: Some(held.clone()), stamp: waiting.stamp, ..schedule.clone() }
    );
    assert_eq!(waiting.due_at(), Some(held.until));
    assert_eq!(due(world).await.1, Some(held.until));
    let listed = world.store().schedules("", None, 10).await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&waiting));
    assert_eq!(world.ledger(schedule.id).await, []);

    // A pause keeps them, a change that decides them does not.
    let store = world.store();
    let change = |schedule: Schedule, change: ScheduleChange| async move {
        let changed =
            store.change_schedule(world.at(), schedule.id, schedule.stamp, &change, &actor()).await;
        match changed.unwrap() {
            EditAnswer::Done(schedule) => schedule,
            other => panic!("{other:?}"),
        }
    };
    let paused = change(waiting, ScheduleChange::Pause { until: None }).await;
    assert_eq!((&paused.held, paused.due_at()), (&Some(held), None));
    let passed = PassedSlots::from(vec![SlotRow {
        reason: None,
        job: None,
        outcome: punctual_core::job::SlotOutcome::Missed,
        ..world.fired(schedule.id, world.now())
    }]);
    let disabled = change(paused, ScheduleChange::Disable { passed }).await;
    assert_eq!((disabled.held, disabled.next_slot), (None, None));
}
