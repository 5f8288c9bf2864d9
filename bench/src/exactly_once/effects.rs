//! The table of an application: one row for each effect that a job had.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual::{BoxError, Ctx};
use punctual_core::JobId;
use rusqlite::{Connection, TransactionBehavior};
use tokio_postgres::{Client, NoTls};

use super::worker::{COMMITTED, HAD_EFFECT, SETTLED};
use crate::Failure;
use crate::database::Database;
use crate::worker::say;

/// How long a transaction waits for the engine's, and the engine's for it.
const BUSY: Duration = Duration::from_secs(5);

/// Where it is.
#[derive(Clone)]
pub(crate) enum Effects {
    Sqlite(PathBuf),
    Postgres(Server),
}

/// A server, and connections that nobody uses just then.
#[derive(Clone)]
pub(crate) struct Server {
    url: String,
    idle: Arc<Mutex<Vec<Client>>>,
}

impl Effects {
    pub(crate) fn new(database: &Database) -> Effects {
        match database {
            Database::Sqlite(file) => Effects::Sqlite(file.clone()),
            Database::Postgres { url, .. } => {
                Effects::Postgres(Server { url: url.clone(), idle: Arc::default() })
            }
        }
    }

    pub(crate) async fn create(&self) -> Result<(), Failure> {
        match self {
            Effects::Sqlite(file) => {
                Ok(open(file)?.execute_batch("CREATE TABLE effect (job TEXT NOT NULL)")?)
            }
            Effects::Postgres(server) => {
                let client = server.take().await?;
                Ok(client.batch_execute("CREATE TABLE effect (job text NOT NULL)").await?)
            }
        }
    }

    /// How often each job had its effect.
    pub(crate) async fn counts(&self) -> Result<BTreeMap<JobId, u64>, Failure> {
        let text = "SELECT job, count(*) FROM effect GROUP BY job";
        let rows: Vec<(String, i64)> = match self {
            Effects::Sqlite(file) => {
                let db = open(file)?;
                let mut statement = db.prepare(text)?;
                let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
                rows.collect::<Result<_, _>>()?
            }
            Effects::Postgres(server) => {
                let rows = server.take().await?.query(text, &[]).await?;
                let read = |row: &tokio_postgres::Row| Ok((row.try_get(0)?, row.try_get(1)?));
                rows.iter().map(read).collect::<Result<_, tokio_postgres::Error>>()?
            }
        };
        rows.into_iter().map(|(job, count)| Ok((job.parse()?, u64::try_from(count)?))).collect()
    }

    /// Has the effect of a job and settles it, in one transaction; an error if that did not commit.
    pub(crate) async fn have(self, cx: Ctx<Effects>) -> Result<(), BoxError> {
        match self {
            Effects::Sqlite(file) => {
                tokio::task::spawn_blocking(move || have_on_sqlite(&file, &cx)).await?
            }
            Effects::Postgres(server) => server.have(&cx).await,
        }
    }
}

fn insert(job: JobId) -> String {
    format!("INSERT INTO effect (job) VALUES ('{job}')")
}

fn open(file: &Path) -> Result<Connection, Failure> {
    let db = Connection::open(file)?;
    db.busy_timeout(BUSY)?;
    Ok(db)
}

fn have_on_sqlite(file: &Path, cx: &Ctx<Effects>) -> Result<(), BoxError> {
    let mut db = open(file)?;
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute(&insert(cx.job_id()), [])?;
    say(format_args!("{HAD_EFFECT}"));
    cx.settle_in(&tx)?;
    say(format_args!("{SETTLED}"));
    tx.commit()?;
    say(format_args!("{COMMITTED}"));
    Ok(())
}

impl Server {
    async fn take(&self) -> Result<Client, Failure> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(client) = idle {
            return Ok(client);
        }
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        // Whoever uses the connection is told of its end by the error of a statement.
        tokio::spawn(connection);
        Ok(client)
    }

    async fn have(&self, cx: &Ctx<Effects>) -> Result<(), BoxError> {
        let mut client = self.take().await?;
        let tx = client.transaction().await?;
        tx.batch_execute(&insert(cx.job_id())).await?;
        say(format_args!("{HAD_EFFECT}"));
        cx.settle_in(&tx).await?;
        say(format_args!("{SETTLED}"));
        tx.commit().await?;
        say(format_args!("{COMMITTED}"));
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(client);
        Ok(())
    }
}
