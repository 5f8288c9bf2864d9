//! The secret key of a database. The hashes of unique keys depend on it.

use punctual_store::{CLUSTER_KEY_BYTES, ClusterKey, ErrorKind, StoreError};

use crate::error::{Fault, Outcome};
use crate::rows;
use crate::session::Session;
use crate::sql;

/// Reads the key. A store does this once, when it connects.
pub(crate) async fn read(session: &mut impl Session) -> Outcome<ClusterKey> {
    let found = session.query(&sql::CLUSTER_KEY, &[]).await?;
    let Some(row) = found.first() else {
        let message = "table `cluster_key` of the punctual schema is empty; restore its row from a \
                       backup, or, without a backup, run the INSERT for it from the output of \
                       `punctual db migrate --print`";
        return Err(StoreError::new(ErrorKind::Corrupt, message).into());
    };
    Ok(ClusterKey::from_bytes(bytes::<CLUSTER_KEY_BYTES>(rows::get(row, 0)?)?))
}

/// A value of fixed length.
pub(crate) fn bytes<const N: usize>(value: &[u8]) -> Outcome<[u8; N]> {
    let length = value.len();
    value.try_into().map_err(|_| Fault::Row(format!("invalid length {length}, expected {N} bytes")))
}
