//! `punctual-bench`: our speed as a share of what the database itself can do, in the same run,
//! and proofs that need processes to die.

mod ids;
mod kill;
mod measure;
mod queue;
mod raw;
mod store;
mod worker;
mod worker_kill;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use punctual_core::NodeId;
use punctual_store::NodeInfo;
use serde::Serialize;

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
        /// Which database
        #[arg(long, value_enum)]
        backend: Backend,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        /// Where the files go [default: the system's temporary directory]
        #[arg(long)]
        directory: Option<PathBuf>,
        /// How many jobs wait in the drain scenarios; the large backlog has five times as many
        #[arg(long, default_value_t = 200_000)]
        backlog: usize,
        /// How long each turn lasts, in milliseconds
        #[arg(long, default_value_t = 500)]
        slice_ms: u64,
    },
    /// The engine beside the store it runs on: drain, pickup, and what it costs when idle
    Queue {
        /// Which database
        #[arg(long, value_enum)]
        backend: Backend,
        /// Print one line of JSON
        #[arg(long)]
        json: bool,
        /// Where the files go [default: the system's temporary directory]
        #[arg(long)]
        directory: Option<PathBuf>,
        /// How many jobs each turn drains
        #[arg(long, default_value_t = 50_000)]
        jobs: usize,
        /// How many jobs are picked up one by one
        #[arg(long, default_value_t = 300)]
        pickups: usize,
        /// How long an idle node is watched, in milliseconds
        #[arg(long, default_value_t = 10_000)]
        idle_ms: u64,
    },
    /// Kill a process that writes to SQLite, again and again, and count what is lost
    SqliteKill {
        /// How many times
        #[arg(long, default_value_t = 20)]
        kills: u64,
    },
    /// Kill and stop processes that run the engine, again and again, and check every job
    WorkerKill {
        /// How often a process is killed
        #[arg(long, default_value_t = 10)]
        kills: u64,
        /// How often a process is told to stop
        #[arg(long, default_value_t = 5)]
        stops: u64,
    },
    /// The process that runs the engine
    #[command(hide = true)]
    Worker {
        /// The file to work on
        file: PathBuf,
        /// What its jobs follow from
        seed: u64,
        /// Write no jobs, and end with the last one
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

#[derive(Clone, Copy, ValueEnum)]
enum Backend {
    Sqlite,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Store { backend: Backend::Sqlite, json, directory, backlog, slice_ms } => {
            let scale = store::Scale { backlog, slice: Duration::from_millis(slice_ms) };
            store::run(directory, &scale, json)
        }
        Command::Queue { backend: Backend::Sqlite, json, directory, jobs, pickups, idle_ms } => {
            let scale = queue::Scale { jobs, pickups, idle: Duration::from_millis(idle_ms) };
            queue::run(directory, &scale, json)
        }
        Command::SqliteKill { kills } => kill::prove(kills),
        Command::WorkerKill { kills, stops } => worker_kill::prove(kills, stops),
        Command::Worker { file, seed, drain } => worker::run(&file, seed, drain),
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
