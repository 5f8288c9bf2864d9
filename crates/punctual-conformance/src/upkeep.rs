//! What the maintenance role does.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::job::{JobState, Next, Outcome};
use punctual_store::*;

use crate::World;
use crate::world::{LEASE, LIFETIME, actor, failure, next_steps, policy};

/// In the order in which they were due, no more than asked for.
pub async fn promotion_makes_due_jobs_ready_and_tells_the_next(world: &World<'_>) {
    let node = world.join().await;
    let start = world.now();
    let mut ids = Vec::new();
    for (queue, seconds) in [("default", 30), ("default", 10), ("bulk", 20), ("default", 40)] {
        let delay = Delay::For(Duration::from_secs(seconds));
        ids.push(world.enqueue(NewJob { queue: queue.to_owned(), delay, ..world.new_job() }).await);
    }
    let promote = |most| world.store().promote(world.at(), most);
    let none = promote(10).await.unwrap();
    assert_eq!(
        (none.at, none.queues.len(), none.next_due),
        (start, 0, Some(start + Duration::from_secs(10)))
    );
    world.pass(30);
    let first = promote(1).await.unwrap();
    assert_eq!(
        (first.queues.get("default"), first.next_due),
        (Some(&1), Some(start + Duration::from_secs(20)))
    );
    assert_eq!(world.state(ids[1]).await, JobState::Ready);
    let rest = promote(10).await.unwrap();
    assert_eq!((rest.queues.get("default"), rest.queues.get("bulk")), (Some(&1), Some(&1)));
    assert_eq!(rest.next_due, Some(start + Duration::from_secs(40)));
    // A promoted job stands where its due time puts it, not where its promotion does.
    let late = world.enqueue_one().await;
    let order: Vec<_> = world.claim(&world.ask(node, 10)).await.iter().map(|job| job.id).collect();
    let mut expected = vec![ids[0], late];
    expected.sort();
    assert_eq!((order[0], order[1..].to_vec()), (ids[1], expected));
}

/// Whatever its attempts allow: it would take down one node after the other.
pub async fn the_third_crash_fails_the_job(world: &World<'_>) {
    let leading = world.join().await;
    let fence = world.lead("maintenance", leading).await;
    let id = world.enqueue(NewJob { max_attempts: 100, ..world.new_job() }).await;
    for crash in 1..=3 {
        let victim = world.join().await;
        let job = world.claim_one(victim).await;
        assert_eq!((job.attempt, job.spent, job.crashes), (crash, crash - 1, crash - 1));
        world.steady(leading, &fence).await;
        let next = if crash < 3 { Next::After(Duration::from_secs(5)) } else { Next::Failed };
        let reaped = world.reap(&fence).await;
        let attempt = reaped.jobs[0].attempt.as_ref().unwrap();
        assert_eq!((&attempt.kind, &attempt.queue, attempt.number), (&job.kind, &job.queue, crash));
        assert_eq!(attempt.held, reaped.at.since(job.claimed_at));
        assert!(attempt.error.is_some());
        assert_eq!((next_steps(&reaped), reaped.dead), (vec![(id, next)], vec![victim]));
        world.pass(5);
        world.beat(leading, std::slice::from_ref(&fence)).await;
        world.store().promote(world.at(), 10).await.unwrap();
    }
    let found = world.job(id).await;
    assert_eq!((found.view.state, found.crashes, found.attempts.len()), (JobState::Failed, 3, 3));
    assert_eq!(found.view.error.as_deref(), Some("its node died 3 times while running it"));
}

/// After an outage of the database every heartbeat is old and every node alive.
pub async fn nobody_is_declared_dead_while_leadership_is_young(world: &World<'_>) {
    let (working, leading) = (world.join().await, world.join().await);
    let fence = world.lead("maintenance", leading).await;
    world.enqueue_one().await;
    world.claim_one(working).await;
    world.steady(leading, &fence).await;
    world.beat(working, &[]).await;
    // The database is away for an hour.
    world.pass(3_600);
    let reaped = world.reap(&fence).await;
    assert_eq!((reaped.led, reaped.dead, reaped.jobs), (true, Vec::new(), Vec::new()));
    world.pass(14);
    assert_eq!(world.reap(&fence).await.dead, []);
    world.beat(working, &[]).await;
    world.beat(leading, std::slice::from_ref(&fence)).await;
    // Reaping renewed the role all the while, so by now it is steady: the silent one is dead.
    world.pass(4);
    world.reap(&fence).await;
    world.pass(4);
    world.beat(leading, std::slice::from_ref(&fence)).await;
    world.pass(4);
    world.reap(&fence).await;
    world.pass(4);
    world.beat(leading, std::slice::from_ref(&fence)).await;
    assert_eq!(world.reap(&fence).await.dead, [working]);
}

/// An outage does not count as silence.
pub async fn an_outage_kills_no_node_when_another_leader_follows(world: &World<'_>) {
    let (working, one, other) = (world.join().await, world.join().await, world.join().await);
    let first = world.lead("maintenance", one).await;
    world.enqueue_one().await;
    let job = world.claim_one(working).await;
    world.steady(one, &first).await;
    for node in [working, one, other] {
        world.beat(node, &[]).await;
    }
    world.pass(3_600);
    let second = world.lead("maintenance", other).await;
    assert_eq!(world.reap(&second).await.dead, []);
    // For 14 seconds the database is reachable again, and the nodes are silent.
    for _ in 0..7 {
        world.pass(2);
        let reaped = world.reap(&second).await;
        assert_eq!((reaped.led, reaped.dead, reaped.jobs), (true, Vec::new(), Vec::new()));
    }
    world.beat(working, &[]).await;
    world.pass(2);
    let reaped = world.reap(&second).await;
    let mut silent = vec![one, other];
    silent.sort();
    assert_eq!((reaped.dead, reaped.jobs), (silent, Vec::new()));
    assert_eq!(world.state(job.id).await, JobState::Running);
}

/// Each leader leads for ten seconds. What it saw of the silent node counts for its successor.
pub async fn a_silent_node_dies_although_leaders_change(world: &World<'_>) {
    let (dead, one, other) = (world.join().await, world.join().await, world.join().await);
    let id = world.enqueue_one().await;
    world.claim_one(dead).await;
    let start = world.now();
    let mut reclaimed = Vec::new();
    for term in 0..6 {
        let node = if term % 2 == 0 { one } else { other };
        let fence = world.lead("maintenance", node).await;
        for _ in 0..5 {
            world.pass(2);
            for live in [one, other] {
                world.beat(live, &[]).await;
            }
            let reaped = world.reap(&fence).await;
            assert!(reaped.dead.iter().all(|node| *node == dead), "{reaped:?}");
            let jobs = reaped.jobs.into_iter().map(|reaped| (reaped.job, world.now()));
            reclaimed.extend(jobs);
        }
        assert!(world.store().resign(world.at(), &fence).await.unwrap());
    }
    assert_eq!(reclaimed, [(id, start + Duration::from_secs(16))]);
}

/// Each leader crashes after five seconds, and the next one leads seven seconds later.
pub async fn a_silent_node_dies_although_leaders_crash(world: &World<'_>) {
    let (dead, leading) = (world.join().await, world.join().await);
    let id = world.enqueue_one().await;
    world.claim_one(dead).await;
    let start = world.now();
    let mut reclaimed = Vec::new();
    for _ in 0..6 {
        let fence = world.lead("maintenance", leading).await;
        for _ in 0..5 {
            world.pass(1);
            world.beat(leading, &[]).await;
            let jobs = world.reap(&fence).await.jobs;
            reclaimed.extend(jobs.into_iter().map(|reaped| (reaped.job, world.now())));
        }
        world.pass(7);
    }
    // Two terms of five seconds, and one lease for the time in between.
    assert_eq!(reclaimed, [(id, start + Duration::from_secs(17))]);
}

/// Neither the leader, who led in a time that has not come yet, nor the node, which was seen in it,
/// waits until the clock has caught up.
pub async fn a_clock_set_back_does_not_keep_a_dead_node(world: &World<'_>) {
    let (dead, live, leading) = (world.join().await, world.join().await, world.join().await);
    let fence = world.lead("maintenance", leading).await;
    let id = world.enqueue_one().await;
    world.claim_one(dead).await;
    for back in [3_600, 10] {
        world.steady(leading, &fence).await;
        world.beat(dead, &[]).await;
        world.set(world.now() - Duration::from_secs(back));
        assert_eq!(world.reap(&fence).await.dead, []);
        // Whoever is heard of again has nothing to fear.
        world.beat(live, &[]).await;
    }
    for _ in 0..2 {
        world.steady(leading, &fence).await;
        world.beat(live, &[]).await;
    }
    let reaped = world.reap(&fence).await;
    let next = Next::After(Duration::from_secs(5));
    assert_eq!((next_steps(&reaped), reaped.dead), (vec![(id, next)], vec![dead]));
}

/// Whoever has lost it takes nothing back.
pub async fn reaping_needs_the_term(world: &World<'_>) {
    let (dead, one, other) = (world.join().await, world.join().await, world.join().await);
    let lost = world.lead("maintenance", one).await;
    world.enqueue_one().await;
    let job = world.claim_one(dead).await;
    world.pass(60);
    let fence = world.lead("maintenance", other).await;
    let reaped = world.reap(&lost).await;
    assert_eq!((reaped.led, reaped.dead, reaped.jobs), (false, Vec::new(), Vec::new()));
    assert_eq!(world.state(job.id).await, JobState::Running);
    // No more than asked for at once, and the rest next time.
    for _ in 0..2 {
        world.enqueue_one().await;
    }
    world.claim(&world.ask(dead, 2)).await;
    world.steady(other, &fence).await;
    let ask = ReapAsk { fence, lease: LEASE, node_lifetime: LIFETIME, policy: policy(), most: 2 };
    assert_eq!(world.store().reap(world.at(), &ask).await.unwrap().jobs.len(), 2);
    assert_eq!(world.store().reap(world.at(), &ask).await.unwrap().jobs.len(), 1);
    assert_eq!(world.store().reap(world.at(), &ask).await.unwrap().jobs, []);
}

/// There is no further attempt, and the crash is told.
pub async fn a_reaped_job_that_was_to_be_cancelled_is(world: &World<'_>) {
    let (dead, leading) = (world.join().await, world.join().await);
    let fence = world.lead("maintenance", leading).await;
    let id = world.enqueue_one().await;
    world.claim_one(dead).await;
    world.store().cancel(world.at(), id, &actor()).await.unwrap();
    world.steady(leading, &fence).await;
    assert_eq!(next_steps(&world.reap(&fence).await), [(id, Next::Cancelled)]);
    assert_eq!(world.state(id).await, JobState::Cancelled);
}

/// Only the watermark decides what is due.
pub async fn pruning_never_revives_a_slot(world: &World<'_>) {
    let node = world.join().await;
    let fence = world.lead("scheduler/0", node).await;
    let schedule = world.schedule("nightly").await;
    world.pass(60);
    let plan = world.plan(&schedule);
    world.fire(&fence, std::slice::from_ref(&plan)).await;
    let job = world.claim_one(node).await;
    world.settle(&job, Outcome::Done).await;
    let schedule = world.reread(&schedule).await;
    world.pass(2 * 365 * 86_400);
    let pruned = world.store().prune(world.at(), &Retention::default(), 100).await.unwrap();
    assert_eq!((pruned.jobs, pruned.slots), (1, 1));
    assert_eq!(world.ledger(schedule.id).await, []);
    assert_eq!(world.store().job(job.id).await.unwrap(), None);
    // The old plan, and a plan for the old slot under the present stamp.
    assert_eq!(world.fire(&fence, std::slice::from_ref(&plan)).await.answers, [FireAnswer::Stale]);
    let again = SlotPlan { stamp: schedule.stamp, ..plan };
    assert!(matches!(world.fire(&fence, &[again]).await.answers[0], FireAnswer::SetAside(_)));
    assert_eq!(world.ledger(schedule.id).await, []);
    assert_eq!(world.claim(&world.ask(node, 10)).await, []);
}

/// By the kind of its end; and in parts.
pub async fn pruning_keeps_what_is_young_or_unfinished(world: &World<'_>) {
    let node = world.join().await;
    let retention = Retention::default();
    let mut done = Vec::new();
    for _ in 0..3 {
        world.enqueue_one().await;
        let job = world.claim_one(node).await;
        world.settle(&job, Outcome::Done).await;
        done.push(job.id);
        world.pass(1);
    }
    let failed = world.enqueue(NewJob { max_attempts: 1, ..world.new_job() }).await;
    let job = world.claim_one(node).await;
    world.settle(&job, failure()).await;
    let far = NewJob { delay: Delay::For(Duration::from_secs(400 * 86_400)), ..world.new_job() };
    let waiting = world.enqueue(far).await;
    let prune = |most| world.store().prune(world.at(), &retention, most);
    assert_eq!(prune(100).await.unwrap(), Pruned::default());
    world.pass(15 * 86_400);
    assert_eq!(prune(2).await.unwrap().jobs, 2);
    assert!(world.store().job(done[2]).await.unwrap().is_some());
    assert_eq!(prune(2).await.unwrap().jobs, 1);
    assert_eq!(world.state(failed).await, JobState::Failed);
    world.pass(90 * 86_400);
    assert_eq!(prune(100).await.unwrap().jobs, 1);
    world.pass(200 * 86_400);
    assert_eq!(prune(100).await.unwrap().jobs, 0);
    assert_eq!(world.state(waiting).await, JobState::Scheduled);
    // Keys whose time is over go; the node that never was declared dead stays.
    let unique = UniqueKey {
        key: "k".to_owned(),
        scope: KeyScope::Tenant,
        lifetime: KeyLifetime::For(Duration::from_secs(1)),
        is_by_payload: false,
    };
    world.enqueue(NewJob { unique: Some(unique), ..world.new_job() }).await;
    world.pass(1);
    assert_eq!(prune(100).await.unwrap().keys, 1);
    assert_eq!(world.store().nodes().await.unwrap().len(), 1);
}

/// Also when several nodes add to one minute.
pub async fn counters_add_up(world: &World<'_>) {
    let count = |minute: i64, metric: &str, queue: &str, count, sum| RollupCount {
        minute: Timestamp::from_seconds(minute * 60),
        metric: metric.to_owned(),
        queue: queue.to_owned(),
        kind: "mail".to_owned(),
        count,
        sum,
    };
    let add =
        |counts: Vec<RollupCount>| async move { world.store().roll_up(&counts).await.unwrap() };
    add(vec![
        count(1, "succeeded", "a", 2, 300),
        count(2, "succeeded", "a", 1, 10),
        count(1, "failed", "a", 1, 0),
    ])
    .await;
    add(vec![count(1, "succeeded", "a", 3, 400), count(1, "succeeded", "b", 1, 1)]).await;
    let filter = |from: i64, to: i64, metric: Option<&str>| RollupFilter {
        from: Timestamp::from_seconds(from * 60),
        to: Timestamp::from_seconds(to * 60),
        metric: metric.map(str::to_owned),
    };
    let all = world.store().rollups(&filter(0, 10, None), None, 10).await.unwrap().items;
    assert_eq!(
        all,
        [
            count(1, "failed", "a", 1, 0),
            count(1, "succeeded", "a", 5, 700),
            count(1, "succeeded", "b", 1, 1),
            count(2, "succeeded", "a", 1, 10),
        ]
    );
    assert_eq!(
        world.store().rollups(&filter(1, 2, Some("failed")), None, 10).await.unwrap().items,
        [count(1, "failed", "a", 1, 0)]
    );
    assert_eq!(world.store().rollups(&filter(2, 2, None), None, 10).await.unwrap().items, []);
    world.set(Timestamp::from_seconds(90) + Duration::from_secs(365 * 86_400));
    let retention = Retention::default();
    for dropped in [2, 1, 0] {
        let pruned = world.store().prune(world.at(), &retention, 2).await.unwrap();
        assert_eq!(pruned.records, dropped);
    }
}

/// Oldest first, each once, also within a minute.
pub async fn counters_are_read_in_pages(world: &World<'_>) {
    let count = |minute: i64, metric: &str, queue: &str| RollupCount {
        minute: Timestamp::from_seconds(minute * 60),
        metric: metric.to_owned(),
        queue: queue.to_owned(),
        kind: String::new(),
        count: 1,
        sum: 0,
    };
    let all = [
        count(1, "failed", ""),
        count(1, "failed", "a"),
        count(1, "succeeded", ""),
        count(2, "failed", "a"),
        count(3, "succeeded", "b"),
    ];
    world.store().roll_up(&all).await.unwrap();
    for (metric, expected) in [(None, 5), (Some("failed"), 3), (Some("none"), 0)] {
        let filter = RollupFilter {
            from: Timestamp::from_seconds(60),
            to: Timestamp::from_seconds(240),
            metric: metric.map(str::to_owned),
        };
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = world.store().rollups(&filter, cursor.as_ref(), 2).await.unwrap();
            assert!(page.items.len() <= 2);
            seen.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let is_asked = |count: &&RollupCount| metric.is_none_or(|metric| count.metric == metric);
        assert_eq!(seen, all.iter().filter(is_asked).cloned().collect::<Vec<_>>());
        assert_eq!(seen.len(), expected);
    }
    // A cursor from an earlier time does not hide what was asked for.
    let from = Timestamp::from_seconds(120);
    let filter = RollupFilter { from, to: Timestamp::MAX, metric: None };
    let early = count(1, "succeeded", "z").cursor();
    let page = world.store().rollups(&filter, Some(&early), 10).await.unwrap();
    assert_eq!(page.items, all[3..]);
}

/// Newest first.
pub async fn the_audit_is_read_in_pages(world: &World<'_>) {
    for subject in ["a", "b", "c"] {
        let entry =
            AuditEntry { actor: actor(), action: "test".into(), subject: subject.to_owned() };
        world.store().audit(world.at(), &entry).await.unwrap();
        world.pass(1);
    }
    let page = world.store().audits(None, 2).await.unwrap();
    let rest = world.store().audits(page.next, 2).await.unwrap();
    let subjects: Vec<_> =
        page.items.iter().chain(&rest.items).map(|audit| audit.entry.subject.as_str()).collect();
    assert_eq!(subjects, ["c", "b", "a"]);
    assert_eq!(rest.next, None);
}
