//! What a job costs a PostgreSQL server: bytes of its log, and commits.

use crate::Failure;
use crate::databases::{Database, Databases, Server};
use crate::ours::Ours;
use crate::report::{Figure, Unit};
use crate::store::BATCH;

/// What is done with jobs.
#[derive(Clone, Copy)]
enum Deed {
    EnqueueOne,
    EnqueueMany,
    Drain,
}

impl Deed {
    fn name(self) -> &'static str {
        match self {
            Deed::EnqueueOne => "enqueue, one caller",
            Deed::EnqueueMany => "enqueue, 1,000 per call",
            Deed::Drain => "claim and settle, 200 at once",
        }
    }

    /// How many jobs make a good mean, where this many are a backlog.
    fn count(self, backlog: usize) -> usize {
        match self {
            Deed::EnqueueOne => (backlog / 40).max(100),
            Deed::EnqueueMany | Deed::Drain => (backlog / 2).max(2_000),
        }
    }

    async fn run(self, ours: &Ours, count: usize) -> Result<u64, Failure> {
        match self {
            Deed::EnqueueOne => ours.enqueue_singly(1, count).await,
            Deed::EnqueueMany => ours.enqueue(count).await,
            Deed::Drain => ours.drain(1, count.div_ceil(BATCH), BATCH).await,
        }
    }
}

/// Two figures for each deed.
pub(crate) async fn figures(
    server: &Server,
    databases: &Databases,
    backlog: usize,
) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    for deed in [Deed::EnqueueOne, Deed::EnqueueMany, Deed::Drain] {
        let count = deed.count(backlog);
        // Opening a store and preparing its statements is not the job's cost: it is done twice,
        // once with hardly any job.
        let few = BATCH;
        let (wal_few, commits_few) = spent(server, databases, deed, few).await?;
        let (wal, commits) = spent(server, databases, deed, few + count).await?;
        let each = |all: i64, few: i64| (all - few) as f64 / count as f64;
        let name = |what| format!("{what} per job: {}", deed.name());
        figures.push(Figure::alone(name("log"), Unit::Bytes, each(wal, wal_few)));
        figures.push(Figure::alone(name("commits"), Unit::Commits, each(commits, commits_few)));
    }
    Ok(figures)
}

/// What the server spends on a store that does this and is closed.
async fn spent(
    server: &Server,
    databases: &Databases,
    deed: Deed,
    count: usize,
) -> Result<(i64, i64), Failure> {
    let waiting = if matches!(deed, Deed::Drain) { count } else { 0 };
    let database = databases.filled("cost", waiting).await?;
    let Database::Postgres(on_server) = &database else { return Ok((0, 0)) };
    // Connections tell of their commits when they end at the latest.
    server.left(on_server).await?;
    let before = server.spent(on_server).await?;
    let ours = Ours::open(&database, 2).await?;
    deed.run(&ours, count).await?;
    drop(ours);
    server.left(on_server).await?;
    let after = server.spent(on_server).await?;
    Ok((after.wal_bytes - before.wal_bytes, after.commits - before.commits))
}
