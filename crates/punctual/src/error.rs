//! What can go wrong, by what the caller should do about it.

use punctual_engine::{EngineError, ScheduleError};
pub use punctual_store::ErrorKind;
use punctual_store::StoreError;

/// The answer of punctual.
pub type Result<T> = std::result::Result<T, Error>;

/// An error: what happened, the value, the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    part: Option<&'static str>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), part: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, message)
    }

    /// One part of an order is wrong.
    pub(crate) fn of_part(part: &'static str, message: impl Into<String>) -> Error {
        Error { part: Some(part), ..Error::invalid(message) }
    }

    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Which part of an order is wrong, such as `priority`, if it is one part.
    pub fn part(&self) -> Option<&str> {
        self.part
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::new(error.kind(), error.to_string())
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Error {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Config(message) => Error::invalid(message),
            EngineError::Thread(_) => Error::new(ErrorKind::Limit, error.to_string()),
        }
    }
}

impl From<ScheduleError> for Error {
    fn from(error: ScheduleError) -> Error {
        match error {
            ScheduleError::Store(error) => error.into(),
            ScheduleError::Of(name, error) => {
                let error = Error::from(*error);
                Error::new(error.kind, format!("schedule `{name}`: {error}"))
            }
            ScheduleError::Several(errors) => {
                let errors: Vec<Error> = errors.into_iter().map(Error::from).collect();
                let kind = errors.first().map_or(ErrorKind::Invalid, |error| error.kind);
                let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
                Error::new(kind, messages.join("\n"))
            }
            ScheduleError::NotFound(_) => Error::new(ErrorKind::NotFound, error.to_string()),
            ScheduleError::Changed(_)
            | ScheduleError::KeyTaken
            | ScheduleError::NotAhead(_)
            | ScheduleError::NoRevision(..) => Error::new(ErrorKind::Conflict, error.to_string()),
            ScheduleError::Busy(_) => Error::new(ErrorKind::Retry, error.to_string()),
            ScheduleError::Definition(_) | ScheduleError::Job(_) => {
                Error::invalid(error.to_string())
            }
        }
    }
}
