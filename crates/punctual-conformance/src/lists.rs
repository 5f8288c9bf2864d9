//! What people look at.

use std::time::Duration;

use punctual_core::JobId;
use punctual_core::job::{AttemptOutcome, JobState, Outcome};
use punctual_store::*;

use crate::World;
use crate::world::failure;

async fn list(world: &World<'_>, filter: JobFilter) -> Vec<JobId> {
    let page = world.store().jobs(&filter, None, 100).await.unwrap();
    assert_eq!(page.next, None);
    page.items.iter().map(|view| view.id).collect()
}

/// Each job once, whatever is written meanwhile.
pub async fn jobs_are_listed_newest_first_in_pages(world: &World<'_>) {
    let mut expected = Vec::new();
    for _ in 0..7 {
        expected.insert(0, world.enqueue_one().await);
        world.pass(1);
    }
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = world.store().jobs(&JobFilter::default(), cursor, 3).await.unwrap();
        seen.extend(page.items.iter().map(|view| view.id));
        world.enqueue_one().await;
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, expected);
    let all = world.store().jobs(&JobFilter::default(), None, 7 + 3).await.unwrap();
    assert_eq!((all.items.len(), all.next), (10, None));
}

/// Alone and together.
pub async fn jobs_are_filtered_by_each_property(world: &World<'_>) {
    let node = world.join().await;
    let plain = world.enqueue_one().await;
    world.pass(1);
    let bulk = world.enqueue(NewJob { queue: "bulk".to_owned(), ..world.new_job() }).await;
    world.pass(1);
    let report = world.enqueue(NewJob { kind: "report".to_owned(), ..world.new_job() }).await;
    world.pass(1);
    let foreign = world.enqueue(NewJob { tenant: "acme".to_owned(), ..world.new_job() }).await;
    world.pass(1);
    let tagged = world
        .enqueue(NewJob { tags: vec!["a".to_owned(), "eu".to_owned()], ..world.new_job() })
        .await;
    world.pass(1);
    let later = NewJob { delay: Delay::For(Duration::from_secs(60)), ..world.new_job() };
    let later = world.enqueue(later).await;
    world.claim_one(node).await;

    let any = JobFilter::default;
    assert_eq!(list(world, any()).await, [later, tagged, foreign, report, bulk, plain]);
    assert_eq!(list(world, JobFilter { queue: Some("bulk".to_owned()), ..any() }).await, [bulk]);
    assert_eq!(list(world, JobFilter { kind: Some("report".to_owned()), ..any() }).await, [report]);
    assert_eq!(
        list(world, JobFilter { tenant: Some("acme".to_owned()), ..any() }).await,
        [foreign]
    );
    assert_eq!(list(world, JobFilter { tag: Some("eu".to_owned()), ..any() }).await, [tagged]);
    assert_eq!(list(world, JobFilter { tag: Some("e".to_owned()), ..any() }).await, []);
    assert_eq!(list(world, JobFilter { state: Some(JobState::Running), ..any() }).await, [plain]);
    assert_eq!(list(world, JobFilter { state: Some(JobState::Scheduled), ..any() }).await, [later]);
    let ready = JobFilter { state: Some(JobState::Ready), kind: Some("mail".to_owned()), ..any() };
    assert_eq!(list(world, ready).await, [tagged, foreign, bulk]);
    assert_eq!(list(world, JobFilter { state: Some(JobState::Blocked), ..any() }).await, []);

    let leader = world.lead("scheduler/0", node).await;
    let schedule = world.schedule("s").await;
    world.pass(60);
    world.fire(&leader, &[world.plan(&schedule)]).await;
    let of_schedule = list(world, JobFilter { schedule: Some(schedule.id), ..any() }).await;
    assert_eq!(of_schedule.len(), 1);
    let both = JobFilter { schedule: Some(schedule.id), state: Some(JobState::Ready), ..any() };
    assert_eq!(list(world, both).await, of_schedule);
}

/// What failed last first, whenever it was written, with what went wrong.
pub async fn failed_jobs_are_listed_with_their_error(world: &World<'_>) {
    let node = world.join().await;
    let mut expected = Vec::new();
    let old = world
        .enqueue(NewJob { max_attempts: 1, kind: "report".to_owned(), ..world.new_job() })
        .await;
    for index in 0..3 {
        let id = world.enqueue(NewJob { max_attempts: 1, ..world.new_job() }).await;
        let job = world.claim_one(node).await;
        world.settle(&job, Outcome::Fail(format!("boom {index}"))).await;
        expected.insert(0, (id, Some(format!("boom {index}")), Some(world.now())));
        world.pass(1);
    }
    let ask = ClaimAsk { kinds: vec!["report".to_owned()], ..world.ask(node, 1) };
    let job = world.claim(&ask).await.remove(0);
    world.settle(&job, Outcome::Fail("old".to_owned())).await;
    expected.insert(0, (old, Some("old".to_owned()), Some(world.now())));
    world.enqueue_one().await;
    let failed = JobFilter { state: Some(JobState::Failed), ..JobFilter::default() };
    let page = world.store().jobs(&failed, None, 2).await.unwrap();
    let rest = world.store().jobs(&failed, page.next, 2).await.unwrap();
    assert_eq!(rest.next, None);
    let seen: Vec<_> = page
        .items
        .iter()
        .chain(&rest.items)
        .map(|view| (view.id, view.error.clone(), view.finished_at))
        .collect();
    assert_eq!(seen, expected);
}

/// A page ends where it has looked at enough, with a cursor to go on; counts end at their bound.
pub async fn many_jobs_are_looked_at_in_parts(world: &World<'_>) {
    let rare = NewJob {
        queue: "bulk".to_owned(),
        kind: "report".to_owned(),
        tags: vec!["eu".to_owned()],
        ..world.new_job()
    };
    let oldest = world.now();
    let rare = world.enqueue(rare).await;
    world.pass(1);
    let mut written = 1;
    while written <= 2 * limits::EXAMINE_MAX + 1 {
        let jobs: Vec<NewJob> = (0..limits::ENQUEUE_MAX).map(|_| world.new_job()).collect();
        world.enqueue_all(&jobs).await;
        written += jobs.len();
    }
    let any = JobFilter::default;
    let ready = Some(JobState::Ready);
    for filter in [
        JobFilter { kind: Some("report".to_owned()), ..any() },
        JobFilter { tag: Some("eu".to_owned()), ..any() },
        JobFilter { state: ready, queue: Some("bulk".to_owned()), ..any() },
        JobFilter {
            state: ready,
            tenant: Some(String::new()),
            tag: Some("eu".to_owned()),
            ..any()
        },
    ] {
        let (mut seen, mut cursor) = (Vec::new(), None);
        let mut pages = 0;
        loop {
            let page = world.store().jobs(&filter, cursor, 10).await.unwrap();
            seen.extend(page.items.iter().map(|view| view.id));
            pages += 1;
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
            assert_eq!(seen, [], "{filter:?}");
        }
        assert_eq!(
            (seen, pages),
            (vec![rare], written.div_ceil(limits::EXAMINE_MAX)),
            "{filter:?}"
        );
    }
    // What is kept in order is found at once.
    assert_eq!(list(world, JobFilter { queue: Some("bulk".to_owned()), ..any() }).await, [rare]);

    // So many are not counted for one request. The counts say so until all are counted.
    let partial = world.store().queue_stats(None, 10).await.unwrap();
    assert_eq!((partial.is_partial, partial.counted_at), (true, None));
    let counted: u64 = partial.items.iter().map(|stats| stats.ready).sum();
    assert!(counted > limits::COUNT_REQUEST_MAX as u64 && counted <= written as u64, "{counted}");
    let fence = world.lead("maintenance", world.join().await).await;
    let request = CountRequest { fence, lease: Duration::from_secs(5) };
    assert!(world.store().count_queues(world.at(), &request).await.unwrap().led);
    let stored = world.store().queue_stats(None, 10).await.unwrap();
    assert_eq!((stored.is_partial, stored.counted_at), (false, Some(world.now())));
    let counts: Vec<_> = stored
        .items
        .iter()
        .map(|stats| (stats.queue.as_str(), stats.ready, stats.oldest_due_at))
        .collect();
    let others = written as u64 - 1;
    assert_eq!(counts, [("bulk", 1, Some(oldest)), ("default", others, Some(world.now()))]);
}

/// Attempt by attempt, oldest first, with the one that is under way.
pub async fn the_history_of_a_job_is_told(world: &World<'_>) {
    let node = world.join().await;
    let id = world.enqueue_one().await;
    let outcomes = [
        failure(),
        Outcome::Released,
        Outcome::TimedOut(Duration::from_secs(1)),
        Outcome::Panicked("ouch".to_owned()),
    ];
    for outcome in outcomes {
        let job = world.claim_one(node).await;
        world.pass(1);
        world.settle(&job, outcome).await;
        world.pass(5);
        world.store().promote(world.at(), 10).await.unwrap();
    }
    world.claim_one(node).await;
    let attempts = world.job(id).await.attempts;
    let told: Vec<_> = attempts
        .iter()
        .map(|attempt| (attempt.attempt, attempt.outcome, attempt.error.as_deref()))
        .collect();
    use AttemptOutcome as Ended;
    assert_eq!(
        told,
        [
            (1, Some(Ended::Failed), Some("boom")),
            (2, Some(Ended::Released), None),
            (3, Some(Ended::TimedOut), Some("exceeded the time limit of 1s")),
            (4, Some(Ended::Panicked), Some("the handler panicked: ouch")),
            (5, None, None),
        ]
    );
    assert!(attempts.iter().all(|attempt| attempt.node == Some(node)));
    assert_eq!(attempts[0].ended_at.unwrap().since(attempts[0].claimed_at), Duration::from_secs(1));
    assert_eq!(attempts[4].ended_at, None);
}
