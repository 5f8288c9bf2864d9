//! Everything that `doctor` finds, reached for real on two stores, which must agree, and read as
//! people read it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod nodes;
mod queues;
mod schedules;

use punctual::doctor::{Diagnosis, Severity, Thresholds, examine};
use punctual_conformance::{Fault, Faulty, World};
use punctual_core::{NodeId, Timestamp};
use punctual_store::Fence;
use punctual_store::memory::Memory;

use crate::common::*;

/// Looks with the clock of this host right; which database it is differs from store to store.
pub(crate) async fn look(world: &World<'_>, limits: &Thresholds) -> Diagnosis {
    let mut diagnosis = examine(world.store(), world.at(), world.now(), limits).await;
    diagnosis.examined.database = Some("a database".to_owned());
    diagnosis
}

/// A node at work that leads what there is to lead.
pub(crate) async fn well(world: &World<'_>) -> (NodeId, [Fence; 2]) {
    let node = web_1(world).await;
    let maintenance = world.lead("maintenance", node).await;
    (node, [maintenance, world.lead("scheduler/0", node).await])
}

pub(crate) fn codes(diagnosis: &Diagnosis) -> Vec<&'static str> {
    diagnosis.findings.iter().map(|finding| finding.code).collect()
}

#[tokio::test]
async fn an_installation_that_is_well_is_healthy() {
    let diagnosis = on_both(async |world| {
        well(world).await;
        schedule(world, "nightly", &every_minute()).await;
        world.enqueue_one().await;
        look(world, &Thresholds::default()).await
    })
    .await;
    assert!(diagnosis.is_healthy());
    insta::assert_snapshot!(diagnosis, @"no problems found; checked: a database, 1 node, 1 queue/kind pair and 1 schedule");
}

#[tokio::test]
async fn a_host_whose_clock_is_off_is_told_by_how_much() {
    let diagnoses = on_both(async |world| {
        well(world).await;
        let mut diagnoses = Vec::new();
        let now = world.now();
        for wall in [now + seconds(1), now + seconds(2), now - seconds(90)] {
            let limits = Thresholds::default();
            diagnoses.push(examine(world.store(), world.at(), wall, &limits).await.findings);
        }
        diagnoses
    })
    .await;
    assert_eq!(diagnoses[0], []);
    assert_eq!(diagnoses[1][0].severity, Severity::Warning);
    assert_eq!(diagnoses[2][0].severity, Severity::Problem);
    insta::assert_snapshot!(diagnoses[1][0].text, @"the clock of this host is 2s ahead of the database clock (2027-01-01T00:00:00Z); slots and leases use the database clock, ids and logs the host clock");
    insta::assert_snapshot!(diagnoses[2][0].text, @"the clock of this host is 1m30s behind the database clock (2027-01-01T00:00:00Z); slots and leases use the database clock, ids and logs the host clock");
}

#[tokio::test]
async fn a_schema_of_another_program_is_told() {
    let memory = Memory::new(|| panic!("the clock is the test's"));
    let world = World::new(&memory);
    well(&world).await;
    let look = async |schema| {
        look(&world, &Thresholds { schema: Some(schema), ..Thresholds::default() }).await
    };
    assert_eq!(codes(&look(1).await), [""; 0]);
    insta::assert_snapshot!(look(2).await, @"
    problem: the database schema is version 1, this program requires 2
        → upgrade the schema: `punctual db migrate`
    1 problem, 0 warnings; checked: a database, 1 node, 0 queue/kind pairs and 0 schedules
    ");
    insta::assert_snapshot!(look(0).await, @"
    warning: the database schema is version 1, this program supports up to 0
        → upgrade this program
    0 problems, 1 warning; checked: a database, 1 node, 0 queue/kind pairs and 0 schedules
    ");
}

#[tokio::test]
async fn a_failover_is_told_for_a_day() {
    let memory = Memory::new(|| Timestamp::from_seconds(1_798_761_600));
    let world = World::new(&memory);
    well(&world).await;
    memory.restore(memory.snapshot());
    insta::assert_snapshot!(look(&world, &Thresholds::default()).await, @"
    warning: database failover or restore detected at 2027-01-01T00:00:00Z: the last writes before it may be lost, and jobs that ran just before it may run again
        → compare the records of your programs with `punctual job list`; a synchronous standby prevents such losses
    0 problems, 1 warning; checked: a database, 1 node, 0 queue/kind pairs and 0 schedules
    ");
    let limits = Thresholds { node_lifetime: seconds(200_000), ..Thresholds::default() };
    world.pass(86_400);
    assert!(codes(&look(&world, &limits).await).contains(&"failover_detected"));
    world.pass(1);
    assert!(!codes(&look(&world, &limits).await).contains(&"failover_detected"));
}

#[tokio::test]
async fn a_dead_database_is_a_finding() {
    let memory = Memory::new(|| panic!("the clock is the test's"));
    let store = Faulty::new(memory, |_| Fault::Request);
    let world = World::new(&store);
    let diagnosis = examine(world.store(), world.at(), world.now(), &Thresholds::default()).await;
    assert!(!diagnosis.is_healthy());
    insta::assert_snapshot!(diagnosis, @"
    problem: the database is unavailable: the connection was lost; it is unknown whether the request was applied
        → check that the database is running and reachable from this host; nodes reconnect automatically
    1 problem, 0 warnings; checked: nothing
    ");
}

/// What was found before is not lost.
#[tokio::test]
async fn a_database_that_dies_in_between_leaves_what_was_found() {
    for fails in ["leaders", "queues", "queue_stats", "schedules", "slots", "jobs", "rollups"] {
        let memory = Memory::new(|| panic!("the clock is the test's"));
        let decide = move |method| match method == fails {
            true => Fault::Request,
            false => Fault::None,
        };
        let store = Faulty::new(memory, decide);
        let world = World::new(&store);
        schedule(&world, "nightly", &every_minute()).await;
        let found = codes(&look(&world, &Thresholds::default()).await);
        assert!(found.contains(&"database_unreachable"), "{fails}: {found:?}");
        assert_eq!(found.contains(&"no_node"), fails != "leaders", "{fails}: {found:?}");
    }
}

#[tokio::test]
async fn programs_read_the_same_as_people() {
    let memory = Memory::new(|| panic!("the clock is the test's"));
    let world = World::new(&memory);
    let diagnosis = look(&world, &Thresholds::default()).await;
    insta::assert_snapshot!(serde_json::to_string_pretty(&diagnosis).unwrap(), @r#"
    {
      "examined": {
        "at": "2027-01-01T00:00:00Z",
        "database": "a database",
        "nodes": 0,
        "kinds": 0,
        "schedules": 0,
        "histories": 0,
        "left_out": []
      },
      "findings": [
        {
          "code": "no_node",
          "severity": "problem",
          "text": "no live nodes",
          "remedy": "start a node, for example: `punctual serve`; until then, no schedules fire and no jobs run"
        }
      ]
    }
    "#);
}
