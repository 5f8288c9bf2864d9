//! `punctual`: durable cron and background jobs, from the command line.

mod answers;
mod bulk;
mod cluster;
mod config;
mod cron;
mod db;
mod events;
mod exclude;
mod exec;
mod exit;
mod files;
mod jobs;
mod output;
mod pages;
mod schedules;
mod serve;
mod shell;
mod target;
mod top;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use exit::Failure;
use serve::settings::Flags;
use target::Target;

/// What one thread asks for another one gives back, for every request and every job: the system's own
/// allocator spends a third of a server's time on that.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Durable cron and background jobs: every due time has exactly one recorded outcome.
#[derive(Parser)]
#[command(name = "punctual", version, propagate_version = true)]
struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the product: API, scheduler and workers in one process
    Serve {
        #[command(flatten)]
        flags: Flags,
        /// Print a unit for systemd instead
        #[arg(long)]
        print_systemd_unit: bool,
    },
    /// Run it to try it: on a file in this directory, with a demonstration that keeps happening
    Dev(Flags),
    /// When jobs are made
    Schedule {
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: schedules::Command,
    },
    /// Units of work
    Job {
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: jobs::Command,
    },
    /// Where jobs wait
    Queue {
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: cluster::QueueCommand,
    },
    /// Who works
    Node {
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: cluster::NodeCommand,
    },
    /// Who leads what
    Leader {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// What happens, as it happens
    Events(events::Args),
    /// Everything on one screen, again and again
    Top(top::Args),
    /// Why something is as it is
    Why {
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        about: answers::About,
    },
    /// Look for whatever is not as it should be; exit 1 if something is wrong
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what files of schedules would change; exit 1 if they would
    Diff(files::Diff),
    /// Bring schedules to what files say, all of it or nothing
    Apply(files::Apply),
    /// Write schedules as a file
    Export(files::Export),
    /// Make a file of schedules from what others keep
    #[command(subcommand)]
    Import(files::Import),
    /// Show every slot and what becomes of it, for files, a time and outages
    Simulate(files::Simulate),
    /// Print the JSON Schema of files of schedules
    Schema,
    /// Run a command of an existing crontab line, and keep what became of it
    Exec(exec::Exec),
    /// The database itself
    Db {
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: db::Command,
    },
    /// What a server would be told
    Config {
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: config::Command,
    },
    /// Ask what a schedule expression means and when it is due
    #[command(subcommand)]
    Cron(cron::Command),
    /// Print what a shell needs to complete commands
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual of all commands, or of one
    Man {
        /// The command, such as `job enqueue`
        words: Vec<String>,
    },
}

fn main() -> ExitCode {
    // Not for people: the process between a worker and a command, and the one that becomes it.
    match std::env::args_os().nth(1) {
        Some(word) if word == punctual_command::SHIM => return punctual_command::shim(),
        Some(word) if word == punctual_command::LAST_STEP => return punctual_command::last_step(),
        _ => {}
    }
    output::speak_as_asked(std::env::args_os());
    match understood().and_then(|Arguments { target, command }| run(&target, command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// What is asked for. A question about the commands themselves is answered here, and ends the process.
fn understood() -> Result<Arguments, Failure> {
    let understood = Arguments::command()
        .try_get_matches()
        .and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, matches)));
    let (Arguments { target, command }, matches) =
        understood.map_err(|error| match (error.use_stderr(), output::is_json()) {
            (true, true) => Failure::usage(error.to_string().trim().trim_start_matches("error: ")),
            // With colours, and help on stdout.
            _ => error.exit(),
        })?;
    Ok(Arguments { target: target.settled(&matches)?, command })
}

fn run(target: &Target, command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve { flags, print_systemd_unit: true } => {
            let unit = serve::systemd::unit(&flags, target.database(), target.token())?;
            anstream::print!("{unit}");
            Ok(())
        }
        Command::Serve { flags, print_systemd_unit: false } => {
            serve::serve(&flags.settings(target.database())?, target.token(), false)
        }
        Command::Dev(flags) => {
            serve::serve(&flags.settings(target.database())?, target.token(), true)
        }
        Command::Schedule { json, command } => {
            let client = match command {
                schedules::Command::Create(_) => target.client_that_may_create(),
                _ => target.client(),
            };
            command.run(&client?, json)
        }
        Command::Job { json, command } => {
            let client = match command {
                jobs::Command::Enqueue(_) => target.client_that_may_create(),
                _ => target.client(),
            };
            command.run(&client?, json)
        }
        Command::Queue { json, command } => command.run(&target.client()?, json),
        Command::Node { json, command } => command.run(&target.client()?, json),
        Command::Leader { json } => cluster::leaders(&target.client()?, json),
        Command::Events(args) => args.run(&target.client()?),
        Command::Top(args) => args.run(&target.client()?),
        Command::Why { json, about } => answers::why(about, &target.client()?, json),
        Command::Doctor { json } => answers::doctor(target, json),
        Command::Diff(diff) => diff.run(target),
        Command::Apply(apply) => apply.run(target),
        Command::Export(export) => export.run(&target.client()?),
        Command::Import(import) => import.run(),
        Command::Simulate(simulate) => simulate.run(),
        Command::Schema => files::schema(),
        Command::Exec(exec) => exec.run(target),
        Command::Db { json, command } => command.run(target, json),
        Command::Config { json, command } => command.run(target, json),
        Command::Cron(command) => command.run(),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man { words } => shell::man(&words),
    }
}
