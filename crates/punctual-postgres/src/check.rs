//! Whether the tables are as they should be.

use punctual_store::At;
use tokio_postgres::types::Type;

use crate::connection::Conn;
use crate::error::Outcome;
use crate::{partitions, rows};

/// Indexes that PostgreSQL does not use, since making them was broken off.
const INVALID: &str = "SELECT c.relname::text FROM pg_index AS i \
    JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace \
    WHERE n.nspname = $1 AND NOT i.indisvalid ORDER BY c.relname";

pub(crate) async fn faults(conn: &mut Conn) -> Outcome<Vec<String>> {
    let schema = conn.texts().schema().to_owned();
    let mut faults = Vec::new();
    for row in &conn.query_text(INVALID, &[(&schema, Type::TEXT)]).await? {
        let index: &str = rows::get(row, 0)?;
        faults.push(format!(
            "the index `{schema}.{index}` is invalid and not used; make it again with REINDEX INDEX CONCURRENTLY {schema}.{index}"
        ));
    }
    if !partitions::is_ahead(conn, At::Database).await? {
        faults.push(
            "tomorrow has no partitions yet; see that a node leads `maintenance`, which makes them"
                .to_owned(),
        );
    }
    Ok(faults)
}
