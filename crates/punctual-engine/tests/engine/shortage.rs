//! A node that lacks memory, processes or open files.

use punctual_core::job::{JobState, Outcome, RESOURCE_RELEASES_MAX};
use punctual_engine::{Attempt, Ended};
use punctual_store::NewJob;

use crate::world::*;

fn lacking() -> Outcome {
    Outcome::OutOfResources("Too many open files".to_owned())
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_resources_is_released_and_does_not_count() {
    let world = World::new();
    let handler = |attempt: Attempt| async move {
        Ended::from(if attempt.job.attempt <= 2 { lacking() } else { Outcome::Done })
    };
    let _node = world.start(config("a", 3), on("mail", handler)).await;
    let job = world.enqueue(NewJob { max_attempts: 1, ..world.job("mail") }).await;
    let detail = world.comes_to(job, JobState::Succeeded).await;
    assert_eq!((detail.view.attempt, detail.spent), (3, 1));
    assert_eq!(world.outcomes(job).await, ["released", "released", "succeeded"]);
    assert_eq!(detail.attempts[0].error.as_deref(), Some("Too many open files"));
    let wait = detail.attempts[1].claimed_at.since(detail.attempts[0].ended_at.unwrap());
    assert!((s(5)..s(7)).contains(&wait), "{wait:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_never_has_resources_fails_in_the_end() {
    let world = World::new();
    let _node = world.start(config("a", 3), on("mail", ends(lacking()))).await;
    let job = world.enqueue(NewJob { max_attempts: 1, ..world.job("mail") }).await;
    let detail = world.comes_to(job, JobState::Failed).await;
    assert_eq!((detail.view.attempt, detail.spent), (RESOURCE_RELEASES_MAX + 1, 1));
    assert_eq!(detail.view.error.as_deref(), Some("Too many open files"));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_keeps_lacking_resources_stops_claiming_for_a_while() {
    let world = World::new();
    let handlers = and(on("mail", ends(lacking())), "other", done);
    let node = world.start(config("a", 3), handlers).await;
    for _ in 0..3 {
        world.enqueue(NewJob { max_attempts: 1, ..world.job("mail") }).await;
    }
    assert!(!node.health().lacks_resources);
    world.pass(s(1)).await;
    assert!(node.health().lacks_resources);
    let began = world.now();
    let job = world.enqueue(world.job("other")).await;
    world.comes_to(job, JobState::Succeeded).await;
    let waited = world.now() - began;
    assert!((s(8)..s(12)).contains(&waited), "{waited:?}");
}

/// Snoozes and a retry by hand use nothing of the quota.
#[tokio::test(start_paused = true)]
async fn only_attempts_without_resources_use_the_quota() {
    let world = World::new();
    let handler = |attempt: Attempt| async move {
        Ended::from(match attempt.job.attempt {
            1..=12 => Outcome::Snooze(s(1)),
            13..=14 => lacking(),
            _ => Outcome::Done,
        })
    };
    let _node = world.start(config("a", 3), on("mail", handler)).await;
    let job = world.enqueue(NewJob { max_attempts: 1, ..world.job("mail") }).await;
    let detail = world.comes_to(job, JobState::Succeeded).await;
    assert_eq!((detail.view.attempt, detail.spent), (15, 1));
}
