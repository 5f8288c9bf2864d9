//! Nodes, roles and what they leave undone.

use punctual::doctor::Thresholds;
use punctual_core::job::{Outcome, RetryPolicy};
use punctual_store::{NewJob, ReapAsk, RollupCount};

use crate::common::*;
use crate::{codes, look, well};

#[tokio::test]
async fn an_installation_without_nodes_is_not_at_work() {
    let diagnosis = on_both(async |world| {
        well(world).await;
        schedule(world, "nightly", &every_minute()).await;
        world.enqueue_one().await;
        world.pass(50);
        look(world, &Thresholds::default()).await
    })
    .await;
    assert_eq!(codes(&diagnosis), ["no_node"]);
    insta::assert_snapshot!(diagnosis, @"
    problem: no live nodes; the last heartbeat was 50s ago (2027-01-01T00:00:00Z) from `web-1`
        → start a node, for example: `punctual serve`; until then, no schedules fire and no jobs run
    1 problem, 0 warnings; checked: a database, 1 node, 1 queue/kind pair and 1 schedule
    ");
}

#[tokio::test]
async fn roles_that_nobody_leads_are_told_once_it_is_no_mere_change() {
    let diagnoses = on_both(async |world| {
        let (node, fences) = well(world).await;
        world.lead("billing", node).await;
        schedule(world, "nightly", &every_minute()).await;
        pass(world, 8, node, &fences).await;
        let led = look(world, &Thresholds::default()).await;
        pass(world, 8, node, &[]).await;
        let changing = look(world, &Thresholds::default()).await;
        pass(world, 20, node, &[]).await;
        (led, changing, look(world, &Thresholds::default()).await)
    })
    .await;
    assert_eq!((codes(&diagnoses.0), codes(&diagnoses.1)), (vec![], vec![]));
    assert_eq!(codes(&diagnoses.2), ["no_leader"; 3]);
    insta::assert_snapshot!(diagnoses.2, @"
    problem: role `maintenance` has had no leader for 23s (since 2027-01-01T00:00:13Z): due jobs do not become ready, jobs of dead nodes are not reclaimed, and history is not pruned; live nodes: `web-1`
        → start a node with the role `scheduler`, or restart one with `--role api,scheduler,worker`
    problem: role `scheduler/0` has had no leader for 23s (since 2027-01-01T00:00:13Z): schedules do not fire; live nodes: `web-1`
        → start a node with the role `scheduler`, or restart one with `--role api,scheduler,worker`
    warning: application role `billing` has had no leader for 31s (since 2027-01-01T00:00:05Z)
        → start a program that leads this role, if it is still needed
    2 problems, 1 warning; checked: a database, 1 node, 0 queue/kind pairs and 1 schedule
    ");
}

/// Nobody needs one who fires where there is nothing to fire.
#[tokio::test]
async fn without_schedules_nobody_has_to_fire_them() {
    let diagnosis = on_both(async |world| {
        let node = web_1(world).await;
        let fence = world.lead("maintenance", node).await;
        pass(world, 20, node, &[fence]).await;
        look(world, &Thresholds::default()).await
    })
    .await;
    assert_eq!(codes(&diagnosis), [""; 0]);
}

#[tokio::test]
async fn a_dead_node_that_keeps_its_jobs_is_told() {
    let diagnosis = on_both(async |world| {
        let lost = node(world, "web-2", &["default"], &["mail"]).await;
        let (leading, fences) = well(world).await;
        world.enqueue_one().await;
        world.enqueue_one().await;
        world.claim(&world.ask(lost, 2)).await;
        pass(world, 16, leading, &fences).await;
        let ask = ReapAsk {
            fence: fences[0].clone(),
            lease: seconds(5),
            node_lifetime: seconds(15),
            policy: RetryPolicy::default(),
            most: 1,
        };
        world.store().reap(world.at(), &ask).await.unwrap();
        let before = look(world, &Thresholds::default()).await;
        assert_eq!(codes(&before), [""; 0]);
        leap(world, 61, leading, &fences).await;
        look(world, &Thresholds::default()).await
    })
    .await;
    assert_eq!(codes(&diagnosis), ["leases_of_dead_node"]);
    insta::assert_snapshot!(diagnosis, @"
    problem: node `web-2` was declared dead 1m1s ago (2027-01-01T00:00:16Z), but 1 of its jobs has not been reclaimed
        → find the leader of `maintenance` with `punctual leader` and check its log
    1 problem, 0 warnings; checked: a database, 2 nodes, 1 queue/kind pair and 0 schedules
    ");
}

#[tokio::test]
async fn a_silent_node_that_nobody_declares_dead_is_told() {
    let diagnoses = on_both(async |world| {
        let lost = node(world, "web-2", &["default"], &["mail"]).await;
        let (leading, fences) = well(world).await;
        world.enqueue_one().await;
        world.claim_one(lost).await;
        pass(world, 28, leading, &fences).await;
        let patient = look(world, &Thresholds::default()).await;
        pass(world, 4, leading, &fences).await;
        (patient, look(world, &Thresholds::default()).await)
    })
    .await;
    assert_eq!((codes(&diagnoses.0), codes(&diagnoses.1)), (vec![], vec!["node_silent"]));
    insta::assert_snapshot!(diagnoses.1, @"
    problem: node `web-2` has sent no heartbeat for 32s (since 2027-01-01T00:00:00Z) and holds 1 job; it should have been declared dead after 15s
        → find the leader of `maintenance` with `punctual leader` and check its log
    1 problem, 0 warnings; checked: a database, 2 nodes, 1 queue/kind pair and 0 schedules
    ");
}

#[tokio::test]
async fn history_that_nobody_prunes_is_told() {
    let diagnosis = on_both(async |world| {
        let leading = web_1(world).await;
        for outcome in [Outcome::Done, boom()] {
            world.enqueue(NewJob { max_attempts: 1, ..world.new_job() }).await;
            let claimed = world.claim_one(leading).await;
            world.settle(&claimed, outcome).await;
        }
        let counter = RollupCount {
            minute: world.now(),
            metric: "attempts".to_owned(),
            queue: "default".to_owned(),
            kind: "mail".to_owned(),
            count: 2,
            sum: 0,
        };
        world.store().roll_up(&[counter]).await.unwrap();
        let fence = world.lead("maintenance", leading).await;
        let lost = node(world, "web-2", &["default"], &["mail"]).await;
        pass(world, 20, leading, std::slice::from_ref(&fence)).await;
        assert_eq!(world.reap(&fence).await.dead, [lost]);
        leap(world, 14 * 86_400, leading, std::slice::from_ref(&fence)).await;
        let soon = look(world, &Thresholds::default()).await;
        assert_eq!(codes(&soon), ["history_overdue", "failed_jobs"]);
        leap(world, 400 * 86_400, leading, &[fence]).await;
        look(world, &Thresholds::default()).await
    })
    .await;
    insta::assert_snapshot!(diagnosis, @"
    problem: old history is not pruned: job 01a2ce8b-d400-7000-a698-4080bab12a02 succeeded at 2027-01-01T00:00:00Z (retention 14d); job 01a2ce8b-d400-7000-b3d3-3b666a1e21da failed at 2027-01-01T00:00:00Z (retention 90d); statistics from 2027-01-01T00:00:00Z (retention 365d); 1 node dead since before 2028-02-17T00:00:20Z (retention 1d)
        → check that a node leads `maintenance` (`punctual leader`) and read its log; or the nodes are configured with a longer retention
    warning: 1 failed job: 1 of kind `mail` in queue `default`
        → list them: `punctual job list --state failed`; after fixing the cause, retry all: `punctual job retry --all-matching state:failed`
    1 problem, 1 warning; checked: a database, 2 nodes, 1 queue/kind pair and 0 schedules
    ");
}
