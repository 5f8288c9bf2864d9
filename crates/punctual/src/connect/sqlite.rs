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
#[must_use = "opens the file only when awaited"]
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

    /// Use the file even on a network or user-space file system? Such files are refused by default,
    /// because locks and syncs are not reliable there: two engines could use the file at once, and
    /// committed jobs could be lost.
    pub fn any_file_system(mut self, may: bool) -> OpenSqlite {
        self.options.any_file_system = may;
        self
    }

    /// Copies the file, as it is at one moment, to one that must not exist yet and appears when it is
    /// whole. Nodes and producers go on meanwhile.
    pub async fn backup(self, to: impl AsRef<std::path::Path>) -> Result<()> {
        Ok(self.producer().store().await?.backup(to).await?)
    }

    /// Reads the whole file, and says what is wrong with it: nothing, if it is whole.
    pub async fn check(self) -> Result<Vec<String>> {
        Ok(self.producer().store().await?.check().await?)
    }

    async fn store(self) -> Result<punctual_sqlite::SqliteStore> {
        let OpenSqlite { path, options } = self;
        // Opening checks the file and may bring tables up to date: long, at worst.
        let open = move || punctual_sqlite::SqliteStore::open(path, options);
        let opened = tokio::task::spawn_blocking(open).await;
        Ok(opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?)
    }
}

impl IntoFuture for OpenSqlite {
    type Output = Result<Builder>;
    type IntoFuture = Boxed<Result<Builder>>;

    fn into_future(self) -> Boxed<Result<Builder>> {
        Box::pin(async move {
            let is_producer = self.options.role == punctual_sqlite::Role::Client;
            let store = self.store().await?;
            let (env, backend) = (Arc::new(System), Backend::Sqlite(store.path().to_owned()));
            Ok(Builder::on(Ground { env, store: Arc::new(store), backend, is_producer }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_of_the_file_system_can_be_disabled() {
        assert!(!Punctual::sqlite("app.db").options.any_file_system);
        let open = Punctual::sqlite("app.db").any_file_system(true);
        assert!(open.options.any_file_system);
        assert!(open.producer().options.any_file_system);
    }
}
