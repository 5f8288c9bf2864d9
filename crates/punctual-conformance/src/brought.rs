//! Schedules that a set takes over, renames and removes, with all else that it writes.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::job::SlotOutcome;
use punctual_store::*;

use crate::World;
use crate::world::{actor, json};

const SET: &str = "ops";

async fn register(world: &World<'_>, entries: Vec<SetEntry>) -> Result<Registered> {
    let ask = Registration { set: SET.to_owned(), generation: 0, entries, actor: actor() };
    world.store().register(world.at(), &ask).await
}

/// Registers what must be written.
async fn done(world: &World<'_>, entries: Vec<SetEntry>) -> Vec<Schedule> {
    match register(world, entries).await.expect("register") {
        Registered::Done(schedules) => schedules,
        other => panic!("{other:?}"),
    }
}

fn bring(schedule: &Schedule, name: &str, changes: Vec<ScheduleChange>) -> SetEntry {
    let name = name.to_owned();
    SetEntry::Bring { id: schedule.id, stamp: schedule.stamp, name, changes }
}

fn define(schedule: &Schedule) -> ScheduleChange {
    ScheduleChange::Define {
        spec: json("{}"),
        owner: "web".to_owned(),
        next_slot: schedule.next_slot,
        passed: PassedSlots::default(),
    }
}

fn missed(slot: Timestamp) -> SlotRow {
    let reason = Some("gone".to_owned());
    SlotRow { slot, end: None, count: 1, outcome: SlotOutcome::Missed, reason, job: None }
}

/// Another name, another set, another definition: all at once, under the same id.
pub async fn what_nobody_owns_is_taken_over_and_keeps_its_history(world: &World<'_>) {
    let node = world.join().await;
    let fence = world.lead("scheduler/0", node).await;
    let made = world.schedule("by hand").await;
    world.pass(60);
    assert_eq!(world.fire(&fence, &[world.plan(&made)]).await.answers, [FireAnswer::Applied]);
    let fired = world.reread(&made).await;
    let disable = ScheduleChange::Disable { passed: PassedSlots::default() };
    let entry = bring(&fired, "ours", vec![define(&fired), disable]);
    let brought = done(world, vec![entry]).await.remove(0);
    assert_eq!((brought.id, &brought.name[..], &brought.set[..]), (made.id, "ours", SET));
    assert_eq!((brought.revision, brought.enabled, &brought.owner[..]), (2, false, "web"));
    assert!(brought.stamp > fired.stamp);
    assert_eq!(world.reread(&brought).await, brought);
    assert_eq!(world.ledger(made.id).await.len(), 1);
    assert_eq!(world.store().revisions(made.id, None, 10).await.unwrap().items.len(), 2);
    assert_eq!(world.store().schedule_named("", "by hand").await.unwrap(), None);
    assert_eq!(world.store().schedule_named("", "ours").await.unwrap(), Some(brought.clone()));
    let own = world.store().schedules_of("", SET, None, 10).await.unwrap();
    assert_eq!(own, [brought]);
    let audits = world.store().audits(None, 4).await.unwrap().items;
    let actions: Vec<&str> = audits.iter().map(|audit| audit.entry.action.as_str()).collect();
    assert_eq!(actions, ["disable schedule", "edit schedule", "adopt schedule", "rename schedule"]);
}

/// Also if two of the same registration want it.
pub async fn a_name_of_another_keeps_all_out(world: &World<'_>) {
    let (a, b) = (world.schedule("a").await, world.schedule("b").await);
    let c = NewSchedule { set: SET.to_owned(), ..world.new_schedule("c") };
    for entries in [
        vec![SetEntry::Create(c.clone()), bring(&a, "b", Vec::new())],
        vec![
            SetEntry::Create(c.clone()),
            bring(&Schedule { stamp: 0, ..a.clone() }, "d", Vec::new()),
        ],
    ] {
        assert_eq!(register(world, entries).await.unwrap(), Registered::Stale);
    }
    for entries in [
        vec![SetEntry::Create(c.clone()), bring(&a, "c", Vec::new())],
        vec![bring(&a, "d", Vec::new()), bring(&b, "d", Vec::new())],
        vec![bring(&a, "", Vec::new())],
    ] {
        let error = register(world, entries).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("; "), "the error has no remedy: {error}");
    }
    assert_eq!(world.reread(&a).await, a);
    assert_eq!(world.reread(&b).await, b);
    assert_eq!(world.store().schedule(c.id).await.unwrap(), None);
    // Its own name is no obstacle.
    assert_eq!(done(world, vec![bring(&a, "a", Vec::new())]).await[0].set, SET);
}

/// As one that is deleted by itself.
pub async fn a_schedule_that_is_removed_has_decided_what_was_due(world: &World<'_>) {
    let new = NewSchedule { set: SET.to_owned(), ..world.new_schedule("a") };
    let made = done(world, vec![SetEntry::Create(new)]).await.remove(0);
    world.pass(60);
    let slot = made.next_slot.unwrap();
    let remove =
        |stamp: i64| SetEntry::Remove { id: made.id, stamp, passed: vec![missed(slot)].into() };
    assert_eq!(register(world, vec![remove(made.stamp - 1)]).await.unwrap(), Registered::Stale);
    let gone = done(world, vec![remove(made.stamp)]).await.remove(0);
    assert_eq!((gone.id, gone.last_slot), (made.id, Some(slot)));
    assert_eq!(world.store().schedule(made.id).await.unwrap(), None);
    assert_eq!(world.ledger(made.id).await[0].outcome, SlotOutcome::Missed);
    // It is gone: whoever wants to remove it has to look again.
    assert_eq!(register(world, vec![remove(made.stamp)]).await.unwrap(), Registered::Stale);
}

/// Neither by taking it over nor by removing it; and by hand nothing is removed.
pub async fn no_set_takes_what_is_anothers(world: &World<'_>) {
    let other = NewSchedule { set: "other".to_owned(), ..world.new_schedule("other") };
    let other = world.store().create_schedule(world.at(), &other).await.unwrap();
    let by_hand = world.schedule("by hand").await;
    let remove = |schedule: &Schedule| SetEntry::Remove {
        id: schedule.id,
        stamp: schedule.stamp,
        passed: PassedSlots::default(),
    };
    for entry in [bring(&other, "other", Vec::new()), remove(&other), remove(&by_hand)] {
        let error = register(world, vec![entry]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(world.reread(&other).await, other);
    assert_eq!(world.reread(&by_hand).await, by_hand);
}

/// And fires nothing until somebody enables it, from then on.
pub async fn a_schedule_may_begin_disabled(world: &World<'_>) {
    let new = NewSchedule { enabled: false, ..world.new_schedule("off") };
    let made = world.store().create_schedule(world.at(), &new).await.unwrap();
    assert!(!made.enabled);
    assert_eq!(world.reread(&made).await, made);
    world.pass(120);
    assert_eq!(world.store().due(world.at(), 0, 10).await.unwrap().schedules, []);
    let next_slot = Some(world.now() + Duration::from_secs(60));
    let change = ScheduleChange::Enable { next_slot, passed: PassedSlots::default() };
    let (id, stamp) = (made.id, made.stamp);
    let answer =
        world.store().change_schedule(world.at(), id, stamp, &change, &actor()).await.unwrap();
    let EditAnswer::Done(enabled) = answer else { panic!("{answer:?}") };
    assert_eq!((enabled.enabled, enabled.next_slot), (true, next_slot));
}
