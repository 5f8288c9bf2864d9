//! What becomes of a schedule's slots while earlier jobs of it are unfinished, and of the jobs that
//! wait for these.

use std::time::Duration;

use punctual_core::job::{JobState, Outcome, SlotOutcome};
use punctual_core::schedule::{ON_TIME, Overlap};
use punctual_core::{JobId, NodeId};
use punctual_store::*;

use crate::World;
use crate::world::{actor, failure, json};

/// A schedule, and who leads it.
struct Firing<'a> {
    world: &'a World<'a>,
    fence: Fence,
    leading: NodeId,
    schedule: Schedule,
}

/// A plan that was applied.
struct Applied {
    /// The jobs that were planned.
    jobs: Vec<JobId>,
    skipped: Vec<SkippedSlots>,
}

impl<'a> Firing<'a> {
    async fn new(world: &'a World<'a>) -> Firing<'a> {
        let leading = world.join().await;
        let fence = world.lead("scheduler/0", leading).await;
        let schedule = world.schedule("nightly").await;
        Firing { world, fence, leading, schedule }
    }

    /// Lets this many slots come, fires them in one plan, and says which jobs were planned.
    async fn fire(&mut self, overlap: Overlap, slots: u32) -> Vec<JobId> {
        let plan = self.world.plan_slots(&self.schedule, overlap, slots);
        self.apply(plan).await.jobs
    }

    async fn apply(&mut self, plan: SlotPlan) -> Applied {
        let world = self.world;
        let SlotDecision::Advance { slots, .. } = &plan.decision else {
            panic!("the plan does not fire")
        };
        let jobs = slots.iter().filter_map(|row| Some(row.job.as_ref()?.id)).collect();
        let last = slots.last().map_or(world.now(), |row| row.slot);
        world.set(world.now().max(last));
        let fired = world.fire(&self.fence, &[plan]).await;
        assert_eq!(fired.answers, [FireAnswer::Applied]);
        self.schedule = world.reread(&self.schedule).await;
        Applied { jobs, skipped: fired.skipped }
    }

    /// The newest rows of the ledger, oldest first: outcome, reason, job.
    async fn ledger(&self, rows: usize) -> Vec<(SlotOutcome, Option<String>, Option<JobId>)> {
        let mut rows: Vec<_> =
            self.world.ledger(self.schedule.id).await.into_iter().take(rows).collect();
        rows.reverse();
        rows.into_iter().map(|view| (view.outcome, view.reason, view.job)).collect()
    }
}

fn refused(reason: &str) -> (SlotOutcome, Option<String>, Option<JobId>) {
    (SlotOutcome::SkippedOverlap, Some(reason.to_owned()), None)
}

fn fired(job: JobId) -> (SlotOutcome, Option<String>, Option<JobId>) {
    (SlotOutcome::Fired, None, Some(job))
}

async fn is_there(world: &World<'_>, job: JobId) -> bool {
    world.store().job(job).await.unwrap().is_some()
}

async fn states(world: &World<'_>, jobs: &[JobId]) -> Vec<JobState> {
    let mut states = Vec::new();
    for job in jobs {
        states.push(world.state(*job).await);
    }
    states
}

async fn promote(world: &World<'_>, most: usize) -> Promoted {
    world.store().promote(world.at(), most).await.unwrap()
}

/// Beside those that run.
pub async fn allowed_jobs_start_whatever_runs(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let jobs = firing.fire(Overlap::Allow, 3).await;
    assert_eq!(states(world, &jobs).await, [JobState::Ready; 3]);
    let more = firing.fire(Overlap::Allow, 1).await;
    assert_eq!(states(world, &more).await, [JobState::Ready]);
}

/// A fire returns the slots that have no job, as they were decided and not as they were planned.
pub async fn a_fire_returns_the_slots_without_a_job(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let id = firing.schedule.id;
    let skipped = |outcome, reason: &str, slots: &[SlotRow]| SkippedSlots {
        schedule: id,
        outcome,
        reason: reason.to_owned(),
        count: slots.iter().map(|row| row.count).sum(),
        first: slots[0].slot,
        last: slots.last().map_or(slots[0].slot, |row| row.end.unwrap_or(row.slot)),
    };
    let mut plan = world.plan_slots(&firing.schedule, Overlap::Skip, 5);
    let SlotDecision::Advance { slots, .. } = &mut plan.decision else { panic!("it fires") };
    let late = SlotRow { outcome: SlotOutcome::Missed, job: None, ..slots[0].clone() };
    let reason = Some("too late".to_owned());
    slots[0] = SlotRow { count: 2, end: Some(slots[1].slot), reason, ..late };
    slots.remove(1);
    let slots = slots.clone();
    let fired = firing.apply(plan).await;
    let taken = format!("job {} is unfinished", fired.jobs[0]);
    assert_eq!(
        fired.skipped,
        [
            skipped(SlotOutcome::Missed, "too late", &slots[..1]),
            skipped(SlotOutcome::SkippedOverlap, &taken, &slots[2..]),
        ]
    );
}

/// One at a time: the first of several slots takes the seat, and the reason names who has it.
pub async fn a_slot_is_skipped_while_a_job_is_unfinished(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let jobs = firing.fire(Overlap::Skip, 3).await;
    let reason = format!("job {} is unfinished", jobs[0]);
    assert_eq!(firing.ledger(3).await, [fired(jobs[0]), refused(&reason), refused(&reason)]);
    assert!(!is_there(world, jobs[1]).await && !is_there(world, jobs[2]).await);
    // Running, waiting for its next attempt, called off but still at work: unfinished.
    let node = world.join().await;
    let claimed = world.claim_one(node).await;
    firing.fire(Overlap::Skip, 1).await;
    assert_eq!(firing.ledger(1).await, [refused(&reason)]);
    world.settle(&claimed, failure()).await;
    firing.fire(Overlap::Skip, 1).await;
    assert_eq!(firing.ledger(1).await, [refused(&reason)]);
    promote(world, 10).await;
    let node = world.join().await;
    let claimed = world.claim_one(node).await;
    world.store().cancel(world.at(), jobs[0], &actor()).await.unwrap();
    firing.fire(Overlap::Skip, 1).await;
    assert_eq!(firing.ledger(1).await, [refused(&reason)]);
    world.settle(&claimed, Outcome::Done).await;
    let next = firing.fire(Overlap::Skip, 1).await;
    assert_eq!(firing.ledger(1).await, [fired(next[0])]);
    // Cancelled at once; a job that is made ready again is unfinished again.
    world.store().cancel(world.at(), next[0], &actor()).await.unwrap();
    let last = firing.fire(Overlap::Skip, 1).await;
    assert_eq!(firing.ledger(1).await, [fired(last[0])]);
    world.store().cancel(world.at(), last[0], &actor()).await.unwrap();
    world.store().requeue(world.at(), &[next[0]], &actor()).await.unwrap();
    firing.fire(Overlap::Skip, 1).await;
    assert_eq!(firing.ledger(1).await, [refused(&format!("job {} is unfinished", next[0]))]);
}

/// The first that came; later ones find its place taken.
pub async fn one_job_is_queued_and_kept(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let jobs = firing.fire(Overlap::QueueOne, 3).await;
    let reason = "jobs already waiting: 1";
    assert_eq!(firing.ledger(3).await, [fired(jobs[0]), fired(jobs[1]), refused(reason)]);
    assert_eq!(states(world, &jobs[..2]).await, [JobState::Ready, JobState::Blocked]);
    assert!(!is_there(world, jobs[2]).await);
    firing.fire(Overlap::QueueOne, 1).await;
    assert_eq!(firing.ledger(1).await, [refused(reason)]);
    assert_eq!(world.state(jobs[1]).await, JobState::Blocked);
    // Freed, it is no longer one that waits.
    world.store().cancel(world.at(), jobs[0], &actor()).await.unwrap();
    promote(world, 10).await;
    let next = firing.fire(Overlap::QueueOne, 1).await;
    assert_eq!(states(world, &[jobs[1], next[0]]).await, [JobState::Ready, JobState::Blocked]);
}

/// Each waits for all that came before it, and goes on in the order of slots, whatever the ids.
pub async fn all_jobs_are_queued_in_order(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let mut jobs = firing.fire(Overlap::QueueAll, 2).await;
    jobs.extend(firing.fire(Overlap::QueueAll, 2).await);
    let node = world.join().await;
    let mut order = Vec::new();
    for left in (0..4).rev() {
        let claimed = world.claim(&world.ask(node, 10)).await;
        assert_eq!(claimed.len(), 1, "one at a time");
        order.push(claimed[0].id);
        // Nothing moves while it runs.
        assert_eq!(promote(world, 10).await.queues.len(), 0);
        let settlement = world.settlement(&claimed[0], Outcome::Done);
        let settled = world.store().settle(world.at(), &[settlement]).await.unwrap();
        assert_eq!(settled.frees, left > 0);
        assert_eq!(promote(world, 10).await.queues.len(), usize::from(left > 0));
        assert_eq!(promote(world, 10).await.queues.len(), 0);
    }
    assert_eq!(order, jobs);
}

/// More would only be behind.
pub async fn no_more_wait_than_a_bound(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let first = firing.schedule.next_slot.unwrap();
    let slot = |index: usize| first + Duration::from_secs(index as u64);
    let count = limits::LIVE_MAX + 2;
    let rows = (0..count).map(|index| world.fired(firing.schedule.id, slot(index)));
    let decision = SlotDecision::Advance {
        overlap: Overlap::QueueAll,
        slots: rows.collect(),
        next_slot: Some(slot(count)),
        hold_for: ON_TIME,
    };
    let (schedule, stamp) = (firing.schedule.id, firing.schedule.stamp);
    let jobs = firing.apply(SlotPlan { schedule, stamp, decision }).await.jobs;
    let reason = format!("jobs already waiting: {}", limits::LIVE_MAX - 1);
    let last = jobs[limits::LIVE_MAX - 1];
    assert_eq!(firing.ledger(3).await, [fired(last), refused(&reason), refused(&reason)]);
    let more = firing.fire(Overlap::QueueAll, 1).await;
    assert_eq!(firing.ledger(1).await, [refused(&reason)]);
    assert!(!is_there(world, more[0]).await);
    let stats = world.store().queue_stats(None, 10).await.unwrap().items;
    let expected = (1, (limits::LIVE_MAX - 1) as u64);
    assert_eq!((stats[0].ready, stats[0].blocked), expected);
    // Those that are called off at once are so many, oldest first; the rest waits on.
    let mut unfinished = jobs[..limits::LIVE_MAX].to_vec();
    unfinished.sort_unstable();
    let newest = firing.fire(Overlap::CancelRunning, 1).await[0];
    let bound = limits::FIRE_CANCEL_MAX;
    assert_eq!(world.state(unfinished[bound - 1]).await, JobState::Cancelled);
    assert_ne!(world.state(unfinished[bound]).await, JobState::Cancelled);
    assert_eq!(world.state(newest).await, JobState::Blocked);
}

/// Those that wait are cancelled at once; the one that runs is asked, and the new one waits for it.
pub async fn the_running_job_is_called_off_for_the_newest(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let old = firing.fire(Overlap::QueueAll, 3).await;
    let node = world.join().await;
    let claimed = world.claim_one(node).await;
    assert_eq!(claimed.id, old[0]);
    let new = firing.fire(Overlap::CancelRunning, 2).await;
    let last = firing.schedule.last_slot.unwrap();
    let reason = format!("replaced by slot {last}");
    assert_eq!(firing.ledger(2).await, [refused(&reason), fired(new[1])]);
    let expected = [JobState::Running, JobState::Cancelled, JobState::Cancelled];
    assert_eq!(states(world, &old).await, expected);
    assert_eq!(world.state(new[1]).await, JobState::Blocked);
    assert!(world.job(old[0]).await.cancel_requested);
    let by = rules::overlap_actor(last);
    assert_eq!(world.job(old[1]).await.view.error, Some(rules::cancel_reason(&by)));
    let audits = world.store().audits(None, 10).await.unwrap().items;
    let mut cancelled: Vec<String> = audits
        .iter()
        .filter(|audit| audit.entry.action == AuditAction::CancelJob && audit.entry.actor == by)
        .map(|audit| audit.entry.subject.clone())
        .collect();
    cancelled.reverse();
    let mut oldest_first = old.clone();
    oldest_first.sort_unstable();
    assert_eq!(cancelled, oldest_first.iter().map(JobId::to_string).collect::<Vec<_>>());
    // Once more: it was asked already, and what waited for it is called off in its turn.
    let newer = firing.fire(Overlap::CancelRunning, 1).await[0];
    let expected = [JobState::Running, JobState::Cancelled, JobState::Blocked];
    assert_eq!(states(world, &[old[0], new[1], newer]).await, expected);
    assert_eq!(promote(world, 10).await.queues.len(), 0);
    world.settle(&claimed, failure()).await;
    assert_eq!(world.state(old[0]).await, JobState::Cancelled);
    promote(world, 10).await;
    assert_eq!(world.state(newer).await, JobState::Ready);
    // Nothing runs: what is there goes at once, and the next one need not wait.
    let newest = firing.fire(Overlap::CancelRunning, 1).await[0];
    assert_eq!(states(world, &[newer, newest]).await, [JobState::Cancelled, JobState::Ready]);
}

/// Whatever the list of unfinished ones says: its end would be waited for without end.
pub async fn a_job_that_has_ended_is_in_nobodys_way(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let old = firing.fire(Overlap::CancelRunning, 1).await[0];
    let node = world.join().await;
    let claimed = world.claim_one(node).await;
    world.settle(&claimed, Outcome::Done).await;
    world.spoil(rules::Spoil::Unfinished(old)).await;
    let new = firing.fire(Overlap::CancelRunning, 1).await[0];
    assert_eq!(states(world, &[old, new]).await, [JobState::Succeeded, JobState::Ready]);
}

/// Also if the ends are of different kinds: settled, cancelled, reaped, dead.
pub async fn a_blocked_job_is_freed_when_all_before_it_have_ended(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let mut running = firing.fire(Overlap::Allow, 4).await;
    let waiting = firing.fire(Overlap::QueueAll, 2).await;
    running.sort_unstable();
    let (node, lost) = (world.join().await, world.join().await);
    let held = world.claim(&world.ask(node, 2)).await;
    let mortal = world.claim_one(lost).await;
    let unclaimed = *running
        .iter()
        .find(|job| **job != mortal.id && held.iter().all(|held| held.id != **job))
        .unwrap();
    let is_blocked = || async {
        promote(world, 10).await;
        assert_eq!(states(world, &waiting).await, [JobState::Blocked; 2]);
    };
    is_blocked().await;
    world.settle(&held[0], Outcome::Done).await;
    is_blocked().await;
    world.store().cancel(world.at(), unclaimed, &actor()).await.unwrap();
    is_blocked().await;
    world.settle(&held[1], Outcome::FailForGood("boom".to_owned())).await;
    is_blocked().await;
    // The last one loses its node, and was called off before.
    world.store().cancel(world.at(), mortal.id, &actor()).await.unwrap();
    for _ in 0..5 {
        world.pass(4);
        world.beat(firing.leading, std::slice::from_ref(&firing.fence)).await;
    }
    is_blocked().await;
    assert_eq!(world.reap(&firing.fence).await.jobs.len(), 1);
    assert_eq!(world.state(mortal.id).await, JobState::Cancelled);
    let promoted = promote(world, 10).await;
    assert_eq!(promoted.queues.into_iter().collect::<Vec<_>>(), [("default".to_owned(), 1)]);
    let (first, second) = (*waiting.iter().min().unwrap(), *waiting.iter().max().unwrap());
    assert_eq!(states(world, &[first, second]).await, [JobState::Ready, JobState::Blocked]);
}

/// Of each schedule one, of so many schedules as were asked for, in the order of their ids.
pub async fn each_schedule_frees_one_job_at_a_time(world: &World<'_>) {
    let leading = world.join().await;
    let fence = world.lead("scheduler/0", leading).await;
    let mut schedules = Vec::new();
    for name in ["a", "b", "c"] {
        schedules.push(world.schedule(name).await);
    }
    world.pass(300);
    let plans: Vec<SlotPlan> =
        schedules.iter().map(|schedule| world.plan_slots(schedule, Overlap::QueueAll, 3)).collect();
    world.fire(&fence, &plans).await;
    let blocked = JobFilter { state: Some(JobState::Blocked), ..JobFilter::default() };
    let count = || async { world.store().jobs(&blocked, None, 100).await.unwrap().items.len() };
    assert_eq!(count().await, 6);
    let node = world.join().await;
    for job in world.claim(&world.ask(node, 10)).await {
        world.settle(&job, Outcome::Done).await;
    }
    assert_eq!(promote(world, 2).await.queues.into_values().sum::<u64>(), 2);
    let of = |schedule: &Schedule| JobFilter { schedule: Some(schedule.id), ..blocked.clone() };
    let mut left = Vec::new();
    schedules.sort_by_key(|schedule| schedule.id);
    for schedule in &schedules {
        left.push(world.store().jobs(&of(schedule), None, 10).await.unwrap().items.len());
    }
    assert_eq!(left, [1, 1, 2]);
    assert_eq!(promote(world, 2).await.queues.into_values().sum::<u64>(), 1);
    assert_eq!(count().await, 3);
    assert_eq!(promote(world, 2).await.queues.len(), 0);
}

/// Its time is not before it was to be.
pub async fn a_freed_job_that_is_due_later_becomes_a_timer(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let first = firing.fire(Overlap::QueueOne, 1).await[0];
    let slot = firing.schedule.next_slot.unwrap();
    let due_at = slot + Duration::from_secs(600);
    let mut row = world.fired(firing.schedule.id, slot);
    let job = NewJob { delay: Delay::Until(due_at), ..row.job.take().unwrap() };
    let later = job.id;
    let decision = SlotDecision::Advance {
        overlap: Overlap::QueueOne,
        slots: vec![SlotRow { job: Some(job), ..row }],
        next_slot: Some(slot + Duration::from_secs(60)),
        hold_for: ON_TIME,
    };
    let (schedule, stamp) = (firing.schedule.id, firing.schedule.stamp);
    firing.apply(SlotPlan { schedule, stamp, decision }).await;
    assert_eq!(world.state(later).await, JobState::Blocked);
    // What waits for a job is no timer.
    assert_eq!(promote(world, 10).await.next_due, None);
    world.store().cancel(world.at(), first, &actor()).await.unwrap();
    let promoted = promote(world, 10).await;
    assert_eq!((promoted.queues.len(), promoted.next_due), (0, Some(due_at)));
    let view = world.job(later).await.view;
    assert_eq!((view.state, view.due_at), (JobState::Scheduled, Some(due_at)));
    world.set(due_at);
    assert_eq!(promote(world, 10).await.queues.len(), 1);
    assert_eq!(world.state(later).await, JobState::Ready);
}

/// At once, also while what it waits for runs.
pub async fn a_blocked_job_is_cancelled_at_once_and_may_be_requeued(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let jobs = firing.fire(Overlap::QueueAll, 3).await;
    let store = world.store();
    let cancelled = store.cancel(world.at(), jobs[1], &actor()).await.unwrap();
    assert_eq!(cancelled, CancelAnswer::Cancelled);
    let detail = world.job(jobs[1]).await;
    assert_eq!(detail.view.state, JobState::Cancelled);
    assert_eq!(detail.view.error, Some(rules::cancel_reason(&actor())));
    let again = store.cancel(world.at(), jobs[1], &actor()).await.unwrap();
    assert_eq!(again, CancelAnswer::Ended(JobState::Cancelled));
    let answers = store.requeue(world.at(), &[jobs[2], jobs[1]], &actor()).await.unwrap();
    let blocked = RequeueAnswer::NotFailed(JobState::Blocked);
    assert_eq!(answers, [blocked, RequeueAnswer::Requeued]);
    // Whoever requeues a job wants it now; the one that waits, waits for it, too.
    assert_eq!(world.state(jobs[1]).await, JobState::Ready);
    store.cancel(world.at(), jobs[0], &actor()).await.unwrap();
    assert_eq!(promote(world, 10).await.queues.len(), 0);
    store.cancel(world.at(), jobs[1], &actor()).await.unwrap();
    assert_eq!(promote(world, 10).await.queues.len(), 1);
}

/// It waits on, wherever it is put, and goes there when it is freed.
pub async fn a_blocked_job_can_be_moved_and_stays_blocked(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let jobs = firing.fire(Overlap::QueueOne, 2).await;
    let due_at = world.now() + Duration::from_secs(60);
    let to = Placement { queue: Some("bulk".to_owned()), priority: Some(7), due_at: Some(due_at) };
    let answer = world.store().place(world.at(), jobs[1], &to, &actor()).await.unwrap();
    assert_eq!(answer, MoveAnswer::Moved(JobState::Blocked));
    let view = world.job(jobs[1]).await.view;
    assert_eq!(
        (view.state, view.queue.as_str(), view.priority, view.due_at),
        (JobState::Blocked, "bulk", 7, Some(due_at))
    );
    let stats = world.store().queue_stats(None, 10).await.unwrap().items;
    let told: Vec<_> =
        stats.iter().map(|stats| (stats.queue.as_str(), stats.ready, stats.blocked)).collect();
    assert_eq!(told, [("bulk", 0, 1), ("default", 1, 0)]);
    world.store().cancel(world.at(), jobs[0], &actor()).await.unwrap();
    world.set(due_at);
    let queues: Vec<_> = promote(world, 10).await.queues.into_iter().collect();
    assert_eq!(queues, [("bulk".to_owned(), 1)]);
    let node = world.join().await;
    let queues = vec![QueueShare { name: "bulk".to_owned(), most: 1 }];
    let claimed = world.claim(&ClaimAsk { queues, ..world.ask(node, 1) }).await;
    assert_eq!((claimed[0].id, claimed[0].priority, claimed[0].due_at), (jobs[1], 7, due_at));
}

/// In lists, in what is counted, and in full.
pub async fn a_blocked_job_is_shown_as_what_it_is(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let jobs = firing.fire(Overlap::QueueAll, 4).await;
    let list = |filter: JobFilter| async move {
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = world.store().jobs(&filter, cursor, 2).await.unwrap();
            seen.extend(page.items.into_iter().map(|view| (view.id, view.state)));
            cursor = page.next;
            if cursor.is_none() {
                return seen;
            }
        }
    };
    let mut newest_first: Vec<_> = jobs[1..].iter().map(|job| (*job, JobState::Blocked)).collect();
    newest_first.sort_by(|left, right| right.cmp(left));
    let blocked = JobFilter { state: Some(JobState::Blocked), ..JobFilter::default() };
    assert_eq!(blocked.source(), Source::Blocked);
    assert_eq!(list(blocked.clone()).await, newest_first);
    let schedule = Some(firing.schedule.id);
    assert_eq!(list(JobFilter { schedule, ..blocked.clone() }).await, newest_first);
    let queue = Some("default".to_owned());
    assert_eq!(list(JobFilter { queue, ..blocked.clone() }).await, newest_first);
    assert_eq!(list(JobFilter { kind: Some("x".to_owned()), ..blocked }).await, []);
    let ready = JobFilter { state: Some(JobState::Ready), ..JobFilter::default() };
    assert_eq!(list(ready).await, [(jobs[0], JobState::Ready)]);
    assert_eq!(list(JobFilter::default()).await.len(), 4);
    let detail = world.job(jobs[1]).await;
    assert_eq!((detail.view.attempt, detail.spent, detail.crashes), (0, 0, 0));
    assert_eq!(detail.view.due_at, Some(detail.view.created_at));
    assert_eq!((detail.attempts, detail.cancel_requested), (Vec::new(), false));
    let stats = world.store().queue_stats(None, 10).await.unwrap().items;
    let empty = QueueStats::empty("default".to_owned(), "mail".to_owned());
    let expected =
        QueueStats { ready: 1, blocked: 3, oldest_due_at: stats[0].oldest_due_at, ..empty };
    assert_eq!(stats, [expected]);
    // Nobody is given it.
    let node = world.join().await;
    assert_eq!(world.claim(&world.ask(node, 10)).await.len(), 1);
}

/// Somebody's own run is in the way as any other.
pub async fn a_manual_run_counts_as_unfinished(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let manual = world.job_of(firing.schedule.id, None);
    let id = world.enqueue(manual.clone()).await;
    assert_eq!(world.job(id).await.view.schedule, Some((firing.schedule.id, None)));
    firing.fire(Overlap::Skip, 1).await;
    assert_eq!(firing.ledger(1).await, [refused(&format!("job {id} is unfinished"))]);
    let waiting = firing.fire(Overlap::QueueOne, 1).await[0];
    let node = world.join().await;
    let claimed = world.claim(&world.ask(node, 10)).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!((claimed[0].id, &claimed[0].origin), (id, &manual.origin));
    let settlement = world.settlement(&claimed[0], Outcome::Done);
    assert!(world.store().settle(world.at(), &[settlement]).await.unwrap().frees);
    promote(world, 10).await;
    assert_eq!(world.state(waiting).await, JobState::Ready);
    // It starts at once, whatever is unfinished, and what waits then waits for it, too.
    let again = world.enqueue(world.job_of(firing.schedule.id, None)).await;
    assert_eq!(world.state(again).await, JobState::Ready);
}

/// A settlement says so only if one waits, and only if the job has ended.
pub async fn a_settlement_tells_whether_it_frees_a_job(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    firing.fire(Overlap::QueueOne, 2).await;
    world.enqueue_one().await;
    let node = world.join().await;
    let claimed = world.claim(&world.ask(node, 10)).await;
    let settle = |job: ClaimedJob, outcome: Outcome| async move {
        let settlement = world.settlement(&job, outcome);
        world.store().settle(world.at(), &[settlement]).await.unwrap().frees
    };
    let (of_schedule, other): (Vec<_>, Vec<_>) =
        claimed.into_iter().partition(|job| job.origin.is_some());
    assert!(!settle(other[0].clone(), Outcome::Done).await);
    assert!(!settle(of_schedule[0].clone(), failure()).await);
    world.pass(5);
    promote(world, 10).await;
    let claimed = world.claim_one(node).await;
    assert!(settle(claimed.clone(), Outcome::Done).await);
    // The same again changes nothing.
    assert!(!settle(claimed, Outcome::Done).await);
    promote(world, 10).await;
    let claimed = world.claim_one(node).await;
    assert!(!settle(claimed, Outcome::Done).await);
}

/// One that is fired is not somebody's to enqueue, and one of a plan is just that slot's.
pub async fn a_job_with_a_slot_is_fired_and_not_enqueued(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let (id, slot) = (firing.schedule.id, firing.schedule.next_slot);
    let jobs = [world.job_of(id, slot), world.job_of(id, None)];
    let answers = world.enqueue_all(&jobs).await;
    assert!(
        matches!(&answers[0], EnqueueAnswer::Rejected(Rejection::Invalid(why)) if why.contains("slot")),
        "{answers:?}"
    );
    assert_eq!(answers[1], EnqueueAnswer::Created);
    assert!(!is_there(world, jobs[0].id).await);
    let facts = Json::new(&"x".repeat(limits::FACTS_BYTES_MAX - 1)).unwrap();
    let origin = Some(Origin { schedule: id, slot: None, facts });
    let answers = world.enqueue_all(&[NewJob { origin, ..world.new_job() }]).await;
    assert!(matches!(answers[0], EnqueueAnswer::Rejected(Rejection::Invalid(_))), "{answers:?}");
    // A plan's job says whose it is.
    for wrong in [None, Some(Origin { schedule: id, slot: None, facts: json("null") })] {
        let mut plan = world.plan(&firing.schedule);
        if let SlotDecision::Advance { slots, .. } = &mut plan.decision {
            slots[0].job = Some(NewJob { origin: wrong, ..world.new_job() });
        }
        world.set(slot.unwrap());
        let answers = world.fire(&firing.fence, &[plan]).await.answers;
        assert!(matches!(answers[0], FireAnswer::SetAside(_)), "{answers:?}");
        firing.schedule = world.reread(&firing.schedule).await;
    }
    assert_eq!(world.ledger(id).await, []);
}

/// To the last byte, whatever it says.
pub async fn facts_come_back_in_the_claim(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let mut plan = world.plan_slots(&firing.schedule, Overlap::QueueOne, 2);
    let texts = ["x".repeat(limits::FACTS_BYTES_MAX - 2), "\u{1F54A} \"a\\b\"".to_owned()];
    let mut expected = Vec::new();
    if let SlotDecision::Advance { slots, .. } = &mut plan.decision {
        for (row, text) in slots.iter_mut().zip(&texts) {
            let origin = row.job.as_mut().unwrap().origin.as_mut().unwrap();
            origin.facts = Json::new(text).unwrap();
            expected.push(origin.clone());
        }
    }
    firing.apply(plan).await;
    let node = world.join().await;
    for origin in expected {
        let claimed = world.claim_one(node).await;
        assert_eq!(claimed.origin, Some(origin));
        world.settle(&claimed, Outcome::Done).await;
        promote(world, 10).await;
    }
}

/// However old it is.
pub async fn pruning_keeps_a_blocked_job(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let jobs = firing.fire(Overlap::QueueOne, 2).await;
    world.pass(400 * 86_400);
    for _ in 0..3 {
        world.store().prune(world.at(), &Retention::default(), 1_000).await.unwrap();
    }
    assert_eq!(states(world, &jobs).await, [JobState::Ready, JobState::Blocked]);
    world.store().cancel(world.at(), jobs[0], &actor()).await.unwrap();
    promote(world, 10).await;
    let node = world.join().await;
    assert_eq!(world.claim_one(node).await.id, jobs[1]);
}

/// What it waits with cannot be read: it fails when its turn comes, and the next one has its turn.
pub async fn a_blocked_job_that_cannot_be_read_fails_alone(world: &World<'_>) {
    let mut firing = Firing::new(world).await;
    let jobs = firing.fire(Overlap::QueueAll, 4).await;
    let waiting = &jobs[1..];
    world.spoil(rules::Spoil::Seat(waiting[0])).await;
    world.spoil(rules::Spoil::Seat(waiting[1])).await;
    assert_eq!(promote(world, 10).await.queues.len(), 0);
    assert_eq!(states(world, waiting).await, [JobState::Blocked; 3]);
    // One of them is moved, which it cannot be.
    let to = Placement { priority: Some(1), ..Placement::default() };
    let answer = world.store().place(world.at(), waiting[1], &to, &actor()).await.unwrap();
    assert_eq!(answer, MoveAnswer::NotWaiting(JobState::Failed));
    world.store().cancel(world.at(), jobs[0], &actor()).await.unwrap();
    let promoted = promote(world, 10).await;
    assert_eq!(promoted.queues.len(), 0);
    let ended: Vec<JobId> = promoted.unreadable.iter().map(|ended| ended.job).collect();
    assert_eq!(ended, [waiting[0]]);
    let failed = world.job(waiting[0]).await;
    assert_eq!(failed.view.state, JobState::Failed);
    assert_eq!(failed.view.error.as_deref(), Some(rules::UNREADABLE));
    assert_eq!(promote(world, 10).await.queues.len(), 1);
    assert_eq!(world.state(waiting[2]).await, JobState::Ready);
}
