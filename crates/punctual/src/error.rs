//! What can go wrong, by what the caller should do about it.

use std::fmt;

use punctual_core::job::JobState;
use punctual_core::schedule::DefinitionError;
use punctual_core::{JobId, UnknownWord};
use punctual_engine::{EngineError, ScheduleError};
pub use punctual_store::ErrorKind;
use punctual_store::{ErrorSource, SchemaVersions, StoreError};

/// The answer of punctual.
pub type Result<T> = std::result::Result<T, Error>;

/// An error: what happened, the value, the way out.
///
/// [`Error::kind`] says what the caller should do about it, [`Error::details`] has the data of the
/// message, and the [source](std::error::Error::source) is the error of the database driver, if there is
/// one. The text of the source can contain values of the request. Two errors are equal if everything but
/// their sources is equal.
///
/// # Examples
///
/// A job whose unique key another job holds is refused, and the error says which job that is:
///
/// ```
/// use punctual::{ErrorDetails, ErrorKind, Order, Punctual, Unique};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> punctual::Result<()> {
/// let punctual = Punctual::memory().start().await?;
/// let order = |total: u32| Order::of_kind("invoice", &total).unique(Unique::key("order-7"));
/// let first = punctual.enqueue(order(100)).await?;
///
/// let error = punctual.enqueue(order(250)).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Conflict);
/// match error.details() {
///     Some(ErrorDetails::KeyHeld { by, .. }) => assert_eq!(*by, first.id),
///     _ => panic!("{error}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    details: Option<ErrorDetails>,
    source: Option<ErrorSource>,
}

/// The data of an error, for programs that act on more than its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorDetails {
    /// Another job holds the unique key.
    KeyHeld {
        /// The key, if the request named one.
        key: Option<String>,
        /// The job that holds it.
        by: JobId,
    },
    /// The state of the job does not allow the request.
    JobState {
        /// The job.
        job: JobId,
        /// Its state.
        state: JobState,
    },
    /// One field of the request is invalid, such as `priority`, `when[1]` or `job.backoff`.
    Field(String),
    /// The error of one schedule, where the request was about more than that.
    Schedule {
        /// The name of the schedule.
        name: String,
        /// What is wrong with it.
        error: Box<Error>,
    },
    /// More than one error.
    Several(Vec<Error>),
    /// Another request changed the schedule since it was read.
    Changed {
        /// The name of the schedule.
        schedule: String,
    },
    /// The schema of the database does not fit this program.
    Schema {
        /// The version of the database.
        found: i64,
        /// The version of this program.
        needed: i64,
    },
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner { kind, message: message.into(), details: None, source: None }))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, message)
    }

    /// The same error with details.
    pub(crate) fn with(mut self, details: ErrorDetails) -> Error {
        self.0.details = Some(details);
        self
    }

    /// One field of a request is wrong.
    pub(crate) fn of_field(field: impl Into<String>, message: impl Into<String>) -> Error {
        Error::invalid(message).with(ErrorDetails::Field(field.into()))
    }

    /// The same error, of this schedule among others.
    pub(crate) fn of_schedule(self, name: &str) -> Error {
        let message = format!("schedule `{name}`: {self}");
        let (kind, source) = (self.kind(), self.0.source.clone());
        let details = ErrorDetails::Schedule { name: name.to_owned(), error: Box::new(self) };
        Error(Box::new(Inner { kind, message, details: Some(details), source }))
    }

    /// These errors at once. The kind is that of the first one.
    fn several(errors: Vec<Error>) -> Error {
        let kind = errors.first().map_or(ErrorKind::Invalid, Error::kind);
        let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Error::new(kind, messages.join("\n")).with(ErrorDetails::Several(errors))
    }

    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The data of the message, if a program can act on it.
    pub fn details(&self) -> Option<&ErrorDetails> {
        self.0.details.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

impl PartialEq for Inner {
    fn eq(&self, other: &Inner) -> bool {
        let Inner { kind, message, details, source: _ } = self;
        *kind == other.kind && *message == other.message && *details == other.details
    }
}

impl Eq for Inner {}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        let schema = |SchemaVersions { found, needed }| ErrorDetails::Schema { found, needed };
        Error(Box::new(Inner {
            kind: error.kind(),
            message: error.to_string(),
            details: error.schema().map(schema),
            source: error.shared_source().cloned(),
        }))
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

/// For typed values that are parsed from texts.
impl From<DefinitionError> for Error {
    fn from(error: DefinitionError) -> Error {
        let message = error.to_string();
        Error::of_field(error.field, message)
    }
}

/// For typed values that are parsed from texts.
impl From<UnknownWord> for Error {
    fn from(error: UnknownWord) -> Error {
        Error::invalid(error.to_string())
    }
}

impl From<ScheduleError> for Error {
    fn from(error: ScheduleError) -> Error {
        let message = error.to_string();
        match error {
            ScheduleError::Store(error) => error.into(),
            ScheduleError::Of(name, error) => Error::from(*error).of_schedule(&name),
            ScheduleError::Several(errors) => {
                Error::several(errors.into_iter().map(Error::from).collect())
            }
            ScheduleError::NotFound(_) => Error::new(ErrorKind::NotFound, message),
            ScheduleError::Changed(schedule) => {
                Error::new(ErrorKind::Conflict, message).with(ErrorDetails::Changed { schedule })
            }
            ScheduleError::KeyTaken(by) => Error::new(ErrorKind::Conflict, message)
                .with(ErrorDetails::KeyHeld { key: None, by }),
            ScheduleError::NotAhead(_) | ScheduleError::NoRevision(..) => {
                Error::new(ErrorKind::Conflict, message)
            }
            ScheduleError::Busy(_) => Error::new(ErrorKind::Retry, message),
            ScheduleError::Definition(error) => error.into(),
            ScheduleError::Job(_) => Error::of_field("job", message),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::sync::Arc;

    use punctual_core::schedule::Definition;

    use super::*;

    fn wrong(when: &str) -> DefinitionError {
        Definition::new(when, "mail").rule("mails").unwrap_err()
    }

    #[test]
    fn errors_of_several_schedules_stay_apart() {
        let of = |name: &str, when: &str| {
            ScheduleError::Of(name.to_owned(), Box::new(wrong(when).into()))
        };
        let error = Error::from(ScheduleError::Several(vec![of("a", "61 * * * *"), of("b", "")]));
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let Some(ErrorDetails::Several(errors)) = error.details() else { panic!("{error:?}") };
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(error.to_string(), lines.join("\n"));
        let Some(ErrorDetails::Schedule { name, error }) = errors[1].details() else {
            panic!("{errors:?}")
        };
        assert_eq!(
            (name.as_str(), error.details()),
            ("b", Some(&ErrorDetails::Field("when[0]".into())))
        );
        assert_eq!(errors[1].to_string(), format!("schedule `b`: {error}"));
    }

    #[test]
    fn the_source_of_a_store_error_is_the_source() {
        let cause: ErrorSource = Arc::new(fmt::Error);
        let error = StoreError::new(ErrorKind::Retry, "locked").caused_by(cause);
        let error = Error::from(ScheduleError::Of("a".to_owned(), Box::new(error.into())));
        assert!(error.source().is_some_and(|source| source.is::<fmt::Error>()));
        assert_eq!(error.to_string(), "schedule `a`: locked");
    }

    #[test]
    fn the_versions_of_a_schema_are_told() {
        let versions = SchemaVersions { found: 3, needed: 4 };
        let error = StoreError::new(ErrorKind::SchemaTooOld, "too old").with_schema(versions);
        let details = ErrorDetails::Schema { found: 3, needed: 4 };
        assert_eq!(Error::from(error).details(), Some(&details));
    }
}
