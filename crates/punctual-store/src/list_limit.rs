//! Bounds how many lists a store reads at the same time.
//!
//! A filtered list can take seconds. Without a bound, later requests wait until their own timeout,
//! and the store reads lists whose callers have already gone.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::LISTS_MAX;
use crate::{ErrorKind, Result, StoreError};

/// Admits at most [`LISTS_MAX`] lists.
#[derive(Clone, Debug)]
pub struct ListLimit(Arc<Semaphore>);

/// Admission of one list. Dropping it admits another one.
#[derive(Debug)]
pub struct ListPermit(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Default for ListLimit {
    fn default() -> ListLimit {
        ListLimit(Arc::new(Semaphore::new(LISTS_MAX)))
    }
}

impl ListLimit {
    /// Admits a list, without waiting.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Retry`] if [`LISTS_MAX`] lists are being read or wait for a connection.
    pub fn admit(&self) -> Result<ListPermit> {
        self.0.clone().try_acquire_owned().map(ListPermit).map_err(|_| {
            let message = format!(
                "{LISTS_MAX} lists are being read at the same time; try again, with fewer \
                 requests in parallel"
            );
            StoreError::new(ErrorKind::Retry, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_beyond_the_bound_is_rejected_until_another_one_ends() {
        let limit = ListLimit::default();
        let mut admitted: Vec<ListPermit> =
            (0..LISTS_MAX).map(|_| limit.admit().unwrap()).collect();
        assert_eq!(limit.admit().unwrap_err().kind(), ErrorKind::Retry);
        admitted.pop();
        limit.admit().unwrap();
    }
}
