//! Enqueueing in a transaction.

use std::sync::Arc;
use std::time::Duration;

use punctual::transaction;
use punctual_core::job::Outcome;
use punctual_core::{ScheduleId, Timestamp};
use punctual_engine::{Attempt, Config, Ended, Engine, Handlers, System, Timing};
use punctual_store::{
    At, ClaimedJob, Delay, EnqueueAnswer, JobDetail, Json, KeyLifetime, KeyScope, NewJob, Origin,
    Rejection, UniqueKey,
};

use crate::drivers::{Driver, End, Step};
use crate::with_each_driver;
use crate::world::{World, connect, job};

with_each_driver! {
    a_commit_makes_the_job_and_nothing_else_does,
    every_kind_of_job_is_written_as_the_store_writes_it,
    keys_are_answered_as_the_store_answers_them,
    a_key_goes_with_the_transaction,
    a_commit_wakes_the_engine,
}

async fn a_commit_makes_the_job_and_nothing_else_does(driver: Driver) {
    let world = World::new(driver).await;
    for (end, is_there) in [(End::RollBack, false), (End::Drop, false), (End::Commit, true)] {
        let (first, second) = (job(), job());
        let steps = vec![
            Step::Enqueue(vec![first.clone()]),
            Step::Effect(first.id),
            Step::Enqueue(vec![second.clone()]),
        ];
        let said = world.transact(steps, end).await;
        assert_eq!(said.into_iter().next().expect("it works").answers(), [EnqueueAnswer::Created]);
        assert_eq!(world.effects(first.id).await, i64::from(is_there));
        for id in [first.id, second.id] {
            assert_eq!(world.job(id).await.is_some(), is_there, "{end:?}");
        }
    }
}

fn key(name: &str, scope: KeyScope, lifetime: KeyLifetime) -> Option<UniqueKey> {
    Some(UniqueKey { key: name.to_owned(), scope, lifetime, is_by_payload: false })
}

fn by_payload() -> Option<UniqueKey> {
    let key = key("", KeyScope::Kind, KeyLifetime::Job);
    key.map(|key| UniqueKey { is_by_payload: true, ..key })
}

/// Jobs that differ from the usual in each of their settings.
fn varied() -> Vec<NewJob> {
    let hours = |hours: u64| Duration::from_secs(hours * 3_600);
    let payload =
        r#"{"to":"Ærø ☕ \u0000 'quoted' \\ \"x\"","n":[1.50,null,12345678901234567890]}"#;
    let origin = Origin {
        schedule: ScheduleId::from_bytes([3; 16]),
        slot: None,
        facts: Json::parse("{\"name\":\"nightly\"}").expect("it works"),
    };
    vec![
        job(),
        NewJob { payload: Json::parse(payload).expect("it works"), ..job() },
        NewJob { delay: Delay::For(hours(2)), ..job() },
        NewJob { delay: Delay::Until(Timestamp::from_seconds(4_000_000_000)), ..job() },
        NewJob { delay: Delay::Until(Timestamp::from_seconds(1)), priority: -100, ..job() },
        NewJob { priority: 100, queue: "mail".to_owned(), ..job() },
        NewJob { tags: vec!["a".to_owned(), "Ærø \"b\"".to_owned()], ..job() },
        NewJob {
            trace: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
            ..job()
        },
        NewJob { tenant: "acme".to_owned(), owner: "ada".to_owned(), ..job() },
        NewJob { max_attempts: 1, timeout: Some(hours(1)), budget: Some(hours(3)), ..job() },
        NewJob { start_within: Some(hours(5)), ..job() },
        NewJob { unique: key("k", KeyScope::Kind, KeyLifetime::For(hours(1))), ..job() },
        NewJob { unique: key("k", KeyScope::Queue, KeyLifetime::Job), ..job() },
        NewJob { unique: by_payload(), ..job() },
        NewJob { origin: Some(origin), ..job() },
    ]
}

/// A job without what the clock says, but with what was counted from it.
fn timeless(mut job: JobDetail, is_until: bool) -> JobDetail {
    let created_at = std::mem::replace(&mut job.view.created_at, Timestamp::EPOCH);
    if !is_until {
        job.view.due_at = job.view.due_at.map(|due_at| Timestamp::EPOCH + due_at.since(created_at));
        job.expires_at = job.expires_at.map(|at| Timestamp::EPOCH + at.since(created_at));
    }
    job
}

fn timeless_claim(mut job: ClaimedJob) -> ClaimedJob {
    let due_at = std::mem::replace(&mut job.due_at, Timestamp::EPOCH);
    job.expires_at = job.expires_at.map(|at| Timestamp::EPOCH + at.since(due_at));
    job.claimed_at = Timestamp::EPOCH;
    job
}

async fn every_kind_of_job_is_written_as_the_store_writes_it(driver: Driver) {
    let (ours, theirs) = (World::new(driver).await, World::new(driver).await);
    let jobs = varied();
    // Jobs with keys and jobs without go different ways.
    let (keyed, plain): (Vec<NewJob>, Vec<NewJob>) =
        jobs.iter().cloned().partition(|job| job.unique.is_some());
    for part in [&keyed, &plain] {
        let expected = ours.store.enqueue(At::Database, part).await.expect("it works").answers;
        assert_eq!(theirs.enqueue(part).await.answers(), expected);
    }
    for job in &jobs {
        let is_until = matches!(job.delay, Delay::Until(at) if at.as_micros() > 2_000_000);
        let [expected, found] = [ours.job(job.id).await, theirs.job(job.id).await]
            .map(|job| timeless(job.expect("it is there"), is_until));
        assert_eq!(found, expected);
    }
    // A key by payload is the same for every driver.
    let first = jobs.iter().find(|job| job.unique == by_payload()).expect("there is one");
    let again = || NewJob { payload: first.payload.clone(), unique: by_payload(), ..job() };
    let expected = theirs.store.enqueue(At::Database, &[again()]).await.expect("it works").answers;
    assert_eq!(expected, [EnqueueAnswer::Duplicate(first.id)]);
    assert_eq!(theirs.enqueue(&[again()]).await.answers(), expected);
    assert_eq!(ours.enqueue(&[again()]).await.answers(), expected);
    // One of them has a start deadline, which is checked by the leader.
    for world in [&ours, &theirs] {
        let promoted = world.store.promote(At::Database, 1).await.expect("it works");
        assert!(promoted.next_deadline.is_some());
    }
    let [expected, found] = [ours.claim().await, theirs.claim().await]
        .map(|jobs| jobs.into_iter().map(timeless_claim).collect::<Vec<_>>());
    assert_eq!(found, expected);
    assert_eq!(found.len(), jobs.len() - 2, "all but the two that are due later");
}

async fn keys_are_answered_as_the_store_answers_them(driver: Driver) {
    let (ours, theirs) = (World::new(driver).await, World::new(driver).await);
    let first = NewJob { unique: key("k", KeyScope::Tenant, KeyLifetime::Job), ..job() };
    let same = NewJob { id: job().id, ..first.clone() };
    let other = NewJob { payload: Json::null(), ..same.clone() };
    let elsewhere = NewJob { id: job().id, tenant: "acme".to_owned(), ..other.clone() };
    let long = NewJob { tags: vec!["t".to_owned(); 100], ..job() };
    let slot = Some(Timestamp::EPOCH);
    let origin = Origin { schedule: ScheduleId::from_bytes([3; 16]), slot, facts: Json::null() };
    let fired = NewJob { origin: Some(origin), ..job() };
    let calls: [&[NewJob]; 6] = [
        &[first.clone(), same.clone(), other.clone()],
        &[first.clone(), job()],
        std::slice::from_ref(&same),
        &[other.clone(), elsewhere.clone(), long.clone()],
        &[long, fired],
        &[],
    ];
    for (number, call) in calls.into_iter().enumerate() {
        let expected = ours.store.enqueue(At::Database, call).await.expect("it works").answers;
        assert_eq!(theirs.enqueue(call).await.answers(), expected, "call {number}");
        match number {
            0 => assert_eq!(
                expected,
                [
                    EnqueueAnswer::Created,
                    EnqueueAnswer::Duplicate(first.id),
                    EnqueueAnswer::Rejected(Rejection::KeyTaken(first.id)),
                ]
            ),
            4 => assert!(matches!(
                expected[..],
                [
                    EnqueueAnswer::Rejected(Rejection::Invalid(_)),
                    EnqueueAnswer::Rejected(Rejection::Invalid(_))
                ]
            )),
            _ => {}
        }
    }
    for id in [first.id, same.id, other.id, elsewhere.id] {
        assert_eq!(theirs.job(id).await.is_some(), ours.job(id).await.is_some());
    }
}

/// After an answer the transaction goes on, and what is rolled back leaves its key free.
async fn a_key_goes_with_the_transaction(driver: Driver) {
    let world = World::new(driver).await;
    let keyed = || NewJob { unique: key("k", KeyScope::Tenant, KeyLifetime::Job), ..job() };
    let same = |other: &NewJob| NewJob { id: job().id, ..other.clone() };
    let (lost, kept) = (keyed(), keyed());
    let steps = || vec![Step::Enqueue(vec![lost.clone()]), Step::Enqueue(vec![same(&lost)])];
    let said = world.transact(steps(), End::RollBack).await;
    let answers: Vec<EnqueueAnswer> = said.into_iter().flat_map(|said| said.answers()).collect();
    assert_eq!(answers, [EnqueueAnswer::Created, EnqueueAnswer::Duplicate(lost.id)]);
    let steps = vec![
        Step::Enqueue(vec![kept.clone()]),
        Step::Enqueue(vec![lost.clone()]),
        Step::Effect(kept.id),
    ];
    let said = world.transact(steps, End::Commit).await;
    let answers: Vec<Vec<EnqueueAnswer>> =
        said.into_iter().take(2).map(|said| said.answers()).collect();
    let taken = EnqueueAnswer::Rejected(Rejection::KeyTaken(kept.id));
    assert_eq!(answers, [vec![EnqueueAnswer::Created], vec![taken.clone()]]);
    assert_eq!((world.job(lost.id).await, world.effects(kept.id).await), (None, 1));
    let found = world.store.enqueue(At::Database, &[same(&kept), lost]).await.expect("it works");
    assert_eq!(found.answers, [EnqueueAnswer::Duplicate(kept.id), taken]);
}

/// On PostgreSQL others write at the same time; the answer is for what they committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_wants_a_key_that_is_being_taken_waits_for_the_end() {
    for (driver, commits) in [
        (Driver::TokioPostgres, true),
        (Driver::TokioPostgres, false),
        (Driver::SqlxPostgres, true),
        (Driver::SqlxPostgres, false),
    ] {
        let world = World::new(driver).await;
        let first = NewJob { unique: key("k", KeyScope::Tenant, KeyLifetime::Job), ..job() };
        let second = NewJob { id: job().id, ..first.clone() };
        let (mut client, watch) = (connect().await, connect().await);
        let tx = client.transaction().await.expect("it works");
        let taken = transaction::enqueue(&world.scene.backend, &tx, vec![first.clone()]).await;
        assert_eq!(taken, Ok(vec![EnqueueAnswer::Created]));
        let pid = tx.query_one("SELECT pg_backend_pid()", &[]).await.expect("it works");
        let pid: i32 = pid.get(0);
        let (scene, wanted) = (world.scene.clone(), second.clone());
        let waiting = tokio::spawn(async move {
            let steps = vec![Step::Enqueue(vec![wanted.clone()]), Step::Effect(wanted.id)];
            scene.transact(steps, End::Commit).await.remove(0).answers()
        });
        let waits = "SELECT FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))";
        while watch.query(waits, &[&pid]).await.expect("it works").is_empty() {
            tokio::task::yield_now().await;
        }
        let answer = match commits {
            true => {
                tx.commit().await.expect("it works");
                EnqueueAnswer::Duplicate(first.id)
            }
            false => {
                tx.rollback().await.expect("it works");
                EnqueueAnswer::Created
            }
        };
        assert_eq!(waiting.await.expect("it works"), [answer]);
        assert_eq!(world.effects(second.id).await, 1, "the transaction went on");
        assert_eq!(world.job(second.id).await.is_some(), !commits);
    }
}

/// An engine that would look by itself in an hour finds what is committed beside it.
async fn a_commit_wakes_the_engine(driver: Driver) {
    let world = World::new(driver).await;
    let (began, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let mut handlers = Handlers::default();
    handlers.add("send", move |attempt: Attempt| {
        began.send(attempt.job.id).expect("it works");
        async { Ended::from(Outcome::Done) }
    });
    let timing = Timing { poll: Duration::from_secs(3_600), ..Timing::default() };
    let config = Config { timing, ..Config::default() };
    let engine = Engine::start(Arc::new(System), world.store.clone(), config, handlers).await;
    let engine = engine.expect("it works");
    // The first may be found because the engine has just begun.
    for _ in 0..5 {
        let new = job();
        let id = new.id;
        assert_eq!(world.enqueue(&[new]).await.answers(), [EnqueueAnswer::Created]);
        let found = tokio::time::timeout(Duration::from_secs(20), begun.recv()).await;
        assert_eq!(found.expect("nobody told the engine"), Some(id));
    }
    engine.stop();
    assert_eq!(engine.stopped().await.unsettled, 0);
}
