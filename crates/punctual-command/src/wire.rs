//! What a worker and a shim say to each other: a line of JSON each.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::limit::Limits;

/// All that a shim has to know. It goes over the pipe and not over the command line, where everybody
/// could read it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spec {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
    /// The user and group to become; none: those of the worker.
    pub(crate) become_ids: Option<(u32, u32)>,
    pub(crate) stdin: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) new_privileges: bool,
}

/// What a shim tells the process that will be the command.
#[derive(Serialize, Deserialize)]
pub(crate) struct Become {
    pub(crate) spec: Spec,
    /// The process number of the shim: another parent means that it is gone.
    pub(crate) shim: i32,
}

/// What a worker asks of a shim that runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    /// TERM now, KILL after this.
    Stop { grace_ms: u64 },
}

/// What a shim tells: one thing, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    /// The command could not be started.
    NotStarted(NotStarted),
    /// The command has ended, and nothing of it is left.
    Ended(Exit),
}

/// What could not be done to start it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NotStarted {
    pub(crate) step: Step,
    /// The system's number for it, if it has one.
    pub(crate) errno: Option<i32>,
    pub(crate) why: String,
}

impl NotStarted {
    /// Did the worker lack memory, processes or open files? A limit of the command's own on processes
    /// is not the worker's.
    pub(crate) fn is_out_of_resources(&self, spec: &Spec) -> bool {
        match self.errno.map(Errno::from_raw_os_error) {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => true,
            Some(Errno::AGAIN) => self.step == Step::Prepare || !spec.limits.has_own_processes(),
            _ => false,
        }
    }
}

/// Where it came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// The shim could not make itself ready.
    Prepare,
    /// There is no such directory to work in.
    Directory,
    /// The program could not be executed.
    Start,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exit {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Processes that it had left behind, and that were killed.
    pub(crate) left: usize,
}
