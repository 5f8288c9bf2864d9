//! The readers: a few read-only connections, each with a thread and a snapshot of its own, so
//! that a long list keeps neither the writer nor the other readers waiting for long.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use punctual_store::{ErrorKind, Result, StoreError};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Outcome, explain};
use crate::open;
use crate::writer::{Stopped, gone, no_thread};

/// Enough that a slow list leaves room for quick look-ups; each costs a thread and a cache.
const READERS: usize = 3;
/// Reads that may wait for a reader.
const QUEUE_MAX: usize = 256;

type Look = Box<dyn FnOnce(&Connection) + Send>;

/// The queue to the readers' threads.
pub(crate) struct Readers {
    looks: Option<mpsc::Sender<Look>>,
    threads: Vec<JoinHandle<()>>,
    path: PathBuf,
    stopped: Stopped,
}

impl Readers {
    /// Opens the connections and starts their threads.
    pub(crate) fn start(path: PathBuf, stopped: Stopped) -> Result<Readers> {
        let (looks, queue) = mpsc::channel::<Look>(QUEUE_MAX);
        let queue = Arc::new(Mutex::new(queue));
        let mut readers =
            Readers { looks: Some(looks), threads: Vec::new(), path: path.clone(), stopped };
        for number in 0..READERS {
            let db = open::reader(&path).map_err(|error| explain(&error, &path))?;
            let queue = Arc::clone(&queue);
            let thread = thread::Builder::new()
                .name(format!("punctual-reader-{number}"))
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
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Refuses whatever is asked of a store that has stopped.
    pub(crate) fn check(&self) -> Result<()> {
        match self.stopped.get() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Reads from one snapshot.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Outcome<T> + Send + 'static,
    ) -> Result<T> {
        self.check()?;
        let (reply, answer) = oneshot::channel();
        let path = self.path.clone();
        let look = move |db: &Connection| {
            let outcome = in_snapshot(db, read).map_err(|fault| fault.tell(&path));
            // A caller that does not wait any more needs no answer.
            let _ = reply.send(outcome);
        };
        let Some(looks) = &self.looks else { return Err(gone(&self.path)) };
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

impl Drop for Readers {
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
