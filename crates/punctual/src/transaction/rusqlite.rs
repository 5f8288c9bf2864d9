//! Transactions of rusqlite, which answer at once.

use punctual_core::job::JobState;
use punctual_sqlite::in_transaction;
use punctual_store::{At, EnqueueAnswer, NewJob, Settlement};
use rusqlite::Connection;

use super::{Backend, Transaction, applied, sealed};
use crate::Result;

impl sealed::Sealed for &Connection {}

impl Transaction for &Connection {
    type Answer<T: Send + 'static> = Result<T>;

    fn enqueue_jobs(
        self,
        backend: &Backend,
        at: At,
        jobs: Result<Vec<NewJob>>,
    ) -> Self::Answer<Vec<EnqueueAnswer>> {
        backend.check_file(in_transaction::file_of(self).as_deref())?;
        Ok(in_transaction::enqueue(self, at, &jobs?)?.answers)
    }

    fn settle_attempt(self, backend: &Backend, at: At, item: Settlement) -> Self::Answer<JobState> {
        backend.check_file(in_transaction::file_of(self).as_deref())?;
        applied(in_transaction::settle(self, at, &item)?)
    }

    fn map<A: Send + 'static, B: Send + 'static>(
        answer: Result<A>,
        follows: impl FnOnce(A) -> Result<B> + Send + 'static,
    ) -> Result<B> {
        follows(answer?)
    }
}

/// What leads to a connection does the same.
macro_rules! leads_to_a_connection {
    ($( $tx:ty, )+) => { $(
        impl sealed::Sealed for $tx {}

        impl Transaction for $tx {
            type Answer<T: Send + 'static> = Result<T>;

            fn enqueue_jobs(self, backend: &Backend, at: At, jobs: Result<Vec<NewJob>>) -> Self::Answer<Vec<EnqueueAnswer>> {
                let db: &Connection = self;
                db.enqueue_jobs(backend, at, jobs)
            }

            fn settle_attempt(self, backend: &Backend, at: At, item: Settlement) -> Self::Answer<JobState> {
                let db: &Connection = self;
                db.settle_attempt(backend, at, item)
            }

            fn map<A: Send + 'static, B: Send + 'static>(
                answer: Result<A>,
                follows: impl FnOnce(A) -> Result<B> + Send + 'static,
            ) -> Result<B> {
                follows(answer?)
            }
        }
    )+ };
}

leads_to_a_connection! {
    &mut Connection,
    &rusqlite::Transaction<'_>,
    &mut rusqlite::Transaction<'_>,
}
