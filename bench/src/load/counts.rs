//! The time to read the job counts by queue, with many jobs and with few in the same queues.

use std::net::SocketAddr;
use std::time::Duration;

use punctual::{Order, Punctual};
use punctual_engine::{Env, System};

use super::{elsewhere, fill, serve};
use crate::Failure;
use crate::client::{Connection, get};
use crate::databases::{Database, Databases};
use crate::measure::{Times, now};
use crate::report::{Figure, Goal, Unit};

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Longest wait until the counts of a new backlog are stored.
const COUNTED_WITHIN: Duration = Duration::from_secs(300);

pub(super) async fn measure(
    databases: &Databases,
    queues: usize,
    jobs: usize,
    rounds: usize,
) -> Result<Vec<Figure>, Failure> {
    let (few, many) = (databases.fresh("few").await?, databases.fresh("many").await?);
    eprintln!("enqueueing {} jobs …", queues * jobs);
    let few = filled(&few, queues, queues).await?;
    let many = filled(&many, queues, queues * jobs).await?;
    wait_until_counted(&many.0).await?;
    let (small, large) = (few.1, many.1);
    let (few_times, many_times) = elsewhere(async move || {
        let (mut few, mut many) = (Vec::new(), Vec::new());
        // The first round warms caches and is not counted.
        for round in 0..=rounds {
            let times = (read(small).await?, read(large).await?);
            if round > 0 {
                few.push(times.0);
                many.push(times.1);
            }
        }
        Ok((few, many))
    })
    .await?;
    let (few_times, many_times) = (Times::of(few_times), Times::of(many_times));
    let name = format!("GET /queues, {} jobs / {queues} jobs in {queues} queues", queues * jobs);
    for (punctual, _) in [few, many] {
        punctual.stop().await;
    }
    Ok(vec![
        Figure::of(name, Unit::Millis, few_times.median, many_times.median).goal(Goal::AtMost(1.5)),
        Figure::of("the same, 99th percentile", Unit::Millis, few_times.p99, many_times.p99),
    ])
}

async fn filled(
    database: &Database,
    queues: usize,
    count: usize,
) -> Result<(Punctual, SocketAddr), Failure> {
    let (punctual, address) = serve(database).await?;
    fill(&punctual, count, |n| Order::of_kind("mail", &n).queue(&format!("q{:04}", n % queues)))
        .await?;
    database.rest().await?;
    Ok((punctual, address))
}

/// The leader of the role `maintenance` counts a backlog for the first time within a few seconds.
async fn wait_until_counted(punctual: &Punctual) -> Result<(), Failure> {
    let began = now();
    while punctual.admin().queue_stats(None, 1).await?.counted_at.is_none() {
        if began.elapsed() > COUNTED_WITHIN {
            return Err("no counts were stored".into());
        }
        System.sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// Reads the queue list, which has no pages.
async fn read(server: SocketAddr) -> Result<Duration, Failure> {
    let mut connection = Connection::open(server).await?;
    let started = now();
    connection.ask(&get("/api/v1/queues")).await?;
    Ok(started.elapsed())
}
