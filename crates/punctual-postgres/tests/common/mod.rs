//! Where the tests find PostgreSQL, and a schema for each of them that goes with it.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use punctual_conformance::Subject;
pub(crate) use punctual_conformance::support::ThrowawaySchema as Schema;
use punctual_postgres::{Options, PostgresStore};
use punctual_store::Store;
use punctual_store::rules::Spoil;
use tokio_postgres::NoTls;

/// The server, without anything in between.
pub(crate) fn direct_url() -> String {
    setting("PUNCTUAL_TEST_POSTGRES")
}

/// The same server through a pooler in transaction mode.
pub(crate) fn pooled_url() -> String {
    setting("PUNCTUAL_TEST_PGBOUNCER")
}

fn setting(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set; run the tests with `cargo xtask test`"))
}

/// A name that no other test uses.
pub(crate) fn schema() -> String {
    static SCHEMAS: AtomicU64 = AtomicU64::new(0);
    format!("test_{}_{}", std::process::id(), SCHEMAS.fetch_add(1, Ordering::Relaxed))
}

/// The settings of a store whose answers are compared with the reference model's to the last row:
/// without days, which are dropped whole.
pub(crate) fn options(schema: &str) -> Options {
    Options::new().schema(schema).days_ahead(0).listen(false)
}

/// A store in a schema of its own, which goes with it.
pub(crate) struct Fresh {
    pub(crate) store: PostgresStore,
    pub(crate) schema: Schema,
}

/// A connection of the test's own.
pub(crate) async fn connect() -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(&direct_url(), NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

impl Fresh {
    pub(crate) async fn direct() -> Fresh {
        let schema = Schema(schema());
        let store = PostgresStore::connect(&direct_url(), options(&schema.0)).await;
        Fresh { store: store.expect("a store"), schema }
    }

    pub(crate) async fn pooled() -> Fresh {
        let schema = Schema(schema());
        let store = PostgresStore::connect(&pooled_url(), options(&schema.0).pooled()).await;
        Fresh { store: store.expect("a store"), schema }
    }

    /// Empties all tables, so that the next run of commands begins with nothing.
    pub(crate) async fn clear(&self, client: &tokio_postgres::Client) {
        let schema = &self.schema.0;
        let tables = [
            "job",
            "job_ready",
            "job_timer",
            "job_wait",
            "job_lease",
            "job_done",
            "job_attempt",
            "job_step",
            "job_log",
            "job_key",
            "job_live",
            "job_deadline",
            "queue",
            "node",
            "leader",
            "leader_change",
            "schedule",
            "schedule_set",
            "schedule_revision",
            "slot",
            "rollup",
            "audit",
        ];
        let names: Vec<String> = tables.iter().map(|table| format!("{schema}.{table}")).collect();
        let text = format!("TRUNCATE {} RESTART IDENTITY", names.join(", "));
        client.batch_execute(&text).await.expect("the tables can be emptied");
    }
}

#[async_trait]
impl Subject for Fresh {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn spoil(&self, what: Spoil) {
        self.store.spoil(what).await.expect("it can be spoilt");
    }
}
