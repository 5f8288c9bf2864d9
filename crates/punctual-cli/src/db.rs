//! `punctual db`: the database itself.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use punctual_api::Capabilities;
use serde_json::json;

use crate::exit::Failure;
use crate::output::{self, print_json};
use crate::target::{Database, Target, database, interruptible, must_be_there, opened};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create or upgrade the tables
    Migrate {
        /// Print the SQL for a new database instead of running it
        #[arg(long)]
        print: bool,
    },
    /// Show the database version and the schema version
    Status,
    /// Copy a SQLite database while it is in use
    Backup {
        /// File to create; it appears when the copy is complete
        file: PathBuf,
    },
    /// Check the integrity of the database; exit code 1 on errors
    Check,
}

impl Command {
    pub(crate) fn run(self, target: &Target, is_json: bool) -> Result<(), Failure> {
        let mut out = output::stdout();
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
                let url = named(target)?;
                // Opening the database applies the migrations.
                drop(interruptible()?.block_on(opened(url, true))?);
                status(&target.without_server(), is_json, &mut out)
            }
            Command::Backup { file } => {
                must_be_there(named(target)?)?;
                backup(named(target)?, &file, is_json, &mut out)
            }
            Command::Check => {
                must_be_there(named(target)?)?;
                check(named(target)?, is_json, &mut out)
            }
            Command::Status => status(target, is_json, &mut out),
        }
    }
}

/// The database itself is needed, not somebody who asks it.
fn named(target: &Target) -> Result<&str, Failure> {
    target.database().ok_or_else(|| {
        Failure::usage("no database given; pass --database URL or set PUNCTUAL_DATABASE")
    })
}

fn backup(url: &str, file: &Path, is_json: bool, out: &mut impl Write) -> Result<(), Failure> {
    match database(url)? {
        Database::Sqlite(open) => {
            interruptible()?.block_on(open.auto_migrate(false).backup(file))?;
        }
        Database::Postgres(_) => {
            return Err(Failure::usage(
                "`db backup` supports only SQLite; back up a PostgreSQL database with `pg_dump \
                 --schema=punctual` or with the backups of the PostgreSQL server",
            ));
        }
    }
    let bytes = std::fs::metadata(file).map(|file| file.len()).unwrap_or(0);
    match is_json {
        true => Ok(print_json(out, &json!({ "file": file, "bytes": bytes }))?),
        false => Ok(writeln!(out, "Wrote backup {} ({bytes} bytes)", file.display())?),
    }
}

fn check(url: &str, is_json: bool, out: &mut impl Write) -> Result<(), Failure> {
    let faults = match database(url)? {
        Database::Sqlite(open) => interruptible()?.block_on(open.auto_migrate(false).check())?,
        Database::Postgres(open) => interruptible()?.block_on(open.auto_migrate(false).check())?,
    };
    if is_json {
        print_json(out, &json!({ "is_ok": faults.is_empty(), "errors": faults }))?;
    } else if faults.is_empty() {
        writeln!(out, "Database OK")?;
    } else {
        for fault in &faults {
            writeln!(out, "problem: {fault}")?;
        }
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed("")),
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
