//! `punctual`: durable cron and background jobs, from the command line.

mod cron;
mod exit;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use exit::Failure;

/// Durable cron and background jobs: every due time has exactly one recorded outcome.
#[derive(Parser)]
#[command(name = "punctual", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Ask what a schedule expression means and when it is due
    #[command(subcommand)]
    Cron(cron::Command),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Cron(command) => command.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
