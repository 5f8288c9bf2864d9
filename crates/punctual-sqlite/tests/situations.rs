//! Bad situations, and the sentence that each gives.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use punctual_conformance::support::may_mount;
use punctual_core::{JobId, Timestamp};
use punctual_sqlite::{Options, SqliteStore};
use punctual_store::{At, EnqueueAnswer, ErrorKind, JobFilter, Json, NewJob, Store, StoreError};
use rusqlite::Connection;
use tempfile::TempDir;

const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

fn fresh() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().canonicalize().expect("it is there").join("jobs.db");
    (directory, path)
}

/// Opens a file that cannot be opened, and returns why, with the directory left out.
fn refused(path: &Path, options: Options) -> String {
    let error = SqliteStore::open(path, options).expect_err("it is refused");
    shown(&error, path.parent().expect("a file lies in a directory"))
}

fn shown(error: &StoreError, directory: &Path) -> String {
    let message = error.to_string().replace(&directory.display().to_string(), "DIR");
    let message = message.replace(&std::process::id().to_string(), "PID");
    format!("{:?}: {message}", error.kind())
}

/// The path of a file that belongs to a database.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

fn job(number: u32, bytes: usize) -> NewJob {
    let mut random = [0; 10];
    random[6..].copy_from_slice(&number.to_be_bytes());
    let payload = Json::new(&"x".repeat(bytes)).expect("it is JSON");
    NewJob::new(JobId::mint(NOW, random), "default", "send", payload)
}

/// Something mounted, for as long as this lives.
struct Mount(PathBuf);

impl Mount {
    /// An empty file system of a few megabytes.
    fn small(at: &Path, options: &str) -> Mount {
        fs::create_dir_all(at).expect("a directory");
        run("mount", &["-t", "tmpfs", "-o", options, "tmpfs", &at.display().to_string()]);
        Mount(at.canonicalize().expect("it is there"))
    }

    /// A file or directory as it is, but read-only. Root may write what a mode forbids, so the
    /// mode would not do.
    fn read_only(at: &Path) -> Mount {
        let shown = at.display().to_string();
        run("mount", &["--bind", &shown, &shown]);
        let mount = Mount(at.to_owned());
        run("mount", &["-o", "remount,bind,ro", &shown]);
        mount
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        run("umount", &[&self.0.display().to_string()]);
    }
}

fn run(program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).status();
    assert!(
        done.is_ok_and(|status| status.success()),
        "`{program} {}` failed; this test makes file systems in a namespace of its own",
        arguments.join(" ")
    );
}

#[test]
fn a_missing_directory_is_named() {
    let (directory, path) = fresh();
    let path = path.parent().unwrap().join("none/jobs.db");
    assert_eq!(
        refused(&path, Options::engine()).replace(&directory.path().display().to_string(), "TMP"),
        "NotFound: directory `DIR` not found; create it, or use another path"
    );
}

#[test]
fn a_directory_is_no_file() {
    let (_directory, path) = fresh();
    fs::create_dir(&path).unwrap();
    insta::assert_snapshot!(refused(&path, Options::engine()), @"Invalid: `DIR/jobs.db` is a directory; use the path of a file");
}

#[test]
fn a_read_only_directory_is_named() {
    if !may_mount("a_read_only_directory_is_named") {
        return;
    }
    let (_directory, path) = fresh();
    let directory = path.with_extension("mount");
    fs::create_dir(&directory).unwrap();
    let mount = Mount::read_only(&directory);
    let path = mount.0.join("jobs.db");
    insta::assert_snapshot!(refused(&path, Options::engine()), @"Denied: directory `DIR` is read-only; allow this user to write to it, because SQLite stores its log next to the file");
    insta::assert_snapshot!(refused(&path, Options::client()), @"Denied: directory `DIR` is read-only; allow this user to write to it, because SQLite stores its log next to the file");
}

#[test]
fn a_read_only_file_is_named() {
    if !may_mount("a_read_only_file_is_named") {
        return;
    }
    let (_directory, path) = fresh();
    drop(SqliteStore::open(&path, Options::engine()).unwrap());
    let before = fs::read(&path).unwrap();
    let mount = Mount::read_only(&path);
    let sentences = [refused(&path, Options::engine()), refused(&path, Options::client())];
    drop(mount);
    assert_eq!(sentences[0], sentences[1]);
    insta::assert_snapshot!(sentences[0], @"Denied: `DIR/jobs.db` is read-only; allow this user to write it");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_schema_from_the_future_is_refused_if_it_is_breaking() {
    let (_directory, path) = fresh();
    drop(SqliteStore::open(&path, Options::engine()).unwrap());
    let set = |name: &str, number: i64| {
        let db = Connection::open(&path).unwrap();
        db.execute("INSERT OR REPLACE INTO punctual_meta VALUES (?1, ?2)", (name, number)).unwrap();
    };
    set("schema_version", 900);
    drop(SqliteStore::open(&path, Options::engine()).unwrap());
    set("schema_breaking", 899);
    let before = fs::read(&path).unwrap();
    insta::assert_snapshot!(refused(&path, Options::engine()), @"SchemaTooNew: `DIR/jobs.db` has schema version 900, this program supports up to 1; upgrade the program, or restore a backup from before the upgrade");
    insta::assert_snapshot!(refused(&path, Options::client()), @"SchemaTooNew: `DIR/jobs.db` has schema version 900, this program supports up to 1; upgrade the program, or restore a backup from before the upgrade");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn an_old_schema_is_refused_if_it_may_not_be_migrated() {
    let (_directory, path) = fresh();
    let options = Options { auto_migrate: false, ..Options::client() };
    insta::assert_snapshot!(refused(&path, options), @"SchemaTooOld: `DIR/jobs.db` has schema version 0, this program needs 1; run `punctual db migrate`");
    assert!(!path.exists());
    drop(SqliteStore::open(&path, Options::client()).unwrap());
    drop(SqliteStore::open(&path, options).unwrap());
}

#[test]
fn a_file_that_is_no_database_is_left_alone() {
    let (_directory, path) = fresh();
    let text = "a recipe for bread\n".repeat(1_000);
    fs::write(&path, &text).unwrap();
    insta::assert_snapshot!(refused(&path, Options::engine()), @"Corrupt: `DIR/jobs.db` is not a SQLite database; it was not changed; use another path");
    insta::assert_snapshot!(refused(&path, Options::client()), @"Corrupt: `DIR/jobs.db` is not a SQLite database; it was not changed; use another path");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn an_empty_file_becomes_a_database() {
    let (_directory, path) = fresh();
    fs::write(&path, "").unwrap();
    let store = SqliteStore::open(&path, Options::engine()).unwrap();
    assert_eq!(store.schema().await.unwrap().version, 1);
}

#[tokio::test]
async fn a_database_of_the_application_keeps_its_own_tables() {
    let (_directory, path) = fresh();
    let own = Connection::open(&path).unwrap();
    own.execute_batch("CREATE TABLE bread (name TEXT); INSERT INTO bread VALUES ('rye')").unwrap();
    let store = SqliteStore::open(&path, Options::engine()).unwrap();
    store.enqueue(At::Fixed(NOW), &[job(1, 10)]).await.unwrap();
    let name: String = own.query_row("SELECT name FROM bread", [], |row| row.get(0)).unwrap();
    assert_eq!(name, "rye");
}

#[test]
fn a_second_engine_is_refused_and_a_client_is_not() {
    let (directory, path) = fresh();
    let first = SqliteStore::open(&path, Options::engine()).unwrap();
    // A link to the directory leads to the same file.
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(directory.path(), &link).unwrap();
    for path in [&path, &link.join("jobs.db")] {
        let error = SqliteStore::open(path, Options::engine()).unwrap_err();
        insta::allow_duplicates! {
            insta::assert_snapshot!(shown(&error, directory.path()), @"Conflict: `DIR/jobs.db` is in use by another server (pid PID); stop it, or open the file as a client (`--role api`)");
        }
    }
    drop(SqliteStore::open(&path, Options::client()).unwrap());
    drop(first);
    drop(SqliteStore::open(&path, Options::engine()).unwrap());
}

#[tokio::test]
async fn only_the_owner_can_read_a_new_database_and_its_backup() {
    let (directory, path) = fresh();
    let store = SqliteStore::open(&path, Options::engine()).unwrap();
    store.enqueue(At::Fixed(NOW), &[job(1, 10)]).await.unwrap();
    store.backup(directory.path().join("copy.db")).await.unwrap();
    for name in ["jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db.lock", "copy.db"] {
        let found = fs::metadata(directory.path().join(name)).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o600, "{name}");
    }
    assert_eq!(store.exposures(), []);
}

#[test]
fn a_database_that_others_can_read_is_opened_and_reported() {
    let (directory, path) = fresh();
    drop(SqliteStore::open(&path, Options::engine()).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let store = SqliteStore::open(&path, Options::engine()).unwrap();
    let exposures = store.exposures();
    let shown = exposures[0].text.replace(directory.path().to_str().unwrap(), "DIR");
    let (shown, _) = shown.split_once(", owner").unwrap();
    insta::assert_snapshot!(shown, @"other users can read or change `DIR/jobs.db` (mode 0644");
    let remedy = exposures[0].remedy.replace(directory.path().to_str().unwrap(), "DIR");
    insta::assert_snapshot!(remedy, @"run `chmod 600 DIR/jobs.db DIR/jobs.db-wal DIR/jobs.db-shm`");
}

#[tokio::test]
async fn symbolic_links_are_not_followed() {
    let (directory, path) = fresh();
    let victim = directory.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let at = |name: &str| directory.path().join(name);
    let link = |name: &str| std::os::unix::fs::symlink(&victim, at(name)).unwrap();
    // The database, also one that does not exist yet.
    link("link.db");
    insta::assert_snapshot!(refused(&at("link.db"), Options::engine()), @"Denied: `DIR/link.db` is a symbolic link, which is not followed; use the path of its target, `DIR/victim`, or delete the link");
    std::os::unix::fs::symlink(at("nothing"), at("dangling.db")).unwrap();
    insta::assert_snapshot!(refused(&at("dangling.db"), Options::client()), @"Denied: `DIR/dangling.db` is a symbolic link, which is not followed; use the path of its target, `DIR/nothing`, or delete the link");
    assert!(!at("nothing").exists());
    // The lock file, which is truncated.
    link("jobs.db.lock");
    insta::assert_snapshot!(refused(&path, Options::engine()), @"Denied: `DIR/jobs.db.lock` is a symbolic link, which is not followed; use the path of its target, `DIR/victim`, or delete the link");
    fs::remove_file(at("jobs.db.lock")).unwrap();
    // The write-ahead log.
    drop(SqliteStore::open(&path, Options::engine()).unwrap());
    link("jobs.db-wal");
    SqliteStore::open(&path, Options::engine()).map(drop).unwrap_err();
    fs::remove_file(at("jobs.db-wal")).unwrap();
    // The shared memory of the write-ahead log.
    link("jobs.db-shm");
    SqliteStore::open(&path, Options::engine()).map(drop).unwrap_err();
    fs::remove_file(at("jobs.db-shm")).unwrap();
    // The target of a backup.
    let store = SqliteStore::open(&path, Options::engine()).unwrap();
    link("copy.db");
    let error = store.backup(at("copy.db")).await.unwrap_err();
    assert!(error.to_string().contains("already exists and is not overwritten"), "{error}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[tokio::test]
async fn a_file_that_was_damaged_in_a_crash_is_not_touched() {
    let (_directory, path) = fresh();
    let store = SqliteStore::open(&path, Options::engine()).unwrap();
    for part in 0..20 {
        let jobs: Vec<NewJob> = (part * 100..(part + 1) * 100).map(|n| job(n, 200)).collect();
        store.enqueue(At::Fixed(NOW), &jobs).await.unwrap();
    }
    drop(store);
    let damage = |is_open: i64| {
        let db = Connection::open(&path).unwrap();
        db.execute("UPDATE punctual_meta SET value = ?1 WHERE name = 'engine_open'", [is_open])
            .unwrap();
        drop(db);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2 / 4_096 * 4_096;
        bytes[middle..middle + 64].fill(0xA5);
        fs::write(&path, &bytes).unwrap();
        bytes
    };
    let bytes = damage(1);
    let error = SqliteStore::open(&path, Options::engine()).expect_err("it is refused");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let finding = error.to_string();
    let (start, end) = (finding.find('(').unwrap(), finding.find("); it").unwrap());
    let sentence = format!("{}FINDING{}", &finding[..=start], &finding[end..]);
    let sentence = sentence.replace(&path.display().to_string(), "FILE");
    insta::assert_snapshot!(sentence, @"`FILE` was not closed cleanly and is corrupt (FINDING); it was not changed; to restore it: stop every process that uses it; keep copies of `FILE`, `FILE-wal` and `FILE-shm`; put the newest backup in its place and delete `FILE-wal` and `FILE-shm`, or, without a backup, rebuild it with `sqlite3 FILE .recover | sqlite3 NEW`; then start again");
    assert_eq!(fs::read(&path).unwrap(), bytes, "the damaged file was written to");
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_acknowledged() {
    if !may_mount("a_full_disk_loses_nothing_that_was_acknowledged") {
        return;
    }
    let (_directory, path) = fresh();
    let mount = Mount::small(&path.with_extension("mount"), "size=6m");
    let ballast = mount.0.join("ballast");
    fs::write(&ballast, vec![0; 4 << 20]).unwrap();
    let path = mount.0.join("jobs.db");
    let store = SqliteStore::open(&path, Options::engine()).unwrap();
    let mut acknowledged = Vec::new();
    let error = loop {
        let next = job(u32::try_from(acknowledged.len()).unwrap(), 2_000);
        match store.enqueue(At::Fixed(NOW), std::slice::from_ref(&next)).await {
            Ok(enqueued) => {
                assert_eq!(enqueued.answers, [EnqueueAnswer::Created]);
                acknowledged.push(next.id);
            }
            Err(error) => break error,
        }
    };
    insta::assert_snapshot!(shown(&error, &mount.0), @"Full: no disk space for `DIR/jobs.db`; the request was not applied; free some space and try again");
    // The failed write is remembered while there is no space, although small writes still fit.
    let not_writable = store.check_writable().await.unwrap_err();
    assert_eq!(not_writable.kind(), ErrorKind::Full);
    // What is there can still be read, and the store goes on once there is room.
    assert!(store.job(acknowledged[0]).await.unwrap().is_some());
    assert!(acknowledged.len() > 50);
    fs::remove_file(&ballast).unwrap();
    assert_eq!(store.check_writable().await, Ok(()));
    let last = job(1_000_000, 10);
    store.enqueue(At::Fixed(NOW), std::slice::from_ref(&last)).await.unwrap();
    acknowledged.push(last.id);
    drop(store);

    let store = SqliteStore::open(&path, Options::engine()).unwrap();
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = store.jobs(&JobFilter::default(), after, 500).await.unwrap();
        found.extend(page.items.iter().map(|view| view.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    found.reverse();
    assert_eq!(found, acknowledged);
    drop(store);
    let db = Connection::open(&path).unwrap();
    let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

/// Changes the files of an open store, and returns the errors of the next write, read and `now`.
async fn errors_after(change: impl FnOnce(&Path)) -> [String; 3] {
    let (_directory, path) = fresh();
    let store = SqliteStore::open(&path, Options::engine()).expect("a store");
    store.enqueue(At::Fixed(NOW), &[job(1, 10)]).await.expect("the first job is stored");
    change(&path);
    let write = store.enqueue(At::Fixed(NOW), &[job(2, 10)]).await.expect_err("a rejected write");
    assert_eq!(store.stopped().as_ref(), Some(&write));
    let read = store.job(job(1, 10).id).await.expect_err("a rejected read");
    let now = store.now(At::Fixed(NOW)).await.expect_err("a rejected call");
    let directory = path.parent().expect("the parent directory");
    [write, read, now].map(|error| shown(&error, directory))
}

#[tokio::test]
async fn a_deleted_database_is_detected_before_a_write_is_acknowledged() {
    let [write, read, now] = errors_after(|path| fs::remove_file(path).unwrap()).await;
    insta::assert_snapshot!(write, @"Unreachable: database file `DIR/jobs.db` was deleted or renamed while it was in use; no further requests are accepted; stop every process that uses it, restore the database, then start again");
    assert_eq!([&read, &now], [&write; 2]);
}

#[tokio::test]
async fn a_renamed_database_is_detected_before_a_write_is_acknowledged() {
    let rename = |path: &Path| fs::rename(path, path.with_extension("old")).unwrap();
    let [write, read, now] = errors_after(rename).await;
    insta::assert_snapshot!(write, @"Unreachable: database file `DIR/jobs.db` was deleted or renamed while it was in use; no further requests are accepted; stop every process that uses it, restore the database, then start again");
    assert_eq!([&read, &now], [&write; 2]);
}

#[tokio::test]
async fn a_replaced_database_is_detected_before_a_write_is_acknowledged() {
    let replace = |path: &Path| {
        let backup = path.with_extension("backup");
        drop(SqliteStore::open(&backup, Options::client()).unwrap());
        fs::rename(backup, path).unwrap();
    };
    let [write, read, now] = errors_after(replace).await;
    insta::assert_snapshot!(write, @"Unreachable: database file `DIR/jobs.db` was replaced while it was in use; no further requests are accepted; stop every process that uses it, restore the database, then start again");
    assert_eq!([&read, &now], [&write; 2]);
}

#[tokio::test]
async fn a_truncated_database_is_detected_before_a_write_is_acknowledged() {
    let truncate = |path: &Path| {
        run("truncate", &["--size", "0", &path.display().to_string()]);
    };
    let [write, read, now] = errors_after(truncate).await;
    insta::assert_snapshot!(write, @"Unreachable: database file `DIR/jobs.db` was truncated while it was in use; no further requests are accepted; stop every process that uses it, restore the database, then start again");
    assert_eq!([&read, &now], [&write; 2]);
}

#[tokio::test]
async fn a_deleted_log_is_detected_before_a_write_is_acknowledged() {
    let delete = |path: &Path| fs::remove_file(sibling(path, "-wal")).unwrap();
    let [write, read, now] = errors_after(delete).await;
    insta::assert_snapshot!(write, @"Unreachable: write-ahead log `DIR/jobs.db-wal` was deleted or renamed while it was in use; no further requests are accepted; stop every process that uses it, restore the database, then start again");
    assert_eq!([&read, &now], [&write; 2]);
}

#[tokio::test]
async fn a_truncated_log_is_detected_before_a_write_is_acknowledged() {
    let truncate = |path: &Path| {
        run("truncate", &["--size", "0", &sibling(path, "-wal").display().to_string()]);
    };
    let [write, read, now] = errors_after(truncate).await;
    insta::assert_snapshot!(write, @"Unreachable: write-ahead log `DIR/jobs.db-wal` was truncated while it was in use; no further requests are accepted; stop every process that uses it, restore the database, then start again");
    assert_eq!([&read, &now], [&write; 2]);
}

#[tokio::test]
async fn deleted_shared_memory_is_detected_before_a_write_is_acknowledged() {
    let delete = |path: &Path| fs::remove_file(sibling(path, "-shm")).unwrap();
    let [write, read, now] = errors_after(delete).await;
    insta::assert_snapshot!(write, @"Unreachable: shared memory `DIR/jobs.db-shm` was deleted or renamed while it was in use; no further requests are accepted; stop every process that uses it, restore the database, then start again");
    assert_eq!([&read, &now], [&write; 2]);
}

#[tokio::test]
async fn a_young_database_whose_log_was_deleted_is_not_taken_for_a_new_one() {
    let (_directory, path) = fresh();
    let store = SqliteStore::open(&path, Options::engine()).unwrap();
    store.enqueue(At::Fixed(NOW), &[job(1, 10)]).await.unwrap();
    let copy = path.with_file_name("copy.db");
    fs::copy(&path, &copy).unwrap();
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'punctual_job'";
    let db = Connection::open(&copy).unwrap();
    assert_eq!(db.query_row(tables, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
}

#[tokio::test]
async fn a_deleted_lock_file_stops_the_engine_that_holds_it() {
    let delete = |path: &Path| fs::remove_file(sibling(path, ".lock")).unwrap();
    let [write, read, now] = errors_after(delete).await;
    insta::assert_snapshot!(write, @"Unreachable: lock file `DIR/jobs.db.lock` was deleted or renamed while it was in use; no further requests are accepted; stop every process that uses it, restore the database, then start again");
    assert_eq!([&read, &now], [&write; 2]);
}

#[tokio::test]
async fn a_client_that_only_reads_detects_a_deleted_database() {
    let (_directory, path) = fresh();
    let store = SqliteStore::open(&path, Options::client()).unwrap();
    assert!(store.job(job(1, 10).id).await.unwrap().is_none());
    fs::remove_file(&path).unwrap();
    let error = store.job(job(1, 10).id).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert_eq!(store.stopped(), Some(error));
}

#[tokio::test]
async fn a_truncated_log_and_a_vacuum_of_another_process_are_no_reason_to_stop() {
    let (_directory, path) = fresh();
    let store = SqliteStore::open(&path, Options::engine()).unwrap();
    store.enqueue(At::Fixed(NOW), &[job(1, 10)]).await.unwrap();
    let db = Connection::open(&path).unwrap();
    db.execute_batch("VACUUM").unwrap();
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    let busy: i64 = db.query_row(checkpoint, [], |row| row.get(0)).unwrap();
    assert_eq!(busy, 0);
    assert_eq!(fs::metadata(sibling(&path, "-wal")).unwrap().len(), 0);
    drop(db);
    store.enqueue(At::Fixed(NOW), &[job(2, 10)]).await.unwrap();
    assert_eq!(store.stopped(), None);
}

#[test]
fn a_database_that_was_in_use_and_is_missing_is_not_created_again() {
    let (_directory, path) = fresh();
    drop(SqliteStore::open(&path, Options::engine()).unwrap());
    for is_deleted in [true, false] {
        fs::write(&path, "").unwrap();
        if is_deleted {
            fs::remove_file(&path).unwrap();
        }
        for options in [Options::engine(), Options::client()] {
            insta::allow_duplicates! {
                insta::assert_snapshot!(refused(&path, options), @"NotFound: database `DIR/jobs.db` is missing or empty, but its lock file `DIR/jobs.db.lock` shows that it was in use; restore the database from a backup, or delete the lock file to start with an empty database");
            }
        }
    }
    assert_eq!(fs::metadata(&path).unwrap().len(), 0, "the missing database was created");
    fs::remove_file(sibling(&path, ".lock")).unwrap();
    drop(SqliteStore::open(&path, Options::engine()).unwrap());
}

#[test]
fn a_first_start_that_failed_does_not_prevent_the_next() {
    let (_directory, path) = fresh();
    let options = Options { auto_migrate: false, ..Options::engine() };
    assert!(refused(&path, options).contains("punctual db migrate"));
    assert!(sibling(&path, ".lock").exists() && !path.exists());
    drop(SqliteStore::open(&path, Options::engine()).unwrap());
}
