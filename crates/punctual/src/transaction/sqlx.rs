//! Transactions of sqlx.

use punctual_core::job::JobState;
#[cfg(feature = "sqlite")]
use punctual_sqlite::in_transaction;
use punctual_store::{At, EnqueueAnswer, NewJob, Settlement};
#[cfg(feature = "postgres")]
use sqlx::{PgConnection, Postgres};
#[cfg(feature = "sqlite")]
use sqlx::{Sqlite, SqliteConnection};

use super::{Awaited, Backend, Transaction, applied, follow, sealed};
use crate::Result;

#[cfg(feature = "sqlite")]
impl sealed::Sealed for &mut SqliteConnection {}

#[cfg(feature = "sqlite")]
impl<'a> Transaction for &'a mut SqliteConnection {
    type Answer<T: Send + 'static> = Awaited<'a, T>;

    fn enqueue_jobs(
        self,
        backend: &Backend,
        at: At,
        jobs: Result<Vec<NewJob>>,
    ) -> Self::Answer<Vec<EnqueueAnswer>> {
        let backend = backend.clone();
        Box::pin(async move {
            check_file(&backend, self).await?;
            Ok(in_transaction::enqueue_sqlx(self, at, &jobs?).await?.answers)
        })
    }

    fn settle_attempt(self, backend: &Backend, at: At, item: Settlement) -> Self::Answer<JobState> {
        let backend = backend.clone();
        Box::pin(async move {
            check_file(&backend, self).await?;
            applied(in_transaction::settle_sqlx(self, at, &item).await?)
        })
    }

    fn map<A: Send + 'static, B: Send + 'static>(
        answer: Awaited<'a, A>,
        follows: impl FnOnce(A) -> Result<B> + Send + 'static,
    ) -> Awaited<'a, B> {
        follow(answer, follows)
    }
}

#[cfg(feature = "sqlite")]
async fn check_file(backend: &Backend, db: &mut SqliteConnection) -> Result<()> {
    backend.check_file(in_transaction::file_of_sqlx(db).await?.as_deref())
}

#[cfg(feature = "postgres")]
impl sealed::Sealed for &mut PgConnection {}

#[cfg(feature = "postgres")]
impl<'a> Transaction for &'a mut PgConnection {
    type Answer<T: Send + 'static> = Awaited<'a, T>;

    fn enqueue_jobs(
        self,
        backend: &Backend,
        at: At,
        jobs: Result<Vec<NewJob>>,
    ) -> Self::Answer<Vec<EnqueueAnswer>> {
        let tables = backend.tables().map(|tables| tables.clone().at(at));
        Box::pin(async move { Ok(tables?.enqueue_sqlx(self, &jobs?).await?.answers) })
    }

    fn settle_attempt(self, backend: &Backend, at: At, item: Settlement) -> Self::Answer<JobState> {
        let tables = backend.tables().map(|tables| tables.clone().at(at));
        Box::pin(async move { applied(tables?.settle_sqlx(self, &item).await?) })
    }

    fn map<A: Send + 'static, B: Send + 'static>(
        answer: Awaited<'a, A>,
        follows: impl FnOnce(A) -> Result<B> + Send + 'static,
    ) -> Awaited<'a, B> {
        follow(answer, follows)
    }
}

/// A transaction does what its connection does.
macro_rules! leads_to_a_connection {
    ($( #[$when:meta] $database:ty => $connection:ty, )+) => { $(
        #[$when]
        impl sealed::Sealed for &mut sqlx::Transaction<'_, $database> {}

        #[$when]
        impl<'a> Transaction for &'a mut sqlx::Transaction<'_, $database> {
            type Answer<T: Send + 'static> = Awaited<'a, T>;

            fn enqueue_jobs(self, backend: &Backend, at: At, jobs: Result<Vec<NewJob>>) -> Self::Answer<Vec<EnqueueAnswer>> {
                let db: &'a mut $connection = self;
                db.enqueue_jobs(backend, at, jobs)
            }

            fn settle_attempt(self, backend: &Backend, at: At, item: Settlement) -> Self::Answer<JobState> {
                let db: &'a mut $connection = self;
                db.settle_attempt(backend, at, item)
            }

            fn map<A: Send + 'static, B: Send + 'static>(
                answer: Awaited<'a, A>,
                follows: impl FnOnce(A) -> Result<B> + Send + 'static,
            ) -> Awaited<'a, B> {
                follow(answer, follows)
            }
        }
    )+ };
}

leads_to_a_connection! {
    #[cfg(feature = "sqlite")] Sqlite => SqliteConnection,
    #[cfg(feature = "postgres")] Postgres => PgConnection,
}
