//! `punctual`: durable cron and background jobs, from the command line.

mod answers;
mod bulk;
mod cluster;
mod config;
mod cron;
mod database;
mod db;
mod events;
mod exclude;
mod exec;
mod exit;
mod files;
mod help;
mod jobs;
mod output;
mod pages;
mod redact;
mod schedules;
mod serve;
mod shell;
mod target;
mod top;

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use exit::Failure;
use serve::settings::Flags;
use target::Target;

/// What one thread asks for another one gives back, for every request and every job: the system's own
/// allocator spends a third of a server's time on that.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Durable cron and background jobs on SQLite or PostgreSQL
#[derive(Parser)]
#[command(name = "punctual", version, propagate_version = true, after_help = AFTER_HELP)]
struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  punctual dev
  punctual job enqueue echo --payload '\"hello\"' --wait
  punctual schedule create digest --cron '0 8 * * MON-FRI' --tz Europe/Paris --kind echo
  punctual why schedule digest
  punctual apply -f schedules.toml

Exit codes:
  0  success                     5    conflict, for example a changed or existing object
  1  failed or unhealthy         6    server or database unreachable
  2  invalid arguments or input  78   database schema is newer than this program
  3  not found                   130  interrupted
  4  not allowed

Run `punctual <COMMAND> --help` for the options of a command.";

const SERVE_HELP: &str = "\
Settings are read from the configuration file, then from environment variables such as
PUNCTUAL__SERVER__LISTEN, then from the options; later values replace earlier ones.
`punctual config show` prints the result. The log goes to stderr; `log.level` and `log.format`
set its level and format.

SIGTERM and Ctrl-C stop the server. Running jobs may finish within `worker.shutdown_grace` (30s);
then they are released without using an attempt. A second signal stops the server at once.

If a PostgreSQL database cannot be reached at start, the server retries for up to `database.wait`
(60s) and then exits with code 6.

Examples:
  punctual serve
  punctual serve --database postgres://app@db/app --token-file /etc/punctual/token
  punctual serve --role worker --queue mail,reports --label zone=eu";

const DEV_HELP: &str = "\
The demo schedules run every few seconds, and some of their jobs fail. Jobs of kind `command` may
run any program while the server listens on a loopback address.";

const WHY_HELP: &str = "\
The most important reason is first. A line that starts with → is the suggested fix.

Examples:
  punctual why schedule nightly-backup
  punctual why job 01932b2f-7c00-7a3e-8f21-0d6f3c5b9a10
  punctual why queue mail";

#[derive(Subcommand)]
enum Command {
    /// Run the server: API, dashboard, scheduler and workers in one process
    #[command(after_help = SERVE_HELP)]
    Serve {
        #[command(flatten)]
        flags: Flags,
        /// Print a systemd unit with these options and exit
        #[arg(long)]
        print_systemd_unit: bool,
    },
    /// Run a demo server on a local SQLite file with sample schedules
    #[command(after_help = DEV_HELP)]
    Dev(Flags),
    /// Manage schedules
    #[command(after_help = schedules::AFTER_HELP)]
    Schedule {
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: schedules::Command,
    },
    /// Manage jobs
    Job {
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: jobs::Command,
    },
    /// Manage queues
    Queue {
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: cluster::QueueCommand,
    },
    /// List nodes and drain remote workers
    Node {
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: cluster::NodeCommand,
    },
    /// Show which node holds each leader role
    Leader {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show recent events, or stream new ones
    #[command(after_help = events::AFTER_HELP)]
    Events(events::Args),
    /// Show a live overview of nodes, queues, schedules and failures
    Top(top::Args),
    /// Explain the state of a job, schedule or queue
    #[command(after_help = WHY_HELP)]
    Why {
        /// Print JSON, with a stable code for each reason
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        about: answers::About,
    },
    /// Check the installation and report problems
    #[command(after_help = "Exit code 0 if no problem is found, 1 otherwise.")]
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what applying schedule files would change
    #[command(after_help = files::DIFF_HELP)]
    Diff(files::Diff),
    /// Apply schedule files
    #[command(after_help = files::APPLY_HELP)]
    Apply(files::Apply),
    /// Export schedules as a schedule file
    #[command(after_help = files::EXPORT_HELP)]
    Export(files::Export),
    /// Convert crontabs to a schedule file
    #[command(subcommand)]
    Import(files::Import),
    /// Show the slots of schedule files in a time range and their outcomes
    #[command(after_help = files::SIMULATE_HELP)]
    Simulate(files::Simulate),
    /// Print the JSON Schema of schedule files
    Schema,
    /// Run a command and record its output and exit code
    #[command(after_help = exec::AFTER_HELP)]
    Exec(exec::Exec),
    /// Migrate, back up and check the database
    Db {
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: db::Command,
    },
    /// Show and check the server configuration
    Config {
        /// Print JSON
        #[arg(long, global = true)]
        json: bool,
        #[command(subcommand)]
        command: config::Command,
    },
    /// Explain and check cron expressions
    #[command(subcommand)]
    Cron(cron::Command),
    /// Generate shell completions
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Print a manual page
    Man {
        /// Command, for example `job enqueue` [default: the page of `punctual`]
        #[arg(value_name = "COMMAND")]
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
    let understood = help::arranged(Arguments::command())
        .try_get_matches()
        .and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, matches)));
    let (Arguments { target, command }, matches) =
        understood.map_err(|error| match is_help(&error) {
            // With colours, and help on stdout.
            true => error.exit(),
            // It repeats arguments, which may contain escape sequences.
            false => Failure::usage(error.to_string().trim().trim_start_matches("error: ")),
        })?;
    Ok(Arguments { target: target.settled(&matches)?, command })
}

/// Is it a text of the program itself, such as the help or the version? With `--json`, help that is
/// printed because an argument is missing is an error like others.
fn is_help(error: &clap::Error) -> bool {
    let is_missing = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    !error.use_stderr() || is_missing && !output::is_json()
}

fn run(target: &Target, command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve { flags, print_systemd_unit: true } => {
            let unit = serve::systemd::unit(&flags, target.database(), target.token())?;
            Ok(write!(output::stdout(), "{unit}")?)
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
