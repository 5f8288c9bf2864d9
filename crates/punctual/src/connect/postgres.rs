//! A PostgreSQL database.

use std::future::IntoFuture;
use std::path::Path;
use std::sync::Arc;

use punctual_engine::{Boxed, System};
use punctual_store::{At, Retention, Store};

use super::Ground;
use crate::builder::Builder;
use crate::error::Result;
use crate::punctual::Punctual;
use crate::transaction::Backend;

impl Punctual {
    /// Keeps everything in a PostgreSQL database, which any number of nodes may share.
    ///
    /// ```no_run
    /// # use punctual::Punctual;
    /// # async fn start() -> punctual::Result<()> {
    /// let punctual = Punctual::postgres("postgres://app@db/app").schema("jobs").await?.start().await?;
    /// # Ok(()) }
    /// ```
    pub fn postgres(url: &str) -> OpenPostgres {
        OpenPostgres {
            url: url.to_owned(),
            options: punctual_postgres::Options::new(),
            is_producer: false,
        }
    }
}

/// A PostgreSQL database that is connected to when this is awaited.
#[must_use = "connects only when awaited"]
pub struct OpenPostgres {
    url: String,
    options: punctual_postgres::Options,
    is_producer: bool,
}

impl OpenPostgres {
    /// This process only orders work: it runs nothing and fires nothing.
    pub fn producer(mut self) -> OpenPostgres {
        self.is_producer = true;
        self
    }

    /// May tables be created and brought up to date? If not, old ones are an error.
    pub fn auto_migrate(mut self, may: bool) -> OpenPostgres {
        self.options = self.options.auto_migrate(may);
        self
    }

    /// The schema that the tables are in; `punctual` unless said otherwise.
    pub fn schema(mut self, name: &str) -> OpenPostgres {
        self.options = self.options.schema(name);
        self
    }

    /// The url leads to a pooler in transaction mode, such as pgbouncer.
    pub fn pooled(mut self) -> OpenPostgres {
        self.options = self.options.pooled();
        self
    }

    /// A url that leads straight to the server, for the one connection that listens although the
    /// rest goes through a pooler.
    pub fn direct_url(mut self, url: &str) -> OpenPostgres {
        self.options = self.options.direct_url(url);
        self
    }

    /// Connections for reads and rare writes, beside those kept for hot writes.
    pub fn connections(mut self, most: usize) -> OpenPostgres {
        self.options = self.options.connections(most);
        self
    }

    /// The number of future days that have their own partitions [default: 14, maximum: 366]. Pruning
    /// drops the partition of a day whole instead of row by row. With 0, no partitions are created and
    /// all rows are in the default partition.
    pub fn partition_days(mut self, days: u32) -> OpenPostgres {
        self.options = self.options.days_ahead(days);
        self
    }

    /// A file with the password of the role, for URLs without one. It is read for each new connection,
    /// so the password can be changed without a restart. A file that other users can read is refused.
    pub fn password_file(mut self, path: impl AsRef<Path>) -> OpenPostgres {
        self.options = self.options.password_file(path);
        self
    }

    /// Permits `sslmode=disable`, `prefer` and `require` for servers on other machines, which are
    /// refused by default: an attacker in the network can read the password and the data. Without an
    /// `sslmode`, connections to other machines always use `verify-full`.
    pub fn allow_insecure(mut self, may: bool) -> OpenPostgres {
        self.options = self.options.allow_insecure(may);
        self
    }

    /// Checks the URL and the options without connecting.
    ///
    /// # Errors
    ///
    /// Returns the errors that a connection would return before it reaches the server: for an invalid
    /// URL, for TLS settings that are not allowed, and for a password file that cannot be used.
    pub fn check_settings(&self) -> Result<()> {
        Ok(punctual_postgres::check_settings(&self.url, &self.options)?)
    }

    /// The URL as connections read it: hosts, ports, user and password. Nothing is contacted, and the
    /// password file is not read.
    ///
    /// # Errors
    ///
    /// Returns `Invalid` for a URL that cannot be read, without a part of its password.
    pub fn driver_config(&self) -> Result<tokio_postgres::Config> {
        Ok(punctual_postgres::parse_url(&self.url)?)
    }

    /// Says what is wrong with the tables and, behind a pooler, with the role, as far as it shows without
    /// reading them: nothing, if all is well.
    pub async fn check(self) -> Result<Vec<String>> {
        let store = punctual_postgres::PostgresStore::connect(&self.url, self.options).await?;
        Ok(store.faults(At::Database, &Retention::default()).await?)
    }
}

impl IntoFuture for OpenPostgres {
    type Output = Result<Builder>;
    type IntoFuture = Boxed<Result<Builder>>;

    fn into_future(self) -> Boxed<Result<Builder>> {
        let OpenPostgres { url, options, is_producer } = self;
        Box::pin(async move {
            let store = punctual_postgres::PostgresStore::connect(&url, options).await?;
            let (env, backend) = (Arc::new(System), Backend::Postgres(store.in_transaction()));
            Ok(Builder::on(Ground { env, store: Arc::new(store), backend, is_producer }))
        })
    }
}
