//! Servers under load, compared with the same servers without it: job counts of many queues, remote
//! workers, and the lateness of slots while clients read lists.

mod counts;
mod lists;
mod remote;

use std::net::SocketAddr;

use punctual::{Order, Punctual};
use punctual_server::Server;
use serde_json::json;

use crate::databases::{Database, Databases, Place};
use crate::{Failure, api, report};

/// Jobs that are enqueued at once.
const BATCH: usize = 1_000;

/// What is measured.
#[derive(clap::Subcommand)]
pub(crate) enum Measure {
    /// Read the job counts of a million jobs in 1,000 queues, and of 1,000 jobs
    Counts {
        /// Number of queues
        #[arg(long, default_value_t = 1_000)]
        queues: usize,
        /// Number of jobs per queue in the large database; the small one has one job per queue
        #[arg(long, default_value_t = 1_000)]
        jobs: usize,
        /// Number of counted rounds
        #[arg(long, default_value_t = 21)]
        rounds: usize,
    },
    /// Compare remote workers with the engine, and 32 workers with 8
    Remote {
        /// Number of jobs per round
        #[arg(long, default_value_t = 12_000)]
        jobs: usize,
        /// Number of counted rounds
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Compare the lateness of slots with and without clients that read lists
    Lists {
        /// Number of jobs in the database
        #[arg(long, default_value_t = 230_000)]
        jobs: usize,
        /// Number of connections that read lists
        #[arg(long, default_value_t = 256)]
        connections: usize,
        /// Number of slots with, and without, load
        #[arg(long, default_value_t = 300)]
        slots: usize,
    },
}

pub(crate) fn run(place: &Place, measure: &Measure, as_json: bool) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let databases = Databases::open(place).await?;
        let (proof, size, figures) = match *measure {
            Measure::Counts { queues, jobs, rounds } => {
                let size = json!({"queues": queues, "jobs": queues * jobs, "rounds": rounds});
                (
                    ("counts-bench", "pg-counts-bench"),
                    size,
                    counts::measure(&databases, queues, jobs, rounds).await?,
                )
            }
            Measure::Remote { jobs, rounds } => {
                let size = json!({"jobs": jobs, "rounds": rounds});
                (
                    ("remote-bench", "pg-remote-bench"),
                    size,
                    remote::measure(&databases, jobs, rounds).await?,
                )
            }
            Measure::Lists { jobs, connections, slots } => {
                let size = json!({"jobs": jobs, "connections": connections, "slots": slots});
                (
                    ("lists-bench", "pg-lists-bench"),
                    size,
                    lists::measure(&databases, jobs, connections, slots).await?,
                )
            }
        };
        let proof = match &databases {
            Databases::Sqlite(_) => proof.0,
            Databases::Postgres(_) => proof.1,
        };
        report::print(&databases, proof, &size, &figures, as_json)
    })
}

/// A node that leads and runs no jobs, and the address of its API.
async fn serve(database: &Database) -> Result<(Punctual, SocketAddr), Failure> {
    let punctual = match database {
        Database::Sqlite(path) => Punctual::sqlite(path).await?.never_works().start().await?,
        Database::Postgres(it) => Punctual::postgres(it.url()).await?.never_works().start().await?,
    };
    let address = api::serve(Server::new(punctual.clone()).routers()).await?;
    Ok((punctual, address))
}

/// Enqueues the jobs that `order` returns for 0 up to `count`.
async fn fill(
    punctual: &Punctual,
    count: usize,
    order: impl Fn(usize) -> Order,
) -> Result<(), Failure> {
    for first in (0..count).step_by(BATCH) {
        let orders: Vec<Order> = (first..count.min(first + BATCH)).map(&order).collect();
        for receipt in punctual.enqueue_many(orders).await? {
            receipt?;
        }
    }
    Ok(())
}

/// Runs clients on a thread of their own, as if they were another process.
async fn elsewhere<T: Send + 'static>(
    clients: impl AsyncFnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::spawn_blocking(move || runtime.block_on(clients())).await?
}
