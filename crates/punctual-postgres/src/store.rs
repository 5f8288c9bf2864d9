//! The store: every method of the port, sent to where it is done.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp};
use punctual_store::backend::Backend;
use punctual_store::*;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use crate::connect::Connector;
use crate::counts::{self, Change, CountTime};
use crate::driver::Driver;
use crate::enqueue::Enqueue;
use crate::gather::Gather;
use crate::history::{self, History};
use crate::in_transaction::InTransaction;
use crate::keys::Keyed;
use crate::lists::all;
use crate::options::Options;
use crate::pool::Pool;
use crate::retry::{attempt, list, run};
use crate::settle::Settle;
pub(crate) use crate::shared::Shared;
use crate::wake;
use crate::{
    check, claim, cluster_key, events, expiry, fire, jobs, keys, leaders, lists, look, migrate,
    nodes, notes, partitions, queues, rows, schedules, sets, spoil, sql, upkeep,
};

/// Connections for enqueueing, and as many for settling: two are enough to keep the server at work
/// while the other's commit is under way.
const WRITE_LANES: usize = 2;
/// Connections for enqueueing with keys that somebody else is taking just then; made when needed.
const SPARE_LANES: usize = 2;
/// Connections for claiming.
const CLAIM_LANES: usize = 2;
/// Connections for timers, start deadlines, the leases of the dead and job counts. They are services of
/// their own, and each statement may take two seconds.
const LEADER_LANES: usize = 2;
/// Connections for reads of the maintenance leader. The second one is made when a count of all jobs,
/// which takes seconds, occupies the first.
const UPKEEP_LANES: usize = 2;

/// A store on PostgreSQL.
///
/// Its connections live on threads of its own, so that it can be used from any Tokio runtime that
/// has a clock. Dropping it ends what it has started.
pub struct PostgresStore {
    driver: Arc<Driver>,
    pub(crate) connector: Arc<Connector>,
    pub(crate) shared: Arc<Shared>,
    /// For reads and rare writes.
    pub(crate) pool: Pool,
    claims: Pool,
    /// Heartbeats of this process, which wait for no other request, and those of remote workers.
    pub(crate) beats: [Pool; 2],
    /// Finds and fires due slots, one statement at a time: a slot waits for no other statement.
    fires: Pool,
    /// Elects leaders, which must not wait for what leaders do.
    roles: Pool,
    /// Writes of the maintenance leader, which must not wait for lists.
    pub(crate) leads: Pool,
    /// Reads of the maintenance leader, which must not wait for lists; not connected elsewhere.
    upkeep: Pool,
    pub(crate) count_time: CountTime,
    /// Lists that wait for a connection of `pool`.
    pub(crate) lists: ListLimit,
    /// Connections of `pool` that lists may use at the same time.
    pub(crate) list_places: Semaphore,
    enqueues: Gather<Enqueue>,
    keyed: Gather<Keyed>,
    settles: Gather<Settle>,
    channel: String,
    listens: bool,
    days_ahead: u32,
    /// Servers whose certificates are not verified.
    unverified: Vec<Exposure>,
    /// Those that tell and listen.
    tasks: Vec<AbortHandle>,
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl PostgresStore {
    /// Connects to a database, and creates or migrates the schema if it may. The error says what
    /// to do.
    pub async fn connect(url: &str, options: Options) -> Result<PostgresStore> {
        let driver = Arc::new(Driver::start()?);
        let connector = Arc::new(Connector::new(url, &options, driver.clone())?);
        let direct = match (&options.direct_url, options.is_pooled) {
            (Some(direct), _) => {
                let direct_options = Options { is_pooled: false, ..options.clone() };
                Some(Arc::new(Connector::new(direct, &direct_options, driver.clone())?))
            }
            (None, false) => Some(connector.clone()),
            (None, true) => None,
        };
        let mut unverified: Vec<Exposure> = [Some(&connector), direct.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(|it| it.exposure())
            .collect();
        // Both are the same without a pooler.
        unverified.dedup();
        let pool = Pool::new(connector.clone(), options.connections);
        let cluster_key = open(&connector, &pool, &options).await?;
        let shared = Arc::new(Shared::new(cluster_key));
        let fixed = Arc::new(connector.with_fixed_plans());
        let lanes = |most| Pool::new(fixed.clone(), most);
        let enqueue = Enqueue { pool: lanes(WRITE_LANES), shared: shared.clone() };
        let keyed = Keyed { pool: lanes(1), spare: lanes(SPARE_LANES), shared: shared.clone() };
        let settle = Settle { pool: lanes(WRITE_LANES), shared: shared.clone() };
        let channel = wake::channel(&options.schema);
        let mut tasks = Vec::new();
        if options.listens {
            let tell = wake::tell(shared.wake.clone(), lanes(1), channel.clone());
            tasks.push(driver.spawn(tell).abort_handle());
            if let Some(direct) = direct {
                let listen = wake::listen(shared.clone(), direct, channel.clone());
                tasks.push(driver.spawn(listen).abort_handle());
            }
        }
        Ok(PostgresStore {
            unverified,
            claims: lanes(CLAIM_LANES),
            beats: [lanes(1), lanes(1)],
            fires: lanes(1),
            roles: lanes(1),
            leads: lanes(LEADER_LANES),
            upkeep: Pool::new(connector.clone(), UPKEEP_LANES),
            count_time: CountTime::default(),
            lists: ListLimit::default(),
            list_places: Semaphore::new(options.connections.saturating_sub(1).max(1)),
            enqueues: Gather::start(&driver, enqueue, WRITE_LANES),
            keyed: Gather::start(&driver, keyed, 1),
            settles: Gather::start(&driver, settle, WRITE_LANES),
            driver,
            days_ahead: options.days_ahead,
            listens: options.listens,
            connector,
            shared,
            pool,
            channel,
            tasks,
        })
    }

    /// Writes to this store's tables in transactions of the caller's.
    pub fn in_transaction(&self) -> InTransaction {
        let channel = self.listens.then(|| self.channel.clone());
        let key = Some(self.shared.cluster_key.clone());
        InTransaction::of(self.connector.texts().clone(), key, channel, self.connector.server())
    }

    /// Which history of which server the store writes, and whether that has changed.
    pub fn history(&self) -> watch::Receiver<History> {
        self.connector.history.subscribe()
    }

    /// Makes something unreadable, if it is there; for tests.
    #[doc(hidden)]
    pub async fn spoil(&self, what: rules::Spoil) -> Result<()> {
        attempt!(self.pool, Repeat::Safe, conn => spoil::spoil(conn, what))
    }
}

/// Checks the schema, creates or migrates it if it may, and returns the cluster key.
async fn open(connector: &Connector, pool: &Pool, options: &Options) -> Result<ClusterKey> {
    let mut conn = pool.take().await?;
    let server = connector.server();
    let tell = |fault: crate::error::Fault| fault.tell(server);
    let place = format!("schema `{}` of {server}", options.schema);
    let found = migrate::version(&mut conn).await.map_err(tell)?;
    migrate::check(&place, found, options.auto_migrate)?;
    if found.0 < migrate::LATEST {
        migrate::apply(&mut conn).await.map_err(tell)?;
        // Once more: somebody newer may have migrated it since it was inspected.
        let found = migrate::version(&mut conn).await.map_err(tell)?;
        migrate::check(&place, found, options.auto_migrate)?;
    }
    let cluster_key = cluster_key::read(&mut *conn).await.map_err(tell)?;
    if options.auto_migrate && options.days_ahead > 0 {
        // What cannot be made ahead lies in the default partition, where everything works as well.
        let made = partitions::make_ahead(&mut conn, At::Database, options.days_ahead).await;
        let is_lost = made.as_ref().is_err_and(crate::error::Fault::is_lost);
        if let Err(fault) = made {
            tracing::warn!(error = %tell(fault), "creating partitions ahead failed, retrying with \
                the next prune");
        }
        if is_lost || conn.rollback().await.is_err() {
            conn.discard();
        }
    }
    Ok(cluster_key)
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("server", &self.connector.server()).finish()
    }
}

#[async_trait]
impl Backend for PostgresStore {
    async fn now(&self, at: At) -> Result<Timestamp> {
        let row = run!(self.pool, now, conn => conn.query_one(&sql::NOW, &[&rows::at(at)]))?;
        rows::instant(&row, 0).map_err(|fault| fault.tell(self.pool.server()))
    }

    async fn schema(&self) -> Result<Schema> {
        let (version, _) = run!(self.pool, schema, conn => migrate::version(conn))?;
        let row = run!(self.pool, schema, conn => conn.query_one(&sql::IDENTITY, &[]))?;
        let database = rows::get(&row, 1).map_err(|fault| fault.tell(self.pool.server()))?;
        let recorded = run!(self.pool, schema, conn => history::changed_at(conn))?;
        let forked_at = self.connector.history.forked_at().max(recorded);
        Ok(Schema { backend: "postgres", version, database, forked_at })
    }

    async fn faults(&self, at: At, retention: &Retention) -> Result<Vec<String>> {
        let (days, is_pooled) = (self.days_ahead, self.connector.is_pooled());
        run!(self.pool, faults, conn => check::faults(conn, at, retention, days, is_pooled))
    }

    fn exposures(&self) -> Vec<Exposure> {
        self.unverified.clone()
    }

    async fn check_writable(&self) -> Result<()> {
        self.connector.disk.check(&self.pool).await
    }

    fn kind(&self) -> &'static str {
        "postgres"
    }

    fn hints(&self, topic: Topic) -> Hints {
        self.shared.wake.listen(topic)
    }

    fn raise_hint(&self, operation: Operation, topic: Topic) {
        match (operation, topic) {
            (_, Topic::Finished) => self.shared.wake.ring_finished(),
            // The writers of these batches raise the hint: they know the positions of the jobs in their queues.
            (Operation::enqueue | Operation::settle | Operation::fire, _) => {}
            (_, Topic::Work) => self.shared.put_in_line(),
            (_, Topic::Schedules) => self.shared.wake.tell_schedules(),
            // The transaction has notified other processes.
            (_, Topic::Roles) => self.shared.wake.ring_roles(),
        }
    }

    async fn enqueue(&self, at: At, jobs: &[NewJob]) -> Result<Enqueued> {
        let cluster_key = &self.shared.cluster_key;
        let complete = |job| cluster_key.with_key(job).into_owned();
        let call = (at, jobs.iter().map(complete).collect());
        if jobs.iter().any(|job| job.unique.is_some()) {
            return self.keyed.ask(call).await;
        }
        self.enqueues.ask(call).await
    }

    async fn key_holder(&self, at: At, job: &NewJob) -> Result<Option<JobId>> {
        let job = &*self.shared.cluster_key.with_key(job);
        run!(self.pool, key_holder, conn => keys::holder(conn, at, job))
    }

    async fn claim(&self, at: At, ask: &ClaimAsk) -> Result<Claimed> {
        claim::claim(&self.claims, &self.shared, at, ask).await
    }

    async fn settle(&self, at: At, batch: &[Settlement]) -> Result<Settlements> {
        self.settles.ask((at, batch.to_vec())).await
    }

    async fn cancel(&self, at: At, job: JobId, actor: &Actor) -> Result<CancelAnswer> {
        run!(self.pool, cancel, conn => jobs::cancel(conn, at, job, actor))
    }

    async fn requeue(&self, at: At, jobs: &[JobId], actor: &Actor) -> Result<Vec<RequeueAnswer>> {
        let (actor, key) = (&actor.clone(), &self.shared.cluster_key);
        run!(self.pool, requeue, conn => jobs::requeue(conn, key, at, jobs, actor))
    }

    async fn place(&self, at: At, job: JobId, to: &Placement, actor: &Actor) -> Result<MoveAnswer> {
        run!(self.pool, place, conn => jobs::place(conn, at, job, to, actor))
    }

    async fn save_step(
        &self,
        at: At,
        job: JobId,
        lease: LeaseId,
        name: &str,
        result: &Json,
    ) -> Result<StepAnswer> {
        run!(self.pool, save_step, conn => notes::save_step(conn, at, job, lease, name, result))
    }

    async fn steps(&self, job: JobId) -> Result<Vec<StepView>> {
        run!(self.pool, steps, conn => notes::steps(conn, job))
    }

    async fn write_log(&self, at: At, lines: &[LogLine]) -> Result<Timestamp> {
        run!(self.pool, write_log, conn => notes::write_log(conn, at, lines))
    }

    async fn log(
        &self,
        job: JobId,
        after: Option<LogCursor>,
        most: usize,
    ) -> Result<Page<LogView, LogCursor>> {
        list!(self, conn => lists::log(conn, job, after, most))
    }

    async fn newest_log(
        &self,
        job: JobId,
        before: Option<LogCursor>,
        most: usize,
    ) -> Result<Page<LogView, LogCursor>> {
        list!(self, conn => lists::newest_log(conn, job, before, most))
    }

    async fn join(&self, at: At, node: &NodeInfo) -> Result<JoinResponse> {
        let (joined, are_locked) = run!(self.pool, join, conn => nodes::join(conn, at, node))?;
        if are_locked {
            let queues = awaited_queues(node).into_iter().map(str::to_owned).collect();
            let (pool, shared) = (self.pool.clone(), self.shared.clone());
            self.driver.spawn(nodes::wake_locked(pool, shared, at, queues));
        }
        Ok(joined)
    }

    async fn beat(&self, at: At, ask: &BeatAsk) -> Result<Beaten> {
        let history = &self.connector.history;
        let pool = &self.beats[usize::from(ask.is_remote)];
        run!(*pool, beat, conn => nodes::beat(conn, history, at, ask))
    }

    async fn release(&self, at: At, node: NodeId, leases: &[LeaseId]) -> Result<Released> {
        run!(self.pool, release, conn => nodes::release(conn, at, node, leases))
    }

    async fn leave(&self, _at: At, node: NodeId) -> Result<()> {
        run!(self.pool, leave, conn => nodes::leave(conn, node))
    }

    async fn nodes(&self) -> Result<Vec<Node>> {
        run!(self.pool, nodes, conn => all(conn, &sql::NODES, &[], rows::node))
    }

    async fn acquire(
        &self,
        at: At,
        role: &str,
        node: NodeId,
        nonce: Nonce,
        lease: Duration,
    ) -> Result<Acquired> {
        run!(self.roles, acquire, conn => leaders::acquire(conn, at, role, node, nonce, lease))
    }

    async fn resign(&self, at: At, fence: &Fence) -> Result<bool> {
        let message = self.shared.wake.about_roles();
        let channel = &self.channel;
        run!(self.roles, resign, conn => leaders::resign(conn, at, fence, channel, &message))
    }

    async fn leaders(&self) -> Result<Vec<Leader>> {
        run!(self.pool, leaders, conn => all(conn, &sql::LEADERS, &[], rows::leader))
    }

    async fn leader_changes(&self, role: &str, most: usize) -> Result<Vec<LeaderChange>> {
        let most = rows::count(most.min(limits::PAGE_MAX));
        list!(self, conn => all(conn, &sql::LEADER_CHANGES, &[&role, &most], rows::leader_change))
    }

    async fn promote(&self, at: At, most: usize) -> Result<Promoted> {
        run!(self.leads, promote, conn => upkeep::promote(conn, at, most))
    }

    async fn expire(&self, at: At, request: &ExpireRequest) -> Result<ExpireResponse> {
        run!(self.leads, expire, conn => expiry::expire(conn, at, request))
    }

    async fn reap(&self, at: At, ask: &ReapAsk) -> Result<Reaped> {
        run!(self.leads, reap, conn => upkeep::reap(conn, at, ask))
    }

    async fn prune(&self, at: At, retention: &Retention, most: usize) -> Result<Pruned> {
        let (now, mut pruned) =
            run!(self.pool, prune, conn => upkeep::prune(conn, at, retention, most))?;
        pruned.jobs += partitions::upkeep(&self.pool, now, retention, self.days_ahead).await;
        Ok(pruned)
    }

    async fn roll_up(&self, counts: &[RollupCount]) -> Result<()> {
        run!(self.pool, roll_up, conn => upkeep::roll_up(conn, counts))
    }

    async fn rollups(
        &self,
        filter: &RollupFilter,
        after: Option<&RollupCursor>,
        most: usize,
    ) -> Result<Page<RollupCount, RollupCursor>> {
        list!(self, conn => lists::rollups(conn, filter, after, most))
    }

    async fn audit(&self, at: At, entry: &AuditEntry) -> Result<()> {
        let AuditEntry { actor, action, subject } = entry;
        run!(self.pool, audit, conn => upkeep::note_at(conn, at, actor, action, subject))
    }

    async fn audits(
        &self,
        after: Option<AuditCursor>,
        most: usize,
    ) -> Result<Page<AuditView, AuditCursor>> {
        list!(self, conn => lists::audits(conn, after, most))
    }

    async fn events(
        &self,
        after: &EventCursor,
        until: Timestamp,
        most: usize,
    ) -> Result<Page<Event, EventCursor>> {
        run!(self.pool, events, conn => events::events(conn, after, until, most))
    }

    async fn create_schedule(&self, at: At, new: &NewSchedule) -> Result<Schedule> {
        run!(self.pool, create_schedule, conn => schedules::create(conn, at, new))
    }

    async fn change_schedule(
        &self,
        at: At,
        id: ScheduleId,
        stamp: i64,
        change: &ScheduleChange,
        actor: &Actor,
    ) -> Result<EditAnswer> {
        run!(self.pool, change_schedule, conn => schedules::change(conn, at, id, stamp, change, actor))
    }

    async fn delete_schedule(
        &self,
        at: At,
        id: ScheduleId,
        stamp: i64,
        actor: &Actor,
    ) -> Result<EditAnswer> {
        run!(self.pool, delete_schedule, conn => schedules::delete(conn, at, id, stamp, actor))
    }

    async fn schedule(&self, id: ScheduleId) -> Result<Option<Schedule>> {
        run!(self.pool, schedule, conn => schedules::find(conn, id))
    }

    async fn schedule_named(&self, tenant: &str, name: &str) -> Result<Option<Schedule>> {
        run!(self.pool, schedule_named, conn => schedules::named(conn, tenant, name))
    }

    async fn schedules(
        &self,
        tenant: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Schedule>> {
        list!(self, conn => lists::schedules(conn, tenant, after, most))
    }

    async fn schedules_of(
        &self,
        tenant: &str,
        set: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Schedule>> {
        list!(self, conn => lists::schedules_of(conn, tenant, set, after, most))
    }

    async fn register(&self, at: At, ask: &Registration) -> Result<Registered> {
        run!(self.pool, register, conn => sets::register(conn, at, ask))
    }

    async fn generation(&self, set: &str) -> Result<Option<i64>> {
        run!(self.pool, generation, conn => sets::generation(conn, set))
    }

    async fn revisions(
        &self,
        id: ScheduleId,
        after: Option<RevisionCursor>,
        most: usize,
    ) -> Result<Page<RevisionView, RevisionCursor>> {
        list!(self, conn => lists::revisions(conn, id, after, most))
    }

    async fn due(&self, at: At, shard: i16, most: usize) -> Result<Due> {
        let (due, unreadable) = run!(self.fires, due, conn => fire::due(conn, at, shard, most))?;
        if !unreadable.is_empty() {
            run!(self.fires, due, conn => fire::set_aside(conn, &unreadable))?;
        }
        Ok(due)
    }

    async fn fire(
        &self,
        at: At,
        fence: &Fence,
        lease: Duration,
        plans: &[SlotPlan],
    ) -> Result<Fired> {
        let (fired, made) =
            run!(self.fires, fire, conn => fire::fire(conn, at, fence, lease, plans))?;
        if !made.is_empty() {
            self.shared.enqueued(fired.at, made.iter().map(|job| &**job));
        }
        Ok(fired)
    }

    async fn slots(
        &self,
        id: ScheduleId,
        after: Option<SlotCursor>,
        most: usize,
    ) -> Result<Page<SlotView, SlotCursor>> {
        list!(self, conn => lists::slots(conn, id, after, most))
    }

    async fn recent_slots(&self, schedules: &[ScheduleId], most: usize) -> Result<Vec<SlotRun>> {
        list!(self, conn => look::recent_slots(conn, schedules, most))
    }

    async fn upcoming(&self, shard: i16, most: usize) -> Result<Vec<Schedule>> {
        list!(self, conn => look::upcoming(conn, shard, most))
    }

    async fn schedules_ahead(&self, now: Timestamp, most: usize) -> Result<AheadSchedules> {
        run!(self.upkeep, schedules_ahead, conn => look::schedules_ahead(conn, now, most))
    }

    async fn sums(&self, ask: &SumAsk) -> Result<Vec<RollupSum>> {
        list!(self, conn => look::sums(conn, *ask))
    }

    async fn spans(&self, since: Timestamp, until: Timestamp, most: usize) -> Result<Vec<Span>> {
        list!(self, conn => look::spans(conn, since, until, most))
    }

    async fn change_queue(
        &self,
        at: At,
        name: &str,
        change: &QueueChange,
        actor: &Actor,
    ) -> Result<Queue> {
        run!(self.pool, change_queue, conn => queues::change(conn, at, name, change, actor))
    }

    async fn queues(&self) -> Result<Vec<Queue>> {
        run!(self.pool, queues, conn => all(conn, &sql::QUEUES, &[], rows::queue))
    }

    async fn queue_stats(&self, after: Option<&StatsCursor>, most: usize) -> Result<QueueCounts> {
        run!(self.pool, queue_stats, conn => counts::queue_stats(conn, after, most))
    }

    async fn count_queues(&self, at: At, request: &CountRequest) -> Result<CountResponse> {
        let (counted_at, stats, jobs) = match run!(self.upkeep, count_queues, conn => counts::examine(conn))?
        {
            Change::None(jobs) => return Ok(CountResponse { led: true, jobs }),
            // Nothing is inserted, so that the instant is not stored.
            Change::Remove(jobs) => (Timestamp::EPOCH, Vec::new(), jobs),
            Change::Replace => {
                let time = &self.count_time;
                let counted =
                    run!(self.upkeep, count_queues, conn => counts::count(conn, at, time));
                let (counted_at, stats) = counted.inspect_err(|error| {
                    if error.is_timeout() {
                        time.exceeded();
                    }
                })?;
                let jobs = stats.iter().map(QueueStats::jobs).sum();
                (counted_at, stats, jobs)
            }
        };
        run!(self.leads, count_queues, conn => counts::store(conn, at, request, counted_at, &stats, jobs))
    }

    async fn job(&self, id: JobId) -> Result<Option<JobDetail>> {
        run!(self.pool, job, conn => lists::job(conn, id))
    }

    async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        most: usize,
    ) -> Result<Page<JobView, Cursor>> {
        list!(self, conn => lists::jobs(conn, filter, after, most))
    }

    async fn upkeep_jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        most: usize,
    ) -> Result<Page<JobView, Cursor>> {
        run!(self.upkeep, upkeep_jobs, conn => lists::jobs(conn, filter, after, most))
    }
}
