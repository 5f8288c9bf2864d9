//! Tests that look inside.

mod access;
mod claims;
mod lanes;
mod life;
mod plans;
mod schema;
mod then;

use std::sync::atomic::{AtomicU64, Ordering};

use punctual_conformance::support::ThrowawaySchema;
use punctual_core::{JobId, NodeId, Timestamp};
use punctual_store::{Json, NewJob, NodeInfo};
use tokio_postgres::{Client, NoTls};

use crate::{Options, PostgresStore};

/// When all of it happens.
pub(super) const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

pub(super) fn url() -> String {
    std::env::var("PUNCTUAL_TEST_POSTGRES").unwrap_or_else(|_| {
        panic!("PUNCTUAL_TEST_POSTGRES is not set; run the tests with `cargo xtask test`")
    })
}

/// A connection of the test's own, without the settings of the store's.
pub(super) async fn connect() -> Client {
    let (client, connection) = tokio_postgres::connect(&url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A schema that is dropped at the end.
pub(super) struct Schema(pub(super) ThrowawaySchema);

impl Schema {
    pub(super) fn new() -> Schema {
        static SCHEMAS: AtomicU64 = AtomicU64::new(0);
        let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
        Schema(ThrowawaySchema(format!("inside_{}_{number}", std::process::id())))
    }

    pub(super) fn options(&self) -> Options {
        Options::new().schema(&self.0).days_ahead(0).listen(false)
    }

    pub(super) async fn open(&self) -> PostgresStore {
        PostgresStore::connect(&url(), self.options()).await.unwrap()
    }
}

/// What a node says of itself.
pub(super) fn node(id: NodeId) -> NodeInfo {
    NodeInfo {
        id,
        name: "n".to_owned(),
        version: String::new(),
        queues: Vec::new(),
        kinds: Vec::new(),
        labels: Vec::new(),
    }
}

/// The job with this number, minted at an instant.
pub(super) fn job(at: Timestamp, number: u32) -> NewJob {
    let mut random = [0; 10];
    random[6..].copy_from_slice(&number.to_be_bytes());
    let id = JobId::mint(at, random);
    NewJob::new(id, "default", "send", Json::parse(&format!("{{\"n\":{number}}}")).unwrap())
}
