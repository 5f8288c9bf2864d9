//! Schedules that are ahead of the clock, and the change that discards their decisions.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::job::SlotOutcome;
use punctual_core::schedule::{ON_TIME, Overlap};
use punctual_store::*;

use crate::World;
use crate::world::actor;

const MINUTE: Duration = Duration::from_secs(60);

fn skipped(slot: Timestamp, end: Option<Timestamp>, count: u64) -> SlotRow {
    let reason = Some("missed = none".to_owned());
    SlotRow { slot, end, count, outcome: SlotOutcome::Missed, reason, job: None }
}

/// Leads, as soon as the lease of an earlier leader is over: this clock goes back and forth.
async fn lead(world: &World<'_>) -> Fence {
    let (node, nonce) = (world.join().await, world.nonce());
    let (role, lease) = ("scheduler/0", Duration::from_secs(5));
    loop {
        match world.store().acquire(world.at(), role, node, nonce, lease).await.unwrap() {
            Acquired::Won { term, .. } => return Fence { role: role.to_owned(), term, nonce },
            Acquired::Held { until, .. } => world.set(until),
        }
    }
}

/// Decides rows of a schedule at an instant of the world, or seconds later.
async fn decide(world: &World<'_>, schedule: &Schedule, slots: Vec<SlotRow>) -> Schedule {
    let fence = lead(world).await;
    let last = slots.last().map(|row| row.end.unwrap_or(row.slot)).unwrap();
    let plan = SlotPlan {
        schedule: schedule.id,
        stamp: schedule.stamp,
        decision: SlotDecision::Advance {
            overlap: Overlap::Allow,
            slots,
            next_slot: Some(last + MINUTE),
            hold_for: ON_TIME,
        },
    };
    let fired = world.fire(&fence, &[plan]).await;
    assert_eq!(fired.answers, [FireAnswer::Applied]);
    world.reread(schedule).await
}

async fn try_realign(
    world: &World<'_>,
    schedule: &Schedule,
    realignment: Realignment,
) -> Result<EditAnswer> {
    let change = ScheduleChange::Realign(realignment);
    let (at, who) = (world.at(), actor());
    world.store().change_schedule(at, schedule.id, schedule.stamp, &change, &who).await
}

async fn realign(world: &World<'_>, schedule: &Schedule, realignment: Realignment) -> Schedule {
    match try_realign(world, schedule, realignment).await.unwrap() {
        EditAnswer::Done(schedule) => schedule,
        other => panic!("{other:?}"),
    }
}

/// A schedule with decided slots at minutes 1 to 10, where the clock shows two and a half minutes.
async fn ahead(world: &World<'_>, name: &str) -> (Schedule, Timestamp) {
    let start = world.now();
    let schedule = world.schedule(name).await;
    world.set(start + 10 * MINUTE);
    let minute = |number: u32| start + number * MINUTE;
    let rows = vec![
        skipped(minute(1), None, 1),
        skipped(minute(2), Some(minute(5)), 4),
        world.fired(schedule.id, minute(6)),
        skipped(minute(7), Some(minute(10)), 4),
    ];
    let schedule = decide(world, &schedule, rows).await;
    world.set(start + 150 * Duration::from_secs(1));
    (schedule, start)
}

/// The furthest ahead first, as many as were asked for.
pub async fn schedules_ahead_of_the_clock_are_listed(world: &World<'_>) {
    let (near, start) = ahead(world, "near").await;
    world.set(start);
    let far = world.schedule("far").await;
    world.set(start + 20 * MINUTE);
    let far =
        decide(world, &far, vec![skipped(start + MINUTE, Some(start + 20 * MINUTE), 20)]).await;
    world.set(start);
    world.schedule("on time").await;
    let list = async |now: Timestamp, most: usize| {
        let found = world.store().schedules_ahead(now, most).await.unwrap();
        let names = found.schedules.iter().map(|schedule| schedule.name.clone());
        (names.collect::<Vec<_>>().join(" "), found.is_partial)
    };
    let listed = |names: &str, is_partial: bool| (names.to_owned(), is_partial);
    assert_eq!(list(start, 10).await, listed("far near", false));
    assert_eq!(list(start, 1).await, listed("far", true));
    let found = world.store().schedules_ahead(start, 10).await.unwrap();
    assert_eq!(found.schedules, [far.clone(), near.clone()]);
    // A correction by a few seconds does not count.
    assert_eq!(list(start + 10 * MINUTE - AHEAD_MIN, 10).await, listed("far", false));
    assert_eq!(list(start + 20 * MINUTE, 10).await, listed("", false));
    let disable = ScheduleChange::Disable { passed: PassedSlots::default() };
    let (at, who) = (world.at(), actor());
    world.store().change_schedule(at, far.id, far.stamp, &disable, &who).await.unwrap();
    assert_eq!(list(start, 10).await, listed("near", false));
}

/// A row that begins earlier is cut, and earlier rows stay as they are.
pub async fn a_realignment_discards_decisions_about_later_slots(world: &World<'_>) {
    let (schedule, start) = ahead(world, "nightly").await;
    let minute = |number: u32| start + number * MINUTE;
    let before = world.ledger(schedule.id).await;
    let job = before.iter().find_map(|view| view.job).expect("a slot has a job");
    let cut = Some(RowCut { slot: minute(2), end: None, count: 1 });
    let (after, next_slot) = (world.now(), Some(minute(3)));
    let realigned = realign(world, &schedule, Realignment { after, next_slot, cut }).await;
    assert_eq!(realigned, world.reread(&schedule).await);
    let expected = Schedule {
        next_slot,
        last_slot: Some(minute(2)),
        stamp: realigned.stamp,
        changed_at: after,
        ..schedule.clone()
    };
    assert_eq!(realigned, expected);
    let ledger = world.ledger(schedule.id).await;
    let rows: Vec<_> = ledger.iter().map(|view| (view.slot, view.end, view.count)).collect();
    assert_eq!(rows, [(minute(2), None, 1), (minute(1), None, 1)]);
    assert_eq!(ledger[0].decided_at, before[2].decided_at, "when it was decided does not change");
    assert_eq!(world.job(job).await.view.id, job, "the jobs are not touched");
    let audit = world.store().audits(None, 1).await.unwrap().items.remove(0);
    assert_eq!((audit.entry.action.as_str(), audit.at), ("realign schedule", after));

    // The same slots are decided again.
    world.set(minute(6));
    let rows = vec![skipped(minute(3), Some(minute(5)), 3), world.fired(schedule.id, minute(6))];
    let again = decide(world, &realigned, rows).await;
    assert_eq!((again.last_slot, again.set_aside), (Some(minute(6)), None));
    assert_eq!(world.ledger(schedule.id).await.len(), 4);
}

/// It has to fit the ledger and the instant of its transaction.
pub async fn a_realignment_that_does_not_match_changes_nothing(world: &World<'_>) {
    let (schedule, start) = ahead(world, "nightly").await;
    let minute = |number: u32| start + number * MINUTE;
    let before = world.ledger(schedule.id).await;
    let cut = RowCut { slot: minute(2), end: None, count: 1 };
    let right = Realignment { after: world.now(), next_slot: Some(minute(3)), cut: Some(cut) };
    let invalid = [
        Realignment { cut: None, ..right.clone() },
        Realignment { cut: Some(RowCut { slot: minute(1), ..cut }), ..right.clone() },
        Realignment { cut: Some(RowCut { end: Some(minute(3)), ..cut }), ..right.clone() },
        Realignment { cut: Some(RowCut { count: 5, ..cut }), ..right.clone() },
        Realignment { cut: Some(RowCut { count: 0, ..cut }), ..right.clone() },
        Realignment { next_slot: Some(minute(2)), ..right.clone() },
        Realignment { after: minute(10), next_slot: Some(minute(11)), cut: None },
    ];
    for wrong in invalid {
        let refused = try_realign(world, &schedule, wrong.clone()).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid, "{wrong:?}");
    }
    // A slot became due meanwhile, or the clock was set back again.
    world.set(minute(3));
    let answer = try_realign(world, &schedule, right.clone()).await.unwrap();
    assert_eq!(answer, EditAnswer::Stale(schedule.clone()));
    world.set(right.after - Duration::from_micros(1));
    let answer = try_realign(world, &schedule, right.clone()).await.unwrap();
    assert_eq!(answer, EditAnswer::Stale(schedule.clone()));
    let seen = Schedule { stamp: schedule.stamp - 1, ..schedule.clone() };
    let answer = try_realign(world, &seen, right.clone()).await.unwrap();
    assert_eq!(answer, EditAnswer::Stale(schedule.clone()));
    assert_eq!(world.reread(&schedule).await, schedule);
    assert_eq!(world.ledger(schedule.id).await, before);
    world.set(right.after);
    realign(world, &schedule, right).await;
}

/// One transaction discards a bounded number of rows, the newest first.
pub async fn a_long_realignment_is_done_in_parts(world: &World<'_>) {
    let start = world.now();
    let mut schedule = world.schedule("nightly").await;
    let extra: u32 = 7;
    let rows = limits::REALIGN_ROWS_MAX as u32 + extra;
    world.set(start + rows * MINUTE);
    let minutes: Vec<u32> = (1..=rows).collect();
    for part in minutes.chunks(limits::PLAN_SLOTS_MAX) {
        let slots = part.iter().map(|number| skipped(start + *number * MINUTE, None, 1)).collect();
        schedule = decide(world, &schedule, slots).await;
    }
    world.set(start);
    let all = Realignment { after: start, next_slot: Some(start + MINUTE), cut: None };
    let partly = realign(world, &schedule, all.clone()).await;
    assert_eq!(partly.last_slot, Some(start + extra * MINUTE));
    assert_eq!(partly.next_slot, Some(start + (extra + 1) * MINUTE));
    assert_eq!(world.ledger(schedule.id).await.len(), extra as usize);
    let done = realign(world, &partly, all).await;
    assert_eq!((done.last_slot, done.next_slot), (None, Some(start + MINUTE)));
    assert_eq!(world.ledger(schedule.id).await, []);
}

/// A set declares its schedules; a realignment repairs one.
pub async fn a_set_does_not_realign(world: &World<'_>) {
    let set = "ops".to_owned();
    let new = NewSchedule { set: set.clone(), ..world.new_schedule("nightly") };
    let schedule = world.store().create_schedule(world.at(), &new).await.unwrap();
    let change = ScheduleChange::Realign(Realignment {
        after: world.now(),
        next_slot: Some(world.now() + MINUTE),
        cut: None,
    });
    let entries = vec![SetEntry::Change { id: schedule.id, stamp: schedule.stamp, change }];
    let request = Registration { set, generation: 0, entries, actor: actor() };
    let refused = world.store().register(world.at(), &request).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(world.reread(&schedule).await, schedule);
}
