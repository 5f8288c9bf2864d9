//! Tests that look inside.

mod damage;
mod plans;
mod reading;
mod schema;
mod writing;

use punctual_core::{JobId, NodeId, Timestamp};
use punctual_store::{Json, NewJob, NodeInfo};

use crate::{Options, SqliteStore};

/// When all of it happens.
pub(super) const NOW: Timestamp = Timestamp::from_seconds(1_800_000_000);

/// A new store in a directory of its own.
pub(super) fn fresh() -> (tempfile::TempDir, SqliteStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("jobs.db"), Options::engine()).unwrap();
    (directory, store)
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

/// The job with this number.
pub(super) fn job(number: u32) -> NewJob {
    let mut random = [0; 10];
    random[6..].copy_from_slice(&number.to_be_bytes());
    let id = JobId::mint(NOW, random);
    NewJob::new(id, "default", "send", Json::parse(&format!("{{\"n\":{number}}}")).unwrap())
}
