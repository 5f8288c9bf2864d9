//! A few connections, taken and given back. One that may be in the middle of something is closed.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_store::{ErrorKind, Result, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connect::{Connector, pause};
use crate::connection::Conn;

/// How long the first further try to connect waits, and the longest.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MOST: Duration = Duration::from_secs(2);

/// Connections for one purpose.
#[derive(Clone)]
pub(crate) struct Pool {
    inner: Arc<Inner>,
}

struct Inner {
    connector: Arc<Connector>,
    idle: Mutex<Vec<Conn>>,
    permits: Arc<Semaphore>,
    /// Tries to connect that have failed since the last that did not.
    failures: AtomicU32,
}

/// A connection that goes back when this value goes.
pub(crate) struct Taken {
    pool: Arc<Inner>,
    conn: Option<Conn>,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(connector: Arc<Connector>, most: usize) -> Pool {
        let inner = Inner {
            connector,
            idle: Mutex::new(Vec::new()),
            permits: Arc::new(Semaphore::new(most)),
            failures: AtomicU32::new(0),
        };
        Pool { inner: Arc::new(inner) }
    }

    /// The server as people know it.
    pub(crate) fn server(&self) -> &str {
        self.inner.connector.server()
    }

    /// Takes a connection, waiting for one if all are in use, and making it if none is idle.
    pub(crate) async fn take(&self) -> Result<Taken> {
        let inner = &self.inner;
        let permit = inner.permits.clone().acquire_owned().await.map_err(|_| closed())?;
        let idle = {
            let mut idle = inner.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain(Conn::is_sound);
            idle.pop()
        };
        let conn = match idle {
            Some(conn) => conn,
            None => inner.connect().await?,
        };
        Ok(Taken { pool: inner.clone(), conn: Some(conn), _permit: permit })
    }
}

fn closed() -> StoreError {
    StoreError::new(ErrorKind::Unreachable, "the store is closed; reopen it")
}

impl Inner {
    /// After a failure the next try waits, ever longer and not all at once, so that a server that
    /// comes back is not run over.
    async fn connect(&self) -> Result<Conn> {
        let failures = self.failures.load(Ordering::Relaxed);
        if failures > 0 {
            let longest = BACKOFF_FIRST * (1 << failures.min(8));
            pause(longest.min(BACKOFF_MOST), u64::from(failures)).await;
        }
        let connected = self.connector.connect().await;
        match &connected {
            Ok(_) => self.failures.store(0, Ordering::Relaxed),
            Err(_) => drop(self.failures.fetch_add(1, Ordering::Relaxed)),
        }
        connected
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(conn) = self.conn.take() else { return };
        let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if conn.is_left() {
            // What has silenced one has silenced the others, and each would be waited for in turn.
            idle.clear();
        } else if conn.is_sound() {
            idle.push(conn);
        }
    }
}

impl Taken {
    /// Closes the connection instead of giving it back.
    pub(crate) fn discard(mut self) {
        if !self.is_left() {
            self.conn = None;
        }
    }
}

// A taken connection is there until it is dropped or discarded.
#[expect(
    clippy::expect_used,
    reason = "only `discard` and `drop` take the connection, and both end its use"
)]
impl Deref for Taken {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        self.conn.as_ref().expect("a taken connection is present until it is discarded or dropped")
    }
}

#[expect(
    clippy::expect_used,
    reason = "only `discard` and `drop` take the connection, and both end its use"
)]
impl DerefMut for Taken {
    fn deref_mut(&mut self) -> &mut Conn {
        self.conn.as_mut().expect("a taken connection is present until it is discarded or dropped")
    }
}
