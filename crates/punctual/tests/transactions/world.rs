//! A store for a test, with a table of the caller's own beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use punctual::tokio_postgres::{self, Client, NoTls};
use punctual::transaction::Backend;
use punctual_conformance::support::ThrowawaySchema;
use punctual_core::job::{AttemptOutcome, Next, Transition};
use punctual_core::{JobId, LeaseId, NodeId, Timestamp};
use punctual_postgres::PostgresStore;
use punctual_sqlite::SqliteStore;
use punctual_store::{
    At, ClaimAsk, ClaimedJob, JobDetail, Json, NewJob, NodeInfo, QueueShare, Settlement, Store,
};
use tempfile::TempDir;

use crate::drivers::{Driver, End, Said, Scene, Step, rusqlite};

/// Who works.
pub(crate) const NODE: NodeId = NodeId::from_bytes([7; 16]);

pub(crate) struct World {
    pub(crate) scene: Scene,
    pub(crate) store: Arc<dyn Store>,
    _place: Place,
}

enum Place {
    Directory { _directory: TempDir },
    Schema { _schema: ThrowawaySchema },
}

pub(crate) async fn connect() -> Client {
    let (client, connection) =
        tokio_postgres::connect(&Driver::TokioPostgres.url(), NoTls).await.expect("it works");
    tokio::spawn(connection);
    client
}

impl World {
    pub(crate) async fn new(driver: Driver) -> World {
        if driver.is_sqlite() {
            let directory = tempfile::tempdir().expect("it works");
            let path = directory.path().join("app.db");
            let options = punctual_sqlite::Options::engine();
            let store = SqliteStore::open(&path, options).expect("it works");
            rusqlite(&path)
                .execute_batch("CREATE TABLE effect (job TEXT NOT NULL)")
                .expect("it works");
            let backend = Backend::Sqlite(store.path().to_owned());
            let place = path.to_str().expect("it works").to_owned();
            return World {
                scene: Scene { driver, place, backend },
                store: Arc::new(store),
                _place: Place::Directory { _directory: directory },
            };
        }
        static SCHEMAS: AtomicU64 = AtomicU64::new(0);
        let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
        let schema = ThrowawaySchema(format!("transactions_{}_{number}", std::process::id()));
        let options = punctual_postgres::Options::new().schema(&schema.0).days_ahead(0);
        let options = match driver.is_pooled() {
            true => options.pooled().direct_url(&Driver::TokioPostgres.url()),
            false => options,
        };
        let store = PostgresStore::connect(&driver.url(), options).await.expect("it works");
        let table = format!("CREATE TABLE {}.effect (job text NOT NULL)", schema.0);
        connect().await.batch_execute(&table).await.expect("it works");
        let backend = Backend::Postgres(store.in_transaction());
        World {
            scene: Scene { driver, place: schema.0.clone(), backend },
            store: Arc::new(store),
            _place: Place::Schema { _schema: schema },
        }
    }

    pub(crate) async fn transact(&self, steps: Vec<Step>, end: End) -> Vec<Said> {
        self.scene.transact(steps, end).await
    }

    /// Enqueues in a transaction that commits.
    pub(crate) async fn enqueue(&self, jobs: &[NewJob]) -> Said {
        let mut said = self.transact(vec![Step::Enqueue(jobs.to_vec())], End::Commit).await;
        said.remove(0)
    }

    pub(crate) async fn job(&self, id: JobId) -> Option<JobDetail> {
        self.store.job(id).await.expect("it works")
    }

    /// How often a job had its effect.
    pub(crate) async fn effects(&self, job: JobId) -> i64 {
        let count = "SELECT count(*) FROM";
        let of = format!("WHERE job = '{job}'");
        if self.scene.driver.is_sqlite() {
            let db = rusqlite(self.scene.place.as_ref());
            return db
                .query_row(&format!("{count} effect {of}"), [], |row| row.get(0))
                .expect("it works");
        }
        let text = format!("{count} {}.effect {of}", self.scene.place);
        connect().await.query_one(&text, &[]).await.expect("it works").get(0)
    }

    /// Makes a lease unreadable.
    pub(crate) async fn spoil_lease(&self, job: JobId) {
        if self.scene.driver.is_sqlite() {
            let db = rusqlite(self.scene.place.as_ref());
            let text = "UPDATE punctual_job_lease SET attempt = -1 WHERE job = ?1";
            assert_eq!(db.execute(text, [job.as_bytes()]).expect("it works"), 1);
            return;
        }
        let schema = &self.scene.place;
        let text = format!("UPDATE {schema}.job_lease SET attempt = -1 WHERE job = '{job}'");
        assert_eq!(connect().await.execute(&text, &[]).await.expect("it works"), 1);
    }

    /// Claims all that may run, under one lease.
    pub(crate) async fn claim(&self) -> Vec<ClaimedJob> {
        let info = NodeInfo {
            id: NODE,
            name: "n".to_owned(),
            version: String::new(),
            queues: Vec::new(),
            kinds: Vec::new(),
            labels: Vec::new(),
        };
        self.store.join(At::Database, &info).await.expect("it works");
        let queues =
            ["default", "mail"].map(|name| QueueShare { name: name.to_owned(), most: 100 });
        let ask = ClaimAsk {
            node: NODE,
            lease: LeaseId::from_bytes([9; 16]),
            more: Vec::new(),
            queues: queues.to_vec(),
            kinds: vec!["send".to_owned()],
            most: 100,
        };
        let mut claimed = self.store.claim(At::Database, &ask).await.expect("it works").jobs;
        claimed.sort_by_key(|job| job.id);
        claimed
    }
}

/// The job with the next number.
pub(crate) fn job() -> NewJob {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    let number = JOBS.fetch_add(1, Ordering::Relaxed);
    let mut random = [0; 10];
    random[6..].copy_from_slice(&number.to_be_bytes());
    let id = JobId::mint(Timestamp::from_seconds(1_800_000_000), random);
    NewJob::new(
        id,
        "default",
        "send",
        Json::parse(&format!("{{\"n\":{number}}}")).expect("it works"),
    )
}

/// What is written at the end of an attempt.
pub(crate) fn settlement(job: JobId, lease: LeaseId, transition: Transition) -> Settlement {
    let is_done = transition.outcome == AttemptOutcome::Succeeded;
    let result = is_done.then(|| Json::parse("{\"sent\":1}").expect("it works"));
    Settlement { job, lease, transition, result, then: Vec::new() }
}

/// The end of an attempt that went well.
pub(crate) fn done() -> Transition {
    Transition { outcome: AttemptOutcome::Succeeded, next: Next::Succeeded, error: None }
}

/// The end of one that is tried again in an hour.
pub(crate) fn failed() -> Transition {
    Transition {
        outcome: AttemptOutcome::Failed,
        next: Next::After(Duration::from_secs(3_600)),
        error: Some("no route".to_owned()),
    }
}
