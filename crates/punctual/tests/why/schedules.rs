//! Schedules.

use punctual::why;
use punctual_core::job::{Outcome, SlotOutcome};
use punctual_core::schedule::{Definition, ON_TIME, Overlap};
use punctual_store::rules::Spoil;
use punctual_store::{NewSchedule, PassedSlots, QueueChange, ScheduleChange, SlotDecision};

use crate::common::*;
use crate::{codes, why_schedule};

#[tokio::test]
async fn a_schedule_that_is_well_tells_its_next_slot() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        world.lead("scheduler/0", node).await;
        schedule(world, "nightly", &every_minute()).await;
        why_schedule(world, "nightly").await
    })
    .await;
    assert_eq!((why.state.as_str(), codes(&why)), ("active", vec!["next_slot"]));
    insta::assert_snapshot!(why, @"
    schedule `nightly`: active
    - next slot in 1m (2027-01-01T00:01:00Z)
    ");
}

#[tokio::test]
async fn a_slot_that_is_just_due_is_about_to_be_decided() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let fence = world.lead("scheduler/0", node).await;
        schedule(world, "nightly", &every_minute()).await;
        leap(world, 61, node, &[fence]).await;
        why_schedule(world, "nightly").await
    })
    .await;
    assert_eq!(codes(&why), ["next_slot"]);
    insta::assert_snapshot!(why.reasons[0].text, @"next slot was due 1s ago (2027-01-01T00:01:00Z) and is being decided");
}

#[tokio::test]
async fn a_paused_schedule_says_by_whom_why_and_until_when() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        world.lead("scheduler/0", node).await;
        let nightly = schedule(world, "nightly", &every_minute()).await;
        let until = world.now() + seconds(3_630);
        change(world, &nightly, ScheduleChange::Pause { until: Some(until) }).await;
        world.pass(10);
        let ends = why_schedule(world, "nightly").await;
        change(world, &nightly, ScheduleChange::Pause { until: None }).await;
        (ends, why_schedule(world, "nightly").await)
    })
    .await;
    assert_eq!((why.0.state.as_str(), codes(&why.0)), ("paused", vec!["paused_schedule"]));
    insta::assert_snapshot!(why.0, @"
    schedule `nightly`: paused
    - paused by ana for 10s (since 2027-01-01T00:00:00Z): index rebuild; the pause ends in 1h20s (2027-01-01T01:00:30Z); the first slot after that is in 1h50s (2027-01-01T01:01:00Z)
        → resume it: `punctual schedule resume nightly`
    ");
    insta::assert_snapshot!(why.1, @"
    schedule `nightly`: paused
    - paused by ana for 10s (since 2027-01-01T00:00:00Z): index rebuild; the pause has no end time
        → resume it: `punctual schedule resume nightly`
    ");
}

#[tokio::test]
async fn a_disabled_schedule_says_who_did_it() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        world.lead("scheduler/0", node).await;
        let nightly = schedule(world, "nightly", &every_minute()).await;
        world.pass(10);
        change(world, &nightly, ScheduleChange::Disable { passed: PassedSlots::default() }).await;
        world.pass(5);
        why_schedule(world, "nightly").await
    })
    .await;
    assert_eq!((why.state.as_str(), codes(&why)), ("disabled", vec!["disabled"]));
    insta::assert_snapshot!(why, @"
    schedule `nightly`: disabled
    - disabled by ana 5s ago (2027-01-01T00:00:10Z): index rebuild; it does not fire until it is enabled
        → enable it: `punctual schedule enable nightly`
    ");
}

#[tokio::test]
async fn a_schedule_that_is_set_aside_says_why() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let fence = world.lead("scheduler/0", node).await;
        let nightly = schedule(world, "nightly", &every_minute()).await;
        let reason = "`tz`: unknown time zone `Mars/Olympus`".to_owned();
        decide(world, &fence, &nightly, SlotDecision::SetAside(reason)).await;
        let unreadable = schedule(world, "torn", &every_minute()).await;
        world.spoil(Spoil::Schedule(unreadable.id)).await;
        (why_schedule(world, "nightly").await, why_schedule(world, "torn").await)
    })
    .await;
    assert_eq!((why.0.state.as_str(), codes(&why.0)), ("quarantined", vec!["quarantined"]));
    insta::assert_snapshot!(why.0, @"
    schedule `nightly`: quarantined
    - the schedule is quarantined and does not fire: `tz`: unknown time zone `Mars/Olympus`
        → fix the definition, for example: `punctual schedule edit nightly --tz ZONE`; if the cause is already fixed: `punctual schedule enable nightly`
    ");
    insta::assert_snapshot!(why.1, @"
    schedule `torn`: quarantined
    - the schedule is quarantined and does not fire: its database row cannot be read
        → fix the definition, for example: `punctual schedule edit torn --tz ZONE`; if the cause is already fixed: `punctual schedule enable torn`
    ");
}

#[tokio::test]
async fn a_schedule_without_slots_left_says_which_was_the_last() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let fence = world.lead("scheduler/0", node).await;
        let once = Definition::new("@at 2027-01-01T00:01:00Z", "mail");
        let windowed =
            Definition { end: Some("2027-01-01T00:01:30Z".to_owned()), ..every_minute() };
        let mut answers = Vec::new();
        let (once, windowed) =
            (schedule(world, "once", &once).await, schedule(world, "windowed", &windowed).await);
        leap(world, 60, node, std::slice::from_ref(&fence)).await;
        for schedule in [once, windowed] {
            let slot = schedule.next_slot.unwrap();
            let decision = SlotDecision::Advance {
                overlap: Overlap::Skip,
                slots: vec![world.fired(schedule.id, slot)],
                next_slot: None,
                hold_for: ON_TIME,
            };
            decide(world, &fence, &schedule, decision).await;
            let claimed = world.claim_one(node).await;
            world.settle(&claimed, Outcome::Done).await;
            world.pass(1);
            answers.push(why_schedule(world, &schedule.name).await);
        }
        answers
    })
    .await;
    assert_eq!(
        (why[0].state.as_str(), codes(&why[0])),
        ("finished", vec!["no_more_slots", "recent_slots"])
    );
    insta::assert_snapshot!(why[0], @"
    schedule `once`: finished
    - no slots left: the last slot was at 2027-01-01T00:01:00Z
        → to run it again, change its times: `punctual schedule edit once --cron EXPR`
    - last slot 2027-01-01T00:01:00Z: fired
    ");
    insta::assert_snapshot!(why[1], @"
    schedule `windowed`: finished
    - no slots left: the last slot was at 2027-01-01T00:01:00Z; `end` is 2027-01-01T00:01:30Z
        → to run it again, change its times: `punctual schedule edit windowed --cron EXPR`
    - last slot 2027-01-01T00:01:00Z: fired
    ");
}

#[tokio::test]
async fn without_a_leader_nothing_fires() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        schedule(world, "nightly", &every_minute()).await;
        let never = why_schedule(world, "nightly").await;
        world.lead("scheduler/0", node).await;
        pass(world, 40, node, &[]).await;
        (never, why_schedule(world, "nightly").await)
    })
    .await;
    assert_eq!(codes(&why.0), ["no_leader", "next_slot"]);
    insta::assert_snapshot!(why.0, @"
    schedule `nightly`: active
    - role `scheduler/0` has no leader: schedules do not fire; live nodes: `web-1`
        → start a node with the role `scheduler`, or restart one with `--role api,scheduler,worker`
    - next slot in 1m (2027-01-01T00:01:00Z)
    ");
    insta::assert_snapshot!(why.1.reasons[0].text, @"role `scheduler/0` has had no leader for 35s (since 2027-01-01T00:00:05Z): schedules do not fire; live nodes: `web-1`");
}

#[tokio::test]
async fn without_any_node_that_is_told_once() {
    let why = on_both(async |world| {
        schedule(world, "nightly", &every_minute()).await;
        why_schedule(world, "nightly").await
    })
    .await;
    assert_eq!(codes(&why), ["no_node", "next_slot"]);
    insta::assert_snapshot!(why, @"
    schedule `nightly`: active
    - no live nodes; schedules do not fire
        → start a node, for example: `punctual serve`
    - next slot in 1m (2027-01-01T00:01:00Z)
    ");
}

#[tokio::test]
async fn a_schedule_that_is_behind_says_by_how_much_and_who_leads() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let fence = world.lead("scheduler/0", node).await;
        schedule(world, "nightly", &every_minute()).await;
        leap(world, 200, node, &[fence]).await;
        why_schedule(world, "nightly").await
    })
    .await;
    assert_eq!(codes(&why), ["firing_late"]);
    insta::assert_snapshot!(why, @"
    schedule `nightly`: active
    - the schedule is late by 2m20s: the slot due at 2027-01-01T00:01:00Z was not decided
        → check the log of `web-1`, which has led `scheduler/0` for 3m20s (since 2027-01-01T00:00:00Z)
    ");
}

#[tokio::test]
async fn slots_that_are_skipped_name_the_unfinished_job() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let fence = world.lead("scheduler/0", node).await;
        let nightly = schedule(world, "nightly", &overlapping(Overlap::Skip)).await;
        leap(world, 60, node, std::slice::from_ref(&fence)).await;
        fire(world, &fence, &nightly, Overlap::Skip, 1).await;
        world.claim_one(node).await;
        leap(world, 60, node, std::slice::from_ref(&fence)).await;
        fire(world, &fence, &nightly, Overlap::Skip, 1).await;
        why_schedule(world, "nightly").await
    })
    .await;
    assert_eq!(codes(&why), ["overlap", "next_slot", "recent_slots", "skipped_overlap"]);
    insta::assert_snapshot!(why, @"
    schedule `nightly`: active
    - unfinished job 01a2ce8c-be60-7000-b3d3-3b666a1e21da: running on `web-1` for 1m (since 2027-01-01T00:01:00Z); slots are skipped until it finishes (overlap = skip)
        → wait, or cancel it: `punctual job cancel 01a2ce8c-be60-7000-b3d3-3b666a1e21da`; for its state: `punctual why job 01a2ce8c-be60-7000-b3d3-3b666a1e21da`
    - next slot in 1m (2027-01-01T00:03:00Z)
    - last 2 slots since 2027-01-01T00:01:00Z: 1 fired and 1 skipped_overlap
    - slot 2027-01-01T00:02:00Z was skipped because of overlap: job 01a2ce8c-be60-7000-b3d3-3b666a1e21da is unfinished
    ");
}

#[tokio::test]
async fn each_overlap_policy_says_what_it_does() {
    let policies = [Overlap::Allow, Overlap::QueueOne, Overlap::QueueAll, Overlap::CancelRunning];
    let mut told = Vec::new();
    for overlap in policies {
        for slots in [1, 2] {
            let why = on_both(async |world| {
                let node = web_1(world).await;
                let fence = world.lead("scheduler/0", node).await;
                let nightly = schedule(world, "nightly", &overlapping(overlap)).await;
                leap(world, 60 * u64::from(slots), node, std::slice::from_ref(&fence)).await;
                fire(world, &fence, &nightly, overlap, slots).await;
                why_schedule(world, "nightly").await
            })
            .await;
            let reason = why.reasons.into_iter().find(|reason| reason.text.contains("overlap ="));
            let said = reason.map(|reason| format!("{}: {}", reason.code, reason.text));
            told.push(format!(
                "{overlap}, {slots}: {}",
                said.unwrap_or_else(|| "nothing".to_owned())
            ));
        }
    }
    insta::assert_snapshot!(told.join("\n"), @"
    allow, 1: nothing
    allow, 2: nothing
    queue_one, 1: unfinished_job: unfinished job 01a2ce8c-be60-7000-b3d3-3b666a1e21da: ready for less than 1s (since 2027-01-01T00:01:00Z); the job of the next slot will wait for it (overlap = queue_one)
    queue_one, 2: overlap: unfinished job 01a2ce8d-a8c0-7000-b3d3-3b666a1e21da: ready for less than 1s (since 2027-01-01T00:02:00Z); one job is blocked by it, and further slots are skipped (overlap = queue_one)
    queue_all, 1: unfinished_job: unfinished job 01a2ce8c-be60-7000-b3d3-3b666a1e21da: ready for less than 1s (since 2027-01-01T00:01:00Z); the job of the next slot will wait for it (overlap = queue_all)
    queue_all, 2: overlap: unfinished job 01a2ce8d-a8c0-7000-b3d3-3b666a1e21da: ready for less than 1s (since 2027-01-01T00:02:00Z); 1 job is blocked by it (overlap = queue_all)
    cancel_running, 1: unfinished_job: unfinished job 01a2ce8c-be60-7000-b3d3-3b666a1e21da: ready for less than 1s (since 2027-01-01T00:01:00Z); the next slot cancels it (overlap = cancel_running)
    cancel_running, 2: unfinished_job: unfinished job 01a2ce8d-a8c0-7000-bfda-be86cbbeaa11: ready for less than 1s (since 2027-01-01T00:02:00Z); the next slot cancels it (overlap = cancel_running)
    ");
}

#[tokio::test]
async fn a_schedule_whose_jobs_fail_says_how_often_and_why() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let fence = world.lead("scheduler/0", node).await;
        let nightly = schedule(world, "nightly", &every_minute()).await;
        for outcome in [Outcome::Done, boom(), boom()] {
            leap(world, 60, node, std::slice::from_ref(&fence)).await;
            fire(world, &fence, &nightly, Overlap::Skip, 1).await;
            let claimed = world.claim_one(node).await;
            let outcome = match outcome {
                Outcome::Fail(error) => Outcome::FailForGood(error),
                other => other,
            };
            world.settle(&claimed, outcome).await;
        }
        why_schedule(world, "nightly").await
    })
    .await;
    assert_eq!(codes(&why), ["jobs_fail", "next_slot", "recent_slots"]);
    insta::assert_snapshot!(why, @"
    schedule `nightly`: active
    - the last 2 jobs failed, most recently less than 1s ago (2027-01-01T00:03:00Z): boom
        → details: `punctual why job 01a2ce8e-9320-7000-a25e-c07a99506761`; after fixing the cause: `punctual job retry 01a2ce8e-9320-7000-a25e-c07a99506761`
    - next slot in 1m (2027-01-01T00:04:00Z)
    - last 3 slots since 2027-01-01T00:01:00Z: 3 fired
    ");
}

#[tokio::test]
async fn a_schedule_whose_jobs_cannot_run_says_why() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        world.lead("scheduler/0", node).await;
        schedule(world, "nightly", &Definition::new("* * * * *", "mial")).await;
        change_queue(world, "default", QueueChange::Pause { until: None }).await;
        why_schedule(world, "nightly").await
    })
    .await;
    assert_eq!(codes(&why), ["paused_queue", "no_node_for_kind", "next_slot"]);
    insta::assert_snapshot!(why, @"
    schedule `nightly`: active
    - queue `default` is paused by ana for less than 1s (since 2027-01-01T00:00:00Z): index rebuild; the pause has no end time
        → resume it: `punctual queue resume default`
    - no live node handles kind `mial` in queue `default`: `web-1` handles `mail`; did you mean `mail`?
        → start a node that serves queue `default` and handles kind `mial`
    - next slot in 1m (2027-01-01T00:01:00Z)
    ");
}

#[tokio::test]
async fn slots_that_wait_for_a_node_say_for_which_since_when_and_how_long() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let fence = world.lead("scheduler/0", node).await;
        let nightly = schedule(world, "nightly", &on_b()).await;
        leap(world, 61, node, std::slice::from_ref(&fence)).await;
        hold(world, &fence, &nightly).await;
        leap(world, 120, node, &[fence]).await;
        why_schedule(world, "nightly").await
    })
    .await;
    assert_eq!(codes(&why), ["slots_held", "no_node_for_run_on"]);
    insta::assert_snapshot!(why, @"
    schedule `nightly`: active
    - slots due since 2027-01-01T00:01:00Z wait for node `b`; if none joins, `missed = latest` applies to the first slot in 23h57m59s (2027-01-02T00:01:00Z)
    - no live node is named `b`; live nodes: `web-1`
        → start such a node, or change `run_on` of the schedule
    ");
}

#[tokio::test]
async fn slots_that_became_no_job_say_why() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let fence = world.lead("scheduler/0", node).await;
        let nightly = schedule(world, "nightly", &every_minute()).await;
        let first = nightly.next_slot.unwrap();
        let at = |minute: u64| first + seconds(60 * minute);
        leap(world, 60 * 31, node, std::slice::from_ref(&fence)).await;
        let slots = vec![
            no_job(at(0), 20, SlotOutcome::Missed, "later than missed_window = 10m"),
            no_job(at(20), 5, SlotOutcome::SkippedPaused, "paused by ana: index rebuild"),
            no_job(at(25), 4, SlotOutcome::Coalesced, "missed = latest"),
            no_job(at(29), 1, SlotOutcome::SkippedExcluded, "a holiday"),
            world.fired(nightly.id, at(30)),
        ];
        let next_slot = Some(at(31));
        let overlap = Overlap::Allow;
        decide(
            world,
            &fence,
            &nightly,
            SlotDecision::Advance { overlap, slots, next_slot, hold_for: ON_TIME },
        )
        .await;
        let claimed = world.claim_one(node).await;
        world.settle(&claimed, Outcome::Done).await;
        why_schedule(world, "nightly").await
    })
    .await;
    assert_eq!(
        codes(&why),
        ["next_slot", "recent_slots", "skipped_paused", "skipped_excluded", "missed", "coalesced"]
    );
    insta::assert_snapshot!(why, @"
    schedule `nightly`: active
    - next slot in 1m (2027-01-01T00:32:00Z)
    - last 31 slots since 2027-01-01T00:01:00Z: 1 fired, 5 skipped_paused, 1 skipped_excluded, 20 missed and 4 coalesced
    - 5 slots were skipped during a pause, latest 2027-01-01T00:25:00Z: paused by ana: index rebuild
    - slot 2027-01-01T00:30:00Z was skipped by `exclude`: a holiday
    - 20 slots were missed, latest 2027-01-01T00:20:00Z: later than missed_window = 10m
    - 4 slots were late and merged into a newer one, latest 2027-01-01T00:29:00Z: missed = latest
    ");
}

#[tokio::test]
async fn a_schedule_of_no_such_name_is_perhaps_another() {
    let why = on_both(async |world| {
        schedule(world, "nightly", &every_minute()).await;
        (why_schedule(world, "nighly").await, why_schedule(world, "hourly").await)
    })
    .await;
    assert_eq!((why.0.state.as_str(), codes(&why.0)), ("not_found", vec!["not_found"]));
    insta::assert_snapshot!(why.0, @"
    schedule `nighly`: not found
    - schedule `nighly` not found; did you mean `nightly`?
        → list all schedules: `punctual schedule list`
    ");
    insta::assert_snapshot!(why.1.reasons[0].text, @"schedule `hourly` not found");
}

#[tokio::test]
async fn a_tenants_schedule_is_asked_for_by_tenant() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        world.lead("scheduler/0", node).await;
        let spec = punctual_store::Json::new(&every_minute()).unwrap();
        let tenant = "acme".to_owned();
        let new = NewSchedule { tenant, spec, ..world.new_schedule("nightly") };
        let nightly = world.store().create_schedule(world.at(), &new).await.unwrap();
        change(world, &nightly, ScheduleChange::Pause { until: None }).await;
        why::schedule(world.store(), world.at(), "acme", "nightly").await.unwrap()
    })
    .await;
    insta::assert_snapshot!(why, @"
    schedule `nightly` of tenant `acme`: paused
    - paused by ana for less than 1s (since 2027-01-01T00:00:00Z): index rebuild; the pause has no end time
        → resume it: `punctual schedule resume nightly --tenant acme`
    ");
}

#[tokio::test]
async fn a_schedule_that_waits_for_a_clock_that_was_set_back_says_how_to_realign_it() {
    let why = on_both(async |world| {
        let node = web_1(world).await;
        let fence = world.lead("scheduler/0", node).await;
        let start = world.now();
        let nightly = schedule(world, "nightly", &every_minute()).await;
        leap(world, 7_200, node, std::slice::from_ref(&fence)).await;
        decide_all(world, &fence, &nightly).await;
        world.set(start + seconds(90));
        beat(world, node, &[fence]).await;
        why_schedule(world, "nightly").await
    })
    .await;
    assert_eq!((why.state.as_str(), why.reasons[0].code), ("ahead", "schedule_ahead"));
    insta::assert_snapshot!(why, @"
    schedule `nightly`: ahead
    - slots up to 2027-01-01T02:00:00Z (1h58m30s from now) are already decided, because the database clock was ahead and was set back; the next slot that fires is in 1h59m30s (2027-01-01T02:01:00Z)
        → if the clock is right now, discard these decisions: `punctual schedule realign nightly`; `--dry-run` lists them
    - last 120 slots since 2027-01-01T00:01:00Z: 120 coalesced
    - 120 slots were late and merged into a newer one, latest 2027-01-01T02:00:00Z: missed = latest
    ");
}
