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
    assert_eq!(codes(&diagnosis), ["behind"]);
    insta::assert_snapshot!(diagnosis, @"
    problem: schedule `nightly` is behind by 1m1s: what was due at 2027-01-01T00:01:00Z is not decided
        → see that a node leads `scheduler/0`, and what it reports
    1 problem, 0 warnings; looked at a database, 1 node, 0 kinds of jobs and 1 schedule
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
    assert_eq!(codes(&diagnosis), ["behind"; 5]);
    insta::assert_snapshot!(diagnosis.findings[4].text, @"schedule `s05` is behind by 2m20s: what was due at 2027-01-01T00:01:00Z is not decided; and so it is with 7 others: `s06`, `s07`, `s08`, `s09`, `s10` and 2 more");
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
    assert_eq!(codes(&diagnosis), ["set_aside"]);
    insta::assert_snapshot!(diagnosis, @"
    problem: schedule `nightly` is set aside, because it cannot be planned: `tz`: unknown time zone `Mars/Olympus`
        → mend it: `punctual schedule edit nightly`; or, if what was missing is there again: `punctual schedule enable nightly`
    1 problem, 0 warnings; looked at a database, 1 node, 0 kinds of jobs and 1 schedule
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
    assert_eq!(codes(&diagnosis), ["pause_past_its_end", "paused_long"]);
    insta::assert_snapshot!(diagnosis, @"
    problem: the pause of schedule `ended` ended 9d ago (2027-01-01T01:00:00Z), and nobody has planned it since
        → see that a node leads `scheduler/0`, and what it reports
    warning: schedule `forgotten` is paused by ana for 9d1h, since 2027-01-01T00:00:00Z: index rebuild; the pause has no set end
        → resume it, `punctual schedule resume forgotten`, or give the pause an end
    1 problem, 1 warning; looked at a database, 1 node, 0 kinds of jobs and 2 schedules
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
    assert_eq!(codes(&diagnosis), ["jobs_fail", "dead_letters"]);
    insta::assert_snapshot!(diagnosis, @"
    problem: schedule `nightly`: its last 3 jobs failed, the newest less than 1s ago (2027-01-01T00:03:00Z): status 503
        → why: `punctual why job 01a2ce8e-9320-7000-a9c3-a27688795369`; once the cause is mended: `punctual job retry 01a2ce8e-9320-7000-a9c3-a27688795369`
    warning: 3 jobs have failed: 3 of kind `mail` in queue `default`
        → see which: `punctual job list --state failed`; once the cause is mended, try each again: `punctual job retry ID`
    1 problem, 1 warning; looked at a database, 1 node, 1 kind of jobs and 1 schedule
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
    warning: schedules `b` and `c` make jobs that nobody would run: no live node that serves queue `default` has a handler for kind `report`: `web-1` handles `mail`
        → start a node that serves queue `default` and handles kind `report`
    0 problems, 1 warning; looked at a database, 1 node, 0 kinds of jobs and 3 schedules
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
    problem: schedule `nightly` of tenant `acme` is behind by 2m20s: what was due at 2027-01-01T00:01:00Z is not decided
        → see that a node leads `scheduler/0`, and what it reports
    1 problem, 0 warnings; looked at a database, 1 node, 0 kinds of jobs and 1 schedule
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
    problem: the watermark of schedule `nightly` stands at 2027-01-01T00:01:00Z, though its ledger is decided up to 2027-01-01T00:01:00Z: no slot can be decided twice, so that firing it is refused and may hold up others, as after a restore of parts of a backup
        → restore all of the database from one backup
    1 problem, 0 warnings; looked at a database, 1 node, 1 kind of jobs and 1 schedule
    ");
}
