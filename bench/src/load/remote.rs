//! Remote workers over HTTP compared with the engine's own handlers, on databases of one kind.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use punctual::Order;
use punctual_core::NodeId;
use punctual_engine::{Env, System};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{elsewhere, fill, serve};
use crate::Failure;
use crate::client::{Connection, post};
use crate::databases::Databases;
use crate::measure::now;
use crate::ours::Ours;
use crate::queue::drain_by_engine;
use crate::report::{Figure, Goal};

/// Leases that a worker holds at the same time.
const LEASES: usize = 30;
/// Workers in the two measurements that are compared.
const FEW: usize = 8;
const MANY: usize = 32;
const QUEUE: &str = "far";
const KIND: &str = "remote";

/// How a worker reports its results.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Report {
    /// All results of a claim in one request.
    Together,
    /// One request per job, on a connection for each lease.
    Singly,
}

pub(super) async fn measure(
    databases: &Databases,
    jobs: usize,
    rounds: usize,
) -> Result<Vec<Figure>, Failure> {
    // A database is dropped with its value.
    let (own_database, database) =
        (databases.fresh("own").await?, databases.fresh("remote").await?);
    let own = Ours::open(&own_database, 1).await?;
    let (punctual, server) = serve(&database).await?;
    let enqueue = || fill(&punctual, jobs, |n| Order::of_kind(KIND, &n).queue(QUEUE));
    let [mut engine, mut few, mut many, mut singly] = [const { Vec::new() }; 4];
    // The first round warms caches and is not counted.
    for round in 0..=rounds {
        own.enqueue(jobs).await?;
        let drained = drain_by_engine(&own, jobs, true).await?;
        let mut rates = [jobs as f64 / drained.durable.as_secs_f64(), 0.0, 0.0, 0.0];
        let ways = [(FEW, Report::Together), (MANY, Report::Together), (FEW, Report::Singly)];
        for (rate, (workers, report)) in rates[1..].iter_mut().zip(ways) {
            enqueue().await?;
            *rate = elsewhere(async move || drain(server, workers, report, jobs).await).await?;
        }
        if round > 0 {
            for (seen, rate) in
                [&mut engine, &mut few, &mut many, &mut singly].into_iter().zip(rates)
            {
                seen.push(rate);
            }
        }
    }
    punctual.stop().await;
    let name = |workers| format!("{workers} remote workers with {LEASES} leases");
    Ok(vec![
        Figure::in_turns(name(FEW) + " / engine", &engine, &few).goal(Goal::AtLeast(0.2)),
        Figure::in_turns(name(MANY) + " / with 8 workers", &few, &many).goal(Goal::AtLeast(0.95)),
        Figure::in_turns(name(FEW) + ", a request per result / engine", &engine, &singly),
    ])
}

/// Lets this many workers settle all jobs; the rate per second until the last one was settled.
async fn drain(
    server: SocketAddr,
    workers: usize,
    report: Report,
    jobs: usize,
) -> Result<f64, Failure> {
    let left = Arc::new(AtomicUsize::new(jobs));
    let started = now();
    let mut running = JoinSet::new();
    for _ in 0..workers {
        running.spawn(work(server, report, left.clone()));
    }
    let mut ended = started;
    while let Some(worker) = running.join_next().await {
        ended = ended.max(worker??.unwrap_or(started));
    }
    Ok(jobs as f64 / (ended - started).as_secs_f64())
}

/// Claims and settles until no job is left, then leaves. Returns when it settled its last job.
async fn work(
    server: SocketAddr,
    report: Report,
    left: Arc<AtomicUsize>,
) -> Result<Option<Instant>, Failure> {
    let env: &dyn Env = &System;
    let node = NodeId::mint(env.wall(), env.seed()).to_string();
    let mut claims = Connection::open(server).await?;
    let mut singles = Vec::new();
    if report == Report::Singly {
        for _ in 0..LEASES {
            singles.push(Connection::open(server).await?);
        }
    }
    let claim = post(
        "/api/v1/claims",
        json!({"node": node, "name": "w", "queues": [QUEUE], "kinds": [KIND], "max": LEASES, "wait": "1s"}),
    );
    let (mut is_known, mut settled_at) = (false, None);
    while left.load(Ordering::Relaxed) > 0 {
        let claimed: Value = serde_json::from_slice(claims.ask(&claim).await?)?;
        is_known = true;
        let leases: Vec<String> = claimed["leases"]
            .as_array()
            .ok_or("a claim without leases")?
            .iter()
            .filter_map(|lease| Some(lease["lease"].as_str()?.to_owned()))
            .collect();
        let count = leases.len();
        if count == 0 {
            continue;
        }
        match report {
            Report::Together => settle_together(&mut claims, &leases).await?,
            Report::Singly => singles = settle_singly(singles, leases).await?,
        }
        settled_at = Some(now());
        left.fetch_sub(count, Ordering::Relaxed);
    }
    // A worker that found no job left has never claimed, and the server does not know its node.
    if is_known {
        claims.ask(&post(&format!("/api/v1/nodes/{node}/leave"), "")).await?;
    }
    Ok(settled_at)
}

async fn settle_together(connection: &mut Connection, leases: &[String]) -> Result<(), Failure> {
    let ends: Vec<Value> =
        leases.iter().map(|lease| json!({"lease": lease, "complete": {}})).collect();
    let request = post("/api/v1/leases:settle", json!({"leases": ends}));
    let answer: Value = serde_json::from_slice(connection.ask(&request).await?)?;
    let results = answer["results"].as_array().ok_or("a response without results")?;
    match results.iter().find(|result| result["state"] != "succeeded") {
        None => Ok(()),
        Some(result) => Err(format!("not settled: {result}").into()),
    }
}

async fn settle_singly(
    connections: Vec<Connection>,
    leases: Vec<String>,
) -> Result<Vec<Connection>, Failure> {
    let mut requests = JoinSet::new();
    let mut leases = leases.into_iter();
    let mut idle = Vec::new();
    for mut connection in connections {
        let Some(lease) = leases.next() else {
            idle.push(connection);
            continue;
        };
        requests.spawn(async move {
            connection.ask(&post(&format!("/api/v1/leases/{lease}/complete"), "{}")).await?;
            Ok::<Connection, Failure>(connection)
        });
    }
    while let Some(connection) = requests.join_next().await {
        idle.push(connection??);
    }
    Ok(idle)
}
