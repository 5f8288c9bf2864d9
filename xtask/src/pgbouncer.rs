//! The pooler that the tests reach PostgreSQL through: one that is given, or one made for the
//! occasion, in transaction mode.

use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use crate::failure::Failure;
use crate::guard::Stop;
use crate::needs::PGBOUNCER;
use crate::postgres::{self, Server};
use crate::throwaway::{Plan, Throwaway};

/// The environment variable that tells the tests where the pooler is.
pub(crate) const URL: &str = "PUNCTUAL_TEST_PGBOUNCER";

/// What it logs when clients may connect.
const READY: &str = "process up";

/// Ends when this value does.
pub(crate) struct Pooler {
    pub(crate) url: String,
    /// None if it was given and is not ours to stop.
    throwaway: Option<Throwaway>,
}

impl Pooler {
    /// The pooler that `PUNCTUAL_TEST_PGBOUNCER` names, else a new one before this server.
    pub(crate) fn given_or_new(server: &Server) -> Result<Self, Failure> {
        match env::var(URL) {
            Ok(url) if !url.is_empty() => Ok(Self { url, throwaway: None }),
            _ => Self::new(server),
        }
    }

    fn new(server: &Server) -> Result<Self, Failure> {
        let program = PGBOUNCER.ensure()?.join("pgbouncer");
        let place = Place::of(&server.url).ok_or_else(|| {
            Failure::Failed(format!(
                "cannot start a pooler for the server of {}: its URL does not have the form \
                 postgres://user:password@host:port/database; set {URL} to the URL of a pooler in \
                 transaction mode",
                postgres::URL
            ))
        })?;
        let throwaway = Throwaway::start(&Plan {
            what: "pgbouncer",
            prefix: "punctual-pgbouncer-",
            ready: READY,
            stop: Stop::Interrupt,
            command: &|dir, port| {
                write(&dir.join("users"), &place.users())?;
                write(&dir.join("pgbouncer.ini"), &place.settings(dir, port))?;
                let mut serve = Command::new(&program);
                serve.arg(dir.join("pgbouncer.ini")).env("LC_ALL", "C").current_dir(dir);
                Ok(serve)
            },
        })?;
        let Place { user, database, .. } = &place;
        let url = format!("postgres://{user}@127.0.0.1:{}/{database}", throwaway.port);
        Ok(Self { url, throwaway: Some(throwaway) })
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(Failure::on(format_args!("write `{}`", path.display())))
}

impl Display for Pooler {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.throwaway {
            // Not its url, which may hold a password.
            None => write!(f, "the pooler of {URL}"),
            Some(Throwaway { port, dir, .. }) => {
                write!(f, "pgbouncer on port {port}, started for this run in {}", dir.display())
            }
        }
    }
}

/// What a url says.
#[derive(Debug, PartialEq)]
struct Place {
    user: String,
    password: String,
    host: String,
    port: u16,
    database: String,
}

impl Place {
    fn of(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("postgres://").or(url.strip_prefix("postgresql://"))?;
        let (who, place) = rest.split_once('@')?;
        let (user, password) = who.split_once(':').unwrap_or((who, ""));
        let (host, database) = place.split_once('/')?;
        let database = database.split('?').next()?;
        let (host, port) = host.split_once(':').unwrap_or((host, "5432"));
        if user.is_empty() || host.is_empty() || database.is_empty() {
            return None;
        }
        Some(Self {
            user: user.into(),
            password: password.into(),
            host: host.into(),
            port: port.parse().ok()?,
            database: database.into(),
        })
    }

    /// The user file. Every local user may connect; the password is for the server behind the pooler.
    fn users(&self) -> String {
        format!("\"{}\" \"{}\"\n", self.user, self.password)
    }

    /// Few connections to the server, so that clients share them as they do in earnest.
    fn settings(&self, dir: &Path, port: u16) -> String {
        format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\n\
             pool_mode = transaction\nmax_client_conn = 1000\ndefault_pool_size = 10\n",
            self.host,
            self.port,
            dir.join("users").display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let place = |user: &str, password: &str, host: &str, port, database: &str| Place {
            user: user.into(),
            password: password.into(),
            host: host.into(),
            port,
            database: database.into(),
        };
        assert_eq!(Place::of("postgres://a:b@c:7/d?x=y"), Some(place("a", "b", "c", 7, "d")));
        assert_eq!(Place::of("postgresql://a@c/d"), Some(place("a", "", "c", 5432, "d")));
        for url in ["", "postgres://c/d", "postgres://a@c", "host=c", "postgres://a@c:x/d"] {
            assert_eq!(Place::of(url), None, "{url}");
        }
    }
}
