//! The bare statements in a loop, with nothing around them: what the database itself can do.

mod postgres;
mod sqlite;

use async_trait::async_trait;

use crate::Failure;

pub(crate) use postgres::RawPostgres;
pub(crate) use sqlite::RawSqlite;

pub(crate) const QUEUE: &str = "default";
pub(crate) const KIND: &str = "mail";
/// About a hundred bytes.
pub(crate) const PAYLOAD: &str = r#"{"from":"noreply@example.com","subject":"Your weekly digest is here","template":"digest","to":"a@example.com"}"#;

/// A database with our tables and connections with our settings, and nothing else of ours.
#[async_trait(?Send)]
pub(crate) trait Raw {
    /// Writes jobs in one transaction.
    async fn enqueue(&self, count: usize) -> Result<u64, Failure>;

    /// Claims so many jobs at once and settles them, in two transactions, perhaps a few times and
    /// on several connections; says how many it did.
    async fn drain(&self, count: usize) -> Result<u64, Failure>;

    /// Writes this many jobs.
    async fn fill(&self, count: usize) -> Result<(), Failure> {
        for _ in 0..count.div_ceil(1_000) {
            self.enqueue(1_000).await?;
        }
        Ok(())
    }
}
