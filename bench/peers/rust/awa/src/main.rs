//! awa.

#[path = "../../harness.rs"]
mod harness;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use awa::{
    Client, InsertOpts, InsertParams, JobArgs, JobResult, QueueConfig, QueueStorage,
    QueueStorageConfig,
};
use harness::{Ask, Failure, Peer, handled, measure, padding, url};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};

const QUEUE: &str = "bench";

#[derive(Debug, Serialize, Deserialize)]
struct Noop {
    id: u64,
    padding: String,
}

impl JobArgs for Noop {
    fn kind() -> &'static str {
        "noop"
    }
}

fn options() -> InsertOpts {
    InsertOpts { queue: QUEUE.into(), ..Default::default() }
}

#[derive(Clone)]
struct Awa {
    pool: PgPool,
    config: QueueConfig,
    storage: Arc<QueueStorage>,
    written: Arc<AtomicI64>,
}

impl Awa {
    fn client(&self) -> Result<Client, Failure> {
        Ok(Client::builder(self.pool.clone())
            .queue(QUEUE, self.config.clone())
            .register::<Noop, _, _>(|_: Noop, _| async {
                handled();
                Ok(JobResult::Completed)
            })
            .build()?)
    }
}

impl Peer for Awa {
    async fn enqueue(&mut self, id: u64) -> Result<(), Failure> {
        awa::insert_with(&self.pool, &Noop { id, padding: padding() }, options()).await?;
        self.written.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn enqueue_many(&mut self, ids: Range<u64>) -> Result<(), Failure> {
        let params = |id| {
            let args = serde_json::to_value(Noop { id, padding: padding() })?;
            Ok(InsertParams { kind: Noop::kind().into(), args, opts: options() })
        };
        let jobs: Vec<_> = ids.map(params).collect::<Result<_, Failure>>()?;
        self.storage.enqueue_params_copy(&self.pool, &jobs).await?;
        self.written.fetch_add(jobs.len() as i64, Ordering::Relaxed);
        Ok(())
    }

    async fn work(&self) -> Result<(), Failure> {
        let client = self.client()?;
        client.start().await?;
        std::future::pending().await
    }

    async fn remaining(&self) -> Result<i64, Failure> {
        let ended = self.storage.queue_counts(&self.pool, QUEUE).await?.terminal;
        Ok(self.written.load(Ordering::Relaxed) - ended)
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ask = Ask::read(std::env::args().skip(1))?;
    let pool = PgPoolOptions::new().max_connections(24).min_connections(8);
    let pool = pool.connect(&url()?).await?;
    awa::migrations::run(&pool).await?;
    let config = match ask.variant.as_str() {
        // What the project's own notes on benchmarks recommend: many permits, large claims, and
        // no deadline, so that a claim is one compact row for its batch.
        "fastest" => QueueConfig {
            max_workers: ask.concurrency as u32,
            deadline_duration: Duration::ZERO,
            claim_batch_size: 512,
            ..Default::default()
        },
        _ => QueueConfig { max_workers: ask.concurrency as u32, ..Default::default() },
    };
    let storage = Arc::new(QueueStorage::new(QueueStorageConfig::default())?);
    let awa = Awa { pool, config, storage, written: Arc::default() };
    // The first start of a worker settles a new installation on its storage.
    let first = awa.client()?;
    first.start().await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.shutdown(Duration::from_secs(5)).await;
    sqlx::query("VACUUM ANALYZE").execute(&awa.pool).await?;
    measure(&ask, awa).await?;
    std::process::exit(0)
}
