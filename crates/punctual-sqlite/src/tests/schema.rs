//! The schema as SQLite holds it.

use rusqlite::Connection;

use super::fresh;
use crate::{lists, migrations_sql, sql};

/// Everything that a file defines, in one text.
fn schema_of(db: &Connection) -> String {
    let text = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name LIKE 'punctual%' \
                ORDER BY tbl_name, type DESC, name";
    lists::all(db, text, [], |row| row.get::<_, String>(0)).unwrap().join(";\n\n") + ";\n"
}

#[test]
fn the_schema_is_the_one_that_was_written_down() {
    let (directory, store) = fresh();
    let db = Connection::open(directory.path().join("jobs.db")).unwrap();
    insta::assert_snapshot!("schema", schema_of(&db));
    drop(store);
}

#[test]
fn the_printed_migrations_make_the_same_schema() {
    let (directory, store) = fresh();
    let db = Connection::open(directory.path().join("jobs.db")).unwrap();
    let by_hand = Connection::open_in_memory().unwrap();
    by_hand.execute_batch(&migrations_sql()).unwrap();
    assert_eq!(schema_of(&by_hand), schema_of(&db));
    assert_eq!(crate::migrate::version(&by_hand).unwrap(), crate::migrate::version(&db).unwrap());
    drop(store);
}

#[test]
fn every_statement_is_headed_and_fits_the_schema() {
    let (_directory, store) = fresh();
    let db = Connection::open(store.path()).unwrap();
    for (name, text) in sql::ALL {
        assert!(text.starts_with("-- "), "{name} has no header");
        if !text.contains('{') {
            db.prepare(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).unwrap().count();
    assert_eq!(files, sql::ALL.len(), "a file of `sql` is not embedded");
}
