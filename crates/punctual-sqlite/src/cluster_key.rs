//! The secret key of a file. The hashes of unique keys depend on it.
//!
//! A store reads the key once, when it opens the file. A call in the caller's transaction has no
//! store: it reads the key on the caller's connection, if one of its jobs has a unique key.

use std::sync::Arc;

use punctual_store::{CLUSTER_KEY_BYTES, ClusterKey, ErrorKind, StoreError};
use rusqlite::{Connection, OptionalExtension};

use crate::error::Outcome;
use crate::sql;

/// The key of one file, read when it is first needed.
#[derive(Clone, Default)]
pub(crate) struct FileKey(Option<Arc<ClusterKey>>);

impl FileKey {
    /// The key, read now.
    pub(crate) fn read(db: &Connection) -> Outcome<FileKey> {
        Ok(FileKey(Some(Arc::new(read(db)?))))
    }

    /// The key. The connection is used only if the key was not read before.
    pub(crate) fn get(&mut self, db: &Connection) -> Outcome<&ClusterKey> {
        let key = match self.0.take() {
            Some(key) => key,
            None => Arc::new(read(db)?),
        };
        Ok(self.0.insert(key))
    }
}

fn read(db: &Connection) -> Outcome<ClusterKey> {
    parse(db.query_row(sql::CLUSTER_KEY, [], |row| row.get(0)).optional()?)
}

/// The key with the bytes of the only row, if there is that row.
pub(crate) fn parse(bytes: Option<[u8; CLUSTER_KEY_BYTES]>) -> Outcome<ClusterKey> {
    bytes.map(ClusterKey::from_bytes).ok_or_else(|| {
        let message = "table `punctual_cluster_key` is empty; restore its row from a backup, or, \
                       without a backup, run `INSERT INTO punctual_cluster_key (id, key) VALUES \
                       (1, randomblob(32))`";
        StoreError::new(ErrorKind::Corrupt, message).into()
    })
}
