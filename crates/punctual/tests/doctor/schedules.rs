//! Schedules that do not fire, or whose jobs do badly.

use punctual::doctor::Thresholds;
use punctual_conformance::World;
use punctual_core::job::Outcome;
use punctual_core::schedule::{Definition, Overlap};
use punctual_store::{NewSchedule, ScheduleChange, SlotDecision};

use crate::common::*;
use crate::{codes, look, well};

#[tokio::test]
async fn a_schedule_that_is_behind_is_told() {
    let diagnosis = on_both(async |world| {
        let (node, fences) = well(world).await;
        schedule(world, "nightly", &every_minute()).await;
        leap(world, 120, node, &fences).await;
        assert_eq!(codes(&look(world, &Thresholds::default()).await), [""; 0]);
        leap(world, 1, node, &fences).await;
        look(world, &Thresholds::default()).await
    })
    .await;
    assert_eq!(codes(&diagnosis), ["firing_late"]);
    insta::assert_snapshot!(diagnosis, @"
    problem: schedule `nightly` is late by 1m1s: the slot due at 2027-01-01T00:01:00Z was not decided
        → find the leader of `scheduler/0` with `punctual leader` and check its log
    1 problem, 0 warnings; checked: a database, 1 node, 0 queue/kind pairs and 1 schedule
    ");
}

#[tokio::test]
async fn many_schedules_alike_are_told_together() {
    let diagnosis = on_both(async |world| {
        let (node, fences) = well(world).await;
        for number in 1..=12 {
            schedule(world, &format!("s{number:02}"), &every_minute()).await;
        }
        leap(world, 200, node, &fences).await;
        look(world, &Thresholds::default()).await
    })
    .await;
    assert_eq!(codes(&diagnosis), ["firing_late"; 5]);
    insta::assert_snapshot!(diagnosis.findings[4].text, @"schedule `s05` is late by 2m20s: the slot due at 2027-01-01T00:01:00Z was not decided; the same applies to 7 others: `s06`, `s07`, `s08`, `s09`, `s10` and 2 more");
}

#[tokio::test]
async fn a_schedule_that_is_set_aside_is_told() {
    let diagnosis = on_both(async |world| {
        let (_, fences) = well(world).await;
        let nightly = schedule(world, "nightly", &every_minute()).await;
        let reason = "`tz`: unknown time zone `Mars/Olympus`".to_owned();
        decide(world, &fences[1], &nightly, SlotDecision::SetAside(reason)).await;
        look(world, &Thresholds::default()).await
    })
    .await;
    assert_eq!(codes(&diagnosis), ["quarantined"]);
    insta::assert_snapshot!(diagnosis, @"
    problem: schedule `nightly` is quarantined and does not fire: `tz`: unknown time zone `Mars/Olympus`
        → fix the definition, for example: `punctual schedule edit nightly --tz ZONE`; if the cause is already fixed: `punctual schedule enable nightly`
    1 problem, 0 warnings; checked: a database, 1 node, 0 queue/kind pairs and 1 schedule
    ");
}

/// One whose pause has ended is due at that end; one without an end is remembered.
#[tokio::test]
async fn pauses_that_last_too_long_are_told() {
    let diagnosis = on_both(async |world| {
        let (node, fences) = well(world).await;
        let ended = schedule(world, "ended", &every_minute()).await;
        let until = Some(world.now() + seconds(3_600));
        change(world, &ended, ScheduleChange::Pause { until }).await;
        let forgotten = schedule(world, "forgotten", &every_minute()).await;
        change(world, &forgotten, ScheduleChange::Pause { until: None }).await;
        leap(world, 3_600, node, &fences).await;
        assert_eq!(codes(&look(world, &Thresholds::default()).await), [""; 0]);
        leap(world, 9 * 86_400, node, &fences).await;
        look(world, &Thresholds::default()).await
    })
    .await;
    assert_eq!(codes(&diagnosis), ["pause_expired", "paused_long"]);
    insta::assert_snapshot!(diagnosis, @"
    problem: the pause of schedule `ended` ended 9d ago (2027-01-01T01:00:00Z), but no slot was decided since
        → find the leader of `scheduler/0` with `punctual leader` and check its log
    warning: schedule `forgotten` is paused by ana for 9d1h (since 2027-01-01T00:00:00Z): index rebuild; the pause has no end time
        → resume it: `punctual schedule resume forgotten`; or set an end: `punctual schedule pause forgotten --until TIME`
    1 problem, 1 warning; checked: a database, 1 node, 0 queue/kind pairs and 2 schedules
    ");
}

#[tokio::test]
async fn a_schedule_whose_jobs_fail_again_and_again_is_told() {
    let diagnosis = on_both(async |world| {
        let (node, fences) = well(world).await;
        let nightly = schedule(world, "nightly", &every_minute()).await;
        for failures in 0..3 {
            let found = codes(&look(world, &Thresholds::default()).await);
            assert!(!found.contains(&"jobs_fail"), "after {failures}");
            leap(world, 60, node, &fences).await;
            fire(world, &fences[1], &nightly, Overlap::Skip, 1).await;
            let claimed = world.claim_one(node).await;
            world.settle(&claimed, Outcome::FailForGood("status 503".to_owned())).await;
        }
        look(world, &Thresholds::default()).await
    })
    .await;
    assert_eq!(codes(&diagnosis), ["jobs_fail", "failed_jobs"]);
    insta::assert_snapshot!(diagnosis, @"
    problem: schedule `nightly`: the last 3 jobs failed, most recently less than 1s ago (2027-01-01T00:03:00Z): status 503
        → details: `punctual why job 01a2ce8e-9320-7000-a9c3-a27688795369`; after fixing the cause: `punctual job retry 01a2ce8e-9320-7000-a9c3-a27688795369`
    warning: 3 failed jobs: 3 of kind `mail` in queue `default`
        → list them: `punctual job list --state failed`; after fixing the cause, retry all: `punctual job retry --all-matching state:failed`
    1 problem, 1 warning; checked: a database, 1 node, 1 queue/kind pair and 1 schedule
    ");
}

#[tokio::test]
async fn a_schedule_whose_jobs_nobody_would_run_is_told_before_it_fires() {
    let diagnosis = on_both(async |world| {
        well(world).await;
        for (name, kind) in [("a", "mail"), ("b", "report"), ("c", "report")] {
            schedule(world, name, &Definition::new("0 3 * * *", kind)).await;
        }
        look(world, &Thresholds::default()).await
    })
    .await;
    assert_eq!(codes(&diagnosis), ["schedule_without_node"]);
    insta::assert_snapshot!(diagnosis, @"
    warning: jobs of schedules `b` and `c` cannot run: no live node handles kind `report` in queue `default`: `web-1` handles `mail`
        → start a node that serves queue `default` and handles kind `report`
    0 problems, 1 warning; checked: a database, 1 node, 0 queue/kind pairs and 3 schedules
    ");
}

#[tokio::test]
async fn a_schedule_whose_slots_wait_for_a_node_is_reported_after_a_minute() {
    let diagnosis = on_both(async |world| {
        let (node, fences) = well(world).await;
        let nightly = schedule(world, "nightly", &on_b()).await;
        leap(world, 60, node, &fences).await;
        hold(world, &fences[1], &nightly).await;
        // A restart takes less than a minute.
        assert_eq!(codes(&look(world, &Thresholds::default()).await), ["schedule_without_node"]);
        leap(world, 30, node, &fences).await;
        hold(world, &fences[1], &nightly).await;
        leap(world, 31, node, &fences).await;
        look(world, &Thresholds::default()).await
    })
    .await;
    assert_eq!(codes(&diagnosis), ["slots_held"]);
    insta::assert_snapshot!(diagnosis, @"
    problem: slots of schedule `nightly` due since 2027-01-01T00:01:00Z wait for node `b`: no live node is named `b`; live nodes: `web-1`; if none joins, `missed = latest` applies to the first slot in 23h58m59s (2027-01-02T00:01:00Z)
        → start such a node, or change `run_on` of the schedule
    1 problem, 0 warnings; checked: a database, 1 node, 0 queue/kind pairs and 1 schedule
    ");
}

#[tokio::test]
async fn the_schedules_of_other_tenants_are_looked_at_if_they_are_named() {
    let diagnosis = on_both(async |world| {
        let (node, fences) = well(world).await;
        let spec = punctual_store::Json::new(&every_minute()).unwrap();
        let tenant = "acme".to_owned();
        let new = NewSchedule { tenant, spec, ..world.new_schedule("nightly") };
        world.store().create_schedule(world.at(), &new).await.unwrap();
        leap(world, 200, node, &fences).await;
        assert_eq!(codes(&look(world, &Thresholds::default()).await), [""; 0]);
        let tenants = vec![String::new(), "acme".to_owned()];
        look(world, &Thresholds { tenants, ..Thresholds::default() }).await
    })
    .await;
    insta::assert_snapshot!(diagnosis, @"
    problem: schedule `nightly` of tenant `acme` is late by 2m20s: the slot due at 2027-01-01T00:01:00Z was not decided
        → find the leader of `scheduler/0` with `punctual leader` and check its log
    1 problem, 0 warnings; checked: a database, 1 node, 0 queue/kind pairs and 1 schedule
    ");
}

/// No call of the port can bring it about, so that a foreign hand does.
#[tokio::test]
async fn a_watermark_behind_its_ledger_is_told() {
    let file = OnFile::new();
    let world = World::new(&file);
    let (node, fences) = well(&world).await;
    let nightly = schedule(&world, "nightly", &every_minute()).await;
    leap(&world, 60, node, &fences).await;
    fire(&world, &fences[1], &nightly, Overlap::Skip, 1).await;
    assert_eq!(codes(&look(&world, &Thresholds::default()).await), [""; 0]);
    let back = "UPDATE punctual_schedule SET next_slot = next_slot - 60000000 WHERE id = ?1";
    file.execute(back, nightly.id.as_bytes());
    let diagnosis = look(&world, &Thresholds::default()).await;
    assert_eq!(codes(&diagnosis), ["watermark_behind_ledger"]);
    insta::assert_snapshot!(diagnosis, @"
    problem: schedule `nightly` is inconsistent: its next slot is 2027-01-01T00:01:00Z, but its ledger already has slots up to 2027-01-01T00:01:00Z; it cannot fire and may delay other schedules; a partial restore can cause this
        → restore the whole database from one backup
    1 problem, 0 warnings; checked: a database, 1 node, 1 queue/kind pair and 1 schedule
    ");
}

/// Nothing fired for two hours, and all seemed well.
#[tokio::test]
async fn schedules_that_wait_for_a_clock_that_was_set_back_are_told() {
    let diagnosis = on_both(async |world| {
        let (node, fences) = well(world).await;
        let start = world.now();
        for name in ["nightly", "hourly"] {
            world.set(start);
            let schedule = schedule(world, name, &every_minute()).await;
            leap(world, 7_200, node, &fences).await;
            decide_all(world, &fences[1], &schedule).await;
        }
        assert_eq!(codes(&look(world, &Thresholds::default()).await), [""; 0]);
        world.set(start + seconds(90));
        beat(world, node, &fences).await;
        look(world, &Thresholds::default()).await
    })
    .await;
    assert_eq!(codes(&diagnosis), ["schedules_ahead"]);
    insta::assert_snapshot!(diagnosis, @"
    problem: 2 schedules do not fire before 2027-01-01T02:00:00Z (1h58m30s from now), because their slots up to then are already decided: `nightly` and `hourly`; the database clock was ahead and was set back
        → check the clock of the database host; if it is right now, let these slots fire at their time: `punctual schedule realign --all` (first with `--dry-run`)
    1 problem, 0 warnings; checked: a database, 1 node, 0 queue/kind pairs and 2 schedules
    ");
}
