//! Why xtask ends early, and the exit code that says so.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// The reason xtask does not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line makes no sense.
    Usage(String),
    /// The command failed.
    Failed(String),
    /// A signal asked xtask to stop, and everything it had started is stopped.
    Interrupted,
}

impl Failure {
    /// Turns an error of the operating system into "cannot …: …", for `map_err`.
    pub(crate) fn on(what: impl Display) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Failed(format!("cannot {what}: {error}"))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Failed(_) => ExitCode::from(1),
            Self::Usage(_) => ExitCode::from(2),
            // What a shell reports for a command that Ctrl-C ended.
            Self::Interrupted => ExitCode::from(130),
        }
    }
}
