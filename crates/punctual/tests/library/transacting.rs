//! Orders and effects in the application's own transaction, on a real file.

use std::path::{Path, PathBuf};

use punctual::rusqlite::Connection;
use punctual::rusqlite::TransactionBehavior::Immediate;
use punctual::{BoxError, Ctx, ErrorKind, Job as _, JobState, Punctual};

use crate::{Mail, deliver, mail};

fn open(path: &Path) -> Connection {
    let db = Connection::open(path).expect("it opens");
    db.busy_timeout(std::time::Duration::from_secs(10)).expect("it takes it");
    db
}

fn sent(path: &Path) -> i64 {
    let db = open(path);
    db.query_row("SELECT count(*) FROM sent", [], |row| row.get(0)).expect("it counts")
}

struct Place {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

async fn place() -> Place {
    let directory = tempfile::tempdir().expect("there is room");
    let path = directory.path().join("app.db");
    open(&path).execute("CREATE TABLE sent (mail TEXT)", []).expect("it is made");
    Place { _directory: directory, path }
}

#[tokio::test]
async fn an_order_goes_with_the_transaction() {
    let place = place().await;
    let builder = Punctual::sqlite(&place.path).await.unwrap().handle(deliver);
    let queue = builder.start_frozen().await.unwrap();
    let mut db = open(&place.path);
    let tx = db.transaction_with_behavior(Immediate).unwrap();
    queue.enqueue_in(&tx, &mail("lost")).unwrap();
    tx.rollback().unwrap();
    queue.refute_enqueued::<Mail>().await;
    let tx = db.transaction_with_behavior(Immediate).unwrap();
    let receipt = queue.enqueue_in(&tx, mail("kept").order().priority(3)).unwrap();
    tx.commit().unwrap();
    queue.assert_enqueued(|mail: &Mail| mail.to == "kept").await;
    assert_eq!(queue.admin().job(receipt.id).await.unwrap().view.priority, 3);
    // A mistake in the order is told before anything is written.
    let tx = db.transaction_with_behavior(Immediate).unwrap();
    let error = queue.enqueue_in(&tx, mail("x").order().priority(999)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// The first attempt does as the payload says, all others commit.
async fn send(job: Mail, cx: Ctx<PathBuf>) -> Result<(), BoxError> {
    let mut db = open(cx.state());
    let tx = db.transaction_with_behavior(Immediate)?;
    tx.execute("INSERT INTO sent VALUES (?1)", [&job.to])?;
    cx.enqueue_next(punctual::Order::of_kind("thanks", &job.to))?;
    cx.settle_in(&tx)?;
    match job.to.as_str() {
        "forgotten" if cx.attempt() == 1 => Ok(()),
        "rolled back" if cx.attempt() == 1 => Ok(tx.rollback()?),
        _ => Ok(tx.commit()?),
    }
}

async fn sending(place: &Place) -> punctual::testing::Frozen {
    let builder = Punctual::sqlite(&place.path).await.unwrap();
    builder.state(place.path.clone()).handle(send).start_frozen().await.unwrap()
}

#[tokio::test]
async fn effect_and_success_are_one() {
    let place = place().await;
    let queue = sending(&place).await;
    let id = queue.enqueue(&mail("a")).await.unwrap().id;
    let report = queue.drain().await;
    assert_eq!((report.succeeded, report.failed), (1, 0));
    let finished = queue.wait(id).await.unwrap();
    assert_eq!((finished.state, sent(&place.path)), (JobState::Succeeded, 1));
    // What follows was written with it.
    let filter = punctual::JobFilter { kind: Some("thanks".into()), ..Default::default() };
    assert_eq!(queue.admin().jobs(&filter, None, 10).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_node_that_dies_after_the_commit_has_no_second_effect() {
    let place = place().await;
    let queue = sending(&place).await;
    queue.crash_next(1);
    let id = queue.enqueue(&mail("a")).await.unwrap().id;
    queue.advance("1h").await;
    let job = queue.admin().job(id).await.unwrap();
    assert_eq!((job.view.state, job.view.attempt), (JobState::Succeeded, 1));
    assert_eq!(sent(&place.path), 1);
}

#[tokio::test]
async fn what_was_not_committed_has_failed_and_is_tried_again() {
    for how in ["forgotten", "rolled back"] {
        let place = place().await;
        let queue = sending(&place).await;
        let id = queue.enqueue(&mail(how)).await.unwrap().id;
        queue.drain().await;
        let job = queue.admin().job(id).await.unwrap();
        assert_eq!((job.view.state, sent(&place.path)), (JobState::Retrying, 0), "{how}");
        let error = job.attempts[0].error.clone().unwrap();
        insta::allow_duplicates! {
            insta::assert_snapshot!(error, @"the transaction that settled the job was not committed; commit it before the handler returns");
        }
        queue.advance("1h").await;
        let job = queue.admin().job(id).await.unwrap();
        assert_eq!((job.view.state, sent(&place.path)), (JobState::Succeeded, 1), "{how}");
    }
}

#[tokio::test]
async fn sqlx_awaits_what_rusqlite_answers_at_once() {
    use punctual::sqlx::{Connection as _, SqliteConnection};
    let place = place().await;
    let builder = Punctual::sqlite(&place.path).await.unwrap().handle(deliver);
    let queue = builder.start_frozen().await.unwrap();
    let mut db =
        SqliteConnection::connect(&format!("sqlite://{}", place.path.display())).await.unwrap();
    let mut tx = db.begin_with("BEGIN IMMEDIATE").await.unwrap();
    queue.enqueue_in(&mut tx, &mail("kept")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(queue.drain().await.succeeded, 1);
}

#[tokio::test]
async fn a_transaction_goes_by_the_frozen_clock_too() {
    let place = place().await;
    let builder = Punctual::sqlite(&place.path).await.unwrap().handle(deliver);
    let queue = builder.start_frozen().await.unwrap();
    let mut db = open(&place.path);
    let tx = db.transaction_with_behavior(Immediate).unwrap();
    let later = mail("a").order().delay(std::time::Duration::from_secs(3_600));
    queue.enqueue_in(&tx, later).unwrap();
    tx.commit().unwrap();
    assert_eq!(queue.advance("59m").await.succeeded, 0);
    assert_eq!(queue.advance("1m").await.succeeded, 1);
}

#[tokio::test]
async fn a_result_goes_with_the_transaction_and_nothing_follows_after_it() {
    async fn count(_: Mail, cx: Ctx<PathBuf>) -> Result<(), BoxError> {
        let mut db = open(cx.state());
        let tx = db.transaction_with_behavior(Immediate)?;
        cx.settle_in_with(&tx, &7)??;
        assert_eq!(cx.enqueue_next(&mail("late")).unwrap_err().kind(), ErrorKind::Invalid);
        Ok(tx.commit()?)
    }
    let place = place().await;
    let builder = Punctual::sqlite(&place.path).await.unwrap().state(place.path.clone());
    let queue = builder.handle(count).start_frozen().await.unwrap();
    assert_eq!(queue.perform(&mail("a")).await.unwrap().result::<u32>().unwrap(), 7);
}
