//! Several leaders at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use punctual_core::job::{Outcome, SlotOutcome, decide};
use punctual_core::schedule::{ON_TIME, Overlap};
use punctual_core::{Nonce, ScheduleId, Timestamp};
use punctual_store::*;

use crate::common::{Schema, connect, schema};
use crate::{AT, ask, below, freeze, join, mint, number, open, policy, random, seconds};

/// Tries what each of three leaders plans, with freezes, resignations and edits beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn slots_are_fired_once_each_and_without_gaps_whoever_leads() {
    const STEP: Duration = Duration::from_millis(20);
    const SCHEDULES: usize = 12;
    let schema = Schema(schema());
    let first = open(&schema).await;
    let start = first.now(AT).await.unwrap();
    let mut ids = Vec::new();
    for index in 0..SCHEDULES {
        let new = NewSchedule {
            id: ScheduleId::mint(start, random()),
            tenant: String::new(),
            name: format!("s{index}"),
            owner: String::new(),
            set: String::new(),
            shard: 0,
            enabled: true,
            spec: Json::null(),
            next_slot: Some(start + STEP),
            actor: Actor::new("ana", "test"),
        };
        ids.push(first.create_schedule(AT, &new).await.unwrap().id);
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let fenced = Arc::new(AtomicU64::new(0));
    let mut leading = Vec::new();
    for _ in 0..3 {
        let (store, is_over, fenced) = (open(&schema).await, is_over.clone(), fenced.clone());
        leading.push(tokio::spawn(async move {
            let node = join(&store).await;
            let lease = Duration::from_millis(60);
            while !is_over.load(Ordering::SeqCst) {
                let nonce = Nonce::mint(Timestamp::EPOCH, random());
                let won = store.acquire(AT, "scheduler/0", node, nonce, lease).await.unwrap();
                let Acquired::Won { term, .. } = won else {
                    freeze(Duration::from_millis(10)).await;
                    continue;
                };
                let fence = Fence { role: "scheduler/0".to_owned(), term, nonce };
                for _ in 0..10 {
                    let due = store.due(AT, 0, 50).await.unwrap();
                    let plans: Vec<SlotPlan> =
                        due.schedules.iter().map(|schedule| plan(schedule, due.at, STEP)).collect();
                    if below(12) == 0 {
                        freeze(Duration::from_millis(100)).await;
                    }
                    if store.fire(AT, &fence, lease, &plans).await.unwrap().until.is_none() {
                        fenced.fetch_add(1, Ordering::SeqCst);
                        break;
                    }
                }
                if below(2) == 0 {
                    store.resign(AT, &fence).await.unwrap();
                }
            }
        }));
    }
    let editing = {
        let (store, is_over, ids) = (open(&schema).await, is_over.clone(), ids.clone());
        tokio::spawn(async move {
            while !is_over.load(Ordering::SeqCst) {
                let id = ids[below(ids.len() as u64) as usize];
                let Some(seen) = store.schedule(id).await.unwrap() else { continue };
                let change = ScheduleChange::Define {
                    spec: Json::null(),
                    owner: String::new(),
                    next_slot: seen.next_slot,
                    passed: PassedSlots::default(),
                };
                let actor = Actor::new("ana", "edit");
                store.change_schedule(AT, id, seen.stamp, &change, &actor).await.unwrap();
            }
        })
    };
    freeze(Duration::from_secs(seconds())).await;
    is_over.store(true, Ordering::SeqCst);
    for leading in leading {
        leading.await.unwrap();
    }
    editing.await.unwrap();

    let client = connect().await;
    let rows = client
        .query(
            &format!(
                "SELECT schedule, slot, decided_at >= slot, job, (extract(epoch FROM slot) * 1000000)::bigint \
                 FROM {0}.slot ORDER BY schedule, slot",
                schema.0
            ),
            &[],
        )
        .await
        .unwrap();
    let mut by_schedule: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for row in &rows {
        assert!(row.get::<_, bool>(2), "a slot was fired early");
        let schedule: uuid::Uuid = row.get(0);
        by_schedule.entry(schedule.to_string()).or_default().push(row.get(4));
    }
    assert_eq!(by_schedule.len(), SCHEDULES);
    for slots in by_schedule.values() {
        assert_eq!(slots[0], (start + STEP).as_micros());
        assert!(slots.windows(2).all(|pair| pair[1] - pair[0] == STEP.as_micros() as i64), "a gap");
    }
    let jobs = number(format!("SELECT count(*) FROM {}.job", schema.0)).await;
    assert_eq!(jobs, rows.len() as i64);
}

/// Fires one slot.
pub(crate) fn plan(schedule: &Schedule, now: Timestamp, step: Duration) -> SlotPlan {
    let slot = schedule.next_slot.unwrap_or(now);
    let origin = Origin { schedule: schedule.id, slot: Some(slot), facts: Json::null() };
    let job = NewJob::new(mint(now), "q", "k", Json::null());
    let row = SlotRow {
        slot,
        end: None,
        count: 1,
        outcome: SlotOutcome::Fired,
        reason: None,
        job: Some(NewJob { origin: Some(origin), ..job }),
    };
    let (overlap, slots) = (Overlap::Allow, vec![row]);
    SlotPlan {
        schedule: schedule.id,
        stamp: schedule.stamp,
        decision: SlotDecision::Advance {
            overlap,
            slots,
            next_slot: Some(slot + step),
            hold_for: ON_TIME,
        },
    }
}

/// A handler that settles its job in a transaction of its own takes its time over it, and meanwhile a
/// slot comes that calls the job off.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_settle_that_is_not_committed_keeps_no_slot_waiting() {
    const STEP: Duration = Duration::from_secs(1);
    let schema = Schema(schema());
    let store = open(&schema).await;
    let start = store.now(AT).await.unwrap();
    let node = join(&store).await;
    let (nonce, lease) = (Nonce::mint(Timestamp::EPOCH, random()), Duration::from_secs(60));
    let won = store.acquire(AT, "scheduler/0", node, nonce, lease).await.unwrap();
    let Acquired::Won { term, .. } = won else { panic!("{won:?}") };
    let fence = Fence { role: "scheduler/0".to_owned(), term, nonce };
    let mut ids = Vec::new();
    for name in ["held", "other"] {
        let new = NewSchedule {
            id: ScheduleId::mint(start, random()),
            tenant: String::new(),
            name: name.to_owned(),
            owner: String::new(),
            set: String::new(),
            shard: 0,
            enabled: true,
            spec: Json::null(),
            next_slot: Some(start - STEP * 10),
            actor: Actor::new("ana", "test"),
        };
        ids.push(store.create_schedule(AT, &new).await.unwrap().id);
    }
    let fire = async |schedules: &[ScheduleId]| {
        let mut plans = Vec::new();
        for id in schedules {
            let schedule = store.schedule(*id).await.unwrap().unwrap();
            let mut plan = plan(&schedule, start, STEP);
            if let SlotDecision::Advance { overlap, .. } = &mut plan.decision {
                *overlap = Overlap::CancelRunning;
            }
            plans.push(plan);
        }
        let fired = store.fire(AT, &fence, lease, &plans).await.unwrap();
        assert_eq!(fired.answers, vec![FireAnswer::Applied; schedules.len()]);
    };
    fire(&ids[..1]).await;
    let claimed = store.claim(AT, &ask(node, &["q"], &["k"], 10)).await.unwrap();
    let held = &claimed.jobs[0];
    let transition = decide(&held.standing(), Outcome::Done, &policy(), claimed.at);
    let (job, lease) = (held.id, held.lease);
    let item = Settlement { job, lease, transition, result: None, then: Vec::new() };
    let mut client = connect().await;
    let handler = client.transaction().await.unwrap();
    store.in_transaction().settle(&handler, &item).await.unwrap();

    fire(&ids).await;
    let claimed = store.claim(AT, &ask(node, &["q"], &["k"], 10)).await.unwrap().jobs;
    let schedules: Vec<_> =
        claimed.iter().map(|job| job.origin.as_ref().unwrap().schedule).collect();
    assert_eq!(schedules, ids[1..], "the job of the other schedule alone");
    assert!(!store.job(job).await.unwrap().unwrap().cancel_requested);

    // It runs on, and the next slot asks it to stop.
    handler.rollback().await.unwrap();
    fire(&ids[..1]).await;
    assert!(store.job(job).await.unwrap().unwrap().cancel_requested);
}

/// Three promote, three work, and a leader fires beside them; each job waits for all before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_schedule_that_queues_has_one_job_at_work_whoever_promotes() {
    const JOBS: u64 = 60;
    const STEP: Duration = Duration::from_secs(1);
    let schema = Schema(schema());
    let first = open(&schema).await;
    let start = first.now(AT).await.unwrap();
    let new = NewSchedule {
        id: ScheduleId::mint(start, random()),
        tenant: String::new(),
        name: "s".to_owned(),
        owner: String::new(),
        set: String::new(),
        shard: 0,
        enabled: true,
        spec: Json::null(),
        next_slot: Some(start - STEP * JOBS as u32),
        actor: Actor::new("ana", "test"),
    };
    let id = first.create_schedule(AT, &new).await.unwrap().id;
    let (working, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let (store, is_done) = (open(&schema).await, done.clone());
        tasks.push(tokio::spawn(async move {
            while is_done.load(Ordering::SeqCst) < JOBS {
                store.promote(AT, 10).await.unwrap();
            }
        }));
        let (store, working, done) = (open(&schema).await, working.clone(), done.clone());
        tasks.push(tokio::spawn(async move {
            let node = join(&store).await;
            while done.load(Ordering::SeqCst) < JOBS {
                let claimed = store.claim(AT, &ask(node, &["q"], &["k"], 10)).await.unwrap();
                let Some(job) = claimed.jobs.first() else { continue };
                assert_eq!(claimed.jobs.len(), 1);
                assert_eq!(working.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                freeze(Duration::from_millis(below(4))).await;
                working.fetch_sub(1, Ordering::SeqCst);
                let transition = decide(&job.standing(), Outcome::Done, &policy(), claimed.at);
                let settlement = Settlement {
                    job: job.id,
                    lease: job.lease,
                    transition,
                    result: None,
                    then: Vec::new(),
                };
                store.settle(AT, &[settlement]).await.unwrap();
                done.fetch_add(1, Ordering::SeqCst);
            }
        }));
    }
    let node = join(&first).await;
    let (nonce, lease) = (Nonce::mint(Timestamp::EPOCH, random()), Duration::from_secs(60));
    let won = first.acquire(AT, "scheduler/0", node, nonce, lease).await.unwrap();
    let Acquired::Won { term, .. } = won else { panic!("{won:?}") };
    let fence = Fence { role: "scheduler/0".to_owned(), term, nonce };
    for _ in 0..JOBS {
        let schedule = first.schedule(id).await.unwrap().unwrap();
        let mut plan = plan(&schedule, start, STEP);
        if let SlotDecision::Advance { overlap, .. } = &mut plan.decision {
            *overlap = Overlap::QueueAll;
        }
        let fired = first.fire(AT, &fence, lease, &[plan]).await.unwrap();
        assert_eq!(fired.answers, [FireAnswer::Applied]);
        freeze(Duration::from_millis(below(6))).await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    let left = number(format!("SELECT count(*) FROM {}.job_live", schema.0)).await;
    assert_eq!((done.load(Ordering::SeqCst), left), (JOBS, 0));
}
