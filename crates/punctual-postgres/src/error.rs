//! What PostgreSQL says, in words for people and in kinds for programs.

use std::sync::Arc;
use std::time::Duration;

use punctual_store::{ErrorKind, StoreError};
use tokio_postgres::error::{DbError, SqlState};

use crate::connect_error;

/// What can go wrong while a request runs: the database's trouble, or an answer of the store.
#[derive(Debug)]
pub(crate) enum Fault {
    Database(Arc<tokio_postgres::Error>),
    Store(StoreError),
    /// No answer within this time.
    Silence(Duration),
    /// A row that does not mean anything.
    Row(String),
}

pub(crate) type Outcome<T> = Result<T, Fault>;

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Fault {
        Fault::Database(Arc::new(error))
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::Store(error)
    }
}

impl Fault {
    /// Is it worth trying the same again at once? Whoever stood in the way is done by then.
    pub(crate) fn is_passing(&self) -> bool {
        if let Fault::Database(error) = self
            && error.as_db_error().is_some_and(is_new_day)
        {
            return true;
        }
        self.state().is_some_and(|state| {
            [
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::LOCK_NOT_AVAILABLE,
            ]
            .contains(state)
        })
    }

    /// Did something wait for a lock for too long?
    pub(crate) fn is_lock_timeout(&self) -> bool {
        self.state() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Is something there already that may be there once?
    pub(crate) fn is_duplicate(&self) -> bool {
        self.state() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    /// Did the database refuse a value, so that the other requests of a batch may do without it?
    pub(crate) fn is_about_a_value(&self) -> bool {
        !self.is_passing()
            && self.state().is_some_and(|state| ["22", "23"].contains(&&state.code()[..2]))
    }

    /// Is the connection of no use any more? What was under way may or may not have been done.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Fault::Silence(_) => true,
            Fault::Database(error) => match error.code() {
                None => error.is_closed() || is_io(error),
                Some(state) => is_away(state),
            },
            Fault::Store(_) | Fault::Row(_) => false,
        }
    }

    fn state(&self) -> Option<&SqlState> {
        match self {
            Fault::Database(error) => error.code(),
            _ => None,
        }
    }

    /// What the caller is told.
    pub(crate) fn tell(&self, server: &str) -> StoreError {
        match self {
            Fault::Database(error) => explain(error, server).caused_by(error.clone()),
            Fault::Store(error) => error.clone(),
            Fault::Silence(waited) => StoreError::new(
                ErrorKind::Unreachable,
                format!(
                    "{server} did not respond for {} s; check the network and the server load, \
                     then try again",
                    waited.as_secs()
                ),
            ),
            Fault::Row(what) => StoreError::new(
                ErrorKind::Corrupt,
                format!("a row on {server} cannot be read: {what}; run `punctual doctor`"),
            ),
        }
    }
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if cause.is::<std::io::Error>() {
            return true;
        }
        source = cause.source();
    }
    false
}

/// Was the row on its way to the default partition when its day was made? Then the next try finds
/// the day. PostgreSQL says so in the words for a value that breaks a rule, but names no rule.
fn is_new_day(error: &DbError) -> bool {
    *error.code() == SqlState::CHECK_VIOLATION && error.constraint().is_none()
}

/// Is the server going away, or was the connection taken away?
fn is_away(state: &SqlState) -> bool {
    state.code().starts_with("08")
        || [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            SqlState::READ_ONLY_SQL_TRANSACTION,
        ]
        .contains(state)
}

/// What is told of a server that only follows another.
pub(crate) fn standby(server: &str) -> StoreError {
    let message = format!(
        "{server} is a read-only standby; use the URL of the primary, or wait until the standby \
         is promoted"
    );
    StoreError::new(ErrorKind::Unreachable, message)
}

/// An error of the database as the store's own: what happened, where, and the way out.
pub(crate) fn explain(error: &tokio_postgres::Error, server: &str) -> StoreError {
    let Some(database) = error.as_db_error() else {
        if let Some(explained) = connect_error::explain(error, server) {
            return explained;
        }
        let reason =
            std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
        return unreachable(&reason, server);
    };
    explain_state(database.code(), database.message(), is_new_day(database), server)
}

/// What is told of a server that does not answer. pgbouncer refuses a start-up parameter it does not
/// know without a code of its own, so that this is also told of it.
pub(crate) fn unreachable(reason: &str, server: &str) -> StoreError {
    let message = format!(
        "cannot connect to {server} ({reason}); check that it is running and accepts connections, \
         and the host, port and TLS settings of the URL"
    );
    StoreError::new(ErrorKind::Unreachable, message)
}

/// The same from the code of an error and what the server said.
pub(crate) fn explain_state(
    state: &SqlState,
    said: &str,
    is_new_day: bool,
    server: &str,
) -> StoreError {
    let (kind, message) = match state.code() {
        "40P01" | "40001" | "55P03" => (
            ErrorKind::Retry,
            format!(
                "{server}: lock conflict ({said}); try again, and look for an open transaction"
            ),
        ),
        _ if is_new_day => (
            ErrorKind::Retry,
            format!("{server}: the partition for this day was just created ({said}); try again"),
        ),
        "57014" => {
            let message = format!(
                "{server}: statement timeout ({said}); try again, and check the server load"
            );
            return StoreError::new(ErrorKind::Retry, message).timed_out();
        }
        "53100" => (
            ErrorKind::Full,
            format!(
                "no disk space on {server} ({said}); the request was not applied; free some space \
                 and try again"
            ),
        ),
        "53300" => (
            ErrorKind::Unreachable,
            format!(
                "{server} has no free connections ({said}); raise `max_connections`, or use a \
                 connection pooler and open the store as pooled"
            ),
        ),
        "25006" => return standby(server),
        "25P02" => (
            ErrorKind::Conflict,
            format!("the transaction on {server} is already aborted ({said}); roll it back"),
        ),
        "28P01" | "28000" => (
            ErrorKind::Denied,
            format!(
                "{server} rejected the login ({said}); check the user and password of the URL, \
                 and `pg_hba.conf`"
            ),
        ),
        "42501" => (
            ErrorKind::Denied,
            format!(
                "permission denied on {server} ({said}); grant the missing privilege, or run \
                 `punctual db migrate` as the schema owner"
            ),
        ),
        "3D000" => (
            ErrorKind::NotFound,
            format!("database not found on {server} ({said}); create it, or correct the URL"),
        ),
        "3F000" | "42P01" | "42703" => (
            ErrorKind::NotFound,
            format!(
                "a table of punctual is missing on {server} ({said}); run `punctual db migrate`, \
                 or restore the schema"
            ),
        ),
        "XX001" | "XX002" => (
            ErrorKind::Corrupt,
            format!(
                "{server} reports corrupt data ({said}); stop writing to it and restore a backup"
            ),
        ),
        code if code.starts_with("22") || code.starts_with("23") => {
            (ErrorKind::Invalid, format!("{server} rejected a value ({said}); correct the request"))
        }
        _ if is_away(state) => (
            ErrorKind::Unreachable,
            format!("{server} is shutting down or starting ({said}); try again in a moment"),
        ),
        code => (
            ErrorKind::Unreachable,
            format!("{server} failed to run a statement ({said}, {code}); see the server's log"),
        ),
    };
    StoreError::new(kind, message)
}
