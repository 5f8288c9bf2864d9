//! Whether the tables, and the server's settings for them, are as they should be.

use punctual_store::{At, Retention};
use tokio_postgres::types::Type;

use crate::connection::{Conn, IDLE_MS, LOCK_MS, STATEMENT_MS};
use crate::error::Outcome;
use crate::{partitions, rows};

/// Indexes that PostgreSQL does not use, since making them was broken off.
const INVALID: &str = "SELECT c.relname::text FROM pg_index AS i \
    JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace \
    WHERE n.nspname = $1 AND NOT i.indisvalid ORDER BY c.relname";

/// Timeouts that are not set for this role: 0 is none at all.
const ENDLESS: &str = "SELECT s.name, current_user::text \
    FROM unnest($1::text[]) WITH ORDINALITY AS s(name, number) \
    WHERE current_setting(s.name) = '0' ORDER BY s.number";

/// The timeouts that a role behind a pooler has for all of its sessions, in milliseconds.
const TIMEOUTS: [(&str, u32); 3] = [
    ("statement_timeout", STATEMENT_MS),
    ("lock_timeout", LOCK_MS),
    ("idle_in_transaction_session_timeout", IDLE_MS),
];

/// What is amiss. `days_ahead` and `is_pooled` say how the store is meant to be.
pub(crate) async fn faults(
    conn: &mut Conn,
    at: At,
    retention: &Retention,
    days_ahead: u32,
    is_pooled: bool,
) -> Outcome<Vec<String>> {
    let schema = conn.texts().schema().to_owned();
    let mut faults = Vec::new();
    for row in &conn.query_text(INVALID, &[(&schema, Type::TEXT)]).await? {
        let index: &str = rows::get(row, 0)?;
        faults.push(format!(
            "index `{schema}.{index}` is invalid and not used; rebuild it with REINDEX INDEX \
             CONCURRENTLY {schema}.{index}"
        ));
    }
    if is_pooled {
        faults.extend(endless(conn).await?);
    }
    if days_ahead > 0 && !partitions::is_ahead(conn, at).await? {
        faults.push(
            "the partitions for tomorrow are missing; check that a node leads `maintenance`, \
             which creates them"
                .to_owned(),
        );
    }
    if let Some((oldest, count)) = partitions::overdue(conn, at, retention).await? {
        faults.push(format!(
            "partitions of {count} days, starting with {oldest}, are past their retention; read \
             the log of the node that leads `maintenance`, or check whether nodes use a longer \
             retention"
        ));
    }
    Ok(faults)
}

/// Behind a pooler no session is ours to set timeouts in, so that the role must have them.
async fn endless(conn: &mut Conn) -> Outcome<Vec<String>> {
    let names = TIMEOUTS.map(|(name, _)| name).to_vec();
    let mut faults = Vec::new();
    for row in &conn.query_text(ENDLESS, &[(&names, Type::TEXT_ARRAY)]).await? {
        let (name, role): (&str, &str) = (rows::get(row, 0)?, rows::get(row, 1)?);
        let most = TIMEOUTS.iter().find(|(known, _)| *known == name).map_or(0, |(_, most)| *most);
        faults.push(format!(
            "role `{role}` has no {name}, so a hung session behind the pooler never times out; \
             set it with ALTER ROLE {role} SET {name} = '{most}ms'"
        ));
    }
    Ok(faults)
}
