//! Whoever runs our statements: a connection of ours, or a transaction of the caller's.

use std::error::Error;
use std::future::Future;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::connection::{Bound, Conn, first};
use crate::error::{Fault, Outcome};
use crate::rows::Read;
use crate::sql::Statement;

/// What can be asked. The statements, their parameters and what follows from their answers are the
/// same for every driver.
pub(crate) trait Session: Send {
    type Row: Fields + Send;

    /// Runs a statement.
    fn query(
        &mut self,
        statement: &Statement,
        bound: Bound<'_>,
    ) -> impl Future<Output = Outcome<Vec<Self::Row>>> + Send;

    /// Runs a statement that answers with one row.
    fn query_one(
        &mut self,
        statement: &Statement,
        bound: Bound<'_>,
    ) -> impl Future<Output = Outcome<Self::Row>> + Send {
        async move { first(self.query(statement, bound).await?, statement.name) }
    }
}

/// A row, whichever driver has read it.
pub(crate) trait Fields {
    /// A value, read as the type that the column has.
    fn get<'a, T: FromSql<'a>>(&'a self, index: usize) -> Read<T>;
}

impl Session for Conn {
    type Row = Row;

    async fn query(&mut self, statement: &Statement, bound: Bound<'_>) -> Outcome<Vec<Row>> {
        Conn::query(self, statement, bound).await
    }
}

impl Fields for Row {
    fn get<'a, T: FromSql<'a>>(&'a self, index: usize) -> Read<T> {
        self.try_get(index).map_err(|error| {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            Fault::Row(format!("{error}{cause}"))
        })
    }
}
