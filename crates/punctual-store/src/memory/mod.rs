//! The reference model: what a store must do, in plain maps behind one lock.
//!
//! It is the yardstick of the conformance suite, the store of the simulator and of tests that
//! need no durability. It is written to be read, not to be fast.

mod expiry;
mod jobs;
mod lists;
mod look;
mod nodes;
mod notes;
mod schedules;
mod sets;
mod state;
mod upkeep;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp};

use crate::backend::Backend;
use crate::*;
use state::State;

/// A store in memory. Clones share it.
#[derive(Clone)]
pub struct Memory {
    state: Arc<Mutex<State>>,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    bell: Arc<Bell>,
}

/// Everything a [`Memory`] holds at one moment, for going back to it.
#[derive(Clone)]
pub struct Snapshot(State);

impl Memory {
    /// An empty store that takes [`At::Database`] from this clock.
    pub fn new(clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Memory {
        Memory { state: Arc::default(), clock: Arc::new(clock), bell: Arc::default() }
    }

    /// What it holds now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.lock().clone())
    }

    /// Goes back to what it held then, as a database does that fails over to an old copy.
    pub fn restore(&self, snapshot: Snapshot) {
        let forked_at = Some((self.clock)());
        *self.lock() = State { forked_at, ..snapshot.0 };
    }

    /// Makes something unreadable.
    pub fn spoil(&self, what: rules::Spoil) {
        self.lock().spoil(what);
    }

    /// Lets this many claims find each queue with a limit locked by another claim, as PostgreSQL does.
    pub fn contend(&self, claims: usize) {
        self.lock().contended_claims = claims;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; if a bug does, the state is still whole.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn time(&self, at: At) -> Timestamp {
        match at {
            At::Database => (self.clock)(),
            At::Fixed(instant) => instant,
        }
    }
}

#[async_trait]
impl Backend for Memory {
    async fn now(&self, at: At) -> Result<Timestamp> {
        Ok(self.time(at))
    }

    async fn schema(&self) -> Result<Schema> {
        Ok(Schema {
            backend: "memory",
            version: 1,
            database: env!("CARGO_PKG_VERSION").to_owned(),
            forked_at: self.lock().forked_at,
        })
    }

    fn kind(&self) -> &'static str {
        "memory"
    }

    fn hints(&self, topic: Topic) -> Hints {
        self.bell.listen(topic)
    }

    fn raise_hint(&self, _operation: Operation, topic: Topic) {
        self.bell.ring(topic);
    }

    async fn faults(&self, _at: At, _retention: &Retention) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    async fn check_writable(&self) -> Result<()> {
        Ok(())
    }

    async fn enqueue(&self, at: At, jobs: &[NewJob]) -> Result<Enqueued> {
        Ok(self.lock().enqueue(self.time(at), jobs))
    }

    async fn claim(&self, at: At, ask: &ClaimAsk) -> Result<Claimed> {
        self.lock().claim(self.time(at), ask)
    }

    async fn settle(&self, at: At, batch: &[Settlement]) -> Result<Settlements> {
        let now = self.time(at);
        let mut state = self.lock();
        let answers: Vec<Settled> = batch.iter().map(|item| state.settle(now, item)).collect();
        let is_applied = |answer: &Settled| matches!(answer, Settled::Applied(_));
        let mut settled = batch.iter().zip(&answers);
        let has_room =
            settled.clone().any(|(item, answer)| is_applied(answer) && state.is_limited(item.job));
        let frees = settled.any(|(item, answer)| {
            matches!(answer, Settled::Applied(to) if to.is_final()) && state.is_waited_for(item.job)
        });
        let settled = Settlements { at: now, answers, frees, has_room };
        Ok(settled)
    }

    async fn key_holder(&self, at: At, job: &NewJob) -> Result<Option<JobId>> {
        Ok(self.lock().key_holder(self.time(at), job))
    }

    async fn cancel(&self, at: At, job: JobId, actor: &Actor) -> Result<CancelAnswer> {
        Ok(self.lock().cancel(self.time(at), job, actor))
    }

    async fn requeue(&self, at: At, jobs: &[JobId], actor: &Actor) -> Result<Vec<RequeueAnswer>> {
        let now = self.time(at);
        let mut state = self.lock();
        Ok(jobs.iter().map(|job| state.requeue(now, *job, actor)).collect())
    }

    async fn place(&self, at: At, job: JobId, to: &Placement, actor: &Actor) -> Result<MoveAnswer> {
        Ok(self.lock().place(self.time(at), job, to, actor))
    }

    async fn save_step(
        &self,
        at: At,
        job: JobId,
        lease: LeaseId,
        name: &str,
        result: &Json,
    ) -> Result<StepAnswer> {
        self.lock().save_step(self.time(at), job, lease, name, result)
    }

    async fn steps(&self, job: JobId) -> Result<Vec<StepView>> {
        Ok(self.lock().list_steps(job))
    }

    async fn write_log(&self, at: At, lines: &[LogLine]) -> Result<Timestamp> {
        let now = self.time(at);
        self.lock().write_log(now, lines);
        Ok(now)
    }

    async fn log(
        &self,
        job: JobId,
        after: Option<LogCursor>,
        most: usize,
    ) -> Result<Page<LogView, LogCursor>> {
        Ok(self.lock().list_log(job, after, most))
    }

    async fn newest_log(
        &self,
        job: JobId,
        before: Option<LogCursor>,
        most: usize,
    ) -> Result<Page<LogView, LogCursor>> {
        Ok(self.lock().list_newest_log(job, before, most))
    }

    async fn join(&self, at: At, node: &NodeInfo) -> Result<JoinResponse> {
        let now = self.time(at);
        let woken = self.lock().join(now, node);
        Ok(JoinResponse { at: now, wakes_schedules: woken > 0 })
    }

    async fn beat(&self, at: At, ask: &BeatAsk) -> Result<Beaten> {
        Ok(self.lock().beat(self.time(at), ask))
    }

    async fn release(&self, at: At, node: NodeId, leases: &[LeaseId]) -> Result<Released> {
        Ok(self.lock().release(self.time(at), node, leases))
    }

    async fn leave(&self, _at: At, node: NodeId) -> Result<()> {
        self.lock().leave(node)
    }

    async fn nodes(&self) -> Result<Vec<Node>> {
        Ok(self.lock().list_nodes())
    }

    async fn acquire(
        &self,
        at: At,
        role: &str,
        node: NodeId,
        nonce: Nonce,
        lease: Duration,
    ) -> Result<Acquired> {
        Ok(self.lock().acquire(self.time(at), role, node, nonce, lease))
    }

    async fn resign(&self, at: At, fence: &Fence) -> Result<bool> {
        Ok(self.lock().resign(self.time(at), fence))
    }

    async fn leaders(&self) -> Result<Vec<Leader>> {
        Ok(self.lock().leaders.values().cloned().collect())
    }

    async fn leader_changes(&self, role: &str, most: usize) -> Result<Vec<LeaderChange>> {
        let state = self.lock();
        let changes = state.leader_changes.iter().rev().filter(|change| change.role == role);
        Ok(changes.take(most.min(limits::PAGE_MAX)).cloned().collect())
    }

    async fn promote(&self, at: At, most: usize) -> Result<Promoted> {
        Ok(self.lock().promote(self.time(at), most))
    }

    async fn expire(&self, at: At, request: &ExpireRequest) -> Result<ExpireResponse> {
        Ok(self.lock().expire(self.time(at), request))
    }

    async fn reap(&self, at: At, ask: &ReapAsk) -> Result<Reaped> {
        Ok(self.lock().reap(self.time(at), ask))
    }

    async fn prune(&self, at: At, retention: &Retention, most: usize) -> Result<Pruned> {
        Ok(self.lock().prune(self.time(at), retention, most))
    }

    async fn roll_up(&self, counts: &[RollupCount]) -> Result<()> {
        self.lock().roll_up(counts);
        Ok(())
    }

    async fn rollups(
        &self,
        filter: &RollupFilter,
        after: Option<&RollupCursor>,
        most: usize,
    ) -> Result<Page<RollupCount, RollupCursor>> {
        Ok(self.lock().list_rollups(filter, after, most))
    }

    async fn audit(&self, at: At, entry: &AuditEntry) -> Result<()> {
        self.lock().note(self.time(at), &entry.actor, &entry.action, &entry.subject);
        Ok(())
    }

    async fn audits(
        &self,
        after: Option<AuditCursor>,
        most: usize,
    ) -> Result<Page<AuditView, AuditCursor>> {
        Ok(self.lock().list_audits(after, most))
    }

    async fn events(
        &self,
        after: &EventCursor,
        until: Timestamp,
        most: usize,
    ) -> Result<Page<Event, EventCursor>> {
        Ok(self.lock().list_events(after, until, most))
    }

    async fn create_schedule(&self, at: At, new: &NewSchedule) -> Result<Schedule> {
        self.lock().create_schedule(self.time(at), new)
    }

    async fn change_schedule(
        &self,
        at: At,
        id: ScheduleId,
        stamp: i64,
        change: &ScheduleChange,
        actor: &Actor,
    ) -> Result<EditAnswer> {
        let answer = self.lock().change_schedule(self.time(at), id, stamp, change, actor)?;
        Ok(answer)
    }

    async fn delete_schedule(
        &self,
        at: At,
        id: ScheduleId,
        stamp: i64,
        actor: &Actor,
    ) -> Result<EditAnswer> {
        Ok(self.lock().delete_schedule(self.time(at), id, stamp, actor))
    }

    async fn schedule(&self, id: ScheduleId) -> Result<Option<Schedule>> {
        Ok(self.lock().seen(id))
    }

    async fn schedule_named(&self, tenant: &str, name: &str) -> Result<Option<Schedule>> {
        let state = self.lock();
        Ok(state.schedule_named(tenant, name).and_then(|schedule| state.seen(schedule.id)))
    }

    async fn schedules(
        &self,
        tenant: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Schedule>> {
        Ok(self.lock().list_schedules(tenant, None, after, most))
    }

    async fn schedules_of(
        &self,
        tenant: &str,
        set: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Schedule>> {
        if set.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.lock().list_schedules(tenant, Some(set), after, most))
    }

    async fn register(&self, at: At, ask: &Registration) -> Result<Registered> {
        self.lock().register(self.time(at), ask)
    }

    async fn generation(&self, set: &str) -> Result<Option<i64>> {
        Ok(self.lock().generations.get(set).copied())
    }

    async fn revisions(
        &self,
        id: ScheduleId,
        after: Option<RevisionCursor>,
        most: usize,
    ) -> Result<Page<RevisionView, RevisionCursor>> {
        Ok(self.lock().list_revisions(id, after, most))
    }

    async fn due(&self, at: At, shard: i16, most: usize) -> Result<Due> {
        Ok(self.lock().due(self.time(at), shard, most))
    }

    async fn fire(
        &self,
        at: At,
        fence: &Fence,
        lease: Duration,
        plans: &[SlotPlan],
    ) -> Result<Fired> {
        Ok(self.lock().fire(self.time(at), fence, lease, plans))
    }

    async fn slots(
        &self,
        id: ScheduleId,
        after: Option<SlotCursor>,
        most: usize,
    ) -> Result<Page<SlotView, SlotCursor>> {
        Ok(self.lock().list_slots(id, after, most))
    }

    async fn recent_slots(&self, schedules: &[ScheduleId], most: usize) -> Result<Vec<SlotRun>> {
        Ok(self.lock().recent_slots(schedules, most))
    }

    async fn upcoming(&self, shard: i16, most: usize) -> Result<Vec<Schedule>> {
        Ok(self.lock().upcoming(shard, most))
    }

    async fn schedules_ahead(&self, now: Timestamp, most: usize) -> Result<AheadSchedules> {
        Ok(self.lock().schedules_ahead(now, most))
    }

    async fn sums(&self, ask: &SumAsk) -> Result<Vec<RollupSum>> {
        Ok(self.lock().sums(ask))
    }

    async fn spans(&self, since: Timestamp, until: Timestamp, most: usize) -> Result<Vec<Span>> {
        Ok(self.lock().spans(since, until, most))
    }

    async fn change_queue(
        &self,
        at: At,
        name: &str,
        change: &QueueChange,
        actor: &Actor,
    ) -> Result<Queue> {
        Ok(self.lock().change_queue(self.time(at), name, change, actor))
    }

    async fn queues(&self) -> Result<Vec<Queue>> {
        Ok(self.lock().queues.values().cloned().collect())
    }

    async fn queue_stats(&self, after: Option<&StatsCursor>, most: usize) -> Result<QueueCounts> {
        Ok(self.lock().queue_stats(after, most))
    }

    async fn count_queues(&self, at: At, request: &CountRequest) -> Result<CountResponse> {
        Ok(self.lock().count_queues(self.time(at), request))
    }

    async fn job(&self, id: JobId) -> Result<Option<JobDetail>> {
        Ok(self.lock().job_detail(id))
    }

    async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        most: usize,
    ) -> Result<Page<JobView, Cursor>> {
        Ok(self.lock().list_jobs(filter, after, most))
    }

    async fn upkeep_jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        most: usize,
    ) -> Result<Page<JobView, Cursor>> {
        Ok(self.lock().list_jobs(filter, after, most))
    }
}
