//! A dead man's switch between xtask and the programs it starts.
//!
//! Each of them runs below a guard: xtask itself, started as `xtask guard …`, with a pipe from
//! xtask as its standard input. Nothing is ever written to that pipe. It closes when xtask is done
//! with the program, and just as well when xtask dies, be it by a signal that no handler sees.
//! The guard then stops the program, waits for it and removes its directory.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{env, fs, io, thread};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::failure::Failure;

/// The first argument that makes xtask a guard.
pub(crate) const COMMAND: &str = "guard";

/// How long a program may take to stop before it is killed. Longer than the ten seconds that
/// nextest grants its tests, so that nextest is not killed before it has killed them.
const GRACE: Duration = Duration::from_secs(15);

/// How a guard treats its program.
pub(crate) struct Orders {
    /// What asks the program to stop.
    pub(crate) stop: Stop,
    /// How long after that it is killed.
    pub(crate) grace: Duration,
    /// The directory to remove when the program has ended.
    pub(crate) remove: Option<PathBuf>,
    /// The user that runs the program, if not the current one.
    pub(crate) user: Option<User>,
}

/// The signal that asks a program to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stop {
    /// SIGINT. PostgreSQL disconnects its clients and shuts down.
    Interrupt,
    /// SIGTERM. Unlike SIGINT, no shell makes the programs it starts in the background ignore it.
    Terminate,
}

/// A user of this machine, with its primary group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Default for Orders {
    fn default() -> Self {
        Self { stop: Stop::Terminate, grace: GRACE, remove: None, user: None }
    }
}

impl Orders {
    /// The command that runs `program` below a guard with these orders.
    pub(crate) fn guarding(&self, program: &Command) -> io::Result<Command> {
        let mut guard = Command::new(this_program()?);
        guard.arg(COMMAND);
        guard.arg("--stop").arg(self.stop.name());
        guard.arg("--grace-ms").arg(self.grace.as_millis().to_string());
        if let Some(dir) = &self.remove {
            guard.arg("--remove").arg(dir);
        }
        if let Some(User { uid, gid }) = self.user {
            guard.arg("--user").arg(format!("{uid}:{gid}"));
        }
        guard.arg("--").arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => guard.env(name, value),
                None => guard.env_remove(name),
            };
        }
        if let Some(dir) = program.get_current_dir() {
            guard.current_dir(dir);
        }
        // Ctrl-C goes to the foreground group: to xtask, which then closes the pipe, not to us.
        guard.process_group(0);
        Ok(guard)
    }

    fn parse(args: &[OsString]) -> Option<(Self, Command)> {
        let mut orders = Self::default();
        let mut args = args.iter();
        loop {
            let name = args.next()?;
            if name == "--" {
                break;
            }
            let value = args.next()?;
            match name.to_str()? {
                "--stop" => orders.stop = Stop::named(value)?,
                "--grace-ms" => {
                    orders.grace = Duration::from_millis(value.to_str()?.parse().ok()?);
                }
                "--remove" => orders.remove = Some(PathBuf::from(value)),
                "--user" => {
                    let (uid, gid) = value.to_str()?.split_once(':')?;
                    orders.user = Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()? });
                }
                _ => return None,
            }
        }
        let mut program = Command::new(args.next()?);
        program.args(args);
        Some((orders, program))
    }
}

impl Stop {
    fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "int",
            Self::Terminate => "term",
        }
    }

    fn named(name: &OsStr) -> Option<Self> {
        [Self::Interrupt, Self::Terminate].into_iter().find(|stop| name == stop.name())
    }

    fn signal(self) -> Signal {
        match self {
            Self::Interrupt => Signal::INT,
            Self::Terminate => Signal::TERM,
        }
    }
}

/// Runs a program until it ends or the pipe closes; its exit code becomes ours.
pub(crate) fn guard(args: &[OsString]) -> Result<ExitCode, Failure> {
    let (orders, mut program) = Orders::parse(args)
        .ok_or_else(|| Failure::Usage("`guard` is an internal command of xtask".into()))?;
    outlive_signals().map_err(Failure::on("handle signals"))?;
    let status = attend(&orders, &mut program);
    if let Some(dir) = &orders.remove {
        fs::remove_dir_all(dir).map_err(Failure::on(format_args!("remove `{}`", dir.display())))?;
    }
    let status =
        status.map_err(Failure::on(format_args!("run `{}`", program.get_program().display())))?;
    Ok(exit_code(status))
}

fn attend(orders: &Orders, program: &mut Command) -> io::Result<ExitStatus> {
    program.stdin(Stdio::null()).process_group(0);
    if let Some(User { uid, gid }) = orders.user {
        program.uid(uid).gid(gid);
    }
    let mut child = program.spawn()?;
    let group = Pid::from_child(&child);
    let (ended, end) = mpsc::channel::<()>();
    let (stop, grace) = (orders.stop.signal(), orders.grace);
    thread::spawn(move || {
        // Returns when the pipe closes. An error means the same: the other end is closed.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        // Fails only if the group is already gone.
        let _ = kill_process_group(group, stop);
        if end.recv_timeout(grace) == Err(RecvTimeoutError::Timeout) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    });
    let status = child.wait();
    drop(ended);
    // What the program left running in its group, such as a daemon that a test forgot.
    let _ = kill_process_group(group, Signal::KILL);
    status
}

/// A signal to everything at once, as a machine sends before it goes down, must not take the guard
/// before its program. The program's own handlers are unaffected.
fn outlive_signals() -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Cargo may replace the file of the running xtask, since the tests build it too. Linux finds the
/// program that runs even then.
fn this_program() -> io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.to_path_buf()) } else { env::current_exe() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_command_line() {
        let orders = Orders {
            stop: Stop::Interrupt,
            grace: Duration::from_millis(250),
            remove: Some("some dir".into()),
            user: Some(User { uid: 101, gid: 104 }),
        };
        let mut program = Command::new("echo");
        program.args(["--", "--stop", "a b"]);
        let guard = orders.guarding(&program).unwrap();
        let args: Vec<OsString> = guard.get_args().map(OsString::from).collect();
        assert_eq!(args[0], COMMAND);

        let (parsed, parsed_program) = Orders::parse(&args[1..]).unwrap();
        assert_eq!(parsed.stop, orders.stop);
        assert_eq!(parsed.grace, orders.grace);
        assert_eq!(parsed.remove, orders.remove);
        assert_eq!(parsed.user, orders.user);
        assert_eq!(parsed_program.get_program(), "echo");
        assert!(parsed_program.get_args().eq(["--", "--stop", "a b"]));
    }

    #[test]
    fn orders_that_make_no_sense_are_refused() {
        for args in [
            &["true"][..],
            &["--"],
            &["--stop", "kill", "--", "true"],
            &["--user", "root", "--", "true"],
            &["--grace-ms", "soon", "--", "true"],
            &["--surprise", "1", "--", "true"],
        ] {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            assert!(Orders::parse(&args).is_none(), "{args:?}");
        }
    }
}
