//! Rows that cannot be read: each in nobody's way, each with its reason.

use std::time::Duration;

use punctual_core::JobId;
use punctual_core::job::{AttemptOutcome, JobState, Next, Outcome};
use punctual_store::rules::{Spoil, UNREADABLE};
use punctual_store::*;

use crate::World;
use crate::world::{actor, beat_of, failure, json, next_steps};

/// What a response says of a job that failed because it cannot be read.
fn unreadable(job: JobId) -> UnreadableJob {
    UnreadableJob { job, queue: "default".to_owned(), kind: "mail".to_owned() }
}

/// It failed for that reason, without another attempt than those recorded, and everybody can see.
async fn assert_set_aside(world: &World<'_>, id: JobId, attempt: u32) {
    let view = world.job(id).await.view;
    assert_eq!((view.state, view.error.as_deref()), (JobState::Failed, Some(UNREADABLE)));
    assert_eq!((view.attempt, view.finished_at), (attempt, Some(world.now())));
    let failed = JobFilter { state: Some(JobState::Failed), ..JobFilter::default() };
    let failed = world.store().jobs(&failed, None, 10).await.unwrap().items;
    assert!(failed.contains(&view), "{failed:?}");
}

/// A job that has failed once and waits for its second attempt.
async fn tried(world: &World<'_>, node: punctual_core::NodeId) -> JobId {
    let id = world.enqueue_one().await;
    let job = world.claim_one(node).await;
    assert_eq!(world.settle(&job, failure()).await, Settled::Applied(JobState::Retrying));
    id
}

/// It fails with a reason, visible, and those behind it run.
pub async fn a_bad_row_does_not_block_the_queue(world: &World<'_>) {
    let node = world.join().await;
    let bad = world.enqueue_one().await;
    let good = world.enqueue_one().await;
    world.spoil(Spoil::Body(bad)).await;
    let (mut claimed, mut failed) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let answer = world.store().claim(world.at(), &world.ask(node, 1)).await.unwrap();
        claimed.extend(answer.jobs);
        failed.extend(answer.unreadable);
    }
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), [good]);
    assert_eq!(failed, [unreadable(bad)]);
    assert_set_aside(world, bad, 1).await;
}

/// How often it was tried is not known, so that it is not tried again; it counts as picked.
pub async fn a_bad_seat_in_line_fails_alone(world: &World<'_>) {
    let node = world.join().await;
    let old = tried(world, node).await;
    world.pass(5);
    world.store().promote(world.at(), 10).await.unwrap();
    let (bad, good) = (world.enqueue_one().await, world.enqueue_one().await);
    for id in [old, bad] {
        world.spoil(Spoil::Seat(id)).await;
        assert_eq!(world.state(id).await, JobState::Ready);
    }
    let ready = JobFilter { state: Some(JobState::Ready), ..JobFilter::default() };
    assert_eq!(world.store().jobs(&ready, None, 10).await.unwrap().items.len(), 3);
    assert_eq!(world.store().queue_stats(None, 10).await.unwrap().items[0].ready, 3);
    let answer = world.store().claim(world.at(), &world.ask(node, 2)).await.unwrap();
    let mut expected = vec![unreadable(old), unreadable(bad)];
    expected.sort();
    assert_eq!((answer.jobs, answer.unreadable), (Vec::new(), expected));
    assert_set_aside(world, old, 1).await;
    assert_set_aside(world, bad, 0).await;
    assert_eq!(world.claim_one(node).await.id, good);
}

/// It fails when its time has come; the others are promoted, and the next is told.
pub async fn a_bad_timer_fails_alone(world: &World<'_>) {
    let node = world.join().await;
    let retrying = tried(world, node).await;
    let unique = UniqueKey {
        key: "k".to_owned(),
        scope: KeyScope::Tenant,
        lifetime: KeyLifetime::Job,
        is_by_payload: false,
    };
    let after = |seconds| NewJob {
        delay: Delay::For(Duration::from_secs(seconds)),
        unique: Some(unique.clone()).filter(|_| seconds == 6),
        ..world.new_job()
    };
    let (keyed, good) = (world.enqueue(after(6)).await, world.enqueue(after(7)).await);
    let late = world.enqueue(after(60)).await;
    for id in [retrying, keyed] {
        world.spoil(Spoil::Seat(id)).await;
        // Nobody knows that it was tried.
        assert_eq!(world.state(id).await, JobState::Scheduled);
    }
    let scheduled = JobFilter { state: Some(JobState::Scheduled), ..JobFilter::default() };
    assert_eq!(world.store().jobs(&scheduled, None, 10).await.unwrap().items.len(), 4);
    assert_eq!(world.store().queue_stats(None, 10).await.unwrap().items[0].scheduled, 4);
    world.pass(7);
    let promoted = world.store().promote(world.at(), 10).await.unwrap();
    assert_eq!(promoted.queues.get("default"), Some(&1));
    let mut expected = vec![unreadable(retrying), unreadable(keyed)];
    expected.sort();
    assert_eq!(promoted.unreadable, expected);
    assert_eq!(promoted.next_due, world.job(late).await.view.due_at);
    assert_set_aside(world, retrying, 1).await;
    assert_set_aside(world, keyed, 0).await;
    assert_eq!(world.claim_one(node).await.id, good);
    // What it held is free.
    world.enqueue(NewJob { delay: Delay::None, ..after(6) }).await;
}

/// Work that is done is done; but there is no further attempt.
pub async fn a_bad_seat_of_a_running_job_lets_its_end_count(world: &World<'_>) {
    let node = world.join().await;
    for (outcome, state, recorded) in [
        (Outcome::Done, JobState::Succeeded, AttemptOutcome::Succeeded),
        (failure(), JobState::Failed, AttemptOutcome::Failed),
        (Outcome::Released, JobState::Failed, AttemptOutcome::Released),
        (Outcome::Cancel("no".to_owned()), JobState::Cancelled, AttemptOutcome::Cancelled),
    ] {
        let id = world.enqueue_one().await;
        let job = world.claim_one(node).await;
        world.settle(&job, Outcome::Released).await;
        let job = world.claim_one(node).await;
        world.spoil(Spoil::Seat(id)).await;
        assert_eq!(world.state(id).await, JobState::Running);
        let known = BeatAsk { leases: vec![job.lease], ..beat_of(node) };
        assert_eq!(world.beat_as(&known).await.strays, []);
        let settlement = world.settlement(&job, outcome);
        let settle = || world.settle_all(std::slice::from_ref(&settlement));
        assert_eq!(settle().await, [Settled::Applied(state)]);
        assert_eq!(settle().await, [Settled::Already]);
        let found = world.job(id).await;
        let last = found.attempts.last().unwrap();
        assert_eq!((last.attempt, last.outcome), (2, Some(recorded)));
        if state == JobState::Failed {
            assert_eq!(found.view.error.as_deref(), Some(UNREADABLE));
        }
    }
    assert_eq!(world.claim(&world.ask(node, 10)).await, []);
}

/// Its worker cannot settle it, and nobody could name it to give it back: the next beat ends it.
pub async fn a_bad_lease_fails_with_the_next_beat(world: &World<'_>) {
    let node = world.join().await;
    for _ in 0..2 {
        world.enqueue_one().await;
    }
    let (job, other) = (world.claim_one(node).await, world.claim_one(node).await);
    let (bad, good) = (job.id, other.id);
    world.spoil(Spoil::Lease(bad)).await;
    world.store().cancel(world.at(), good, &actor()).await.unwrap();
    assert_eq!(world.settle(&job, Outcome::Done).await, Settled::Fenced);
    let released = world.store().release(world.at(), node, &[job.lease]).await.unwrap();
    assert_eq!(released.jobs, []);
    assert_eq!(world.state(bad).await, JobState::Running);
    let ask = BeatAsk { leases: vec![job.lease, other.lease], ..beat_of(node) };
    let beaten = world.beat_as(&ask).await;
    assert_eq!((beaten.strays, beaten.cancels), (Vec::new(), vec![good]));
    assert_eq!(beaten.unreadable, [unreadable(bad)]);
    assert_set_aside(world, bad, 0).await;
    assert_eq!(world.state(good).await, JobState::Running);
}

/// And the others are taken back.
pub async fn a_bad_lease_of_a_dead_node_fails_alone(world: &World<'_>) {
    let (dead, leading) = (world.join().await, world.join().await);
    let fence = world.lead("maintenance", leading).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(world.enqueue_one().await);
    }
    world.claim(&world.ask(dead, 3)).await;
    ids.sort();
    world.spoil(Spoil::Lease(ids[0])).await;
    world.spoil(Spoil::Seat(ids[1])).await;
    world.steady(leading, &fence).await;
    let again = Next::After(Duration::from_secs(5));
    let steps = next_steps(&world.reap(&fence).await);
    assert_eq!(steps, [(ids[0], Next::Failed), (ids[1], Next::Failed), (ids[2], again)]);
    assert_set_aside(world, ids[0], 0).await;
    assert_set_aside(world, ids[1], 0).await;
}

/// Calling it off is all one; and a requeued job has a seat that can be read.
pub async fn a_bad_seat_can_be_cancelled_and_requeued(world: &World<'_>) {
    let node = world.join().await;
    let retrying = tried(world, node).await;
    let ready = world.enqueue_one().await;
    for id in [retrying, ready] {
        world.spoil(Spoil::Seat(id)).await;
        let answer = world.store().cancel(world.at(), id, &actor()).await.unwrap();
        assert_eq!(answer, CancelAnswer::Cancelled);
        assert_eq!(world.state(id).await, JobState::Cancelled);
        let requeued = world.store().requeue(world.at(), &[id], &actor()).await.unwrap();
        assert_eq!(requeued, [RequeueAnswer::Requeued]);
    }
    let mut claimed = world.claim(&world.ask(node, 10)).await;
    claimed.sort_by_key(|job| job.id);
    let told: Vec<_> = claimed.iter().map(|job| (job.id, job.attempt, job.spent)).collect();
    let mut expected = vec![(retrying, 2, 0), (ready, 1, 0)];
    expected.sort();
    assert_eq!(told, expected);
    // A body that cannot be read is requeued in vain, and says so again.
    let bad = world.enqueue_one().await;
    world.spoil(Spoil::Body(bad)).await;
    for _ in 0..2 {
        assert_eq!(world.claim(&world.ask(node, 10)).await, []);
        assert_eq!(world.state(bad).await, JobState::Failed);
        let requeued = world.store().requeue(world.at(), &[bad], &actor()).await.unwrap();
        assert_eq!(requeued, [RequeueAnswer::Requeued]);
    }
}

/// It fails instead, so that whoever moves it sees why.
pub async fn a_bad_seat_cannot_be_moved(world: &World<'_>) {
    let id = world.enqueue_one().await;
    world.spoil(Spoil::Seat(id)).await;
    let to = Placement { queue: Some("bulk".to_owned()), ..Placement::default() };
    let answer = world.store().place(world.at(), id, &to, &actor()).await.unwrap();
    assert_eq!(answer, MoveAnswer::NotWaiting(JobState::Failed));
    assert_set_aside(world, id, 0).await;
    assert_eq!(world.job(id).await.view.queue, "default");
}

/// The job is shown without them, and the list goes on.
pub async fn bad_tags_are_left_out_of_lists(world: &World<'_>) {
    let node = world.join().await;
    let tagged = || NewJob { tags: vec!["eu".to_owned()], ..world.new_job() };
    let (bad, good) = (world.enqueue(tagged()).await, world.enqueue(tagged()).await);
    world.spoil(Spoil::Tags(bad)).await;
    let filter = JobFilter { tag: Some("eu".to_owned()), ..JobFilter::default() };
    let list = world.store().jobs(&filter, None, 10).await.unwrap().items;
    assert_eq!(list.iter().map(|view| view.id).collect::<Vec<_>>(), [good]);
    assert_eq!(world.store().jobs(&JobFilter::default(), None, 10).await.unwrap().items.len(), 2);
    assert_eq!(world.job(bad).await.tags, [""; 0]);
    let claimed = world.claim(&world.ask(node, 10)).await;
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), [good]);
    assert_set_aside(world, bad, 1).await;
}

/// With its reason, once, and the others are due.
pub async fn a_bad_schedule_is_set_aside_and_the_rest_fires(world: &World<'_>) {
    let node = world.join().await;
    let fence = world.lead("scheduler/0", node).await;
    let (bad, good) = (world.schedule("bad").await, world.schedule("good").await);
    world.spoil(Spoil::Schedule(bad.id)).await;
    let shown = rules::unreadable(bad.clone());
    assert_eq!(world.reread(&bad).await, shown);
    world.pass(60);
    for _ in 0..2 {
        let due = world.store().due(world.at(), 0, 10).await.unwrap().schedules;
        assert_eq!(due, std::slice::from_ref(&good));
    }
    let set_aside = Schedule { stamp: bad.stamp + 1, ..shown };
    assert_eq!(world.reread(&bad).await, set_aside);
    assert_eq!(world.store().schedule_named("", "bad").await.unwrap(), Some(set_aside.clone()));
    let all = world.store().schedules("", None, 10).await.unwrap();
    assert_eq!(all, [set_aside, good.clone()]);
    assert_eq!(world.fire(&fence, &[world.plan(&good)]).await.answers, [FireAnswer::Applied]);
}

/// Disabled, deleted, or given another definition.
pub async fn a_bad_schedule_can_be_mended_or_removed(world: &World<'_>) {
    let (one, other) = (world.schedule("one").await, world.schedule("other").await);
    for schedule in [&one, &other] {
        world.spoil(Spoil::Schedule(schedule.id)).await;
    }
    let (store, who) = (world.store(), actor());
    let change = |schedule: Schedule, change: ScheduleChange| async move {
        let (id, stamp) = (schedule.id, schedule.stamp);
        match store.change_schedule(world.at(), id, stamp, &change, &actor()).await.unwrap() {
            EditAnswer::Done(schedule) => schedule,
            answer => panic!("{answer:?}"),
        }
    };
    let disabled =
        change(one.clone(), ScheduleChange::Disable { passed: PassedSlots::default() }).await;
    let set_aside = Some(UNREADABLE.to_owned());
    assert_eq!((disabled.enabled, &disabled.set_aside), (false, &set_aside));
    assert_eq!(world.reread(&one).await, disabled);
    let deleted = store.delete_schedule(world.at(), one.id, disabled.stamp, &who).await.unwrap();
    assert_eq!(deleted, EditAnswer::Done(disabled));
    assert_eq!(store.schedule(one.id).await.unwrap(), None);

    let spec = json(r#"{"cron":"@daily"}"#);
    let next_slot = Some(world.now() + Duration::from_secs(60));
    let define = ScheduleChange::Define {
        spec: spec.clone(),
        owner: "ops".to_owned(),
        next_slot,
        passed: PassedSlots::default(),
    };
    let mended = change(other.clone(), define).await;
    assert_eq!((&mended.spec, &mended.set_aside), (&spec, &None));
    assert_eq!(world.reread(&other).await, mended);
    world.pass(60);
    let due = store.due(world.at(), 0, 10).await.unwrap().schedules;
    assert_eq!(due, [mended]);
}
