//! Which database a process works on, in a word that can be given to it.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use punctual_conformance::cluster::{Cluster, Pooler};
use punctual_engine::{Env, System};
use punctual_postgres::PostgresStore;
use punctual_sqlite::SqliteStore;
use punctual_store::{ErrorKind, Result, Store};
use tempfile::TempDir;

use crate::Failure;

/// How often a process looks whether the database can be opened.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What a url begins with that leads to a pooler.
const POOLED: &str = "pooled:";

/// Which kind of database.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

/// Where a database is.
#[derive(Clone)]
pub(crate) enum Database {
    Sqlite(PathBuf),
    Postgres { url: String, is_pooled: bool },
}

impl Database {
    pub(crate) fn direct(url: String) -> Database {
        Database::Postgres { url, is_pooled: false }
    }

    /// Opens it for an engine.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(match self {
            Database::Sqlite(file) => {
                Arc::new(SqliteStore::open(file, punctual_sqlite::Options::engine())?)
            }
            Database::Postgres { url, is_pooled } => {
                let options = punctual_postgres::Options::new();
                let options = if *is_pooled { options.pooled() } else { options };
                Arc::new(PostgresStore::connect(url, options).await?)
            }
        })
    }

    /// The same as soon as it can be: the process before may still have the file, and a server may
    /// be away.
    pub(crate) async fn open_in_time(&self) -> Result<Arc<dyn Store>> {
        loop {
            match self.open().await {
                Err(error) if is_for_now(error.kind()) => System.sleep(LOOK_EVERY).await,
                opened => return opened,
            }
        }
    }

    /// Opens it for somebody who only writes jobs, beside an engine.
    pub(crate) async fn open_beside(&self) -> Result<Arc<dyn Store>> {
        match self {
            Database::Sqlite(file) => {
                Ok(Arc::new(SqliteStore::open(file, punctual_sqlite::Options::client())?))
            }
            Database::Postgres { .. } => self.open().await,
        }
    }
}

/// May the next try do better?
pub(crate) fn is_for_now(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Conflict | ErrorKind::Retry | ErrorKind::Unreachable)
}

impl Display for Database {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Database::Sqlite(file) => write!(f, "{}", file.display()),
            Database::Postgres { url, is_pooled } => {
                write!(f, "{}{url}", if *is_pooled { POOLED } else { "" })
            }
        }
    }
}

impl FromStr for Database {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> std::result::Result<Database, Self::Err> {
        let (url, is_pooled) = text.strip_prefix(POOLED).map_or((text, false), |url| (url, true));
        Ok(if url.starts_with("postgres://") {
            Database::Postgres { url: url.to_owned(), is_pooled }
        } else {
            Database::Sqlite(PathBuf::from(text))
        })
    }
}

/// A database for the occasion, which goes with this value.
pub(crate) struct Own {
    pub(crate) database: Database,
    _place: Place,
}

enum Place {
    Directory { _directory: TempDir },
    Server { _pooler: Option<Pooler>, _cluster: Cluster },
}

impl Own {
    pub(crate) fn new(kind: Kind, is_pooled: bool) -> std::result::Result<Own, Failure> {
        match kind {
            Kind::Sqlite => {
                let directory = tempfile::tempdir()?;
                let database = Database::Sqlite(directory.path().join("worked.db"));
                Ok(Own { database, _place: Place::Directory { _directory: directory } })
            }
            Kind::Postgres => {
                let cluster = Cluster::new(&["max_connections = 200"], None);
                let pooler = is_pooled.then(|| Pooler::before(&cluster));
                let port = pooler.as_ref().map_or(cluster.port, |pooler| pooler.port);
                let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
                let database = Database::Postgres { url, is_pooled };
                let place = Place::Server { _pooler: pooler, _cluster: cluster };
                Ok(Own { database, _place: place })
            }
        }
    }
}
