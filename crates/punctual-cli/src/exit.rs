//! How a command ends when it does not succeed: one message on stderr, one exit code.

use std::io;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::output;

/// What a command could not do.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    /// What to do about it.
    hint: Option<String>,
    /// Are the tables older than the program, which may not change them?
    is_old_schema: bool,
}

impl Failure {
    fn new(code: u8, message: impl ToString) -> Failure {
        Failure { code, message: message.to_string(), hint: None, is_old_schema: false }
    }

    /// The same with a hint, which is shown on a line of its own.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }

    /// It was tried and did not work.
    pub(crate) fn failed(message: impl ToString) -> Failure {
        Failure::new(1, message)
    }

    /// What was asked for makes no sense as written.
    pub(crate) fn usage(message: impl ToString) -> Failure {
        Failure::new(2, message)
    }

    /// There is no such thing.
    pub(crate) fn not_found(message: impl ToString) -> Failure {
        Failure::new(3, message)
    }

    /// It is not allowed.
    pub(crate) fn not_allowed(message: impl ToString) -> Failure {
        Failure::new(4, message)
    }

    /// Somebody else was first.
    pub(crate) fn conflict(message: impl ToString) -> Failure {
        Failure::new(5, message)
    }

    /// The server or the database does not answer.
    pub(crate) fn out_of_reach(message: impl ToString) -> Failure {
        Failure::new(6, message)
    }

    /// The tables are older than the program, which may not change them.
    pub(crate) fn schema_too_old(message: impl ToString) -> Failure {
        Failure { is_old_schema: true, ..Failure::not_allowed(message) }
    }

    /// Are the tables older than the program, which may not change them?
    pub(crate) fn is_old_schema(&self) -> bool {
        self.is_old_schema
    }

    /// The message without the hint.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The message, and the hint on a line of its own.
    pub(crate) fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}\nhint: {hint}", self.message),
            None => self.message.clone(),
        }
    }

    /// Was somebody else first?
    pub(crate) fn is_conflict(&self) -> bool {
        self.code == 5
    }

    /// Was it refused as it is written, and would be again?
    pub(crate) fn is_refusal(&self) -> bool {
        self.code == 2
    }

    /// Could it work a little later?
    pub(crate) fn is_out_of_reach(&self) -> bool {
        self.code == 6
    }

    /// The database was brought up to date by a newer program.
    pub(crate) fn schema_too_new(message: impl ToString) -> Failure {
        Failure::new(78, message)
    }

    /// The same, told apart from an answer that is no.
    pub(crate) fn at_least_2(self) -> Failure {
        Failure { code: self.code.max(2), ..self }
    }

    /// As another program ended.
    pub(crate) fn as_another(code: u8) -> Failure {
        Failure::new(code, "")
    }

    /// Prints the message, but waits for stderr at most this long. What remains is the exit code.
    pub(crate) fn report_within(self, limit: Duration) -> Failure {
        let Failure { code, message, hint, .. } = self;
        let (sender, printed) = channel();
        let print = move || {
            output::say_failure(&message, hint.as_deref(), code);
            // After the limit, the receiver is dropped.
            let _ = sender.send(());
        };
        if std::thread::Builder::new().spawn(print).is_ok() {
            // Whether it was printed or not, the exit code is all that is left.
            let _ = printed.recv_timeout(limit);
        }
        Failure::as_another(code)
    }

    /// Says it on stderr, unless there is nothing to say.
    pub(crate) fn report(self) -> ExitCode {
        if !self.message.is_empty() {
            output::say_failure(&self.message, self.hint.as_deref(), self.code);
        }
        ExitCode::from(self.code)
    }
}

/// A reader that has seen enough (`… | head`) is no failure of ours.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::new(0, ""),
            _ => Failure::failed(format!("cannot write the output: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_stands_on_its_own_line() {
        let failure = Failure::usage("invalid level").hint("use info");
        assert_eq!(failure.message(), "invalid level");
        assert_eq!(failure.text(), "invalid level\nhint: use info");
        assert_eq!(Failure::usage("invalid level").text(), "invalid level");
    }

    #[test]
    fn an_old_schema_is_known_by_its_kind() {
        assert!(Failure::schema_too_old("`a.db` has schema version 3").is_old_schema());
        assert!(!Failure::not_allowed("this program needs 4").is_old_schema());
        assert_eq!(Failure::schema_too_old("old").code, 4);
    }
}
