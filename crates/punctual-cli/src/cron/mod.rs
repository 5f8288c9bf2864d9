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

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the next due times of an expression
    Next(Next),
    /// Say in words what an expression means, when it is due, and what to watch out for
    Explain(Explain),
    /// Find the mistakes of a crontab or a file of schedules; exit 1 if there are any
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
    /// Five fields (minute hour day-of-month month day-of-week), six with seconds first, seven
    /// with a year last; or @daily and the like, @every 15m, @at INSTANT
    #[arg(value_name = "EXPR", required_unless_present = "batch")]
    expression: Option<String>,

    #[command(flatten)]
    options: Options,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    /// Read questions from stdin, one JSON object a line, and answer each with a line
    ///
    /// A question is {"expr", "tz", "from", "n", "name", "dst_gap", "dst_fold"}, of which only
    /// "expr" is needed. An answer is {"next": […]} or {"error": "…"}.
    #[arg(long, conflicts_with_all = ["expression", "tz", "from", "count", "name", "dst_gap", "dst_fold", "exclude", "exclude_file", "on_excluded"])]
    batch: bool,
}

#[derive(Args)]
pub(crate) struct Explain {
    /// Five fields (minute hour day-of-month month day-of-week), six with seconds first, seven
    /// with a year last; or @daily and the like, @every 15m, @at INSTANT
    #[arg(value_name = "EXPR")]
    expression: String,

    #[command(flatten)]
    options: Options,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}
