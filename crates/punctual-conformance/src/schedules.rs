//! Schedules and the ledger: each slot decided once, by whoever leads.

use std::time::Duration;

use punctual_core::job::{JobState, SlotOutcome};
use punctual_core::schedule::{ON_TIME, Overlap};
use punctual_core::{ScheduleId, Timestamp};
use punctual_store::*;

use crate::World;
use crate::world::{actor, json};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

async fn due(world: &World<'_>) -> Vec<Schedule> {
    let due = world.store().due(world.at(), 0, 100).await.unwrap();
    assert_eq!(due.at, world.now());
    due.schedules
}

async fn due_ids(world: &World<'_>) -> Vec<ScheduleId> {
    due(world).await.iter().map(|schedule| schedule.id).collect()
}

async fn change(world: &World<'_>, schedule: &Schedule, change: ScheduleChange) -> Schedule {
    let answer = world
        .store()
        .change_schedule(world.at(), schedule.id, schedule.stamp, &change, &actor())
        .await;
    match answer.unwrap() {
        EditAnswer::Done(schedule) => schedule,
        other => panic!("{other:?}"),
    }
}

async fn leader(world: &World<'_>) -> Fence {
    let node = world.join().await;
    world.lead("scheduler/0", node).await
}

/// With what it was given, and a retry of the same call finds it.
pub async fn a_schedule_is_created_once(world: &World<'_>) {
    let new = world.new_schedule("nightly");
    let created = world.store().create_schedule(world.at(), &new).await.unwrap();
    let expected = Schedule {
        id: new.id,
        tenant: String::new(),
        name: "nightly".to_owned(),
        owner: "ops".to_owned(),
        set: String::new(),
        shard: 0,
        spec: new.spec.clone(),
        revision: 1,
        stamp: 1,
        enabled: true,
        pause: None,
        set_aside: None,
        held: None,
        next_slot: new.next_slot,
        last_slot: None,
        created_at: world.now(),
        changed_at: world.now(),
    };
    assert_eq!(created, expected);
    world.pass(1);
    assert_eq!(world.store().create_schedule(world.at(), &new).await.unwrap(), expected);
    assert_eq!(world.store().schedule_named("", "nightly").await.unwrap(), Some(expected.clone()));
    assert_eq!(world.store().schedule(new.id).await.unwrap(), Some(expected));
    assert_eq!(world.store().schedule_named("", "other").await.unwrap(), None);
    let nameless = NewSchedule { name: String::new(), ..world.new_schedule("x") };
    let error = world.store().create_schedule(world.at(), &nameless).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// Another tenant may use it.
pub async fn a_name_is_taken_within_its_tenant(world: &World<'_>) {
    world.schedule("nightly").await;
    let error = world
        .store()
        .create_schedule(world.at(), &world.new_schedule("nightly"))
        .await
        .unwrap_err();
    assert_eq!(error, rules::name_taken("nightly"));
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let elsewhere = NewSchedule { tenant: "acme".to_owned(), ..world.new_schedule("nightly") };
    world.store().create_schedule(world.at(), &elsewhere).await.unwrap();
}

/// Whoever changed it in between is not overwritten.
pub async fn a_change_needs_the_stamp_that_was_seen(world: &World<'_>) {
    let seen = world.schedule("nightly").await;
    let changed =
        change(world, &seen, ScheduleChange::Disable { passed: PassedSlots::default() }).await;
    assert!(changed.stamp > seen.stamp && !changed.enabled);
    let (resume, who) = (ScheduleChange::Resume, actor());
    let change = |id, stamp| world.store().change_schedule(world.at(), id, stamp, &resume, &who);
    assert_eq!(change(seen.id, seen.stamp).await.unwrap(), EditAnswer::Stale(changed.clone()));
    assert_eq!(change(world.schedule_id(), 1).await.unwrap(), EditAnswer::NotFound);
    let delete = |id, stamp| world.store().delete_schedule(world.at(), id, stamp, &who);
    assert_eq!(delete(seen.id, seen.stamp).await.unwrap(), EditAnswer::Stale(changed.clone()));
    assert_eq!(delete(seen.id, changed.stamp).await.unwrap(), EditAnswer::Done(changed));
    assert_eq!(delete(seen.id, 2).await.unwrap(), EditAnswer::NotFound);
}

/// With who, when and why; a pause is none.
pub async fn each_definition_is_a_revision(world: &World<'_>) {
    let schedule = world.schedule("nightly").await;
    world.pass(10);
    let next_slot = Some(world.now() + MINUTE);
    let define = |spec: &str| ScheduleChange::Define {
        spec: json(spec),
        owner: "web".to_owned(),
        next_slot,
        passed: PassedSlots::default(),
    };
    let first = schedule.stamp;
    let schedule = change(world, &schedule, define(r#"{"cron":"@daily"}"#)).await;
    let schedule = change(world, &schedule, ScheduleChange::Pause { until: None }).await;
    assert_eq!((schedule.revision, schedule.next_slot), (2, next_slot));
    assert!(schedule.stamp > first + 1, "the stamp increases with every write");
    assert_eq!((schedule.owner.as_str(), schedule.changed_at), ("web", world.now()));
    let revisions = world.store().revisions(schedule.id, None, 10).await.unwrap().items;
    assert_eq!(revisions.len(), 2);
    assert_eq!((revisions[0].revision, &revisions[0].spec), (2, &json(r#"{"cron":"@daily"}"#)));
    assert_eq!((revisions[0].who.as_str(), revisions[0].why.as_str()), ("ana", "index rebuild"));
    assert_eq!(
        (revisions[0].at, revisions[1].at),
        (world.now(), world.now() - Duration::from_secs(10))
    );
    assert_eq!((revisions[0].superseded_at, revisions[1].superseded_at), (None, Some(world.now())));
}

/// And with who led: what was in force then can be looked up, for as long as the ledger is kept.
pub async fn the_ledger_names_the_revision_that_was_in_force(world: &World<'_>) {
    let (one, other) = (world.join().await, world.join().await);
    let fence = world.lead("scheduler/0", one).await;
    let schedule = world.schedule("nightly").await;
    world.pass(60);
    world.fire(&fence, &[world.plan(&schedule)]).await;
    let fired = world.reread(&schedule).await;
    let define = |next_slot| ScheduleChange::Define {
        spec: json(r#"{"cron":"@hourly"}"#),
        owner: "ops".to_owned(),
        next_slot,
        passed: PassedSlots::default(),
    };
    let defined = change(world, &fired, define(fired.next_slot)).await;
    world.pass(60);
    let fence = world.lead("scheduler/0", other).await;
    world.fire(&fence, &[world.plan(&defined)]).await;
    let told: Vec<_> = world
        .ledger(schedule.id)
        .await
        .iter()
        .map(|view| (view.revision, view.node, view.term))
        .collect();
    assert_eq!(told, [(2, other, 2), (1, one, 1)]);

    let numbers = || async {
        let revisions = world.store().revisions(schedule.id, None, 10).await.unwrap().items;
        revisions.iter().map(|revision| revision.revision).collect::<Vec<_>>()
    };
    let defined = world.reread(&schedule).await;
    world.pass(100 * 86_400);
    let passed = world.all_missed(&defined);
    let disabled = change(world, &defined, ScheduleChange::Disable { passed }).await;
    change(world, &disabled, define(Some(world.now() + MINUTE))).await;
    // To the second as long ago as the first one was superseded.
    let ledger = Duration::from_secs(100 * 86_400 + 60);
    let retention = Retention { ledger, ..Retention::default() };
    for (passed, most, pruned, left) in [
        (0, 100, 0, vec![3, 2, 1]),
        (1, 100, 1, vec![3, 2]),
        (200 * 86_400, 0, 0, vec![3, 2]),
        (0, 100, 1, vec![3]),
        (200 * 86_400, 100, 0, vec![3]),
    ] {
        world.pass(passed);
        let dropped = world.store().prune(world.at(), &retention, most).await.unwrap();
        assert_eq!((dropped.revisions, numbers().await), (pruned, left));
    }
}

/// It costs nothing meanwhile; its watermark stays for the planner to see what was skipped.
pub async fn a_paused_schedule_is_not_due_until_it_is_resumed(world: &World<'_>) {
    let schedule = world.schedule("nightly").await;
    let paused = change(world, &schedule, ScheduleChange::Pause { until: None }).await;
    assert_eq!(paused.pause, Some(Pause { by: actor(), since: world.now(), until: None }));
    world.pass(3_600);
    assert_eq!(due_ids(world).await, []);
    let resumed = change(world, &paused, ScheduleChange::Resume).await;
    // The planner sees that slots were skipped on purpose, until it has written them down.
    let (since, until) = (world.now() - Duration::from_secs(3_600), Some(world.now()));
    assert_eq!(resumed.pause, Some(Pause { by: actor(), since, until }));
    assert_eq!(resumed.next_slot, schedule.next_slot);
    assert_eq!(due_ids(world).await, [schedule.id]);
    let fence = leader(world).await;
    assert_eq!(world.fire(&fence, &[world.plan(&resumed)]).await.answers, [FireAnswer::Applied]);
    assert_eq!(world.reread(&schedule).await.pause, None);
}

/// If it was given an end.
pub async fn a_pause_ends_by_itself(world: &World<'_>) {
    let schedule = world.schedule("nightly").await;
    let until = Some(world.now() + Duration::from_secs(120));
    change(world, &schedule, ScheduleChange::Pause { until }).await;
    world.pass(119);
    assert_eq!(due_ids(world).await, []);
    world.pass(1);
    assert_eq!(due_ids(world).await, [schedule.id]);
}

/// Enabling sets the watermark anew: what lies between is nobody's.
pub async fn a_disabled_schedule_is_not_due(world: &World<'_>) {
    let schedule = world.schedule("nightly").await;
    let disabled =
        change(world, &schedule, ScheduleChange::Disable { passed: PassedSlots::default() }).await;
    world.pass(3_600);
    assert_eq!(due_ids(world).await, []);
    let next_slot = Some(world.now() + MINUTE);
    let enabled = change(
        world,
        &disabled,
        ScheduleChange::Enable { next_slot, passed: PassedSlots::default() },
    )
    .await;
    assert_eq!((enabled.enabled, enabled.next_slot), (true, next_slot));
    assert_eq!(due_ids(world).await, []);
    world.pass(60);
    assert_eq!(due_ids(world).await, [schedule.id]);
}

/// Of those that are behind at least a tenth, so that none waits for ever.
pub async fn fresh_schedules_go_before_those_that_are_behind(world: &World<'_>) {
    let start = world.now();
    let create = |name: String, next_slot: Timestamp| async move {
        let new = NewSchedule { next_slot: Some(next_slot), ..world.new_schedule(&name) };
        world.store().create_schedule(world.at(), &new).await.unwrap().id
    };
    let (mut behind, mut fresh) = (Vec::new(), Vec::new());
    let now = start + Duration::from_secs(3_600);
    for index in 0..12 {
        let ago = Duration::from_secs(12 - index);
        behind.push(create(format!("behind {index}"), now - rules::FRESH - ago + SECOND).await);
        fresh.push(create(format!("fresh {index}"), now - ago + SECOND).await);
    }
    world.set(now);
    let asked = |most: usize| async move {
        let due = world.store().due(world.at(), 0, most).await.unwrap();
        due.schedules.into_iter().map(|schedule| schedule.id).collect::<Vec<_>>()
    };
    assert_eq!(asked(100).await, [fresh.clone(), behind.clone()].concat());
    assert_eq!(asked(10).await, [&fresh[..9], &behind[..1]].concat());
    assert_eq!(asked(11).await, [&fresh[..9], &behind[..2]].concat());
    assert_eq!(asked(20).await, [&fresh[..12], &behind[..8]].concat());
    assert_eq!(asked(1).await, behind[..1]);
    assert_eq!(asked(0).await, []);
    // To the microsecond.
    world.set(now - Duration::from_micros(1));
    assert_eq!(asked(100).await, [&behind[11..], &fresh[..11], &behind[..11]].concat());
}

/// The next slot, or the end of a pause if that is later; nothing that nobody plans.
pub async fn the_next_time_that_something_is_due_is_told(world: &World<'_>) {
    let next = || async { world.store().due(world.at(), 0, 10).await.unwrap().next };
    assert_eq!(next().await, None);
    let slot = world.now() + MINUTE;
    let schedule = world.schedule("a").await;
    let foreign =
        NewSchedule { shard: 1, next_slot: Some(world.now() + SECOND), ..world.new_schedule("b") };
    world.store().create_schedule(world.at(), &foreign).await.unwrap();
    let none = NewSchedule { next_slot: None, ..world.new_schedule("c") };
    world.store().create_schedule(world.at(), &none).await.unwrap();
    assert_eq!(next().await, Some(slot));
    let until = Some(slot + 5 * MINUTE);
    let paused = change(world, &schedule, ScheduleChange::Pause { until }).await;
    assert_eq!(next().await, until);
    let paused = change(world, &paused, ScheduleChange::Pause { until: Some(slot - SECOND) }).await;
    assert_eq!(next().await, Some(slot));
    let paused = change(world, &paused, ScheduleChange::Pause { until: None }).await;
    assert_eq!(next().await, None);
    let resumed = change(world, &paused, ScheduleChange::Resume).await;
    assert_eq!(next().await, Some(slot));
    let disabled =
        change(world, &resumed, ScheduleChange::Disable { passed: PassedSlots::default() }).await;
    assert_eq!(next().await, None);
    change(
        world,
        &disabled,
        ScheduleChange::Enable { next_slot: Some(slot), passed: PassedSlots::default() },
    )
    .await;
    let later = NewSchedule { next_slot: Some(slot + MINUTE), ..world.new_schedule("d") };
    world.store().create_schedule(world.at(), &later).await.unwrap();
    // What is due is no longer next, whether it was asked for or not.
    world.set(slot);
    assert_eq!(next().await, Some(slot + MINUTE));
    assert_eq!(world.store().due(world.at(), 0, 0).await.unwrap().next, Some(slot + MINUTE));
    let fence = leader(world).await;
    let aside = SlotDecision::SetAside("no".to_owned());
    let later = world.store().schedule_named("", "d").await.unwrap().unwrap();
    let plan = SlotPlan { schedule: later.id, stamp: later.stamp, decision: aside };
    world.fire(&fence, &[plan]).await;
    assert_eq!(next().await, None);
}

/// The slot has its job, the ledger its row, the schedule its next slot.
pub async fn a_fired_slot_has_its_job(world: &World<'_>) {
    let leading = world.join().await;
    let fence = world.lead("scheduler/0", leading).await;
    let schedule = world.schedule("nightly").await;
    let slot = schedule.next_slot.unwrap();
    world.pass(61);
    assert_eq!(due(world).await, std::slice::from_ref(&schedule));
    let plan = world.plan(&schedule);
    let fired = world.fire(&fence, std::slice::from_ref(&plan)).await;
    assert_eq!(fired.answers, [FireAnswer::Applied]);
    assert_eq!(fired.until, Some(world.now() + crate::world::LEASE));
    let SlotDecision::Advance { slots, .. } = &plan.decision else { panic!("a plan that fires") };
    let new = slots[0].job.as_ref().unwrap();
    let job = new.id;
    let view = SlotView {
        slot,
        run: 0,
        end: None,
        count: 1,
        outcome: SlotOutcome::Fired,
        reason: None,
        job: Some(job),
        term: 1,
        node: leading,
        revision: 1,
        decided_at: world.now(),
    };
    assert_eq!(world.ledger(schedule.id).await, [view]);
    let view = world.job(job).await.view;
    assert_eq!((view.state, view.schedule), (JobState::Ready, Some((schedule.id, Some(slot)))));
    let after = world.reread(&schedule).await;
    assert_eq!((after.next_slot, after.last_slot), (Some(slot + MINUTE), Some(slot)));
    assert_eq!(after.stamp, rules::next_stamp(schedule.stamp, world.now()));
    let node = world.join().await;
    assert_eq!(world.claim_one(node).await.origin, new.origin);
}

/// Whoever comes second finds another stamp.
pub async fn two_leaders_fire_one_slot_once(world: &World<'_>) {
    let fence = leader(world).await;
    let schedule = world.schedule("nightly").await;
    world.pass(60);
    // Both read, both plan, both believe to lead; only the rows decide.
    let (one, other) = (world.plan(&schedule), world.plan(&schedule));
    assert_eq!(world.fire(&fence, &[one]).await.answers, [FireAnswer::Applied]);
    assert_eq!(world.fire(&fence, &[other]).await.answers, [FireAnswer::Stale]);
    assert_eq!(world.ledger(schedule.id).await.len(), 1);
    assert_eq!(world.store().jobs(&JobFilter::default(), None, 10).await.unwrap().items.len(), 1);
    // Also in one batch.
    let schedule = world.reread(&schedule).await;
    world.pass(60);
    let answers = world.fire(&fence, &[world.plan(&schedule), world.plan(&schedule)]).await.answers;
    assert_eq!(answers, [FireAnswer::Applied, FireAnswer::Stale]);
    assert_eq!(world.ledger(schedule.id).await.len(), 2);
}

/// Nothing at all, however right its plan is.
pub async fn a_lost_term_fires_nothing(world: &World<'_>) {
    let fence = leader(world).await;
    let schedule = world.schedule("nightly").await;
    world.pass(60);
    let successor = leader(world).await;
    for lost in [
        &fence,
        &Fence { term: successor.term, ..fence.clone() },
        &Fence { role: "x".to_owned(), ..successor.clone() },
    ] {
        let fired = world.fire(lost, &[world.plan(&schedule)]).await;
        assert_eq!((fired.until, fired.answers), (None, Vec::new()));
    }
    assert_eq!(world.reread(&schedule).await, schedule);
    assert_eq!(world.ledger(schedule.id).await, []);
    assert_eq!(world.store().jobs(&JobFilter::default(), None, 10).await.unwrap().items, []);
    assert_eq!(
        world.fire(&successor, &[world.plan(&schedule)]).await.answers,
        [FireAnswer::Applied]
    );
}

/// An edit, a pause, a deletion: the plan is made again.
pub async fn a_plan_from_an_older_stamp_is_stale(world: &World<'_>) {
    let fence = leader(world).await;
    let (edited, deleted, kept) =
        (world.schedule("a").await, world.schedule("b").await, world.schedule("c").await);
    world.pass(60);
    let plans = [world.plan(&edited), world.plan(&deleted), world.plan(&kept)];
    change(world, &edited, ScheduleChange::Pause { until: None }).await;
    world.store().delete_schedule(world.at(), deleted.id, deleted.stamp, &actor()).await.unwrap();
    let answers = world.fire(&fence, &plans).await.answers;
    assert_eq!(answers, [FireAnswer::Stale, FireAnswer::Stale, FireAnswer::Applied]);
    assert_eq!(world.ledger(edited.id).await, []);
}

/// Its reason is visible, and an edit brings it back.
pub async fn a_schedule_that_cannot_be_planned_is_set_aside_and_the_rest_fires(world: &World<'_>) {
    let fence = leader(world).await;
    let (bad, good) = (world.schedule("bad").await, world.schedule("good").await);
    world.pass(60);
    let reason = "unknown time zone `Mars/Olympus`".to_owned();
    let plan = SlotPlan { decision: SlotDecision::SetAside(reason.clone()), ..world.plan(&bad) };
    let answers = world.fire(&fence, &[plan, world.plan(&good)]).await.answers;
    assert_eq!(answers, [FireAnswer::SetAside(reason.clone()), FireAnswer::Applied]);
    let bad = world.reread(&bad).await;
    assert_eq!(bad.set_aside, Some(reason));
    world.pass(3_600);
    assert_eq!(due_ids(world).await, [good.id]);
    let spec = json(r#"{"cron":"@daily"}"#);
    let mended = ScheduleChange::Define {
        spec,
        owner: "ops".to_owned(),
        next_slot: Some(world.now() + MINUTE),
        passed: world.all_missed(&bad),
    };
    assert_eq!(change(world, &bad, mended).await.set_aside, None);
    world.pass(60);
    assert_eq!(due_ids(world).await.len(), 2);
}

/// Early, twice, out of order, a job where none belongs: a bug must not become a job.
pub async fn a_plan_that_breaks_a_rule_sets_its_schedule_aside(world: &World<'_>) {
    let fence = leader(world).await;
    let good = world.schedule("good").await;
    let mut plans = Vec::new();
    type Spoil = fn(&mut Vec<SlotRow>, &mut Option<Timestamp>);
    let spoil: [Spoil; 9] = [
        |slots, next| {
            slots.clear();
            *next = next.map(|next| next + MINUTE);
        },
        |slots, _| slots[0].slot = slots[0].slot + Duration::from_secs(1),
        |slots, _| slots[0].count = 0,
        |slots, _| slots[0].slot = slots[0].slot - MINUTE,
        |slots, _| {
            let again = slots[0].clone();
            slots.push(again);
        },
        |slots, _| slots[0].job = None,
        |slots, next| *next = Some(slots[0].slot),
        |slots, _| slots[0].outcome = SlotOutcome::Missed,
        |slots, _| {
            if let Some(job) = &mut slots[0].job {
                job.queue.clear();
            }
        },
    ];
    for (index, spoil) in spoil.iter().enumerate() {
        let schedule = world.schedule(&format!("bad {index}")).await;
        let mut plan = world.plan(&schedule);
        if let SlotDecision::Advance { slots, next_slot, .. } = &mut plan.decision {
            spoil(slots, next_slot);
        }
        plans.push(plan);
    }
    plans.push(world.plan(&good));
    world.pass(120);
    let answers = world.fire(&fence, &plans).await.answers;
    for (plan, answer) in plans.iter().zip(&answers[..spoil.len()]) {
        let FireAnswer::SetAside(reason) = answer else { panic!("{plan:?} was {answer:?}") };
        let schedule = world.store().schedule(plan.schedule).await.unwrap().unwrap();
        assert_eq!(schedule.set_aside.as_ref(), Some(reason));
        assert_eq!(world.ledger(plan.schedule).await, []);
    }
    assert_eq!(answers.last(), Some(&FireAnswer::Applied));
    assert_eq!(world.store().jobs(&JobFilter::default(), None, 10).await.unwrap().items.len(), 1);
}

/// The clock was set back after the leader had looked: it looks again later.
pub async fn a_plan_that_is_early_is_stale(world: &World<'_>) {
    let fence = leader(world).await;
    let schedule = world.schedule("nightly").await;
    let plan = world.plan(&schedule);
    let slot = schedule.next_slot.unwrap();
    world.set(slot - Duration::from_micros(1));
    let early = world.fire(&fence, std::slice::from_ref(&plan)).await;
    assert_eq!((early.answers, early.refused), (vec![FireAnswer::Stale], 0));
    assert_eq!(world.reread(&schedule).await, schedule);
    world.set(slot);
    assert_eq!(world.fire(&fence, &[plan]).await.answers, [FireAnswer::Applied]);
}

/// A change moves the watermark; what was due before it is written down.
pub async fn a_change_decides_what_it_would_leave_undecided(world: &World<'_>) {
    let schedule = world.schedule("nightly").await;
    let first = schedule.next_slot.unwrap();
    world.set(first + 3 * MINUTE);
    let missed = |slot: Timestamp, end: Option<Timestamp>, count| SlotRow {
        slot,
        end,
        count,
        outcome: SlotOutcome::Missed,
        reason: Some("changed by ana".to_owned()),
        job: None,
    };
    let rows = vec![missed(first, None, 1), missed(first + MINUTE, Some(world.now()), 3)];
    let define = |passed: &[SlotRow]| ScheduleChange::Define {
        spec: json(r#"{"cron":"@daily"}"#),
        owner: "web".to_owned(),
        next_slot: Some(first + 4 * MINUTE),
        passed: passed.to_vec().into(),
    };
    let late = missed(first, Some(first + 4 * MINUTE), 5);
    let other = SlotRow { job: Some(world.new_job()), ..missed(first, None, 1) };
    for wrong in [&rows[1..], &[late], &[other], &[missed(first, None, 0)]] {
        let wrong = define(wrong);
        let (at, who) = (world.at(), actor());
        let refused = world.store().change_schedule(at, schedule.id, 1, &wrong, &who).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(world.reread(&schedule).await, schedule);
        assert_eq!(world.ledger(schedule.id).await, []);
    }
    let changed = change(world, &schedule, define(&rows)).await;
    assert_eq!(changed.last_slot, Some(world.now()));
    assert_eq!(world.reread(&schedule).await, changed);
    let ledger = world.ledger(schedule.id).await;
    let told = |view: &SlotView| (view.slot, view.end, view.count, view.outcome, view.revision);
    assert_eq!(
        ledger.iter().map(told).collect::<Vec<_>>(),
        [
            (first + MINUTE, Some(world.now()), 3, SlotOutcome::Missed, 1),
            (first, None, 1, SlotOutcome::Missed, 1)
        ]
    );
    assert!(ledger.iter().all(|view| view.term == 0 && view.decided_at == world.now()));
    world.pass(120);
    let passed = vec![missed(first + 4 * MINUTE, None, 1)].into();
    let disabled = change(world, &changed, ScheduleChange::Disable { passed }).await;
    assert_eq!((disabled.enabled, disabled.next_slot), (false, None));
    let next_slot = Some(world.now() + MINUTE);
    let passed = PassedSlots::default();
    let enabled = change(world, &disabled, ScheduleChange::Enable { next_slot, passed }).await;
    assert_eq!((enabled.enabled, enabled.next_slot), (true, next_slot));
    assert_eq!(world.ledger(schedule.id).await.len(), 3);
}

/// However many slots an outage skipped.
pub async fn a_run_of_skips_is_one_row(world: &World<'_>) {
    let fence = leader(world).await;
    let schedule = world.schedule("nightly").await;
    let first = schedule.next_slot.unwrap();
    world.pass(60 * 1_000);
    let end = first + 998 * MINUTE;
    let skips = SlotRow {
        slot: first,
        end: Some(end),
        count: 999,
        outcome: SlotOutcome::Missed,
        reason: Some("later than 24h".to_owned()),
        job: None,
    };
    let newest =
        SlotRow { outcome: SlotOutcome::CaughtUp, ..world.fired(schedule.id, end + MINUTE) };
    let (overlap, slots) = (Overlap::Allow, vec![skips, newest]);
    let decision = SlotDecision::Advance { overlap, slots, next_slot: None, hold_for: ON_TIME };
    let plan = SlotPlan { schedule: schedule.id, stamp: schedule.stamp, decision };
    assert_eq!(world.fire(&fence, &[plan]).await.answers, [FireAnswer::Applied]);
    let ledger = world.ledger(schedule.id).await;
    let told: Vec<_> = ledger.iter().map(|view| (view.outcome, view.count, view.end)).collect();
    assert_eq!(told, [(SlotOutcome::CaughtUp, 1, None), (SlotOutcome::Missed, 999, Some(end))]);
    let after = world.reread(&schedule).await;
    assert_eq!((after.next_slot, after.last_slot), (None, Some(end + MINUTE)));
    assert_eq!(due_ids(world).await, []);
}

/// Newest first.
pub async fn revisions_are_read_in_pages(world: &World<'_>) {
    let mut schedule = world.schedule("nightly").await;
    for _ in 0..4 {
        let define = ScheduleChange::Define {
            spec: json("{}"),
            owner: "ops".to_owned(),
            next_slot: schedule.next_slot,
            passed: PassedSlots::default(),
        };
        schedule = change(world, &schedule, define).await;
    }
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = world.store().revisions(schedule.id, cursor, 2).await.unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.items.iter().map(|view| view.revision));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, [5, 4, 3, 2, 1]);
}

/// Nor does enabling: what was decided was decided, also if its row is gone.
pub async fn an_edit_never_lets_a_slot_come_again(world: &World<'_>) {
    let fence = leader(world).await;
    let schedule = world.schedule("nightly").await;
    let slot = schedule.next_slot.unwrap();
    world.pass(60);
    world.fire(&fence, &[world.plan(&schedule)]).await;
    world.pass(2 * 365 * 86_400);
    world.store().prune(world.at(), &Retention::default(), 100).await.unwrap();
    let fired = world.reread(&schedule).await;
    for next_slot in [Some(slot), Some(slot - MINUTE)] {
        for again in [
            ScheduleChange::Define {
                spec: json("{}"),
                owner: "ops".to_owned(),
                next_slot,
                passed: world.all_missed(&fired),
            },
            ScheduleChange::Enable { next_slot, passed: world.all_missed(&fired) },
        ] {
            let answer = world
                .store()
                .change_schedule(world.at(), fired.id, fired.stamp, &again, &actor())
                .await;
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::Invalid);
        }
    }
    assert_eq!(world.reread(&schedule).await, fired);
    let owner = "o".repeat(limits::NAME_BYTES_MAX + 1);
    let long = ScheduleChange::Define {
        spec: json("{}"),
        owner,
        next_slot: Some(world.now()),
        passed: PassedSlots::default(),
    };
    let answer =
        world.store().change_schedule(world.at(), fired.id, fired.stamp, &long, &actor()).await;
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Invalid);
}

/// What was decided was decided.
pub async fn a_deleted_schedule_leaves_its_ledger(world: &World<'_>) {
    let fence = leader(world).await;
    let schedule = world.schedule("nightly").await;
    world.pass(60);
    world.fire(&fence, &[world.plan(&schedule)]).await;
    let schedule = world.reread(&schedule).await;
    world.store().delete_schedule(world.at(), schedule.id, schedule.stamp, &actor()).await.unwrap();
    assert_eq!(world.store().schedule(schedule.id).await.unwrap(), None);
    assert_eq!(world.store().revisions(schedule.id, None, 10).await.unwrap().items, []);
    assert_eq!(world.ledger(schedule.id).await.len(), 1);
    // Its name is free again.
    world.schedule("nightly").await;
}

/// A tenant's own, in pages.
pub async fn schedules_are_listed_by_name(world: &World<'_>) {
    for name in ["c", "a", "d", "b"] {
        world.schedule(name).await;
    }
    let foreign = NewSchedule { tenant: "acme".to_owned(), ..world.new_schedule("aa") };
    world.store().create_schedule(world.at(), &foreign).await.unwrap();
    let names = |schedules: Vec<Schedule>| {
        schedules.into_iter().map(|schedule| schedule.name).collect::<Vec<_>>()
    };
    assert_eq!(names(world.store().schedules("", None, 3).await.unwrap()), ["a", "b", "c"]);
    assert_eq!(names(world.store().schedules("", Some("c"), 3).await.unwrap()), ["d"]);
    assert_eq!(names(world.store().schedules("acme", None, 3).await.unwrap()), ["aa"]);
    assert_eq!(names(world.store().schedules("none", None, 3).await.unwrap()), [""; 0]);
    // Due ones come by slot, of one shard, no more than asked for.
    let other_shard = NewSchedule { shard: 1, ..world.new_schedule("e") };
    world.store().create_schedule(world.at(), &other_shard).await.unwrap();
    world.pass(60);
    assert_eq!(world.store().due(world.at(), 0, 2).await.unwrap().schedules.len(), 2);
    assert_eq!(world.store().due(world.at(), 1, 10).await.unwrap().schedules[0].id, other_shard.id);
}

/// Newest first.
pub async fn the_ledger_is_read_in_pages(world: &World<'_>) {
    let fence = leader(world).await;
    let mut schedule = world.schedule("nightly").await;
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.insert(0, schedule.next_slot.unwrap());
        world.pass(60);
        world.fire(&fence, &[world.plan(&schedule)]).await;
        schedule = world.reread(&schedule).await;
    }
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = world.store().slots(schedule.id, cursor, 2).await.unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.items.iter().map(|view| view.slot));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, expected);
}
