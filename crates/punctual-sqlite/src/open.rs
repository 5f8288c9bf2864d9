//! Opening the file: all checks first, so that a file that is not ours is never written.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_fs::{create_private, open_or_create, refuse_symlink};
use punctual_store::{At, ErrorKind, Result, StoreError};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, ffi};
use rustix::fs::Access;

use crate::cluster_key::FileKey;
use crate::error::{explain_owned, is_busy, restore_steps};
use crate::file_guard::{FileGuard, lock_path};
use crate::{clock, file_system, migrate, nodes, sql};

/// How long a statement waits for another process's transaction, in milliseconds.
pub(crate) const BUSY_MS: u64 = 5_000;
/// How long opening waits: somebody else may be migrating a large file.
const OPEN_WAIT: Duration = Duration::from_secs(60);
/// Older versions can corrupt a write-ahead log when two connections checkpoint at once.
const SQLITE_VERSION_MIN: i32 = 3_051_003;
/// How often switching the journal is tried beside others who do the same; each try waits.
const JOURNAL_TRIES: usize = 100;
/// Prepared statements that a connection keeps: all of ours, and claims of many shapes.
const STATEMENTS_KEPT: usize = 256;

/// Says that an engine has the file open, or that the last one did not close it.
const ENGINE_OPEN: &str = "engine_open";

/// A row that is written to find out whether a full disk has space again.
pub(crate) const WRITE_PROBE: &str = "write_probe";

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What this process does with it.
    pub role: Role,
    /// May the schema be created and brought up to date? If not, an old one is an error.
    pub auto_migrate: bool,
    /// Use a network or user-space file system although its locks cannot be relied on.
    pub any_file_system: bool,
}

/// What a process does with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs jobs and fires schedules; a file has one engine at a time.
    Engine,
    /// Writes jobs, edits schedules and looks; any number beside the engine.
    Client,
}

impl Options {
    /// For the process that runs jobs and fires schedules.
    pub fn engine() -> Options {
        Options { role: Role::Engine, auto_migrate: true, any_file_system: false }
    }

    /// For a process that only writes jobs, edits and looks.
    pub fn client() -> Options {
        Options { role: Role::Client, ..Options::engine() }
    }
}

/// An open file, owned by the writer.
pub(crate) struct Owned {
    pub(crate) db: Connection,
    pub(crate) path: PathBuf,
    pub(crate) file_key: FileKey,
    /// Held by the engine for as long as it lives; the system frees it when the process dies.
    lock: Option<File>,
}

impl Owned {
    /// Records the files that are open, to detect later that they were deleted or replaced.
    pub(crate) fn guard(&self) -> Result<FileGuard> {
        FileGuard::new(&self.path, self.lock.as_ref()).map_err(|error| {
            let message = format!("cannot examine the files of `{}`: {error}", self.path.display());
            StoreError::new(ErrorKind::Unreachable, message)
        })
    }

    /// Closes the file. Unless `cleanly`, the log is not copied into the file, whose content is
    /// unknown, and the next engine checks the file.
    pub(crate) fn close(self, cleanly: bool) {
        if !cleanly {
            let _ = self.db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
        if cleanly && self.lock.is_some() {
            // If it cannot be written, the next start checks the file once more than it must.
            let _ = self.db.execute(sql::META_PUT, (ENGINE_OPEN, 0));
        }
        drop(self.db);
        drop(self.lock);
    }
}

/// Opens a file for writing: checks it, locks it if it is the engine's, migrates it.
pub(crate) fn writer(path: &Path, options: Options) -> Result<Owned> {
    check_version(rusqlite::version_number())?;
    let path = place(path)?;
    file_system::check(&path, options.any_file_system)?;
    check_access(&path)?;
    check_not_link(&lock_path(&path))?;
    check_not_lost(&path)?;
    let mut lock = match options.role {
        Role::Engine => Some(lock(&path)?),
        Role::Client => None,
    };
    inspect(&path, options)?;
    // SQLite gives the mode of the database to its write-ahead log and its shared memory.
    create_private(&path).map_err(|error| {
        let message = format!("cannot create `{}`: {error}", path.display());
        StoreError::new(ErrorKind::Denied, message)
    })?;
    let db = connect(&path, options).map_err(|error| explain_owned(error, &path))?;
    // Once more: somebody newer may have migrated it since it was inspected.
    let (version, breaking) = migrate::version(&db).map_err(|error| explain_owned(error, &path))?;
    migrate::check(&path, version, breaking, options.auto_migrate)?;
    let file_key = FileKey::read(&db).map_err(|fault| fault.tell(&path))?;
    if let Some(lock) = &mut lock {
        db.execute(sql::META_PUT, (ENGINE_OPEN, 1)).map_err(|error| explain_owned(error, &path))?;
        write_pid(lock);
        nodes::end_predecessors(&db, clock::instant(At::Database))
            .map_err(|fault| fault.tell(&path))?;
    }
    Ok(Owned { db, path, file_key, lock })
}

/// Opens a file for reading.
pub(crate) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, read_only())?;
    db.busy_timeout(Duration::from_millis(BUSY_MS))?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    // A reader that writes is a bug; SQLite shall say so, too.
    db.pragma_update(None, "query_only", true)?;
    // 8 MB: lists read each page once, and the system caches the rest.
    db.pragma_update(None, "cache_size", -8_192)?;
    careful(&db)?;
    Ok(db)
}

fn connect(path: &Path, options: Options) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | COMMON_FLAGS;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(OPEN_WAIT)?;
    careful(&db)?;
    // One write is one append; readers never wait for the writer, nor it for them.
    write_ahead(&db)?;
    // Every commit is synced: what is acknowledged survives a power cut. Group commit makes it
    // affordable.
    db.pragma_update(None, "synchronous", "FULL")?;
    // 64 MB: the heads of all queues, the timers and the leases stay in memory.
    db.pragma_update(None, "cache_size", -65_536)?;
    // 16 MB of log before it is copied into the file: fewer copies of pages that change often.
    db.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    // Our tables have no foreign keys; somebody else's must not fail our statements.
    db.pragma_update(None, "foreign_keys", false)?;
    if options.auto_migrate {
        migrate::apply(&db)?;
        copy_new_tables(&db, path)?;
    }
    db.busy_timeout(Duration::from_millis(BUSY_MS))?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    Ok(db)
}

/// Copies the tables of a new database from the log into its file, so that a file whose log was deleted
/// is not taken for a new one.
fn copy_new_tables(db: &Connection, path: &Path) -> rusqlite::Result<()> {
    const PAGE_BYTES: u64 = 4_096;
    if std::fs::metadata(path).is_ok_and(|about| about.len() <= PAGE_BYTES) {
        db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    }
    Ok(())
}

/// What all connections have in common.
fn careful(db: &Connection) -> rusqlite::Result<()> {
    // Sorting happens in memory: what we sort is bounded.
    db.pragma_update(None, "temp_store", "MEMORY")?;
    // Through a mapping a stray pointer damages the file and an I/O error kills the process.
    db.pragma_update(None, "mmap_size", 0)?;
    // A damaged page is noticed when it is read, not when it has done harm.
    db.pragma_update(None, "cell_size_check", true)
}

fn read_only() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_ONLY | COMMON_FLAGS
}

/// Flags of all connections. No part of a path from [`place`] is a symbolic link, so one that is
/// found was put there later, to redirect what is written.
pub(crate) const COMMON_FLAGS: OpenFlags =
    OpenFlags::SQLITE_OPEN_NO_MUTEX.union(OpenFlags::SQLITE_OPEN_NOFOLLOW);

/// Switches to the write-ahead log. Beside others who do the same SQLite answers busy at once;
/// then a transaction waits until they are done.
fn write_ahead(db: &Connection) -> rusqlite::Result<()> {
    let mut tries = 0;
    loop {
        let switched =
            db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match switched {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(()),
            Ok(mode) => {
                let why = format!("SQLite cannot use WAL for this file (journal mode `{mode}`)");
                return Err(rusqlite::Error::SqliteFailure(
                    ffi::Error::new(ffi::SQLITE_CANTOPEN),
                    Some(why),
                ));
            }
            Err(error) if is_busy(&error) && tries < JOURNAL_TRIES => {
                tries += 1;
                match db.execute_batch("BEGIN IMMEDIATE; ROLLBACK") {
                    Err(error) if !is_busy(&error) => return Err(error),
                    _ => {}
                }
            }
            Err(error) => return Err(error),
        }
    }
}

fn check_version(version: i32) -> Result<()> {
    if version >= SQLITE_VERSION_MIN {
        return Ok(());
    }
    let message = format!(
        "this program is linked with SQLite {}, which can corrupt a write-ahead log; build it with 3.51.3 or newer",
        rusqlite::version()
    );
    Err(StoreError::new(ErrorKind::Denied, message))
}

/// The one name of the file: its lock must be the same whichever way leads to it.
fn place(path: &Path) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        let message = format!("`{}` is not a file path; use the path of a file", path.display());
        return Err(StoreError::invalid(message));
    };
    check_not_link(path)?;
    if let Ok(known) = path.canonicalize() {
        if known.is_dir() {
            let message = format!("`{}` is a directory; use the path of a file", path.display());
            return Err(StoreError::invalid(message));
        }
        return Ok(known);
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match directory.canonicalize() {
        Ok(directory) if directory.is_dir() => Ok(directory.join(name)),
        _ => {
            let message = format!(
                "directory `{}` not found; create it, or use another path",
                directory.display()
            );
            Err(StoreError::new(ErrorKind::NotFound, message))
        }
    }
}

/// Rejects a symbolic link: a user who can write to the directory could redirect what is written.
fn check_not_link(path: &Path) -> Result<()> {
    refuse_symlink(path).map_err(|target| {
        let message = format!(
            "`{}` is a symbolic link, which is not followed; use the path of its target, `{}`, or \
             delete the link",
            path.display(),
            target.display()
        );
        StoreError::new(ErrorKind::Denied, message)
    })
}

/// SQLite would open a read-only file and fail at the first write; better now.
fn check_access(path: &Path) -> Result<()> {
    let directory = path.parent().unwrap_or(path);
    let denied = |message: String| Err(StoreError::new(ErrorKind::Denied, message));
    if rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return denied(format!(
            "directory `{}` is read-only; allow this user to write to it, because SQLite stores \
             its log next to the file",
            directory.display()
        ));
    }
    match path.exists() && rustix::fs::access(path, Access::WRITE_OK | Access::READ_OK).is_err() {
        true => denied(format!("`{}` is read-only; allow this user to write it", path.display())),
        false => Ok(()),
    }
}

/// Takes the engine's lock, or names who has it. The file stays behind: to delete it would let
/// two engines lock two files of the same name.
fn lock(path: &Path) -> Result<File> {
    let lock_path = lock_path(path);
    let unlockable = |error: &dyn std::fmt::Display| {
        let message = format!("cannot lock `{}`: {error}", lock_path.display());
        StoreError::new(ErrorKind::Unreachable, message)
    };
    let mut file = open_or_create(&lock_path).map_err(|error| unlockable(&error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => return Err(second_engine(path, &mut file)),
        Err(std::fs::TryLockError::Error(error)) => return Err(unlockable(&error)),
    }
    // A pid in the lock file of a new database would mean that the database was lost.
    if !is_missing(path) {
        write_pid(&mut file);
    }
    Ok(file)
}

/// Writes the process id into the lock file: for the message of a second engine, and as the sign
/// that the database existed.
fn write_pid(lock: &mut File) {
    let _ = lock.set_len(0);
    let _ = lock.rewind();
    let _ = write!(lock, "{}", std::process::id());
}

fn is_missing(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |about| about.len() == 0)
}

/// Rejects a database that existed, since an engine has written its lock file, and is missing or
/// empty now. Otherwise a supervisor that restarts the server would turn a deleted database into an
/// empty installation.
fn check_not_lost(path: &Path) -> Result<()> {
    let lock_path = lock_path(path);
    let was_in_use = std::fs::metadata(&lock_path).is_ok_and(|about| about.len() > 0);
    if !was_in_use || !is_missing(path) {
        return Ok(());
    }
    let message = format!(
        "database `{}` is missing or empty, but its lock file `{}` shows that it was in use; \
         restore the database from a backup, or delete the lock file to start with an empty database",
        path.display(),
        lock_path.display()
    );
    Err(StoreError::new(ErrorKind::NotFound, message))
}

fn second_engine(path: &Path, lock: &mut File) -> StoreError {
    let mut holder = String::new();
    let _ = lock.rewind();
    let _ = lock.read_to_string(&mut holder);
    let message = format!(
        "`{}` is in use by another server (pid {}); stop it, or open the file as a client \
         (`--role api`)",
        path.display(),
        if holder.is_empty() { "unknown" } else { &holder }
    );
    StoreError::new(ErrorKind::Conflict, message)
}

/// Looks at a file that exists, without writing to it: is it a database, is its schema one we
/// know, and, if its last engine did not close it, is it whole?
fn inspect(path: &Path, options: Options) -> Result<()> {
    if is_missing(path) {
        return migrate::check(path, 0, 0, options.auto_migrate);
    }
    match look(path, options.role) {
        Ok((version, breaking, finding)) => {
            if let Some(finding) = finding {
                let shown = path.display();
                let message = format!(
                    "`{shown}` was not closed cleanly and is corrupt ({finding}); it was not \
                     changed; {}",
                    restore_steps(path)
                );
                return Err(StoreError::new(ErrorKind::Corrupt, message));
            }
            migrate::check(path, version, breaking, options.auto_migrate)
        }
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                Err(explain_owned(error, path))
            }
            // A log that needs recovery cannot be read read-only everywhere; the writer will say.
            _ => Ok(()),
        },
    }
}

fn look(path: &Path, role: Role) -> rusqlite::Result<(i64, i64, Option<String>)> {
    let db = Connection::open_with_flags(path, read_only())?;
    db.busy_timeout(OPEN_WAIT)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let (version, breaking) = migrate::version(&db)?;
    let was_open = version > 0 && meta(&db, ENGINE_OPEN)? != 0;
    let finding = if role == Role::Engine && was_open { quick_check(&db)? } else { None };
    Ok((version, breaking, finding))
}

/// The first thing that is wrong with the file. A crash can tear pages or mix old ones with new, and
/// `quick_check` reads every page of every tree. What `integrity_check` does beyond that is to look
/// each row up in each index: no crash makes these disagree while the pages are sound, and it takes
/// several times as long, while everybody waits for the engine to start.
fn quick_check(db: &Connection) -> rusqlite::Result<Option<String>> {
    let finding: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    Ok((finding != "ok").then(|| finding.replace('\n', " ")))
}

/// A number about the file; 0 if there is none.
pub(crate) fn meta(db: &Connection, name: &str) -> rusqlite::Result<i64> {
    Ok(db.query_row(sql::META_GET, [name], |row| row.get(0)).optional()?.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sqlite_that_can_corrupt_a_log_is_refused() {
        assert_eq!(check_version(3_051_003), Ok(()));
        let error = check_version(3_051_002).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
    }
}
