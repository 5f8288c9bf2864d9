//! What can go wrong when a node starts.

use punctual_store::StoreError;

/// Why a node could not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// A setting that cannot be.
    #[error("{0}")]
    Config(String),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system refused.
    #[error("cannot start the heartbeat thread: {0}")]
    Thread(String),
}
