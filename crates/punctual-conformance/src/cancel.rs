//! What operators do to jobs.

use std::time::Duration;

use punctual_core::job::{AttemptOutcome, JobState, Outcome};
use punctual_store::*;

use crate::World;
use crate::world::{actor, failure};

const REASON: &str = "cancelled by ana: index rebuild";

async fn cancel(world: &World<'_>, job: punctual_core::JobId) -> CancelAnswer {
    world.store().cancel(world.at(), job, &actor()).await.unwrap()
}

/// Ready or due later, it will not run, and says who stopped it.
pub async fn a_waiting_job_is_cancelled_at_once(world: &World<'_>) {
    let node = world.join().await;
    let ready = world.enqueue_one().await;
    let later = NewJob { delay: Delay::For(Duration::from_secs(60)), ..world.new_job() };
    let scheduled = world.enqueue(later).await;
    for id in [ready, scheduled] {
        assert_eq!(cancel(world, id).await, CancelAnswer::Cancelled);
        let view = world.job(id).await.view;
        assert_eq!((view.state, view.error.as_deref()), (JobState::Cancelled, Some(REASON)));
    }
    world.pass(60);
    world.store().promote(world.at(), 10).await.unwrap();
    assert_eq!(world.claim(&world.ask(node, 10)).await, []);
}

/// Its worker learns it from the next beat; what it reports then ends the job.
pub async fn a_running_job_is_asked_to_stop_and_not_retried(world: &World<'_>) {
    let node = world.join().await;
    for outcome in [failure(), Outcome::Released, Outcome::Snooze(Duration::from_secs(5))] {
        let id = world.enqueue_one().await;
        let job = world.claim_one(node).await;
        assert_eq!(cancel(world, id).await, CancelAnswer::Asked);
        assert_eq!(cancel(world, id).await, CancelAnswer::Asked);
        assert!(world.job(id).await.cancel_requested);
        assert_eq!(world.beat(node, &[]).await.cancels, [id]);
        let settlement = world.settlement(&job, outcome);
        let settle = || world.settle_all(std::slice::from_ref(&settlement));
        assert_eq!(settle().await, [Settled::Applied(JobState::Cancelled)]);
        assert_eq!(settle().await, [Settled::Already]);
        let found = world.job(id).await;
        assert_eq!(found.view.error.as_deref(), Some(REASON));
        assert_eq!(found.attempts[0].outcome, Some(AttemptOutcome::Cancelled));
    }
}

/// To ask is not to stop: work that is done is done.
pub async fn a_running_job_that_finishes_first_has_succeeded(world: &World<'_>) {
    let node = world.join().await;
    let id = world.enqueue_one().await;
    let job = world.claim_one(node).await;
    cancel(world, id).await;
    assert_eq!(world.settle(&job, Outcome::Done).await, Settled::Applied(JobState::Succeeded));
    assert_eq!(world.beat(node, &[]).await.cancels, []);
}

/// And an unknown one is not found.
pub async fn an_ended_job_cannot_be_cancelled(world: &World<'_>) {
    let node = world.join().await;
    let id = world.enqueue_one().await;
    let job = world.claim_one(node).await;
    world.settle(&job, Outcome::Done).await;
    assert_eq!(cancel(world, id).await, CancelAnswer::Ended(JobState::Succeeded));
    assert_eq!(cancel(world, world.job_id()).await, CancelAnswer::NotFound);
}

async fn requeue(world: &World<'_>, job: punctual_core::JobId) -> RequeueAnswer {
    world.store().requeue(world.at(), &[job], &actor()).await.unwrap()[0]
}

/// Its attempts go on counting upwards, so that no number is used twice.
pub async fn a_failed_job_can_be_requeued_with_all_attempts_before_it(world: &World<'_>) {
    let node = world.join().await;
    let id = world.enqueue(NewJob { max_attempts: 1, ..world.new_job() }).await;
    let job = world.claim_one(node).await;
    world.settle(&job, failure()).await;
    world.pass(60);
    assert_eq!(requeue(world, id).await, RequeueAnswer::Requeued);
    let view = world.job(id).await.view;
    assert_eq!((view.state, view.due_at, view.error), (JobState::Ready, Some(world.now()), None));
    let job = world.claim_one(node).await;
    assert_eq!((job.attempt, job.spent, job.crashes), (2, 0, 0));
    assert_eq!(world.settle(&job, Outcome::Done).await, Settled::Applied(JobState::Succeeded));
    assert_eq!(world.job(id).await.attempts.len(), 2);
}

/// It expires no more, and what its earlier attempts took is not held against it: somebody wants
/// it now.
pub async fn a_requeued_job_starts_afresh(world: &World<'_>) {
    let node = world.join().await;
    let id = world
        .enqueue(NewJob {
            budget: Some(Duration::from_secs(10)),
            start_within: Some(Duration::from_secs(60)),
            ..world.new_job()
        })
        .await;
    let job = world.claim_one(node).await;
    world.pass(7);
    world.settle(&job, Outcome::FailForGood("boom".to_owned())).await;
    assert_eq!(requeue(world, id).await, RequeueAnswer::Requeued);
    // In the same instant, whatever the clock says.
    let job = world.claim_one(node).await;
    assert_eq!((job.used, job.budget), (Duration::ZERO, Some(Duration::from_secs(10))));
    world.pass(100);
    assert_eq!(job.expires_at, None);
    world.settle(&job, Outcome::Released).await;
    let job = world.claim_one(node).await;
    assert_eq!((job.attempt, job.used), (3, Duration::from_secs(100)));
}

/// Unless another job has it by now.
pub async fn requeueing_takes_the_key_again(world: &World<'_>) {
    let node = world.join().await;
    let keyed = || {
        let unique = UniqueKey {
            key: "k".to_owned(),
            scope: KeyScope::Tenant,
            lifetime: KeyLifetime::Job,
            is_by_payload: false,
        };
        NewJob { unique: Some(unique), max_attempts: 1, ..world.new_job() }
    };
    let first = world.enqueue(keyed()).await;
    let job = world.claim_one(node).await;
    world.settle(&job, failure()).await;
    let second = world.enqueue(keyed()).await;
    assert_eq!(requeue(world, first).await, RequeueAnswer::KeyTaken(second));
    assert_eq!(world.state(first).await, JobState::Failed);
    cancel(world, second).await;
    assert_eq!(requeue(world, first).await, RequeueAnswer::Requeued);
    assert_eq!(world.enqueue_all(&[keyed()]).await, [EnqueueAnswer::Duplicate(first)]);
}

/// Each job is answered for itself.
pub async fn only_failed_and_cancelled_jobs_are_requeued(world: &World<'_>) {
    let node = world.join().await;
    let done = world.enqueue_one().await;
    let job = world.claim_one(node).await;
    world.settle(&job, Outcome::Done).await;
    let running = world.enqueue_one().await;
    world.claim_one(node).await;
    let ready = world.enqueue_one().await;
    let cancelled = world.enqueue_one().await;
    cancel(world, cancelled).await;
    let ids = [done, running, ready, world.job_id(), cancelled];
    let answers = world.store().requeue(world.at(), &ids, &actor()).await.unwrap();
    assert_eq!(
        answers,
        [
            RequeueAnswer::NotFailed(JobState::Succeeded),
            RequeueAnswer::NotFailed(JobState::Running),
            RequeueAnswer::NotFailed(JobState::Ready),
            RequeueAnswer::NotFound,
            RequeueAnswer::Requeued,
        ]
    );
}

/// To another queue, priority or time; and it is claimed from there.
pub async fn a_waiting_job_can_be_moved_and_rescheduled(world: &World<'_>) {
    let node = world.join().await;
    let id = world.enqueue_one().await;
    let place = |to: Placement| async move {
        world.store().place(world.at(), id, &to, &actor()).await.unwrap()
    };
    let later = world.now() + Duration::from_secs(60);
    let elsewhere =
        Placement { queue: Some("bulk".to_owned()), priority: Some(9), due_at: Some(later) };
    assert_eq!(place(elsewhere).await, MoveAnswer::Moved(JobState::Scheduled));
    let view = world.job(id).await.view;
    assert_eq!((view.queue.as_str(), view.priority, view.due_at), ("bulk", 9, Some(later)));
    let now = Placement { due_at: Some(world.now()), ..Placement::default() };
    assert_eq!(place(now).await, MoveAnswer::Moved(JobState::Ready));
    assert_eq!(world.claim(&world.ask(node, 10)).await, []);
    let mut ask = world.ask(node, 10);
    ask.queues[0].name = "bulk".to_owned();
    assert_eq!(
        world.claim(&ask).await.iter().map(|job| (job.id, job.priority)).collect::<Vec<_>>(),
        [(id, 9)]
    );
}

/// It would be free in the other queue, and held in the one that the job has left.
pub async fn a_key_of_a_queue_goes_with_its_job(world: &World<'_>) {
    let keyed = |queue: &str, scope: KeyScope, lifetime: KeyLifetime| NewJob {
        queue: queue.to_owned(),
        unique: Some(UniqueKey { key: "k".to_owned(), scope, lifetime, is_by_payload: false }),
        ..world.new_job()
    };
    let job = |queue: &str| keyed(queue, KeyScope::Queue, KeyLifetime::Job);
    let to = |queue: &str| Placement { queue: Some(queue.to_owned()), ..Placement::default() };
    let place = |id, placement: Placement| async move {
        world.store().place(world.at(), id, &placement, &actor()).await.unwrap()
    };
    let first = world.enqueue(job("default")).await;
    assert_eq!(place(first, to("bulk")).await, MoveAnswer::Moved(JobState::Ready));
    assert_eq!(world.enqueue_all(&[job("bulk")]).await, [EnqueueAnswer::Duplicate(first)]);
    let second = world.enqueue(job("default")).await;

    // Neither can go to the other; they stay as they are, also at a timer that is due.
    let before = world.job(second).await;
    assert_eq!(place(second, to("bulk")).await, MoveAnswer::KeyTaken(first));
    assert_eq!(world.job(second).await, before);
    let wait = Delay::For(Duration::from_secs(5));
    let late = world.enqueue(NewJob { delay: wait, ..job("late") }).await;
    world.pass(5);
    let before = world.job(late).await;
    assert_eq!(place(late, to("default")).await, MoveAnswer::KeyTaken(second));
    assert_eq!(world.job(late).await, before);
    assert_eq!(place(second, to("default")).await, MoveAnswer::Moved(JobState::Ready));

    // Free again with the job's end, where it is now.
    cancel(world, first).await;
    assert_eq!(place(second, to("bulk")).await, MoveAnswer::Moved(JobState::Ready));
    assert_eq!(place(late, to("default")).await, MoveAnswer::Moved(JobState::Ready));
    assert_eq!(requeue(world, first).await, RequeueAnswer::KeyTaken(second));

    // A key with a lifetime keeps it; one whose time is over is in nobody's way, nor goes along.
    let brief = KeyLifetime::For(Duration::from_secs(10));
    let brief = world.enqueue(keyed("a", KeyScope::Queue, brief)).await;
    world.pass(9);
    assert_eq!(place(brief, to("b")).await, MoveAnswer::Moved(JobState::Ready));
    assert_eq!(world.enqueue_all(&[job("b")]).await, [EnqueueAnswer::Duplicate(brief)]);
    world.pass(1);
    assert_eq!(place(late, to("b")).await, MoveAnswer::Moved(JobState::Ready));
    assert_eq!(place(brief, to("default")).await, MoveAnswer::Moved(JobState::Ready));
    assert_eq!(world.enqueue_all(&[job("b")]).await, [EnqueueAnswer::Duplicate(late)]);
    world.enqueue(job("default")).await;
    // Other scopes do not mind the queue.
    let tenant = world.enqueue(keyed("a", KeyScope::Tenant, KeyLifetime::Job)).await;
    assert_eq!(place(tenant, to("b")).await, MoveAnswer::Moved(JobState::Ready));
}

/// Nor one that has ended, nor to a place that is none.
pub async fn a_running_job_cannot_be_moved(world: &World<'_>) {
    let node = world.join().await;
    let id = world.enqueue_one().await;
    let job = world.claim_one(node).await;
    let (to, who) = (Placement { priority: Some(1), ..Placement::default() }, actor());
    let place = |id| world.store().place(world.at(), id, &to, &who);
    assert_eq!(place(id).await.unwrap(), MoveAnswer::NotWaiting(JobState::Running));
    world.settle(&job, Outcome::Done).await;
    assert_eq!(place(id).await.unwrap(), MoveAnswer::NotWaiting(JobState::Succeeded));
    assert_eq!(place(world.job_id()).await.unwrap(), MoveAnswer::NotFound);
    for bad in [
        Placement { queue: Some(String::new()), ..Placement::default() },
        Placement { priority: Some(-101), ..Placement::default() },
    ] {
        let error = world.store().place(world.at(), id, &bad, &actor()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

/// Who, why, what, when; and what changed nothing leaves none.
pub async fn operators_leave_a_trace(world: &World<'_>) {
    let id = world.enqueue_one().await;
    world.store().place(world.at(), id, &Placement::default(), &actor()).await.unwrap();
    world.pass(1);
    cancel(world, id).await;
    cancel(world, id).await;
    world.pass(1);
    requeue(world, id).await;
    requeue(world, id).await;
    let audits = world.store().audits(None, 10).await.unwrap().items;
    let told: Vec<_> = audits.iter().map(|audit| (audit.entry.action.as_str(), audit.at)).collect();
    let at = |seconds| world.now() - Duration::from_secs(seconds);
    assert_eq!(told, [("requeue job", at(0)), ("cancel job", at(1)), ("place job", at(2))]);
    assert!(
        audits
            .iter()
            .all(|audit| audit.entry.actor == actor() && audit.entry.subject == id.to_string())
    );
}
