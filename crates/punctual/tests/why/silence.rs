//! A database that does not answer, and what programs read.

use punctual::why;
use punctual_conformance::{Fault, Faulty, World};
use punctual_store::memory::Memory;
use punctual_store::{NewJob, QueueChange};

use crate::common::*;
use crate::{codes, why_job, why_queue, why_schedule};

fn lost(fails: &'static str) -> Faulty<Memory> {
    let memory = Memory::new(|| panic!("the clock is the test's"));
    let decide = move |method| match method == fails || fails == "*" {
        true => Fault::Request,
        false => Fault::None,
    };
    Faulty::new(memory, decide)
}

#[tokio::test]
async fn a_dead_database_is_an_answer_to_every_question() {
    let store = lost("*");
    let world = World::new(&store);
    let job = why_job(&world, world.job_id()).await;
    for why in [&job, &why_schedule(&world, "nightly").await, &why_queue(&world, "default").await] {
        assert_eq!((why.state.as_str(), codes(why)), ("unknown", vec!["database_unreachable"]));
    }
    let key = why::key(world.store(), world.at(), &world.new_job()).await.unwrap();
    assert_eq!(codes(&key), ["database_unreachable"]);
    insta::assert_snapshot!(job, @"
    job 01a2ce8b-d400-7000-844c-3cd7f43c661c: unknown
    - the database is unavailable: the connection was lost; it is unknown whether the request was applied
        → check that the database is running and reachable from this host; nodes reconnect automatically
    ");
}

/// Whatever is read last may be what fails.
#[tokio::test]
async fn a_database_that_dies_in_between_is_dead_as_well() {
    for fails in ["now", "nodes", "leaders", "queues", "queue_stats", "jobs", "job"] {
        let store = lost(fails);
        let world = World::new(&store);
        let job = world.enqueue_one().await;
        let why = why_job(&world, job).await;
        assert_eq!(codes(&why), ["database_unreachable"], "{fails}");
    }
}

#[tokio::test]
async fn programs_read_the_same_as_people() {
    let memory = Memory::new(|| panic!("the clock is the test's"));
    let world = World::new(&memory);
    web_1(&world).await;
    change_queue(&world, "it's late", QueueChange::Pause { until: None }).await;
    let job = NewJob { queue: "it's late".to_owned(), ..world.new_job() };
    let job = world.enqueue(job).await;
    let why = why::job(world.store(), world.at(), job).await.unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&why).unwrap(), @r#"
    {
      "subject": "job 01a2ce8b-d400-7000-a698-4080bab12a02 of kind `mail` in queue `it's late`",
      "state": "ready",
      "reasons": [
        {
          "code": "paused_queue",
          "text": "queue `it's late` is paused by ana for less than 1s (since 2027-01-01T00:00:00Z): index rebuild; the pause has no end time",
          "remedy": "resume it: `punctual queue resume 'it'\\''s late'`"
        },
        {
          "code": "no_node_for_queue",
          "text": "no live node serves queue `it's late`: `web-1` serves `default`",
          "remedy": "start a node that serves it, or restart one with `--queue default,'it'\\''s late'`"
        },
        {
          "code": "next_to_start",
          "text": "ready for less than 1s (since 2027-01-01T00:00:00Z); it is next to start once the reasons above are resolved",
          "remedy": null
        }
      ]
    }
    "#);
}
