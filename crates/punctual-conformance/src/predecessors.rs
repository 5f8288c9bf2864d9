//! Faults of earlier systems, each by its scenario and with the right behaviour.

use std::time::Duration;

use punctual_core::job::{JobState, Outcome};
use punctual_store::*;

use crate::World;
use crate::world::{actor, failure, join_all, json};

fn keyed(world: &World<'_>, key: &str) -> NewJob {
    let unique = UniqueKey {
        key: key.to_owned(),
        scope: KeyScope::Kind,
        lifetime: KeyLifetime::Job,
        is_by_payload: false,
    };
    NewJob { unique: Some(unique), ..world.new_job() }
}

/// A worker that lost its claim for minutes completed or re-queued the run that another had just
/// started, and its heartbeat kept a dead owner's row alive.
pub async fn f5_results_are_fenced(world: &World<'_>) {
    let (lost, leading) = (world.join().await, world.join().await);
    let fence = world.lead("maintenance", leading).await;
    world.enqueue_one().await;
    let old = world.claim_one(lost).await;
    for _ in 0..75 {
        world.pass(4);
        world.beat(leading, std::slice::from_ref(&fence)).await;
    }
    world.reap(&fence).await;
    world.pass(5);
    world.store().promote(world.at(), 10).await.unwrap();
    let new = world.claim_one(leading).await;
    for outcome in [Outcome::Done, failure(), Outcome::Released] {
        assert_eq!(world.settle(&old, outcome).await, Settled::Fenced);
    }
    // Its heartbeat keeps nothing alive and tells it so.
    let beaten = world.beat(lost, &[]).await;
    assert_eq!((beaten.alive, beaten.cancels), (false, Vec::new()));
    assert_eq!(world.settle(&new, Outcome::Done).await, Settled::Applied(JobState::Succeeded));
}

/// The winner of a key finished between insert and look-up, and the caller got the id of a job
/// that did not exist. Two job types with one key collided.
pub async fn f7_a_duplicate_is_a_job_that_exists(world: &World<'_>) {
    let node = world.join().await;
    for round in 0..5 {
        let jobs = [keyed(world, "k"), NewJob { kind: "other".to_owned(), ..keyed(world, "k") }];
        for (job, answer) in jobs.iter().zip(world.enqueue_all(&jobs).await) {
            let id = match answer {
                EnqueueAnswer::Created => job.id,
                EnqueueAnswer::Duplicate(id) => id,
                EnqueueAnswer::Rejected(why) => panic!("{why:?}"),
            };
            assert!(world.store().job(id).await.unwrap().is_some(), "round {round}");
        }
        let ask =
            ClaimAsk { kinds: vec!["mail".to_owned(), "other".to_owned()], ..world.ask(node, 10) };
        let claimed = world.claim(&ask).await;
        assert_eq!(claimed.len(), 2);
        for job in &claimed {
            world.settle(job, Outcome::Done).await;
        }
    }
}

/// Strict priority starved low jobs, and a batch came back in no order.
pub async fn f16_a_batch_runs_in_order_and_nothing_starves(world: &World<'_>) {
    let node = world.join().await;
    let low = world.enqueue(NewJob { priority: -100, ..world.new_job() }).await;
    // A stream of urgent jobs for as long as the difference in priority is worth.
    let mut claimed_low = false;
    for _ in 0..=100 {
        world.pass(60);
        for priority in [0, 10, 5] {
            world.enqueue(NewJob { priority, ..world.new_job() }).await;
        }
        let jobs = world.claim(&world.ask(node, 3)).await;
        let ranks: Vec<_> =
            jobs.iter().map(|job| (rules::rank(job.due_at, job.priority), job.id)).collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
        claimed_low |= jobs.iter().any(|job| job.id == low);
    }
    assert!(claimed_low, "the low-priority job starved");
}

/// Success did not free the key, and equal contexts hashed differently because a map has no order.
pub async fn c4_equal_payloads_are_duplicates_and_success_frees_the_key(world: &World<'_>) {
    let node = world.join().await;
    let with = |payload: &str| NewJob { payload: json(payload), ..keyed(world, "k") };
    let first = world.enqueue(with(r#"{"a":1,"b":2,"c":3}"#)).await;
    for same in [r#"{"b":2,"a":1,"c":3}"#, r#"{"c":3,"b":2,"a":1}"#] {
        assert_eq!(world.enqueue_all(&[with(same)]).await, [EnqueueAnswer::Duplicate(first)]);
    }
    let job = world.claim_one(node).await;
    world.settle(&job, Outcome::Done).await;
    world.enqueue(with(r#"{"a":9}"#)).await;
}

/// A finished task was claimed again, a lost owner's release cleared the new owner's claim, and a
/// sweeper set completed tasks back to ready.
pub async fn c7_a_claim_is_a_lease(world: &World<'_>) {
    let (one, other) = (world.join().await, world.join().await);
    let fence = world.lead("maintenance", other).await;
    let id = world.enqueue_one().await;
    let first = world.claim_one(one).await;
    world.settle(&first, Outcome::Released).await;
    let second = world.claim_one(other).await;
    // (b) The first owner releases once more.
    assert_eq!(world.settle(&first, Outcome::Released).await, Settled::Already);
    assert_eq!(world.state(id).await, JobState::Running);
    assert_eq!(world.beat(other, &[]).await.strays.len(), 1);
    // (a) Finished is finished.
    world.settle(&second, Outcome::Done).await;
    assert_eq!(world.claim(&world.ask(one, 10)).await, []);
    // (c) The sweeper comes after the completion.
    for _ in 0..10 {
        world.pass(4);
        world.beat(other, std::slice::from_ref(&fence)).await;
    }
    assert_eq!(world.reap(&fence).await.jobs, []);
    assert_eq!(world.state(id).await, JobState::Succeeded);
}

/// The isolation that the claim relied on was never in force.
pub async fn c16_concurrent_claims_never_share_a_job(world: &World<'_>) {
    let node = world.join().await;
    let jobs: Vec<NewJob> = (0..200).map(|_| world.new_job()).collect();
    world.enqueue_all(&jobs).await;
    let asks: Vec<ClaimAsk> = (0..40).map(|_| world.ask(node, 10)).collect();
    let claims = asks.iter().map(|ask| world.store().claim(world.at(), ask));
    let mut seen = std::collections::HashSet::new();
    for claimed in join_all(claims.collect()).await {
        for job in claimed.unwrap().jobs {
            assert!(seen.insert(job.id), "{} was claimed twice", job.id);
        }
    }
    assert_eq!(seen.len(), 200);
}

/// A handler longer than the visibility timeout ran twice, and the late first run deleted or
/// re-queued the second's row.
pub async fn q2_a_late_worker_changes_nothing(world: &World<'_>) {
    let (slow, other) = (world.join().await, world.join().await);
    let fence = world.lead("maintenance", other).await;
    let id = world.enqueue_one().await;
    let first = world.claim_one(slow).await;
    // An hour of work with heartbeats: nobody takes it away.
    for _ in 0..900 {
        world.pass(4);
        world.beat(slow, &[]).await;
        world.beat(other, std::slice::from_ref(&fence)).await;
    }
    assert_eq!(world.reap(&fence).await.jobs, []);
    assert_eq!(world.claim(&world.ask(other, 10)).await, []);
    assert_eq!(world.settle(&first, Outcome::Done).await, Settled::Applied(JobState::Succeeded));
    assert_eq!(world.job(id).await.attempts.len(), 1);
}

/// Check, then insert: two callers both saw nothing and both inserted, and neither was told.
pub async fn q5_concurrent_callers_with_one_key_make_one_job(world: &World<'_>) {
    let jobs: Vec<NewJob> = (0..20).map(|_| keyed(world, "k")).collect();
    let calls = jobs.iter().map(|job| world.store().enqueue(world.at(), std::slice::from_ref(job)));
    let answers: Vec<EnqueueAnswer> = join_all(calls.collect())
        .await
        .into_iter()
        .flat_map(|enqueued| enqueued.unwrap().answers)
        .collect();
    let created: Vec<_> = jobs
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| **answer == EnqueueAnswer::Created)
        .map(|(job, _)| job.id)
        .collect();
    assert_eq!(created.len(), 1);
    let duplicates =
        answers.iter().filter(|answer| **answer == EnqueueAnswer::Duplicate(created[0])).count();
    assert_eq!(duplicates, 19);
    // The key minds the tenant.
    let foreign = NewJob { tenant: "acme".to_owned(), ..keyed(world, "k") };
    assert_eq!(world.enqueue_all(&[foreign]).await, [EnqueueAnswer::Created]);
}

/// Times were bound as text, which one of the two databases refused in enqueue, reaper, fail and
/// release; and delayed jobs were counted wrongly.
pub async fn q7_time_works_on_every_store(world: &World<'_>) {
    let (node, leading) = (world.join().await, world.join().await);
    let fence = world.lead("maintenance", leading).await;
    let later = NewJob { delay: Delay::For(Duration::from_micros(1_500_001)), ..world.new_job() };
    let later = world.enqueue(later).await;
    let due_at = Some(world.now() + Duration::from_micros(1_500_001));
    assert_eq!(world.job(later).await.view.due_at, due_at);
    assert_eq!(world.store().queue_stats(None, 10).await.unwrap().items[0].scheduled, 1);
    for outcome in [Some(failure()), Some(Outcome::Released), None] {
        world.enqueue_one().await;
        let job = world.claim_one(node).await;
        if let Some(outcome) = outcome {
            assert!(matches!(world.settle(&job, outcome).await, Settled::Applied(_)));
            world.store().cancel(world.at(), job.id, &actor()).await.unwrap();
        }
    }
    for _ in 0..5 {
        world.pass(4);
        world.beat(leading, std::slice::from_ref(&fence)).await;
    }
    assert_eq!(world.reap(&fence).await.jobs.len(), 1);
}

/// Times compared as text sort wrongly as soon as two writers spell them differently.
pub async fn q8_instants_are_compared_as_numbers(world: &World<'_>) {
    let node = world.join().await;
    let start = world.now();
    let mut expected = Vec::new();
    // Fractions of different length, across a change of the number of digits.
    for micros in [1_u64, 10, 100_000, 999_999, 1_000_000, 1_000_001, 9_999_999, 10_000_000] {
        let delay = Delay::Until(start + Duration::from_micros(micros));
        expected.push(world.enqueue(NewJob { delay, ..world.new_job() }).await);
    }
    for id in expected {
        let due = world.job(id).await.view.due_at.unwrap();
        world.set(punctual_core::Timestamp::from_micros(due.as_micros() - 1));
        assert_eq!(
            world.store().promote(world.at(), 10).await.unwrap().queues.len(),
            0,
            "early: {due}"
        );
        world.set(due);
        assert_eq!(
            world.store().promote(world.at(), 10).await.unwrap().queues.len(),
            1,
            "late: {due}"
        );
        assert_eq!(world.claim_one(node).await.id, id);
    }
}

/// Failed and delayed rows stood in the index that every claim walked.
pub async fn q9_failed_and_delayed_jobs_are_not_in_the_way(world: &World<'_>) {
    let node = world.join().await;
    for _ in 0..50 {
        world.enqueue(NewJob { max_attempts: 1, ..world.new_job() }).await;
        world
            .enqueue(NewJob { delay: Delay::For(Duration::from_secs(3_600)), ..world.new_job() })
            .await;
    }
    for job in world.claim(&world.ask(node, 50)).await {
        world.settle(&job, failure()).await;
    }
    assert_eq!(world.claim(&world.ask(node, 10)).await, []);
    let id = world.enqueue_one().await;
    assert_eq!(world.claim_one(node).await.id, id);
}

/// A bad head row rolled the claim back and was picked again; "retries" were attempts.
pub async fn q11_a_bad_row_fails_alone_and_attempts_mean_attempts(world: &World<'_>) {
    let node = world.join().await;
    let bad = world.enqueue_one().await;
    let good = world.enqueue(NewJob { max_attempts: 2, ..world.new_job() }).await;
    world.spoil(rules::Spoil::Body(bad)).await;
    let claimed = world.claim(&world.ask(node, 10)).await;
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), [good]);
    assert_eq!(world.settle(&claimed[0], failure()).await, Settled::Applied(JobState::Retrying));
    world.pass(5);
    world.store().promote(world.at(), 10).await.unwrap();
    let second = world.claim_one(node).await;
    assert_eq!(world.settle(&second, failure()).await, Settled::Applied(JobState::Failed));
    let failed = JobFilter { state: Some(JobState::Failed), ..JobFilter::default() };
    assert_eq!(world.store().jobs(&failed, None, 10).await.unwrap().items.len(), 2);
}
