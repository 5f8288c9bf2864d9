//! Group commit, and what happens when it fails.

use std::sync::mpsc;

use punctual_core::job::JobState;
use punctual_core::{LeaseId, NodeId};
use punctual_store::{
    Actor, At, AuditEntry, ClaimAsk, ErrorKind, JobFilter, QueueChange, QueueShare, Result, Store,
    StoreError, rules,
};
use rusqlite::{Connection, ffi};
use tokio::sync::oneshot;

use super::{NOW, fresh, job};
use crate::error::{Fault, Outcome};
use crate::{Options, SqliteStore, upkeep};

const AT: At = At::Fixed(NOW);

fn note(db: &Connection, action: &str) -> Outcome<()> {
    upkeep::note(db, NOW, &Actor::new("ana", "test"), action, "x")
}

async fn noted(store: &SqliteStore) -> Vec<String> {
    let page = store.audits(None, 500).await.unwrap();
    page.items.into_iter().rev().map(|view| view.entry.action).collect()
}

fn io_error() -> Fault {
    Fault::Sqlite(rusqlite::Error::SqliteFailure(
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
    assert_eq!(broken.unwrap_err().kind(), ErrorKind::Corrupt);
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
        AuditEntry { actor: Actor::new("a", "b"), action: "c".to_owned(), subject: "d".to_owned() };
    assert_eq!(store.audit(AT, &entry).await, Err(failed.clone()));
    assert_eq!(store.now(AT).await, Err(failed.clone()));
    let told =
        failed.to_string().replace(&path.canonicalize().unwrap().display().to_string(), "FILE");
    insta::assert_snapshot!(told, @"reading or writing `FILE` failed (disk I/O error), so that nothing more is acknowledged; look for disk errors in the system's log, then start again");
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
    let written = || std::fs::metadata(&log).unwrap().len();
    let before = written();
    for _ in 0..100 {
        assert_eq!(store.claim(AT, &ask).await.unwrap().jobs, []);
    }
    assert_eq!(written(), before, "an idle worker wears out the disk");
    store
        .change_queue(AT, "default", &QueueChange::Resume, &Actor::new("ana", "why"))
        .await
        .unwrap();
    assert_eq!(store.claim(AT, &ask).await.unwrap().jobs.len(), 2);
    assert!(written() > before);
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
