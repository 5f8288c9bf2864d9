//! Jobs that follow an attempt: written with its settlement, or not at all.

use std::time::Duration;

use punctual_core::JobId;
use punctual_core::job::{JobState, Outcome};
use punctual_store::*;

use crate::World;
use crate::world::{actor, failure};

/// The settlement of a job that succeeded, with these after it.
fn followed(world: &World<'_>, job: &ClaimedJob, then: Vec<NewJob>) -> Settlement {
    Settlement { then, ..world.settlement(job, Outcome::Done) }
}

async fn is_there(world: &World<'_>, id: JobId) -> bool {
    world.store().job(id).await.unwrap().is_some()
}

/// As an enqueue at the same instant would have written them.
pub async fn what_follows_is_written_with_the_settlement(world: &World<'_>) {
    let node = world.join().await;
    world.enqueue_one().await;
    let job = world.claim_one(node).await;
    world.pass(3);
    let next = NewJob { tags: vec!["eu".to_owned()], ..world.new_job() };
    let wait = Duration::from_secs(5);
    let later = NewJob { delay: Delay::For(wait), ..world.new_job() };
    let settlement = followed(world, &job, vec![next.clone(), later.clone()]);
    assert_eq!(world.settle_all(&[settlement]).await, [Settled::Applied(JobState::Succeeded)]);
    let found = world.job(next.id).await;
    assert_eq!((found.view.state, found.view.created_at), (JobState::Ready, world.now()));
    assert_eq!((found.payload, found.tags), (next.payload, next.tags));
    let found = world.job(later.id).await;
    let due_at = world.now() + wait;
    assert_eq!((found.view.state, found.view.due_at), (JobState::Scheduled, Some(due_at)));
    assert_eq!(world.claim_one(node).await.id, next.id);
    world.pass(5);
    world.store().promote(world.at(), 10).await.unwrap();
    assert_eq!(world.claim_one(node).await.id, later.id);
}

/// Whoever reports for a lease that is gone starts nothing.
pub async fn nothing_follows_a_settlement_that_is_fenced(world: &World<'_>) {
    let node = world.join().await;
    world.enqueue_one().await;
    let job = world.claim_one(node).await;
    let next = world.new_job();
    let stale = ClaimedJob { lease: world.lease_id(), ..job.clone() };
    let settlement = followed(world, &stale, vec![next.clone()]);
    assert_eq!(world.settle_all(&[settlement]).await, [Settled::Fenced]);
    assert!(!is_there(world, next.id).await);
    world.store().release(world.at(), node, &[job.lease]).await.unwrap();
    let settlement = followed(world, &job, vec![next.clone()]);
    assert_eq!(world.settle_all(&[settlement]).await, [Settled::Fenced]);
    assert!(!is_there(world, next.id).await);
}

/// The answer was lost, and what followed is there since the first time.
pub async fn a_repeated_settlement_writes_what_follows_once(world: &World<'_>) {
    let node = world.join().await;
    world.enqueue_one().await;
    let job = world.claim_one(node).await;
    let (first, second) = (world.new_job(), world.new_job());
    let settlement = followed(world, &job, vec![first.clone()]);
    assert_eq!(world.settle_all(&[settlement]).await, [Settled::Applied(JobState::Succeeded)]);
    let again = followed(world, &job, vec![first.clone(), second.clone()]);
    assert_eq!(world.settle_all(&[again]).await, [Settled::Already]);
    assert!(is_there(world, first.id).await);
    assert!(!is_there(world, second.id).await);
    assert_eq!(world.claim(&world.ask(node, 10)).await.len(), 1);
}

/// It is for the caller to say after which outcomes something follows.
pub async fn what_follows_is_written_whatever_the_outcome(world: &World<'_>) {
    let node = world.join().await;
    let wait = Duration::from_secs(60);
    let outcomes = [
        (failure(), JobState::Retrying),
        (Outcome::FailForGood("no".to_owned()), JobState::Failed),
        (Outcome::Snooze(wait), JobState::Retrying),
        (Outcome::Cancel("no".to_owned()), JobState::Cancelled),
    ];
    for (outcome, state) in outcomes {
        world.enqueue_one().await;
        let job = world.claim_one(node).await;
        let next = NewJob { delay: Delay::For(wait), ..world.new_job() };
        let settlement = Settlement { then: vec![next.clone()], ..world.settlement(&job, outcome) };
        assert_eq!(world.settle_all(&[settlement]).await, [Settled::Applied(state)]);
        assert_eq!(world.state(next.id).await, JobState::Scheduled);
    }
    // Also if somebody called the job off meanwhile.
    world.enqueue_one().await;
    let job = world.claim_one(node).await;
    world.store().cancel(world.at(), job.id, &actor()).await.unwrap();
    let next = world.new_job();
    let settlement = Settlement { then: vec![next.clone()], ..world.settlement(&job, failure()) };
    let answers = world.settle_all(&[settlement]).await;
    assert_eq!(answers, [Settled::Applied(JobState::Cancelled)]);
    assert!(is_there(world, next.id).await);
}

/// By its id, which is minted before.
pub async fn a_job_that_is_there_already_does_not_follow_again(world: &World<'_>) {
    let node = world.join().await;
    world.enqueue_one().await;
    let job = world.claim_one(node).await;
    let there = world.enqueue(NewJob { priority: 5, ..world.new_job() }).await;
    let same = NewJob { id: there, ..world.new_job() };
    let new = world.new_job();
    let twin = NewJob { kind: "report".to_owned(), ..new.clone() };
    let settlement = followed(world, &job, vec![same, new.clone(), twin]);
    assert_eq!(world.settle_all(&[settlement]).await, [Settled::Applied(JobState::Succeeded)]);
    assert_eq!(world.job(there).await.view.priority, 5);
    assert_eq!(world.job(new.id).await.view.kind, "mail");
    assert_eq!(world.claim(&world.ask(node, 10)).await.len(), 2);
}

/// A batch is answered item by item, and what one item does to a job the next one sees.
pub async fn answers_keep_their_order_where_jobs_follow(world: &World<'_>) {
    let node = world.join().await;
    for _ in 0..4 {
        world.enqueue_one().await;
    }
    let jobs = world.claim(&world.ask(node, 4)).await;
    let next: Vec<NewJob> = (0..5).map(|_| world.new_job()).collect();
    let plain = |job: &ClaimedJob, outcome| world.settlement(job, outcome);
    let with = |job: &ClaimedJob, index: usize| followed(world, job, vec![next[index].clone()]);
    let stale = ClaimedJob { lease: world.lease_id(), ..jobs[3].clone() };
    let batch = [
        plain(&jobs[0], failure()),
        with(&jobs[1], 0),
        with(&stale, 1),
        plain(&jobs[1], Outcome::Done),
        plain(&jobs[2], Outcome::Done),
        with(&jobs[2], 2),
        with(&jobs[3], 3),
        with(&jobs[3], 4),
    ];
    let succeeded = Settled::Applied(JobState::Succeeded);
    let expected = [
        Settled::Applied(JobState::Retrying),
        succeeded,
        Settled::Fenced,
        Settled::Already,
        succeeded,
        Settled::Already,
        succeeded,
        Settled::Already,
    ];
    assert_eq!(world.settle_all(&batch).await, expected);
    for (index, is_written) in [true, false, false, true, false].into_iter().enumerate() {
        assert_eq!(is_there(world, next[index].id).await, is_written, "{index}");
    }
}

/// Nobody would hear the answer; and nothing is settled, since part of it is hard to tell from all.
pub async fn what_follows_has_neither_key_nor_origin(world: &World<'_>) {
    let node = world.join().await;
    world.enqueue_one().await;
    let job = world.claim_one(node).await;
    let unique = UniqueKey {
        key: "k".to_owned(),
        scope: KeyScope::Kind,
        lifetime: KeyLifetime::Job,
        is_by_payload: false,
    };
    let keyed = NewJob { unique: Some(unique), ..world.new_job() };
    let scheduled = world.job_of(world.schedule_id(), None);
    let wrong = NewJob { priority: 101, ..world.new_job() };
    for (bad, what) in [(keyed, "unique key"), (scheduled, "schedule"), (wrong, "got 101")] {
        let settlement = followed(world, &job, vec![world.new_job(), bad]);
        let error = world.store().settle(world.at(), &[settlement]).await.unwrap_err();
        let message = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{message}");
        assert!(message.contains("`mail`") && message.contains(what), "{message}");
        let is_refused = what != "got 101";
        assert_eq!(message.contains("enqueue it from the handler"), is_refused, "{message}");
    }
    assert_eq!(world.state(job.id).await, JobState::Running);
    assert_eq!(world.claim(&world.ask(node, 10)).await, []);
}

/// To the last one that may.
pub async fn no_more_follow_than_a_bound(world: &World<'_>) {
    let node = world.join().await;
    world.enqueue_one().await;
    let job = world.claim_one(node).await;
    let mut then: Vec<NewJob> = (0..=limits::THEN_MAX).map(|_| world.new_job()).collect();
    let settlement = followed(world, &job, then.clone());
    let error = world.store().settle(world.at(), &[settlement]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(
        error.to_string().starts_with("too many follow-up jobs in a settlement: 101,"),
        "{error}"
    );
    assert_eq!(world.state(job.id).await, JobState::Running);
    then.pop();
    let settlement = followed(world, &job, then);
    assert_eq!(world.settle_all(&[settlement]).await, [Settled::Applied(JobState::Succeeded)]);
    assert_eq!(world.claim(&world.ask(node, 200)).await.len(), limits::THEN_MAX);
}

/// Whoever waits for work need not keep asking.
pub async fn what_follows_is_hinted(world: &World<'_>) {
    let node = world.join().await;
    world.enqueue_one().await;
    let job = world.claim_one(node).await;
    let mut hints = world.store().hints(Topic::Work);
    let settlement = followed(world, &job, vec![world.new_job()]);
    world.settle_all(&[settlement]).await;
    hints.heard().await;
}

/// Also if it goes before what was claimed last.
pub async fn what_follows_is_claimed_where_it_stands(world: &World<'_>) {
    let node = world.join().await;
    for _ in 0..6 {
        world.enqueue_one().await;
        world.pass(1);
    }
    let claimed = world.claim(&world.ask(node, 3)).await;
    let urgent = NewJob { priority: 50, ..world.new_job() };
    let usual = world.new_job();
    let settlement = followed(world, &claimed[0], vec![usual.clone(), urgent.clone()]);
    world.settle_all(&[settlement]).await;
    let order: Vec<JobId> =
        world.claim(&world.ask(node, 10)).await.iter().map(|job| job.id).collect();
    assert_eq!(order.len(), 5);
    assert_eq!((order[0], order[4]), (urgent.id, usual.id));
}
