//! The scheduler over files.

use std::sync::Arc;

use punctual_sqlite::{Options, SqliteStore};
use punctual_store::Store;

punctual_conformance::firing_suite!(|| async {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("test.db");
    let store = SqliteStore::open(&path, Options::engine()).expect("a store");
    (Arc::new(store) as Arc<dyn Store>, directory)
});
