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
    /// The soft limit of open files, unless `limits` has one; `None`: that of the worker.
    pub(crate) open_files: Option<u64>,
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
    /// Did the worker lack memory, processes or open files? Limits of the command, and the process limit
    /// of another user, do not concern the other jobs of the worker.
    pub(crate) fn is_out_of_resources(&self, spec: &Spec) -> bool {
        // Before this step, nothing but the worker's own limits applies.
        let is_own = |own_limit: bool| self.step != Step::Prepare && own_limit;
        let limits = &spec.limits;
        match self.errno.map(Errno::from_raw_os_error) {
            Some(Errno::NFILE) => true,
            Some(Errno::MFILE) => !is_own(limits.open_files.is_set()),
            Some(Errno::NOMEM) => !is_own(limits.memory_bytes.is_set()),
            Some(Errno::AGAIN) => !is_own(limits.processes.is_set() || spec.become_ids.is_some()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Limit;

    fn spec() -> Spec {
        Spec {
            program: "/bin/true".into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: "/".into(),
            become_ids: None,
            stdin: None,
            limits: Limits::default(),
            open_files: None,
            new_privileges: false,
        }
    }

    #[test]
    fn only_a_lack_of_the_worker_itself_is_one() {
        let is_shortage = |step: Step, errno: Errno, spec: &Spec| {
            let failed =
                NotStarted { step, errno: Some(errno.raw_os_error()), why: "why".to_owned() };
            failed.is_out_of_resources(spec)
        };
        let all = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN];
        for errno in all {
            assert!(is_shortage(Step::Prepare, errno, &spec()), "{errno}");
            assert!(is_shortage(Step::Start, errno, &spec()), "{errno}");
        }
        assert!(!is_shortage(Step::Start, Errno::NOENT, &spec()));
        // The process limit of another user.
        let other = Spec { become_ids: Some((1_000, 1_000)), ..spec() };
        assert!(!is_shortage(Step::Start, Errno::AGAIN, &other));
        assert!(is_shortage(Step::Prepare, Errno::AGAIN, &other));
        assert!(is_shortage(Step::Start, Errno::NFILE, &other));
        // The command's own limits.
        let one = Limit::At(1);
        let limits =
            Limits { memory_bytes: one, processes: one, open_files: one, ..Limits::default() };
        let limited = Spec { limits, ..spec() };
        let own = all.map(|errno| is_shortage(Step::Start, errno, &limited));
        assert_eq!(own, [false, true, false, false]);
    }
}
