//! Whether the server has refused a write because its disk is full, and whether there is space again.
//!
//! On a full disk small writes still succeed where a page has room, such as heartbeats. They prove
//! nothing, so a probe writes more than a megabyte.

use std::sync::{Mutex, PoisonError};

use punctual_store::{Result, StoreError};
use tokio_postgres::error::SqlState;

use crate::connection::Conn;
use crate::error::{Fault, Outcome, explain};
use crate::pool::Pool;
use crate::retry::run;

/// Remembers a full disk, for all connections of a store.
pub(crate) struct Disk {
    server: String,
    full: Mutex<Refused>,
}

/// The refused writes since the last successful probe.
#[derive(Clone, Default)]
struct Refused {
    /// The error of the last one, if there was one.
    error: Option<StoreError>,
    /// The number of refused writes since the store was opened.
    count: u64,
}

impl Disk {
    pub(crate) fn new(server: &str) -> Disk {
        Disk { server: server.to_owned(), full: Mutex::default() }
    }

    /// Remembers an error of the database, if the disk is full.
    pub(crate) fn note(&self, error: &tokio_postgres::Error) {
        if error.code() == Some(&SqlState::DISK_FULL) {
            let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
            full.error = Some(explain(error, &self.server));
            full.count += 1;
        }
    }

    /// After a refused write, probes whether there is space again.
    pub(crate) async fn check(&self, pool: &Pool) -> Result<()> {
        let refused = self.refused();
        if refused.error.is_none() {
            return Ok(());
        }
        run!(*pool, check_writable, conn => probe(conn))?;
        self.forget(&refused).map_or(Ok(()), Err)
    }

    /// The refused writes that no successful probe has followed.
    fn refused(&self) -> Refused {
        self.full.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets them after a successful probe. If another write was refused in the meantime, returns its
    /// error.
    fn forget(&self, probed: &Refused) -> Option<StoreError> {
        let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        if full.count == probed.count {
            full.error = None;
        }
        full.error.clone()
    }
}

/// Temporary files of the transaction go where the tables of the database are.
const PROBE_SETTINGS: &str = "SET LOCAL temp_tablespaces = ''; SET LOCAL work_mem = '64kB'";

/// Sorts two megabytes, which do not fit into the memory for it, and so go to a temporary file. It needs
/// no privilege, and leaves nothing behind.
const PROBE: &str = "SELECT count(*) FROM (
    SELECT repeat(md5(n::text), 32) AS line FROM generate_series(1, 2000) AS n ORDER BY line OFFSET 0) AS sorted";

/// Writes to the disk, unless the server cannot be probed.
///
/// # Errors
///
/// Returns the error of the database if the disk is full, or if the connection is lost.
async fn probe(conn: &mut Conn) -> Outcome<()> {
    conn.begin().await?;
    conn.script(PROBE_SETTINGS).await?;
    let probed = conn.query_text(PROBE, &[]).await;
    if let Err(fault) = probed
        && !is_inconclusive(&fault)
    {
        return Err(fault);
    }
    conn.rollback().await
}

/// Does the server limit temporary files to less than the probe? Then the next refused write shows it.
fn is_inconclusive(fault: &Fault) -> bool {
    matches!(fault, Fault::Database(error)
        if error.code() == Some(&SqlState::CONFIGURATION_LIMIT_EXCEEDED))
}
