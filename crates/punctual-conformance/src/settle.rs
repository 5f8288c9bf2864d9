//! Ending attempts: the lease is the fence, and every item has an answer of its own.

use std::time::Duration;

use punctual_core::job::{AttemptOutcome, JobState, Outcome, RESOURCE_RELEASES_MAX};
use punctual_store::*;

use crate::World;
use crate::world::{actor, failure, json};

/// Only releases for lack of resources use the quota of such releases; a retry by hand restores it.
pub async fn only_releases_for_lack_of_resources_use_their_quota(world: &World<'_>) {
    let node = world.join().await;
    let id = world.enqueue(NewJob { max_attempts: 2, ..world.new_job() }).await;
    let shortage = || Outcome::OutOfResources("Too many open files".to_owned());
    let next = async |releases: u32| {
        world.pass(60);
        world.store().promote(world.at(), 10).await.unwrap();
        let job = world.claim_one(node).await;
        assert_eq!((job.id, job.resource_releases), (id, releases), "attempt {}", job.attempt);
        job
    };
    for _ in 0..12 {
        let job = next(0).await;
        world.settle(&job, Outcome::Snooze(Duration::from_secs(1))).await;
    }
    world.settle(&next(0).await, Outcome::Released).await;
    for releases in 0..RESOURCE_RELEASES_MAX {
        let job = next(releases).await;
        let state = world.settle_all(&[world.settlement(&job, shortage())]).await;
        assert_eq!(state, [Settled::Applied(JobState::Retrying)]);
        assert_eq!(world.job(id).await.spent, 0);
    }
    world.settle(&next(RESOURCE_RELEASES_MAX).await, shortage()).await;
    assert_eq!(world.job(id).await.spent, 1);
    let job = next(RESOURCE_RELEASES_MAX).await;
    assert_eq!((job.spent, job.standing().resource_releases), (1, RESOURCE_RELEASES_MAX));
    let state = world.settle_all(&[world.settlement(&job, shortage())]).await;
    assert_eq!(state, [Settled::Applied(JobState::Failed)]);
    world.store().requeue(world.at(), &[id], &actor()).await.unwrap();
    world.settle(&next(0).await, shortage()).await;
    let job = next(1).await;
    assert_eq!(job.spent, 0);
}

/// The result is kept, the attempt is told, the job is over.
pub async fn success_ends_a_job(world: &World<'_>) {
    let node = world.join().await;
    let id = world.enqueue_one().await;
    let claimed_at = world.now();
    let job = world.claim_one(node).await;
    world.pass(3);
    let settlement =
        Settlement { result: Some(json("[1]")), ..world.settlement(&job, Outcome::Done) };
    assert_eq!(world.settle_all(&[settlement]).await, [Settled::Applied(JobState::Succeeded)]);
    let found = world.job(id).await;
    assert_eq!(
        (found.view.state, found.view.finished_at),
        (JobState::Succeeded, Some(world.now()))
    );
    assert_eq!((found.view.attempt, found.spent, found.view.due_at), (1, 1, None));
    assert_eq!((found.result, found.view.error), (Some(json("[1]")), None));
    let attempt = AttemptView {
        attempt: 1,
        node: Some(node),
        claimed_at,
        ended_at: Some(world.now()),
        outcome: Some(AttemptOutcome::Succeeded),
        error: None,
    };
    assert_eq!(found.attempts, [attempt]);
    assert_eq!(world.claim(&world.ask(node, 10)).await, []);
}

/// Lets the job of a silent node be taken back and claimed by another.
async fn reclaimed(world: &World<'_>) -> (ClaimedJob, ClaimedJob) {
    let (dead, living) = (world.join().await, world.join().await);
    let fence = world.lead("maintenance", living).await;
    world.enqueue_one().await;
    let stale = world.claim_one(dead).await;
    world.steady(living, &fence).await;
    assert_eq!(world.reap(&fence).await.jobs.len(), 1);
    world.pass(5);
    world.store().promote(world.at(), 10).await.unwrap();
    let current = world.claim_one(living).await;
    assert_eq!((stale.id, stale.attempt, current.attempt), (current.id, 1, 2));
    (stale, current)
}

/// Whatever a late worker reports, the newer attempt does not notice.
pub async fn stale_worker_cannot_settle_a_reclaimed_job(world: &World<'_>) {
    let (stale, current) = reclaimed(world).await;
    for outcome in
        [Outcome::Done, failure(), Outcome::Released, Outcome::Snooze(Duration::from_secs(1))]
    {
        assert_eq!(world.settle(&stale, outcome).await, Settled::Fenced);
    }
    assert_eq!(world.state(current.id).await, JobState::Running);
    assert_eq!(world.settle(&current, Outcome::Done).await, Settled::Applied(JobState::Succeeded));
    assert_eq!(world.settle(&stale, Outcome::Done).await, Settled::Fenced);
}

/// Also before anybody claims the job again; and the reaper's word is not the worker's.
pub async fn reaped_lease_cannot_settle(world: &World<'_>) {
    let (dead, living) = (world.join().await, world.join().await);
    let fence = world.lead("maintenance", living).await;
    world.enqueue_one().await;
    let stale = world.claim_one(dead).await;
    world.steady(living, &fence).await;
    assert_eq!(world.reap(&fence).await.dead, [dead]);
    assert_eq!(world.settle(&stale, Outcome::Done).await, Settled::Fenced);
    assert_eq!(world.settle(&stale, failure()).await, Settled::Fenced);
    assert_eq!(world.state(stale.id).await, JobState::Retrying);
}

/// A reply that got lost is asked for again, and all is well.
pub async fn the_same_settle_twice_is_success(world: &World<'_>) {
    let node = world.join().await;
    for outcome in [Outcome::Done, failure(), Outcome::Released, Outcome::Cancel("no".to_owned())] {
        world.enqueue_one().await;
        let job = world.claim_one(node).await;
        let settlement = world.settlement(&job, outcome);
        assert!(matches!(
            world.settle_all(std::slice::from_ref(&settlement)).await[0],
            Settled::Applied(_)
        ));
        let before = world.job(job.id).await;
        for _ in 0..2 {
            assert_eq!(
                world.settle_all(std::slice::from_ref(&settlement)).await,
                [Settled::Already]
            );
        }
        assert_eq!(world.job(job.id).await, before);
        world.store().cancel(world.at(), job.id, &actor()).await.unwrap();
    }
}

/// A batch may hold an old and a new lease of one job; each is answered for itself.
pub async fn answers_are_per_item_even_with_two_leases_of_one_job(world: &World<'_>) {
    let (stale, current) = reclaimed(world).await;
    let batch = [
        world.settlement(&stale, Outcome::Done),
        world.settlement(&current, Outcome::Done),
        world.settlement(&stale, failure()),
        world.settlement(&current, Outcome::Done),
    ];
    let answers = world.settle_all(&batch).await;
    assert_eq!(
        answers,
        [Settled::Fenced, Settled::Applied(JobState::Succeeded), Settled::Fenced, Settled::Already]
    );
}

/// They are numbered and told, but the attempts that count stay.
pub async fn released_and_snoozed_attempts_do_not_count(world: &World<'_>) {
    let node = world.join().await;
    let id = world.enqueue(NewJob { max_attempts: 1, ..world.new_job() }).await;
    for attempt in 1..=3 {
        let job = world.claim_one(node).await;
        assert_eq!((job.attempt, job.spent), (attempt, 0));
        assert_eq!(world.settle(&job, Outcome::Released).await, Settled::Applied(JobState::Ready));
    }
    for attempt in 4..=6 {
        let job = world.claim_one(node).await;
        assert_eq!((job.attempt, job.spent), (attempt, 0));
        let snooze = Outcome::Snooze(Duration::from_secs(1));
        assert_eq!(world.settle(&job, snooze).await, Settled::Applied(JobState::Retrying));
        world.pass(1);
        world.store().promote(world.at(), 10).await.unwrap();
    }
    let job = world.claim_one(node).await;
    assert_eq!(world.settle(&job, failure()).await, Settled::Applied(JobState::Failed));
    assert_eq!(world.job(id).await.spent, 1);
}

/// The wait is the policy's, the error is told.
pub async fn a_failure_waits_and_counts(world: &World<'_>) {
    let node = world.join().await;
    let id = world.enqueue_one().await;
    let job = world.claim_one(node).await;
    assert_eq!(world.settle(&job, failure()).await, Settled::Applied(JobState::Retrying));
    let found = world.job(id).await;
    assert_eq!(found.view.due_at, Some(world.now() + Duration::from_secs(5)));
    assert_eq!((found.view.attempt, found.spent, found.crashes), (1, 1, 0));
    assert_eq!(found.attempts[0].error.as_deref(), Some("boom"));
    assert_eq!(world.claim(&world.ask(node, 10)).await, []);
    world.pass(4);
    assert_eq!(world.store().promote(world.at(), 10).await.unwrap().queues.len(), 0);
    world.pass(1);
    world.store().promote(world.at(), 10).await.unwrap();
    let job = world.claim_one(node).await;
    assert_eq!((job.attempt, job.spent), (2, 1));
}

/// When the attempts are used up.
pub async fn the_last_failure_is_the_dead_letter(world: &World<'_>) {
    let node = world.join().await;
    let id = world.enqueue(NewJob { max_attempts: 2, ..world.new_job() }).await;
    for state in [JobState::Retrying, JobState::Failed] {
        let job = world.claim_one(node).await;
        assert_eq!(world.settle(&job, failure()).await, Settled::Applied(state));
        world.pass(5);
        world.store().promote(world.at(), 10).await.unwrap();
    }
    let found = world.job(id).await;
    assert_eq!(
        (found.view.error.as_deref(), found.attempts.len(), found.spent),
        (Some("boom"), 2, 2)
    );
    assert_eq!(world.claim(&world.ask(node, 10)).await, []);
}

/// It does not go to the end of the line because a node was restarted.
pub async fn a_released_job_keeps_its_place(world: &World<'_>) {
    let node = world.join().await;
    let first = world.enqueue_one().await;
    world.pass(1);
    let second = world.enqueue_one().await;
    let job = world.claim_one(node).await;
    world.pass(100);
    world.settle(&job, Outcome::Released).await;
    let order: Vec<_> = world.claim(&world.ask(node, 10)).await.iter().map(|job| job.id).collect();
    assert_eq!(order, [first, second]);
}

/// Who failed cannot have succeeded.
pub async fn another_outcome_of_a_settled_lease_is_fenced(world: &World<'_>) {
    let node = world.join().await;
    world.enqueue_one().await;
    let job = world.claim_one(node).await;
    world.settle(&job, failure()).await;
    assert_eq!(world.settle(&job, Outcome::Done).await, Settled::Fenced);
    assert_eq!(world.settle(&job, Outcome::Released).await, Settled::Fenced);
    assert_eq!(world.settle(&job, failure()).await, Settled::Already);
}

/// And nothing of the batch is applied.
pub async fn a_result_beyond_its_bound_is_refused(world: &World<'_>) {
    let node = world.join().await;
    let id = world.enqueue_one().await;
    let job = world.claim_one(node).await;
    let large = Json::new(&"x".repeat(limits::RESULT_BYTES_MAX)).unwrap();
    let settlement = Settlement { result: Some(large), ..world.settlement(&job, Outcome::Done) };
    let error = world.store().settle(world.at(), &[settlement]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_eq!(world.state(id).await, JobState::Running);
}

/// At a character's end.
pub async fn a_long_error_is_cut(world: &World<'_>) {
    let node = world.join().await;
    let id = world.enqueue(NewJob { max_attempts: 1, ..world.new_job() }).await;
    let job = world.claim_one(node).await;
    let error = "é".repeat(limits::ERROR_BYTES_MAX);
    world.settle(&job, Outcome::Fail(error.clone())).await;
    let found = world.job(id).await.view.error.unwrap();
    assert_eq!(found, limits::cut(&error, limits::ERROR_BYTES_MAX));
    assert_eq!(found.len(), limits::ERROR_BYTES_MAX);
}

/// So that a job that polls for years does not grow.
pub async fn a_snoozing_job_keeps_only_its_newest_snooze(world: &World<'_>) {
    let node = world.join().await;
    let id = world.enqueue_one().await;
    let job = world.claim_one(node).await;
    world.settle(&job, Outcome::Released).await;
    for _ in 0..5 {
        let job = world.claim_one(node).await;
        world.settle(&job, Outcome::Snooze(Duration::from_secs(1))).await;
        world.pass(1);
        world.store().promote(world.at(), 10).await.unwrap();
    }
    let attempts = world.job(id).await.attempts;
    let told: Vec<_> = attempts.iter().map(|attempt| (attempt.attempt, attempt.outcome)).collect();
    assert_eq!(told, [(1, Some(AttemptOutcome::Released)), (6, Some(AttemptOutcome::Snoozed))]);
}

/// There is nothing to settle, and nothing is made.
pub async fn an_unknown_job_is_fenced(world: &World<'_>) {
    let node = world.join().await;
    world.enqueue_one().await;
    let job = ClaimedJob { id: world.job_id(), ..world.claim_one(node).await };
    assert_eq!(world.settle(&job, Outcome::Done).await, Settled::Fenced);
    assert_eq!(world.store().job(job.id).await.unwrap(), None);
}
