//! The readers: read-only connections, each with a thread and a snapshot of its own.
//!
//! They form four lanes. The scheduler has a connection that no other caller uses, because a late
//! read makes slots late: no number of API requests, however long their reads take, delays it. One
//! connection reads single rows, one serves the maintenance leader, and the others read lists. The
//! number of lists is bounded; beyond it a list is rejected.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use punctual_store::{ErrorKind, ListLimit, ListPermit, Result, StoreError};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Outcome, explain_owned};
use crate::open;
use crate::state::StoreState;
use crate::writer::{gone, no_thread};

/// Connections that read lists. Each costs a thread and a cache.
pub(crate) const LIST_READERS: usize = 3;
/// Reads that may wait in one lane.
const QUEUE_MAX: usize = 256;

type Look = Box<dyn FnOnce(&Connection) + Send>;

/// The lanes, and the bound for lists.
pub(crate) struct Readers {
    scheduler: ReaderLane,
    rows: ReaderLane,
    upkeep: ReaderLane,
    lists: ReaderLane,
    limit: ListLimit,
    path: PathBuf,
    state: StoreState,
}

/// Threads that share one queue of reads.
struct ReaderLane {
    looks: Option<mpsc::Sender<Look>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Opens the connections and starts their threads.
    pub(crate) fn start(path: PathBuf, state: StoreState) -> Result<Readers> {
        Ok(Readers {
            scheduler: ReaderLane::start(&path, "scheduler", 1)?,
            rows: ReaderLane::start(&path, "rows", 1)?,
            upkeep: ReaderLane::start(&path, "upkeep", 1)?,
            lists: ReaderLane::start(&path, "lists", LIST_READERS)?,
            limit: ListLimit::default(),
            path,
            state,
        })
    }

    /// Reads due schedules. No method that an API request calls may use this lane.
    pub(crate) async fn scheduler<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        self.read(&self.scheduler, read).await
    }

    /// Reads a few rows that an index finds.
    pub(crate) async fn rows<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        self.read(&self.rows, read).await
    }

    /// Reads a list.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Retry`] if too many lists are being read.
    pub(crate) async fn list<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        self.admitted_list(self.admit_list()?, read).await
    }

    /// Admits a list that something else has to precede.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Retry`] if too many lists are being read.
    pub(crate) fn admit_list(&self) -> Result<ListPermit> {
        self.limit.admit()
    }

    /// Reads a list that was admitted.
    pub(crate) async fn admitted_list<T: Send + 'static>(
        &self,
        permit: ListPermit,
        read: impl FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        // The permit belongs to the read: it is kept if the caller stops waiting.
        let read = move |db: &Connection| {
            let outcome = read(db);
            drop(permit);
            outcome
        };
        self.read(&self.lists, read).await
    }

    /// Reads for the maintenance leader, from as many rows as a list does. It waits for no list, and
    /// is never rejected.
    pub(crate) async fn upkeep<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        self.read(&self.upkeep, read).await
    }

    /// Reads from one snapshot.
    async fn read<T: Send + 'static>(
        &self,
        lane: &ReaderLane,
        read: impl FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        if let Some(error) = self.state.stopped() {
            return Err(error.clone());
        }
        let (reply, answer) = oneshot::channel();
        let (path, state) = (self.path.clone(), self.state.clone());
        let look = move |db: &Connection| {
            if reply.is_closed() {
                // The caller does not wait any more.
                return;
            }
            let outcome = in_snapshot(db, read).map_err(|fault| fault.tell(&path));
            // The content of a deleted or replaced file is not returned; its errors hide the cause.
            let outcome = state.check().and(outcome);
            // A caller that does not wait any more needs no answer.
            let _ = reply.send(outcome);
        };
        let Some(looks) = &lane.looks else { return Err(gone(&self.path)) };
        looks.send(Box::new(look)).await.map_err(|_| gone(&self.path))?;
        answer.await.unwrap_or_else(|_| Err(self.broken_off()))
    }

    /// The error of a read that never ended.
    fn broken_off(&self) -> StoreError {
        let message = format!(
            "a read of `{}` panicked; this is a bug in punctual, see the log for the panic message",
            self.path.display()
        );
        StoreError::new(ErrorKind::Unreachable, message)
    }
}

impl ReaderLane {
    fn start(path: &Path, name: &str, readers: usize) -> Result<ReaderLane> {
        let (looks, queue) = mpsc::channel::<Look>(QUEUE_MAX);
        let queue = Arc::new(Mutex::new(queue));
        let mut lane = ReaderLane { looks: Some(looks), threads: Vec::new() };
        for number in 0..readers {
            let db = open::reader(path).map_err(|error| explain_owned(error, path))?;
            let queue = Arc::clone(&queue);
            let thread = thread::Builder::new()
                .name(format!("punctual-{name}-{number}"))
                .spawn(move || {
                    while let Some(look) = next(&queue) {
                        // A bug in one read must not take the reader from all others.
                        let looked = catch_unwind(AssertUnwindSafe(|| look(&db)));
                        if looked.is_err() && !db.is_autocommit() {
                            let _ = db.execute_batch("ROLLBACK");
                        }
                    }
                })
                .map_err(no_thread)?;
            lane.threads.push(thread);
        }
        Ok(lane)
    }
}

impl Drop for ReaderLane {
    /// Waits for the reads under way, so that the writer is the last to close the file.
    fn drop(&mut self) {
        self.looks = None;
        for thread in self.threads.drain(..) {
            // A panic of the thread was printed where it happened.
            let _ = thread.join();
        }
    }
}

/// The next read. Whoever waits for it holds the lock; the others wait for the lock.
fn next(queue: &Mutex<mpsc::Receiver<Look>>) -> Option<Look> {
    // The lock is not held while a read runs, so a poisoned one is as good as any.
    queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).blocking_recv()
}

fn in_snapshot<T>(db: &Connection, read: impl FnOnce(&Connection) -> Outcome<T>) -> Outcome<T> {
    db.prepare_cached("BEGIN")?.execute([])?;
    let outcome = read(db);
    db.prepare_cached("ROLLBACK")?.execute([])?;
    outcome
}
