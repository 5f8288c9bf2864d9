//! The scheduler on PostgreSQL, direct and through a pooler.

mod common;

use std::sync::Arc;

use common::{Schema, direct_url, options, pooled_url, schema};
use punctual_postgres::{Options, PostgresStore};
use punctual_store::Store;

async fn open(url: &str, options: Options) -> Arc<dyn Store> {
    Arc::new(PostgresStore::connect(url, options).await.expect("a store"))
}

mod direct {
    use super::*;

    punctual_conformance::firing_suite!(|| async {
        let schema = Schema(schema());
        (open(&direct_url(), options(&schema.0)).await, schema)
    });
}

mod pooled {
    use super::*;

    punctual_conformance::firing_suite!(|| async {
        let schema = Schema(schema());
        (open(&pooled_url(), options(&schema.0).pooled()).await, schema)
    });
}
