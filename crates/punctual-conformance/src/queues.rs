//! Queues: pause, limits, statistics.

use std::time::Duration;

use punctual_core::job::Outcome;
use punctual_store::*;

use crate::World;
use crate::world::{actor, failure};

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
