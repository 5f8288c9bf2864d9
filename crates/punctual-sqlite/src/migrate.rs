//! The schema: numbered migrations, each applied once, whoever comes first.

use std::fmt::Write as _;
use std::path::Path;

use punctual_store::{ErrorKind, Result, SchemaVersions, StoreError};
use rusqlite::Connection;

use crate::open::meta;
use crate::sql;

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

pub(crate) const VERSION: &str = "schema_version";
pub(crate) const BREAKING: &str = "schema_breaking";

/// Is there a table that says which schema a file has?
pub(crate) const HAS_META: &str =
    "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'punctual_meta'";

/// The number of the last migration of a file and of the last breaking one; 0 if it has none.
pub(crate) fn version(db: &Connection) -> rusqlite::Result<(i64, i64)> {
    let has_meta: bool = db.query_row(HAS_META, [], |row| row.get(0))?;
    if has_meta { Ok((meta(db, VERSION)?, meta(db, BREAKING)?)) } else { Ok((0, 0)) }
}

/// Can this program work with a file of this version, migrating it if it may?
pub(crate) fn check(path: &Path, version: i64, breaking: i64, auto_migrate: bool) -> Result<()> {
    let shown = path.display();
    let versions = SchemaVersions { found: version, needed: LATEST };
    if breaking > LATEST {
        let message = format!(
            "`{shown}` has schema version {version}, this program supports up to {LATEST}; \
             upgrade the program, or restore a backup from before the upgrade"
        );
        return Err(StoreError::new(ErrorKind::SchemaTooNew, message).with_schema(versions));
    }
    if version < LATEST && !auto_migrate {
        let message = format!(
            "`{shown}` has schema version {version}, this program needs {LATEST}; run `punctual \
             db migrate`"
        );
        return Err(StoreError::new(ErrorKind::SchemaTooOld, message).with_schema(versions));
    }
    Ok(())
}

/// Brings a file up to date. Whoever comes second waits and finds it done.
pub(crate) fn apply(db: &Connection) -> rusqlite::Result<()> {
    if version(db)?.0 >= LATEST {
        return Ok(());
    }
    db.execute_batch("BEGIN IMMEDIATE")?;
    let applied = apply_rest(db).and_then(|()| db.execute_batch("COMMIT"));
    if applied.is_err() && !db.is_autocommit() {
        // What went wrong first is what is told.
        let _ = db.execute_batch("ROLLBACK");
    }
    applied
}

fn apply_rest(db: &Connection) -> rusqlite::Result<()> {
    let (version, _) = version(db)?;
    for migration in MIGRATIONS.iter().filter(|migration| migration.number > version) {
        db.execute_batch(migration.sql)?;
        for (name, number) in numbers(migration) {
            db.execute(sql::META_PUT, (name, number))?;
        }
    }
    Ok(())
}

/// What `punctual_meta` says after a migration.
fn numbers(migration: &Migration) -> impl Iterator<Item = (&'static str, i64)> {
    let breaking = migration.is_breaking.then_some((BREAKING, migration.number));
    std::iter::once((VERSION, migration.number)).chain(breaking)
}

/// All migrations as SQL, for those who apply them by hand.
pub fn migrations_sql() -> String {
    let mut text = String::new();
    for migration in MIGRATIONS {
        let Migration { number, name, sql, .. } = migration;
        // Writing to a string cannot fail.
        let _ = write!(text, "-- Migration {number:04}_{name}\nBEGIN IMMEDIATE;\n{sql}");
        for (name, number) in numbers(migration) {
            let _ = writeln!(
                text,
                "INSERT OR REPLACE INTO punctual_meta (name, value) VALUES ('{name}', {number});"
            );
        }
        text.push_str("COMMIT;\n");
    }
    text
}
