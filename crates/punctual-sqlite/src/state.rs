//! The condition of an open store, shared by its writer and its readers.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use punctual_store::{ErrorKind, Result, StoreError};

use crate::file_guard::FileGuard;

/// Free bytes from which a full disk counts as usable again: the largest request of the API. Small
/// writes, such as heartbeats, also fit into the log of a full disk and prove nothing.
const FREE_BYTES_MIN: u64 = 1 << 20;

/// Whether the store still accepts calls. A store that stopped stays stopped until it is reopened.
#[derive(Clone)]
pub(crate) struct StoreState(Arc<Inner>);

struct Inner {
    guard: FileGuard,
    stopped: OnceLock<StoreError>,
    /// The last write that found the disk full, until one succeeds.
    full: Mutex<Option<StoreError>>,
}

impl StoreState {
    pub(crate) fn new(guard: FileGuard) -> StoreState {
        StoreState(Arc::new(Inner { guard, stopped: OnceLock::new(), full: Mutex::default() }))
    }

    /// Why the store has stopped, if it has.
    pub(crate) fn stopped(&self) -> Option<&StoreError> {
        self.0.stopped.get()
    }

    /// Stops the store. Nothing is acknowledged after this.
    pub(crate) fn stop(&self, error: StoreError) {
        // The first reason is the cause of later ones.
        let _ = self.0.stopped.set(error);
    }

    /// The error of the last write, if it found the disk full.
    pub(crate) fn full(&self) -> Option<StoreError> {
        self.0.full.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers a write that failed, if it found the disk full.
    pub(crate) fn write_failed(&self, error: &StoreError) {
        if error.kind() == ErrorKind::Full {
            *self.0.full.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        }
    }

    /// Forgets a full disk after a write that succeeded, if there is space for others.
    pub(crate) fn write_succeeded(&self, path: &Path) {
        let mut full = self.0.full.lock().unwrap_or_else(PoisonError::into_inner);
        if full.is_some() && has_space(path) {
            *full = None;
        }
    }

    /// Compares the files with those that were opened, and stops the store if they differ.
    ///
    /// # Errors
    ///
    /// Returns why the store has stopped.
    pub(crate) fn check(&self) -> Result<()> {
        if self.stopped().is_none()
            && let Err(error) = self.0.guard.check()
        {
            self.stop(error);
        }
        self.stopped().map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// A file system that does not tell its free space counts as one that has some.
fn has_space(path: &Path) -> bool {
    rustix::fs::statvfs(path)
        .map_or(true, |found| found.f_bavail.saturating_mul(found.f_frsize) >= FREE_BYTES_MIN)
}
