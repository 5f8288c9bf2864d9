//! A PostgreSQL server and databases of our own on it.

use std::env;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_engine::{Env, System};
use punctual_postgres::{Options, PostgresStore};
use tokio_postgres::{Client, Config, NoTls};

use crate::Failure;

/// Where the server is, unless it is said otherwise.
const URL: &str = "PUNCTUAL_TEST_POSTGRES";
/// Where the pooler before it is.
const POOLER_URL: &str = "PUNCTUAL_TEST_PGBOUNCER";
/// What the store asks for its own sessions that changes plans.
const SESSION: &str = "-c enable_seqscan=off -c jit=off -c plan_cache_mode=force_generic_plan";
/// How often somebody is looked for who should be gone.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Version and settings, as far as they show in figures.
const ABOUT: &str = "SELECT concat_ws(' ', current_setting('server_version'), \
    'fsync=' || current_setting('fsync'), \
    'full_page_writes=' || current_setting('full_page_writes'), \
    'synchronous_commit=' || current_setting('synchronous_commit'), \
    'shared_buffers=' || current_setting('shared_buffers'))";

/// The whole server's, and the database's own.
const SPENT: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, xact_commit \
    FROM pg_stat_database WHERE datname = $1";

/// A server on which databases can be made.
pub(crate) struct Server {
    url: String,
    pooler: Option<String>,
    client: Client,
    about: String,
}

/// What a server has spent so far.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) wal_bytes: i64,
    pub(crate) commits: i64,
}

impl Server {
    pub(crate) async fn connect(url: Option<&str>, pooled: bool) -> Result<Server, Failure> {
        let url = match url {
            Some(url) => url.to_owned(),
            None => env::var(URL).map_err(|_| {
                format!(
                    "no server given; use `--database postgres://user@host:5432/postgres` or set \
                     {URL}, as `cargo xtask prove` does"
                )
            })?,
        };
        let pooler = match pooled {
            true => Some(
                env::var(POOLER_URL)
                    .map_err(|_| format!("`--pooled` requires {POOLER_URL}, which is not set"))?,
            ),
            false => None,
        };
        let client = connect(&url).await?;
        let mut about: String = client.query_one(ABOUT, &[]).await?.try_get(0)?;
        if pooled {
            about.push_str(" pooled");
        }
        Ok(Server { url, pooler, client, about })
    }

    pub(crate) fn about(&self) -> &str {
        &self.about
    }

    pub(crate) async fn create(&self, name: &str) -> Result<PostgresDatabase, Failure> {
        static CREATED: AtomicU64 = AtomicU64::new(0);
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let name = format!("punctual_bench_{}_{number}_{name}", std::process::id());
        self.client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        let of = |url: &str| with_database(url, &name);
        Ok(PostgresDatabase {
            url: of(&self.url)?,
            pooler: self.pooler.as_deref().map(of).transpose()?,
            server: self.url.clone(),
            name,
        })
    }

    /// What was spent so far, as far as connections have told: one that does little tells at once,
    /// one that does much tells every second and when it ends.
    pub(crate) async fn spent(&self, database: &PostgresDatabase) -> Result<Spent, Failure> {
        let row = self.client.query_one(SPENT, &[&database.name]).await?;
        Ok(Spent { wal_bytes: row.try_get(0)?, commits: row.try_get(1)? })
    }

    /// Waits until nobody is connected to a database any more.
    pub(crate) async fn left(&self, database: &PostgresDatabase) -> Result<(), Failure> {
        let connected = "SELECT FROM pg_stat_activity WHERE datname = $1";
        while !self.client.query(connected, &[&database.name]).await?.is_empty() {
            System.sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

/// A database, which is dropped with this value.
pub(crate) struct PostgresDatabase {
    url: String,
    pooler: Option<String>,
    server: String,
    name: String,
}

impl PostgresDatabase {
    /// Where it is, past any pooler.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn store(&self) -> Result<PostgresStore, Failure> {
        let store = match &self.pooler {
            None => PostgresStore::connect(&self.url, Options::new()),
            Some(pooler) => {
                PostgresStore::connect(pooler, Options::new().pooled().direct_url(&self.url))
            }
        };
        Ok(store.await?)
    }

    /// A connection with the settings of the store's and nothing else of ours.
    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        connect(&self.url).await
    }

    pub(crate) async fn rest(&self) -> Result<(), Failure> {
        let client = self.connect().await?;
        client.batch_execute("VACUUM ANALYZE").await?;
        Ok(client.batch_execute("CHECKPOINT").await?)
    }
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        let text = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let server = self.server.clone();
        // A thread of its own: the runtime around us may be the one that is ending.
        let dropped = std::thread::spawn(move || -> Result<(), Failure> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async { Ok(connect(&server).await?.batch_execute(&text).await?) })
        });
        if let Ok(Err(error)) = dropped.join() {
            eprintln!("database {} was not dropped: {error}", self.name);
        }
    }
}

async fn connect(url: &str) -> Result<Client, Failure> {
    let mut config: Config = url.parse()?;
    let own = config.get_options().unwrap_or_default();
    config.options(format!("{own} {SESSION}"));
    let (client, connection) = config.connect(NoTls).await?;
    // Whoever uses the connection is told of its end by the error of a statement.
    tokio::spawn(connection);
    Ok(client)
}

/// The url of another database on the same server.
fn with_database(url: &str, name: &str) -> Result<String, Failure> {
    let (scheme, rest) = url
        .split_once("://")
        .ok_or("invalid server URL; use a URL such as postgres://user@host:5432/database")?;
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, format!("?{query}")),
        None => (rest, String::new()),
    };
    let host = rest.split('/').next().unwrap_or(rest);
    Ok(format!("{scheme}://{host}/{name}{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leads_to_another_database() {
        let to = |url| with_database(url, "b").ok();
        assert_eq!(to("postgres://u:p@h:1/a?x=y").as_deref(), Some("postgres://u:p@h:1/b?x=y"));
        assert_eq!(to("postgresql://h").as_deref(), Some("postgresql://h/b"));
        assert_eq!(to("host=h"), None);
    }
}
