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
            "cannot prepare the command: {}; see whether the worker's container or service limits what it may do",
            failed.why
        ),
        Step::Directory => directory(spec, errno, &failed.why),
        Step::Start => program(spec, errno, &failed.why),
    }
}

fn directory(spec: &Spec, errno: Option<Errno>, why: &str) -> String {
    let shown = spec.cwd.display();
    match errno {
        Some(Errno::NOENT) => format!(
            "there is no directory `{shown}` on this worker; create it there, or correct `cwd`"
        ),
        Some(Errno::NOTDIR) => format!("`{shown}` is no directory; correct `cwd`"),
        Some(Errno::ACCESS) => format!(
            "{} may not enter the directory `{shown}`; permit it, or give another `cwd`",
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
        Some(Errno::NOENT) if file.is_none() => format!(
            "there is no program `{shown}` on this worker; install it there, or correct the path"
        ),
        Some(Errno::NOENT) => match interpreter(path) {
            Some(interpreter) => format!(
                "`{shown}` asks for the interpreter `{interpreter}`, which is not on this worker; install it there, or correct the first line"
            ),
            None => format!(
                "`{shown}` needs a loader that is not on this worker; take a program that was built for this system"
            ),
        },
        Some(Errno::NOTDIR) => {
            format!("a part of the path `{shown}` is no directory; correct the path")
        }
        Some(Errno::ACCESS) => match file {
            Some(file) if file.is_dir() => {
                format!("`{shown}` is a directory; name a program in it")
            }
            Some(file) if file.permissions().mode() & 0o111 == 0 => {
                format!("`{shown}` is not executable; make it so with `chmod +x {shown}`")
            }
            _ => format!(
                "{} may not execute `{shown}`; permit it to read and execute the file and to enter its directories, and see that they are not mounted with `noexec`",
                who(spec)
            ),
        },
        Some(Errno::NOEXEC) => format!(
            "`{shown}` is neither a program for this machine nor a script whose first line names its interpreter; begin it with a line like `#!/bin/sh`"
        ),
        Some(Errno::PERM) => format!(
            "the worker may not become {} to run `{shown}`: {why}; run the worker as root, or leave `user` out",
            who(spec)
        ),
        Some(Errno::TOOBIG) => format!(
            "the arguments and variables of `{shown}` are too long for the system; give it what it needs in a file or as `stdin`"
        ),
        Some(Errno::AGAIN) => format!(
            "`{shown}` would be one process too many; raise `limits.processes`, or let fewer run at once"
        ),
        Some(Errno::TXTBSY) => format!(
            "`{shown}` is being written to; replace programs by renaming the new one over the old"
        ),
        _ => format!("cannot start `{shown}`: {why}"),
    }
}

fn who(spec: &Spec) -> String {
    match spec.become_ids {
        Some((uid, _)) => format!("user number {uid}"),
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
            format!("the command was ended by signal {}{}", signal_name(signal), cause(signal))
        }
        (None, None) => "nobody saw how the command ended".to_owned(),
    }
}

/// What shells mean by some codes.
fn meaning(code: i32) -> &'static str {
    match code {
        126 => " (what it called could not be executed)",
        127 => " (what it called was not found)",
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
        9 => "; somebody killed it, or the machine was out of memory",
        24 => "; it used the processor for longer than `limits.cpu_seconds`",
        25 => "; it wrote a file larger than `limits.file_bytes`",
        _ => "",
    }
}
