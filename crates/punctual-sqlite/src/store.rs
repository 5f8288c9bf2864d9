//! The store: every method of the port is sent to the writer or to a reader.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp};
use punctual_store::backend::Backend;
use punctual_store::*;

use crate::changes::Changes;
use crate::clock::instant;
use crate::cluster_key::FileKey;
use crate::lists::all;
use crate::open::{self, Options, Role};
use crate::readers::Readers;
use crate::state::StoreState;
use crate::writer::Writer;
use crate::{
    backup, check, claim, counts, events, expiry, file_guard, fire, jobs, leaders, lists, look,
    migrate, nodes, notes, queues, rows, schedules, sets, settle, sql, upkeep,
};

/// A store in one SQLite file.
///
/// ```
/// use punctual_sqlite::{Options, SqliteStore};
///
/// let directory = tempfile::tempdir()?;
/// let store = SqliteStore::open(directory.path().join("jobs.db"), Options::engine())?;
/// # drop(store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SqliteStore {
    // The writer goes last: it closes the file.
    _changes: Option<Changes>,
    pub(crate) readers: Readers,
    pub(crate) writer: Writer,
    state: StoreState,
    path: std::path::PathBuf,
    file_key: FileKey,
    role: Role,
    bell: Arc<Bell>,
}

impl SqliteStore {
    /// Opens a file, and creates or migrates it if it may. It blocks until that is done; the
    /// error says what to do. Dropping the store waits for what is under way and closes the file.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<SqliteStore> {
        let owned = open::writer(path.as_ref(), options)?;
        let (path, file_key) = (owned.path.clone(), owned.file_key.clone());
        let state = StoreState::new(owned.guard()?);
        let writer = Writer::start(owned, state.clone())?;
        let readers = Readers::start(path.clone(), state.clone())?;
        let bell = Arc::<Bell>::default();
        // Only an engine acts on what others write.
        let asker = writer.asker().filter(|_| options.role == Role::Engine);
        let changes = asker.map(|asker| Changes::start(asker, bell.clone())).transpose()?;
        Ok(SqliteStore {
            _changes: changes,
            readers,
            writer,
            state,
            path,
            file_key,
            role: options.role,
            bell,
        })
    }

    /// The file, by its one name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Copies the file, as it is at one moment, to a file that must not exist yet and appears when
    /// it is whole. Writers and readers go on meanwhile.
    pub async fn backup(&self, to: impl AsRef<Path>) -> Result<()> {
        self.state.check()?;
        backup::run(self.path.clone(), to.as_ref().to_owned()).await
    }

    /// Reads the whole file, and says what is wrong with it: nothing, if it is whole. Writers and
    /// readers go on meanwhile.
    pub async fn check(&self) -> Result<Vec<String>> {
        self.state.check()?;
        check::run(self.path.clone()).await
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).field("role", &self.role).finish()
    }
}

#[async_trait]
impl Backend for SqliteStore {
    async fn now(&self, at: At) -> Result<Timestamp> {
        self.state.check()?;
        Ok(instant(at))
    }

    fn stopped(&self) -> Option<StoreError> {
        self.state.check().err()
    }

    fn exposures(&self) -> Vec<Exposure> {
        file_guard::exposures(&self.path)
    }

    async fn check_writable(&self) -> Result<()> {
        self.state.check()?;
        if self.state.full().is_none() {
            return Ok(());
        }
        let probe = |db: &rusqlite::Connection| {
            let writes = open::meta(db, open::WRITE_PROBE)?;
            Ok(db.execute(sql::META_PUT, (open::WRITE_PROBE, writes.wrapping_add(1)))?)
        };
        self.writer.write(1, probe).await?;
        self.state.full().map_or(Ok(()), Err)
    }

    async fn schema(&self) -> Result<Schema> {
        let (version, _) = self.readers.rows(|db| Ok(migrate::version(db)?)).await?;
        Ok(Schema {
            backend: "sqlite",
            version,
            database: rusqlite::version().to_owned(),
            forked_at: None,
        })
    }

    fn kind(&self) -> &'static str {
        "sqlite"
    }

    fn hints(&self, topic: Topic) -> Hints {
        self.bell.listen(topic)
    }

    fn raise_hint(&self, _operation: Operation, topic: Topic) {
        self.bell.ring(topic);
    }

    /// The owner of the file runs the jobs and leads: other processes would wait for its lock.
    fn admit(&self, operation: Operation) -> Result<()> {
        if self.role == Role::Engine || operation.caller() != Caller::Engine {
            return Ok(());
        }
        let message = format!(
            "`{}` is open as a client and cannot run the operation `{}`; use the process that opened it \
             as the engine",
            self.path.display(),
            operation.name()
        );
        Err(StoreError::new(ErrorKind::Denied, message))
    }

    async fn faults(&self, _at: At, _retention: &Retention) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    async fn enqueue(&self, at: At, jobs: &[NewJob]) -> Result<Enqueued> {
        // Before they come to the one writer, for whom all others wait.
        let check = |job: &NewJob| job.check_enqueued().map(|()| job.clone());
        let checked: Vec<_> = jobs.iter().map(check).collect();
        let mut file_key = self.file_key.clone();
        let enqueue = move |db: &rusqlite::Connection| {
            let checked = checked.iter().map(|job| job.as_ref().map_err(String::clone));
            jobs::enqueue(db, &mut file_key, instant(at), checked)
        };
        self.writer.write(jobs.len(), enqueue).await
    }

    async fn key_holder(&self, at: At, job: &NewJob) -> Result<Option<JobId>> {
        let (job, file_key) = (job.clone(), self.file_key.clone());
        let read = move |db: &rusqlite::Connection| {
            jobs::key_holder(db, &mut file_key.clone(), instant(at), &job)
        };
        self.readers.rows(read).await
    }

    async fn claim(&self, at: At, ask: &ClaimAsk) -> Result<Claimed> {
        let ask = ask.clone();
        self.writer.write(ask.most, move |db| claim::claim(db, instant(at), &ask)).await
    }

    async fn settle(&self, at: At, batch: &[Settlement]) -> Result<Settlements> {
        let rows = batch.iter().map(|item| 1 + item.then.len()).sum();
        let items = batch.to_vec();
        let settle = move |db: &rusqlite::Connection| settle::settle(db, instant(at), &items);
        self.writer.write(rows, settle).await
    }

    async fn cancel(&self, at: At, job: JobId, actor: &Actor) -> Result<CancelAnswer> {
        let actor = actor.clone();
        self.writer.write(1, move |db| jobs::cancel(db, instant(at), job, &actor)).await
    }

    async fn requeue(&self, at: At, jobs: &[JobId], actor: &Actor) -> Result<Vec<RequeueAnswer>> {
        let (ended, actor) = (jobs.to_vec(), actor.clone());
        let mut file_key = self.file_key.clone();
        let requeue = move |db: &rusqlite::Connection| {
            let now = instant(at);
            let requeue = |job: &JobId| jobs::requeue(db, &mut file_key, now, *job, &actor);
            ended.iter().map(requeue).collect()
        };
        self.writer.write(jobs.len(), requeue).await
    }

    async fn place(&self, at: At, job: JobId, to: &Placement, actor: &Actor) -> Result<MoveAnswer> {
        let (to, actor) = (to.clone(), actor.clone());
        let place = move |db: &rusqlite::Connection| jobs::place(db, instant(at), job, &to, &actor);
        self.writer.write(1, place).await
    }

    async fn save_step(
        &self,
        at: At,
        job: JobId,
        lease: LeaseId,
        name: &str,
        result: &Json,
    ) -> Result<StepAnswer> {
        let (name, result) = (name.to_owned(), result.clone());
        let save = move |db: &rusqlite::Connection| {
            notes::save_step(db, instant(at), job, lease, &name, &result)
        };
        self.writer.write(1, save).await
    }

    async fn steps(&self, job: JobId) -> Result<Vec<StepView>> {
        self.readers.rows(move |db| notes::steps(db, job)).await
    }

    async fn write_log(&self, at: At, lines: &[LogLine]) -> Result<Timestamp> {
        let lines = lines.to_vec();
        self.writer.write(lines.len(), move |db| notes::write_log(db, instant(at), &lines)).await
    }

    async fn log(
        &self,
        job: JobId,
        after: Option<LogCursor>,
        most: usize,
    ) -> Result<Page<LogView, LogCursor>> {
        self.readers.list(move |db| lists::log(db, job, after, most)).await
    }

    async fn newest_log(
        &self,
        job: JobId,
        before: Option<LogCursor>,
        most: usize,
    ) -> Result<Page<LogView, LogCursor>> {
        self.readers.list(move |db| lists::newest_log(db, job, before, most)).await
    }

    async fn join(&self, at: At, node: &NodeInfo) -> Result<JoinResponse> {
        let info = node.clone();
        let join = move |db: &rusqlite::Connection| nodes::join(db, instant(at), &info);
        let (at, wakes_schedules) = self.writer.write(1, join).await?;
        Ok(JoinResponse { at, wakes_schedules })
    }

    async fn beat(&self, at: At, ask: &BeatAsk) -> Result<Beaten> {
        let ask = ask.clone();
        self.writer.write(1, move |db| nodes::beat(db, instant(at), &ask)).await
    }

    async fn release(&self, at: At, node: NodeId, leases: &[LeaseId]) -> Result<Released> {
        let given = leases.to_vec();
        let release =
            move |db: &rusqlite::Connection| nodes::release(db, instant(at), node, &given);
        self.writer.write(limits::RELEASE_MAX, release).await
    }

    async fn leave(&self, _at: At, node: NodeId) -> Result<()> {
        self.writer.write(1, move |db| nodes::leave(db, node)).await
    }

    async fn nodes(&self) -> Result<Vec<Node>> {
        self.readers.rows(|db| all(db, sql::NODES, [], rows::node)).await
    }

    async fn acquire(
        &self,
        at: At,
        role: &str,
        node: NodeId,
        nonce: Nonce,
        lease: Duration,
    ) -> Result<Acquired> {
        let role = role.to_owned();
        let acquire = move |db: &rusqlite::Connection| {
            leaders::acquire(db, instant(at), &role, node, nonce, lease)
        };
        self.writer.write(1, acquire).await
    }

    async fn resign(&self, at: At, fence: &Fence) -> Result<bool> {
        let fence = fence.clone();
        let resign = move |db: &rusqlite::Connection| leaders::resign(db, instant(at), &fence);
        self.writer.write(1, resign).await
    }

    async fn leaders(&self) -> Result<Vec<Leader>> {
        self.readers.rows(|db| all(db, sql::LEADERS, [], rows::leader)).await
    }

    async fn leader_changes(&self, role: &str, most: usize) -> Result<Vec<LeaderChange>> {
        let (role, most) = (role.to_owned(), rows::rows(most.min(limits::PAGE_MAX)));
        let read = move |db: &rusqlite::Connection| {
            all(db, sql::LEADER_CHANGES, (role, most), rows::leader_change)
        };
        self.readers.list(read).await
    }

    async fn promote(&self, at: At, most: usize) -> Result<Promoted> {
        let promote = move |db: &rusqlite::Connection| upkeep::promote(db, instant(at), most);
        self.writer.write(most, promote).await
    }

    async fn expire(&self, at: At, request: &ExpireRequest) -> Result<ExpireResponse> {
        let (request, rows) = (request.clone(), request.limit);
        let expire = move |db: &rusqlite::Connection| expiry::expire(db, instant(at), &request);
        self.writer.write(rows, expire).await
    }

    async fn reap(&self, at: At, ask: &ReapAsk) -> Result<Reaped> {
        let (ask, most) = (ask.clone(), ask.most);
        let reap = move |db: &rusqlite::Connection| upkeep::reap(db, instant(at), &ask);
        self.writer.write(most, reap).await
    }

    async fn prune(&self, at: At, retention: &Retention, most: usize) -> Result<Pruned> {
        let retention = *retention;
        self.writer.write(most, move |db| upkeep::prune(db, instant(at), &retention, most)).await
    }

    async fn roll_up(&self, counts: &[RollupCount]) -> Result<()> {
        let counts = counts.to_vec();
        self.writer.write(counts.len(), move |db| upkeep::roll_up(db, &counts)).await
    }

    async fn rollups(
        &self,
        filter: &RollupFilter,
        after: Option<&RollupCursor>,
        most: usize,
    ) -> Result<Page<RollupCount, RollupCursor>> {
        let (filter, after) = (filter.clone(), after.cloned());
        let read = move |db: &rusqlite::Connection| lists::rollups(db, &filter, after, most);
        self.readers.list(read).await
    }

    async fn audit(&self, at: At, entry: &AuditEntry) -> Result<()> {
        let AuditEntry { actor, action, subject } = entry.clone();
        let note = move |db: &rusqlite::Connection| {
            upkeep::note(db, instant(at), &actor, &action, &subject)
        };
        self.writer.write(1, note).await
    }

    async fn audits(
        &self,
        after: Option<AuditCursor>,
        most: usize,
    ) -> Result<Page<AuditView, AuditCursor>> {
        self.readers.list(move |db| lists::audits(db, after, most)).await
    }

    async fn events(
        &self,
        after: &EventCursor,
        until: Timestamp,
        most: usize,
    ) -> Result<Page<Event, EventCursor>> {
        let after = after.clone();
        let permit = self.readers.admit_list()?;
        // A transaction takes its instants after it has begun, and only one writes at a time. So when this
        // empty one has committed, all events up to `until` are committed, those of other processes
        // included. An older snapshot can lack an event whose transaction is under way, and the client
        // would never read it. The reading itself would delay all writes.
        self.writer.write(1, |_| Ok(())).await?;
        let read = move |db: &rusqlite::Connection| events::events(db, &after, until, most);
        self.readers.admitted_list(permit, read).await
    }

    async fn create_schedule(&self, at: At, new: &NewSchedule) -> Result<Schedule> {
        let new = new.clone();
        let create = move |db: &rusqlite::Connection| schedules::create(db, instant(at), &new);
        self.writer.write(1, create).await
    }

    async fn change_schedule(
        &self,
        at: At,
        id: ScheduleId,
        stamp: i64,
        change: &ScheduleChange,
        actor: &Actor,
    ) -> Result<EditAnswer> {
        let (change, actor) = (change.clone(), actor.clone());
        let edit = move |db: &rusqlite::Connection| {
            schedules::change(db, instant(at), id, stamp, &change, &actor)
        };
        self.writer.write(1, edit).await
    }

    async fn delete_schedule(
        &self,
        at: At,
        id: ScheduleId,
        stamp: i64,
        actor: &Actor,
    ) -> Result<EditAnswer> {
        let actor = actor.clone();
        let delete =
            move |db: &rusqlite::Connection| schedules::delete(db, instant(at), id, stamp, &actor);
        self.writer.write(1, delete).await
    }

    async fn schedule(&self, id: ScheduleId) -> Result<Option<Schedule>> {
        self.readers.rows(move |db| schedules::find(db, id)).await
    }

    async fn schedule_named(&self, tenant: &str, name: &str) -> Result<Option<Schedule>> {
        let (tenant, name) = (tenant.to_owned(), name.to_owned());
        self.readers.rows(move |db| schedules::named(db, &tenant, &name)).await
    }

    async fn schedules(
        &self,
        tenant: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Schedule>> {
        let (tenant, after) = (tenant.to_owned(), after.map(str::to_owned));
        let read =
            move |db: &rusqlite::Connection| lists::schedules(db, &tenant, after.as_deref(), most);
        self.readers.list(read).await
    }

    async fn schedules_of(
        &self,
        tenant: &str,
        set: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Schedule>> {
        let (tenant, set, after) = (tenant.to_owned(), set.to_owned(), after.map(str::to_owned));
        let read = move |db: &rusqlite::Connection| {
            lists::schedules_of(db, &tenant, &set, after.as_deref(), most)
        };
        self.readers.list(read).await
    }

    async fn register(&self, at: At, ask: &Registration) -> Result<Registered> {
        let ask = ask.clone();
        let register = move |db: &rusqlite::Connection| sets::register(db, instant(at), &ask);
        self.writer.write(limits::SET_ENTRIES_MAX, register).await
    }

    async fn generation(&self, set: &str) -> Result<Option<i64>> {
        let set = set.to_owned();
        self.readers.rows(move |db| sets::generation(db, &set)).await
    }

    async fn revisions(
        &self,
        id: ScheduleId,
        after: Option<RevisionCursor>,
        most: usize,
    ) -> Result<Page<RevisionView, RevisionCursor>> {
        self.readers.list(move |db| lists::revisions(db, id, after, most)).await
    }

    async fn due(&self, at: At, shard: i16, most: usize) -> Result<Due> {
        let read = move |db: &rusqlite::Connection| fire::due(db, instant(at), shard, most);
        let (due, unreadable) = self.readers.scheduler(read).await?;
        if !unreadable.is_empty() {
            let set_aside = move |db: &rusqlite::Connection| fire::set_aside(db, &unreadable);
            self.writer.write(1, set_aside).await?;
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
        let (fence, plans) = (fence.clone(), plans.to_vec());
        let fire =
            move |db: &rusqlite::Connection| fire::fire(db, instant(at), &fence, lease, &plans);
        self.writer.write(limits::FIRE_MAX, fire).await
    }

    async fn slots(
        &self,
        id: ScheduleId,
        after: Option<SlotCursor>,
        most: usize,
    ) -> Result<Page<SlotView, SlotCursor>> {
        self.readers.list(move |db| lists::slots(db, id, after, most)).await
    }

    async fn recent_slots(&self, schedules: &[ScheduleId], most: usize) -> Result<Vec<SlotRun>> {
        let schedules = schedules.to_vec();
        self.readers.list(move |db| look::recent_slots(db, &schedules, most)).await
    }

    async fn upcoming(&self, shard: i16, most: usize) -> Result<Vec<Schedule>> {
        self.readers.list(move |db| look::upcoming(db, shard, most)).await
    }

    async fn schedules_ahead(&self, now: Timestamp, most: usize) -> Result<AheadSchedules> {
        self.readers.upkeep(move |db| look::schedules_ahead(db, now, most)).await
    }

    async fn sums(&self, ask: &SumAsk) -> Result<Vec<RollupSum>> {
        let ask = *ask;
        self.readers.list(move |db| look::sums(db, ask)).await
    }

    async fn spans(&self, since: Timestamp, until: Timestamp, most: usize) -> Result<Vec<Span>> {
        self.readers.list(move |db| look::spans(db, since, until, most)).await
    }

    async fn change_queue(
        &self,
        at: At,
        name: &str,
        change: &QueueChange,
        actor: &Actor,
    ) -> Result<Queue> {
        let (name, change, actor) = (name.to_owned(), change.clone(), actor.clone());
        let edit = move |db: &rusqlite::Connection| {
            queues::change(db, instant(at), &name, &change, &actor)
        };
        self.writer.write(1, edit).await
    }

    async fn queues(&self) -> Result<Vec<Queue>> {
        self.readers.rows(|db| all(db, sql::QUEUES, [], rows::queue)).await
    }

    async fn queue_stats(&self, after: Option<&StatsCursor>, most: usize) -> Result<QueueCounts> {
        let after = after.cloned();
        self.readers.rows(move |db| counts::queue_stats(db, after.as_ref(), most)).await
    }

    async fn count_queues(&self, at: At, request: &CountRequest) -> Result<CountResponse> {
        let counted_at = instant(at);
        let counts = self.readers.upkeep(counts::count).await?;
        let jobs = counts.jobs;
        if !counts.is_changed {
            return Ok(CountResponse { led: true, jobs });
        }
        let (request, rows) = (request.clone(), counts.rows());
        let store = move |db: &rusqlite::Connection| {
            counts::store(db, instant(at), &request, counted_at, &counts)
        };
        Ok(CountResponse { led: self.writer.write(rows, store).await?, jobs })
    }

    async fn job(&self, id: JobId) -> Result<Option<JobDetail>> {
        self.readers.rows(move |db| lists::job(db, id)).await
    }

    async fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        most: usize,
    ) -> Result<Page<JobView, Cursor>> {
        let filter = filter.clone();
        self.readers.list(move |db| lists::jobs(db, &filter, after, most)).await
    }

    async fn upkeep_jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        most: usize,
    ) -> Result<Page<JobView, Cursor>> {
        let filter = filter.clone();
        self.readers.upkeep(move |db| lists::jobs(db, &filter, after, most)).await
    }
}
