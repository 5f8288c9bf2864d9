//! `punctual-bench`: our speed as a share of what the database itself can do, in the same run,
//! and proofs that need processes to die.

mod account;
mod api;
mod backends;
mod cost;
mod crontab;
mod dashboard;
mod database;
mod databases;
mod exactly_once;
mod held;
mod ids;
mod kill;
mod measure;
mod ours;
mod peer;
mod peers;
mod pg_faults;
mod process;
mod proxy;
mod queue;
mod raw;
mod recovery;
mod report;
mod schedule;
mod slots;
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

/// Our speed as a share of what the database itself can do.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The store beside the bare statements, in turns
    Store {
        #[command(flatten)]
        place: Place,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        /// How many jobs wait in the drain scenarios; the large backlog has five times as many
        #[arg(long, default_value_t = 200_000)]
        backlog: usize,
        /// How long each turn lasts, in milliseconds
        #[arg(long, default_value_t = 500)]
        slice_ms: u64,
        /// How long an old transaction is held beside the store, in seconds; PostgreSQL only
        #[arg(long, default_value_t = 60)]
        held_seconds: u64,
    },
    /// The engine beside the store it runs on: drain, pickup, and what it costs when idle
    Queue {
        #[command(flatten)]
        place: Place,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        /// How many jobs each turn drains; the large backlog has five times as many
        #[arg(long, default_value_t = 50_000)]
        jobs: usize,
        /// How many turns are counted
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// How many jobs are picked up one by one
        #[arg(long, default_value_t = 300)]
        pickups: usize,
        /// How long idle nodes are watched, in milliseconds
        #[arg(long, default_value_t = 20_000)]
        idle_ms: u64,
    },
    /// The scheduler: how late slots are, its fires beside the bare statement, and what lies behind
    Schedule {
        #[command(flatten)]
        place: Place,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        scale: schedule::Scale,
    },
    /// The API beside the library, and beside a route that does nothing
    Api {
        #[command(flatten)]
        place: Place,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        scale: api::Scale,
    },
    /// Kill a process that writes to SQLite, again and again, and count what is lost
    SqliteKill {
        /// How many times
        #[arg(long, default_value_t = 20)]
        kills: u64,
    },
    /// Kill and stop processes that run the engine, again and again, and check every job
    WorkerKill {
        /// On which database; three processes at once on PostgreSQL, whose programs are on PATH
        #[arg(long, value_enum, default_value = "sqlite")]
        backend: database::Kind,
        /// Through a pooler
        #[arg(long)]
        pooled: bool,
        /// How often a process is killed
        #[arg(long, default_value_t = 10)]
        kills: u64,
        /// How often a process is told to stop
        #[arg(long, default_value_t = 5)]
        stops: u64,
    },
    /// Kill workers whose handlers settle in their own transaction, and count every effect
    ExactlyOnce {
        /// On which database; three processes at once on PostgreSQL, whose programs are on PATH
        #[arg(long, value_enum, default_value = "sqlite")]
        backend: database::Kind,
        /// How often a process is killed
        #[arg(long, default_value_t = 10)]
        kills: u64,
    },
    /// Crash PostgreSQL, cut its connections and kill workers, again and again, and check every job
    PgFaults {
        /// For how long
        #[arg(long, env = "PUNCTUAL_PROOF_SECONDS", default_value_t = 60)]
        seconds: u64,
        /// Through a pooler
        #[arg(long)]
        pooled: bool,
        /// What the faults follow from
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Do not judge how long things take: the host is busy with other tests
        #[arg(long)]
        untimed: bool,
    },
    /// Kill, freeze and stop nodes and servers while schedules fire, and check every slot
    Slots {
        /// On which database; three nodes at once on PostgreSQL, whose programs are on PATH
        #[arg(long, value_enum, default_value = "postgres")]
        backend: database::Kind,
        /// For how long; PostgreSQL only
        #[arg(long, env = "PUNCTUAL_PROOF_SECONDS", default_value_t = 60)]
        seconds: u64,
        /// Through a pooler
        #[arg(long)]
        pooled: bool,
        /// What the faults follow from
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Do not judge how long things take: the host is busy with other tests; PostgreSQL only
        #[arg(long)]
        untimed: bool,
        /// How often the process is killed; SQLite only
        #[arg(long, default_value_t = 10)]
        kills: u64,
    },
    /// How long each page of the dashboard takes over a long history, and what it weighs
    Dashboard {
        /// On which database; the programs of PostgreSQL are on PATH
        #[arg(long, value_enum, default_value = "sqlite")]
        backend: database::Kind,
        #[command(flatten)]
        scale: dashboard::Scale,
    },
    /// punctual beside its rivals on one PostgreSQL, in turns; see bench/peers/README.md
    Peers(peers::Wishes),
    /// Run six lines with Debian's cron and with punctual, and compare the minutes; as root
    Crontab {
        /// How many minutes
        #[arg(long, default_value_t = 3)]
        minutes: u64,
    },
    /// punctual as one of them
    #[command(hide = true)]
    Peer {
        /// What is measured, with how many jobs, and how many at once
        words: Vec<String>,
    },
    /// The process that runs the engine
    #[command(hide = true)]
    Worker {
        /// What to work on
        database: database::Database,
        /// What its jobs follow from
        seed: u64,
        /// Write no jobs, and end with the last one
        #[arg(long)]
        drain: bool,
        /// Serve these queues, with the usual settings
        #[arg(long)]
        queue: Vec<String>,
        /// Write no jobs, and work with the usual settings until told to stop
        #[arg(long)]
        serve: bool,
    },
    /// The process that has effects
    #[command(hide = true)]
    ExactlyOnceWorker {
        /// What to work on
        database: database::Database,
        /// End with the last job
        #[arg(long)]
        drain: bool,
    },
    /// The process that is killed
    #[command(hide = true)]
    KillWriter {
        /// The file to write to
        file: PathBuf,
        /// What its ids follow from
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
