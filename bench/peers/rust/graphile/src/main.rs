//! graphile_worker, the port of graphile-worker to Rust.

#[path = "../../harness.rs"]
mod harness;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, Worker,
    WorkerContext, WorkerOptions, WorkerUtils,
};
use harness::{Ask, Failure, Peer, handled, measure, padding, url};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};

#[derive(Serialize, Deserialize)]
struct Noop {
    id: u64,
    padding: String,
}

impl TaskHandler for Noop {
    const IDENTIFIER: &'static str = "noop";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        handled();
        Ok::<(), String>(())
    }
}

#[derive(Clone)]
struct Graphile {
    pool: PgPool,
    worker: Arc<Worker>,
    utils: Arc<WorkerUtils>,
}

impl Peer for Graphile {
    async fn enqueue(&mut self, id: u64) -> Result<(), Failure> {
        self.utils.add_job(Noop { id, padding: padding() }, JobSpec::default()).await?;
        Ok(())
    }

    async fn enqueue_many(&mut self, ids: Range<u64>) -> Result<(), Failure> {
        let spec = |id| RawJobSpec {
            identifier: Noop::IDENTIFIER.into(),
            payload: serde_json::json!({"id": id, "padding": padding()}),
            spec: JobSpec::default(),
        };
        self.utils.add_raw_jobs(&ids.map(spec).collect::<Vec<_>>()).await?;
        Ok(())
    }

    async fn work(&self) -> Result<(), Failure> {
        let worker = self.worker.clone();
        Ok(tokio::spawn(async move { worker.run().await }).await??)
    }

    async fn remaining(&self) -> Result<i64, Failure> {
        let count = "SELECT count(*) FROM graphile_worker._private_jobs";
        Ok(sqlx::query_scalar(count).fetch_one(&self.pool).await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let ask = Ask::read(std::env::args().skip(1))?;
    let pool = PgPoolOptions::new().max_connections(12).connect(&url()?).await?;
    let mut options = WorkerOptions::default()
        .pg_pool(pool.clone())
        .define_job::<Noop>()
        .concurrency(ask.concurrency)
        .listen_os_shutdown_signals(false);
    if ask.variant == "fastest" {
        // As in the benchmark that the crate itself comes with.
        options = options
            .local_queue(LocalQueueConfig::default().with_size(5_000))
            .complete_job_batch_delay(Duration::from_millis(5));
    }
    let worker = Arc::new(options.init().await?);
    let utils = Arc::new(worker.create_utils());
    measure(&ask, Graphile { pool, worker, utils }).await?;
    std::process::exit(0)
}
