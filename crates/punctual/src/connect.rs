//! Where everything is kept.

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::sync::Arc;

use punctual_engine::{Env, System};
use punctual_store::Store;
use punctual_store::memory::Memory;

use crate::builder::Builder;
use crate::punctual::Punctual;
use crate::transaction::Backend;
#[cfg(feature = "postgres")]
pub use postgres::OpenPostgres;
#[cfg(feature = "sqlite")]
pub use sqlite::OpenSqlite;

/// What a builder stands on.
pub(crate) struct Ground {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) backend: Backend,
    /// Does this process only order work?
    pub(crate) is_producer: bool,
}

impl Punctual {
    /// Keeps everything in this process. What is not done when it ends is lost: for trying, and
    /// for tests.
    pub fn memory() -> Builder {
        let store = Memory::new(|| System.wall());
        Builder::on(Ground {
            env: Arc::new(System),
            store: Arc::new(store),
            backend: Backend::Memory,
            is_producer: false,
        })
    }
}
