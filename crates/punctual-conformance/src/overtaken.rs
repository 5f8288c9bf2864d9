//! Changes of schedules that a slot overtakes: it becomes due after the change was computed and
//! before it is written. Such a change is stale, so that the slot keeps its outcome.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::job::SlotOutcome;
use punctual_store::*;

use crate::World;
use crate::world::{actor, json};

const MINUTE: Duration = Duration::from_secs(60);
const SET: &str = "ops";

fn define(schedule: &Schedule, passed: PassedSlots) -> ScheduleChange {
    ScheduleChange::Define {
        spec: json(r#"{"cron":"@daily"}"#),
        owner: "web".to_owned(),
        next_slot: schedule.next_slot.map(|next| next + 60 * MINUTE),
        passed,
    }
}

fn missed(slot: Timestamp) -> SlotRow {
    let reason = Some("changed by ana".to_owned());
    SlotRow { slot, end: None, count: 1, outcome: SlotOutcome::Missed, reason, job: None }
}

/// The slots up to `slot`, where the rule has one each minute.
fn up_to(slot: Timestamp) -> PassedSlots {
    PassedSlots { rows: vec![missed(slot)], next: Some(slot + MINUTE) }
}

async fn try_change(world: &World<'_>, schedule: &Schedule, change: &ScheduleChange) -> EditAnswer {
    let (id, stamp) = (schedule.id, schedule.stamp);
    world.store().change_schedule(world.at(), id, stamp, change, &actor()).await.unwrap()
}

async fn done(world: &World<'_>, schedule: &Schedule, change: &ScheduleChange) -> Schedule {
    match try_change(world, schedule, change).await {
        EditAnswer::Done(schedule) => schedule,
        other => panic!("{other:?}"),
    }
}

/// A slot at the instant of the transaction counts as due.
pub async fn a_change_that_a_slot_overtakes_is_stale(world: &World<'_>) {
    let schedule = world.schedule("nightly").await;
    let first = schedule.next_slot.unwrap();
    let changes = |passed: PassedSlots| {
        [define(&schedule, passed.clone()), ScheduleChange::Disable { passed }]
    };
    world.set(first);
    for change in changes(PassedSlots::default()) {
        let answer = try_change(world, &schedule, &change).await;
        assert_eq!(answer, EditAnswer::Stale(schedule.clone()), "{}", change.action());
    }
    world.set(first + MINUTE);
    for change in changes(up_to(first)) {
        let answer = try_change(world, &schedule, &change).await;
        assert_eq!(answer, EditAnswer::Stale(schedule.clone()), "{}", change.action());
    }
    assert_eq!(world.reread(&schedule).await, schedule);
    assert_eq!(world.ledger(schedule.id).await, []);
    assert_eq!(world.store().audits(None, 10).await.unwrap().items.len(), 1);

    world.set(first + MINUTE - Duration::from_micros(1));
    let disabled = done(world, &schedule, &ScheduleChange::Disable { passed: up_to(first) }).await;
    assert_eq!((disabled.enabled, disabled.last_slot), (false, Some(first)));
    assert_eq!(world.ledger(schedule.id).await.len(), 1);
}

/// It leaves all slots to the leader, or has none.
pub async fn a_change_that_decides_no_slot_is_not_overtaken(world: &World<'_>) {
    let schedule = world.schedule("nightly").await;
    world.set(schedule.next_slot.unwrap());
    let paused = done(world, &schedule, &ScheduleChange::Pause { until: None }).await;
    let resumed = done(world, &paused, &ScheduleChange::Resume).await;
    let passed = up_to(schedule.next_slot.unwrap());
    let disabled = done(world, &resumed, &ScheduleChange::Disable { passed }).await;
    world.pass(600);
    let defined = done(world, &disabled, &define(&schedule, PassedSlots::default())).await;
    let enable = ScheduleChange::Enable {
        next_slot: Some(world.now() + MINUTE),
        passed: PassedSlots::default(),
    };
    let enabled = done(world, &defined, &enable).await;
    assert_eq!((enabled.enabled, world.ledger(schedule.id).await.len()), (true, 1));
}

/// While it is quarantined its slots become due, and the change that ends this decides them.
pub async fn a_quarantined_schedule_is_not_enabled_past_a_due_slot(world: &World<'_>) {
    let node = world.join().await;
    let fence = world.lead("scheduler/0", node).await;
    let schedule = world.schedule("nightly").await;
    let first = schedule.next_slot.unwrap();
    world.set(first);
    let decision = SlotDecision::SetAside("no zone".to_owned());
    let plan = SlotPlan { schedule: schedule.id, stamp: schedule.stamp, decision };
    world.fire(&fence, &[plan]).await;
    let quarantined = world.reread(&schedule).await;
    let enable = |passed: PassedSlots| ScheduleChange::Enable {
        next_slot: Some(first + 2 * MINUTE),
        passed,
    };
    for passed in [PassedSlots::default(), PassedSlots { next: Some(first), ..up_to(first) }] {
        let answer = try_change(world, &quarantined, &enable(passed)).await;
        assert_eq!(answer, EditAnswer::Stale(quarantined.clone()));
    }
    let enabled = done(world, &quarantined, &enable(up_to(first))).await;
    assert_eq!((enabled.set_aside, enabled.last_slot), (None, Some(first)));
}

/// All or nothing, as with every stale entry.
pub async fn a_set_with_a_change_that_a_slot_overtakes_is_stale(world: &World<'_>) {
    let new = NewSchedule { set: SET.to_owned(), ..world.new_schedule("a") };
    let schedule = world.store().create_schedule(world.at(), &new).await.unwrap();
    let (id, stamp, first) = (schedule.id, schedule.stamp, schedule.next_slot.unwrap());
    let register = |entry: SetEntry| {
        let other = NewSchedule { set: SET.to_owned(), ..world.new_schedule("other") };
        let entries = vec![SetEntry::Create(other), entry];
        let request = Registration { set: SET.to_owned(), generation: 0, entries, actor: actor() };
        async move { world.store().register(world.at(), &request).await.unwrap() }
    };
    world.set(first);
    let (none, name) = (PassedSlots::default, || "b".to_owned());
    let disable = || ScheduleChange::Disable { passed: none() };
    let entries = [
        SetEntry::Remove { id, stamp, passed: none() },
        SetEntry::Change { id, stamp, change: disable() },
        SetEntry::Bring { id, stamp, name: name(), changes: vec![disable()] },
        // The first change decides the old slots; the second does not decide those of the new rule.
        SetEntry::Bring {
            id,
            stamp,
            name: name(),
            changes: vec![
                ScheduleChange::Define {
                    spec: json("{}"),
                    owner: String::new(),
                    next_slot: Some(first + Duration::from_micros(1)),
                    passed: up_to(first),
                },
                disable(),
            ],
        },
    ];
    for entry in entries {
        world.set(if matches!(&entry, SetEntry::Bring { changes, .. } if changes.len() == 2) {
            first + Duration::from_micros(1)
        } else {
            first
        });
        assert_eq!(register(entry).await, Registered::Stale);
        assert_eq!(world.reread(&schedule).await, schedule);
        assert_eq!(world.store().schedule_named("", "other").await.unwrap(), None);
        assert_eq!(world.ledger(id).await, []);
    }
    let removed = register(SetEntry::Remove { id, stamp, passed: up_to(first) }).await;
    assert!(matches!(removed, Registered::Done(_)), "{removed:?}");
    assert_eq!(world.ledger(id).await.len(), 1);
}
