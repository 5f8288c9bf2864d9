//! What both tests need: a stage on each store, and short ways to say what most tests say.

#![allow(dead_code, reason = "each test uses what it needs")]

use std::time::Duration;

use async_trait::async_trait;
use punctual_conformance::{Subject, World};
use punctual_core::job::{Outcome, SlotOutcome};
use punctual_core::schedule::{Definition, Overlap};
use punctual_core::{JobId, NodeId};
use punctual_sqlite::{Options, SqliteStore};
use punctual_store::memory::Memory;
use punctual_store::rules::Spoil;
use punctual_store::{
    Actor, BeatAsk, EditAnswer, Fence, FireAnswer, Json, NewSchedule, NodeInfo, QueueChange,
    Schedule, ScheduleChange, SlotDecision, SlotPlan, SlotRow, Store,
};
use tempfile::TempDir;

/// A store in a file of its own, which goes with it.
pub(crate) struct OnFile {
    pub(crate) store: SqliteStore,
    pub(crate) directory: TempDir,
}

impl OnFile {
    pub(crate) fn new() -> OnFile {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("test.db");
        let store = SqliteStore::open(&path, Options::engine()).expect("a store");
        OnFile { store, directory }
    }

    /// A foreign hand.
    pub(crate) fn execute(&self, statement: &str, id: &[u8; 16]) {
        let path = self.directory.path().join("test.db");
        let other = rusqlite::Connection::open(path).expect("a connection");
        other.execute(statement, [id]).expect("a foreign hand may write");
    }
}

#[async_trait]
impl Subject for OnFile {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn spoil(&self, what: Spoil) {
        match what {
            Spoil::Body(job) => self
                .execute("UPDATE punctual_job SET timeout_us = -1 WHERE id = ?1", job.as_bytes()),
            Spoil::Schedule(schedule) => self.execute(
                "UPDATE punctual_schedule SET spec = '{\"cron' WHERE id = ?1",
                schedule.as_bytes(),
            ),
            other => panic!("no test here spoils {other:?}"),
        }
    }
}

/// Makes a situation on both stores and asks; the answer must be the same.
pub(crate) async fn on_both<T: PartialEq + std::fmt::Debug>(
    situation: impl AsyncFn(&World<'_>) -> T,
) -> T {
    let memory = Memory::new(|| panic!("the clock is the test's"));
    let file = OnFile::new();
    let answer = situation(&World::new(&memory)).await;
    assert_eq!(answer, situation(&World::new(&file)).await, "the stores disagree");
    answer
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn ana() -> Actor {
    Actor::new("ana", "index rebuild")
}

pub(crate) fn boom() -> Outcome {
    Outcome::Fail("boom".to_owned())
}

/// Enters a node of this name that serves these queues and handles these kinds.
pub(crate) async fn node(world: &World<'_>, name: &str, queues: &[&str], kinds: &[&str]) -> NodeId {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let info = NodeInfo {
        id: world.node_id(),
        name: name.to_owned(),
        version: "0.1.0".to_owned(),
        queues: owned(queues),
        kinds: owned(kinds),
        labels: Vec::new(),
    };
    world.store().join(world.at(), &info).await.unwrap();
    info.id
}

/// The usual node.
pub(crate) async fn web_1(world: &World<'_>) -> NodeId {
    node(world, "web-1", &["default"], &["mail"]).await
}

/// A node is heard of, and goes on leading.
pub(crate) async fn beat(world: &World<'_>, node: NodeId, roles: &[Fence]) {
    let ask = BeatAsk {
        node,
        is_remote: false,
        roles: roles.to_vec(),
        seeks: Vec::new(),
        lease: seconds(5),
        leases: Vec::new(),
        progress: Vec::new(),
    };
    assert!(world.beat_as(&ask).await.alive);
}

/// Lets time pass in which only this node beats and leads, often enough to lead without a lapse.
pub(crate) async fn pass(world: &World<'_>, wait: u64, node: NodeId, roles: &[Fence]) {
    for step in (0..wait).step_by(4) {
        world.pass(4.min(wait - step));
        beat(world, node, roles).await;
    }
}

/// Lets time pass at once; then this node beats and leads again.
pub(crate) async fn leap(world: &World<'_>, wait: u64, node: NodeId, roles: &[Fence]) {
    world.pass(wait);
    beat(world, node, roles).await;
}

/// A failed job: all of its attempts are used up at once.
pub(crate) async fn fail_one(world: &World<'_>, node: NodeId) -> JobId {
    let id = world.enqueue(punctual_store::NewJob { max_attempts: 1, ..world.new_job() }).await;
    let claimed = world.claim_one(node).await;
    assert_eq!(claimed.id, id);
    world.settle(&claimed, boom()).await;
    id
}

pub(crate) async fn change_queue(world: &World<'_>, name: &str, change: QueueChange) {
    world.store().change_queue(world.at(), name, &change, &ana()).await.unwrap();
}

/// A schedule with this definition, whose first slot is in a minute.
pub(crate) async fn schedule(world: &World<'_>, name: &str, definition: &Definition) -> Schedule {
    let new = NewSchedule { spec: Json::new(definition).unwrap(), ..world.new_schedule(name) };
    world.store().create_schedule(world.at(), &new).await.unwrap()
}

/// One that fires every minute and makes mails.
pub(crate) fn every_minute() -> Definition {
    Definition::new("* * * * *", "mail")
}

pub(crate) fn overlapping(overlap: Overlap) -> Definition {
    Definition { overlap, ..every_minute() }
}

/// Changes a schedule as it is.
pub(crate) async fn change(
    world: &World<'_>,
    schedule: &Schedule,
    change: ScheduleChange,
) -> Schedule {
    let now = world.reread(schedule).await;
    let store = world.store();
    match store.change_schedule(world.at(), now.id, now.stamp, &change, &ana()).await.unwrap() {
        EditAnswer::Done(schedule) => schedule,
        other => panic!("not changed: {other:?}"),
    }
}

/// Decides slots of a schedule.
pub(crate) async fn decide(
    world: &World<'_>,
    fence: &Fence,
    schedule: &Schedule,
    decision: SlotDecision,
) {
    let schedule = world.reread(schedule).await;
    let plan = SlotPlan { schedule: schedule.id, stamp: schedule.stamp, decision };
    let fired = world.fire(fence, &[plan]).await;
    assert!(!matches!(fired.answers[..], [FireAnswer::Stale]), "{fired:?}");
}

/// Decides all slots of a schedule up to now, one each minute, as merged.
pub(crate) async fn decide_all(world: &World<'_>, fence: &Fence, schedule: &Schedule) {
    let first = schedule.next_slot.unwrap();
    let row = SlotRow {
        slot: first,
        end: Some(world.now()),
        count: world.now().since(first).as_secs() / 60 + 1,
        outcome: SlotOutcome::Coalesced,
        reason: Some("missed = latest".to_owned()),
        job: None,
    };
    let decision = SlotDecision::Advance {
        overlap: Overlap::Skip,
        slots: vec![row],
        next_slot: Some(world.now() + seconds(60)),
        hold_for: seconds(60),
    };
    decide(world, fence, schedule, decision).await;
}

/// Fires this many slots of a schedule, a minute each, and says which jobs were planned.
pub(crate) async fn fire(
    world: &World<'_>,
    fence: &Fence,
    schedule: &Schedule,
    overlap: Overlap,
    slots: u32,
) -> Vec<JobId> {
    let plan = world.plan_slots(&world.reread(schedule).await, overlap, slots);
    let SlotDecision::Advance { slots, .. } = &plan.decision else { panic!("it fires") };
    let jobs = slots.iter().filter_map(|row| Some(row.job.as_ref()?.id)).collect();
    let last = slots.last().map_or(world.now(), |row| row.slot);
    world.set(world.now().max(last));
    let fired = world.fire(fence, &[plan]).await;
    assert_eq!(fired.answers, [FireAnswer::Applied]);
    jobs
}

/// Every minute on node `b`.
pub(crate) fn on_b() -> Definition {
    Definition { run_on: "node b".to_owned(), ..every_minute() }
}

/// The leader finds that no live node can run the next slot of a schedule.
pub(crate) async fn hold(world: &World<'_>, fence: &Fence, schedule: &Schedule) {
    let plan = world.plan_on(&world.reread(schedule).await, "@b");
    let fired = world.fire(fence, &[plan]).await;
    assert!(matches!(fired.answers[..], [FireAnswer::Held(0, _)]), "{fired:?}");
}

/// A slot, or a run of them, that becomes no job.
pub(crate) fn no_job(
    slot: punctual_core::Timestamp,
    count: u64,
    outcome: SlotOutcome,
    reason: &str,
) -> SlotRow {
    let end = (count > 1).then(|| slot + seconds(60 * (count - 1)));
    SlotRow { slot, end, count, outcome, reason: Some(reason.to_owned()), job: None }
}
