//! What SQLite says, in words for people and in kinds for programs.

use std::path::Path;
use std::sync::Arc;

use punctual_store::{ErrorKind, StoreError};
use rusqlite::ErrorCode;
use rusqlite::ffi;

/// What can go wrong while a request runs: SQLite's trouble, or an answer of the store.
#[derive(Debug)]
pub(crate) enum Fault {
    Sqlite(Arc<rusqlite::Error>),
    Store(StoreError),
}

pub(crate) type Outcome<T> = Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        Fault::Sqlite(Arc::new(error))
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::Store(error)
    }
}

impl Fault {
    /// What the caller is told.
    pub(crate) fn tell(&self, path: &Path) -> StoreError {
        match self {
            Fault::Sqlite(error) => explain(error, path).caused_by(error.clone()),
            Fault::Store(error) => error.clone(),
        }
    }

    /// After such an error nobody knows what is on the disk: nothing may be acknowledged any
    /// more, and a failed fsync must not be tried again, because the kernel has forgotten it.
    pub(crate) fn is_fatal(&self) -> bool {
        let Fault::Sqlite(error) = self else { return false };
        match error.sqlite_error() {
            Some(error) if is_shm_full(error) => false,
            Some(error) => matches!(
                error.code,
                ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase
            ),
            None => false,
        }
    }
}

/// A full disk also shows in that the index of the write-ahead log cannot grow.
fn is_shm_full(error: &ffi::Error) -> bool {
    error.extended_code == ffi::SQLITE_IOERR_SHMSIZE
}

/// Is the file busy, so that trying again helps?
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// The way back to a sound file.
pub(crate) fn restore_steps(path: &Path) -> String {
    let path = path.display();
    format!(
        "to restore it: stop every process that uses it; keep copies of `{path}`, `{path}-wal` and `{path}-shm`; \
         put the newest backup in its place and delete `{path}-wal` and `{path}-shm`, or, without a backup, \
         rebuild it with `sqlite3 {path} .recover | sqlite3 NEW`; then start again"
    )
}

/// The error of a store for an error of SQLite, which becomes its source.
pub(crate) fn explain_owned(error: rusqlite::Error, path: &Path) -> StoreError {
    Fault::from(error).tell(path)
}

/// An error of SQLite as the store's own: what happened, where, and the way out.
fn explain(error: &rusqlite::Error, path: &Path) -> StoreError {
    let shown = path.display();
    let Some(sqlite) = error.sqlite_error() else { return explain_row(error, path) };
    let (kind, message) = match sqlite.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => (
            ErrorKind::Retry,
            format!(
                "`{shown}` is locked: another process held the write lock for {} s; try again, \
                 and look for an open transaction",
                crate::open::BUSY_MS / 1_000
            ),
        ),
        _ if is_shm_full(sqlite) => disk_full(path),
        ErrorCode::DiskFull => disk_full(path),
        ErrorCode::ReadOnly => (
            ErrorKind::Denied,
            format!("`{shown}` is read-only; allow this user to write the file and its directory"),
        ),
        ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => (
            ErrorKind::Denied,
            format!(
                "permission denied for `{shown}`; allow this user to read and write the file and \
                 its directory"
            ),
        ),
        ErrorCode::CannotOpen => (
            ErrorKind::Unreachable,
            format!(
                "cannot open `{shown}`; check that it is a file, that this user can read and \
                 write it and its directory, and the limit of open files of the process"
            ),
        ),
        ErrorCode::NotADatabase => (
            ErrorKind::Corrupt,
            format!("`{shown}` is not a SQLite database; it was not changed; use another path"),
        ),
        ErrorCode::DatabaseCorrupt => {
            (ErrorKind::Corrupt, format!("`{shown}` is corrupt ({error}); {}", restore_steps(path)))
        }
        ErrorCode::SystemIoFailure => (
            ErrorKind::Unreachable,
            format!(
                "I/O error on `{shown}` ({error}); no further writes are accepted; check the \
                 system log for disk errors, then restart"
            ),
        ),
        ErrorCode::OutOfMemory => (
            ErrorKind::Unreachable,
            format!(
                "out of memory while using `{shown}`; the request was not applied; raise the \
                 memory limit of the process"
            ),
        ),
        ErrorCode::TooBig => (
            ErrorKind::Limit,
            format!("a row is too large for SQLite in `{shown}`; store less data in it"),
        ),
        ErrorCode::OperationInterrupted | ErrorCode::SchemaChanged => (
            ErrorKind::Retry,
            format!("`{shown}` changed while a statement ran ({error}); try again"),
        ),
        ErrorCode::ConstraintViolation => (
            ErrorKind::Conflict,
            format!(
                "constraint violation in `{shown}` ({error}); the request was not applied; check \
                 whether another program changed the rows"
            ),
        ),
        _ => (
            ErrorKind::Invalid,
            format!(
                "SQLite rejected a statement on `{shown}` ({error}); check that the punctual \
                 tables were not modified and that their version matches this program"
            ),
        ),
    };
    StoreError::new(kind, message)
}

/// Trouble that is not SQLite's own: a value that makes no sense, or a statement that is wrong.
fn explain_row(error: &rusqlite::Error, path: &Path) -> StoreError {
    use rusqlite::Error::{
        FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error,
    };
    let shown = path.display();
    match error {
        FromSqlConversionFailure(..)
        | IntegralValueOutOfRange(..)
        | InvalidColumnType(..)
        | Utf8Error(..) => StoreError::new(
            ErrorKind::Corrupt,
            format!(
                "a row of `{shown}` cannot be read ({error}); fix or delete it with the sqlite3 \
                 shell, or restore a backup"
            ),
        ),
        _ => StoreError::invalid(format!("a statement on `{shown}` failed: {error}")),
    }
}

fn disk_full(path: &Path) -> (ErrorKind, String) {
    let message = format!(
        "no disk space for `{}`; the request was not applied; free some space and try again",
        path.display()
    );
    (ErrorKind::Full, message)
}
