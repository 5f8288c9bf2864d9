//! Why a command did not start or did not succeed, in words, with the way out.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::io::Errno;

use crate::wire::{Exit, NotStarted, Spec, Step};

/// What kept a command from starting.
pub(crate) fn not_started(spec: &Spec, failed: &NotStarted) -> String {
    let errno = failed.errno.map(Errno::from_raw_os_error);
    match failed.step {
        Step::Prepare => format!(
            "cannot prepare the command: {}; check the restrictions of the worker's container or \
             service",
            failed.why
        ),
        Step::Directory => directory(spec, errno, &failed.why),
        Step::Start => program(spec, errno, &failed.why),
    }
}

fn directory(spec: &Spec, errno: Option<Errno>, why: &str) -> String {
    let shown = spec.cwd.display();
    match errno {
        Some(Errno::NOENT) => {
            format!("directory `{shown}` not found on this worker; create it, or correct `cwd`")
        }
        Some(Errno::NOTDIR) => format!("`{shown}` is not a directory; correct `cwd`"),
        Some(Errno::ACCESS) => format!(
            "permission denied: {} cannot enter the directory `{shown}`; grant access, or use \
             another `cwd`",
            who(spec)
        ),
        _ => format!("cannot enter the directory `{shown}`: {why}; correct `cwd`"),
    }
}

fn program(spec: &Spec, errno: Option<Errno>, why: &str) -> String {
    let path = &spec.program;
    let shown = path.display();
    let file = path.metadata().ok();
    match errno {
        Some(Errno::NOENT) if file.is_none() => {
            format!("program `{shown}` not found on this worker; install it, or correct the path")
        }
        Some(Errno::NOENT) => match interpreter(path) {
            Some(interpreter) => format!(
                "the interpreter `{interpreter}` of `{shown}` was not found on this worker; \
                 install it, or correct the first line of the script"
            ),
            None => format!(
                "`{shown}` needs a dynamic loader that is missing on this worker; use a program \
                 built for this system"
            ),
        },
        Some(Errno::NOTDIR) => {
            format!("a component of the path `{shown}` is not a directory; correct the path")
        }
        Some(Errno::ACCESS) => match file {
            Some(file) if file.is_dir() => {
                format!("`{shown}` is a directory; use the path of a program")
            }
            Some(file) if file.permissions().mode() & 0o111 == 0 => {
                format!("`{shown}` is not executable; run `chmod +x {shown}`")
            }
            _ => format!(
                "permission denied: {} cannot execute `{shown}`; grant read and execute access to \
                 the file and its directories, and check that the file system is not mounted with \
                 `noexec`",
                who(spec)
            ),
        },
        Some(Errno::NOEXEC) => format!(
            "`{shown}` is neither a program for this machine nor a script with an interpreter \
             line; add a first line such as `#!/bin/sh`"
        ),
        Some(Errno::PERM) => format!(
            "the worker is not permitted to switch to {} to run `{shown}`: {why}; run the worker \
             as root, or remove `user`",
            who(spec)
        ),
        Some(Errno::TOOBIG) => format!(
            "the arguments and environment variables of `{shown}` are too long for the system; \
             pass the data in a file or as `stdin`"
        ),
        Some(Errno::AGAIN) => format!(
            "cannot start `{shown}`: too many processes of {}; raise `limits.processes` or the \
             process limit of that user, or run fewer jobs at the same time",
            who(spec)
        ),
        Some(Errno::TXTBSY) => format!(
            "`{shown}` is open for writing; to replace a program, rename the new file over the \
             old one"
        ),
        _ => format!("cannot start `{shown}`: {why}"),
    }
}

fn who(spec: &Spec) -> String {
    match spec.become_ids {
        Some((uid, _)) => format!("user id {uid}"),
        None => "the worker's user".to_owned(),
    }
}

/// What the first line of a script names.
fn interpreter(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut start = Vec::new();
    std::fs::File::open(path).ok()?.take(256).read_to_end(&mut start).ok()?;
    let text = String::from_utf8_lossy(&start);
    let named = text.strip_prefix("#!")?.lines().next()?.split_whitespace().next()?;
    Some(named.to_owned())
}

/// How a command ended, if not well.
pub(crate) fn ended(exit: Exit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("the command exited with code {code}{}", meaning(code)),
        (None, Some(signal)) => {
            format!("the command was terminated by signal {}{}", signal_name(signal), cause(signal))
        }
        (None, None) => "the exit status of the command is unknown".to_owned(),
    }
}

/// What shells mean by some codes.
fn meaning(code: i32) -> &'static str {
    match code {
        126 => " (command cannot be executed)",
        127 => " (command not found)",
        _ => "",
    }
}

pub(crate) fn signal_name(signal: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let name = usize::try_from(signal - 1).ok().and_then(|index| NAMES.get(index));
    name.map_or_else(|| signal.to_string(), |name| (*name).to_owned())
}

fn cause(signal: i32) -> &'static str {
    match signal {
        9 => "; it was killed by another process or by the out-of-memory killer",
        24 => "; it exceeded the CPU time limit (`limits.cpu_seconds`)",
        25 => "; it exceeded the file size limit (`limits.file_bytes`)",
        _ => "",
    }
}
