//! Opening the database that a command or a server uses.

use std::path::{Path, PathBuf};

use figment::Figment;
use figment::providers::Env;
use punctual::{Builder, OpenPostgres, OpenSqlite, Punctual};
use punctual_fs::FileError;
use serde::Deserialize;

use crate::exit::Failure;
use crate::redact::redacted;

/// The prefix of the environment variables with the settings of a database.
const VARIABLES: &str = "PUNCTUAL__DATABASE__";

/// A database and the settings with which it is opened.
#[derive(Clone)]
pub(crate) struct DatabaseAccess {
    pub(crate) url: String,
    /// The file with the password of a PostgreSQL role.
    pub(crate) password_file: Option<PathBuf>,
    /// Are PostgreSQL servers on other machines accepted without verification?
    pub(crate) allow_insecure: bool,
    /// Are SQLite files on network and user-space file systems accepted?
    pub(crate) any_file_system: bool,
    /// The number of future days that have their own partitions on PostgreSQL.
    pub(crate) partition_days: u32,
}

/// The default of `database.partition_days`.
pub(crate) const PARTITION_DAYS: u32 = 14;
/// The maximum of `database.partition_days`. Each day has a partition in each of several tables.
const PARTITION_DAYS_MAX: u32 = 366;

/// A database that is not open yet.
pub(crate) enum Database {
    Sqlite(OpenSqlite),
    Postgres(Box<OpenPostgres>),
}

impl DatabaseAccess {
    /// The database of a command that opens it without a server and without a configuration file. The
    /// other settings are those of the environment, which a server reads, too.
    pub(crate) fn from_environment(url: &str) -> Result<DatabaseAccess, Failure> {
        #[derive(Deserialize)]
        struct Settings {
            #[serde(default)]
            password_file: Option<PathBuf>,
            #[serde(default)]
            allow_insecure: bool,
            #[serde(default)]
            any_file_system: bool,
            #[serde(default = "default_partition_days")]
            partition_days: u32,
        }
        let settings: Settings =
            Figment::from(Env::prefixed(VARIABLES)).extract().map_err(|error| {
                let key = error.path.join("__").to_uppercase();
                Failure::usage(format!("environment variable `{VARIABLES}{key}`: {}", error.kind))
            })?;
        let Settings { password_file, allow_insecure, any_file_system, partition_days } = settings;
        check_partition_days(partition_days)?;
        Ok(DatabaseAccess {
            url: url.to_owned(),
            password_file,
            allow_insecure,
            any_file_system,
            partition_days,
        })
    }

    /// The database, not open yet.
    pub(crate) fn open(&self) -> Result<Database, Failure> {
        Ok(match split(&self.url)? {
            ("sqlite", path) => {
                Database::Sqlite(Punctual::sqlite(path).any_file_system(self.any_file_system))
            }
            _ => {
                let open = Punctual::postgres(&self.url)
                    .allow_insecure(self.allow_insecure)
                    .partition_days(self.partition_days);
                Database::Postgres(Box::new(match &self.password_file {
                    Some(file) => open.password_file(file),
                    None => open,
                }))
            }
        })
    }

    /// Checks the settings without connecting.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.open()? {
            Database::Sqlite(_) => Ok(()),
            Database::Postgres(open) => Ok(open.check_settings()?),
        }
    }

    /// A process that enqueues and reads, and runs nothing.
    pub(crate) async fn producer(&self, may_migrate: bool) -> Result<Builder, Failure> {
        Ok(match self.open()? {
            Database::Sqlite(open) => open.producer().auto_migrate(may_migrate).await?,
            Database::Postgres(open) => open.producer().auto_migrate(may_migrate).await?,
        })
    }

    /// A started producer.
    pub(crate) async fn opened(&self, may_migrate: bool) -> Result<Punctual, Failure> {
        Ok(self.producer(may_migrate).await?.start().await?)
    }

    /// A node with every role.
    pub(crate) async fn node(&self) -> Result<Builder, Failure> {
        Ok(match self.open()? {
            Database::Sqlite(open) => open.await?,
            Database::Postgres(open) => (*open).await?,
        })
    }

    /// Rejects an SQLite file of another user, or one that every user can change: its jobs decide
    /// which programs a server runs.
    pub(crate) fn refuse_foreign_file(&self) -> Result<(), Failure> {
        let ("sqlite", path) = split(&self.url)? else { return Ok(()) };
        match punctual_fs::refuse_foreign_database(Path::new(path)) {
            Err(FileError::Refused(why)) => {
                Err(Failure::not_allowed(format!("refusing to run the database: {why}")))
            }
            // Opening the file reports other errors.
            Err(FileError::Io(_)) | Ok(()) => Ok(()),
        }
    }

    /// Rejects an SQLite file that does not exist: its path is most likely misspelt.
    pub(crate) fn must_exist(&self) -> Result<(), Failure> {
        let ("sqlite", path) = split(&self.url)? else { return Ok(()) };
        // Opening the file reports other errors.
        match Path::new(path).try_exists() {
            Ok(false) => Err(Failure::not_found(format!("database not found: {}", self.url)).hint(
                "check the path, or create the database with `punctual serve` or `punctual db \
                 migrate`",
            )),
            _ => Ok(()),
        }
    }
}

fn default_partition_days() -> u32 {
    PARTITION_DAYS
}

/// Rejects more days than the number of partitions allows.
pub(crate) fn check_partition_days(days: u32) -> Result<(), Failure> {
    if days <= PARTITION_DAYS_MAX {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "database.partition_days: {days} is too many; the maximum is {PARTITION_DAYS_MAX}"
    )))
}

/// The kind of database, and the text after `://`.
fn split(url: &str) -> Result<(&'static str, &str), Failure> {
    let fault = match url.split_once("://") {
        Some(("sqlite", path)) if !path.is_empty() => return Ok(("sqlite", path)),
        Some(("postgres" | "postgresql", rest)) => return Ok(("postgres", rest)),
        Some(("sqlite", _)) | None => "invalid",
        Some(_) => "unsupported",
    };
    Err(Failure::usage(format!(
        "{fault} database URL `{}`; use sqlite://FILE or postgres://USER@HOST/DATABASE",
        redacted(url)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_url_is_refused_without_its_password() {
        assert_eq!(split("sqlite://x.db").ok(), Some(("sqlite", "x.db")));
        assert_eq!(split("postgresql://h/d").ok(), Some(("postgres", "h/d")));
        let refused = |url: &str| split(url).expect_err("it is refused").message().to_owned();
        let remedy = "; use sqlite://FILE or postgres://USER@HOST/DATABASE";
        assert_eq!(refused("mysql://x"), format!("unsupported database URL `mysql://x`{remedy}"));
        assert_eq!(
            refused("mysql://app:p@ss@db/app?password=secret"),
            format!("unsupported database URL `mysql://app@db/app`{remedy}")
        );
        assert_eq!(refused("app:pass@db"), format!("invalid database URL `app@db`{remedy}"));
        assert_eq!(refused("sqlite://"), format!("invalid database URL `sqlite://`{remedy}"));
    }
}
