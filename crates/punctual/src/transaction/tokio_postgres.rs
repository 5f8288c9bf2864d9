//! Transactions of tokio-postgres.

use punctual_core::job::JobState;
use punctual_store::{At, EnqueueAnswer, NewJob, Settlement};
use tokio_postgres::Transaction as Tx;

use super::{Awaited, Backend, Transaction, applied, follow, sealed};
use crate::Result;

impl sealed::Sealed for &Tx<'_> {}

impl<'a> Transaction for &'a Tx<'_> {
    type Answer<T: Send + 'static> = Awaited<'a, T>;

    fn enqueue_jobs(
        self,
        backend: &Backend,
        at: At,
        jobs: Result<Vec<NewJob>>,
    ) -> Self::Answer<Vec<EnqueueAnswer>> {
        let tables = backend.tables().map(|tables| tables.clone().at(at));
        Box::pin(async move { Ok(tables?.enqueue(self, &jobs?).await?.answers) })
    }

    fn settle_attempt(self, backend: &Backend, at: At, item: Settlement) -> Self::Answer<JobState> {
        let tables = backend.tables().map(|tables| tables.clone().at(at));
        Box::pin(async move { applied(tables?.settle(self, &item).await?) })
    }

    fn map<A: Send + 'static, B: Send + 'static>(
        answer: Awaited<'a, A>,
        follows: impl FnOnce(A) -> Result<B> + Send + 'static,
    ) -> Awaited<'a, B> {
        follow(answer, follows)
    }
}

impl sealed::Sealed for &mut Tx<'_> {}

impl<'a> Transaction for &'a mut Tx<'_> {
    type Answer<T: Send + 'static> = Awaited<'a, T>;

    fn enqueue_jobs(
        self,
        backend: &Backend,
        at: At,
        jobs: Result<Vec<NewJob>>,
    ) -> Self::Answer<Vec<EnqueueAnswer>> {
        let tx: &'a Tx<'_> = self;
        tx.enqueue_jobs(backend, at, jobs)
    }

    fn settle_attempt(self, backend: &Backend, at: At, item: Settlement) -> Self::Answer<JobState> {
        let tx: &'a Tx<'_> = self;
        tx.settle_attempt(backend, at, item)
    }

    fn map<A: Send + 'static, B: Send + 'static>(
        answer: Awaited<'a, A>,
        follows: impl FnOnce(A) -> Result<B> + Send + 'static,
    ) -> Awaited<'a, B> {
        follow(answer, follows)
    }
}
