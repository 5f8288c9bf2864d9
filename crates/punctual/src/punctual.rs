//! The handle that an application holds.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::JobId;
use punctual_core::job::JobState;
use punctual_engine::{Engine, Health, Leadership, Stopped};
use punctual_store::{EnqueueAnswer, NewJob, Rejection, Retention, Topic, limits};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::admin::Admin;
use crate::ctx::Shared;
use crate::doctor::{Diagnosis, Thresholds};
use crate::error::{Error, ErrorDetails, ErrorKind, Result};
use crate::order::Order;
use crate::remote::Remote;
use crate::transaction::Transaction;

/// A running node, or a producer: enqueues jobs, waits for them, manages them. Cheap to clone; when the
/// last clone is dropped, the node stops at once.
///
/// A node that is not kept in a variable stops immediately, so the compiler warns about it:
///
/// ```
/// # // This fails if the compiler does not warn.
/// # #![deny(unfulfilled_lint_expectations)]
/// # use punctual::Punctual;
/// # #[tokio::main] async fn main() -> punctual::Result<()> {
/// #[expect(unused_must_use)]
/// Punctual::memory().start().await?;
///
/// // This one runs until `punctual` is dropped.
/// let punctual = Punctual::memory().start().await?;
/// # drop(punctual);
/// # Ok(()) }
/// ```
#[must_use = "the node stops when its last handle is dropped; keep the handle"]
#[derive(Clone)]
pub struct Punctual {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    known: Known,
    engine: Option<Engine>,
    phase: watch::Sender<Phase>,
    /// What follows an order in tests that want it done at once.
    #[cfg(feature = "testing")]
    after_enqueue: std::sync::OnceLock<AfterEnqueue>,
}

/// How far the handle has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Running,
    /// It was asked to stop: it enqueues nothing more.
    Stopping,
    Stopped,
}

#[cfg(feature = "testing")]
pub(crate) type AfterEnqueue = Box<dyn Fn() -> punctual_engine::Boxed + Send + Sync>;

/// An answer that is to be awaited.
pub type Awaited<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A job that was ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The job.
    pub id: JobId,
    /// False if there was one with the same unique key that does the same work.
    pub is_new: bool,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The job.
    pub id: JobId,
    /// `succeeded`, `failed`, `cancelled` or `skipped`.
    pub state: JobState,
    /// What went wrong, if something did.
    pub error: Option<String>,
    result: Option<String>,
}

impl Finished {
    /// What its handler returned in [`Done`](crate::Done).
    pub fn result<T: DeserializeOwned>(&self) -> Result<T> {
        if self.state != JobState::Succeeded {
            let error = self.error.as_deref().unwrap_or("no error message");
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("job {} has no result: it is {}: {error}", self.id, self.state),
            ));
        }
        let text = self.result.as_deref().unwrap_or("null");
        serde_json::from_str(text).map_err(|error| {
            Error::invalid(format!("the result of job {} has another type: {error}", self.id))
        })
    }
}

/// The kinds that may be ordered.
pub(crate) enum Known {
    /// Whoever handles them, it is not this node.
    Any,
    /// Those that this node handles or knows to be handled elsewhere.
    These(BTreeSet<String>),
}

impl Known {
    pub(crate) fn check(&self, order: &Order) -> Result<()> {
        match (self, order.checked_kind()) {
            (Known::These(kinds), Some(kind)) if !kinds.contains(kind) => {
                Err(Error::invalid(format!(
                    "no handler for kind `{kind}` in this program; add one with `.handle(…)`, or use \
                     `.handled_elsewhere::<…>()` if another program handles it"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// The intervals between reads of an awaited job that another process may finish: the first one, and
/// the longest one. They double.
const LOOK_FIRST: Duration = Duration::from_millis(100);
const LOOK_LAST: Duration = Duration::from_secs(1);
/// The pauses between reads that follow hints about other jobs: the first one, and the longest one.
/// They double. Without them, each call of `wait` would read its job whenever any job finishes.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_LAST: Duration = Duration::from_millis(100);
/// How long the last look at a job may take, once the node has stopped.
const LAST_LOOK: Duration = Duration::from_secs(1);
/// How long a producer may take to stop.
const ENDING: Duration = Duration::from_millis(900);

impl Punctual {
    pub(crate) fn new(shared: Arc<Shared>, known: Known, engine: Option<Engine>) -> Punctual {
        let inner = Inner {
            shared,
            known,
            engine,
            phase: watch::Sender::new(Phase::Running),
            #[cfg(feature = "testing")]
            after_enqueue: std::sync::OnceLock::new(),
        };
        Punctual { inner: Arc::new(inner) }
    }

    #[cfg(feature = "testing")]
    pub(crate) fn after_enqueue(&self, follows: AfterEnqueue) {
        // There is one, set before anybody orders.
        let _ = self.inner.after_enqueue.set(follows);
    }

    /// Jobs were ordered.
    async fn ordered(&self) {
        #[cfg(feature = "testing")]
        if let Some(follows) = self.inner.after_enqueue.get() {
            follows().await;
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// The kinds that this node handles or knows to be handled elsewhere; none for a producer, which
    /// may order any.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        let kinds = match &self.inner.known {
            Known::Any => None,
            Known::These(kinds) => Some(kinds),
        };
        kinds.into_iter().flatten().map(String::as_str)
    }

    /// Has it been told to stop? Then it takes no orders, and only finishes what runs.
    pub fn is_stopped(&self) -> bool {
        *self.inner.phase.borrow() >= Phase::Stopping
    }

    /// Ends when the node or producer is asked to stop, with [`stop`](Punctual::stop) or by a signal
    /// in [`run_until_signal`](Punctual::run_until_signal), or when the node has ended by itself.
    ///
    /// ```no_run
    /// # use punctual::Punctual;
    /// # async fn serve(graceful: impl Future<Output = ()>) {}
    /// # #[tokio::main] async fn main() -> punctual::Result<()> {
    /// let punctual = Punctual::memory().start().await?;
    /// // For example axum: `axum::serve(listener, app).with_graceful_shutdown(stopping)`
    /// let server = tokio::spawn(serve(punctual.stopping()));
    /// let stopped = punctual.run_until_signal().await?;
    /// # Ok(()) }
    /// ```
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + use<> {
        let asked = self.reached(Phase::Stopping);
        let ended = self.inner.engine.as_ref().map(Engine::ended);
        async move {
            match ended {
                Some(ended) => tokio::select! {
                    () = asked => {}
                    () = ended => {}
                },
                None => asked.await,
            }
        }
    }

    /// Ends when the node or producer has stopped, even if the caller of [`stop`](Punctual::stop) did not
    /// wait for it, or the node has ended by itself.
    fn over(&self) -> impl Future<Output = ()> + Send + use<> {
        let ended = self.inner.engine.as_ref().map(Engine::ended);
        let (stopping, stopped) = (self.reached(Phase::Stopping), self.reached(Phase::Stopped));
        let env = self.shared().env.clone();
        async move {
            let ended = async {
                match ended {
                    Some(ended) => ended.await,
                    None => {
                        stopping.await;
                        env.sleep(ENDING).await;
                    }
                }
            };
            tokio::select! {
                () = stopped => {}
                () = ended => {}
            }
        }
    }

    fn reached(&self, phase: Phase) -> impl Future<Output = ()> + Send + use<> {
        let mut phases = self.inner.phase.subscribe();
        async move {
            // An error means that all handles are dropped, which stops the node, too.
            let _ = phases.wait_for(|reached| *reached >= phase).await;
        }
    }

    /// The job of an order, if it may be ordered here and now.
    pub(crate) fn job(&self, order: Order) -> Result<NewJob> {
        if self.is_stopped() {
            return Err(Error::new(
                ErrorKind::Stopped,
                "punctual was stopped in this program; enqueue jobs before stopping it",
            ));
        }
        self.inner.known.check(&order)?;
        self.inner.shared.job(order)
    }

    /// Orders a job. When this returns it is durable.
    ///
    /// With a unique key, ordering the same work again answers with the job that is there;
    /// ordering other work under the same key is an error of kind `Conflict`.
    ///
    /// ```
    /// # use punctual::{Job, Punctual};
    /// # use std::time::Duration;
    /// # #[derive(serde::Serialize, serde::Deserialize, Job)]
    /// # struct SendEmail { to: String }
    /// # async fn send_email(_: SendEmail) {}
    /// # #[tokio::main] async fn main() -> punctual::Result<()> {
    /// # let punctual = Punctual::memory().handle(send_email).start().await?;
    /// let mail = SendEmail { to: "a@example.com".into() };
    /// punctual.enqueue(&mail).await?;
    /// punctual.enqueue(mail.order().delay(Duration::from_secs(60))).await?;
    /// # punctual.stop().await; Ok(()) }
    /// ```
    pub fn enqueue(&self, order: impl Into<Order>) -> Awaited<'_, Receipt> {
        let job = self.job(order.into());
        Box::pin(async move {
            let receipt = self.shared().enqueue(job?).await?;
            self.ordered().await;
            Ok(receipt)
        })
    }

    /// Orders a job in a transaction of the caller's own: it is there when that commits, and not
    /// otherwise.
    ///
    /// To be awaited for sqlx and tokio-postgres; rusqlite answers at once.
    pub fn enqueue_in<T: Transaction>(&self, tx: T, order: impl Into<Order>) -> T::Answer<Receipt> {
        self.shared().enqueue_in(tx, self.job(order.into()))
    }

    /// Orders many jobs, each with an answer of its own: one that is refused keeps no other out.
    /// They are written in parts, which are durable one after the other.
    pub fn enqueue_many<O: Into<Order>>(
        &self,
        orders: impl IntoIterator<Item = O>,
    ) -> Awaited<'_, Vec<Result<Receipt>>> {
        let jobs: Vec<Result<NewJob>> =
            orders.into_iter().map(|order| self.job(order.into())).collect();
        Box::pin(async move {
            let good: Vec<NewJob> =
                jobs.iter().filter_map(|job| job.as_ref().ok()).cloned().collect();
            let Shared { store, env, .. } = &**self.shared();
            let mut answers: Vec<Result<Option<EnqueueAnswer>>> = Vec::with_capacity(good.len());
            for part in good.chunks(limits::ENQUEUE_MAX) {
                match store.enqueue(env.at(), part).await {
                    Ok(enqueued) => {
                        answers.extend(enqueued.answers.into_iter().map(|it| Ok(Some(it))));
                    }
                    // What was written before has its answers; the rest has this one.
                    Err(error) => {
                        let rest = good.len() - answers.len();
                        answers.extend(std::iter::repeat_n(Err(Error::from(error)), rest));
                        break;
                    }
                }
            }
            self.ordered().await;
            let mut answers = answers.into_iter();
            let receipts = jobs.into_iter().map(|job| {
                let job = job?;
                receipt(&job, answers.next().transpose()?.flatten())
            });
            Ok(receipts.collect())
        })
    }

    /// Waits until a job has ended, with any outcome. Returns as soon as this process finishes the job.
    /// The end of a job in another process is found by polling, at first after 100 ms and later once per
    /// second.
    ///
    /// # Errors
    ///
    /// Of kind `NotFound` if there is no such job, and of kind `Stopped` if the node or producer
    /// stops first.
    pub async fn wait(&self, id: JobId) -> Result<Finished> {
        tokio::select! {
            biased;
            finished = self.look_until_finished(id) => finished,
            () = self.over() => self.last_look(id).await,
        }
    }

    /// The job after the node has stopped: it may have been the last one to end.
    async fn last_look(&self, id: JobId) -> Result<Finished> {
        let found = tokio::select! {
            biased;
            found = self.finished(id) => match found {
                Err(error) if is_passing(&error) => None,
                found => found?,
            },
            () = self.shared().env.sleep(LAST_LOOK) => None,
        };
        found.ok_or_else(|| {
            Error::new(
                ErrorKind::Stopped,
                format!(
                    "punctual was stopped in this program before job {id} finished; wait for the \
                     job in another program, or look at its state later"
                ),
            )
        })
    }

    async fn look_until_finished(&self, id: JobId) -> Result<Finished> {
        let Shared { store, env, .. } = &**self.shared();
        let mut hints = store.hints(Topic::Finished);
        let (mut look, mut pause, mut is_hinted) = (LOOK_FIRST, PAUSE_FIRST, false);
        loop {
            match self.finished(id).await {
                Ok(Some(finished)) => return Ok(finished),
                Ok(None) => {}
                // A database that is away for a while comes back.
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            if is_hinted {
                // Another job has finished.
                env.sleep(pause).await;
                pause = (pause * 2).min(PAUSE_LAST);
            }
            is_hinted = tokio::select! {
                biased;
                () = hints.heard() => true,
                () = env.sleep(look) => {
                    look = (look * 2).min(LOOK_LAST);
                    false
                }
            };
        }
    }

    /// Waits until a job has ended, but no longer than this; none if it has not. The errors are
    /// those of [`wait`](Punctual::wait).
    pub async fn wait_at_most(&self, id: JobId, patience: Duration) -> Result<Option<Finished>> {
        tokio::select! {
            biased;
            finished = self.wait(id) => finished.map(Some),
            () = self.shared().env.sleep(patience) => self.finished(id).await,
        }
    }

    /// How a job ended, if it has.
    async fn finished(&self, id: JobId) -> Result<Option<Finished>> {
        let Some(job) = self.shared().store.job(id).await? else {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "job {id} not found; it never existed, or it was deleted after its retention \
                     period"
                ),
            ));
        };
        let result = job.result.map(|result| result.to_string());
        let finished = Finished { id, state: job.view.state, error: job.view.error, result };
        Ok(Some(finished).filter(|finished| finished.state.is_final()))
    }

    /// Lists, changes, retries and explains.
    pub fn admin(&self) -> Admin {
        Admin::new(self.shared().clone())
    }

    /// Asks on behalf of workers that are not in this program.
    pub fn remote(&self) -> Remote {
        Remote::new(self.shared().clone())
    }

    /// Checks the installation, and this node, for problems.
    pub async fn doctor(&self, thresholds: &Thresholds) -> Diagnosis {
        let mut diagnosis = self.admin().doctor(thresholds).await;
        if let Some(health) = self.health() {
            diagnosis.add_node(&health);
        }
        diagnosis
    }

    /// How this node is; none for a producer.
    pub fn health(&self) -> Option<Health> {
        self.inner.engine.as_ref().map(Engine::health)
    }

    /// Why the store accepts no requests until the process is restarted, for example because the
    /// file of a SQLite database was deleted; none while it accepts them.
    pub fn store_failure(&self) -> Option<Error> {
        self.shared().store.stopped().map(Error::from)
    }

    /// How long this node keeps history when it looks after the store; none of a producer and of a node
    /// that never leads.
    pub fn retention(&self) -> Option<Retention> {
        self.inner.engine.as_ref().and_then(Engine::retention)
    }

    /// Stands for leading a role of the application's own, which at most one node leads at a time.
    /// None for a producer.
    pub fn lead(&self, role: &str) -> Option<Leadership> {
        self.inner.engine.as_ref().map(|engine| engine.lead(role))
    }

    /// Finishes running jobs until the shutdown grace ends, releases the others, and stops.
    ///
    /// Takes at most the [grace](crate::Builder::shutdown_grace) plus one second, even if a handler
    /// ignores the request or blocks its thread, or the database does not respond. Handlers learn
    /// of it at once ([`Ctx::cancelled`](crate::Ctx::cancelled)); released jobs use no attempt.
    /// After that, waits for jobs end with an error.
    pub async fn stop(&self) -> Stopped {
        self.enter(Phase::Stopping);
        let stopped = match &self.inner.engine {
            Some(engine) => {
                let time_is_over = engine.shutdown_time();
                engine.stop();
                let stop = async {
                    let stopped = engine.stopped().await;
                    self.shared().write_counts().await;
                    stopped
                };
                tokio::select! {
                    biased;
                    stopped = stop => stopped,
                    stopped = engine.out_of_time() => stopped,
                    // The node has stopped, and the statistics cannot be written.
                    () = time_is_over => engine.stopped().await,
                }
            }
            None => {
                tokio::select! {
                    biased;
                    () = self.shared().write_counts() => {}
                    () = self.shared().env.sleep(ENDING) => {}
                }
                Stopped { unsettled: 0 }
            }
        };
        self.enter(Phase::Stopped);
        stopped
    }

    fn enter(&self, phase: Phase) {
        self.inner.phase.send_if_modified(|reached| {
            let is_later = phase > *reached;
            *reached = phase.max(*reached);
            is_later
        });
    }

    /// Releases running jobs without waiting for them, and stops. Takes at most one second.
    pub async fn stop_now(&self) -> Stopped {
        if let Some(engine) = &self.inner.engine {
            engine.stop_now();
        }
        self.stop().await
    }

    /// Runs until the process is asked to end (SIGINT or SIGTERM) or the node is stopped, then stops as [`stop`] does; a
    /// second request stops at once.
    ///
    /// [`stop`]: Punctual::stop
    pub async fn run_until_signal(&self) -> Result<Stopped> {
        let mut signals = Signals::new()?;
        tokio::select! {
            () = signals.next() => {}
            () = self.stopping() => {}
        }
        let stopped = self.stop();
        tokio::select! {
            stopped = stopped => Ok(stopped),
            () = signals.next() => Ok(self.stop_now().await),
        }
    }
}

impl std::fmt::Debug for Punctual {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Punctual").field("health", &self.health()).finish_non_exhaustive()
    }
}

/// May the same request succeed later?
fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Retry | ErrorKind::Unreachable)
}

/// What became of one order.
pub(crate) fn receipt(job: &NewJob, answer: Option<EnqueueAnswer>) -> Result<Receipt> {
    let Some(answer) = answer else {
        return Err(Error::new(ErrorKind::Corrupt, "the database returned no result for the job"));
    };
    match answer {
        EnqueueAnswer::Created => Ok(Receipt { id: job.id, is_new: true }),
        EnqueueAnswer::Duplicate(id) => Ok(Receipt { id, is_new: false }),
        EnqueueAnswer::Rejected(Rejection::Invalid(why)) => {
            Err(Error::invalid(format!("job of kind `{}`: {why}", job.kind)))
        }
        EnqueueAnswer::Rejected(Rejection::KeyTaken(holder)) => {
            let named = job.unique.as_ref().filter(|unique| !unique.is_by_payload);
            let key = match named {
                Some(unique) => format!("unique key `{}`", unique.key),
                None => "the unique key by payload".to_owned(),
            };
            let details =
                ErrorDetails::KeyHeld { key: named.map(|unique| unique.key.clone()), by: holder };
            Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "{key} of kind `{}` is held by job {holder} with a different \
                     payload; wait for that job, cancel it, or use another key",
                    job.kind
                ),
            )
            .with(details))
        }
    }
}

/// Requests to end the process.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Signals> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Error::new(ErrorKind::Denied, format!("cannot listen for signals: {error}"))
            })
        };
        Ok(Signals {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
