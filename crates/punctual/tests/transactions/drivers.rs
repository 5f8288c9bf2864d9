//! One transaction, told in steps, in the words of each driver.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use punctual::rusqlite::{self, TransactionBehavior};
use punctual::sqlx::postgres::PgConnectOptions;
use punctual::sqlx::sqlite::SqliteConnectOptions;
use punctual::sqlx::{
    self, AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, SqliteConnection,
};
use punctual::tokio_postgres::{self, NoTls};
use punctual::transaction::{self, Backend};
use punctual::{Error, Result};
use punctual_core::JobId;
use punctual_core::job::JobState;
use punctual_store::{EnqueueAnswer, NewJob, Settlement};

/// Whose transaction it is, and on which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    Rusqlite,
    SqlxSqlite,
    TokioPostgres,
    SqlxPostgres,
    TokioPooled,
    SqlxPooled,
}

impl Driver {
    pub(crate) const ALL: [Driver; 6] = [
        Driver::Rusqlite,
        Driver::SqlxSqlite,
        Driver::TokioPostgres,
        Driver::SqlxPostgres,
        Driver::TokioPooled,
        Driver::SqlxPooled,
    ];

    pub(crate) fn is_sqlite(self) -> bool {
        matches!(self, Driver::Rusqlite | Driver::SqlxSqlite)
    }

    pub(crate) fn is_pooled(self) -> bool {
        matches!(self, Driver::TokioPooled | Driver::SqlxPooled)
    }

    /// The url of the server.
    pub(crate) fn url(self) -> String {
        let name = match self.is_pooled() {
            true => "PUNCTUAL_TEST_PGBOUNCER",
            false => "PUNCTUAL_TEST_POSTGRES",
        };
        std::env::var(name)
            .unwrap_or_else(|_| panic!("{name} is not set; run the tests with `cargo xtask test`"))
    }
}

/// What is done in a transaction.
pub(crate) enum Step {
    Enqueue(Vec<NewJob>),
    Settle(Settlement),
    /// What a handler does for its job: one row.
    Effect(JobId),
    /// Says so, and waits to be killed.
    Hang,
}

/// What came of it.
#[derive(Debug, PartialEq)]
pub(crate) enum Said {
    Enqueued(Result<Vec<EnqueueAnswer>>),
    Settled(Result<JobState>),
    Done,
}

impl Said {
    pub(crate) fn answers(self) -> Vec<EnqueueAnswer> {
        match self {
            Said::Enqueued(Ok(answers)) => answers,
            other => panic!("{other:?} instead of answers"),
        }
    }

    pub(crate) fn state(self) -> JobState {
        match self {
            Said::Settled(Ok(state)) => state,
            other => panic!("{other:?} instead of a state"),
        }
    }

    pub(crate) fn error(self) -> Error {
        match self {
            Said::Enqueued(Err(error)) | Said::Settled(Err(error)) => error,
            other => panic!("{other:?} instead of an error"),
        }
    }
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    RollBack,
    /// It is simply let go.
    Drop,
}

/// Where a transaction takes place.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) driver: Driver,
    /// The file, or the schema.
    pub(crate) place: String,
    pub(crate) backend: Backend,
}

impl Scene {
    fn effect(&self, job: JobId) -> String {
        match self.driver.is_sqlite() {
            true => format!("INSERT INTO effect (job) VALUES ('{job}')"),
            false => format!("INSERT INTO {}.effect (job) VALUES ('{job}')", self.place),
        }
    }

    /// Does these steps in one transaction.
    pub(crate) async fn transact(&self, steps: Vec<Step>, end: End) -> Vec<Said> {
        match self.driver {
            Driver::Rusqlite => self.with_rusqlite(steps, end),
            Driver::SqlxSqlite => {
                self.with_sqlx_sqlite(sqlite(&self.place).await, steps, end).await
            }
            Driver::TokioPostgres | Driver::TokioPooled => {
                self.with_tokio_postgres(steps, end).await
            }
            Driver::SqlxPostgres | Driver::SqlxPooled => {
                self.with_sqlx_postgres(postgres(self.driver).await, steps, end).await
            }
        }
    }

    fn with_rusqlite(&self, steps: Vec<Step>, end: End) -> Vec<Said> {
        let mut db = rusqlite(Path::new(&self.place));
        let mut tx =
            db.transaction_with_behavior(TransactionBehavior::Immediate).expect("it works");
        let mut said = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            // Each way to pass a transaction has its turn.
            said.push(match step {
                Step::Enqueue(jobs) => Said::Enqueued(match number % 3 {
                    0 => transaction::enqueue(&self.backend, &tx, jobs),
                    1 => transaction::enqueue(&self.backend, &mut tx, jobs),
                    _ => transaction::enqueue(&self.backend, &*tx, jobs),
                }),
                Step::Settle(item) => Said::Settled(match number % 3 {
                    0 => transaction::settle(&self.backend, &*tx, item),
                    1 => transaction::settle(&self.backend, &tx, item),
                    _ => transaction::settle(&self.backend, &mut tx, item),
                }),
                Step::Effect(job) => {
                    tx.execute(&self.effect(job), []).expect("it works");
                    Said::Done
                }
                Step::Hang => hang("enqueued"),
            });
        }
        match end {
            End::Commit => tx.commit().expect("it works"),
            End::RollBack => tx.rollback().expect("it works"),
            End::Drop => drop(tx),
        }
        said
    }

    async fn with_tokio_postgres(&self, steps: Vec<Step>, end: End) -> Vec<Said> {
        let (mut client, connection) =
            tokio_postgres::connect(&self.driver.url(), NoTls).await.expect("it works");
        tokio::spawn(connection);
        let mut tx = client.transaction().await.expect("it works");
        let mut said = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            said.push(match step {
                Step::Enqueue(jobs) => Said::Enqueued(match number % 2 {
                    0 => transaction::enqueue(&self.backend, &tx, jobs).await,
                    _ => transaction::enqueue(&self.backend, &mut tx, jobs).await,
                }),
                Step::Settle(item) => Said::Settled(match number % 2 {
                    0 => transaction::settle(&self.backend, &mut tx, item).await,
                    _ => transaction::settle(&self.backend, &tx, item).await,
                }),
                Step::Effect(job) => {
                    tx.batch_execute(&self.effect(job)).await.expect("it works");
                    Said::Done
                }
                Step::Hang => hang("enqueued"),
            });
        }
        match end {
            End::Commit => tx.commit().await.expect("it works"),
            End::RollBack => tx.rollback().await.expect("it works"),
            End::Drop => drop(tx),
        }
        said
    }
}

/// sqlx has one shape for both databases, and types of its own for each.
macro_rules! with_sqlx {
    ($name:ident, $connection:ty, $begin:expr) => {
        impl Scene {
            async fn $name(&self, mut db: $connection, steps: Vec<Step>, end: End) -> Vec<Said> {
                let mut tx = db.begin_with($begin).await.expect("it works");
                let mut said = Vec::new();
                for (number, step) in steps.into_iter().enumerate() {
                    said.push(match step {
                        Step::Enqueue(jobs) => Said::Enqueued(match number % 2 {
                            0 => transaction::enqueue(&self.backend, &mut tx, jobs).await,
                            _ => transaction::enqueue(&self.backend, &mut *tx, jobs).await,
                        }),
                        Step::Settle(item) => Said::Settled(match number % 2 {
                            0 => transaction::settle(&self.backend, &mut *tx, item).await,
                            _ => transaction::settle(&self.backend, &mut tx, item).await,
                        }),
                        Step::Effect(job) => {
                            // Whoever goes through a pooler sees to that with each statement.
                            let insert = sqlx::query(AssertSqlSafe(self.effect(job)));
                            (&mut *tx).execute(insert.persistent(false)).await.expect("it works");
                            Said::Done
                        }
                        Step::Hang => hang("enqueued"),
                    });
                }
                match end {
                    End::Commit => tx.commit().await.expect("it works"),
                    End::RollBack => tx.rollback().await.expect("it works"),
                    End::Drop => drop(tx),
                }
                said
            }
        }
    };
}

with_sqlx!(with_sqlx_sqlite, SqliteConnection, "BEGIN IMMEDIATE");
with_sqlx!(with_sqlx_postgres, PgConnection, "BEGIN");

/// A connection of rusqlite that waits for whoever else writes.
pub(crate) fn rusqlite(path: &Path) -> rusqlite::Connection {
    let db = rusqlite::Connection::open(path).expect("it works");
    db.busy_timeout(Duration::from_secs(10)).expect("it works");
    db
}

pub(crate) async fn sqlite(path: &str) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(PathBuf::from(path));
    options.busy_timeout(Duration::from_secs(10)).connect().await.expect("it works")
}

pub(crate) async fn postgres(driver: Driver) -> PgConnection {
    let options = PgConnectOptions::from_str(&driver.url()).expect("it works");
    // pgbouncer does not know this option.
    let options = if driver.is_pooled() { options.extra_float_digits(None) } else { options };
    options.connect().await.expect("it works")
}

/// Says a word, and does nothing more until it is killed.
pub(crate) fn hang(word: &str) -> ! {
    writeln!(std::io::stdout(), "{word}").expect("it works");
    loop {
        std::thread::park();
    }
}
