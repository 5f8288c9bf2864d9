//! The schema as PostgreSQL holds it.

use std::fmt::Write as _;

use tokio_postgres::Client;

use super::{Schema, connect};
use crate::{migrate, migrations_sql, sql};

/// Everything that a schema defines, in one text, with its name left out.
async fn schema_of(client: &Client, schema: &str) -> String {
    let columns = client
        .query(
            "SELECT c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, \
             pg_get_expr(d.adbin, d.adrelid), coalesce(l.collname::text, ''), a.attidentity::text \
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
             LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum \
             LEFT JOIN pg_collation l ON l.oid = a.attcollation AND l.collname = 'C' \
             WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') ORDER BY c.relname, a.attnum",
            &[&schema],
        )
        .await
        .unwrap();
    let mut text = String::new();
    let mut last = String::new();
    for row in &columns {
        let table: String = row.get(0);
        if table != last {
            write!(text, "\n{table}\n").unwrap();
            last = table;
        }
        let (name, of, not_null): (&str, &str, bool) = (row.get(1), row.get(2), row.get(3));
        let default = row.get::<_, Option<&str>>(4).map(|text| format!(" = {text}"));
        let collation = row.get::<_, &str>(5);
        let null = if not_null { " NOT NULL" } else { "" };
        let identity = if row.get::<_, &str>(6).is_empty() { "" } else { " IDENTITY" };
        let collation = if collation.is_empty() { "" } else { " COLLATE C" };
        writeln!(text, "  {name} {of}{collation}{null}{identity}{}", default.unwrap_or_default())
            .unwrap();
    }
    let rest = client
        .query(
            "SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
             JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 \
             UNION ALL SELECT c.relname || ' partition of ' || p.relname || ' ' || pg_get_expr(c.relpartbound, c.oid) \
             FROM pg_class c JOIN pg_inherits h ON h.inhrelid = c.oid JOIN pg_class p ON p.oid = h.inhparent \
             JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r' \
             UNION ALL SELECT c.relname || ' with ' || array_to_string(c.reloptions, ', ') \
             FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE n.nspname = $1 AND c.reloptions IS NOT NULL ORDER BY 1",
            &[&schema],
        )
        .await
        .unwrap();
    text.push('\n');
    for row in &rest {
        writeln!(text, "{}", row.get::<_, String>(0)).unwrap();
    }
    text.replace(&format!("{schema}."), "")
}

#[tokio::test]
async fn the_schema_is_the_one_that_was_written_down() {
    let schema = Schema::new();
    let _store = schema.open().await;
    insta::assert_snapshot!("schema", schema_of(&connect().await, &schema.0).await);
}

#[tokio::test]
async fn the_printed_migrations_make_the_same_schema() {
    let (made, by_hand) = (Schema::new(), Schema::new());
    let _store = made.open().await;
    let client = connect().await;
    client.batch_execute(&migrations_sql(&by_hand.0).unwrap()).await.unwrap();
    assert_eq!(schema_of(&client, &by_hand.0).await, schema_of(&client, &made.0).await);
    // Nothing is left to be done, so it may be forbidden.
    let options = by_hand.options().auto_migrate(false);
    let store = crate::PostgresStore::connect(&super::url(), options).await.unwrap();
    let mut conn = store.pool.take().await.unwrap();
    assert_eq!(migrate::version(&mut conn).await.unwrap(), (migrate::LATEST, migrate::LATEST));
}

#[tokio::test]
async fn twenty_stores_that_open_at_once_migrate_once() {
    let schema = Schema::new();
    let options = schema.options().days_ahead(2);
    let opening = (0..20).map(|_| {
        let options = options.clone();
        tokio::spawn(async move { crate::PostgresStore::connect(&super::url(), options).await })
    });
    for opened in opening.collect::<Vec<_>>() {
        opened.await.unwrap().unwrap();
    }
    let client = connect().await;
    let days = client
        .query("SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname ~ '^job_[0-9]{8}$'", &[&&*schema.0])
        .await
        .unwrap();
    assert_eq!(days.len(), 3);
}

#[tokio::test]
async fn every_statement_is_headed_and_fits_the_schema() {
    let schema = Schema::new();
    let _store = schema.open().await;
    let client = connect().await;
    for statement in sql::ALL {
        assert!(statement.text.starts_with("-- "), "{} has no header", statement.name);
        let text = sql::qualify(statement.text, &schema.0);
        if !text.contains('{') {
            let prepared = client.prepare_typed(&text, statement.types).await;
            let prepared = prepared.unwrap_or_else(|error| panic!("{}: {error:?}", statement.name));
            assert_eq!(prepared.params(), statement.types, "{}", statement.name);
        }
    }
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).unwrap().count();
    assert_eq!(files, sql::ALL.len(), "a file of `sql` is not embedded");
}
