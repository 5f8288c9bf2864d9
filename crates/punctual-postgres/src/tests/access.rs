//! The order in which statements reach the tables of unfinished work: it must not depend on statistics.
//!
//! These tables are empty most of the time and full in a burst. Statistics are made now and then, and plans
//! are kept, so that a plan for an empty table meets a full one. Each statement is explained on a connection
//! with the settings of the store's own.

use std::collections::HashMap;

use serde_json::Value;
use tokio_postgres::Client;

use super::{Schema, connect};
use crate::sql::{self, Statement, qualify};

/// The tables that grow and shrink with the load.
const TABLES: [&str; 8] = [
    "job_lease",
    "job_live",
    "job_key",
    "job_wait",
    "job_timer",
    "job_ready",
    "job_deadline",
    "schedule",
];

/// Statements that are not checked.
const UNCHECKED: [&str; 4] = [
    // A template; `plans.rs` explains what is made of it.
    "jobs",
    // Reads all leases, once per pass of the reaper.
    "lease_orphans",
    // Counts all jobs, in a small share of the maintenance leader's time.
    "queue_count",
    // Counts all jobs, while there are few.
    "queue_stats_live",
];

/// Autovacuum would make statistics at a moment of its own.
const NO_AUTOVACUUM: &str = "ALTER TABLE {schema}.{table} SET (autovacuum_enabled = false)";

const FILL: &str = "
  INSERT INTO {schema}.job_lease (job, lease, node, queue, kind, due_at, claimed_at, attempt, spent, crashes, priority, flags)
  SELECT gen_random_uuid(), gen_random_uuid(), md5((n % 25)::text)::uuid, 'default', 'send', now(), now(), 1, 0, 0, 0, 0
  FROM generate_series(1, 20000) AS n;
  INSERT INTO {schema}.job_live (schedule, job)
  SELECT s.id, gen_random_uuid()
  FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, 500)) AS s, generate_series(1, 40);
  INSERT INTO {schema}.job_wait (schedule, slot, job, due_at, queue, kind, attempt, spent, crashes, priority, flags)
  SELECT schedule, now(), job, now(), 'default', 'send', 0, 0, 0, 0, 8 FROM {schema}.job_live;
  INSERT INTO {schema}.job_key (tenant, key, job, hash, expires_at)
  SELECT '', n::text, gen_random_uuid(), uuid_send(gen_random_uuid()), CASE WHEN n % 2 = 0 THEN now() END FROM generate_series(1, 20000) AS n;
  INSERT INTO {schema}.job_timer (job, due_at, queue, kind, attempt, spent, crashes, priority, flags)
  SELECT gen_random_uuid(), now() + n * interval '1 second', 'default', 'send', 0, 0, 0, 0, 0
  FROM generate_series(1, 20000) AS n;
  INSERT INTO {schema}.job_ready (job, queue, rank, kind, due_at, attempt, spent, crashes, priority, flags)
  SELECT gen_random_uuid(), 'default', now(), 'send', now(), 0, 0, 0, 0, 0 FROM generate_series(1, 20000) AS n;
  INSERT INTO {schema}.job_deadline (check_at, job)
  SELECT now() + n * interval '1 second', gen_random_uuid() FROM generate_series(1, 20000) AS n;
  INSERT INTO {schema}.schedule (id, tenant, name, owner, set_name, shard, enabled, revision, stamp, next_slot, created_at, changed_at)
  SELECT gen_random_uuid(), '', 's' || n, '', 'code:' || n % 20, 0, true, 1, 1, now() + n * interval '1 second', now(), now()
  FROM generate_series(1, 20000) AS n";

/// Runs a text with `{table}` in it for each table.
async fn for_each_table(client: &Client, schema: &str, text: &str) {
    for table in TABLES {
        let text = qualify(text, schema).replace("{table}", table);
        client.batch_execute(&text).await.unwrap();
    }
}

async fn fill(client: &Client, schema: &str) {
    client.batch_execute(&qualify(FILL, schema)).await.unwrap();
}

/// The first column of each index.
async fn leading_columns(client: &Client, schema: &str) -> HashMap<String, String> {
    let found = client
        .query(
            "SELECT c.relname::text, a.attname::text
             FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
             JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
             WHERE c.relnamespace = $1::text::regnamespace",
            &[&schema],
        )
        .await
        .unwrap();
    found.iter().map(|row| (row.get(0), row.get(1))).collect()
}

async fn explain(client: &Client, schema: &str, statement: &Statement) -> Value {
    let types: Vec<&str> = statement.types.iter().map(|of| of.name()).collect();
    let values = vec!["NULL"; types.len()];
    let list = |items: &[&str]| match items {
        [] => String::new(),
        _ => format!("({})", items.join(", ")),
    };
    let prepare = format!("PREPARE plan {} AS {}", list(&types), qualify(statement.text, schema));
    client.batch_execute(&prepare).await.unwrap_or_else(|error| panic!("{error:?}\n{prepare}"));
    let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE plan {}", list(&values));
    let plan = super::plans::explained(client.simple_query(&explain).await.unwrap());
    client.batch_execute("DEALLOCATE plan").await.unwrap();
    let plan: Value = serde_json::from_str(&plan).unwrap();
    plan[0]["Plan"].clone()
}

fn text<'a>(node: &'a Value, key: &str) -> &'a str {
    node[key].as_str().unwrap_or_default()
}

fn children(node: &Value) -> &[Value] {
    node["Plans"].as_array().map_or(&[], Vec::as_slice)
}

fn is_scan(node: &Value) -> bool {
    TABLES.contains(&text(node, "Relation Name")) && text(node, "Node Type").ends_with("Scan")
}

/// The names under which the tables are scanned below a node.
fn scanned(node: &Value) -> Vec<&str> {
    let own = is_scan(node).then(|| text(node, "Alias"));
    own.into_iter().chain(children(node).iter().flat_map(scanned)).collect()
}

/// Whether the scan finds its rows by the beginning of an index, or by their position in the table, or takes
/// the first row in the order of an index.
fn is_bounded(scan: &Value, parent: &Value, leading: &HashMap<String, String>) -> bool {
    let by_index = |node: &Value| {
        let (condition, index) = (text(node, "Index Cond"), text(node, "Index Name"));
        // A condition that only excludes null reads the whole index.
        let compares = |column: &String| {
            ["=", "<", ">"].iter().any(|sign| condition.contains(&format!("({column} {sign}")))
        };
        leading
            .get(index)
            .is_some_and(|column| compares(column) || condition.contains(&format!("ROW({column},")))
    };
    match text(scan, "Node Type") {
        "Tid Scan" => true,
        "Bitmap Heap Scan" => {
            let mut bitmaps =
                children(scan).iter().filter(|node| text(node, "Node Type").starts_with("Bitmap"));
            bitmaps.all(by_index)
        }
        "Index Scan" | "Index Only Scan" => {
            let is_first = text(parent, "Node Type") == "Limit" && scan["Filter"].is_null();
            by_index(scan) || is_first && scan["Index Cond"].is_null()
        }
        _ => false,
    }
}

/// Adds what is wrong with a plan.
fn judge(node: &Value, parent: &Value, leading: &HashMap<String, String>, wrong: &mut Vec<String>) {
    if is_scan(node) && !is_bounded(node, parent, leading) {
        wrong.push(format!(
            "{} on {} by {:?}, condition {:?}, filter {:?}",
            text(node, "Node Type"),
            text(node, "Relation Name"),
            text(node, "Index Name"),
            text(node, "Index Cond"),
            text(node, "Filter"),
        ));
    }
    let filter = text(node, "Join Filter");
    for name in scanned(node) {
        if filter.contains(&format!("({name}.")) || filter.contains(&format!(" {name}.")) {
            wrong.push(format!("join filter {filter}"));
        }
    }
    for child in children(node) {
        judge(child, node, leading, wrong);
    }
}

/// Explains every statement that reads one of the tables, and says which do not go by an index.
async fn judge_all(schema: &Schema, state: &str) -> String {
    let store = schema.open().await;
    let (client, connection) = store.connector.with_fixed_plans().open().await.unwrap();
    tokio::spawn(connection);
    let leading = leading_columns(&client, &schema.0).await;
    let mut report = String::new();
    for statement in sql::ALL {
        let is_end =
            |rest: &str| !rest.starts_with(|next: char| next == '_' || next.is_alphanumeric());
        let reads =
            |table: &&str| statement.text.split(&format!("{{schema}}.{table}")).skip(1).any(is_end);
        if UNCHECKED.contains(&statement.name) || !TABLES.iter().any(reads) {
            continue;
        }
        let mut wrong = Vec::new();
        let plan = explain(&client, &schema.0, statement).await;
        judge(&plan, &Value::Null, &leading, &mut wrong);
        for line in wrong {
            report += &format!("{state}: {}: {line}\n", statement.name);
        }
    }
    report
}

#[tokio::test]
async fn access_goes_by_an_index_if_the_tables_were_never_analysed() {
    let (schema, client) = (Schema::new(), connect().await);
    drop(schema.open().await);
    for_each_table(&client, &schema.0, NO_AUTOVACUUM).await;
    fill(&client, &schema.0).await;
    let wrong = judge_all(&schema, "never analysed").await;
    assert!(wrong.is_empty(), "{wrong}");
}

#[tokio::test]
async fn access_goes_by_an_index_if_the_tables_were_analysed_while_empty() {
    let (schema, client) = (Schema::new(), connect().await);
    drop(schema.open().await);
    for_each_table(&client, &schema.0, NO_AUTOVACUUM).await;
    for_each_table(&client, &schema.0, "VACUUM ANALYZE {schema}.{table}").await;
    let mut wrong = judge_all(&schema, "analysed before the first row").await;
    fill(&client, &schema.0).await;
    // Unlike a vacuum, this leaves the pages.
    for_each_table(&client, &schema.0, "DELETE FROM {schema}.{table}").await;
    for_each_table(&client, &schema.0, "ANALYZE {schema}.{table}").await;
    fill(&client, &schema.0).await;
    wrong += &judge_all(&schema, "analysed while empty with pages left").await;
    assert!(wrong.is_empty(), "{wrong}");
}

/// The ordinary autovacuum of an idle moment. A plan that is made before the next burst is kept in it.
#[tokio::test]
async fn access_goes_by_an_index_if_the_tables_were_vacuumed_while_empty() {
    let (schema, client) = (Schema::new(), connect().await);
    drop(schema.open().await);
    for_each_table(&client, &schema.0, NO_AUTOVACUUM).await;
    fill(&client, &schema.0).await;
    for_each_table(&client, &schema.0, "DELETE FROM {schema}.{table}").await;
    // The pages of the tables are gone after it, and those of the indexes are left.
    for_each_table(&client, &schema.0, "VACUUM ANALYZE {schema}.{table}").await;
    let mut wrong = judge_all(&schema, "vacuumed while empty").await;
    fill(&client, &schema.0).await;
    wrong += &judge_all(&schema, "vacuumed while empty, then filled").await;
    assert!(wrong.is_empty(), "{wrong}");
}

#[tokio::test]
async fn access_goes_by_an_index_if_the_tables_were_analysed_while_full() {
    let (schema, client) = (Schema::new(), connect().await);
    drop(schema.open().await);
    for_each_table(&client, &schema.0, NO_AUTOVACUUM).await;
    fill(&client, &schema.0).await;
    for_each_table(&client, &schema.0, "ANALYZE {schema}.{table}").await;
    let wrong = judge_all(&schema, "analysed while full").await;
    assert!(wrong.is_empty(), "{wrong}");
}
