//! The same in a transaction of sqlx. Parameters are encoded and rows are read by the types of
//! tokio-postgres: on the wire both drivers speak the same.

use std::sync::Arc;

use punctual_store::{Enqueued, NewJob, Result, Settled, Settlement, StoreError};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{
    PgArgumentBuffer, PgArguments, PgConnection, PgDatabaseError, PgRow, PgTypeInfo, Postgres,
};
use sqlx::{Arguments, AssertSqlSafe, Connection, Encode, Row as _, ValueRef};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{self, FromSql, ToSql};

use super::InTransaction;
use crate::connection::Bound;
use crate::error::{Fault, Outcome, explain_state, unreachable};
use crate::rows::Read;
use crate::session::{Fields, Session};
use crate::sql::Statement;

impl InTransaction {
    /// Writes jobs in a transaction of sqlx; see [`InTransaction::enqueue`].
    pub async fn enqueue_sqlx(&self, db: &mut PgConnection, jobs: &[NewJob]) -> Result<Enqueued> {
        check_begun(db)?;
        self.enqueue_by(&mut Theirs { db, of: self }, jobs).await
    }

    /// Settles an attempt in a transaction of sqlx; see [`InTransaction::settle`].
    pub async fn settle_sqlx(&self, db: &mut PgConnection, item: &Settlement) -> Result<Settled> {
        check_begun(db)?;
        self.settle_by(&mut Theirs { db, of: self }, item).await
    }
}

/// Outside of a transaction each statement would be one of its own.
fn check_begun(db: &PgConnection) -> Result<()> {
    if db.is_in_transaction() {
        return Ok(());
    }
    let message = "no open transaction on this connection; start one with sqlx's `begin`, because \
        sqlx does not detect a manual BEGIN";
    Err(StoreError::invalid(message))
}

/// A transaction of sqlx.
struct Theirs<'a> {
    db: &'a mut PgConnection,
    of: &'a InTransaction,
}

impl Session for Theirs<'_> {
    type Row = PgRow;

    async fn query(&mut self, statement: &Statement, bound: Bound<'_>) -> Outcome<Vec<PgRow>> {
        let mut arguments = PgArguments::default();
        for (value, of) in bound.iter().zip(statement.types) {
            let added = arguments.add(Encoded { value: *value, of });
            added.map_err(|error| Fault::Row(error.to_string()))?;
        }
        let text = AssertSqlSafe(self.of.texts.of(statement));
        // Unnamed: a pooler may know no names, and the caller's cache is not ours to fill.
        let query = sqlx::query_with(text, arguments).persistent(false);
        let found = query.fetch_all(&mut *self.db).await;
        found.map_err(|error| {
            let explained = explain(&error, &self.of.server);
            Fault::Store(explained.caused_by(Arc::new(error)))
        })
    }
}

fn explain(error: &sqlx::Error, server: &str) -> StoreError {
    let database = error.as_database_error().and_then(|error| {
        let database = error.try_downcast_ref::<PgDatabaseError>()?;
        let state = SqlState::from_code(database.code());
        let is_new_day = state == SqlState::CHECK_VIOLATION && database.constraint().is_none();
        Some(explain_state(&state, database.message(), is_new_day, server))
    });
    database.unwrap_or_else(|| unreachable(&error.to_string(), server))
}

/// A parameter, of the type that the statement declares.
struct Encoded<'a> {
    value: &'a (dyn ToSql + Sync),
    of: &'a types::Type,
}

impl Encode<'_, Postgres> for Encoded<'_> {
    fn encode_by_ref(
        &self,
        buffer: &mut PgArgumentBuffer,
    ) -> std::result::Result<IsNull, BoxDynError> {
        let mut bytes = BytesMut::new();
        Ok(match self.value.to_sql_checked(self.of, &mut bytes)? {
            types::IsNull::Yes => IsNull::Yes,
            types::IsNull::No => {
                buffer.extend_from_slice(&bytes);
                IsNull::No
            }
        })
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(self.of.oid())))
    }
}

impl sqlx::Type<Postgres> for Encoded<'_> {
    /// Each value says which type it has.
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(types::Type::UNKNOWN.oid()))
    }
}

impl Fields for PgRow {
    fn get<'a, T: FromSql<'a>>(&'a self, index: usize) -> Read<T> {
        let unreadable = |why: String| Fault::Row(format!("column {index}: {why}"));
        let value = self.try_get_raw(index).map_err(|error| unreadable(error.to_string()))?;
        let oid = value.type_info().oid().map_or(0, |oid| oid.0);
        let of = types::Type::from_oid(oid)
            .filter(T::accepts)
            .ok_or_else(|| unreadable(format!("unexpected type {oid}")))?;
        let raw = match value.is_null() {
            true => None,
            false => Some(value.as_bytes().map_err(|error| unreadable(error.to_string()))?),
        };
        T::from_sql_nullable(&of, raw).map_err(|error| unreadable(error.to_string()))
    }
}
