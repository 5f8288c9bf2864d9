//! Queues: pause, limits, statistics.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::job::Outcome;
use punctual_store::*;

use crate::World;
use crate::world::{LEASE, actor, failure};

async fn change(world: &World<'_>, queue: &str, change: QueueChange) -> Queue {
    world.store().change_queue(world.at(), queue, &change, &actor()).await.unwrap()
}

/// Other queues go on, and resuming brings everything back.
pub async fn a_paused_queue_yields_nothing(world: &World<'_>) {
    let node = world.join().await;
    world.enqueue_one().await;
    let other = world.enqueue(NewJob { queue: "other".to_owned(), ..world.new_job() }).await;
    change(world, "default", QueueChange::Pause { until: None }).await;
    let mut ask = world.ask(node, 10);
    ask.queues.push(QueueShare { name: "other".to_owned(), most: 10 });
    let claimed: Vec<_> = world.claim(&ask).await.iter().map(|job| job.id).collect();
    assert_eq!(claimed, [other]);
    change(world, "default", QueueChange::Resume).await;
    assert_eq!(world.claim(&world.ask(node, 10)).await.len(), 1);
}

/// So that whoever finds it paused knows whom to ask.
pub async fn a_pause_of_a_queue_says_who_and_why_and_ends_by_itself(world: &World<'_>) {
    let node = world.join().await;
    world.enqueue_one().await;
    let until = Some(world.now() + Duration::from_secs(60));
    let queue = change(world, "default", QueueChange::Pause { until }).await;
    let pause = Pause { by: actor(), since: world.now(), until };
    let expected =
        Queue { name: "default".to_owned(), pause: Some(pause), limits: QueueLimits::default() };
    assert_eq!(queue, expected);
    assert_eq!(world.store().queues().await.unwrap(), [expected]);
    world.pass(59);
    assert_eq!(world.claim(&world.ask(node, 10)).await, []);
    world.pass(1);
    assert_eq!(world.claim(&world.ask(node, 10)).await.len(), 1);
    let error = world
        .store()
        .change_queue(world.at(), "", &QueueChange::Resume, &actor())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// What runs anywhere counts; what has ended does not.
pub async fn a_limit_holds_over_all_nodes(world: &World<'_>) {
    let (one, other) = (world.join().await, world.join().await);
    for _ in 0..10 {
        world.enqueue_one().await;
    }
    let limits = QueueLimits { max_running: Some(3) };
    assert_eq!(change(world, "default", QueueChange::Limit(limits)).await.limits, limits);
    let first = world.claim(&world.ask(one, 2)).await;
    assert_eq!(world.claim(&world.ask(other, 10)).await.len(), 1);
    assert_eq!(world.claim(&world.ask(other, 10)).await, []);
    world.settle(&first[0], Outcome::Done).await;
    world.settle(&first[1], failure()).await;
    assert_eq!(world.claim(&world.ask(other, 10)).await.len(), 2);
    change(world, "default", QueueChange::Limit(QueueLimits::default())).await;
    assert_eq!(world.claim(&world.ask(other, 10)).await.len(), 5);
}

/// By queue, then by kind, wherever the jobs are.
pub async fn statistics_are_read_in_pages(world: &World<'_>) {
    let node = world.join().await;
    let job = |queue: &str, kind: &str| NewJob {
        queue: queue.to_owned(),
        kind: kind.to_owned(),
        ..world.new_job()
    };
    let later = Delay::For(Duration::from_secs(60));
    world.enqueue(NewJob { max_attempts: 1, ..job("default", "mail") }).await;
    let dead = world.claim_one(node).await;
    world.settle(&dead, failure()).await;
    world.enqueue(job("a", "mail")).await;
    world.enqueue(NewJob { delay: later, ..job("a", "report") }).await;
    world.enqueue(NewJob { delay: later, ..job("z", "mail") }).await;
    world.enqueue(job("b", "report")).await;
    let ask = ClaimAsk {
        queues: vec![QueueShare { name: "b".to_owned(), most: 1 }],
        kinds: vec!["report".to_owned()],
        ..world.ask(node, 1)
    };
    assert_eq!(world.claim(&ask).await.len(), 1);
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = world.store().queue_stats(cursor.as_ref(), 2).await.unwrap();
        assert!(page.items.len() <= 2);
        seen.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let empty = |queue: &str, kind: &str| QueueStats::empty(queue.to_owned(), kind.to_owned());
    let due = Some(world.now());
    assert_eq!(
        seen,
        [
            QueueStats { ready: 1, oldest_due_at: due, ..empty("a", "mail") },
            QueueStats { scheduled: 1, ..empty("a", "report") },
            QueueStats { running: 1, ..empty("b", "report") },
            QueueStats { failed: 1, ..empty("default", "mail") },
            QueueStats { scheduled: 1, ..empty("z", "mail") },
        ]
    );
}

/// By queue and kind.
pub async fn statistics_count_each_state(world: &World<'_>) {
    let node = world.join().await;
    let jobs = [
        NewJob { max_attempts: 1, priority: 9, ..world.new_job() },
        NewJob { priority: 8, ..world.new_job() },
        NewJob { priority: 7, ..world.new_job() },
        NewJob { priority: 6, ..world.new_job() },
        world.new_job(),
        world.new_job(),
        NewJob { delay: Delay::For(Duration::from_secs(60)), ..world.new_job() },
        NewJob { kind: "report".to_owned(), ..world.new_job() },
        NewJob { queue: "bulk".to_owned(), ..world.new_job() },
    ];
    world.enqueue_all(&jobs).await;
    let due = world.now();
    world.pass(10);
    let claimed = world.claim(&world.ask(node, 4)).await;
    world.settle(&claimed[0], failure()).await;
    world.settle(&claimed[1], failure()).await;
    world.settle(&claimed[2], Outcome::Done).await;
    let empty = |queue: &str, kind: &str| QueueStats::empty(queue.to_owned(), kind.to_owned());
    assert_eq!(
        world.store().queue_stats(None, 10).await.unwrap().items,
        [
            QueueStats { ready: 1, oldest_due_at: Some(due), ..empty("bulk", "mail") },
            QueueStats {
                ready: 2,
                scheduled: 1,
                retrying: 1,
                running: 1,
                failed: 1,
                oldest_due_at: Some(due),
                ..empty("default", "mail")
            },
            QueueStats { ready: 1, oldest_due_at: Some(due), ..empty("default", "report") },
        ]
    );
}

/// Enqueues this many jobs that are ready.
async fn fill(world: &World<'_>, queue: &str, jobs: usize) {
    let new = || NewJob { queue: queue.to_owned(), ..world.new_job() };
    let jobs: Vec<NewJob> = (0..jobs).map(|_| new()).collect();
    for batch in jobs.chunks(limits::ENQUEUE_MAX) {
        world.enqueue_all(batch).await;
    }
}

async fn count(world: &World<'_>, fence: &Fence) -> CountResponse {
    let request = CountRequest { fence: fence.clone(), lease: LEASE };
    world.store().count_queues(world.at(), &request).await.unwrap()
}

/// The number of ready jobs by queue, and when it was stored.
async fn ready(world: &World<'_>) -> (Vec<(String, u64)>, Option<Timestamp>) {
    let QueueCounts { items, counted_at, .. } = world.store().queue_stats(None, 10).await.unwrap();
    (items.into_iter().map(|stats| (stats.queue, stats.ready)).collect(), counted_at)
}

fn named(counts: &[(&str, usize)]) -> Vec<(String, u64)> {
    counts.iter().map(|(queue, count)| ((*queue).to_owned(), *count as u64)).collect()
}

/// A request does not count again: the counts have the age that it reports.
pub async fn stored_counts_are_read_while_there_are_many_jobs(world: &World<'_>) {
    let node = world.join().await;
    let fence = world.lead("maintenance", node).await;
    let many = limits::COUNT_LIVE_MAX;
    fill(world, "a", many).await;
    assert_eq!(count(world, &fence).await, CountResponse { led: true, jobs: many as u64 });
    assert_eq!(ready(world).await, (named(&[("a", many)]), None), "few jobs are not stored");

    fill(world, "b", 1).await;
    assert_eq!(ready(world).await, (named(&[("a", many), ("b", 1)]), None), "not counted yet");
    let counted_at = Some(world.now());
    assert_eq!(count(world, &fence).await.jobs, many as u64 + 1);
    world.pass(3);
    fill(world, "b", 5).await;
    fill(world, "c", 1).await;
    let old = named(&[("a", many), ("b", 1)]);
    assert_eq!(ready(world).await, (old, counted_at));
    let page = world.store().queue_stats(None, 1).await.unwrap();
    assert_eq!((page.items.len(), page.counted_at), (1, counted_at));
    let page = world.store().queue_stats(page.next.as_ref(), 1).await.unwrap();
    assert_eq!((page.items[0].queue.as_str(), page.next, page.counted_at), ("b", None, counted_at));
    let last = StatsCursor { queue: "b".to_owned(), kind: "mail".to_owned() };
    let page = world.store().queue_stats(Some(&last), 1).await.unwrap();
    assert_eq!((page.items, page.counted_at), (Vec::new(), counted_at));

    count(world, &fence).await;
    let new = named(&[("a", many), ("b", 6), ("c", 1)]);
    assert_eq!(ready(world).await, (new, Some(world.now())));
}

/// A queue that is empty leaves the stored counts, and with few jobs the counts are live again.
pub async fn stored_counts_end_with_the_backlog(world: &World<'_>) {
    let node = world.join().await;
    let fence = world.lead("maintenance", node).await;
    let many = limits::COUNT_LIVE_MAX;
    fill(world, "a", many + 1).await;
    fill(world, "b", 1).await;
    count(world, &fence).await;
    let take = ClaimAsk {
        queues: vec![QueueShare { name: "b".to_owned(), most: 1 }],
        ..world.ask(node, 1)
    };
    let claimed = world.claim(&take).await;
    world.settle(&claimed[0], Outcome::Done).await;
    assert_eq!(ready(world).await.0, named(&[("a", many + 1), ("b", 1)]));
    count(world, &fence).await;
    assert_eq!(ready(world).await, (named(&[("a", many + 1)]), Some(world.now())));

    let take = ClaimAsk {
        queues: vec![QueueShare { name: "a".to_owned(), most: 1 }],
        ..world.ask(node, 1)
    };
    let claimed = world.claim(&take).await;
    world.settle(&claimed[0], Outcome::Done).await;
    // The stored counts are removed, so that the next backlog does not show old ones.
    count(world, &fence).await;
    assert_eq!(ready(world).await, (named(&[("a", many)]), None));
    fill(world, "c", 1).await;
    assert_eq!(ready(world).await, (named(&[("a", many), ("c", 1)]), None));
}

/// A node that has lost its term changes no stored counts.
pub async fn storing_counts_needs_the_term(world: &World<'_>) {
    let (one, other) = (world.join().await, world.join().await);
    let lost = world.lead("maintenance", one).await;
    let many = limits::COUNT_LIVE_MAX + 1;
    fill(world, "a", many).await;
    world.pass(60);
    let fence = world.lead("maintenance", other).await;
    assert!(!count(world, &lost).await.led);
    assert_eq!(ready(world).await.1, None);
    assert!(count(world, &fence).await.led);
    let counted_at = Some(world.now());
    world.pass(1);
    assert!(!count(world, &lost).await.led);
    assert_eq!(ready(world).await, (named(&[("a", many)]), counted_at));
}
