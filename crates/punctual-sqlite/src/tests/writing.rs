//! Group commit, and what happens when it fails.

use std::sync::mpsc;

use punctual_core::job::{AttemptOutcome, JobState, Next, Transition};
use punctual_core::{LeaseId, NodeId};
use punctual_store::{
    Actor, At, AuditEntry, ClaimAsk, ErrorKind, JobFilter, NewJob, QueueChange, QueueShare, Result,
    Settled, Settlement, Store, StoreError, rules,
};
use rusqlite::{Connection, ffi};
use tokio::sync::oneshot;

use super::{NOW, fresh, job};
use crate::error::{Fault, Outcome};
use crate::{Options, SqliteStore, upkeep};

const AT: At = At::Fixed(NOW);

fn note(db: &Connection, action: &str) -> Outcome<()> {
    upkeep::note(db, NOW, &Actor::new("ana", "test"), &action.into(), "x")
}

async fn noted(store: &SqliteStore) -> Vec<String> {
    let page = store.audits(None, 500).await.unwrap();
    page.items.into_iter().rev().map(|view| view.entry.action.to_string()).collect()
}

fn io_error() -> Fault {
    Fault::from(rusqlite::Error::SqliteFailure(
        ffi::Error::new(ffi::SQLITE_IOERR_FSYNC),
        Some("disk I/O error".to_owned()),
    ))
}

/// A request that holds the writer until it is released, so that others gather behind it: the
/// request, what tells that it runs, and what releases it.
fn holding(
    store: &SqliteStore,
) -> (impl Future<Output = Result<()>>, oneshot::Receiver<()>, mpsc::Sender<()>) {
    let (started, runs) = oneshot::channel();
    let (release, held) = mpsc::channel();
    let mut once = Some((started, held));
    let request = store.writer.write(1, move |db| {
        if let Some((started, held)) = once.take() {
            started.send(()).unwrap();
            held.recv().unwrap();
        }
        note(db, "first")
    });
    (request, runs, release)
}

/// How many entries another connection sees.
fn seen_from_outside(path: &std::path::Path) -> i64 {
    let db = Connection::open(path).unwrap();
    db.query_row("SELECT count(*) FROM punctual_audit", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn what_gathers_during_a_commit_is_committed_together_and_a_failure_harms_no_neighbour() {
    let (_directory, store) = fresh();
    let path = store.path().to_owned();
    let (first, runs, release) = holding(&store);
    let second = store.writer.write(1, |db| note(db, "second"));
    let early = store.writer.write::<()>(1, |_| Err(StoreError::invalid("refused early").into()));
    let third = store.writer.write(1, move |db| {
        note(db, "third")?;
        let inside: i64 =
            db.query_row("SELECT count(*) FROM punctual_audit", [], |row| row.get(0))?;
        Ok((inside, seen_from_outside(&path)))
    });
    let gathered = async {
        runs.await.unwrap();
        tokio::join!(second, early, third, async { release.send(()).unwrap() })
    };
    let (first, (second, early, third, ())) = tokio::join!(first, gathered);
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(early.unwrap_err().to_string(), "refused early");
    assert_eq!(third, Ok((3, 0)), "they were not in one transaction");
    assert_eq!(noted(&store).await, ["first", "second", "third"]);
}

#[tokio::test]
async fn a_request_that_fails_after_it_wrote_is_undone_and_its_neighbours_are_not() {
    let (_directory, store) = fresh();
    let (first, runs, release) = holding(&store);
    let second = store.writer.write(1, |db| note(db, "second"));
    let torn = store.writer.write::<()>(1, |db| {
        note(db, "torn")?;
        Err(StoreError::invalid("refused late").into())
    });
    let broken = store.writer.write(1, |db| {
        note(db, "broken")?;
        db.execute("INSERT INTO punctual_meta (name, value) VALUES ('schema_version', 7)", [])?;
        Ok(())
    });
    let third = store.writer.write(1, |db| note(db, "third"));
    let gathered = async {
        runs.await.unwrap();
        tokio::join!(second, torn, broken, third, async { release.send(()).unwrap() })
    };
    let (first, (second, torn, broken, third, ())) = tokio::join!(first, gathered);
    assert_eq!((first, second, third), (Ok(()), Ok(()), Ok(())));
    assert_eq!(torn.unwrap_err().to_string(), "refused late");
    assert_eq!(broken.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(noted(&store).await, ["first", "second", "third"]);
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_acknowledged_any_more() {
    let (directory, store) = fresh();
    let path = directory.path().join("jobs.db");
    store.enqueue(AT, &[job(1)]).await.unwrap();
    let failed = store
        .writer
        .write::<()>(1, |db| {
            note(db, "lost")?;
            Err(io_error())
        })
        .await
        .unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unreachable);
    assert_eq!(store.enqueue(AT, &[job(2)]).await, Err(failed.clone()));
    let filter = JobFilter::default();
    assert_eq!(store.jobs(&filter, None, 10).await, Err(failed.clone()));
    let entry =
        AuditEntry { actor: Actor::new("a", "b"), action: "c".into(), subject: "d".to_owned() };
    assert_eq!(store.audit(AT, &entry).await, Err(failed.clone()));
    assert_eq!(store.now(AT).await, Err(failed.clone()));
    let told =
        failed.to_string().replace(&path.canonicalize().unwrap().display().to_string(), "FILE");
    insta::assert_snapshot!(told, @"I/O error on `FILE` (disk I/O error); no further writes are accepted; check the system log for disk errors, then restart");
    drop(store);

    let store = SqliteStore::open(&path, Options::engine()).unwrap();
    let jobs = store.jobs(&filter, None, 10).await.unwrap();
    assert_eq!(jobs.items.iter().map(|view| view.id).collect::<Vec<_>>(), [job(1).id]);
    assert!(noted(&store).await.is_empty());
}

/// A wish for ten jobs of the kind that [`job`] makes.
fn ask() -> ClaimAsk {
    ClaimAsk {
        node: NodeId::mint(NOW, [1; 10]),
        lease: LeaseId::mint(NOW, [2; 10]),
        more: Vec::new(),
        queues: vec![QueueShare { name: "default".to_owned(), most: 10 }],
        kinds: vec!["send".to_owned()],
        most: 10,
    }
}

#[tokio::test]
async fn a_job_whose_text_is_damaged_is_set_aside_and_blocks_nobody() {
    let (directory, store) = fresh();
    store.enqueue(AT, &[job(1), job(2), job(3)]).await.unwrap();
    let db = Connection::open(directory.path().join("jobs.db")).unwrap();
    let damage = |column: &str, job: u32| {
        let text = format!("UPDATE punctual_job SET {column} = CAST(x'ff' AS TEXT) WHERE id = ?1");
        db.execute(&text, [super::job(job).id.as_bytes()]).unwrap();
    };
    damage("payload", 1);
    damage("tags", 2);
    let ask = ask();
    store.join(AT, &super::node(ask.node)).await.unwrap();
    let claimed = store.claim(AT, &ask).await.unwrap();
    assert_eq!(claimed.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [job(3).id]);
    let failed = JobFilter { state: Some(JobState::Failed), ..JobFilter::default() };
    let failed = store.jobs(&failed, None, 10).await.unwrap().items;
    assert_eq!(failed.iter().map(|view| view.id).collect::<Vec<_>>(), [job(2).id, job(1).id]);
    assert!(failed.iter().all(|view| view.error.as_deref() == Some(rules::UNREADABLE)));
}

#[tokio::test]
async fn a_claim_on_a_paused_queue_writes_nothing() {
    let (directory, store) = fresh();
    let ask = ask();
    store.join(AT, &super::node(ask.node)).await.unwrap();
    store.enqueue(AT, &[job(1), job(2)]).await.unwrap();
    let pause = QueueChange::Pause { until: None };
    store.change_queue(AT, "default", &pause, &Actor::new("ana", "why")).await.unwrap();
    let log = directory.path().join("jobs.db-wal");
    // Its length would not do: space of the log is used again.
    let written = || std::fs::read(&log).unwrap();
    let before = written();
    for _ in 0..100 {
        assert_eq!(store.claim(AT, &ask).await.unwrap().jobs, []);
    }
    assert!(written() == before, "an idle worker wears out the disk");
    store
        .change_queue(AT, "default", &QueueChange::Resume, &Actor::new("ana", "why"))
        .await
        .unwrap();
    assert_eq!(store.claim(AT, &ask).await.unwrap().jobs.len(), 2);
    assert!(written() != before);
}

#[test]
fn only_the_commits_of_others_are_news() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let engine = SqliteStore::open(&path, Options::engine()).unwrap();
    let client = SqliteStore::open(&path, Options::client()).unwrap();
    let asker = engine.writer.asker().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let before = asker.data_version().unwrap();
    runtime.block_on(engine.enqueue(AT, &[job(1)])).unwrap();
    runtime.block_on(client.jobs(&JobFilter::default(), None, 10)).unwrap();
    assert_eq!(asker.data_version().unwrap(), before, "its own commits and looks are no news");
    runtime.block_on(client.enqueue(AT, &[job(2)])).unwrap();
    assert_ne!(asker.data_version().unwrap(), before);
    drop(engine);
    assert_eq!(asker.data_version(), None, "the writer is gone");
}

/// Sends a request without waiting for its answer: as far as a caller gets that is dropped then.
fn send_only<T>(request: impl Future<Output = T>) {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    // Tokio lets one task do only so much in a row.
    let _ = Box::pin(tokio::task::unconstrained(request)).as_mut().poll(&mut context);
}

#[tokio::test]
async fn after_a_panic_of_the_writer_the_store_says_that_it_is_closed() {
    let (directory, store) = fresh();
    store.enqueue(AT, &[job(1)]).await.unwrap();
    let (first, runs, release) = holding(&store);
    let bug = store.writer.write::<()>(1, |db| {
        note(db, "bug")?;
        panic!("a bug, planted by a test");
    });
    let late = [job(2)];
    let behind = store.enqueue(AT, &late);
    let gathered = async {
        runs.await.unwrap();
        tokio::join!(bug, behind, async { release.send(()).unwrap() })
    };
    let (first, (bug, behind, ())) = tokio::join!(first, gathered);
    // None of them was committed, and each is told.
    let closed = bug.unwrap_err();
    let told = closed.to_string().replace(&store.path().display().to_string(), "FILE");
    insta::assert_snapshot!(told, @"the store `FILE` is closed because a write panicked; this is a bug in punctual, see the log for the panic message; reopen the store");
    assert_eq!(closed.kind(), ErrorKind::Unreachable);
    assert_eq!(first, Err(closed.clone()));
    assert_eq!(behind, Err(closed.clone()));
    assert_eq!(store.enqueue(AT, &[job(3)]).await, Err(closed.clone()));
    assert_eq!(store.job(job(1).id).await, Err(closed.clone()));
    assert_eq!(store.now(AT).await, Err(closed));
    drop(store);
    let store =
        SqliteStore::open(directory.path().join("jobs.db"), Options::engine()).expect("it is free");
    let jobs = store.jobs(&JobFilter::default(), None, 10).await.unwrap().items;
    assert_eq!(jobs.iter().map(|view| view.id).collect::<Vec<_>>(), [job(1).id]);
    assert_eq!(noted(&store).await, [""; 0]);
}

#[tokio::test]
async fn a_panic_of_a_read_harms_no_other() {
    let (_directory, store) = fresh();
    for _ in 0..5 {
        let bug = store.readers.list::<()>(|_| panic!("a bug, planted by a test")).await;
        assert_eq!(bug.unwrap_err().kind(), ErrorKind::Unreachable);
        store.enqueue(AT, &[job(1)]).await.unwrap();
        assert!(store.job(job(1).id).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_store_that_is_dropped_writes_what_is_queued_and_closes() {
    let (directory, store) = fresh();
    let (first, runs, release) = holding(&store);
    send_only(first);
    runs.await.unwrap();
    let jobs: Vec<_> = (1..=100).map(job).collect();
    for job in &jobs {
        send_only(store.enqueue(AT, std::slice::from_ref(job)));
    }
    release.send(()).unwrap();
    drop(store);
    let path = directory.path().join("jobs.db");
    assert!(!path.with_extension("db-wal").exists(), "the file was not closed");
    let store = SqliteStore::open(path, Options::engine()).unwrap();
    let found = store.jobs(&JobFilter::default(), None, 500).await.unwrap().items;
    assert_eq!(found.len(), jobs.len());
    assert_eq!(noted(&store).await, ["first"]);
}

#[tokio::test]
async fn a_caller_that_goes_away_harms_nobody() {
    let (_directory, store) = fresh();
    let (first, runs, release) = holding(&store);
    send_only(first);
    runs.await.unwrap();
    // More than the queue holds: the last ones go away before they are let in.
    let jobs: Vec<_> = (0..1_100).map(job).collect();
    for job in &jobs {
        send_only(store.enqueue(AT, std::slice::from_ref(job)));
    }
    release.send(()).unwrap();
    let last = job(5_000);
    store.enqueue(AT, std::slice::from_ref(&last)).await.unwrap();
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.jobs(&JobFilter::default(), after, 500).await.unwrap();
        found.extend(page.items.iter().map(|view| view.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    found.reverse();
    // Those that were let in are there, those behind them are not, and nothing is twice.
    assert_eq!(found.pop(), Some(last.id));
    assert!((1_000..=1_024).contains(&found.len()), "{} jobs were let in", found.len());
    assert!(found.iter().eq(jobs.iter().map(|job| &job.id).take(found.len())));
}

#[tokio::test]
async fn a_backup_that_nobody_waits_for_appears_whole_or_not_at_all() {
    let (directory, store) = fresh();
    for part in 0..10 {
        let jobs: Vec<_> = (part * 1_000..(part + 1) * 1_000).map(job).collect();
        store.enqueue(AT, &jobs).await.unwrap();
    }
    let copy = directory.path().join("copy.db");
    send_only(store.backup(&copy));
    while !copy.exists() {
        std::thread::yield_now();
    }
    let db = Connection::open(&copy).unwrap();
    let count: i64 =
        db.query_row("SELECT count(*) FROM punctual_job", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 10_000);
    let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    drop(db);

    let nowhere = directory.path().join("none").join("copy.db");
    assert_eq!(store.backup(&nowhere).await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(store.backup(&copy).await.unwrap_err().kind(), ErrorKind::Conflict);
    drop(store);
    let mut left: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("partial") || name.contains("copy"))
        .collect();
    left.sort();
    assert_eq!(left, ["copy.db"]);
}

/// What follows an attempt is part of its settlement, also when it fails.
#[tokio::test]
async fn a_settlement_whose_jobs_cannot_be_written_is_not_applied() {
    let (directory, store) = fresh();
    store.join(AT, &super::node(ask().node)).await.unwrap();
    store.enqueue(AT, &[job(1)]).await.unwrap();
    let held = store.claim(AT, &ask()).await.unwrap().jobs.remove(0);
    let other = Connection::open(directory.path().join("jobs.db")).unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON punctual_job WHEN NEW.kind = 'bad'
      BEGIN SELECT RAISE(ABORT, 'no'); END";
    other.execute_batch(refuse).unwrap();
    let bad = NewJob { kind: "bad".to_owned(), ..job(3) };
    let settlement = Settlement {
        job: held.id,
        lease: held.lease,
        transition: Transition {
            outcome: AttemptOutcome::Succeeded,
            next: Next::Succeeded,
            error: None,
        },
        result: None,
        then: vec![job(2), bad],
    };
    let settle = async || store.settle(AT, std::slice::from_ref(&settlement)).await;
    assert_eq!(settle().await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(store.job(held.id).await.unwrap().unwrap().view.state, JobState::Running);
    assert_eq!(store.job(job(2).id).await.unwrap(), None);
    other.execute_batch("DROP TRIGGER refuse").unwrap();
    assert_eq!(settle().await.unwrap().answers, [Settled::Applied(JobState::Succeeded)]);
    assert_eq!(store.jobs(&JobFilter::default(), None, 10).await.unwrap().items.len(), 3);
}
