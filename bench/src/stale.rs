//! Settling after PostgreSQL collected statistics while no job was running, compared with statistics of the
//! tables as they are.

use serde_json::json;

use crate::Failure;
use crate::databases::{Database, Databases, Place};
use crate::measure::now;
use crate::ours::Ours;
use crate::report::{self, Figure, Goal};

/// Jobs that are claimed at once.
const CLAIM: usize = 200;
/// Jobs that are settled at once.
const SETTLE: usize = 1_000;
/// The tables whose statistics matter here. Autovacuum would replace them.
const TABLES: [&str; 4] = ["job_ready", "job_lease", "job_key", "job_live"];

/// How large the bench is.
pub(crate) struct Scale {
    pub(crate) leases: usize,
    pub(crate) rounds: usize,
}

/// When the statistics are collected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Statistics {
    /// Before the burst, while the tables are empty.
    Stale,
    /// In the burst.
    Fresh,
}

pub(crate) fn run(place: &Place, scale: &Scale, as_json: bool) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (databases, figure) = runtime.block_on(async {
        let databases = Databases::open(place).await?;
        let (mut stale, mut fresh) = (Vec::new(), Vec::new());
        for _ in 0..scale.rounds {
            stale.push(settle(&databases, scale.leases, Statistics::Stale).await?);
            fresh.push(settle(&databases, scale.leases, Statistics::Fresh).await?);
        }
        let name = "settling, stale statistics compared with fresh ones";
        let figure = Figure::in_turns(name, &fresh, &stale).goal(Goal::AtLeast(0.8));
        Ok::<_, Failure>((databases, figure))
    })?;
    let size = json!({"leases": scale.leases, "rounds": scale.rounds});
    report::print(&databases, "stale-statistics", &size, &[figure], as_json)
}

/// Settles this many leases in a new database; the rate per second.
async fn settle(
    databases: &Databases,
    leases: usize,
    statistics: Statistics,
) -> Result<f64, Failure> {
    let database = databases.fresh("stale").await?;
    let ours = Ours::open(&database, 1).await?;
    let Database::Postgres(server) = &database else {
        return Err("statistics are collected by PostgreSQL only; use --backend postgres".into());
    };
    let client = server.connect().await?;
    for table in TABLES {
        let text = format!("ALTER TABLE punctual.{table} SET (autovacuum_enabled = false)");
        client.batch_execute(&text).await?;
    }
    // Leaves pages without rows.
    ours.enqueue(SETTLE).await?;
    let jobs = claim(&ours, SETTLE).await?;
    ours.settle(&jobs).await?;
    let analyze = format!("ANALYZE punctual.{}", TABLES.join(", punctual."));
    if statistics == Statistics::Stale {
        client.batch_execute(&analyze).await?;
    }
    ours.enqueue(leases).await?;
    let jobs = claim(&ours, leases).await?;
    if statistics == Statistics::Fresh {
        client.batch_execute(&analyze).await?;
    }
    let started = now();
    for batch in jobs.chunks(SETTLE) {
        ours.settle(batch).await?;
    }
    Ok(jobs.len() as f64 / started.elapsed().as_secs_f64())
}

async fn claim(ours: &Ours, count: usize) -> Result<Vec<punctual_store::ClaimedJob>, Failure> {
    let mut jobs = Vec::new();
    while jobs.len() < count {
        let claimed = ours.claim(CLAIM.min(count - jobs.len())).await?;
        if claimed.is_empty() {
            return Err(format!("{} of {count} jobs could be claimed", jobs.len()).into());
        }
        jobs.extend(claimed);
    }
    Ok(jobs)
}
