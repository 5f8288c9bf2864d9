//! The port through which punctual keeps everything: one trait, [`Store`], whose every method
//! is one transaction with one intent.
//!
//! A method takes [`At`]: production leaves the time to the database, tests and the simulator
//! fix it. Every answer says which instant it used. Three stores implement the port and pass
//! one conformance suite: [`memory`] here, which is the reference model, SQLite and PostgreSQL.

mod advance;
#[doc(hidden)]
pub mod bugs;
mod claim;
mod cluster_key;
mod enqueue;
mod error;
mod event;
mod expiry;
mod exposure;
mod hints;
mod json;
mod leader;
pub mod limits;
mod list;
mod list_limit;
pub mod look;
pub mod memory;
mod node;
mod notes;
mod placing;
mod queue;
mod realign;
pub mod rules;
mod schedule;
mod set;
mod settle;
pub mod skipped;
mod upkeep;

use async_trait::async_trait;
use punctual_core::{JobId, LeaseId, NodeId, ScheduleId, Timestamp};

pub use advance::{Advance, HeldSlots};
pub use claim::{ClaimAsk, Claimed, ClaimedJob, QueueShare, UnreadableJob};
pub use cluster_key::{CLUSTER_KEY_BYTES, ClusterKey, KEY_HASH_BYTES, KeyHash, MeaningDigest};

pub use enqueue::{
    Delay, EnqueueAnswer, Enqueued, KeyLifetime, KeyScope, Misfit, NewJob, Origin, Rejection,
    UniqueKey,
};
pub use error::{ErrorKind, Result, StoreError};
pub use event::{Event, EventCursor, EventKey, EventRow, event_rows, merge_events};
pub use expiry::{ExpireRequest, ExpireResponse, ExpiredJob};
pub use exposure::Exposure;
pub use hints::{Bell, Hints, Topic};
pub use json::Json;
pub use leader::{Acquired, Fence, Leader, LeaderChange, MAINTENANCE};
pub use list::{
    AttemptView, AuditCursor, Cursor, Hold, JobDetail, JobFilter, JobView, Page, Pager,
    ProgressView, RevisionCursor, RevisionView, RollupCursor, SlotCursor, SlotView, Source,
    StatsCursor,
};
pub use list_limit::{ListLimit, ListPermit};
pub use look::{JobRun, RollupSum, SlotRun, Span, SumAsk};
pub use node::{BeatAsk, Beaten, Node, NodeInfo, Progress, REMOTE_LABEL, Released, RoleBeat};
pub use notes::{LogCursor, LogLine, LogView, StepAnswer, StepView};
pub use placing::{Placed, awaited_queues, place, queues_of_every_node, why_nobody};
pub use queue::{
    CountRequest, CountResponse, Queue, QueueChange, QueueCounts, QueueLimits, QueueStats,
};
pub use realign::{AHEAD_MIN, AheadSchedules, DecidedRow, Realignment, Remainder, RowCut};
pub use schedule::{
    Due, EditAnswer, FireAnswer, Fired, NewSchedule, PassedSlots, Pause, Schedule, ScheduleChange,
    Seated, Seats, SlotDecision, SlotPlan, SlotRow,
};
pub use set::{Registered, Registration, SetEntry};
pub use settle::{
    CancelAnswer, MoveAnswer, Placement, RequeueAnswer, Settled, Settlement, Settlements,
};
pub use skipped::SkippedSlots;
pub use upkeep::{
    Actor, AuditEntry, AuditView, OverdueJob, Promoted, Pruned, ReapAsk, Reaped, ReapedAttempt,
    ReapedJob, Retention, RollupCount, RollupFilter, Schema,
};

/// Whose clock a transaction goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The database's, read in the transaction itself.
    Database,
    /// A fixed instant, in tests and in the simulator.
    Fixed(Timestamp),
}

/// All that punctual keeps. Each method is one transaction: it happens whole or not at all.
///
/// After a lost answer, `enqueue`, `settle`, `acquire`, `resign`, `join`, `beat`, `release`,
/// `create_schedule` and `write_log` may be repeated and answer as if asked once, but for jobs that
/// are given back already; a repeated `save_step` answers with what is kept, and a repeated
/// `register` that changed a schedule is stale. A repeated `claim` takes other jobs; what the first one took are strays, of which the
/// next `beat` tells and which `release` gives back. `roll_up` and `audit` add again.
///
/// A row that cannot be read, because somebody else wrote it or the disk damaged it, stands in
/// nobody's way. Whatever comes across such a job fails it with [`rules::UNREADABLE`], and only
/// the end that its worker reports still counts; such a schedule is set aside. Lists show what can
/// be read of it, or leave it out.
#[async_trait]
pub trait Store: Send + Sync {
    /// What time it is.
    async fn now(&self, at: At) -> Result<Timestamp>;
    /// Which schema the store has.
    async fn schema(&self) -> Result<Schema>;
    /// What is amiss with how the store is set up, where history is kept for so long, as far as it shows
    /// without reading what the store holds: nothing, if all is well.
    async fn faults(&self, _at: At, _retention: &Retention) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    /// Why the store accepts no calls until it is reopened; none while it accepts them.
    fn stopped(&self) -> Option<StoreError> {
        None
    }
    /// Reports ways in which others can read or change the database or the connection to it.
    fn exposures(&self) -> Vec<Exposure> {
        Vec::new()
    }
    /// Checks whether writes can succeed. After a write that found the disk full, it writes to find out
    /// whether there is space again; otherwise it costs nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Full`] until a write succeeds; the reason of a store that has stopped.
    async fn check_writable(&self) -> Result<()> {
        Ok(())
    }
    /// Where the store tells that something may have changed.
    fn hints(&self, topic: Topic) -> Hints;

    // Jobs

    /// Writes jobs; each row has an answer of its own, and a refused one keeps no other out.
    async fn enqueue(&self, at: At, jobs: &[NewJob]) -> Result<Enqueued>;
    /// Takes due jobs in the order of queues and ranks, under the lease that fences their
    /// settlement.
    async fn claim(&self, at: At, ask: &ClaimAsk) -> Result<Claimed>;
    /// Which job holds the unique key of this one now, if any: it may be the job itself. A key whose
    /// time is over is held by nobody.
    async fn key_holder(&self, at: At, job: &NewJob) -> Result<Option<JobId>>;
    /// Applies decided transitions, each with the jobs that follow it; a stale lease is reported, not
    /// applied, and nothing follows.
    async fn settle(&self, at: At, batch: &[Settlement]) -> Result<Settlements>;
    /// Calls a job off: at once if it waits, by asking its worker if it runs.
    async fn cancel(&self, at: At, job: JobId, actor: &Actor) -> Result<CancelAnswer>;
    /// Makes ended jobs ready again, with all their attempts before them: none is spent, none of
    /// their budget is used, their steps are forgotten, and they expire no more, since somebody wants
    /// them now.
    async fn requeue(&self, at: At, jobs: &[JobId], actor: &Actor) -> Result<Vec<RequeueAnswer>>;
    /// Gives a waiting job another queue, priority or due time. A unique key that holds for its
    /// queue goes with it.
    async fn place(&self, at: At, job: JobId, to: &Placement, actor: &Actor) -> Result<MoveAnswer>;

    // What handlers note

    /// Keeps the result of a step of a job, while this lease of it is in force; the first result of
    /// a name stays. At most [`limits::STEPS_MAX`] for a job.
    async fn save_step(
        &self,
        at: At,
        job: JobId,
        lease: LeaseId,
        name: &str,
        result: &Json,
    ) -> Result<StepAnswer>;
    /// The steps of a job, in the order of their instants and then of their names.
    async fn steps(&self, job: JobId) -> Result<Vec<StepView>>;
    /// Writes lines of logs. A line that is there already stays as it is; those of a job that is not
    /// there are left out, since nothing would ever drop them.
    async fn write_log(&self, at: At, lines: &[LogLine]) -> Result<Timestamp>;
    /// The log of a job, attempt by attempt, in the order of its lines.
    async fn log(
        &self,
        job: JobId,
        after: Option<LogCursor>,
        most: usize,
    ) -> Result<Page<LogView, LogCursor>>;
    /// The same from its end, the newest line first: those before this place.
    async fn newest_log(
        &self,
        job: JobId,
        before: Option<LogCursor>,
        most: usize,
    ) -> Result<Page<LogView, LogCursor>>;

    // Nodes and leaders

    /// Enters a node that has just started.
    async fn join(&self, at: At, node: &NodeInfo) -> Result<Timestamp>;
    /// One heartbeat: the node is alive and still leads its roles. One that was declared dead
    /// changes nothing by it.
    async fn beat(&self, at: At, ask: &BeatAsk) -> Result<Beaten>;
    /// Gives back what a node holds under these leases, as if it had settled each job as
    /// released; at most [`limits::RELEASE_MAX`] jobs, the next beat tells of the others.
    async fn release(&self, at: At, node: NodeId, leases: &[LeaseId]) -> Result<Released>;
    /// Takes a node that holds no job any more from the list.
    async fn leave(&self, at: At, node: NodeId) -> Result<()>;
    /// The nodes, by id.
    async fn nodes(&self) -> Result<Vec<Node>>;
    /// Takes a role whose lease has run out.
    async fn acquire(
        &self,
        at: At,
        role: &str,
        node: NodeId,
        nonce: punctual_core::Nonce,
        lease: std::time::Duration,
    ) -> Result<Acquired>;
    /// Gives a role up at once; false if the term was lost already.
    async fn resign(&self, at: At, fence: &Fence) -> Result<bool>;
    /// Who leads what, by role.
    async fn leaders(&self) -> Result<Vec<Leader>>;
    /// Past changes of a role's term, newest first.
    async fn leader_changes(&self, role: &str, most: usize) -> Result<Vec<LeaderChange>>;

    // Upkeep

    /// Moves what waited long enough to the ready set: first due timers, then one job of each
    /// schedule that has none unfinished but those that wait, its oldest; to the timers if it is
    /// due later.
    async fn promote(&self, at: At, most: usize) -> Result<Promoted>;
    /// Ends jobs that wait past their start deadline: they fail without an attempt, and what they held is
    /// free. The deadlines to check are listed when jobs are written, and only for jobs that have one; see
    /// [`Promoted::next_deadline`].
    async fn expire(&self, at: At, request: &ExpireRequest) -> Result<ExpireResponse>;
    /// Declares silent nodes dead and takes their leases back. Ends the attempts of live remote workers
    /// (nodes with the label [`rules::REMOTE_LABEL`]) that exceed their time: other nodes do it themselves.
    async fn reap(&self, at: At, ask: &ReapAsk) -> Result<Reaped>;
    /// Drops history that is older than it must be kept.
    async fn prune(&self, at: At, retention: &Retention, most: usize) -> Result<Pruned>;
    /// Adds to the per-minute counters.
    async fn roll_up(&self, counts: &[RollupCount]) -> Result<()>;
    /// Reads the per-minute counters, oldest first.
    async fn rollups(
        &self,
        filter: &RollupFilter,
        after: Option<&RollupCursor>,
        most: usize,
    ) -> Result<Page<RollupCount, RollupCursor>>;
    /// Adds the per-minute counters up by stretches of time, oldest first, by metric and queue.
    async fn sums(&self, ask: &SumAsk) -> Result<Vec<RollupSum>>;
    /// Notes what somebody did.
    async fn audit(&self, at: At, entry: &AuditEntry) -> Result<()>;
    /// What was done, newest first.
    async fn audits(
        &self,
        after: Option<AuditCursor>,
        most: usize,
    ) -> Result<Page<AuditView, AuditCursor>>;
    /// What has happened after this and not later than `until`, oldest first. An event appears when
    /// its transaction commits, which may be later than its instant: whoever must not miss one asks
    /// for what is old enough.
    async fn events(
        &self,
        after: &EventCursor,
        until: Timestamp,
        most: usize,
    ) -> Result<Page<Event, EventCursor>>;

    // Schedules

    /// Creates a schedule; a name that is taken is a conflict.
    async fn create_schedule(&self, at: At, new: &NewSchedule) -> Result<Schedule>;
    /// Changes a schedule, if it is still as the caller saw it.
    async fn change_schedule(
        &self,
        at: At,
        id: ScheduleId,
        stamp: i64,
        change: &ScheduleChange,
        actor: &Actor,
    ) -> Result<EditAnswer>;
    /// Removes a schedule; its ledger and jobs stay until they are pruned.
    async fn delete_schedule(
        &self,
        at: At,
        id: ScheduleId,
        stamp: i64,
        actor: &Actor,
    ) -> Result<EditAnswer>;
    /// One schedule.
    async fn schedule(&self, id: ScheduleId) -> Result<Option<Schedule>>;
    /// One schedule by its name.
    async fn schedule_named(&self, tenant: &str, name: &str) -> Result<Option<Schedule>>;
    /// A tenant's schedules by name, after the given one.
    async fn schedules(
        &self,
        tenant: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Schedule>>;
    /// The schedules of a set among a tenant's, by name, after the given one; none are of the set
    /// without a name.
    async fn schedules_of(
        &self,
        tenant: &str,
        set: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Schedule>>;
    /// Writes schedules of a set, all or none, unless a higher generation of it is in force; from
    /// then on this one is. Without entries that is all it does.
    async fn register(&self, at: At, ask: &Registration) -> Result<Registered>;
    /// The generation of a set that is in force, if there was one.
    async fn generation(&self, set: &str) -> Result<Option<i64>>;
    /// The revisions of a schedule, newest first.
    async fn revisions(
        &self,
        id: ScheduleId,
        after: Option<RevisionCursor>,
        most: usize,
    ) -> Result<Page<RevisionView, RevisionCursor>>;
    /// The schedules that have something to decide: those that are due since less than
    /// [`rules::FRESH`] first, earliest first, and then the others; of those, if there are any, at
    /// least a tenth. One whose row cannot be read is set aside instead, so that it keeps no other
    /// from firing.
    async fn due(&self, at: At, shard: i16, most: usize) -> Result<Due>;
    /// Advances each watermark and inserts its slots' jobs, or neither; nothing at all for a
    /// leader whose term is over. What becomes of a slot whose schedule has unfinished jobs is
    /// decided here, from those that are there: see [`Seats`]; and which nodes its jobs are for,
    /// from those that are alive: see [`place`].
    async fn fire(
        &self,
        at: At,
        fence: &Fence,
        lease: std::time::Duration,
        plans: &[SlotPlan],
    ) -> Result<Fired>;
    /// The ledger of a schedule, newest first.
    async fn slots(
        &self,
        id: ScheduleId,
        after: Option<SlotCursor>,
        most: usize,
    ) -> Result<Page<SlotView, SlotCursor>>;
    /// The newest slots of each of these schedules, in the order of the question, with how their jobs
    /// go or went; at most [`limits::RECENT_SCHEDULES_MAX`] schedules, and `most` slots of each.
    async fn recent_slots(&self, schedules: &[ScheduleId], most: usize) -> Result<Vec<SlotRun>>;
    /// The schedules that have something to decide next, those of every tenant, earliest first.
    async fn upcoming(&self, shard: i16, most: usize) -> Result<Vec<Schedule>>;

    /// Enabled schedules that are ahead of this instant ([`Schedule::ahead_until`]), the furthest ahead
    /// first. Examines the newest [`limits::EXAMINE_MAX`] ledger rows that were decided later.
    async fn schedules_ahead(&self, now: Timestamp, most: usize) -> Result<AheadSchedules>;

    // Queues and lists

    /// Pauses, resumes or limits a queue.
    async fn change_queue(
        &self,
        at: At,
        name: &str,
        change: &QueueChange,
        actor: &Actor,
    ) -> Result<Queue>;
    /// Queues that have a setting, by name.
    async fn queues(&self) -> Result<Vec<Queue>>;
    /// Job counts by queue and kind: those that [`Store::count_queues`] stored, so that the cost of
    /// a request does not grow with the number of jobs. If none are stored, there were few jobs or
    /// nothing has counted yet, and up to [`limits::COUNT_REQUEST_MAX`] jobs are counted now: see
    /// [`QueueCounts::is_partial`].
    async fn queue_stats(&self, after: Option<&StatsCursor>, most: usize) -> Result<QueueCounts>;
    /// Counts all unfinished and failed jobs and replaces the stored counts, under the term of the
    /// request. With at most [`limits::COUNT_LIVE_MAX`] jobs it removes the stored counts instead,
    /// so that each request counts. The count is a read of its own before the transaction that
    /// writes: it takes long, and the fence must not be locked meanwhile.
    async fn count_queues(&self, at: At, request: &CountRequest) -> Result<CountResponse>;
    /// One job with its attempts.
    async fn job(&self, id: JobId) -> Result<Option<JobDetail>>;
    /// Jobs, newest first.
    async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        most: usize,
    ) -> Result<Page<JobView, Cursor>>;
    /// The same as [`Store::jobs`], for the maintenance leader: it does not wait for the lists that
    /// API requests read, and is not rejected because of their number.
    async fn upkeep_jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        most: usize,
    ) -> Result<Page<JobView, Cursor>>;
    /// The attempts that are under way, and those of jobs whose ids are not older than `since`, all of
    /// jobs whose ids are older than `until`; newest job first, at most [`limits::SPANS_MAX`].
    async fn spans(&self, since: Timestamp, until: Timestamp, most: usize) -> Result<Vec<Span>>;
}
