//! Claims while somebody holds an old transaction, so that no dead row can be cleared away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use punctual_engine::{Env, System};

use crate::Failure;
use crate::databases::{Database, Server};
use crate::measure::{Times, now};
use crate::ours::Ours;
use crate::report::{Figure, Goal, Unit};

/// Jobs written, claimed and settled at once.
const BATCH: usize = 100;
/// Jobs that wait all the time, so that no claim finds too few.
const WAITING: usize = 2_000;
/// Those who write, claim and settle all the time.
const WORKERS: usize = 2;

/// How long a claim takes at the end of that time, beside before.
pub(crate) async fn figure(server: &Server, held: Duration) -> Result<Figure, Failure> {
    let database = Database::Postgres(server.create("held").await?);
    let Database::Postgres(on_server) = &database else {
        return Err("not a PostgreSQL database".into());
    };
    let ours = Ours::open(&database, 2).await?;
    ours.enqueue(WAITING).await?;
    let watched = held / 6;
    // The first look warms caches.
    work(&ours, watched).await?;
    let before = work(&ours, watched).await?;
    let old = on_server.connect().await?;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM punctual.queue")
        .await?;
    work(&ours, held - watched).await?;
    let after = work(&ours, watched).await?;
    old.batch_execute("COMMIT").await?;
    let name = format!("claim of 100, an old transaction held for {} s", held.as_secs());
    Ok(Figure::of(name, Unit::Millis, before.median, after.median).goal(Goal::AtMost(3.0)))
}

/// Works for a while, and says how long claims took.
async fn work(ours: &Ours, during: Duration) -> Result<Times, Failure> {
    let is_over = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (ours, is_over) = (ours.clone(), is_over.clone());
            tokio::spawn(async move {
                let mut took = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    ours.enqueue(BATCH).await?;
                    let started = now();
                    let jobs = ours.claim(BATCH).await?;
                    took.push(started.elapsed());
                    ours.settle(&jobs).await?;
                }
                Ok::<_, Failure>(took)
            })
        })
        .collect();
    System.sleep(during).await;
    is_over.store(true, Ordering::Relaxed);
    let mut took = Vec::new();
    for worker in workers {
        took.extend(worker.await??);
    }
    Ok(Times::of(took))
}
