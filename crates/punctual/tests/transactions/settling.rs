//! Settling in a transaction: the effect of a handler and the end of its job are one.

use std::time::Duration;

use punctual::ErrorKind;
use punctual::transaction;
use punctual_core::job::{AttemptOutcome, JobState, Next, Transition};
use punctual_core::{JobId, LeaseId, Timestamp};
use punctual_store::{
    Actor, At, BeatAsk, EnqueueAnswer, JobDetail, KeyLifetime, KeyScope, NewJob, Progress, Settled,
    UniqueKey,
};

use crate::drivers::{Driver, End, Said, Step};
use crate::with_each_driver;
use crate::world::{NODE, World, connect, done, failed, job, settlement};

with_each_driver! {
    effect_and_completion_commit_together,
    a_rollback_leaves_the_lease,
    a_stale_lease_is_fenced_and_changes_nothing,
    an_attempt_is_settled_once,
    every_end_is_written_as_the_store_writes_it,
}

/// A world in which one job is at work.
async fn at_work(driver: Driver, new: NewJob) -> (World, JobId, LeaseId) {
    let world = World::new(driver).await;
    assert_eq!(world.enqueue(&[new]).await.answers(), [EnqueueAnswer::Created]);
    let claimed = world.claim().await.remove(0);
    (world, claimed.id, claimed.lease)
}

/// Has the effect and settles as done, in one transaction.
async fn finish(world: &World, job: JobId, lease: LeaseId, end: End) -> Said {
    let steps = vec![Step::Effect(job), Step::Settle(settlement(job, lease, done()))];
    world.transact(steps, end).await.remove(1)
}

async fn effect_and_completion_commit_together(driver: Driver) {
    let (world, job, lease) = at_work(driver, job()).await;
    let state = finish(&world, job, lease, End::Commit).await.state();
    assert_eq!(state, JobState::Succeeded);
    let found = world.job(job).await.expect("it works");
    assert_eq!((found.view.state, world.effects(job).await), (JobState::Succeeded, 1));
    assert_eq!(found.result.expect("it works").as_str(), "{\"sent\":1}");
    // What the engine reports when the handler returns comes second, and is told so.
    let report = settlement(job, lease, done());
    let settled = world.store.settle(At::Database, &[report]).await.expect("it works");
    assert_eq!(settled.answers, [Settled::Already]);
}

async fn a_rollback_leaves_the_lease(driver: Driver) {
    for end in [End::RollBack, End::Drop] {
        let (world, job, lease) = at_work(driver, job()).await;
        assert_eq!(finish(&world, job, lease, end).await.state(), JobState::Succeeded);
        let found = world.job(job).await.expect("it works");
        assert_eq!((found.view.state, world.effects(job).await), (JobState::Running, 0));
        assert_eq!(finish(&world, job, lease, End::Commit).await.state(), JobState::Succeeded);
        assert_eq!(world.effects(job).await, 1);
    }
}

async fn a_stale_lease_is_fenced_and_changes_nothing(driver: Driver) {
    let (world, job, lease) = at_work(driver, job()).await;
    let before = world.job(job).await;
    let stale = LeaseId::from_bytes([8; 16]);
    let error = finish(&world, job, stale, End::RollBack).await.error();
    assert_eq!(error.kind(), ErrorKind::Fenced);
    insta::assert_snapshot!(error, @"the lease of this attempt was lost: another attempt owns the job, or the job has finished; roll back this transaction");
    // Also a caller that commits all the same has not changed the job.
    assert_eq!(finish(&world, job, stale, End::Commit).await.error(), error);
    assert_eq!(world.job(job).await, before);
    assert_eq!(finish(&world, job, lease, End::Commit).await.state(), JobState::Succeeded);
    // Whoever failed in the meantime does not fail a job that has ended.
    let late = Step::Settle(settlement(job, lease, failed()));
    let said = world.transact(vec![late], End::Commit).await.remove(0);
    assert_eq!(said.error().kind(), ErrorKind::Fenced);
    assert_eq!(world.job(job).await.expect("it works").view.state, JobState::Succeeded);
}

/// The answer to a commit may be lost; the second try must not have the effect again.
async fn an_attempt_is_settled_once(driver: Driver) {
    let (world, job, lease) = at_work(driver, job()).await;
    assert_eq!(finish(&world, job, lease, End::Commit).await.state(), JobState::Succeeded);
    let error = finish(&world, job, lease, End::RollBack).await.error();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    insta::assert_snapshot!(error, @"this attempt was already settled in a committed transaction; roll back this transaction, its changes are already in the database");
    assert_eq!(world.effects(job).await, 1);
}

/// The lease is locked for as long as the transaction is open, which is not for the node to suffer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_does_not_wait_for_the_commit() {
    let (world, job, lease) = at_work(Driver::TokioPostgres, job()).await;
    let mut client = connect().await;
    let tx = client.transaction().await.expect("it works");
    let item = settlement(job, lease, done());
    transaction::settle(&world.scene.backend, &tx, item).await.expect("it works");
    let progress = Progress { job, lease, percent: Some(99), note: "nearly".to_owned() };
    let ask = BeatAsk {
        node: NODE,
        is_remote: false,
        roles: Vec::new(),
        lease: Duration::from_secs(5),
        seeks: Vec::new(),
        leases: vec![lease],
        progress: vec![progress],
    };
    assert!(world.store.beat(At::Database, &ask).await.expect("it works").alive);
    tx.rollback().await.expect("it works");
    world.store.beat(At::Database, &ask).await.expect("it works");
    let progress = world.job(job).await.expect("it works").progress;
    assert_eq!(progress.and_then(|progress| progress.percent), Some(99));
}

/// A job without what the clock says.
fn timeless(mut job: JobDetail) -> JobDetail {
    job.view.created_at = Timestamp::EPOCH;
    job.view.due_at = job.view.due_at.map(|_| Timestamp::EPOCH);
    job.view.finished_at = job.view.finished_at.map(|_| Timestamp::EPOCH);
    for attempt in &mut job.attempts {
        attempt.claimed_at = Timestamp::EPOCH;
        attempt.ended_at = attempt.ended_at.map(|_| Timestamp::EPOCH);
    }
    job
}

/// What may have happened to a job before its attempt ends.
#[derive(Clone, Copy)]
enum Mishap {
    None,
    CalledOff,
    Spoilt,
}

impl Mishap {
    const ALL: [Mishap; 3] = [Mishap::None, Mishap::CalledOff, Mishap::Spoilt];
}

async fn every_end_is_written_as_the_store_writes_it(driver: Driver) {
    let (ours, theirs) = (World::new(driver).await, World::new(driver).await);
    let end = |outcome, next, error: Option<&str>| Transition {
        outcome,
        next,
        error: error.map(str::to_owned),
    };
    let ends = [
        done(),
        failed(),
        end(AttemptOutcome::Failed, Next::Failed, Some("no such address")),
        end(AttemptOutcome::TimedOut, Next::After(Duration::ZERO), Some("too slow")),
        end(AttemptOutcome::Snoozed, Next::After(Duration::from_secs(60)), None),
        end(AttemptOutcome::Released, Next::Ready, None),
        end(AttemptOutcome::Cancelled, Next::Cancelled, Some("not wanted")),
        end(AttemptOutcome::Panicked, Next::Ready, Some("nul \0, long ☕")),
    ];
    // Each also after somebody has called the job off, and with a lease that cannot be read.
    let jobs: Vec<(NewJob, Transition, Mishap)> = ends
        .iter()
        .flat_map(|end| Mishap::ALL.map(|mishap| (end.clone(), mishap)))
        .map(|(end, mishap)| {
            let new = job();
            let key = new.id.to_string();
            let unique = UniqueKey {
                key,
                scope: KeyScope::Tenant,
                lifetime: KeyLifetime::Job,
                is_by_payload: false,
            };
            (NewJob { unique: Some(unique), ..new }, end, mishap)
        })
        .collect();
    for world in [&ours, &theirs] {
        let new: Vec<NewJob> = jobs.iter().map(|(job, ..)| job.clone()).collect();
        world.store.enqueue(At::Database, &new).await.expect("it works");
        assert_eq!(world.claim().await.len(), jobs.len());
        for (job, _, mishap) in &jobs {
            match mishap {
                Mishap::None => {}
                Mishap::CalledOff => {
                    let actor = Actor::new("ada", "why");
                    world.store.cancel(At::Database, job.id, &actor).await.expect("it works");
                }
                Mishap::Spoilt => world.spoil_lease(job.id).await,
            }
        }
    }
    for (job, end, _) in &jobs {
        let item = settlement(job.id, LeaseId::from_bytes([9; 16]), end.clone());
        let settled =
            ours.store.settle(At::Database, std::slice::from_ref(&item)).await.expect("it works");
        let said = theirs.transact(vec![Step::Settle(item)], End::Commit).await.remove(0);
        assert_eq!(settled.answers, [Settled::Applied(said.state())]);
        let [expected, found] = [ours.job(job.id).await, theirs.job(job.id).await]
            .map(|job| timeless(job.expect("it is there")));
        assert_eq!(found, expected);
        // An ended job has let go of its key, in the one as in the other.
        let again = NewJob { id: crate::world::job().id, ..job.clone() };
        let expected = ours
            .store
            .enqueue(At::Database, std::slice::from_ref(&again))
            .await
            .expect("it works")
            .answers;
        assert_eq!(theirs.enqueue(&[again]).await.answers(), expected);
    }
}
