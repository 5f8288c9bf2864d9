//! What pictures are made of.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::job::{AttemptOutcome, JobState, Outcome, SlotOutcome};
use punctual_core::schedule::Overlap;
use punctual_store::{JobRun, NewJob, RollupCount, RollupSum, SumAsk, limits};

use crate::World;

/// The newest slots of each schedule in the order of the question, each with how its job goes.
pub async fn recent_slots_tell_how_their_jobs_went(world: &World<'_>) {
    let node = world.join().await;
    let leader = world.lead("scheduler/0", node).await;
    let (one, other) = (world.schedule("one").await, world.schedule("other").await);
    world.pass(60);
    let slot = world.now();
    let plans = [&one, &other].map(|schedule| world.plan_slots(schedule, Overlap::Allow, 1));
    world.fire(&leader, &plans).await;
    let recent = world.store().recent_slots(&[other.id, one.id], 10).await.unwrap();
    let told: Vec<_> = recent.iter().map(|run| (run.schedule, run.slot.slot, run.run)).collect();
    assert_eq!(told, [(other.id, slot, None), (one.id, slot, None)]);

    world.pass(2);
    let (first, second) = (world.claim_one(node).await, world.claim_one(node).await);
    let claimed_at = Some(world.now());
    world.pass(3);
    world.settle(&first, Outcome::Done).await;
    let of = |job: &punctual_store::ClaimedJob| job.origin.as_ref().unwrap().schedule;
    let recent = world.store().recent_slots(&[of(&first), of(&second)], 10).await.unwrap();
    let finished_at = Some(world.now());
    let runs: Vec<_> = recent.iter().map(|run| run.run).collect();
    let succeeded = JobRun { state: JobState::Succeeded, attempt: 1, claimed_at, finished_at };
    let running = JobRun { state: JobState::Running, finished_at: None, ..succeeded };
    assert_eq!(runs, [Some(succeeded), Some(running)]);
    assert!(recent.iter().all(|run| run.slot.outcome == SlotOutcome::Fired));

    let later = world.reread(&one).await;
    world.pass(60);
    world.fire(&leader, &[world.plan_slots(&later, Overlap::Allow, 1)]).await;
    let newest = world.store().recent_slots(&[one.id, one.id], 1).await.unwrap();
    let slots: Vec<Timestamp> = newest.iter().map(|run| run.slot.slot).collect();
    assert_eq!(slots.len(), 2, "one slot per query");
    assert!(slots.iter().all(|newest| *newest > slot), "the newest");
    assert_eq!(world.store().recent_slots(&[], 10).await.unwrap(), []);
    let many = vec![one.id; limits::RECENT_SCHEDULES_MAX + 1];
    assert!(world.store().recent_slots(&many, 1).await.is_err());
}

/// By when they have something to decide; not those that have nothing.
pub async fn upcoming_schedules_are_listed_by_their_next_slot(world: &World<'_>) {
    let node = world.join().await;
    let leader = world.lead("scheduler/0", node).await;
    let late = world.schedule("late").await;
    world.pass(60);
    world.fire(&leader, &[world.plan(&late)]).await;
    let names = |most: usize| async move {
        let upcoming = world.store().upcoming(0, most).await.unwrap();
        upcoming.into_iter().map(|schedule| schedule.name).collect::<Vec<_>>()
    };
    assert_eq!(names(10).await, ["late"]);
    assert_eq!(world.store().upcoming(1, 10).await.unwrap(), []);
    assert_eq!(names(0).await, Vec::<String>::new());
}

/// What runs, whenever it was written, and what has run of newer jobs.
pub async fn spans_are_attempts_newest_job_first(world: &World<'_>) {
    let node = world.join().await;
    let old = world.enqueue_one().await;
    let running = world.claim_one(node).await;
    assert_eq!(running.id, old);
    let claimed_first = world.now();
    world.pass(10);
    let since = world.now();
    let tried = world.enqueue(NewJob { max_attempts: 2, ..world.new_job() }).await;
    let job = world.claim_one(node).await;
    world.pass(1);
    world.settle(&job, Outcome::Fail("boom".to_owned())).await;
    world.pass(3_600);
    world.store().promote(world.at(), 10).await.unwrap();
    let job = world.claim_one(node).await;
    assert_eq!(job.id, tried);
    world.pass(2);
    world.settle(&job, Outcome::Done).await;
    let spans = world.store().spans(since, Timestamp::MAX, 100).await.unwrap();
    let told: Vec<_> = spans
        .iter()
        .map(|span| (span.job, span.attempt, span.outcome, span.node, span.kind.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (tried, 2, Some(AttemptOutcome::Succeeded), Some(node), "mail"),
            (tried, 1, Some(AttemptOutcome::Failed), Some(node), "mail"),
            (old, 1, None, Some(node), "mail"),
        ]
    );
    assert_eq!((spans[0].ended_at, spans[2].ended_at), (Some(world.now()), None));
    assert_eq!(spans[2].claimed_at, claimed_first);
    assert_eq!(world.store().spans(since, Timestamp::MAX, 1).await.unwrap(), spans[..1]);
    let later = world.now();
    let only: Vec<_> = world.store().spans(later, Timestamp::MAX, 100).await.unwrap();
    assert_eq!(only, spans[2..], "an older finished job is omitted");
    let before: Vec<_> = world.store().spans(Timestamp::EPOCH, since, 100).await.unwrap();
    assert_eq!(before, spans[2..], "a job newer than the end of the range is omitted");
    assert_eq!(world.store().spans(since, Timestamp::EPOCH, 100).await.unwrap(), []);
}

/// From the first minute up to the last, each queue apart or all together.
pub async fn counters_are_added_up_by_stretches(world: &World<'_>) {
    let start = world.now();
    let minute = |number: u64| start + Duration::from_secs(number * 60);
    let count = |number: u64, metric: &str, queue: &str, kind: &str| RollupCount {
        minute: minute(number),
        metric: metric.to_owned(),
        queue: queue.to_owned(),
        kind: kind.to_owned(),
        count: 1,
        sum: 10,
    };
    let counts = [
        count(0, "failed", "a", "k"),
        count(4, "failed", "a", "l"),
        count(4, "failed", "b", "k"),
        count(5, "failed", "a", "k"),
        count(7, "succeeded", "a", "k"),
        count(10, "failed", "a", "k"),
    ];
    world.store().roll_up(&counts).await.unwrap();
    let ask = SumAsk { from: start, to: minute(10), minutes: 5, by_queue: false };
    let told = |sums: Vec<RollupSum>| {
        sums.into_iter()
            .map(|sum| {
                (sum.at.since(start).as_secs() / 60, sum.metric, sum.queue, sum.count, sum.sum)
            })
            .collect::<Vec<_>>()
    };
    let row = |at, metric: &str, queue: &str, count, sum| {
        (at, metric.to_owned(), queue.to_owned(), count, sum)
    };
    let sums = told(world.store().sums(&ask).await.unwrap());
    assert_eq!(
        sums,
        [row(0, "failed", "", 3, 30), row(5, "failed", "", 1, 10), row(5, "succeeded", "", 1, 10)]
    );
    let sums = told(world.store().sums(&SumAsk { by_queue: true, ..ask }).await.unwrap());
    assert_eq!(sums[..2], [row(0, "failed", "a", 2, 20), row(0, "failed", "b", 1, 10)]);
    assert!(world.store().sums(&SumAsk { minutes: 0, ..ask }).await.is_err());
    let long = SumAsk { to: start + limits::SUM_LENGTH_MAX + Duration::from_secs(60), ..ask };
    assert!(world.store().sums(&long).await.is_err());
}
