//! Jobs that wait past their start deadline: the maintenance leader ends them without a claim.

use std::time::Duration;

use punctual_core::job::{EXPIRED, JobState, Outcome, SlotOutcome, refuse_start};
use punctual_core::schedule::Overlap;
use punctual_core::{JobId, Timestamp};
use punctual_store::rules::{Spoil, UNREADABLE};
use punctual_store::*;

use crate::World;
use crate::world::{LEASE, actor, failure};

/// When a running job is checked again, in seconds.
const RECHECK: u64 = 20;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The term of the role `maintenance`, with a live node that serves the queue.
async fn lead(world: &World<'_>) -> Fence {
    let node = world.join().await;
    world.lead("maintenance", node).await
}

/// A job that must start within this many seconds.
fn limited(world: &World<'_>, start_within: u64) -> NewJob {
    NewJob { start_within: Some(seconds(start_within)), ..world.new_job() }
}

async fn expire_some(world: &World<'_>, fence: &Fence, limit: usize) -> ExpireResponse {
    let recheck_after = seconds(RECHECK);
    let request = ExpireRequest { fence: fence.clone(), lease: LEASE, recheck_after, limit };
    let response = world.store().expire(world.at(), &request).await.expect("expire");
    assert_eq!(response.at, world.now());
    response
}

/// The jobs that were ended.
async fn expire(world: &World<'_>, fence: &Fence) -> Vec<JobId> {
    let response = expire_some(world, fence, 100).await;
    assert!(response.led && !response.is_more, "{response:?}");
    response.jobs.iter().map(|job| job.job).collect()
}

async fn next_deadline(world: &World<'_>) -> Option<Timestamp> {
    world.store().promote(world.at(), 10).await.expect("promote").next_deadline
}

async fn assert_expired(world: &World<'_>, id: JobId, counted_attempts: u32) {
    let job = world.job(id).await;
    assert_eq!((job.view.state, job.view.error.as_deref()), (JobState::Failed, Some(EXPIRED)));
    assert_eq!((job.spent, job.view.finished_at), (counted_attempts, Some(world.now())));
    let failed = JobFilter { state: Some(JobState::Failed), ..JobFilter::default() };
    let failed = world.store().jobs(&failed, None, 10).await.unwrap().items;
    assert!(failed.contains(&job.view), "{failed:?}");
}

/// Ready or due later; other jobs stay.
pub async fn a_job_that_waits_past_its_start_deadline_fails_without_an_attempt(world: &World<'_>) {
    let fence = lead(world).await;
    let ready = world.enqueue(limited(world, 10)).await;
    let delay = Delay::For(seconds(100));
    let scheduled = world.enqueue(NewJob { delay, ..limited(world, 10) }).await;
    let unlimited = world.enqueue_one().await;
    let due_at = world.now();
    assert_eq!(world.job(ready).await.expires_at, Some(due_at + seconds(10)));
    assert_eq!(world.job(unlimited).await.expires_at, None);
    assert_eq!(next_deadline(world).await, Some(due_at + seconds(10)));
    // A job may still start at its deadline.
    world.pass(10);
    assert_eq!(expire(world, &fence).await, []);
    world.pass(1);
    let response = expire_some(world, &fence, 100).await;
    let (queue, kind) = ("default".to_owned(), "mail".to_owned());
    assert_eq!(response.jobs, [ExpiredJob { job: ready, queue, kind, due_at, error: EXPIRED }]);
    assert_expired(world, ready, 0).await;
    let job = world.job(ready).await;
    assert_eq!((job.attempts, job.view.attempt, job.crashes), (Vec::new(), 0, 0));
    let after = EventCursor::at(Timestamp::MIN);
    let events = world.store().events(&after, Timestamp::MAX, 100).await.unwrap().items;
    let is_its_end = |event: &Event| matches!(event, Event::Ended(view) if view.id == ready);
    assert!(events.iter().any(is_its_end), "{events:?}");
    let stats = world.store().queue_stats(None, 10).await.unwrap().items;
    assert_eq!((stats[0].failed, stats[0].ready, stats[0].scheduled), (1, 1, 1));
    // The other one is not late before it is due.
    assert_eq!(next_deadline(world).await, Some(due_at + seconds(110)));
    world.pass(100);
    assert_eq!(expire(world, &fence).await, [scheduled]);
    assert_eq!(next_deadline(world).await, None);
    assert_eq!(world.state(unlimited).await, JobState::Ready);
}

/// As if a node had claimed them and refused to start them.
pub async fn a_claim_and_the_sweep_refuse_the_same_jobs(world: &World<'_>) {
    let (node, fence) = (world.join().await, lead(world).await);
    let (first, second) = (world.enqueue(limited(world, 10)).await, limited(world, 10));
    let second = world.enqueue(NewJob { priority: -1, ..second }).await;
    world.pass(11);
    let claimed = world.claim_one(node).await;
    assert_eq!(claimed.id, first);
    let transition = refuse_start(&claimed.standing(), world.now()).expect("the deadline passed");
    let (job, lease, then) = (claimed.id, claimed.lease, Vec::new());
    let settlement = Settlement { job, lease, transition, result: None, then };
    assert_eq!(world.settle_all(&[settlement]).await, [Settled::Applied(JobState::Failed)]);
    assert_eq!(expire(world, &fence).await, [second]);
    for id in [first, second] {
        assert_expired(world, id, 0).await;
    }
}

/// As the end of any job does.
pub async fn an_expired_job_frees_its_key(world: &World<'_>) {
    let fence = lead(world).await;
    let keyed = |lifetime| {
        let unique = UniqueKey {
            key: "k".to_owned(),
            scope: KeyScope::Kind,
            lifetime,
            is_by_payload: false,
        };
        NewJob { unique: Some(unique), ..limited(world, 10) }
    };
    let first = world.enqueue(keyed(KeyLifetime::Job)).await;
    world.pass(11);
    assert_eq!(expire(world, &fence).await, [first]);
    // A key that is held for a time stays held.
    let second = world.enqueue(keyed(KeyLifetime::For(seconds(60)))).await;
    world.pass(11);
    assert_eq!(expire(world, &fence).await, [second]);
    let again = keyed(KeyLifetime::Job);
    let answers = world.enqueue_all(std::slice::from_ref(&again)).await;
    assert_eq!(answers, [EnqueueAnswer::Duplicate(second)]);
    world.pass(60);
    world.enqueue(again).await;
}

/// Of a schedule: the plan that fires its next slots, and their jobs.
fn plan(
    world: &World<'_>,
    schedule: &Schedule,
    overlap: Overlap,
    slots: u32,
    start_within: u64,
) -> (SlotPlan, Vec<JobId>) {
    let mut plan = world.plan_slots(schedule, overlap, slots);
    let SlotDecision::Advance { slots, .. } = &mut plan.decision else { panic!("{plan:?}") };
    let mut jobs = Vec::new();
    for job in slots.iter_mut().filter_map(|row| row.job.as_mut()) {
        job.start_within = Some(seconds(start_within));
        jobs.push(job.id);
    }
    world.set(world.now().max(slots.last().expect("a slot").slot));
    (plan, jobs)
}

async fn outcomes(world: &World<'_>, schedule: &Schedule) -> Vec<SlotOutcome> {
    world.ledger(schedule.id).await.iter().map(|view| view.outcome).collect()
}

/// With `overlap = skip`.
pub async fn an_expired_job_lets_its_schedule_fire(world: &World<'_>) {
    let fence = lead(world).await;
    let scheduler = world.lead("scheduler/0", world.join().await).await;
    let schedule = world.schedule("nightly").await;
    let (first, jobs) = plan(world, &schedule, Overlap::Skip, 1, 10);
    world.fire(&scheduler, &[first]).await;
    world.pass(11);
    assert_eq!(expire(world, &fence).await, jobs);
    let (second, jobs) = plan(world, &world.reread(&schedule).await, Overlap::Skip, 1, 120);
    world.fire(&scheduler, &[second]).await;
    assert_eq!(outcomes(world, &schedule).await, [SlotOutcome::Fired, SlotOutcome::Fired]);
    assert_eq!(world.state(jobs[0]).await, JobState::Ready);
    // No node claims it, and it has time left.
    assert_eq!(expire(world, &fence).await, []);
    let (third, _) = plan(world, &world.reread(&schedule).await, Overlap::Skip, 1, 10);
    world.fire(&scheduler, &[third]).await;
    assert_eq!(outcomes(world, &schedule).await[0], SlotOutcome::SkippedOverlap);
}

/// Blocked jobs expire, and later ones are unblocked.
pub async fn jobs_that_wait_for_each_other_expire_one_by_one(world: &World<'_>) {
    let fence = lead(world).await;
    let scheduler = world.lead("scheduler/0", world.join().await).await;
    let schedule = world.schedule("nightly").await;
    // Slots are a minute apart, and all are due when the last one is.
    let (fired, jobs) = plan(world, &schedule, Overlap::QueueAll, 3, 10);
    world.fire(&scheduler, &[fired]).await;
    let (queued, more) = plan(world, &world.reread(&schedule).await, Overlap::QueueAll, 1, 600);
    world.fire(&scheduler, &[queued]).await;
    assert_eq!(world.state(jobs[1]).await, JobState::Blocked);
    assert_eq!(world.state(more[0]).await, JobState::Blocked);
    let mut ended = expire(world, &fence).await;
    ended.sort_unstable();
    let mut expected = jobs.clone();
    expected.sort_unstable();
    assert_eq!(ended, expected);
    for id in jobs {
        assert_expired(world, id, 0).await;
    }
    world.store().promote(world.at(), 10).await.unwrap();
    assert_eq!(world.state(more[0]).await, JobState::Ready);
}

/// An attempt that started in time may continue; if it ends without a result, its job has expired.
pub async fn a_running_job_expires_when_it_waits_again(world: &World<'_>) {
    let (node, fence) = (world.join().await, lead(world).await);
    let mut jobs = Vec::new();
    for outcome in [Outcome::Released, Outcome::Snooze(seconds(3_600)), Outcome::Done] {
        world.enqueue(limited(world, 10)).await;
        jobs.push((world.claim_one(node).await, outcome));
    }
    world.pass(11);
    assert_eq!(expire(world, &fence).await, []);
    let recheck_at = world.now() + seconds(RECHECK);
    assert_eq!(next_deadline(world).await, Some(recheck_at));
    world.pass(RECHECK);
    for (job, outcome) in jobs.clone() {
        world.settle(&job, outcome).await;
    }
    assert_eq!(expire(world, &fence).await, []);
    world.pass(1);
    let mut ended = expire(world, &fence).await;
    ended.sort_unstable();
    let mut expected = [jobs[0].0.id, jobs[1].0.id];
    expected.sort_unstable();
    assert_eq!(ended, expected);
    for id in ended {
        assert_expired(world, id, 0).await;
    }
    assert_eq!(world.state(jobs[2].0.id).await, JobState::Succeeded);
    assert_eq!(next_deadline(world).await, None);
}

/// The deadline is for every attempt, not only for the first.
pub async fn a_retry_expires_with_the_attempts_that_it_used(world: &World<'_>) {
    let (node, fence) = (world.join().await, lead(world).await);
    let id = world.enqueue(limited(world, 10)).await;
    let job = world.claim_one(node).await;
    assert_eq!(world.settle(&job, failure()).await, Settled::Applied(JobState::Retrying));
    world.pass(11);
    assert_eq!(expire(world, &fence).await, [id]);
    assert_expired(world, id, 1).await;
    assert_eq!(world.job(id).await.view.attempt, 1);
}

/// An operator wants it now, and a move changes when it is due, not until when it may start.
pub async fn a_retried_job_has_no_deadline_and_a_moved_one_keeps_it(world: &World<'_>) {
    let fence = lead(world).await;
    let [expired, cancelled, moved] = [10, 10, 10].map(|length| limited(world, length));
    let [expired, cancelled, moved] =
        [world.enqueue(expired).await, world.enqueue(cancelled).await, world.enqueue(moved).await];
    let deadline = world.job(moved).await.expires_at;
    // Its deadline is listed still.
    world.store().cancel(world.at(), cancelled, &actor()).await.unwrap();
    world.store().requeue(world.at(), &[cancelled], &actor()).await.unwrap();
    let due_at = Some(world.now() + seconds(3_600));
    let to = Placement { queue: None, priority: None, due_at };
    world.store().place(world.at(), moved, &to, &actor()).await.unwrap();
    assert_eq!(world.job(moved).await.expires_at, deadline);
    world.pass(11);
    let mut ended = expire(world, &fence).await;
    ended.sort_unstable();
    let mut expected = [expired, moved];
    expected.sort_unstable();
    assert_eq!(ended, expected);
    world.store().requeue(world.at(), &[expired], &actor()).await.unwrap();
    world.pass(100_000);
    let fence = lead(world).await;
    assert_eq!(expire(world, &fence).await, []);
    for id in [expired, cancelled] {
        let job = world.job(id).await;
        assert_eq!((job.view.state, job.expires_at), (JobState::Ready, None));
    }
}

/// Wherever jobs are written: alone, with a key, by a slot, with a settlement.
pub async fn every_job_with_a_start_deadline_is_listed(world: &World<'_>) {
    let (node, fence) = (world.join().await, lead(world).await);
    let scheduler = world.lead("scheduler/0", world.join().await).await;
    let schedule = world.schedule("nightly").await;
    let (fired, mut jobs) = plan(world, &schedule, Overlap::Allow, 1, 10);
    world.fire(&scheduler, &[fired]).await;
    let first = world.enqueue(NewJob { priority: 100, ..world.new_job() }).await;
    let claimed = world.claim_one(node).await;
    assert_eq!(claimed.id, first);
    let follower = limited(world, 10);
    jobs.push(follower.id);
    let then = vec![follower, world.new_job()];
    let settlement = Settlement { then, ..world.settlement(&claimed, Outcome::Done) };
    world.settle_all(&[settlement]).await;
    let unique = UniqueKey {
        key: "k".to_owned(),
        scope: KeyScope::Tenant,
        lifetime: KeyLifetime::Job,
        is_by_payload: false,
    };
    jobs.push(world.enqueue(NewJob { unique: Some(unique), ..limited(world, 10) }).await);
    let many = [limited(world, 10), world.new_job(), limited(world, 10)];
    world.enqueue_all(&many).await;
    // A repeat after a lost answer.
    world.enqueue_all(&many).await;
    jobs.extend([many[0].id, many[2].id]);
    world.pass(11);
    let mut ended = expire(world, &fence).await;
    ended.sort_unstable();
    jobs.sort_unstable();
    assert_eq!(ended, jobs);
    assert_eq!(next_deadline(world).await, None);
}

/// A finished job must not stay listed for years.
pub async fn a_deadline_is_checked_at_least_once_a_day(world: &World<'_>) {
    let node = world.join().await;
    let day = seconds(86_400);
    let done = world.enqueue(limited(world, 100 * 86_400)).await;
    let job = world.claim_one(node).await;
    assert_eq!(job.id, done);
    world.settle(&job, Outcome::Done).await;
    let waiting = world.enqueue(limited(world, 100 * 86_400)).await;
    assert_eq!(next_deadline(world).await, Some(world.now() + day));
    world.pass(86_401);
    let fence = world.lead("maintenance", world.join().await).await;
    assert_eq!(expire_some(world, &fence, 100).await.jobs, []);
    // Of two deadlines one is left.
    assert_eq!(next_deadline(world).await, Some(world.now() + day));
    world.store().cancel(world.at(), waiting, &actor()).await.unwrap();
    world.pass(86_401);
    let fence = world.lead("maintenance", world.join().await).await;
    assert_eq!(expire_some(world, &fence, 100).await.jobs, []);
    assert_eq!(next_deadline(world).await, None);
}

/// A leader whose term is over changes nothing.
pub async fn expiring_needs_the_term(world: &World<'_>) {
    let fence = lead(world).await;
    let id = world.enqueue(limited(world, 10)).await;
    assert!(world.store().resign(world.at(), &fence).await.unwrap());
    world.pass(11);
    let response = expire_some(world, &fence, 100).await;
    assert_eq!(response, ExpireResponse::nothing(world.now()));
    assert_eq!(world.state(id).await, JobState::Ready);
    let fence = lead(world).await;
    assert_eq!(expire(world, &fence).await, [id]);
    // It renews the term as well.
    let leaders = world.store().leaders().await.unwrap();
    assert_eq!(leaders[0].until, world.now() + LEASE);
}

/// The earliest first, and no more than the limit.
pub async fn deadlines_are_checked_in_order_and_as_the_request_allows(world: &World<'_>) {
    let fence = lead(world).await;
    let mut jobs = Vec::new();
    for length in [30, 10, 20] {
        jobs.push(world.enqueue(limited(world, length)).await);
    }
    world.pass(31);
    let mut ended = Vec::new();
    for limit in [1, 2] {
        let response = expire_some(world, &fence, limit).await;
        assert!(response.is_more);
        ended.push(response.jobs.iter().map(|job| job.job).collect::<Vec<_>>());
    }
    assert_eq!(ended, [vec![jobs[1]], vec![jobs[2], jobs[0]]]);
    assert_eq!(expire(world, &fence).await, []);
}

/// Its error is that it cannot be read. An unreadable body does not matter.
pub async fn a_bad_seat_of_an_expired_job_says_so(world: &World<'_>) {
    let (node, fence) = (world.join().await, lead(world).await);
    let tried = world.enqueue(limited(world, 60)).await;
    let job = world.claim_one(node).await;
    world.settle(&job, failure()).await;
    let unique = UniqueKey {
        key: "k".to_owned(),
        scope: KeyScope::Tenant,
        lifetime: KeyLifetime::Job,
        is_by_payload: false,
    };
    let keyed = || NewJob { unique: Some(unique.clone()), ..limited(world, 60) };
    let bad = world.enqueue(keyed()).await;
    let good = world.enqueue(limited(world, 60)).await;
    // What else a body says does not matter.
    let body = world.enqueue(limited(world, 60)).await;
    world.spoil(Spoil::Body(body)).await;
    for id in [tried, bad] {
        world.spoil(Spoil::Seat(id)).await;
    }
    world.pass(61);
    let mut ended = expire(world, &fence).await;
    ended.sort_unstable();
    let mut expected = [tried, bad, good, body];
    expected.sort_unstable();
    assert_eq!(ended, expected);
    for (id, attempt) in [(tried, 1), (bad, 0)] {
        let view = world.job(id).await.view;
        assert_eq!((view.error.as_deref(), view.attempt), (Some(UNREADABLE), attempt));
    }
    for id in [good, body] {
        assert_expired(world, id, 0).await;
    }
    world.enqueue(keyed()).await;
}
