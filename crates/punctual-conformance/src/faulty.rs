//! A store behind a bad connection: requests get lost before they are carried out, replies after.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp};
use punctual_store::*;
use tokio::sync::Notify;

/// What happens to a call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// The request is lost: the store never sees it.
    Request,
    /// The reply is lost: the store has done it, and the caller does not know.
    Reply,
    /// The request is lost, and nobody says so: there never is a reply.
    Silence,
    /// The request takes too long: the store cancels it and says so.
    Timeout,
    /// The reply is held up until somebody lets it go.
    Held(Arc<Notify>),
}

/// Wraps a store; `decide` is asked before each call, by the name of the method.
pub struct Faulty<S: ?Sized> {
    store: Arc<S>,
    decide: Box<dyn Fn(&'static str) -> Fault + Send + Sync>,
}

impl<S> Faulty<S> {
    /// A store whose calls suffer what `decide` says.
    pub fn new(
        store: S,
        decide: impl Fn(&'static str) -> Fault + Send + Sync + 'static,
    ) -> Faulty<S> {
        Faulty::over(Arc::new(store), decide)
    }
}

impl<S: ?Sized> Faulty<S> {
    /// The same, over a store that others use as well.
    pub fn over(
        store: Arc<S>,
        decide: impl Fn(&'static str) -> Fault + Send + Sync + 'static,
    ) -> Faulty<S> {
        Faulty { store, decide: Box::new(decide) }
    }

    /// The store without its bad connection.
    pub fn inner(&self) -> &S {
        &self.store
    }
}

fn lost() -> StoreError {
    StoreError::new(
        ErrorKind::Unreachable,
        "the connection was lost; it is unknown whether the request was applied",
    )
}

fn cancelled() -> StoreError {
    StoreError::new(ErrorKind::Retry, "the request took too long and was cancelled").timed_out()
}

/// Passes each call on, unless it suffers a fault.
macro_rules! forward {
    ($( async fn $name:ident(&self $(, $argument:ident: $type:ty)* $(,)?) -> $answer:ty; )+) => {
        #[async_trait]
        impl<S: Store + ?Sized> Store for Faulty<S> {
            fn hints(&self, topic: Topic) -> Hints {
                self.store.hints(topic)
            }

            $(
                async fn $name(&self $(, $argument: $type)*) -> $answer {
                    match (self.decide)(stringify!($name)) {
                        Fault::None => self.store.$name($($argument),*).await,
                        Fault::Request => Err(lost()),
                        Fault::Reply => {
                            self.store.$name($($argument),*).await?;
                            Err(lost())
                        }
                        Fault::Timeout => Err(cancelled()),
                        Fault::Silence => std::future::pending().await,
                        Fault::Held(letting_go) => {
                            let reply = self.store.$name($($argument),*).await;
                            letting_go.notified().await;
                            reply
                        }
                    }
                }
            )+
        }
    };
}

forward! {
    async fn now(&self, at: At) -> Result<Timestamp>;
    async fn schema(&self) -> Result<Schema>;
    async fn enqueue(&self, at: At, jobs: &[NewJob]) -> Result<Enqueued>;
    async fn key_holder(&self, at: At, job: &NewJob) -> Result<Option<JobId>>;
    async fn claim(&self, at: At, ask: &ClaimAsk) -> Result<Claimed>;
    async fn settle(&self, at: At, batch: &[Settlement]) -> Result<Settlements>;
    async fn cancel(&self, at: At, job: JobId, actor: &Actor) -> Result<CancelAnswer>;
    async fn requeue(&self, at: At, jobs: &[JobId], actor: &Actor) -> Result<Vec<RequeueAnswer>>;
    async fn place(&self, at: At, job: JobId, to: &Placement, actor: &Actor) -> Result<MoveAnswer>;
    async fn save_step(
        &self, at: At, job: JobId, lease: LeaseId, name: &str, result: &Json
    ) -> Result<StepAnswer>;
    async fn steps(&self, job: JobId) -> Result<Vec<StepView>>;
    async fn write_log(&self, at: At, lines: &[LogLine]) -> Result<Timestamp>;
    async fn log(
        &self, job: JobId, after: Option<LogCursor>, most: usize
    ) -> Result<Page<LogView, LogCursor>>;
    async fn newest_log(
        &self, job: JobId, before: Option<LogCursor>, most: usize
    ) -> Result<Page<LogView, LogCursor>>;
    async fn join(&self, at: At, node: &NodeInfo) -> Result<Timestamp>;
    async fn beat(&self, at: At, ask: &BeatAsk) -> Result<Beaten>;
    async fn release(&self, at: At, node: NodeId, leases: &[LeaseId]) -> Result<Released>;
    async fn leave(&self, at: At, node: NodeId) -> Result<()>;
    async fn nodes(&self) -> Result<Vec<Node>>;
    async fn acquire(&self, at: At, role: &str, node: NodeId, nonce: Nonce, lease: Duration) -> Result<Acquired>;
    async fn resign(&self, at: At, fence: &Fence) -> Result<bool>;
    async fn leaders(&self) -> Result<Vec<Leader>>;
    async fn leader_changes(&self, role: &str, most: usize) -> Result<Vec<LeaderChange>>;
    async fn promote(&self, at: At, most: usize) -> Result<Promoted>;
    async fn expire(&self, at: At, request: &ExpireRequest) -> Result<ExpireResponse>;
    async fn reap(&self, at: At, ask: &ReapAsk) -> Result<Reaped>;
    async fn prune(&self, at: At, retention: &Retention, most: usize) -> Result<Pruned>;
    async fn roll_up(&self, counts: &[RollupCount]) -> Result<()>;
    async fn rollups(
        &self, filter: &RollupFilter, after: Option<&RollupCursor>, most: usize
    ) -> Result<Page<RollupCount, RollupCursor>>;
    async fn audit(&self, at: At, entry: &AuditEntry) -> Result<()>;
    async fn audits(&self, after: Option<AuditCursor>, most: usize) -> Result<Page<AuditView, AuditCursor>>;
    async fn events(
        &self, after: &EventCursor, until: Timestamp, most: usize
    ) -> Result<Page<Event, EventCursor>>;
    async fn create_schedule(&self, at: At, new: &NewSchedule) -> Result<Schedule>;
    async fn change_schedule(
        &self, at: At, id: ScheduleId, stamp: i64, change: &ScheduleChange, actor: &Actor
    ) -> Result<EditAnswer>;
    async fn delete_schedule(&self, at: At, id: ScheduleId, stamp: i64, actor: &Actor) -> Result<EditAnswer>;
    async fn schedule(&self, id: ScheduleId) -> Result<Option<Schedule>>;
    async fn schedule_named(&self, tenant: &str, name: &str) -> Result<Option<Schedule>>;
    async fn schedules(&self, tenant: &str, after: Option<&str>, most: usize) -> Result<Vec<Schedule>>;
    async fn schedules_of(
        &self, tenant: &str, set: &str, after: Option<&str>, most: usize
    ) -> Result<Vec<Schedule>>;
    async fn register(&self, at: At, ask: &Registration) -> Result<Registered>;
    async fn generation(&self, set: &str) -> Result<Option<i64>>;
    async fn revisions(
        &self, id: ScheduleId, after: Option<RevisionCursor>, most: usize
    ) -> Result<Page<RevisionView, RevisionCursor>>;
    async fn due(&self, at: At, shard: i16, most: usize) -> Result<Due>;
    async fn fire(&self, at: At, fence: &Fence, lease: Duration, plans: &[SlotPlan]) -> Result<Fired>;
    async fn slots(
        &self, id: ScheduleId, after: Option<SlotCursor>, most: usize
    ) -> Result<Page<SlotView, SlotCursor>>;
    async fn recent_slots(&self, schedules: &[ScheduleId], most: usize) -> Result<Vec<SlotRun>>;
    async fn upcoming(&self, shard: i16, most: usize) -> Result<Vec<Schedule>>;
    async fn schedules_ahead(&self, now: Timestamp, most: usize) -> Result<AheadSchedules>;
    async fn sums(&self, ask: &SumAsk) -> Result<Vec<RollupSum>>;
    async fn spans(&self, since: Timestamp, until: Timestamp, most: usize) -> Result<Vec<Span>>;
    async fn change_queue(&self, at: At, name: &str, change: &QueueChange, actor: &Actor) -> Result<Queue>;
    async fn queues(&self) -> Result<Vec<Queue>>;
    async fn queue_stats(
        &self, after: Option<&StatsCursor>, most: usize
    ) -> Result<QueueCounts>;
    async fn count_queues(&self, at: At, request: &CountRequest) -> Result<CountResponse>;
    async fn job(&self, id: JobId) -> Result<Option<JobDetail>>;
    async fn jobs(
        &self, filter: &JobFilter, after: Option<Cursor>, most: usize
    ) -> Result<Page<JobView, Cursor>>;
    async fn upkeep_jobs(
        &self, filter: &JobFilter, after: Option<Cursor>, most: usize
    ) -> Result<Page<JobView, Cursor>>;
}
