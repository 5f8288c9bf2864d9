//! What can go wrong in a store, by what the caller should do about it.

/// The answer of a store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// What the caller should do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
}

impl ErrorKind {
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
        }
    }
}

/// An error of a store: what happened, the value, the way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    kind: ErrorKind,
    message: String,
    is_timeout: bool,
}

impl StoreError {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> StoreError {
        StoreError { kind, message: message.into(), is_timeout: false }
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

    /// Whether the request took too long.
    pub fn is_timeout(&self) -> bool {
        self.is_timeout
    }

    /// What the caller should do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}
