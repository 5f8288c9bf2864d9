//! `punctual db`: the database itself.

use std::io::Write;

use clap::Subcommand;
use punctual_api::Capabilities;

use crate::exit::Failure;
use crate::output::print_json;
use crate::target::{Target, producer, runtime};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create the tables, or bring them up to date
    Migrate {
        /// Print the statements for a new database instead of running them
        #[arg(long)]
        print: bool,
    },
    /// Show which database it is and which tables it has
    Status,
}

impl Command {
    pub(crate) fn run(self, target: &Target, is_json: bool) -> Result<(), Failure> {
        let mut out = anstream::stdout().lock();
        match self {
            Command::Migrate { print: true } => {
                let url = target.database().unwrap_or("sqlite://punctual.db");
                let sql = match url.starts_with("sqlite") {
                    true => punctual::migrations::sqlite(),
                    false => punctual::migrations::postgres("punctual")?,
                };
                Ok(writeln!(out, "{}", sql.trim_end())?)
            }
            Command::Migrate { print: false } => {
                let Some(url) = target.database() else {
                    return Err(Failure::usage(
                        "which database? name it with --database or PUNCTUAL_DATABASE",
                    ));
                };
                // Whoever opens it brings it up to date.
                runtime()?.block_on(async { producer(url).await?.start().await })?;
                status(target, is_json, &mut out)
            }
            Command::Status => status(target, is_json, &mut out),
        }
    }
}

fn status(target: &Target, is_json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let status: Capabilities = target.client()?.get("/capabilities")?;
    match is_json {
        true => Ok(print_json(out, &status)?),
        false => {
            Ok(writeln!(out, "{} {}, schema {}", status.backend, status.database, status.schema)?)
        }
    }
}
