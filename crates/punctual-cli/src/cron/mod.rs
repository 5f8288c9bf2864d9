//! `punctual cron`: questions about expressions, answered without any database.

mod batch;
mod check;
mod excluded;
mod explain;
mod next;
mod question;

use clap::{Args, Subcommand};
use question::Options;

use crate::Failure;

const NEXT_HELP: &str = "\
With --batch, a request has the fields expr (required), tz, from, n, name, dst_gap and dst_fold.
The response is {\"next\": [...]} or {\"error\": \"...\"}.

Examples:
  punctual cron next '0 8 * * MON-FRI' --tz Europe/Paris
  punctual cron next '@every 15m' -n 20 --json";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the next times of a cron expression
    #[command(after_help = NEXT_HELP)]
    Next(Next),
    /// Explain a cron expression: its meaning, its next times and its pitfalls
    Explain(Explain),
    /// Check crontabs or schedule files; exit code 1 on errors
    Check(check::Check),
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self {
            Command::Next(Next { expression: Some(expression), options, json, .. }) => {
                next::run(&expression, &options, json)
            }
            Command::Next(_) => batch::run(),
            Command::Explain(Explain { expression, options, json }) => {
                explain::run(&expression, &options, json)
            }
            Command::Check(check) => check::run(&check),
        }
    }
}

#[derive(Args)]
pub(crate) struct Next {
    /// Cron expression with 5 fields (minute hour day-of-month month day-of-week), 6 fields (seconds
    /// first) or 7 fields (year last); or @daily, @every 15m, @at 2027-01-15T08:00:00Z
    #[arg(value_name = "EXPR", required_unless_present = "batch")]
    expression: Option<String>,

    #[command(flatten)]
    options: Options,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Read requests from stdin, one JSON object per line, and print one JSON object per request
    #[arg(long, conflicts_with_all = ["expression", "tz", "from", "count", "name", "dst_gap", "dst_fold", "exclude", "exclude_file", "on_excluded"])]
    batch: bool,
}

#[derive(Args)]
pub(crate) struct Explain {
    /// Cron expression with 5 fields (minute hour day-of-month month day-of-week), 6 fields (seconds
    /// first) or 7 fields (year last); or @daily, @every 15m, @at 2027-01-15T08:00:00Z
    #[arg(value_name = "EXPR")]
    expression: String,

    #[command(flatten)]
    options: Options,

    /// Print JSON
    #[arg(long)]
    json: bool,
}
