//! Why a job, a schedule, a queue or a unique key is as it is, in words.
//!
//! Each question first reads the facts from the store, a handful of bounded reads, and then decides
//! from them alone what the answer is: the same facts give the same words, on every store. A database
//! that does not answer is an answer as well.

pub(crate) mod cluster;
mod ended;
mod job;
mod key;
pub(crate) mod line;
mod queue;
pub(crate) mod schedule;
mod slots;
mod unfinished;

use std::fmt;

use punctual_store::{ErrorKind, StoreError};
use serde::Serialize;

pub use job::job;
pub use key::key;
pub(crate) use queue::counted;
pub use queue::queue;
pub use schedule::schedule;

use crate::Result;

/// Why something is as it is: the first reason is the answer, the others are worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Why {
    /// What was asked about.
    pub subject: String,
    /// How it is, in one word; `unknown` if nobody can tell.
    pub state: String,
    /// Why.
    pub reasons: Vec<Reason>,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// A word for programs, such as `paused_queue`. It stays as it is when the text gets better.
    pub code: &'static str,
    /// One sentence for people.
    pub text: String,
    /// What to do about it, if there is anything to do.
    pub remedy: Option<String>,
}

impl Reason {
    /// A reason about which nothing is to be done.
    pub(crate) fn new(code: &'static str, text: impl Into<String>) -> Reason {
        Reason { code, text: text.into(), remedy: None }
    }

    /// With the way out.
    pub(crate) fn remedy(self, remedy: impl Into<String>) -> Reason {
        Reason { remedy: Some(remedy.into()), ..self }
    }

    /// The database does not answer.
    pub(crate) fn unreachable(error: &StoreError) -> Reason {
        let reason =
            Reason::new("database_unreachable", format!("the database is unavailable: {error}"));
        reason.remedy(match error.kind() {
            ErrorKind::Retry => "the database is busy; try again",
            _ => {
                "check that the database is running and reachable from this host; nodes reconnect \
                 automatically"
            }
        })
    }
}

/// Can an error be an answer: that the database does not answer?
pub(crate) fn is_unreachable(error: &StoreError) -> bool {
    matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Retry)
}

/// That no node is alive is the reason for much, and told once.
fn without_repeats(mut reasons: Vec<Reason>) -> Vec<Reason> {
    let first = reasons.iter().position(|reason| reason.code == "no_node");
    let mut index = 0;
    reasons.retain(|reason| {
        index += 1;
        reason.code != "no_node" || first == Some(index - 1)
    });
    reasons
}

/// What was found out; a database that does not answer is something to tell as well.
fn answered(subject: &str, found: punctual_store::Result<Why>) -> Result<Why> {
    match found {
        Err(error) if is_unreachable(&error) => Ok(Why {
            subject: subject.to_owned(),
            state: "unknown".to_owned(),
            reasons: vec![Reason::unreachable(&error)],
        }),
        found => Ok(found?),
    }
}

/// The subject and its state, and below it the reasons, each with its way out.
impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.state.replace('_', " "))?;
        for reason in &self.reasons {
            write!(f, "\n- {}", reason.text)?;
            if let Some(remedy) = &reason.remedy {
                write!(f, "\n    → {remedy}")?;
            }
        }
        Ok(())
    }
}
