//! The tables of schedules and of their slots, written and read past the store: a million schedules
//! in one statement.

mod postgres;
mod sqlite;

use std::time::Duration;

use async_trait::async_trait;
use punctual_core::Timestamp;

use super::lot::Lot;
use crate::Failure;
use crate::databases::Database;

/// A slot that was decided later than this lay behind.
pub(crate) use punctual_core::schedule::ON_TIME;

/// A database with our tables, and a connection that is none of ours.
#[async_trait(?Send)]
pub(crate) trait Table {
    /// The database's clock.
    async fn now(&self) -> Result<Timestamp, Failure>;

    /// Writes the schedules of a lot; none is due for a day.
    async fn fill(&self, lot: &Lot) -> Result<(), Failure>;

    /// Makes this the next slot of all schedules of a class, and says how many these are.
    async fn stage(&self, lot: &Lot, class: usize, slot: Timestamp) -> Result<usize, Failure>;

    /// How long after its slot each decision of a lot's schedules came, for slots from this one on,
    /// without those that stand for many.
    async fn late(&self, lot: &Lot, from: Timestamp) -> Result<Vec<Duration>, Failure>;

    /// How many rows the ledger has for slots of a lot that were not decided on time.
    async fn rows_behind(&self, lot: &Lot) -> Result<usize, Failure>;

    /// Is any schedule due since before this?
    async fn is_behind(&self, since: Timestamp) -> Result<bool, Failure>;
}

/// Makes the tables, and opens them.
pub(crate) async fn open(database: &Database) -> Result<Box<dyn Table>, Failure> {
    drop(database.store().await?);
    Ok(match database {
        Database::Sqlite(path) => Box::new(sqlite::open(path)?),
        Database::Postgres(database) => Box::new(postgres::open(database).await?),
    })
}
