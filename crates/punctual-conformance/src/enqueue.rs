//! Writing jobs: once each, whatever gets lost, and each row answered for itself.

use std::time::Duration;

use punctual_core::job::{JobState, Outcome};
use punctual_store::*;

use crate::World;
use crate::world::json;

fn keyed(world: &World<'_>, key: &str) -> NewJob {
    let unique = UniqueKey {
        key: key.to_owned(),
        scope: KeyScope::Tenant,
        lifetime: KeyLifetime::Job,
        is_by_payload: false,
    };
    NewJob { unique: Some(unique), ..world.new_job() }
}

/// What was written is what is read, and it may run.
pub async fn an_enqueued_job_is_ready_and_told_in_full(world: &World<'_>) {
    let job = NewJob {
        tenant: "acme".to_owned(),
        owner: "ops".to_owned(),
        priority: 7,
        max_attempts: 3,
        tags: vec!["urgent".to_owned(), "eu".to_owned()],
        trace: Some("00-abc-def-01".to_owned()),
        ..world.new_job()
    };
    world.enqueue(job.clone()).await;
    let found = world.job(job.id).await;
    assert_eq!(
        found.view,
        JobView {
            id: job.id,
            state: JobState::Ready,
            tenant: "acme".to_owned(),
            queue: "default".to_owned(),
            kind: "mail".to_owned(),
            priority: 7,
            attempt: 0,
            max_attempts: 3,
            created_at: world.now(),
            due_at: Some(world.now()),
            finished_at: None,
            schedule: None,
            error: None,
        }
    );
    assert_eq!(
        (found.owner, found.payload, found.tags, found.trace),
        (job.owner, job.payload, job.tags, job.trace)
    );
    assert_eq!(
        (found.spent, found.crashes, found.result, found.cancel_requested),
        (0, 0, None, false)
    );
    assert_eq!(found.attempts, []);
}

/// The id is minted before the write, so a repeated call finds its own job.
pub async fn a_lost_reply_that_is_retried_makes_one_job(world: &World<'_>) {
    let plain = world.new_job();
    let unique = keyed(world, "invoice-7");
    for _ in 0..3 {
        let answers = world.enqueue_all(&[plain.clone(), unique.clone()]).await;
        assert_eq!(answers, [EnqueueAnswer::Created, EnqueueAnswer::Created]);
    }
    let jobs = world.store().jobs(&JobFilter::default(), None, 10).await.unwrap();
    assert_eq!(jobs.items.len(), 2);
    // Also after the job has run: nothing is made ready again.
    let node = world.join().await;
    let claimed = world.claim_one(node).await;
    world.settle(&claimed, Outcome::Done).await;
    assert_eq!(world.enqueue_all(std::slice::from_ref(&plain)).await, [EnqueueAnswer::Created]);
    assert_eq!(world.state(claimed.id).await, JobState::Succeeded);
}

/// Delayed by a length or until an instant, it is scheduled and not claimed.
pub async fn a_delayed_job_waits_until_it_is_due(world: &World<'_>) {
    let node = world.join().await;
    let later = world.now() + Duration::from_secs(60);
    let by_length = NewJob { delay: Delay::For(Duration::from_secs(60)), ..world.new_job() };
    let by_instant = NewJob { delay: Delay::Until(later), ..world.new_job() };
    for job in [by_length, by_instant] {
        let id = world.enqueue(job).await;
        let view = world.job(id).await.view;
        assert_eq!((view.state, view.due_at), (JobState::Scheduled, Some(later)));
    }
    assert_eq!(world.claim(&world.ask(node, 10)).await, []);
    world.pass(60);
    world.store().promote(world.at(), 10).await.unwrap();
    assert_eq!(world.claim(&world.ask(node, 10)).await.len(), 2);
}

/// An instant that is over means at once, without a place before those who waited.
pub async fn an_instant_in_the_past_is_due_now(world: &World<'_>) {
    let past =
        NewJob { delay: Delay::Until(world.now() - Duration::from_secs(3_600)), ..world.new_job() };
    let id = world.enqueue(past).await;
    let view = world.job(id).await.view;
    assert_eq!((view.state, view.due_at), (JobState::Ready, Some(world.now())));
}

/// Any number of calls with one key and one payload make one job, and say which.
pub async fn a_key_makes_one_job_of_many_calls(world: &World<'_>) {
    let first = world.enqueue(keyed(world, "invoice-7")).await;
    for _ in 0..3 {
        let answers = world.enqueue_all(&[keyed(world, "invoice-7")]).await;
        assert_eq!(answers, [EnqueueAnswer::Duplicate(first)]);
    }
    let in_one_call = [keyed(world, "invoice-8"), keyed(world, "invoice-8")];
    let answers = world.enqueue_all(&in_one_call).await;
    assert_eq!(answers, [EnqueueAnswer::Created, EnqueueAnswer::Duplicate(in_one_call[0].id)]);
}

/// The same key for other work is a mistake of the caller, and is said.
pub async fn a_key_with_another_payload_is_rejected(world: &World<'_>) {
    let first = world.enqueue(keyed(world, "invoice-7")).await;
    let other = NewJob { payload: json(r#"{"to":"b@example.com"}"#), ..keyed(world, "invoice-7") };
    let answers = world.enqueue_all(std::slice::from_ref(&other)).await;
    assert_eq!(answers, [EnqueueAnswer::Rejected(Rejection::KeyTaken(first))]);
    assert_eq!(world.store().job(other.id).await.unwrap(), None);
}

/// Conflicts are settled row by row.
pub async fn a_key_conflict_inside_a_batch_leaves_the_rest_in(world: &World<'_>) {
    let first = world.enqueue(keyed(world, "taken")).await;
    let other_payload = NewJob { payload: json("[]"), ..keyed(world, "taken") };
    let batch = [
        world.new_job(),
        keyed(world, "taken"),
        other_payload,
        keyed(world, "free"),
        world.new_job(),
    ];
    let answers = world.enqueue_all(&batch).await;
    assert_eq!(
        answers,
        [
            EnqueueAnswer::Created,
            EnqueueAnswer::Duplicate(first),
            EnqueueAnswer::Rejected(Rejection::KeyTaken(first)),
            EnqueueAnswer::Created,
            EnqueueAnswer::Created,
        ]
    );
    for (job, answer) in batch.iter().zip(&answers) {
        let is_there = world.store().job(job.id).await.unwrap().is_some();
        assert_eq!(is_there, *answer == EnqueueAnswer::Created);
    }
}

/// The same key for another tenant, kind or queue, or in another scope, is another key.
pub async fn keys_of_different_scopes_and_tenants_never_meet(world: &World<'_>) {
    let scoped = |scope: KeyScope, queue: &str, kind: &str, tenant: &str| {
        let unique = UniqueKey {
            key: "7".to_owned(),
            scope,
            lifetime: KeyLifetime::Job,
            is_by_payload: false,
        };
        NewJob {
            unique: Some(unique),
            queue: queue.to_owned(),
            kind: kind.to_owned(),
            tenant: tenant.to_owned(),
            ..world.new_job()
        }
    };
    let batch = [
        scoped(KeyScope::Tenant, "a", "x", ""),
        scoped(KeyScope::Kind, "a", "x", ""),
        scoped(KeyScope::Kind, "a", "y", ""),
        scoped(KeyScope::Queue, "a", "x", ""),
        scoped(KeyScope::Queue, "b", "x", ""),
        scoped(KeyScope::Tenant, "a", "x", "acme"),
    ];
    assert_eq!(world.enqueue_all(&batch).await, vec![EnqueueAnswer::Created; 6]);
    let again = world.enqueue_all(&[scoped(KeyScope::Kind, "other", "y", "")]).await;
    assert_eq!(again, [EnqueueAnswer::Duplicate(batch[2].id)]);
}

/// A key by payload is that of all jobs of its scope with an equal payload, and no key that a caller
/// gives.
pub async fn a_key_by_payload_is_held_for_equal_payloads(world: &World<'_>) {
    let of = |payload: &str| {
        let unique = UniqueKey {
            key: String::new(),
            is_by_payload: true,
            scope: KeyScope::Kind,
            lifetime: KeyLifetime::Job,
        };
        NewJob { unique: Some(unique), payload: json(payload), ..world.new_job() }
    };
    let (short, long) = ("[1]", format!("[\"{}\"]", "x".repeat(300)));
    let given = UniqueKey {
        key: short.to_owned(),
        is_by_payload: false,
        scope: KeyScope::Kind,
        lifetime: KeyLifetime::Job,
    };
    let given = NewJob { unique: Some(given), ..of(short) };
    let other_kind = NewJob { kind: "sms".to_owned(), ..of(short) };
    let batch = [of(short), of(&long), of("[2]"), given, other_kind];
    assert_eq!(world.enqueue_all(&batch).await, vec![EnqueueAnswer::Created; 5]);
    let again = world.enqueue_all(&[of(" [ 1 ] "), of(&long)]).await;
    assert_eq!(again, [batch[0].id, batch[1].id].map(EnqueueAnswer::Duplicate));
    let holder = world.store().key_holder(world.at(), &of(&long)).await;
    assert_eq!(holder, Ok(Some(batch[1].id)));
    // It goes with its job, and comes back with it.
    let actor = crate::world::actor();
    world.store().cancel(world.at(), batch[0].id, &actor).await.unwrap();
    assert_eq!(world.store().key_holder(world.at(), &of(short)).await, Ok(None));
    world.store().requeue(world.at(), &[batch[0].id], &actor).await.unwrap();
    assert_eq!(world.enqueue_all(&[of(short)]).await, [EnqueueAnswer::Duplicate(batch[0].id)]);
}

/// Unless it has a lifetime of its own, a key lasts as long as its job.
pub async fn a_key_is_free_when_its_job_has_ended(world: &World<'_>) {
    let node = world.join().await;
    let first = world.enqueue(keyed(world, "k")).await;
    let claimed = world.claim_one(node).await;
    assert_eq!(world.enqueue_all(&[keyed(world, "k")]).await, [EnqueueAnswer::Duplicate(first)]);
    world.settle(&claimed, Outcome::Done).await;
    let second = world.enqueue(keyed(world, "k")).await;
    world.store().cancel(world.at(), second, &crate::world::actor()).await.unwrap();
    world.enqueue(keyed(world, "k")).await;
}

/// A key for a period holds for that period, whether the job has ended or not.
pub async fn a_key_with_a_lifetime_outlives_its_job_and_ends_by_itself(world: &World<'_>) {
    let node = world.join().await;
    let daily = || {
        let lifetime = KeyLifetime::For(Duration::from_secs(100));
        NewJob {
            unique: Some(UniqueKey {
                key: "daily".to_owned(),
                scope: KeyScope::Tenant,
                lifetime,
                is_by_payload: false,
            }),
            ..world.new_job()
        }
    };
    let first = world.enqueue(daily()).await;
    let claimed = world.claim_one(node).await;
    world.settle(&claimed, Outcome::Done).await;
    world.pass(99);
    assert_eq!(world.enqueue_all(&[daily()]).await, [EnqueueAnswer::Duplicate(first)]);
    world.pass(1);
    let second = world.enqueue(daily()).await;
    assert_eq!(world.enqueue_all(&[daily()]).await, [EnqueueAnswer::Duplicate(second)]);
}

/// A payload is its meaning, not its spelling.
pub async fn equal_payloads_are_equal_whatever_the_order_of_their_keys(world: &World<'_>) {
    let with = |payload: &str| NewJob { payload: json(payload), ..keyed(world, "k") };
    let first = world.enqueue(with(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#)).await;
    let answers = world.enqueue_all(&[with(r#"{ "b":{"d":null,"c":[1, 2]}, "a":1 }"#)]).await;
    assert_eq!(answers, [EnqueueAnswer::Duplicate(first)]);
    assert_eq!(world.job(first).await.payload.as_str(), r#"{"a":1,"b":{"c":[1,2],"d":null}}"#);
}

/// What is out of bounds is named, and keeps nobody else out.
pub async fn a_job_out_of_bounds_is_rejected_alone(world: &World<'_>) {
    let large = Json::new(&"x".repeat(limits::PAYLOAD_BYTES_MAX)).unwrap();
    let bad = [
        NewJob { queue: String::new(), ..world.new_job() },
        NewJob { kind: "a\nb".to_owned(), ..world.new_job() },
        NewJob { queue: "q".repeat(limits::NAME_BYTES_MAX + 1), ..world.new_job() },
        NewJob { payload: large, ..world.new_job() },
        NewJob { priority: 101, ..world.new_job() },
        NewJob { max_attempts: 0, ..world.new_job() },
        NewJob { tags: vec!["t".to_owned(); limits::TAGS_MAX + 1], ..world.new_job() },
        keyed(world, ""),
    ];
    let good = world.new_job();
    let mut batch = bad.to_vec();
    batch.push(good.clone());
    let answers = world.enqueue_all(&batch).await;
    for (job, answer) in bad.iter().zip(&answers) {
        let EnqueueAnswer::Rejected(Rejection::Invalid(message)) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(Err(message.clone()), job.check().map_err(String::from));
        assert_eq!(world.store().job(job.id).await.unwrap(), None);
    }
    assert_eq!(world.state(good.id).await, JobState::Ready);
}

/// A call beyond the bound writes nothing and says how to go on.
pub async fn too_many_jobs_at_once_are_refused_whole(world: &World<'_>) {
    let batch: Vec<NewJob> = (0..=limits::ENQUEUE_MAX).map(|_| world.new_job()).collect();
    let error = world.store().enqueue(world.at(), &batch).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert_eq!(
        error.to_string(),
        "too many jobs: 1001, maximum 1000 per request; split the request"
    );
    assert_eq!(world.store().jobs(&JobFilter::default(), None, 10).await.unwrap().items, []);
    let answers = world.enqueue_all(&batch[1..]).await;
    assert!(answers.iter().all(|answer| *answer == EnqueueAnswer::Created));
}

/// Before somebody else asks for it, or after.
pub async fn the_holder_of_a_key_is_told(world: &World<'_>) {
    let node = world.join().await;
    let holder = async |job: &NewJob| world.store().key_holder(world.at(), job).await.unwrap();
    let (job, other) = (keyed(world, "invoice-7"), keyed(world, "invoice-7"));
    assert_eq!(holder(&job).await, None);
    world.enqueue(job.clone()).await;
    assert_eq!((holder(&job).await, holder(&other).await), (Some(job.id), Some(job.id)));
    assert_eq!(holder(&keyed(world, "invoice-8")).await, None);
    assert_eq!(holder(&NewJob { tenant: "acme".to_owned(), ..other.clone() }).await, None);
    assert_eq!(holder(&world.new_job()).await, None);
    let claimed = world.claim_one(node).await;
    assert_eq!(holder(&other).await, Some(job.id));
    world.settle(&claimed, Outcome::Done).await;
    assert_eq!(holder(&other).await, None);
}

/// Whether anybody has dropped it or not.
pub async fn a_key_whose_time_is_over_is_held_by_nobody(world: &World<'_>) {
    let lifetime = KeyLifetime::For(Duration::from_secs(60));
    let unique =
        UniqueKey { key: "k".to_owned(), scope: KeyScope::Queue, lifetime, is_by_payload: false };
    let job = NewJob { unique: Some(unique), ..world.new_job() };
    world.enqueue(job.clone()).await;
    world.pass(59);
    assert_eq!(world.store().key_holder(world.at(), &job).await.unwrap(), Some(job.id));
    world.pass(1);
    assert_eq!(world.store().key_holder(world.at(), &job).await.unwrap(), None);
}
