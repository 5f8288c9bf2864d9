//! How a handler can end, beyond well and badly.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use punctual_core::job::Outcome as Decided;
use punctual_engine::Ended;
use punctual_store::Json;
use serde::Serialize;

/// Any error.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// An end of an attempt that is no error, returned as `Ok(…)`.
///
/// ```
/// use std::time::Duration;
/// use punctual::{Job, Outcome};
///
/// #[derive(serde::Serialize, serde::Deserialize, Job)]
/// struct Ship { order: u64 }
///
/// async fn ship(job: Ship) -> Result<Outcome, std::io::Error> {
///     if job.order == 0 {
///         return Ok(Outcome::Cancel("nothing was ordered".into()));
///     }
///     Ok(Outcome::Snooze(Duration::from_secs(60)))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The work is done.
    Done,
    /// Call again after this wait. The attempt does not count.
    Snooze(Duration),
    /// Nobody needs it any more, for this reason.
    Cancel(String),
}

/// The work is done, and this is its result, which is kept with the job.
///
/// ```
/// # #[derive(serde::Serialize, serde::Deserialize, punctual::Job)]
/// # struct Count { of: String }
/// use punctual::Done;
///
/// async fn count(job: Count) -> Result<Done<usize>, std::io::Error> {
///     Ok(Done(job.of.len()))
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done<T>(pub T);

/// An error with a say in what follows. It may be anywhere in the chain of sources of what a
/// handler returns.
///
/// ```
/// # #[derive(serde::Serialize, serde::Deserialize, punctual::Job)]
/// # struct Charge { card: String }
/// use punctual::{BoxError, Failure};
///
/// async fn charge(job: Charge) -> Result<(), BoxError> {
///     if job.card.is_empty() {
///         return Err(Failure::permanent("there is no card to charge").into());
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Failure(Verdict);

/// What a failure says. It is the source of the failure itself, since some error types show what
/// they wrap by its sources alone.
#[derive(Debug)]
struct Verdict {
    then: Then,
    error: BoxError,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Never,
    After(Duration),
    OutOfResources,
}

impl Failure {
    /// No further attempt can mend it: the job has failed.
    pub fn permanent(error: impl Into<BoxError>) -> Failure {
        Failure(Verdict { then: Then::Never, error: error.into() })
    }

    /// Try again after this wait instead of the usual one, if an attempt is left.
    pub fn retry_after(wait: Duration, error: impl Into<BoxError>) -> Failure {
        Failure(Verdict { then: Then::After(wait), error: error.into() })
    }

    /// This process lacked memory, processes or open files. The job is released and tried again, here or
    /// on another node, after [five seconds](punctual_core::job::RESOURCE_WAIT). The attempt does not
    /// count, at most [ten times](punctual_core::job::RESOURCE_RELEASES_MAX) per job. A node with three
    /// such attempts within a minute pauses claiming for ten seconds.
    ///
    /// Use it for an error for which [`is_out_of_resources`] is true.
    pub fn out_of_resources(error: impl Into<BoxError>) -> Failure {
        Failure(Verdict { then: Then::OutOfResources, error: error.into() })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for Verdict {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

/// Does this error, or a source of it, mean that the process lacks memory or open files (`EMFILE`, `ENFILE`,
/// `ENOMEM`)?
///
/// `EAGAIN` is not included: it means a lack of processes only where a process or thread is started.
pub fn is_out_of_resources(error: &(dyn StdError + 'static)) -> bool {
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    let mut link = Some(error);
    while let Some(error) = link {
        if let Some(Verdict { then: Then::OutOfResources, .. }) = error.downcast_ref() {
            return true;
        }
        let io = error.downcast_ref::<std::io::Error>();
        if let Some(ENOMEM | ENFILE | EMFILE) = io.and_then(std::io::Error::raw_os_error) {
            return true;
        }
        // The source of an error that wraps another one is the source of that.
        link = match io.and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
}

/// What a handler may return.
pub trait IntoEnded {
    /// The end that it stands for.
    fn into_ended(self) -> Ended;
}

impl IntoEnded for () {
    fn into_ended(self) -> Ended {
        Decided::Done.into()
    }
}

impl IntoEnded for Outcome {
    fn into_ended(self) -> Ended {
        match self {
            Outcome::Done => Decided::Done,
            Outcome::Snooze(wait) => Decided::Snooze(wait),
            Outcome::Cancel(reason) => Decided::Cancel(reason),
        }
        .into()
    }
}

impl<T: Serialize> IntoEnded for Done<T> {
    fn into_ended(self) -> Ended {
        match Json::new(&self.0) {
            Ok(result) => Ended { result: Some(result), ..Decided::Done.into() },
            // The work is done; to do it again would not make the result any better.
            Err(error) => {
                Decided::FailForGood(format!("the result cannot be serialized as JSON: {error}"))
                    .into()
            }
        }
    }
}

impl<T: IntoEnded, E: Into<BoxError>> IntoEnded for Result<T, E> {
    fn into_ended(self) -> Ended {
        match self {
            Ok(value) => value.into_ended(),
            Err(error) => failed(&*error.into()).into(),
        }
    }
}

/// What follows from an error: as the first [`Failure`] in its chain says, or a retry.
pub(crate) fn failed(error: &(dyn StdError + 'static)) -> Decided {
    let text = in_words(error);
    let mut link = Some(error);
    let mut failure = None;
    while let (Some(error), None) = (link, failure) {
        failure = error.downcast_ref::<Verdict>();
        link = error.source();
    }
    match failure {
        Some(Verdict { then: Then::Never, .. }) => Decided::FailForGood(text),
        Some(Verdict { then: Then::After(wait), .. }) => Decided::RetryAfter(*wait, text),
        Some(Verdict { then: Then::OutOfResources, .. }) => Decided::OutOfResources(text),
        None => Decided::Fail(text),
    }
}

/// An error and what is behind it, leaving out what the outer one has said already.
fn in_words(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let inner = error.to_string();
        if !text.contains(&inner) {
            text.push_str(": ");
            text.push_str(&inner);
        }
        source = error.source();
    }
    text
}
