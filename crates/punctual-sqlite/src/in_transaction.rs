//! Jobs in the caller's own transaction: they are written, or their attempts settled, when it commits
//! and not otherwise.
//!
//! The connection is the caller's, and so are its settings: begin with `BEGIN IMMEDIATE`, since a
//! transaction that reads first and writes later cannot go on if somebody else has written in between,
//! and set a busy timeout. How durable a commit is follows from its `synchronous`. While the
//! transaction is open nobody else writes to the file, the engine included; commit soon.
//!
//! The tables are those of the main database; one that is attached is not looked at.

#[cfg(feature = "sqlx")]
mod sqlx;

use std::path::{Path, PathBuf};

use punctual_core::Timestamp;
use punctual_store::{
    At, Enqueued, ErrorKind, NewJob, Result, Settled, Settlement, StoreError, limits, rules,
};
use rusqlite::Connection;

use crate::cluster_key::FileKey;
use crate::error::{Fault, Outcome, is_busy};
use crate::{clock, jobs, migrate, settle};

#[cfg(feature = "sqlx")]
pub use self::sqlx::{enqueue_sqlx, file_of_sqlx, settle_sqlx};

/// Writes jobs, or says why not, one by one. The transaction is rusqlite's, or whatever was begun on
/// this connection.
///
/// ```
/// # use punctual_core::{JobId, Timestamp};
/// # use punctual_sqlite::{Options, SqliteStore, in_transaction};
/// # use punctual_store::{At, Json, NewJob};
/// # use rusqlite::TransactionBehavior::Immediate;
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("app.db");
/// # let store = SqliteStore::open(&path, Options::engine())?;
/// # let id = JobId::mint(Timestamp::EPOCH, [0; 10]);
/// # let job = NewJob::new(id, "default", "greet", Json::null());
/// let mut db = rusqlite::Connection::open(&path)?;
/// let tx = db.transaction_with_behavior(Immediate)?;
/// tx.execute("CREATE TABLE customer (name TEXT)", [])?;
/// in_transaction::enqueue(&tx, At::Database, &[job])?;
/// tx.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn enqueue(db: &Connection, at: At, jobs: &[NewJob]) -> Result<Enqueued> {
    rules::check_count(jobs.len(), limits::ENQUEUE_MAX, "jobs")?;
    let checked = jobs.iter().map(|job| job.check_enqueued().map(|()| job));
    within(db, at, |now| jobs::enqueue(db, &mut FileKey::default(), now, checked))
}

/// Settles an attempt. Unless the answer is [`Settled::Applied`], nothing was changed, and the
/// transaction should be rolled back: the job is another's, or has had its effect already.
pub fn settle(db: &Connection, at: At, item: &Settlement) -> Result<Settled> {
    rules::check_settlements(std::slice::from_ref(item))?;
    within(db, at, |now| settle::settle_one(db, now, item).map(|answer| answer.settled))
}

/// The file of a connection; none if it has none.
pub fn file_of(db: &Connection) -> Option<PathBuf> {
    db.path().filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Does something whole or not at all, also if the caller commits after an error.
fn within<T>(db: &Connection, at: At, work: impl FnOnce(Timestamp) -> Outcome<T>) -> Result<T> {
    let file = file_of(db);
    if db.is_autocommit() {
        return Err(not_begun(file.as_deref()));
    }
    let tell = |fault: Fault| tell(&fault, file.as_deref());
    let found = migrate::version(db).map_err(|error| tell(error.into()))?;
    check(file.as_deref(), found)?;
    let savepoint = |text: &str| db.execute_batch(text).map_err(|error| tell(error.into()));
    savepoint("SAVEPOINT punctual")?;
    let outcome = work(clock::instant(at));
    if outcome.is_err() && !db.is_autocommit() {
        savepoint("ROLLBACK TO punctual")?;
    }
    // A grave error has ended the whole transaction, and the savepoint with it.
    if !db.is_autocommit() {
        savepoint("RELEASE punctual")?;
    }
    outcome.map_err(tell)
}

/// Has the file our tables, and are they those that this program knows?
fn check(file: Option<&Path>, (version, breaking): (i64, i64)) -> Result<()> {
    if version == 0 {
        let message = format!(
            "{} has no punctual tables; start punctual on this file first, or apply its migrations",
            shown(file)
        );
        return Err(StoreError::new(ErrorKind::NotFound, message));
    }
    migrate::check(named(file), version, breaking, false)
}

fn not_begun(file: Option<&Path>) -> StoreError {
    StoreError::invalid(format!(
        "no open transaction on this connection to {}; start one, preferably with BEGIN IMMEDIATE",
        shown(file)
    ))
}

fn tell(fault: &Fault, file: Option<&Path>) -> StoreError {
    match fault {
        Fault::Sqlite(error) if is_busy(error) => {
            let message = format!(
                "{} is locked ({error}); roll the transaction back and try again, with BEGIN \
                 IMMEDIATE and a busy timeout on the connection",
                shown(file)
            );
            StoreError::new(ErrorKind::Retry, message).caused_by(error.clone())
        }
        fault => fault.tell(named(file)),
    }
}

fn named(file: Option<&Path>) -> &Path {
    file.unwrap_or(Path::new(":memory:"))
}

fn shown(file: Option<&Path>) -> String {
    format!("`{}`", named(file).display())
}
