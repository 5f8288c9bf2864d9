//! Jobs in transactions of the caller's, with every driver: what is promised of a commit, of a
//! rollback and of a kill, and that the answers are the store's own.

mod drivers;
mod enqueueing;
mod killing;
mod refusing;
mod settling;
mod world;

/// Runs a test with each driver.
macro_rules! with_each_driver {
    ($( $test:ident, )+) => { $(
        mod $test {
            use crate::drivers::Driver;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn rusqlite() {
                super::$test(Driver::Rusqlite).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlx_on_sqlite() {
                super::$test(Driver::SqlxSqlite).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn tokio_postgres() {
                super::$test(Driver::TokioPostgres).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlx_on_postgres() {
                super::$test(Driver::SqlxPostgres).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn tokio_postgres_through_a_pooler() {
                super::$test(Driver::TokioPooled).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlx_through_a_pooler() {
                super::$test(Driver::SqlxPooled).await;
            }
        }
    )+ };
}

pub(crate) use with_each_driver;
