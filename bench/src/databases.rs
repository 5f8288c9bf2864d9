//! The databases of one run, fresh for each scenario and gone after it.

mod postgres;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use punctual_conformance::{Fault, Faulty};
use punctual_sqlite::{Options, SqliteStore};
use punctual_store::Store;
use tempfile::TempDir;

use crate::Failure;
use crate::raw::{Raw, RawPostgres, RawSqlite};

pub(crate) use postgres::{PostgresDatabase, Server};

/// Where a bench runs.
#[derive(Args)]
pub(crate) struct Place {
    /// Database
    #[arg(long, value_enum)]
    backend: Backend,
    /// Directory of the SQLite files [default: the system's temporary directory]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// URL of the PostgreSQL server; databases are created there and dropped
    /// [default: PUNCTUAL_TEST_POSTGRES]
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Connect through the pooler of PUNCTUAL_TEST_PGBOUNCER; the baselines connect directly
    #[arg(long)]
    pooled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    Sqlite,
    Postgres,
}

/// Where databases are made.
pub(crate) enum Databases {
    Sqlite(TempDir),
    Postgres(Box<Server>),
}

/// In what the benches differ from backend to backend.
pub(crate) struct Manner {
    pub(crate) title: &'static str,
    pub(crate) backend: &'static str,
    /// Under which names they are proofs.
    pub(crate) store_bench: &'static str,
    pub(crate) queue_bench: &'static str,
    pub(crate) schedule_bench: &'static str,
    pub(crate) api_bench: &'static str,
    /// Rows of the bare statement that many callers are compared with.
    pub(crate) gathered: usize,
    /// How many drain at once, as many as the bare loop has connections.
    pub(crate) drainers: usize,
    /// What is to be reached of the bare loop.
    pub(crate) drain_goal: f64,
    /// What one caller is to reach of single commits. A server is meant for many callers.
    pub(crate) single_goal: Option<f64>,
}

const SQLITE: Manner = Manner {
    title: "SQLite",
    backend: "sqlite",
    store_bench: "store-bench",
    queue_bench: "queue-bench",
    schedule_bench: "schedule-bench",
    api_bench: "api-bench",
    gathered: 1_000,
    drainers: 1,
    drain_goal: 0.6,
    single_goal: Some(0.85),
};

const POSTGRES: Manner = Manner {
    title: "PostgreSQL",
    backend: "postgres",
    store_bench: "pg-store-bench",
    queue_bench: "pg-queue-bench",
    schedule_bench: "pg-schedule-bench",
    api_bench: "pg-api-bench",
    gathered: 100,
    drainers: 2,
    drain_goal: 0.75,
    single_goal: None,
};

impl Databases {
    pub(crate) async fn open(place: &Place) -> Result<Databases, Failure> {
        match (place.backend, &place.directory) {
            (Backend::Sqlite, Some(directory)) => {
                Ok(Databases::Sqlite(tempfile::tempdir_in(directory)?))
            }
            (Backend::Sqlite, None) => Ok(Databases::Sqlite(tempfile::tempdir()?)),
            (Backend::Postgres, _) => {
                let url = place.database.as_deref();
                Ok(Databases::Postgres(Box::new(Server::connect(url, place.pooled).await?)))
            }
        }
    }

    pub(crate) fn manner(&self) -> &'static Manner {
        match self {
            Databases::Sqlite(_) => &SQLITE,
            Databases::Postgres(_) => &POSTGRES,
        }
    }

    /// What the server is like, as far as it shows in the figures.
    pub(crate) fn about(&self) -> &str {
        match self {
            Databases::Sqlite(_) => "synchronous=FULL",
            Databases::Postgres(server) => server.about(),
        }
    }

    /// A database with nothing in it.
    pub(crate) async fn fresh(&self, name: &str) -> Result<Database, Failure> {
        match self {
            Databases::Sqlite(directory) => {
                Ok(Database::Sqlite(directory.path().join(format!("{name}.db"))))
            }
            Databases::Postgres(server) => Ok(Database::Postgres(server.create(name).await?)),
        }
    }

    /// A database in which this many jobs wait, and which has come to rest.
    pub(crate) async fn filled(&self, name: &str, count: usize) -> Result<Database, Failure> {
        let database = self.fresh(name).await?;
        database.raw().await?.fill(count).await?;
        database.rest().await?;
        Ok(database)
    }
}

/// One database.
pub(crate) enum Database {
    /// The file, which goes with its directory.
    Sqlite(PathBuf),
    Postgres(PostgresDatabase),
}

impl Database {
    pub(crate) async fn raw(&self) -> Result<Box<dyn Raw>, Failure> {
        Ok(match self {
            Database::Sqlite(path) => Box::new(RawSqlite::open(path)?),
            Database::Postgres(database) => Box::new(RawPostgres::open(database).await?),
        })
    }

    pub(crate) async fn store(&self) -> Result<Arc<dyn Store>, Failure> {
        Ok(match self {
            Database::Sqlite(path) => Arc::new(SqliteStore::open(path, Options::engine())?),
            Database::Postgres(database) => Arc::new(database.store().await?),
        })
    }

    /// A store that calls this whenever it is called.
    pub(crate) async fn watched_store(
        &self,
        called: impl Fn() + Send + Sync + 'static,
    ) -> Result<Arc<dyn Store>, Failure> {
        let decide = move |_| {
            called();
            Fault::None
        };
        Ok(match self {
            Database::Sqlite(path) => {
                Arc::new(Faulty::new(SqliteStore::open(path, Options::engine())?, decide))
            }
            Database::Postgres(database) => Arc::new(Faulty::new(database.store().await?, decide)),
        })
    }

    /// Lets the server do now what it would otherwise do in the middle of a measurement.
    pub(crate) async fn rest(&self) -> Result<(), Failure> {
        match self {
            Database::Sqlite(_) => Ok(()),
            Database::Postgres(database) => database.rest().await,
        }
    }
}
