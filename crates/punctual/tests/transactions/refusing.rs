//! A transaction that cannot hold punctual's jobs is refused, with the way out.

use std::path::Path;

use punctual::rusqlite::Connection;
use punctual::sqlx::Connection as _;
use punctual::transaction::{self, Backend};
use punctual::{Error, ErrorKind};
use punctual_core::LeaseId;
use punctual_postgres::InTransaction;
use punctual_store::{EnqueueAnswer, KeyLifetime, KeyScope, NewJob, UniqueKey};

use crate::drivers::{Driver, End, Scene, Step, postgres, rusqlite, sqlite};
use crate::world::{World, done, job, settlement};

fn keyed() -> NewJob {
    let (scope, lifetime) = (KeyScope::Tenant, KeyLifetime::Job);
    let unique = Some(UniqueKey { key: "k".to_owned(), scope, lifetime, is_by_payload: false });
    NewJob { unique, ..job() }
}

/// The message, with the directory of the test left out.
fn shown(error: &Error, directory: &Path) -> String {
    error.to_string().replace(&format!("{}/", directory.display()), "")
}

const ON_SQLITE: [Driver; 2] = [Driver::Rusqlite, Driver::SqlxSqlite];
const ON_POSTGRES: [Driver; 2] = [Driver::TokioPostgres, Driver::SqlxPostgres];

async fn refused(scene: &Scene, backend: Backend) -> Error {
    let scene = Scene { backend, ..scene.clone() };
    let settle = settlement(job().id, LeaseId::from_bytes([9; 16]), done());
    let steps = vec![Step::Enqueue(vec![job()]), Step::Settle(settle)];
    let mut said = scene.transact(steps, End::Commit).await;
    let (settled, enqueued) = (said.remove(1).error(), said.remove(0).error());
    assert_eq!(settled, enqueued);
    assert_eq!(enqueued.kind(), ErrorKind::Invalid);
    enqueued
}

/// What both drivers say.
async fn both_refused(drivers: [Driver; 2], backend: &Backend) -> Error {
    let [one, other] = drivers.map(World::new);
    let one = refused(&one.await.scene, backend.clone()).await;
    assert_eq!(refused(&other.await.scene, backend.clone()).await, one);
    one
}

#[tokio::test]
async fn transactions_do_not_reach_into_memory() {
    insta::assert_snapshot!(
        both_refused(ON_SQLITE, &Backend::Memory).await,
        @"the transaction is on SQLite, but punctual keeps its jobs in memory; enqueue without a transaction, or open punctual on that database"
    );
    insta::assert_snapshot!(
        both_refused(ON_POSTGRES, &Backend::Memory).await,
        @"the transaction is on PostgreSQL, but punctual keeps its jobs in memory; enqueue without a transaction, or open punctual on that database"
    );
}

#[tokio::test]
async fn nor_into_the_other_database() {
    let server = Backend::Postgres(InTransaction::new("punctual").expect("it works"));
    insta::assert_snapshot!(
        both_refused(ON_SQLITE, &server).await,
        @"the transaction is on SQLite, but punctual uses PostgreSQL; use the same database for both"
    );
    insta::assert_snapshot!(
        both_refused(ON_POSTGRES, &Backend::Sqlite("app.db".into())).await,
        @"the transaction is on PostgreSQL, but punctual uses the SQLite file `app.db`; use the same database for both"
    );
}

#[tokio::test]
async fn nor_into_another_file() {
    for driver in ON_SQLITE {
        let world = World::new(driver).await;
        let directory = Path::new(&world.scene.place).parent().expect("it works");
        let error = refused(&world.scene, Backend::Sqlite(directory.join("jobs.db"))).await;
        insta::allow_duplicates! {
            insta::assert_snapshot!(
                shown(&error, directory),
                @"the transaction is on `app.db`, but punctual uses `jobs.db`; use the same file for both"
            );
        }
    }
    let db = Connection::open_in_memory().expect("it works");
    let error = transaction::enqueue(&Backend::Sqlite("app.db".into()), &db, vec![job()]);
    insta::assert_snapshot!(
        error.expect_err("it fails"),
        @"the transaction is on `:memory:`, but punctual uses `app.db`; use the same file for both"
    );
}

#[tokio::test]
async fn another_name_of_the_file_will_do() {
    for driver in ON_SQLITE {
        let mut world = World::new(driver).await;
        let link = Path::new(&world.scene.place).with_file_name("link.db");
        std::os::unix::fs::symlink(&world.scene.place, &link).expect("it works");
        world.scene.backend = Backend::Sqlite(link);
        let new = job();
        world.enqueue(std::slice::from_ref(&new)).await.answers();
        assert!(world.job(new.id).await.is_some());
    }
}

#[tokio::test]
async fn a_file_without_tables_is_refused() {
    for driver in ON_SQLITE {
        let directory = tempfile::tempdir().expect("it works");
        let path = directory.path().join("app.db");
        drop(rusqlite(&path));
        let place = path.to_str().expect("it works").to_owned();
        let scene = Scene { driver, place, backend: Backend::Sqlite(path.clone()) };
        let refuse = || async {
            let steps = vec![Step::Enqueue(vec![job()])];
            scene.transact(steps, End::RollBack).await.remove(0).error()
        };
        let error = refuse().await;
        assert_eq!(error.kind(), ErrorKind::NotFound);
        insta::allow_duplicates! {
            insta::assert_snapshot!(
                shown(&error, directory.path()),
                @"`app.db` has no punctual tables; start punctual on this file first, or apply its migrations"
            );
        }
        rusqlite(&path).execute_batch(&punctual_sqlite::migrations_sql()).expect("it works");
        let said = scene.transact(vec![Step::Enqueue(vec![job()])], End::Commit).await.remove(0);
        assert_eq!(said.answers().len(), 1);
        let newer = "UPDATE punctual_meta SET value = 99 WHERE name LIKE 'schema_%'";
        rusqlite(&path).execute_batch(newer).expect("it works");
        let error = refuse().await;
        assert_eq!(error.kind(), ErrorKind::SchemaTooNew);
        insta::allow_duplicates! {
            insta::assert_snapshot!(
                shown(&error, directory.path()),
                @"`app.db` has schema version 99, this program supports up to 1; upgrade the program, or restore a backup from before the upgrade"
            );
        }
    }
}

#[tokio::test]
async fn a_schema_without_tables_is_told_of() {
    for driver in ON_POSTGRES {
        let backend = Backend::Postgres(InTransaction::new("nowhere").expect("it works"));
        let scene = Scene { driver, place: "nowhere".to_owned(), backend };
        let steps = vec![Step::Enqueue(vec![job()])];
        let error = scene.transact(steps, End::RollBack).await.remove(0).error();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        insta::allow_duplicates! {
            insta::assert_snapshot!(
                error,
                @"a table of punctual is missing on the server of the transaction (relation \"nowhere.job\" does not exist); run `punctual db migrate`, or restore the schema"
            );
        }
    }
}

/// Without a transaction each statement would commit for itself.
#[tokio::test]
async fn a_connection_without_a_transaction_is_refused() {
    let world = World::new(Driver::Rusqlite).await;
    let directory = Path::new(&world.scene.place).parent().expect("it works");
    let new: Vec<NewJob> = vec![job()];
    let db = rusqlite(Path::new(&world.scene.place));
    let error = transaction::enqueue(&world.scene.backend, &db, new.clone()).expect_err("it fails");
    insta::assert_snapshot!(
        shown(&error, directory),
        @"no open transaction on this connection to `app.db`; start one, preferably with BEGIN IMMEDIATE"
    );
    let mut db = sqlite(&world.scene.place).await;
    let same = transaction::enqueue(&world.scene.backend, &mut db, new.clone())
        .await
        .expect_err("it fails");
    assert_eq!(same, error);
    db.close().await.expect("it works");
    let server = World::new(Driver::SqlxPostgres).await;
    let mut db = postgres(Driver::SqlxPostgres).await;
    let error =
        transaction::enqueue(&server.scene.backend, &mut db, new).await.expect_err("it fails");
    insta::assert_snapshot!(
        error,
        @"no open transaction on this connection; start one with sqlx's `begin`, because sqlx does not detect a manual BEGIN"
    );
    assert_eq!(server.store.queue_stats(None, 10).await.expect("it works").items, []);
}

/// SQLite lets a transaction go on after an error; our part of it is whole or not there.
#[tokio::test]
async fn what_fails_leaves_nothing_although_the_caller_commits() {
    for driver in ON_SQLITE {
        let world = World::new(driver).await;
        let (spoilt, next) = (keyed(), keyed());
        // It stands in line already, so that its body and its key are written and its place is not.
        rusqlite(Path::new(&world.scene.place))
            .execute(
                "INSERT INTO punctual_job_ready VALUES ('q', 'k', 0, ?1, 0, 0, 0, 0, 0, 0)",
                [spoilt.id.as_bytes()],
            )
            .expect("it works");
        let steps = vec![
            Step::Effect(spoilt.id),
            Step::Enqueue(vec![job(), spoilt.clone()]),
            Step::Enqueue(vec![next.clone()]),
        ];
        let mut said = world.transact(steps, End::Commit).await;
        assert_eq!(said.remove(1).error().kind(), ErrorKind::Conflict);
        assert_eq!(said.remove(1).answers(), [EnqueueAnswer::Created], "its key is free");
        assert_eq!(world.effects(spoilt.id).await, 1);
        let db = rusqlite(Path::new(&world.scene.place));
        let bodies = "SELECT id FROM punctual_job";
        let body: [u8; 16] = db.query_row(bodies, [], |row| row.get(0)).expect("it works");
        let count: i64 = db
            .query_row("SELECT count(*) FROM punctual_job", [], |row| row.get(0))
            .expect("it works");
        assert_eq!((count, &body), (1, next.id.as_bytes()));
    }
}

/// A transaction that has read must not wait for the writer whose work it has not seen.
#[tokio::test]
async fn a_file_that_was_written_meanwhile_is_told_of() {
    let world = World::new(Driver::Rusqlite).await;
    let directory = Path::new(&world.scene.place).parent().expect("it works");
    let mut db = rusqlite(Path::new(&world.scene.place));
    let tx = db.transaction().expect("it works");
    let count: i64 =
        tx.query_row("SELECT count(*) FROM effect", [], |row| row.get(0)).expect("it works");
    world.enqueue(&[job()]).await.answers();
    let error = transaction::enqueue(&world.scene.backend, &tx, vec![job()]).expect_err("it fails");
    assert_eq!((count, error.kind()), (0, ErrorKind::Retry));
    insta::assert_snapshot!(
        shown(&error, directory),
        @"`app.db` is locked (database is locked); roll the transaction back and try again, with BEGIN IMMEDIATE and a busy timeout on the connection"
    );
}
