//! The API beside what is under it: a batch over HTTP beside the library's own, and single requests
//! beside a route that parses the same JSON and does nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use punctual::{Order, Punctual};
use punctual_api::{EnqueueRequest, EnqueueResponse};
use punctual_server::{Closing, ConnectionLimits, Routers, Server};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::client::{Connection, post as request};
use crate::databases::{Database, Databases, Place};
use crate::measure::now;
use crate::report::{Figure, Goal};
use crate::{Failure, report};

/// How large the bench is.
#[derive(clap::Args)]
pub(crate) struct Scale {
    /// Duration of each round, in milliseconds
    #[arg(long, default_value_t = 500)]
    slice_ms: u64,
    /// Number of counted rounds
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Number of concurrent connections, each with one job per request
    #[arg(long, default_value_t = 64)]
    connections: usize,
}

/// Jobs of one batch, and how many batches are under way.
const BATCH: usize = 1_000;
const BATCHES: usize = 4;

pub(crate) fn run(place: &Place, scale: &Scale, as_json: bool) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (databases, figures) = runtime.block_on(async {
        let databases = Databases::open(place).await?;
        let figures = measure(&databases, scale).await?;
        Ok::<_, Failure>((databases, figures))
    })?;
    let size = json!({"slice_ms": scale.slice_ms, "connections": scale.connections});
    let proof = databases.manner().api_bench;
    report::print(&databases, proof, &size, &figures, as_json)
}

async fn measure(databases: &Databases, scale: &Scale) -> Result<Vec<Figure>, Failure> {
    let slice = Duration::from_millis(scale.slice_ms);
    let database = databases.fresh("api").await?;
    let punctual = producer(&database).await?;
    let server = Server { kinds: vec!["mail".to_owned()], ..Server::new(punctual.clone()) };
    let (ours, bare) = (serve(server.routers()).await?, serve_bare(bare()).await?);
    let (mut library, mut batches) = (Vec::new(), Vec::new());
    let (mut routes, mut singles) = (Vec::new(), Vec::new());
    eprintln!("batches, and single requests …");
    // The first round warms caches and is not counted.
    for round in 0..=scale.rounds {
        let turn = [
            by_library(&punctual, slice).await?,
            over_http(ours, "/api/v1/jobs:batch", &batch(), BATCHES, slice).await? * BATCH as f64,
            over_http(bare, "/api/v1/jobs", &single(), scale.connections, slice).await?,
            over_http(ours, "/api/v1/jobs", &single(), scale.connections, slice).await?,
        ];
        if round > 0 {
            for (seen, rate) in
                [&mut library, &mut batches, &mut routes, &mut singles].into_iter().zip(turn)
            {
                seen.push(rate);
            }
        }
    }
    let many = format!("single POST /jobs, {} connections / bare axum route", scale.connections);
    Ok(vec![
        Figure::in_turns("jobs by POST /jobs:batch / by enqueue_many", &library, &batches)
            .goal(Goal::AtLeast(0.5)),
        Figure::in_turns(many, &routes, &singles).goal(Goal::AtLeast(0.4)),
    ])
}

/// One who enqueues, and nobody who works: what is measured is the way in.
async fn producer(database: &Database) -> Result<Punctual, Failure> {
    let builder = match database {
        Database::Sqlite(path) => Punctual::sqlite(path).producer().await?,
        Database::Postgres(database) => Punctual::postgres(database.url()).producer().await?,
    };
    Ok(builder.start().await?)
}

/// The least that a server does with such a request.
fn bare() -> Router {
    let answer = async |Json(ask): Json<EnqueueRequest>| {
        (axum::http::StatusCode::CREATED, Json(EnqueueResponse { id: ask.kind, is_new: true }))
    };
    Router::new().route("/api/v1/jobs", post(answer))
}

/// Uses the accept loop of `punctual serve`.
pub(crate) async fn serve(routers: Routers) -> Result<SocketAddr, Failure> {
    let listener = punctual_server::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let address = listener.local_addr()?;
    let limits = ConnectionLimits::default();
    tokio::spawn(punctual_server::listen(listener, routers, limits, Closing::default()));
    Ok(address)
}

async fn serve_bare(router: Router) -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

fn payload() -> serde_json::Value {
    json!({"to": "ada@example.com", "subject": "news", "number": 7})
}

fn single() -> String {
    json!({"kind": "mail", "payload": payload(), "queue": "default"}).to_string()
}

fn batch() -> String {
    let job = json!({"kind": "mail", "payload": payload(), "queue": "default"});
    json!({"jobs": vec![job; BATCH]}).to_string()
}

/// Jobs per second that the library writes.
async fn by_library(punctual: &Punctual, slice: Duration) -> Result<f64, Failure> {
    let mut callers = JoinSet::new();
    let started = now();
    for _ in 0..BATCHES {
        let punctual = punctual.clone();
        callers.spawn(async move {
            let mut done = 0;
            while started.elapsed() < slice {
                let order = || Order::of_kind("mail", &payload()).queue("default");
                let orders: Vec<Order> = (0..BATCH).map(|_| order()).collect();
                for receipt in punctual.enqueue_many(orders).await? {
                    receipt?;
                    done += 1;
                }
            }
            Ok::<u64, Failure>(done)
        });
    }
    sum(callers).await.map(|done| done as f64 / started.elapsed().as_secs_f64())
}

/// Requests per second, by so many connections at once, which have a thread of their own, as somebody
/// else's process has.
async fn over_http(
    server: SocketAddr,
    path: &str,
    body: &str,
    connections: usize,
    slice: Duration,
) -> Result<f64, Failure> {
    let request: Arc<[u8]> = request(path, body).into();
    let ask = async move || {
        let mut callers = JoinSet::new();
        let started = now();
        for _ in 0..connections {
            let request = request.clone();
            callers.spawn(async move {
                let mut connection = Connection::open(server).await?;
                let mut done = 0;
                while started.elapsed() < slice {
                    connection.ask(&request).await?;
                    done += 1;
                }
                Ok::<u64, Failure>(done)
            });
        }
        sum(callers).await.map(|done| done as f64 / started.elapsed().as_secs_f64())
    };
    let elsewhere = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::spawn_blocking(move || elsewhere.block_on(ask())).await?
}

async fn sum(mut callers: JoinSet<Result<u64, Failure>>) -> Result<u64, Failure> {
    let mut sum = 0;
    while let Some(done) = callers.join_next().await {
        sum += done??;
    }
    Ok(sum)
}
