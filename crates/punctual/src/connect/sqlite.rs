//! One SQLite file.

use std::future::IntoFuture;
use std::path::PathBuf;
use std::sync::Arc;

use punctual_engine::{Boxed, System};

use super::Ground;
use crate::builder::Builder;
use crate::error::Result;
use crate::punctual::Punctual;
use crate::transaction::Backend;

impl Punctual {
    /// Keeps everything in one SQLite file, which is created if it is not there. A file has one
    /// node at a time, and any number of producers beside it.
    ///
    /// ```no_run
    /// # use punctual::Punctual;
    /// # async fn start() -> punctual::Result<()> {
    /// let punctual = Punctual::sqlite("app.db").await?.start().await?;
    /// # Ok(()) }
    /// ```
    pub fn sqlite(path: impl Into<PathBuf>) -> OpenSqlite {
        OpenSqlite { path: path.into(), options: punctual_sqlite::Options::engine() }
    }
}

/// A SQLite file that is opened when this is awaited.
#[must_use = "it is opened when it is awaited"]
pub struct OpenSqlite {
    path: PathBuf,
    options: punctual_sqlite::Options,
}

impl OpenSqlite {
    /// This process only orders work: it runs nothing, fires nothing, and any number of such
    /// processes may use the file.
    pub fn producer(mut self) -> OpenSqlite {
        self.options.role = punctual_sqlite::Role::Client;
        self
    }

    /// May tables be created and brought up to date? If not, old ones are an error.
    pub fn auto_migrate(mut self, may: bool) -> OpenSqlite {
        self.options.auto_migrate = may;
        self
    }
}

impl IntoFuture for OpenSqlite {
    type Output = Result<Builder>;
    type IntoFuture = Boxed<Result<Builder>>;

    fn into_future(self) -> Boxed<Result<Builder>> {
        let OpenSqlite { path, options } = self;
        Box::pin(async move {
            let is_producer = options.role == punctual_sqlite::Role::Client;
            // Opening checks the file and may bring tables up to date: long, at worst.
            let open = move || punctual_sqlite::SqliteStore::open(path, options);
            let opened = tokio::task::spawn_blocking(open).await;
            let store =
                opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
            let (env, backend) = (Arc::new(System), Backend::Sqlite(store.path().to_owned()));
            Ok(Builder::on(Ground { env, store: Arc::new(store), backend, is_producer }))
        })
    }
}
