//! The way between a process and the database: slow, lossy, and sometimes cut.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{JobId, LeaseId, NodeId, Nonce, ScheduleId, Timestamp};
use punctual_sqlite::{Options as SqliteOptions, SqliteStore};
use punctual_store::layer::{Layer, Layered};
use punctual_store::memory::Memory;
use punctual_store::*;
use tokio::sync::oneshot;

use crate::chance::Chance;
use crate::clock::Clock;
use crate::mix::Mix;
use crate::process::Process;
use crate::record::Record;

/// The database and what is around it.
pub(crate) struct Database {
    store: Mutex<Arc<dyn Store>>,
    /// The file of a store that is part of the server's process: requests end with the process, and
    /// its successor opens the file again.
    own_file: Option<PathBuf>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) record: Arc<Record>,
    pub(crate) mix: Mix,
    /// Once faults are over, everything arrives.
    pub(crate) is_calm: AtomicBool,
}

impl Database {
    /// A database without faults so far.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        own_file: Option<PathBuf>,
        clock: Arc<Clock>,
        record: Arc<Record>,
        mix: Mix,
    ) -> Database {
        let (store, is_calm) = (Mutex::new(store), AtomicBool::new(false));
        Database { store, own_file, clock, record, mix, is_calm }
    }

    /// The store as it is open now.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        self.store.lock().expect("single thread").clone()
    }

    /// A new server opens the file, if the previous server had it open in its own process.
    pub(crate) fn reopen(&self) {
        let Some(file) = &self.own_file else { return };
        // The previous one must release its lock first.
        *self.store.lock().expect("single thread") = Arc::new(Memory::new(|| Timestamp::EPOCH));
        match SqliteStore::open(file, SqliteOptions::engine()) {
            Ok(store) => *self.store.lock().expect("single thread") = Arc::new(store),
            Err(error) => self.record.violate(format!("the file cannot be opened: {error}")),
        }
    }
}

/// A store as one process reaches it.
pub(crate) type Connection = Layered<Link>;

/// The way of the calls of one process.
pub(crate) struct Link {
    database: Arc<Database>,
    direct: Direct,
    process: u32,
    /// What dies if a call kills it; nothing, for a client.
    victim: Option<Arc<Process>>,
    chance: Chance,
    is_cut: AtomicBool,
}

/// What becomes of a call.
#[derive(Clone, Copy)]
enum Fate {
    /// There and back.
    Answer(Duration, Duration),
    /// It never arrives; the caller learns of it.
    LoseRequest(Duration),
    /// It is done; the caller is told that the connection was lost.
    LoseReply(Duration),
    /// It never arrives, and nobody tells.
    Vanish,
    /// It is done, and nobody tells.
    DoneInSilence(Duration),
    /// The database says no.
    Refuse(ErrorKind),
}

impl Link {
    /// A connection of a process.
    pub(crate) fn connect(
        database: Arc<Database>,
        victim: Option<Arc<Process>>,
        chance: Chance,
    ) -> Connection {
        let process = victim.as_ref().map_or(0, |victim| victim.number);
        let direct = Direct(database.clone());
        Layered(Link { database, direct, process, victim, chance, is_cut: AtomicBool::new(false) })
    }

    /// Does this call cost its process its life, before or after the request has left?
    fn kills(&self) -> bool {
        let is_calm = self.database.is_calm.load(Ordering::Acquire);
        match self.victim.as_ref().filter(|_| !is_calm) {
            Some(victim) if self.chance.in_thousand(self.database.mix.kill) => {
                victim.kill();
                true
            }
            _ => false,
        }
    }

    /// Cuts it, or mends it.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Release);
    }

    fn fate(&self) -> Fate {
        let (chance, mix) = (&self.chance, &self.database.mix);
        if self.database.is_calm.load(Ordering::Acquire) {
            return Fate::Answer(chance.ms(0, 2), chance.ms(0, 2));
        }
        if self.is_cut.load(Ordering::Acquire) {
            return if chance.in_thousand(500) {
                Fate::Vanish
            } else {
                Fate::LoseRequest(chance.ms(1, 300))
            };
        }
        let slow = || chance.ms(0, mix.latency_ms);
        if chance.in_thousand(mix.lose_request) {
            Fate::LoseRequest(slow())
        } else if chance.in_thousand(mix.lose_reply) {
            Fate::LoseReply(slow())
        } else if chance.in_thousand(mix.vanish) {
            Fate::Vanish
        } else if chance.in_thousand(mix.silence) {
            Fate::DoneInSilence(slow())
        } else if chance.in_thousand(mix.refuse) {
            Fate::Refuse(chance.pick(&[ErrorKind::Retry, ErrorKind::Full, ErrorKind::Unreachable]))
        } else if chance.in_thousand(mix.late) {
            // As long as it takes for others to give the caller up, or longer.
            Fate::Answer(chance.ms(0, 9_000), slow())
        } else {
            Fate::Answer(slow(), slow())
        }
    }

    /// Sends a call on its way. The way is not part of the caller's process: a request that has
    /// left arrives even if its sender is killed or frozen meanwhile.
    async fn call<T: Send + 'static>(
        &self,
        name: &'static str,
        run: impl FnOnce(&dyn Store, At) -> Result<T> + Send + 'static,
        note: impl FnOnce(&Record, &T) + Send + 'static,
    ) -> Result<T> {
        if self.kills() {
            std::future::pending::<()>().await;
        }
        let fate = self.fate();
        let (database, process) = (self.database.clone(), self.process);
        database.record.trace(&format!("{name} {process}"));
        if !matches!(fate, Fate::Answer(..)) {
            database.record.count(|counts| counts.lost += 1);
        }
        let (reply, answer) = oneshot::channel();
        let sender = self.victim.clone().filter(|_| database.own_file.is_some());
        tokio::spawn(async move {
            let perform = || {
                if sender.is_some_and(|sender| sender.is_dead()) {
                    return Err(lost());
                }
                let done = run(&*database.store(), At::Fixed(database.clock.now()));
                if let Ok(done) = &done {
                    note(&database.record, done);
                }
                done
            };
            let answer = match fate {
                Fate::Answer(there, back) => {
                    pass(there).await;
                    let done = perform();
                    pass(back).await;
                    done
                }
                Fate::LoseRequest(wait) => {
                    pass(wait).await;
                    Err(lost())
                }
                Fate::LoseReply(there) => {
                    pass(there).await;
                    perform().and(Err(lost()))
                }
                Fate::Vanish => return never(reply).await,
                Fate::DoneInSilence(there) => {
                    pass(there).await;
                    drop(perform());
                    return never(reply).await;
                }
                Fate::Refuse(kind) => {
                    Err(StoreError::new(kind, "refused by the simulated database"))
                }
            };
            // The caller may be gone.
            drop(reply.send(answer));
        });
        if self.kills() {
            std::future::pending::<()>().await;
        }
        answer.await.unwrap_or_else(|_| Err(lost()))
    }
}

/// Keeps a caller waiting for as long as it likes to.
async fn never<T>(reply: oneshot::Sender<T>) {
    std::future::pending::<()>().await;
    drop(reply);
}

fn lost() -> StoreError {
    StoreError::new(ErrorKind::Unreachable, "the simulated connection was lost")
}

#[expect(clippy::disallowed_methods, reason = "simulated time is tokio's paused clock")]
async fn pass(wait: Duration) {
    tokio::time::sleep(wait).await;
}

/// Waits for the answer of a store without letting simulated time pass: to the simulated world
/// a transaction takes no time, whichever store does it.
pub(crate) fn at_once<T>(call: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    // A task that has done much is made to wait until its runtime goes on, which it does not here.
    let mut call = std::pin::pin!(tokio::task::unconstrained(call));
    loop {
        match call.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// The rows that a plan asks for.
pub(crate) fn rows(plan: &SlotPlan) -> &[SlotRow] {
    match &plan.decision {
        SlotDecision::Advance { slots, .. } => slots,
        SlotDecision::SetAside(_) => &[],
    }
}

/// The rows of a plan that were applied.
pub(crate) fn applied<'a>(plan: &'a SlotPlan, answer: &FireAnswer) -> &'a [SlotRow] {
    match answer {
        FireAnswer::Held(most, _) => rows(plan).get(..*most).unwrap_or_default(),
        _ => rows(plan),
    }
}

/// What a fire wrote, and what it depended on.
pub(crate) struct Effects {
    /// For each plan what is in the ledger.
    pub(crate) ledgers: Vec<Vec<SlotView>>,
    /// The nodes that were live.
    pub(crate) live: Vec<NodeInfo>,
}

/// The last rows of a ledger, oldest first: what a transaction has just written, as it is kept.
fn written(store: &dyn Store, id: ScheduleId, most: usize) -> Result<Vec<SlotView>> {
    let (mut views, mut after) = (Vec::new(), None);
    while views.len() < most {
        let page = at_once(store.slots(id, after, most - views.len()))?;
        views.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    views.reverse();
    Ok(views)
}

/// The database without the network: operations that no simulated node uses take no time and never fail.
struct Direct(Arc<Database>);

macro_rules! define_direct {
    ($(
        $(#[doc = $doc:literal])+
        [$caller:ident, $repeat:ident $(, hint $topic:ident $(if $when:expr)?)* $(, rows $rows:expr)?]
        async fn $name:ident(&self $(, $argument:ident: $type:ty)* $(,)?) -> $response:ty
        { $($check:tt)* }
    )+) => {
        #[async_trait]
        impl Store for Direct {
            fn hints(&self, topic: Topic) -> Hints {
                self.0.store().hints(topic)
            }

            fn stopped(&self) -> Option<StoreError> {
                self.0.store().stopped()
            }

            fn exposures(&self) -> Vec<Exposure> {
                self.0.store().exposures()
            }

            $(
                async fn $name(&self $(, $argument: $type)*) -> Result<$response> {
                    at_once(self.0.store().$name($($argument),*))
                }
            )+
        }
    };
}

punctual_store::store_operations!(define_direct);

#[async_trait]
impl Layer for Link {
    fn inner(&self) -> &dyn Store {
        &self.direct
    }

    fn hints(&self, topic: Topic) -> Hints {
        if self.database.mix.is_deaf {
            return Bell::default().listen(topic);
        }
        self.database.store().hints(topic)
    }

    async fn enqueue(&self, _: At, jobs: &[NewJob]) -> Result<Enqueued> {
        let (jobs, told) = (jobs.to_vec(), jobs.to_vec());
        self.database.record.submits(&jobs);
        let run = move |store: &dyn Store, at: At| at_once(store.enqueue(at, &jobs));
        self.call("enqueue", run, move |record, done| record.enqueued(&told, done)).await
    }

    async fn claim(&self, _: At, ask: &ClaimAsk) -> Result<Claimed> {
        let (ask, node, process) = (ask.clone(), ask.node, self.process);
        let run = move |store: &dyn Store, at: At| at_once(store.claim(at, &ask));
        let note = move |record: &Record, done: &Claimed| record.claimed(process, done);
        let sent = self.database.clock.elapsed();
        let claimed = self.call("claim", run, note).await?;
        self.database.record.delivered(process, node, sent, &claimed);
        Ok(claimed)
    }

    async fn settle(&self, _: At, batch: &[Settlement]) -> Result<Settlements> {
        let (batch, told, process) = (batch.to_vec(), batch.to_vec(), self.process);
        self.database.record.settles(process, &batch);
        let run = move |store: &dyn Store, at: At| at_once(store.settle(at, &batch));
        let note = move |record: &Record, done: &Settlements| {
            record.settled(process, &told, done);
            record.followed(&told, done);
        };
        self.call("settle", run, note).await
    }

    async fn save_step(
        &self,
        _: At,
        job: JobId,
        lease: LeaseId,
        name: &str,
        result: &Json,
    ) -> Result<StepAnswer> {
        let (name, result) = (name.to_owned(), result.clone());
        let run = move |store: &dyn Store, at: At| {
            at_once(store.save_step(at, job, lease, &name, &result))
        };
        self.call("save_step", run, |_, _| {}).await
    }

    async fn steps(&self, job: JobId) -> Result<Vec<StepView>> {
        let run = move |store: &dyn Store, _: At| at_once(store.steps(job));
        self.call("steps", run, |_, _| {}).await
    }

    async fn write_log(&self, _: At, lines: &[LogLine]) -> Result<Timestamp> {
        let lines = lines.to_vec();
        let run = move |store: &dyn Store, at: At| at_once(store.write_log(at, &lines));
        self.call("write_log", run, |_, _| {}).await
    }

    async fn cancel(&self, _: At, job: JobId, actor: &Actor) -> Result<CancelAnswer> {
        let actor = actor.clone();
        let run = move |store: &dyn Store, at: At| at_once(store.cancel(at, job, &actor));
        self.call("cancel", run, move |record, done| record.cancelled(job, *done)).await
    }

    async fn join(&self, _: At, node: &NodeInfo) -> Result<JoinResponse> {
        let node = node.clone();
        self.database.record.joins(self.process, node.id);
        let run = move |store: &dyn Store, at: At| at_once(store.join(at, &node));
        let sent = self.database.clock.elapsed();
        let joined = self.call("join", run, |_, _| {}).await?;
        self.database.record.saw_clock(self.process, sent, joined.at);
        Ok(joined)
    }

    async fn beat(&self, _: At, ask: &BeatAsk) -> Result<Beaten> {
        let (ask, roles) = (ask.clone(), ask.roles.clone());
        let run = move |store: &dyn Store, at: At| at_once(store.beat(at, &ask));
        let note = move |record: &Record, done: &Beaten| record.renewed(&roles, &done.roles);
        let sent = self.database.clock.elapsed();
        let beaten = self.call("beat", run, note).await?;
        self.database.record.saw_clock(self.process, sent, beaten.at);
        Ok(beaten)
    }

    async fn release(&self, _: At, node: NodeId, leases: &[LeaseId]) -> Result<Released> {
        let (leases, process) = (leases.to_vec(), self.process);
        let run = move |store: &dyn Store, at: At| at_once(store.release(at, node, &leases));
        self.call("release", run, move |record, done| record.released(process, done)).await
    }

    async fn leave(&self, _: At, node: NodeId) -> Result<()> {
        let run = move |store: &dyn Store, at: At| at_once(store.leave(at, node));
        self.call("leave", run, |_, ()| {}).await
    }

    async fn acquire(
        &self,
        _: At,
        role: &str,
        node: NodeId,
        nonce: Nonce,
        lease: Duration,
    ) -> Result<Acquired> {
        let (role, told) = (role.to_owned(), role.to_owned());
        let run =
            move |store: &dyn Store, at: At| at_once(store.acquire(at, &role, node, nonce, lease));
        self.call("acquire", run, move |record, done| record.acquired(&told, node, nonce, done))
            .await
    }

    async fn resign(&self, _: At, fence: &Fence) -> Result<bool> {
        let fence = fence.clone();
        let run = move |store: &dyn Store, at: At| at_once(store.resign(at, &fence));
        self.call("resign", run, |_, _| {}).await
    }

    async fn promote(&self, _: At, most: usize) -> Result<Promoted> {
        let run = move |store: &dyn Store, at: At| at_once(store.promote(at, most));
        let sent = self.database.clock.elapsed();
        let promoted = self.call("promote", run, |_, _| {}).await?;
        self.database.record.saw_clock(self.process, sent, promoted.at);
        Ok(promoted)
    }

    async fn expire(&self, _: At, request: &ExpireRequest) -> Result<ExpireResponse> {
        let (request, fence) = (request.clone(), request.fence.clone());
        let run = move |store: &dyn Store, at: At| at_once(store.expire(at, &request));
        self.call("expire", run, move |record, done| record.expired(&fence, done)).await
    }

    async fn reap(&self, _: At, ask: &ReapAsk) -> Result<Reaped> {
        let (ask, fence) = (ask.clone(), ask.fence.clone());
        let run = move |store: &dyn Store, at: At| at_once(store.reap(at, &ask));
        self.call("reap", run, move |record, done| record.reaped(&fence, done)).await
    }

    async fn count_queues(&self, _: At, request: &CountRequest) -> Result<CountResponse> {
        let request = request.clone();
        let run = move |store: &dyn Store, at: At| at_once(store.count_queues(at, &request));
        self.call("count_queues", run, |_, _| {}).await
    }

    async fn prune(&self, _: At, retention: &Retention, most: usize) -> Result<Pruned> {
        let retention = *retention;
        let run = move |store: &dyn Store, at: At| at_once(store.prune(at, &retention, most));
        self.call("prune", run, |_, _| {}).await
    }

    async fn roll_up(&self, counts: &[RollupCount]) -> Result<()> {
        let counts = counts.to_vec();
        let run = move |store: &dyn Store, _: At| at_once(store.roll_up(&counts));
        self.call("roll_up", run, |_, ()| {}).await
    }

    async fn now(&self, _: At) -> Result<Timestamp> {
        let run = move |store: &dyn Store, at: At| at_once(store.now(at));
        self.call("now", run, |record, now| record.told_time(*now)).await
    }

    async fn create_schedule(&self, _: At, new: &NewSchedule) -> Result<Schedule> {
        let (new, told) = (new.clone(), new.clone());
        let run = move |store: &dyn Store, at: At| at_once(store.create_schedule(at, &new));
        self.call("create_schedule", run, move |record, _| record.created(&told)).await
    }

    async fn change_schedule(
        &self,
        _: At,
        id: ScheduleId,
        stamp: i64,
        change: &ScheduleChange,
        actor: &Actor,
    ) -> Result<EditAnswer> {
        let (change, told, actor) = (change.clone(), change.clone(), actor.clone());
        let run = move |store: &dyn Store, at: At| {
            let answer = at_once(store.change_schedule(at, id, stamp, &change, &actor))?;
            let written =
                written(store, id, change.passed().map_or(0, |passed| passed.rows.len()))?;
            Ok((answer, written))
        };
        let note = move |record: &Record, (answer, written): &(EditAnswer, Vec<SlotView>)| {
            if let EditAnswer::Done(schedule) = answer {
                record.changed(schedule, &told, written);
            }
        };
        Ok(self.call("change_schedule", run, note).await?.0)
    }

    async fn delete_schedule(
        &self,
        _: At,
        id: ScheduleId,
        stamp: i64,
        actor: &Actor,
    ) -> Result<EditAnswer> {
        let actor = actor.clone();
        let run =
            move |store: &dyn Store, at: At| at_once(store.delete_schedule(at, id, stamp, &actor));
        let note = move |record: &Record, answer: &EditAnswer| {
            if matches!(answer, EditAnswer::Done(_)) {
                record.deleted(id);
            }
        };
        self.call("delete_schedule", run, note).await
    }

    async fn schedule_named(&self, tenant: &str, name: &str) -> Result<Option<Schedule>> {
        let (tenant, name) = (tenant.to_owned(), name.to_owned());
        let run = move |store: &dyn Store, _: At| at_once(store.schedule_named(&tenant, &name));
        self.call("schedule_named", run, |_, _| {}).await
    }

    async fn due(&self, _: At, shard: i16, most: usize) -> Result<Due> {
        let run = move |store: &dyn Store, at: At| at_once(store.due(at, shard, most));
        let sent = self.database.clock.elapsed();
        let due = self.call("due", run, |_, _| {}).await?;
        self.database.record.saw_clock(self.process, sent, due.at);
        Ok(due)
    }

    async fn fire(
        &self,
        _: At,
        fence: &Fence,
        lease: Duration,
        plans: &[SlotPlan],
    ) -> Result<Fired> {
        self.database.record.decides(self.process, plans);
        let (fence, plans) = (fence.clone(), plans.to_vec());
        let (under, told) = (fence.clone(), plans.clone());
        let run = move |store: &dyn Store, at: At| {
            let fired = at_once(store.fire(at, &fence, lease, &plans))?;
            let ledgers: Result<Vec<Vec<SlotView>>> = plans
                .iter()
                .zip(&fired.answers)
                .map(|(plan, answer)| written(store, plan.schedule, applied(plan, answer).len()))
                .collect();
            let nodes = at_once(store.nodes())?.into_iter().filter(|node| node.dead_at.is_none());
            Ok((fired, Effects { ledgers: ledgers?, live: nodes.map(|node| node.info).collect() }))
        };
        let note = move |record: &Record, (fired, effects): &(Fired, Effects)| {
            record.fired(&under, &told, fired, effects);
        };
        Ok(self.call("fire", run, note).await?.0)
    }
}
