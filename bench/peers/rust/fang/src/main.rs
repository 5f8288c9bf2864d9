//! fang on PostgreSQL. It has no call that writes many jobs.

#[path = "../../harness.rs"]
mod harness;

use std::ops::Range;
use std::time::Duration;

use fang::asynk::async_queue::{AsyncQueue, AsyncQueueable};
use fang::asynk::async_worker_pool::AsyncWorkerPool;
use fang::serde::{Deserialize, Serialize};
use fang::{AsyncRunnable, FangError, SleepParams, async_trait, typetag};
use harness::{Ask, Failure, Peer, handled, measure, padding, url};
use sqlx::PgPool;

#[derive(Serialize, Deserialize)]
#[serde(crate = "fang::serde")]
struct Noop {
    id: u64,
    padding: String,
}

#[typetag::serde]
#[async_trait]
impl AsyncRunnable for Noop {
    async fn run(&self, _: &dyn AsyncQueueable) -> Result<(), FangError> {
        handled();
        Ok(())
    }
}

#[derive(Clone)]
struct Fang {
    pool: PgPool,
    queue: AsyncQueue,
    workers: u32,
    polls_often: bool,
}

impl Peer for Fang {
    const WRITES_MANY: bool = false;

    async fn enqueue(&mut self, id: u64) -> Result<(), Failure> {
        self.queue.insert_task(&Noop { id, padding: padding() }).await?;
        Ok(())
    }

    async fn enqueue_many(&mut self, _: Range<u64>) -> Result<(), Failure> {
        Err("fang writes one job at a time".into())
    }

    async fn work(&self) -> Result<(), Failure> {
        let pool = AsyncWorkerPool::<AsyncQueue>::builder()
            .number_of_workers(self.workers)
            .queue(self.queue.clone());
        // By itself it looks every 5 to 15 seconds.
        let often = Duration::from_millis(50);
        let sleep = SleepParams {
            sleep_period: often,
            max_sleep_period: often,
            min_sleep_period: often,
            sleep_step: Duration::ZERO,
        };
        match self.polls_often {
            true => pool.sleep_params(sleep).build().start().await,
            false => pool.build().start().await,
        }
        std::future::pending().await
    }

    async fn remaining(&self) -> Result<i64, Failure> {
        let count = "SELECT count(*) FROM fang_tasks";
        Ok(sqlx::query_scalar(count).fetch_one(&self.pool).await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ask = Ask::read(std::env::args().skip(1))?;
    let pool = PgPool::connect(&url()?).await?;
    let mut migrations: Vec<_> =
        std::fs::read_dir(env!("FANG_MIGRATIONS"))?.collect::<Result<_, _>>()?;
    migrations.sort_by_key(|migration| migration.file_name());
    for migration in migrations {
        let sql = std::fs::read_to_string(migration.path().join("up.sql"))?;
        sqlx::raw_sql(&sql).execute(&pool).await?;
    }
    let mut queue = AsyncQueue::builder().uri(url()?).max_pool_size(10_u32).build();
    queue.connect().await?;
    let (workers, polls_often) = (ask.concurrency as u32, ask.variant == "often");
    measure(&ask, Fang { pool, queue, workers, polls_often }).await?;
    std::process::exit(0)
}
