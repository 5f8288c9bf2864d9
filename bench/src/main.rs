//! `punctual-bench`: our speed as a share of what the database itself can do, in the same run,
//! and proofs that need processes to die.

mod account;
mod api;
mod backends;
mod client;
mod compare;
mod cost;
mod crontab;
mod dashboard;
mod database;
mod databases;
mod exactly_once;
mod held;
mod ids;
mod kill;
mod load;
mod measure;
mod ours;
mod peer;
mod peers;
mod pg_faults;
mod process;
mod proxy;
mod queue;
mod queue_limit;
mod raw;
mod recovery;
mod report;
mod schedule;
mod slots;
mod stale;
mod store;
mod worker;
mod worker_kill;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use punctual_core::NodeId;
use punctual_store::NodeInfo;
use serde::Serialize;

/// As the `punctual` binary has it.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

use crate::databases::Place;

/// Benchmarks of punctual compared with the plain database, and fault proofs.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare the store with plain SQL statements, in alternating rounds
    Store {
        #[command(flatten)]
        place: Place,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        /// Number of waiting jobs in the drain scenarios; the large backlog has five times as many
        #[arg(long, default_value_t = 200_000)]
        backlog: usize,
        /// Duration of each round, in milliseconds
        #[arg(long, default_value_t = 500)]
        slice_ms: u64,
        /// Time for which an old transaction is held open, in seconds; PostgreSQL only
        #[arg(long, default_value_t = 60)]
        held_seconds: u64,
    },
    /// Compare the engine with the store it runs on: drain, pickup time and idle cost
    Queue {
        #[command(flatten)]
        place: Place,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        /// Number of jobs drained per round; the large backlog has five times as many
        #[arg(long, default_value_t = 50_000)]
        jobs: usize,
        /// Number of counted rounds
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Number of jobs that are picked up one by one
        #[arg(long, default_value_t = 300)]
        pickups: usize,
        /// Time for which idle nodes are measured, in milliseconds
        #[arg(long, default_value_t = 20_000)]
        idle_ms: u64,
    },
    /// Compare settling after statistics of an idle moment with settling after fresh ones; PostgreSQL only
    StaleStatistics {
        #[command(flatten)]
        place: Place,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        /// Number of jobs that run at the same time
        #[arg(long, default_value_t = 10_000)]
        leases: usize,
        /// Number of rounds of each kind
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Compare a queue limit for all nodes with a limit of one node; PostgreSQL only
    QueueLimit {
        #[command(flatten)]
        place: Place,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        scale: queue_limit::Scale,
    },
    /// Compare a server under load with the same server without it
    Load {
        #[command(flatten)]
        place: Place,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        #[command(subcommand)]
        measure: load::Measure,
    },
    /// Measure the scheduler: lateness, fires compared with the plain SQL statement, and backlogs
    Schedule {
        #[command(flatten)]
        place: Place,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        scale: schedule::Scale,
    },
    /// Compare the API with the library and with an empty route
    Api {
        #[command(flatten)]
        place: Place,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        scale: api::Scale,
    },
    /// Kill a process that writes to SQLite repeatedly, and count lost writes
    SqliteKill {
        /// Number of kills
        #[arg(long, default_value_t = 20)]
        kills: u64,
    },
    /// Kill and stop processes that run the engine repeatedly, and check every job
    WorkerKill {
        /// Database; PostgreSQL runs three processes and must be on PATH
        #[arg(long, value_enum, default_value = "sqlite")]
        backend: database::Kind,
        /// Connect through a pooler
        #[arg(long)]
        pooled: bool,
        /// Number of kills
        #[arg(long, default_value_t = 10)]
        kills: u64,
        /// Number of graceful stops
        #[arg(long, default_value_t = 5)]
        stops: u64,
    },
    /// Kill workers whose handlers settle in their own transaction, and count every effect
    ExactlyOnce {
        /// Database; PostgreSQL runs three processes and must be on PATH
        #[arg(long, value_enum, default_value = "sqlite")]
        backend: database::Kind,
        /// Number of kills
        #[arg(long, default_value_t = 10)]
        kills: u64,
    },
    /// Crash PostgreSQL, cut connections and kill workers repeatedly, and check every job
    PgFaults {
        /// Duration, in seconds
        #[arg(long, env = "PUNCTUAL_PROOF_SECONDS", default_value_t = 60)]
        seconds: u64,
        /// Connect through a pooler
        #[arg(long)]
        pooled: bool,
        /// Seed of the faults
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Skip the time limits, because the host is busy with other tests
        #[arg(long)]
        untimed: bool,
    },
    /// Kill, freeze and stop nodes and servers while schedules fire, and check every slot
    Slots {
        /// Database; PostgreSQL runs three nodes and must be on PATH
        #[arg(long, value_enum, default_value = "postgres")]
        backend: database::Kind,
        /// Duration, in seconds; PostgreSQL only
        #[arg(long, env = "PUNCTUAL_PROOF_SECONDS", default_value_t = 60)]
        seconds: u64,
        /// Connect through a pooler
        #[arg(long)]
        pooled: bool,
        /// Seed of the faults
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Skip the time limits, because the host is busy with other tests; PostgreSQL only
        #[arg(long)]
        untimed: bool,
        /// Number of kills; SQLite only
        #[arg(long, default_value_t = 10)]
        kills: u64,
    },
    /// Measure time and size of each dashboard page with a long history
    Dashboard {
        /// Database; PostgreSQL must be on PATH
        #[arg(long, value_enum, default_value = "sqlite")]
        backend: database::Kind,
        #[command(flatten)]
        scale: dashboard::Scale,
    },
    /// Compare punctual with its peers on one PostgreSQL server; see bench/peers/README.md
    Peers(peers::Wishes),
    /// Compare the figures of two builds, from a file with one run per line
    Compare {
        /// File with one line of JSON per run
        runs: PathBuf,
        /// Lowest acceptable ratio of the new build to the old one
        #[arg(long, default_value_t = 0.98)]
        goal: f64,
    },
    /// Run six crontab lines with Debian's cron and with punctual, and compare the minutes; as root
    Crontab {
        /// Duration, in minutes
        #[arg(long, default_value_t = 3)]
        minutes: u64,
    },
    /// Run punctual as a peer
    #[command(hide = true)]
    Peer {
        /// Measure, number of jobs, and concurrency
        words: Vec<String>,
    },
    /// Run a process with the engine
    #[command(hide = true)]
    Worker {
        /// Database to work on
        database: database::Database,
        /// Seed of its jobs
        seed: u64,
        /// Write no jobs, and exit after the last job
        #[arg(long)]
        drain: bool,
        /// Queues to serve with the default settings
        #[arg(long)]
        queue: Vec<String>,
        /// Write no jobs, and work with the default settings until stopped
        #[arg(long)]
        serve: bool,
    },
    /// Run a process whose handlers write effects
    #[command(hide = true)]
    ExactlyOnceWorker {
        /// Database to work on
        database: database::Database,
        /// Exit after the last job
        #[arg(long)]
        drain: bool,
    },
    /// Run the process that is killed
    #[command(hide = true)]
    KillWriter {
        /// File to write to
        file: PathBuf,
        /// Seed of its ids
        seed: u64,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Store { place, json, backlog, slice_ms, held_seconds } => {
            let slice = Duration::from_millis(slice_ms);
            let held = Duration::from_secs(held_seconds);
            store::run(&place, &store::Scale { backlog, slice, held }, json)
        }
        Command::Queue { place, json, jobs, rounds, pickups, idle_ms } => {
            let idle = Duration::from_millis(idle_ms);
            queue::run(&place, &queue::Scale { jobs, rounds, pickups, idle }, json)
        }
        Command::StaleStatistics { place, json, leases, rounds } => {
            stale::run(&place, &stale::Scale { leases, rounds }, json)
        }
        Command::QueueLimit { place, json, scale } => queue_limit::run(&place, &scale, json),
        Command::Load { place, json, measure } => load::run(&place, &measure, json),
        Command::Schedule { place, json, scale } => schedule::run(&place, &scale, json),
        Command::Api { place, json, scale } => api::run(&place, &scale, json),
        Command::SqliteKill { kills } => kill::prove(kills),
        Command::WorkerKill { backend, pooled, kills, stops } => {
            worker_kill::prove(backend, pooled, kills, stops)
        }
        Command::ExactlyOnce { backend, kills } => exactly_once::prove(backend, kills),
        Command::ExactlyOnceWorker { database, drain } => exactly_once::work(&database, drain),
        Command::PgFaults { seconds, pooled, seed, untimed } => {
            pg_faults::prove(seconds, pooled, seed, !untimed)
        }
        Command::Slots { backend, seconds, pooled, seed, untimed, kills } => match backend {
            database::Kind::Sqlite => slots::sqlite::prove(kills, seed),
            database::Kind::Postgres => slots::postgres::prove(seconds, pooled, seed, !untimed),
        },
        Command::Worker { database, seed, drain, queue, serve } => {
            let manner = worker::Manner { seed, drains: drain, queues: queue, serves: serve };
            worker::run(&database, &manner)
        }
        Command::Dashboard { backend, scale } => dashboard::prove(backend, &scale),
        Command::Peers(wishes) => peers::run(&wishes),
        Command::Compare { runs, goal } => compare::run(&runs, goal),
        Command::Crontab { minutes } => crontab::prove(minutes),
        Command::Peer { words } => peer::run(words),
        Command::KillWriter { file, seed } => kill::write_until_killed(&file, seed),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A node that does the work of a bench.
fn node_info(id: NodeId) -> NodeInfo {
    NodeInfo {
        id,
        name: "bench".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        queues: vec![raw::QUEUE.to_owned()],
        kinds: vec![raw::KIND.to_owned()],
        labels: Vec::new(),
    }
}

/// The one line of a proof or bench; its name comes first, by which the line is known.
#[derive(Serialize)]
struct Line {
    proof: &'static str,
    #[serde(flatten)]
    said: serde_json::Value,
}

/// Prints what a proof or bench has to say.
fn tell(proof: &'static str, said: serde_json::Value) -> Result<(), Failure> {
    println!("{}", serde_json::to_string(&Line { proof, said })?);
    Ok(())
}

/// Whatever went wrong; a bench has nothing to do but say it.
type Failure = Box<dyn std::error::Error + Send + Sync>;
