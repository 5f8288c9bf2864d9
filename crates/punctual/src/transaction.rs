//! Jobs in the caller's own transaction: they are there when it commits and not otherwise.

#[cfg(feature = "sqlite")]
mod rusqlite;
#[cfg(all(feature = "sqlx", any(feature = "postgres", feature = "sqlite")))]
mod sqlx;
#[cfg(feature = "postgres")]
mod tokio_postgres;

#[cfg(feature = "sqlite")]
use std::path::{Path, PathBuf};
#[cfg(any(feature = "postgres", all(feature = "sqlx", feature = "sqlite")))]
use std::pin::Pin;

use punctual_core::job::JobState;
#[cfg(feature = "postgres")]
use punctual_postgres::InTransaction;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use punctual_store::Settled;
use punctual_store::{At, EnqueueAnswer, NewJob, Settlement};

use crate::Result;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use crate::{Error, ErrorKind};

mod sealed {
    /// Which transactions there are is known here.
    pub trait Sealed {}
}

/// An open transaction of the caller's: of sqlx, tokio-postgres or rusqlite.
///
/// | driver | pass |
/// |---|---|
/// | sqlx | `&mut tx`, or the `&mut` connection on which a transaction was begun with `begin` |
/// | tokio-postgres | `&tx` or `&mut tx` |
/// | rusqlite | `&tx`, `&mut tx`, or the `&Connection` on which one is open |
///
/// What is written in it is there when it commits, and vanishes when it is rolled back, dropped, or
/// lost with its process. rusqlite answers at once; the answers of the others are to be awaited.
pub trait Transaction: sealed::Sealed + Sized {
    /// A `Result`, or a future of it.
    type Answer<T: Send + 'static>;

    #[doc(hidden)]
    fn enqueue_jobs(
        self,
        backend: &Backend,
        at: At,
        jobs: Result<Vec<NewJob>>,
    ) -> Self::Answer<Vec<EnqueueAnswer>>;
    #[doc(hidden)]
    fn settle_attempt(self, backend: &Backend, at: At, item: Settlement) -> Self::Answer<JobState>;
    /// What follows from an answer.
    #[doc(hidden)]
    fn map<A: Send + 'static, B: Send + 'static>(
        answer: Self::Answer<A>,
        follows: impl FnOnce(A) -> Result<B> + Send + 'static,
    ) -> Self::Answer<B>;
}

/// An answer that is to be awaited.
#[cfg(any(feature = "postgres", all(feature = "sqlx", feature = "sqlite")))]
type Awaited<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// What follows from an answer that is awaited.
#[cfg(any(feature = "postgres", all(feature = "sqlx", feature = "sqlite")))]
fn follow<'a, A: Send + 'static, B: Send + 'static>(
    answer: Awaited<'a, A>,
    follows: impl FnOnce(A) -> Result<B> + Send + 'static,
) -> Awaited<'a, B> {
    Box::pin(async move { follows(answer.await?) })
}

/// Writes jobs in a transaction.
pub fn enqueue<T: Transaction>(
    backend: &Backend,
    tx: T,
    jobs: Vec<NewJob>,
) -> T::Answer<Vec<EnqueueAnswer>> {
    tx.enqueue_jobs(backend, At::Database, Ok(jobs))
}

/// Settles an attempt in a transaction, so that what its handler did there happens once. Every
/// answer but the job's new state is an error after which the transaction must be rolled back.
pub fn settle<T: Transaction>(backend: &Backend, tx: T, item: Settlement) -> T::Answer<JobState> {
    tx.settle_attempt(backend, At::Database, item)
}

/// Where punctual keeps its jobs: a transaction elsewhere cannot write them.
#[derive(Clone, Debug)]
pub enum Backend {
    /// In memory.
    Memory,
    /// In this file.
    #[cfg(feature = "sqlite")]
    Sqlite(PathBuf),
    /// On a server, in tables that this knows.
    #[cfg(feature = "postgres")]
    Postgres(InTransaction),
}

impl Backend {
    /// The schema that this program writes, where there is one.
    pub(crate) fn schema(&self) -> Option<i64> {
        match self {
            Backend::Memory => None,
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(_) => Some(punctual_sqlite::SCHEMA),
            #[cfg(feature = "postgres")]
            Backend::Postgres(_) => Some(punctual_postgres::SCHEMA),
        }
    }
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl Backend {
    /// Is this the file?
    #[cfg(feature = "sqlite")]
    fn check_file(&self, given: Option<&Path>) -> Result<()> {
        let Backend::Sqlite(own) = self else { return Err(self.refuses("SQLite")) };
        let one_name = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if given.is_some_and(|given| one_name(given) == one_name(own)) {
            return Ok(());
        }
        let given = given.unwrap_or(Path::new(":memory:")).display();
        Err(Error::invalid(format!(
            "the transaction is on `{given}`, but punctual uses `{}`; use the same file for both",
            own.display()
        )))
    }

    /// The tables on the server.
    #[cfg(feature = "postgres")]
    fn tables(&self) -> Result<&InTransaction> {
        match self {
            Backend::Postgres(tables) => Ok(tables),
            other => Err(other.refuses("PostgreSQL")),
        }
    }

    fn refuses(&self, given: &str) -> Error {
        Error::invalid(match self {
            Backend::Memory => format!(
                "the transaction is on {given}, but punctual keeps its jobs in memory; enqueue \
                 without a transaction, or open punctual on that database"
            ),
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(own) => format!(
                "the transaction is on {given}, but punctual uses the SQLite file `{}`; use the \
                 same database for both",
                own.display()
            ),
            #[cfg(feature = "postgres")]
            Backend::Postgres(_) => format!(
                "the transaction is on {given}, but punctual uses PostgreSQL; use the same database \
                 for both"
            ),
        })
    }
}

/// Only what was applied may be committed: anything else would have an effect that is not the
/// attempt's to have, or has it a second time.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
fn applied(settled: Settled) -> Result<JobState> {
    let (kind, message) = match settled {
        Settled::Applied(state) => return Ok(state),
        Settled::Already => (
            ErrorKind::Conflict,
            "this attempt was already settled in a committed transaction; roll back this \
             transaction, its changes are already in the database",
        ),
        Settled::Fenced => (
            ErrorKind::Fenced,
            "the lease of this attempt was lost: another attempt owns the job, or the job has \
             finished; roll back this transaction",
        ),
    };
    Err(Error::new(kind, message))
}
