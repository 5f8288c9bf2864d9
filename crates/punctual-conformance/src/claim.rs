//! Taking jobs: in order, no more than asked for, never twice.

use std::time::Duration;

use punctual_core::job::{JobState, Outcome};
use punctual_store::*;

use crate::World;
use crate::world::{beat_of, failure};

/// Higher priorities first, among equals the one that was due first.
pub async fn jobs_are_claimed_in_the_order_of_their_ranks(world: &World<'_>) {
    let node = world.join().await;
    let mut expected = Vec::new();
    for priority in [0, 5, -5, 0, 100] {
        expected.push((priority, world.enqueue(NewJob { priority, ..world.new_job() }).await));
    }
    expected.sort_by_key(|(priority, id)| (-priority, *id));
    let claimed = world.claim(&world.ask(node, 10)).await;
    let order: Vec<_> = claimed.iter().map(|job| (job.priority, job.id)).collect();
    assert_eq!(order, expected);
}

/// The jobs of one claim can have different leases, so that they can be released separately.
pub async fn each_job_of_a_claim_can_have_its_own_lease(world: &World<'_>) {
    let node = world.join().await;
    for _ in 0..4 {
        world.enqueue_one().await;
    }
    let more = vec![world.lease_id(), world.lease_id()];
    let ask = ClaimAsk { more, ..world.ask(node, 4) };
    let claimed = world.claim(&ask).await;
    assert_eq!(claimed.len(), 4);
    let count = |lease| claimed.iter().filter(|job| job.lease == lease).count();
    assert_eq!([count(ask.lease), count(ask.more[0]), count(ask.more[1])], [1, 1, 2]);
    let beaten = world.beat_as(&beat_of(node)).await;
    let mut leases = vec![ask.lease, ask.more[0], ask.more[1]];
    leases.sort_unstable();
    assert_eq!(beaten.strays, leases);
    let own = claimed.iter().find(|job| job.lease == ask.lease).expect("a job");
    let released = world.store().release(world.at(), node, &[ask.lease]).await.expect("release");
    assert_eq!(released.jobs, [own.id]);
    for job in claimed.iter().filter(|job| job.id != own.id) {
        assert_eq!(world.settle(job, Outcome::Done).await, Settled::Applied(JobState::Succeeded));
    }
    let too_many = ClaimAsk { more: vec![ask.lease; limits::CLAIM_MAX + 1], ..world.ask(node, 1) };
    let error = world.store().claim(world.at(), &too_many).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

/// What cannot start is not taken.
pub async fn a_claim_takes_no_more_than_it_asked_for(world: &World<'_>) {
    let node = world.join().await;
    for _ in 0..10 {
        world.enqueue_one().await;
    }
    assert_eq!(world.claim(&world.ask(node, 0)).await, []);
    assert_eq!(world.claim(&world.ask(node, 3)).await.len(), 3);
    let ask = ClaimAsk { most: 2, ..world.ask(node, 5) };
    assert_eq!(world.claim(&ask).await.len(), 2);
    assert_eq!(world.claim(&world.ask(node, 100)).await.len(), 5);
}

/// A kind without a handler stays where it is, and is in nobody's way.
pub async fn a_claim_takes_only_the_kinds_it_can_serve(world: &World<'_>) {
    let node = world.join().await;
    let foreign = world.enqueue(NewJob { kind: "resize".to_owned(), ..world.new_job() }).await;
    let mail = world.enqueue_one().await;
    let other = world.enqueue(NewJob { kind: "report".to_owned(), ..world.new_job() }).await;
    let ask =
        ClaimAsk { kinds: vec!["report".to_owned(), "mail".to_owned()], ..world.ask(node, 10) };
    let claimed: Vec<_> = world.claim(&ask).await.iter().map(|job| job.id).collect();
    assert_eq!(claimed, [mail, other]);
    assert_eq!(world.state(foreign).await, JobState::Ready);
    assert_eq!(world.claim(&ClaimAsk { kinds: Vec::new(), ..world.ask(node, 10) }).await, []);
}

/// The first queue first, each up to its share.
pub async fn queues_are_served_in_the_order_asked(world: &World<'_>) {
    let node = world.join().await;
    for queue in ["low", "low", "high", "high", "high"] {
        world.enqueue(NewJob { queue: queue.to_owned(), ..world.new_job() }).await;
    }
    let share = |name: &str, most| QueueShare { name: name.to_owned(), most };
    let ask = |queues: Vec<QueueShare>| ClaimAsk { queues, most: 4, ..world.ask(node, 4) };
    let claimed =
        world.claim(&ask(vec![share("high", 2), share("none", 4), share("low", 4)])).await;
    let queues: Vec<&str> = claimed.iter().map(|job| job.queue.as_str()).collect();
    assert_eq!(queues, ["high", "high", "low", "low"]);
}

/// Whoever claims second finds nothing.
pub async fn a_job_is_claimed_once(world: &World<'_>) {
    let (one, other) = (world.join().await, world.join().await);
    let id = world.enqueue_one().await;
    assert_eq!(world.claim_one(one).await.id, id);
    assert_eq!(world.claim(&world.ask(other, 10)).await, []);
    assert_eq!(world.claim(&world.ask(one, 10)).await, []);
    assert_eq!(world.state(id).await, JobState::Running);
}

/// A unit of priority is worth a minute of waiting, so that nothing starves.
pub async fn an_old_job_of_low_priority_overtakes_new_ones_of_high(world: &World<'_>) {
    let node = world.join().await;
    let old = world.enqueue(NewJob { priority: -2, ..world.new_job() }).await;
    world.pass(119);
    let new = world.enqueue(world.new_job()).await;
    assert_eq!(world.claim_one(node).await.id, new);
    world.pass(2);
    let newer = world.enqueue(world.new_job()).await;
    assert_eq!(world.claim_one(node).await.id, old);
    assert_eq!(world.claim_one(node).await.id, newer);
}

/// Nothing has to be asked for after a claim.
pub async fn a_claim_tells_all_that_a_worker_needs(world: &World<'_>) {
    let node = world.join().await;
    let job = NewJob {
        tenant: "acme".to_owned(),
        owner: "ops".to_owned(),
        priority: 3,
        max_attempts: 2,
        timeout: Some(Duration::from_millis(1_500)),
        budget: Some(Duration::from_secs(60)),
        start_within: Some(Duration::from_secs(600)),
        tags: vec!["eu".to_owned()],
        trace: Some("trace".to_owned()),
        ..world.new_job()
    };
    let due_at = world.now();
    world.enqueue(job.clone()).await;
    world.pass(5);
    let ask = world.ask(node, 1);
    assert_eq!(
        world.claim(&ask).await,
        [ClaimedJob {
            id: job.id,
            lease: ask.lease,
            tenant: job.tenant,
            owner: job.owner,
            queue: job.queue,
            kind: job.kind,
            payload: job.payload,
            priority: 3,
            attempt: 1,
            spent: 0,
            crashes: 0,
            resource_releases: 0,
            max_attempts: 2,
            timeout: job.timeout,
            budget: job.budget,
            used: Duration::ZERO,
            expires_at: Some(due_at + Duration::from_secs(600)),
            due_at,
            claimed_at: world.now(),
            origin: None,
            tags: job.tags,
            trace: job.trace,
        }]
    );
}

/// A budget is over all attempts, so each claim tells what the earlier ones took.
pub async fn the_time_of_earlier_attempts_is_told_for_a_budget(world: &World<'_>) {
    let node = world.join().await;
    world.enqueue(NewJob { budget: Some(Duration::from_secs(60)), ..world.new_job() }).await;
    for (attempt, used) in [(1, 0), (2, 7), (3, 14)] {
        let job = world.claim_one(node).await;
        assert_eq!((job.attempt, job.used), (attempt, Duration::from_secs(used)));
        world.pass(7);
        world.settle(&job, failure()).await;
        world.pass(5);
        world.store().promote(world.at(), 10).await.unwrap();
    }
}

/// An attempt that seems to have ended before it began took no time.
pub async fn a_clock_set_back_gives_no_time_back(world: &World<'_>) {
    let node = world.join().await;
    world.enqueue(NewJob { budget: Some(Duration::from_secs(60)), ..world.new_job() }).await;
    for used in [0, 0, 3] {
        let job = world.claim_one(node).await;
        assert_eq!(job.used, Duration::from_secs(used));
        let back = job.attempt == 1;
        world.set(if back {
            world.now() - Duration::from_secs(100)
        } else {
            world.now() + Duration::from_secs(3)
        });
        world.settle(&job, failure()).await;
        world.pass(5);
        world.store().promote(world.at(), 10).await.unwrap();
    }
}

/// It would be handed jobs that are taken back at once, each time as a crash.
pub async fn a_dead_or_unknown_node_claims_nothing(world: &World<'_>) {
    let (dead, leading) = (world.join().await, world.join().await);
    let fence = world.lead("maintenance", leading).await;
    let id = world.enqueue_one().await;
    world.steady(leading, &fence).await;
    world.reap(&fence).await;
    for node in [dead, world.node_id()] {
        let error = world.store().claim(world.at(), &world.ask(node, 1)).await.unwrap_err();
        assert_eq!(error, rules::not_alive(node));
    }
    assert_eq!(world.state(id).await, JobState::Ready);
    assert_eq!(world.claim_one(leading).await.id, id);
}

/// Bounds of a claim are named.
pub async fn a_claim_that_makes_no_sense_is_refused(world: &World<'_>) {
    let node = world.join().await;
    let too_many = ClaimAsk { most: limits::CLAIM_MAX + 1, ..world.ask(node, 1) };
    let error = world.store().claim(world.at(), &too_many).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    let mut twice = world.ask(node, 1);
    twice.queues.push(twice.queues[0].clone());
    let error = world.store().claim(world.at(), &twice).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Invalid, "queue `default` is listed twice; remove one")
    );
}

/// No job, no answer, no error.
pub async fn an_empty_store_yields_nothing(world: &World<'_>) {
    let node = world.join().await;
    assert_eq!(world.claim(&world.ask(node, 10)).await, []);
    assert_eq!(world.settle_all(&[]).await, []);
    assert_eq!(world.enqueue_all(&[]).await, []);
    let promoted = world.store().promote(world.at(), 10).await.unwrap();
    assert_eq!((promoted.queues.len(), promoted.next_due), (0, None));
    assert_eq!(world.store().queue_stats(None, 10).await.unwrap().items, []);
    assert_eq!(world.store().now(world.at()).await.unwrap(), world.now());
}
