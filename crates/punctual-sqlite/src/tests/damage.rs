//! Rows that make no sense, of every table: none of them stops anything else.

use std::time::Duration;

use punctual_core::job::{EXPIRED, JobState, LogLevel, Outcome, RetryPolicy, SlotOutcome, decide};
use punctual_core::schedule::{ON_TIME, Overlap};
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp};
use punctual_store::{
    Acquired, Actor, At, BeatAsk, ClaimAsk, ClaimedJob, Delay, EditAnswer, ExpireRequest, Fence,
    JobFilter, Json, KeyLifetime, KeyScope, LogLine, NewJob, NewSchedule, Origin, Placement,
    QueueChange, QueueLimits, QueueShare, ReapAsk, Retention, RollupCount, RollupFilter,
    ScheduleChange, Settlement, SlotDecision, SlotPlan, SlotRow, StepAnswer, Store, UniqueKey,
    rules,
};
use rusqlite::Connection;

use super::{NOW, fresh, job, node};
use crate::SqliteStore;

const LEASE: Duration = Duration::from_secs(5);
const ROLE: &str = "scheduler/0";

/// What is done to the rows of those of each pair that are damaged, by the bytes of their ids.
const DAMAGES: &[&str] = &[
    "UPDATE punctual_job SET payload = CAST(x'ff' AS TEXT) WHERE id = ?1",
    "UPDATE punctual_job SET tenant = CAST(x'ff' AS TEXT), owner = CAST(x'ff' AS TEXT) WHERE id = ?1",
    "UPDATE punctual_job SET queue = CAST(x'ff' AS TEXT), kind = CAST(x'ff' AS TEXT) WHERE id = ?1",
    "UPDATE punctual_job SET tags = '{' WHERE id = ?1",
    "UPDATE punctual_job SET tags = CAST(x'ff' AS TEXT) WHERE id = ?1",
    "UPDATE punctual_job SET trace = CAST(x'ff' AS TEXT) WHERE id = ?1",
    "UPDATE punctual_job SET max_attempts = -1, priority = 1000000 WHERE id = ?1",
    "UPDATE punctual_job SET timeout_us = -1, budget_us = -1 WHERE id = ?1",
    "UPDATE punctual_job SET schedule = x'00' WHERE id = ?1",
    "UPDATE punctual_job SET facts = CAST(x'ff' AS TEXT) WHERE id = ?1",
    "UPDATE punctual_job SET facts = NULL WHERE id = ?1",
    "UPDATE punctual_job SET unique_key = 'k', key_scope = 9, key_us = -1 WHERE id = ?1",
    "UPDATE punctual_job SET fresh_after = -9223372036854775807 WHERE id = ?1",
    "UPDATE punctual_job SET expires_at = -9223372036854775807 WHERE id = ?1",
    "DELETE FROM punctual_job WHERE id = ?1",
    "UPDATE punctual_job_ready SET attempt = -1 WHERE job = ?1",
    "UPDATE punctual_job_ready SET spent = 5000000000, priority = 1000000 WHERE job = ?1",
    "UPDATE punctual_job_ready SET rank = -9223372036854775807, due_at = 9223372036854775807 WHERE job = ?1",
    "UPDATE punctual_job_ready SET job = substr(job, 2) WHERE job = ?1",
    "DELETE FROM punctual_job_ready WHERE job = ?1",
    "UPDATE punctual_job_timer SET crashes = -1 WHERE job = ?1",
    "UPDATE punctual_job_timer SET due_at = -9223372036854775807 WHERE job = ?1",
    "UPDATE punctual_job_timer SET job = substr(job, 2) WHERE job = ?1",
    "UPDATE punctual_job_timer SET queue = CAST(x'ff' AS TEXT) WHERE job = ?1",
    "UPDATE punctual_job_wait SET attempt = -1 WHERE job = ?1",
    "UPDATE punctual_job_wait SET schedule = x'00' WHERE job = ?1",
    "UPDATE punctual_job_wait SET job = substr(job, 2) WHERE job = ?1",
    "UPDATE punctual_job_wait SET queue = CAST(x'ff' AS TEXT), priority = 1000000 WHERE job = ?1",
    "DELETE FROM punctual_job_wait WHERE job = ?1",
    "DELETE FROM punctual_job_live WHERE job = ?1",
    "UPDATE punctual_job_lease SET attempt = -1 WHERE job = ?1",
    "UPDATE punctual_job_lease SET lease = x'00' WHERE job = ?1",
    "UPDATE punctual_job_lease SET node = x'00' WHERE job = ?1",
    "UPDATE punctual_job_lease SET job = substr(job, 2) WHERE job = ?1",
    "UPDATE punctual_job_lease SET cancel = CAST(x'ff' AS TEXT) WHERE job = ?1",
    "UPDATE punctual_job_lease SET progress_at = 1, progress_percent = 999 WHERE job = ?1",
    "UPDATE punctual_job_done SET outcome = 9, attempt = -1, lease = x'00', node = x'00' WHERE job = ?1",
    "UPDATE punctual_job_done SET error = CAST(x'ff' AS TEXT), result = CAST(x'ff' AS TEXT) WHERE job = ?1",
    "UPDATE punctual_job_done SET job = substr(job, 2) WHERE job = ?1",
    "UPDATE punctual_job_attempt SET outcome = 99, node = x'00', error = CAST(x'ff' AS TEXT) WHERE job = ?1",
    "UPDATE punctual_job_attempt SET attempt = -1 WHERE job = ?1",
    "UPDATE punctual_job_step SET result = CAST(x'ff' AS TEXT) WHERE job = ?1",
    "UPDATE punctual_job_step SET name = CAST(x'ff' AS TEXT), at = -9223372036854775807 WHERE job = ?1",
    "UPDATE punctual_job_log SET level = 99, text = CAST(x'ff' AS TEXT) WHERE job = ?1",
    "UPDATE punctual_job_log SET attempt = -1, number = 9999999999 WHERE job = ?1",
    "UPDATE punctual_job_key SET job = x'00' WHERE job = ?1",
    "UPDATE punctual_job_deadline SET job = substr(job, 2) WHERE job = ?1",
    "UPDATE punctual_job_deadline SET check_at = -9223372036854775807 WHERE job = ?1",
    "DELETE FROM punctual_job_deadline WHERE job = ?1",
    "INSERT INTO punctual_job_live (schedule, job) SELECT id, x'00' FROM punctual_schedule WHERE id = ?1",
    "UPDATE punctual_queue SET max_running = -1 WHERE name = 'bulk' AND ?1 IS NOT NULL",
    "UPDATE punctual_queue SET max_running = 9999999999 WHERE name = 'bulk' AND ?1 IS NOT NULL",
    "UPDATE punctual_queue SET pause_since = 1, pause_who = NULL WHERE name = 'bulk' AND ?1 IS NOT NULL",
    "UPDATE punctual_node SET queues = '{', name = CAST(x'ff' AS TEXT) WHERE id = ?1",
    "INSERT INTO punctual_node SELECT x'00', name, version, queues, kinds, labels, 0, 0, 0, NULL
     FROM punctual_node WHERE id = ?1",
    "UPDATE punctual_leader SET nonce = x'00' WHERE role = 'other' AND ?1 IS NOT NULL",
    "UPDATE punctual_leader SET node = x'00' WHERE role = 'other' AND ?1 IS NOT NULL",
    "UPDATE punctual_leader_change SET node = x'00' WHERE role = 'other' AND ?1 IS NOT NULL",
    "UPDATE punctual_schedule SET spec = '{' WHERE id = ?1",
    "UPDATE punctual_schedule SET spec = CAST(x'ff' AS TEXT) WHERE id = ?1",
    "UPDATE punctual_schedule SET name = CAST(x'ff' AS TEXT), owner = CAST(x'ff' AS TEXT) WHERE id = ?1",
    "UPDATE punctual_schedule SET shard = 100000 WHERE id = ?1",
    "UPDATE punctual_schedule SET set_name = CAST(x'ff' AS TEXT) WHERE id = ?1",
    "UPDATE punctual_schedule SET revision = -5, stamp = -5, last_slot = 9223372036854775807 WHERE id = ?1",
    "UPDATE punctual_schedule SET pause_since = 1, pause_until = 2, pause_who = NULL WHERE id = ?1",
    "UPDATE punctual_schedule SET set_aside = CAST(x'ff' AS TEXT) WHERE id = ?1",
    "UPDATE punctual_schedule_revision SET spec = '{', who = CAST(x'ff' AS TEXT) WHERE schedule = ?1",
    "UPDATE punctual_slot SET outcome = 99 WHERE schedule = ?1",
    "UPDATE punctual_slot SET job = x'00', node = x'00', count = -1 WHERE schedule = ?1",
    "UPDATE punctual_audit SET who = CAST(x'ff' AS TEXT) WHERE ?1 IS NOT NULL",
    "UPDATE punctual_rollup SET metric = CAST(x'ff' AS TEXT) WHERE ?1 IS NOT NULL",
];

fn id(number: u8) -> [u8; 10] {
    [number; 10]
}

/// What is in the file before the damage; of each kind a row that is damaged and one that is not.
struct Scene {
    worker: NodeId,
    dead: NodeId,
    fence: Fence,
    schedules: [ScheduleId; 2],
    /// In line, at a timer, running on the worker, running on the dead node, failed, succeeded,
    /// behind others of its schedule that have just ended, in line past a start deadline.
    jobs: [[JobId; 2]; 8],
}

async fn claim(
    store: &SqliteStore,
    at: At,
    node: NodeId,
    number: u8,
    most: usize,
) -> Vec<ClaimedJob> {
    let ask = ClaimAsk {
        node,
        lease: LeaseId::mint(NOW, id(number)),
        more: Vec::new(),
        queues: vec![
            QueueShare { name: "default".to_owned(), most },
            QueueShare { name: "bulk".to_owned(), most },
        ],
        kinds: vec!["send".to_owned()],
        most,
    };
    store.claim(at, &ask).await.unwrap().jobs
}

async fn end(store: &SqliteStore, node: NodeId, number: u8, outcome: Outcome) {
    let claimed = claim(store, At::Fixed(NOW), node, number, 2).await;
    let batch: Vec<Settlement> = claimed
        .iter()
        .map(|job| Settlement {
            job: job.id,
            lease: job.lease,
            transition: decide(&job.standing(), outcome.clone(), &RetryPolicy::default(), NOW),
            result: Some(Json::null()),
            then: Vec::new(),
        })
        .collect();
    assert_eq!(batch.len(), 2);
    store.settle(At::Fixed(NOW), &batch).await.unwrap();
}

async fn set(store: &SqliteStore) -> Scene {
    let at = At::Fixed(NOW);
    let [worker, dead] = [1, 2].map(|number| NodeId::mint(NOW, id(number)));
    for id in [worker, dead] {
        store.join(at, &node(id)).await.unwrap();
    }
    let nonce = Nonce::mint(NOW, id(3));
    for role in [ROLE, "other"] {
        let won = store.acquire(at, role, worker, nonce, LEASE).await.unwrap();
        assert!(matches!(won, Acquired::Won { term: 1, .. }));
    }
    let fence = Fence { role: ROLE.to_owned(), term: 1, nonce };

    let mut numbers = 0..;
    let mut pair = || [(); 2].map(|()| job(numbers.next().unwrap()));
    let mut jobs = Vec::new();
    for outcome in [Outcome::FailForGood("no".to_owned()), Outcome::Done] {
        let ended = pair();
        store.enqueue(at, &ended).await.unwrap();
        end(store, worker, 10 + jobs.len() as u8, outcome).await;
        jobs.push(ended.map(|job| job.id));
    }
    for holder in [worker, dead] {
        let running = pair();
        store.enqueue(at, &running).await.unwrap();
        for held in claim(store, at, holder, 20 + jobs.len() as u8, 2).await {
            let (job, lease) = (held.id, held.lease);
            let saved = store.save_step(at, job, lease, "one", &Json::null()).await.unwrap();
            assert_eq!(saved, StepAnswer::Saved);
            let (level, text) = (LogLevel::Info, "hello".to_owned());
            let line = LogLine { job, attempt: 1, number: 1, level, text };
            store.write_log(at, &[line]).await.unwrap();
        }
        jobs.push(running.map(|job| job.id));
    }
    let unique = UniqueKey {
        key: "k".to_owned(),
        scope: KeyScope::Queue,
        lifetime: KeyLifetime::Job,
        is_by_payload: false,
    };
    let mut ready = pair();
    ready[0].unique = Some(unique);
    ready[1].queue = "bulk".to_owned();
    let timer = pair().map(|job| NewJob { delay: Delay::For(LEASE), ..job });
    let late = pair().map(|job| NewJob {
        queue: "unserved".to_owned(),
        start_within: Some(Duration::from_secs(1)),
        ..job
    });
    for waiting in [&ready, &timer, &late] {
        store.enqueue(at, waiting).await.unwrap();
    }

    let schedules = [5, 6].map(|number| ScheduleId::mint(NOW, id(number)));
    let mut blocked = Vec::new();
    for (schedule, name) in schedules.iter().zip(["bad", "good"]) {
        let new = NewSchedule {
            id: *schedule,
            tenant: String::new(),
            name: name.to_owned(),
            owner: String::new(),
            set: String::new(),
            shard: 0,
            enabled: true,
            spec: Json::null(),
            next_slot: Some(NOW - Duration::from_secs(2)),
            actor: Actor::new("ana", "why"),
        };
        let schedule = store.create_schedule(at, &new).await.unwrap();
        let row = SlotRow {
            slot: NOW - Duration::from_secs(2),
            end: None,
            count: 1,
            outcome: SlotOutcome::Missed,
            reason: Some("late".to_owned()),
            job: None,
        };
        let next_slot = Some(NOW + Duration::from_secs(1));
        let mut slots = vec![row];
        let fired = pair();
        for (job, slot) in fired.iter().zip([NOW - Duration::from_secs(1), NOW]) {
            let origin = Origin { schedule: schedule.id, slot: Some(slot), facts: Json::null() };
            let job = Some(NewJob { origin: Some(origin), ..job.clone() });
            let outcome = SlotOutcome::Fired;
            slots.push(SlotRow { slot, end: None, count: 1, outcome, reason: None, job });
        }
        let (overlap, hold_for) = (Overlap::QueueOne, ON_TIME);
        let decision = SlotDecision::Advance { overlap, slots, next_slot, hold_for };
        let plan = SlotPlan { schedule: schedule.id, stamp: schedule.stamp, decision };
        store.fire(at, &fence, LEASE, &[plan]).await.unwrap();
        store.cancel(at, fired[0].id, &Actor::new("ana", "why")).await.unwrap();
        blocked.push(fired[1].id);
    }
    let blocked: [JobId; 2] = blocked.try_into().unwrap();
    let limit = QueueChange::Limit(QueueLimits { max_running: Some(100) });
    store.change_queue(at, "bulk", &limit, &Actor::new("ana", "why")).await.unwrap();
    let count = RollupCount {
        minute: NOW,
        metric: "m".to_owned(),
        queue: "q".to_owned(),
        kind: "k".to_owned(),
        count: 1,
        sum: 1,
    };
    store.roll_up(&[count]).await.unwrap();
    let [failed, succeeded, running, lost]: [[JobId; 2]; 4] = jobs.try_into().unwrap();
    let waiting = [ready.map(|job| job.id), timer.map(|job| job.id)];
    let late = late.map(|job| job.id);
    let jobs = [waiting[0], waiting[1], running, lost, failed, succeeded, blocked, late];
    Scene { worker, dead, fence, schedules, jobs }
}

/// Everything that reads rows, twice: what was set aside stays out of the way.
async fn go_on(store: &SqliteStore, scene: &Scene, round: u64) {
    let now = NOW + Duration::from_secs(60 + round);
    let at = At::Fixed(now);
    let due = store.due(at, 0, 10).await.unwrap().schedules;
    assert!(due.iter().any(|due| due.id == scene.schedules[1]), "the good one is due");
    let beat = BeatAsk {
        seeks: Vec::new(),
        node: scene.worker,
        is_remote: false,
        roles: vec![scene.fence.clone()],
        lease: LEASE,
        leases: Vec::new(),
        progress: Vec::new(),
    };
    let beaten = store.beat(at, &beat).await.unwrap();
    assert!(beaten.alive);
    store.promote(at, 10).await.unwrap();
    claim(store, at, scene.worker, 100 + round as u8, 10).await;
    store.release(at, scene.worker, &beaten.strays).await.unwrap();
    let expire = ExpireRequest {
        fence: scene.fence.clone(),
        lease: LEASE,
        recheck_after: Duration::ZERO,
        limit: 10,
    };
    assert!(store.expire(at, &expire).await.unwrap().led);
    let expired = store.job(scene.jobs[7][1]).await.unwrap().unwrap().view.error;
    assert_eq!(expired.as_deref(), Some(EXPIRED));
    let reap = ReapAsk {
        fence: scene.fence.clone(),
        lease: LEASE,
        node_lifetime: Duration::ZERO,
        policy: RetryPolicy::default(),
        most: 10,
    };
    assert!(store.reap(at, &reap).await.unwrap().led);
    store.acquire(at, "other", scene.dead, Nonce::mint(now, id(9)), LEASE).await.unwrap();

    for state in JobState::ALL.iter().copied().map(Some).chain([None]) {
        for queue in [None, Some("default".to_owned())] {
            let filter = JobFilter { state, queue, ..JobFilter::default() };
            store.jobs(&filter, None, 500).await.unwrap();
            let tagged = JobFilter { tag: Some("eu".to_owned()), ..filter };
            store.jobs(&tagged, None, 500).await.unwrap();
        }
    }
    for job in scene.jobs.as_flattened() {
        store.job(*job).await.unwrap();
        store.steps(*job).await.unwrap();
        store.log(*job, None, 500).await.unwrap();
    }
    for schedule in scene.schedules {
        store.schedule(schedule).await.unwrap();
        store.revisions(schedule, None, 500).await.unwrap();
        store.slots(schedule, None, 500).await.unwrap();
    }
    store.schedules("", None, 500).await.unwrap();
    store.nodes().await.unwrap();
    store.leaders().await.unwrap();
    store.leader_changes("other", 10).await.unwrap();
    store.queues().await.unwrap();
    store.queue_stats(None, 500).await.unwrap();
    store.audits(None, 500).await.unwrap();
    let all = RollupFilter { from: Timestamp::MIN, to: Timestamp::MAX, metric: None };
    store.rollups(&all, None, 500).await.unwrap();
}

#[tokio::test]
async fn no_damaged_row_stops_anything_else() {
    for damage in DAMAGES {
        println!("{damage}");
        let (directory, store) = fresh();
        let scene = set(&store).await;
        let db = Connection::open(directory.path().join("jobs.db")).unwrap();
        let mut targets: Vec<[u8; 16]> =
            scene.jobs.iter().map(|pair| *pair[0].as_bytes()).collect();
        targets.extend([*scene.schedules[0].as_bytes(), *scene.dead.as_bytes()]);
        let damaged: usize = targets.iter().map(|id| db.execute(damage, [id]).unwrap()).sum();
        assert!(damaged > 0, "nothing was damaged");
        for round in 0..2 {
            go_on(&store, &scene, round).await;
        }
        let (late, actor) = (At::Fixed(NOW + Duration::from_secs(90)), Actor::new("ana", "why"));
        for [bad, good] in scene.jobs {
            // Its neighbour is there, and was not set aside.
            let error = store.job(good).await.unwrap().unwrap().view.error;
            assert_ne!(error.as_deref(), Some(rules::UNREADABLE));
            store.cancel(late, bad, &actor).await.unwrap();
            store.requeue(late, &[bad], &actor).await.unwrap();
            store.place(late, bad, &Placement::default(), &actor).await.unwrap();
        }
        let [bad, _] = scene.schedules;
        if let Some(schedule) = store.schedule(bad).await.unwrap() {
            let missed = |slot| SlotRow {
                slot,
                end: None,
                count: 1,
                outcome: SlotOutcome::Missed,
                reason: None,
                job: None,
            };
            let passed: Vec<SlotRow> = schedule.next_slot.map(missed).into_iter().collect();
            let disable = ScheduleChange::Disable { passed: passed.into() };
            let stamp = schedule.stamp;
            let edited = store.change_schedule(late, bad, stamp, &disable, &actor).await.unwrap();
            let EditAnswer::Done(edited) = edited else { panic!("{edited:?}") };
            store.delete_schedule(late, bad, edited.stamp, &actor).await.unwrap();
        }
        let far = At::Fixed(NOW + Duration::from_secs(400 * 86_400));
        store.prune(far, &Retention::default(), 100).await.unwrap();
    }
}

/// Its work is done again, and the new result stays.
#[tokio::test]
async fn a_step_that_cannot_be_read_gives_way() {
    let (directory, store) = fresh();
    let at = At::Fixed(NOW);
    let worker = NodeId::mint(NOW, id(1));
    store.join(at, &node(worker)).await.unwrap();
    store.enqueue(at, &[job(1)]).await.unwrap();
    let held = claim(&store, at, worker, 2, 1).await.remove(0);
    let save = async |result: &str| {
        let result = Json::parse(result).unwrap();
        store.save_step(at, held.id, held.lease, "one", &result).await.unwrap()
    };
    assert_eq!(save("1").await, StepAnswer::Saved);
    let db = Connection::open(directory.path().join("jobs.db")).unwrap();
    let damage = "UPDATE punctual_job_step SET result = CAST(x'ff' AS TEXT)";
    assert_eq!(db.execute(damage, []).unwrap(), 1);
    assert_eq!(store.steps(held.id).await.unwrap(), []);
    assert_eq!(save("2").await, StepAnswer::Saved);
    assert_eq!(save("3").await, StepAnswer::Already(Json::parse("2").unwrap()));
    assert_eq!(store.steps(held.id).await.unwrap().len(), 1);
}
