//! apalis with its storage on PostgreSQL.

#[path = "../../harness.rs"]
mod harness;

use std::ops::Range;
use std::time::Duration;

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use harness::{Ask, Failure, Peer, handled, measure, padding, url};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Noop {
    id: u64,
    padding: String,
}

fn noop(id: u64) -> Noop {
    Noop { id, padding: padding() }
}

async fn handle(_: Noop) -> Result<(), BoxDynError> {
    handled();
    Ok(())
}

#[derive(Clone)]
struct Apalis {
    pool: PgPool,
    config: Config,
    workers: usize,
    storage: PostgresStorage<Noop>,
}

impl Peer for Apalis {
    async fn enqueue(&mut self, id: u64) -> Result<(), Failure> {
        Ok(self.storage.push(noop(id)).await?)
    }

    async fn enqueue_many(&mut self, ids: Range<u64>) -> Result<(), Failure> {
        Ok(self.storage.push_bulk(ids.map(noop).collect()).await?)
    }

    /// The worker's future cannot be spawned; what its handlers do can.
    async fn work(&self) -> Result<(), Failure> {
        let workers = (0..self.workers).map(|number| {
            let storage = PostgresStorage::<Noop>::new(&self.pool).with_config(self.config.clone());
            // With notifications alone a job may wait until the next one comes.
            let strategy = Strategy::new().interval(Duration::from_millis(100));
            WorkerBuilder::new(format!("worker-{number}"))
                .backend(storage.with_pubsub().poll_with_strategy(strategy))
                .parallelize(tokio::spawn)
                .build(handle)
                .run()
        });
        futures::future::try_join_all(workers).await?;
        Ok(())
    }

    async fn remaining(&self) -> Result<i64, Failure> {
        let count = "SELECT count(*) FROM apalis.jobs WHERE status <> 'Done'";
        Ok(sqlx::query_scalar(count).fetch_one(&self.pool).await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ask = Ask::read(std::env::args().skip(1))?;
    let pool = PgPool::connect(&url()?).await?;
    PostgresStorage::setup(&pool).await?;
    let config = Config::default().queue("bench");
    let config = match ask.variant.as_str() {
        "tuned" => config.batch_size(500).lock_tasks(false),
        _ => config.batch_size(10),
    };
    let storage = PostgresStorage::new(&pool).with_config(config.clone());
    measure(&ask, Apalis { pool, config, workers: ask.concurrency, storage }).await?;
    std::process::exit(0)
}
