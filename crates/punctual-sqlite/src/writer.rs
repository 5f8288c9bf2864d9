//! The one writer. It takes whatever is queued and commits it together: the commit in flight is
//! the window in which the next batch gathers, so that nobody waits for a timer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use punctual_store::{ErrorKind, Result, StoreError};
use rusqlite::Connection;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Fault, Outcome};
use crate::open::Owned;
use crate::state::StoreState;

/// Requests that may wait: more callers than this wait to be let in, so that a slow disk shows
/// in their latency and not in memory.
const QUEUE_MAX: usize = 1_024;
/// Rows after which a batch is committed: 1,000 inserts a commit reach 98 % of the rate that any
/// number does, and more only make the others wait.
const BATCH_ROWS_MAX: usize = 1_000;

/// How often the writer looks for another request, giving way to other threads in between, before
/// it goes on with those it has or goes to sleep: some 50 µs, a quarter of a commit.
const LOOKS_MAX: u32 = 100;

/// Something to be done in a transaction. It may run again after a rollback.
trait Work: Send {
    /// How many rows it may write.
    fn rows(&self) -> usize;
    /// Does it and keeps the answer; shows what went wrong.
    fn run(&mut self, db: &Connection) -> Option<&Fault>;
    /// Gives the caller its answer, once that is durable.
    fn answer(self: Box<Self>, path: &Path);
    /// Gives the caller an error instead.
    fn refuse(self: Box<Self>, error: &StoreError);
}

type Look = Box<dyn FnOnce(&Connection) + Send>;

enum Request {
    /// In a transaction, with others.
    Write(Box<dyn Work>),
    /// Outside of any.
    Look(Look),
}

/// The queue to the writer's thread.
pub(crate) struct Writer {
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

struct Task<T, F> {
    rows: usize,
    work: F,
    outcome: Option<Outcome<T>>,
    /// Takes the work back with the answer: what it holds is freed by whoever asked, while the writer
    /// goes on.
    reply: oneshot::Sender<(Result<T>, F)>,
}

impl<T: Send, F: FnMut(&Connection) -> Outcome<T> + Send> Work for Task<T, F> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn run(&mut self, db: &Connection) -> Option<&Fault> {
        self.outcome.insert((self.work)(db)).as_ref().err()
    }

    fn answer(self: Box<Self>, path: &Path) {
        // A caller that does not wait any more needs no answer.
        if let Some(outcome) = self.outcome {
            let _ = self.reply.send((outcome.map_err(|fault| fault.tell(path)), self.work));
        }
    }

    fn refuse(self: Box<Self>, error: &StoreError) {
        let _ = self.reply.send((Err(error.clone()), self.work));
    }
}

impl Writer {
    /// Starts the thread that owns the connection from now on.
    pub(crate) fn start(owned: Owned, state: StoreState) -> Result<Writer> {
        let (requests, queue) = mpsc::channel(QUEUE_MAX);
        let path = owned.path.clone();
        let desk = Desk { owned, state };
        let thread = thread::Builder::new()
            .name("punctual-writer".to_owned())
            .spawn(move || desk.serve(queue))
            .map_err(no_thread)?;
        Ok(Writer { requests: Some(requests), thread: Some(thread), path })
    }

    /// Does something in a transaction and answers when it is durable.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        rows: usize,
        work: impl FnMut(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let task = Task { rows: rows.max(1), work, outcome: None, reply };
        self.send(Request::Write(Box::new(task))).await?;
        answer.await.map_or_else(|_| Err(gone(&self.path)), |(answer, _)| answer)
    }

    /// For a thread that asks now and then and must not keep the writer alive.
    pub(crate) fn asker(&self) -> Option<Asker> {
        self.requests.as_ref().map(|requests| Asker(requests.downgrade()))
    }

    async fn send(&self, request: Request) -> Result<()> {
        let Some(requests) = &self.requests else { return Err(gone(&self.path)) };
        requests.send(request).await.map_err(|_| gone(&self.path))
    }
}

/// Asks the writer's connection, from a thread that may wait for the answer.
pub(crate) struct Asker(mpsc::WeakSender<Request>);

impl Asker {
    /// A number that differs from the last one if somebody else has committed since; none once
    /// the writer is gone.
    pub(crate) fn data_version(&self) -> Option<i64> {
        let (reply, answer) = oneshot::channel();
        let look = move |db: &Connection| {
            let version = db.prepare_cached("PRAGMA data_version");
            let version = version.and_then(|mut ask| ask.query_row([], |row| row.get(0)));
            // Without an answer there is no change to tell of.
            let _ = reply.send(version.unwrap_or(0));
        };
        self.0.upgrade()?.blocking_send(Request::Look(Box::new(look))).ok()?;
        answer.blocking_recv().ok()
    }
}

impl Drop for Writer {
    /// Waits for what is queued, so that the file is closed when the store is.
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed where it happened.
            let _ = thread.join();
        }
    }
}

pub(crate) fn no_thread(error: std::io::Error) -> StoreError {
    let message = format!(
        "cannot start a thread for the store ({error}); raise the thread limit of the process"
    );
    StoreError::new(ErrorKind::Unreachable, message)
}

pub(crate) fn gone(path: &Path) -> StoreError {
    let message = format!("the store `{}` is closed; reopen it", path.display());
    StoreError::new(ErrorKind::Unreachable, message)
}

/// The queue as the writer sees it.
struct Line {
    queue: mpsc::Receiver<Request>,
    /// What is to be asked when the transaction is over.
    looks: Vec<Look>,
    /// How many requests the next commit is worth waiting for.
    expected: usize,
    /// Does it leave the others to the one after it, even if they are there in time?
    leaves_others: bool,
}

impl Line {
    /// The next request, whenever it comes. To sleep and be woken costs a lone caller more than
    /// that the writer looks around for a while.
    fn first(&mut self) -> Option<Request> {
        for _ in 0..LOOKS_MAX {
            match self.queue.try_recv() {
                Ok(request) => return Some(request),
                Err(TryRecvError::Empty) => thread::yield_now(),
                Err(TryRecvError::Disconnected) => return None,
            }
        }
        self.queue.blocking_recv()
    }

    /// Another one for a transaction that holds `taken` already. Callers who were just answered
    /// come back within microseconds, and who misses this commit waits for two: so the writer
    /// looks around for as many as it expects.
    fn more(&mut self, taken: usize) -> Option<Box<dyn Work>> {
        for _ in 0..LOOKS_MAX {
            if self.leaves_others && taken >= self.expected {
                return None;
            }
            match self.queue.try_recv() {
                Ok(Request::Write(work)) => return Some(work),
                Ok(Request::Look(look)) => self.looks.push(look),
                Err(_) if taken >= self.expected => return None,
                Err(_) => thread::yield_now(),
            }
        }
        None
    }

    /// Decides how many to wait for next, of all who are around.
    fn learn(&mut self, committed: usize, took: &Took) {
        let around = committed + self.queue.len();
        self.expected = worth_waiting_for(around, took);
        self.leaves_others = self.expected < around;
    }
}

/// Where a commit takes long, as on a slow disk or with few callers, the fewest are best: with all who
/// are around. Where it takes less time than these need to come back, it is best made while some of
/// them do: a third is left to the next one, so that nobody waits for everybody.
fn worth_waiting_for(around: usize, took: &Took) -> usize {
    // Two thirds were gathered, half of which were there already: all need three times the time.
    let coming_back = took.gathering * 3;
    if took.committing < coming_back { around - around / 3 } else { around }
}

/// Where the requests are dealt with.
struct Desk {
    owned: Owned,
    state: StoreState,
}

impl Desk {
    fn serve(mut self, queue: mpsc::Receiver<Request>) {
        let mut line = Line { queue, looks: Vec::new(), expected: 1, leaves_others: false };
        while let Some(request) = line.first() {
            match request {
                Request::Look(look) => line.looks.push(look),
                Request::Write(work) => self.settle_batch(vec![work], Some(&mut line)),
            }
            line.looks.drain(..).for_each(|look| look(&self.owned.db));
        }
        self.owned.close(self.state.check().is_ok());
    }

    /// Commits a batch, and what comes in meanwhile, and answers it.
    fn settle_batch(&mut self, mut batch: Vec<Box<dyn Work>>, mut line: Option<&mut Line>) {
        if let Some(error) = self.state.stopped() {
            batch.into_iter().for_each(|work| work.refuse(error));
            return;
        }
        let committed = self.commit(&mut batch, line.as_deref_mut());
        if let (Some(line), Ok(took)) = (line, &committed) {
            line.learn(batch.len(), took);
        }
        // A commit to a deleted or replaced file is lost, so it must not be acknowledged. Such a
        // file is also the cause of most fatal errors.
        if (committed.is_ok() || committed.as_ref().is_err_and(|trouble| trouble.is_fatal))
            && let Err(error) = self.state.check()
        {
            batch.into_iter().for_each(|work| work.refuse(&error));
            return;
        }
        match &committed {
            Ok(took) if took.has_written => self.state.write_succeeded(&self.owned.path),
            Ok(_) => {}
            Err(trouble) => self.state.write_failed(&trouble.error),
        }
        match committed {
            Ok(_) => batch.into_iter().for_each(|work| work.answer(&self.owned.path)),
            Err(trouble) if trouble.is_for_all || batch.len() == 1 => {
                if trouble.is_fatal {
                    self.state.stop(trouble.error.clone());
                }
                batch.into_iter().for_each(|work| work.refuse(&trouble.error));
            }
            // One of them spoiled the transaction for all: each gets one of its own. Rare, and
            // cheaper than a savepoint around every request, which copies each page it touches.
            Err(_) => batch.into_iter().for_each(|work| self.settle_batch(vec![work], None)),
        }
    }

    /// Runs a batch in one transaction, and joins to it what comes in while it runs. A request
    /// that fails before it has written anything does not harm the others.
    fn commit(
        &self,
        batch: &mut Vec<Box<dyn Work>>,
        mut line: Option<&mut Line>,
    ) -> std::result::Result<Took, Trouble> {
        let began = now();
        let db = &self.owned.db;
        let trouble = |fault: &Fault, is_for_all: bool| {
            let is_fatal = fault.is_fatal();
            let error = fault.tell(&self.owned.path);
            Trouble { error, is_fatal, is_for_all: is_for_all || is_fatal }
        };
        let execute = |sql: &str| db.prepare_cached(sql)?.execute([]);
        // Who could not begin has waited for its turn already.
        execute("BEGIN IMMEDIATE").map_err(|error| trouble(&error.into(), true))?;
        let (mut run, mut rows) = (0, 0);
        let changes = db.total_changes();
        while let Some(work) = batch.get_mut(run) {
            rows += work.rows();
            run += 1;
            let before = db.total_changes();
            // It takes the request with it, so that the fault may be looked at afterwards.
            let attempt = move || {
                let work = work;
                work.run(db)
            };
            let Ok(fault) = catch_unwind(AssertUnwindSafe(attempt)) else {
                self.roll_back();
                return Err(Trouble::panic(&self.owned.path));
            };
            if let Some(fault) = fault
                && (fault.is_fatal() || db.is_autocommit() || db.total_changes() != before)
            {
                let trouble = trouble(fault, false);
                self.roll_back();
                return Err(trouble);
            }
            if run == batch.len() && rows < BATCH_ROWS_MAX {
                batch.extend(line.as_deref_mut().and_then(|line| line.more(run)));
            }
        }
        let gathered = now();
        execute("COMMIT").map_err(|error| {
            self.roll_back();
            trouble(&error.into(), false)
        })?;
        let has_written = db.total_changes() != changes;
        Ok(Took { gathering: gathered - began, committing: gathered.elapsed(), has_written })
    }

    fn roll_back(&self) {
        // SQLite has rolled back by itself after the worst errors.
        if !self.owned.db.is_autocommit() {
            let _ = self.owned.db.execute_batch("ROLLBACK");
        }
    }
}

/// Where the time of a transaction went.
struct Took {
    gathering: Duration,
    committing: Duration,
    /// Did it change rows?
    has_written: bool,
}

#[expect(
    clippy::disallowed_methods,
    reason = "the duration of a commit is measured only for batching; no result depends on it"
)]
fn now() -> Instant {
    Instant::now()
}

/// Why a batch was not committed.
struct Trouble {
    error: StoreError,
    /// Does nobody know any more what is on the disk?
    is_fatal: bool,
    /// Would every request meet it alone, too?
    is_for_all: bool,
}

impl Trouble {
    /// A bug. Nobody knows what it has spoiled, so that the store is closed; whoever waits is told,
    /// and so is whoever comes later.
    fn panic(path: &Path) -> Trouble {
        let message = format!(
            "the store `{}` is closed because a write panicked; this is a bug in punctual, see \
             the log for the panic message; reopen the store",
            path.display()
        );
        let error = StoreError::new(ErrorKind::Unreachable, message);
        Trouble { error, is_fatal: true, is_for_all: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_is_left_to_the_next_commit_where_commits_are_quick() {
        let took = |gathering, committing| Took {
            gathering: Duration::from_micros(gathering),
            committing: Duration::from_micros(committing),
            has_written: true,
        };
        assert_eq!(worth_waiting_for(64, &took(400, 300)), 43);
        assert_eq!(worth_waiting_for(64, &took(400, 5_000)), 64);
        // Two callers share a commit: if each had its own, both would wait for two.
        assert_eq!(worth_waiting_for(2, &took(20, 300)), 2);
        assert_eq!(worth_waiting_for(1, &took(500, 300)), 1);
    }
}
