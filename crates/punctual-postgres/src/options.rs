//! How a store is opened.

use std::fmt;
use std::path::{Path, PathBuf};

use punctual_store::{Result, StoreError};

/// The longest name of a schema: a channel's name is made of it, and names of partitions.
const SCHEMA_BYTES_MAX: usize = 40;

/// How a store is opened.
///
/// ```
/// use punctual_postgres::Options;
///
/// let direct = Options::new().schema("jobs");
/// let behind_a_pooler = Options::new().pooled().direct_url("postgres://db:5432/app");
/// # let _ = (direct, behind_a_pooler);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Options {
    pub(crate) schema: String,
    pub(crate) auto_migrate: bool,
    pub(crate) is_pooled: bool,
    pub(crate) direct_url: Option<String>,
    pub(crate) days_ahead: u32,
    pub(crate) connections: usize,
    pub(crate) listens: bool,
    pub(crate) password_file: Option<PathBuf>,
    pub(crate) allow_insecure: bool,
}

/// Without the direct URL, which may contain a password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("schema", &self.schema)
            .field("auto_migrate", &self.auto_migrate)
            .field("is_pooled", &self.is_pooled)
            .field("has_direct_url", &self.direct_url.is_some())
            .field("days_ahead", &self.days_ahead)
            .field("connections", &self.connections)
            .field("listens", &self.listens)
            .field("password_file", &self.password_file)
            .field("allow_insecure", &self.allow_insecure)
            .finish()
    }
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Options {
    /// The usual settings, for a url that leads straight to the server.
    pub fn new() -> Options {
        Options {
            schema: "punctual".to_owned(),
            auto_migrate: true,
            is_pooled: false,
            direct_url: None,
            days_ahead: 14,
            connections: 4,
            listens: true,
            password_file: None,
            allow_insecure: false,
        }
    }

    /// The schema that the tables are in. Installations in different schemas of one database do
    /// not see each other.
    pub fn schema(mut self, name: &str) -> Options {
        name.clone_into(&mut self.schema);
        self
    }

    /// May the schema be created and brought up to date? If not, an old one is an error.
    pub fn auto_migrate(mut self, may: bool) -> Options {
        self.auto_migrate = may;
        self
    }

    /// The url leads to a pooler in transaction mode, such as pgbouncer: nothing is prepared, no
    /// session has settings, nobody listens. Set timeouts for the role instead, such as
    /// `ALTER ROLE app SET statement_timeout = '2s'`, and the same for `lock_timeout`; without them a
    /// call still ends after five seconds, but what it asked for may go on at the server.
    pub fn pooled(mut self) -> Options {
        self.is_pooled = true;
        self
    }

    /// A url that leads straight to the server, for the one connection that listens although the
    /// rest goes through a pooler. Without it jobs of other processes are found by polling.
    pub fn direct_url(mut self, url: &str) -> Options {
        self.direct_url = Some(url.to_owned());
        self
    }

    /// For how many days partitions are made ahead. None at all with 0: then everything lies in
    /// the default partition and is pruned row by row.
    pub fn days_ahead(mut self, days: u32) -> Options {
        self.days_ahead = days.min(366);
        self
    }

    /// Connections of the pool for reads and rare writes, beside those kept for hot writes.
    pub fn connections(mut self, most: usize) -> Options {
        self.connections = most.clamp(1, 100);
        self
    }

    /// Should a connection listen for jobs of other processes? If not, they are found by polling.
    pub fn listen(mut self, listens: bool) -> Options {
        self.listens = listens;
        self
    }

    /// A file with the password of the role, for URLs without one. A newline at its end is removed. The
    /// file is read for each new connection, so the password can be changed without a restart. A file
    /// that other users can read is refused.
    pub fn password_file(mut self, path: impl AsRef<Path>) -> Options {
        self.password_file = Some(path.as_ref().to_owned());
        self
    }

    /// Permits `sslmode=disable`, `prefer` and `require` for servers on other machines. With these
    /// modes an attacker in the network can read the password and the data. By default such URLs are
    /// refused, and `verify-full` is used if a URL has no `sslmode`.
    pub fn allow_insecure(mut self, may: bool) -> Options {
        self.allow_insecure = may;
        self
    }

    /// Checks what is put into statements as it is.
    pub(crate) fn check(&self) -> Result<()> {
        check_schema(&self.schema)
    }
}

/// A schema's name stands in every statement without quotes, so it is a plain word.
pub(crate) fn check_schema(name: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let starts_well = name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    if starts_well && name.bytes().all(is_plain) && !name.starts_with("pg_") {
        if name.len() <= SCHEMA_BYTES_MAX {
            return Ok(());
        }
        return Err(StoreError::invalid(format!(
            "schema name `{name}` is too long: {} bytes, maximum {SCHEMA_BYTES_MAX}",
            name.len()
        )));
    }
    Err(StoreError::invalid(format!(
        "invalid schema name `{}`; use lower-case letters, digits and `_`, do not start with a \
         digit or with `pg_`",
        name.escape_debug()
    )))
}
