//! What can go wrong in a store, by what the caller should do about it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The answer of a store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// What the caller should do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Try again: a lock, a deadlock, a busy file.
    Retry,
    /// Mend the request.
    Invalid,
    /// It is not there.
    NotFound,
    /// Somebody else was first; look again.
    Conflict,
    /// The caller was declared dead meanwhile; begin anew under another name.
    Fenced,
    /// A bound was reached.
    Limit,
    /// The disk of the database is full; the request can be repeated after space was freed.
    Full,
    /// Not allowed, for instance a read-only file.
    Denied,
    /// The node or producer in this program was stopped; another program accepts the request.
    Stopped,
    /// The database cannot be reached.
    Unreachable,
    /// The database is broken or not ours.
    Corrupt,
    /// The database's schema is newer than this program.
    SchemaTooNew,
    /// The database's schema is older than this program, which must not migrate it.
    SchemaTooOld,
}

impl ErrorKind {
    /// All kinds.
    pub const ALL: [ErrorKind; 13] = [
        ErrorKind::Retry,
        ErrorKind::Invalid,
        ErrorKind::NotFound,
        ErrorKind::Conflict,
        ErrorKind::Fenced,
        ErrorKind::Limit,
        ErrorKind::Full,
        ErrorKind::Denied,
        ErrorKind::Stopped,
        ErrorKind::Unreachable,
        ErrorKind::Corrupt,
        ErrorKind::SchemaTooNew,
        ErrorKind::SchemaTooOld,
    ];

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Retry => "retry",
            ErrorKind::Invalid => "invalid",
            ErrorKind::NotFound => "not_found",
            ErrorKind::Conflict => "conflict",
            ErrorKind::Fenced => "fenced",
            ErrorKind::Limit => "limit",
            ErrorKind::Full => "full",
            ErrorKind::Denied => "denied",
            ErrorKind::Stopped => "stopped",
            ErrorKind::Unreachable => "unreachable",
            ErrorKind::Corrupt => "corrupt",
            ErrorKind::SchemaTooNew => "schema_too_new",
            ErrorKind::SchemaTooOld => "schema_too_old",
        }
    }
}

/// The schema of a database, and the schema that this program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaVersions {
    /// The version of the database.
    pub found: i64,
    /// The version of this program.
    pub needed: i64,
}

/// The error that caused another one, such as an error of the database driver.
pub type ErrorSource = Arc<dyn Error + Send + Sync>;

/// An error of a store: what happened, the value, the way out.
///
/// Two errors are equal if everything but their sources is equal.
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: ErrorKind,
    message: String,
    is_timeout: bool,
    schema: Option<SchemaVersions>,
    source: Option<ErrorSource>,
}

impl StoreError {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> StoreError {
        let message = message.into();
        StoreError { kind, message, is_timeout: false, schema: None, source: None }
    }

    /// A request that cannot be carried out as it is.
    pub fn invalid(message: impl Into<String>) -> StoreError {
        StoreError::new(ErrorKind::Invalid, message)
    }

    /// The same error, for a request that took too long. A smaller request may succeed.
    #[must_use]
    pub fn timed_out(self) -> StoreError {
        StoreError { is_timeout: true, ..self }
    }

    /// The same error, with the versions of a schema that does not fit.
    #[must_use]
    pub fn with_schema(self, versions: SchemaVersions) -> StoreError {
        StoreError { schema: Some(versions), ..self }
    }

    /// The same error in other words.
    #[must_use]
    pub fn with_message(self, message: impl Into<String>) -> StoreError {
        StoreError { message: message.into(), ..self }
    }

    /// The same error, caused by this one.
    #[must_use]
    pub fn caused_by(self, source: ErrorSource) -> StoreError {
        StoreError { source: Some(source), ..self }
    }

    /// Whether the request took too long.
    pub fn is_timeout(&self) -> bool {
        self.is_timeout
    }

    /// What the caller should do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The versions of the schemas, if the schema of the database does not fit this program.
    pub fn schema(&self) -> Option<SchemaVersions> {
        self.schema
    }

    /// The error that caused it, to be shared with another error.
    pub fn shared_source(&self) -> Option<&ErrorSource> {
        self.source.as_ref()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

impl PartialEq for StoreError {
    fn eq(&self, other: &StoreError) -> bool {
        let StoreError { kind, message, is_timeout, schema, source: _ } = self;
        (*kind, *is_timeout, *schema) == (other.kind, other.is_timeout, other.schema)
            && *message == other.message
    }
}

impl Eq for StoreError {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_its_own_name() {
        let names: BTreeSet<&str> = ErrorKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), ErrorKind::ALL.len());
    }

    #[test]
    fn the_source_is_kept_and_does_not_count_for_equality() {
        let plain = StoreError::new(ErrorKind::Retry, "locked");
        let caused = plain.clone().caused_by(Arc::new(fmt::Error));
        assert_eq!(plain, caused);
        assert!(plain.source().is_none());
        assert!(caused.source().is_some_and(|source| source.is::<fmt::Error>()));
    }
}
