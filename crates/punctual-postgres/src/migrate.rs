//! The schema: numbered migrations, each applied once, whoever comes first.

use std::fmt::Write as _;
use std::time::Duration;

use punctual_core::hash;
use punctual_store::{ErrorKind, Result, SchemaVersions, StoreError};
use tokio_postgres::types::Type;

use crate::connection::Conn;
use crate::error::Outcome;
use crate::options::check_schema;
use crate::rows;
use crate::sql::{self, qualify};

/// A step from one schema to the next. Programs one version older run on, unless it is breaking.
struct Migration {
    number: i64,
    name: &'static str,
    is_breaking: bool,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[Migration {
    number: 1,
    name: "tables",
    is_breaking: true,
    sql: include_str!("../migrations/0001_tables.sql"),
}];

/// The schema that this program writes.
pub const LATEST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].number;

const VERSION: &str = "schema_version";
const BREAKING: &str = "schema_breaking";

/// Twenty nodes that start at once wait for the first of them: as long as a migration may take.
const SETTINGS: &str = "SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = '60s'; \
                        SET LOCAL idle_in_transaction_session_timeout = '60s'";

/// The server says first that it took too long.
const PATIENCE: Duration = Duration::from_secs(70);

/// The number of the last migration of a schema and of the last breaking one; 0 if it has none.
pub(crate) async fn version(conn: &mut Conn) -> Outcome<(i64, i64)> {
    // From the catalog itself: a name that was looked up in vain before is not looked up again in
    // the same transaction, though somebody has made the table meanwhile.
    let schema = conn.texts().schema().to_owned();
    let text = "SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
                WHERE n.nspname = $1 AND c.relname = 'meta'";
    let found = conn.query_text(text, &[(&schema, Type::TEXT)]).await?;
    let mut numbers = (0, 0);
    if !found.is_empty() {
        for row in &conn.query(&sql::META_GET, &[]).await? {
            match rows::get::<&str>(row, 0)? {
                VERSION => numbers.0 = rows::get(row, 1)?,
                BREAKING => numbers.1 = rows::get(row, 1)?,
                _ => {}
            }
        }
    }
    Ok(numbers)
}

/// Can this program work with a schema of this version, migrating it if it may?
pub(crate) fn check(
    place: &str,
    (version, breaking): (i64, i64),
    auto_migrate: bool,
) -> Result<()> {
    let versions = SchemaVersions { found: version, needed: LATEST };
    if breaking > LATEST {
        let message = format!(
            "{place} has version {version}, this program supports up to {LATEST}; upgrade the \
             program, or restore a backup from before the upgrade"
        );
        return Err(StoreError::new(ErrorKind::SchemaTooNew, message).with_schema(versions));
    }
    if version < LATEST && !auto_migrate {
        let message = format!(
            "{place} has version {version}, this program needs {LATEST}; run `punctual db migrate`"
        );
        return Err(StoreError::new(ErrorKind::SchemaTooOld, message).with_schema(versions));
    }
    Ok(())
}

/// Brings a schema up to date. Whoever comes second waits and finds it done.
pub(crate) async fn apply(conn: &mut Conn) -> Outcome<()> {
    if version(conn).await?.0 >= LATEST {
        return Ok(());
    }
    let schema = conn.texts().schema().to_owned();
    conn.begin().await?;
    conn.be_patient(PATIENCE);
    conn.script(&format!("{SETTINGS}; {}", lock(&schema))).await?;
    let (version, _) = version(conn).await?;
    if version == 0 && !exists(conn, &schema).await? {
        conn.script(&format!("CREATE SCHEMA {schema}")).await?;
    }
    for migration in MIGRATIONS.iter().filter(|migration| migration.number > version) {
        conn.script(&qualify(migration.sql, &schema)).await?;
        for (name, number) in numbers(migration) {
            conn.query(&sql::META_PUT, &[&name, &number]).await?;
        }
    }
    conn.commit().await
}

/// Holds others who change the tables of this schema until the end of the transaction.
pub(crate) fn lock(schema: &str) -> String {
    let number = hash::mix(hash::seed(&format!("punctual {schema}"))) as i64;
    format!("SELECT pg_advisory_xact_lock({number})")
}

/// A role that may not create schemas may still be given one.
async fn exists(conn: &mut Conn, schema: &str) -> Outcome<bool> {
    let text = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
    let found = conn.query_text(text, &[(&schema, Type::TEXT)]).await?;
    Ok(!found.is_empty())
}

/// What `meta` says after a migration.
fn numbers(migration: &Migration) -> impl Iterator<Item = (&'static str, i64)> {
    let breaking = migration.is_breaking.then_some((BREAKING, migration.number));
    std::iter::once((VERSION, migration.number)).chain(breaking)
}

/// All migrations as SQL, for those who apply them by hand. The schema's name must be a plain word.
pub fn migrations_sql(schema: &str) -> Result<String> {
    check_schema(schema)?;
    let mut text = format!("CREATE SCHEMA IF NOT EXISTS {schema};\n");
    for migration in MIGRATIONS {
        let Migration { number, name, sql, .. } = migration;
        let sql = qualify(sql, schema);
        // Writing to a string cannot fail.
        let _ = write!(text, "-- Migration {number:04}_{name}\nBEGIN;\n{sql}");
        for (name, number) in numbers(migration) {
            let _ = writeln!(
                text,
                "INSERT INTO {schema}.meta (name, value) VALUES ('{name}', {number})\n  \
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value;"
            );
        }
        text.push_str("COMMIT;\n");
    }
    Ok(text)
}
