//! Programs that xtask starts: none of them outlives it.

use std::env;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio, exit};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::Failure;
use crate::guard::Orders;

/// Runs a program to its end, its output going where ours goes; anything but success is a failure.
pub(crate) fn run(program: &Command) -> Result<(), Failure> {
    let status = Guarded::start(program, &Orders::default(), |_| {})?.wait()?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::Failed(format!("`{}` failed ({status})", line(program))))
    }
}

/// What a program that ends by itself prints, without the space around it. For questions that
/// take no time, so it has no guard; Ctrl-C does not reach it, lest it look like a failure.
pub(crate) fn ask(program: &mut Command) -> Result<String, Failure> {
    let output = program
        .stdin(Stdio::null())
        .process_group(0)
        .output()
        .map_err(Failure::on(format_args!("run `{}`", program.get_program().display())))?;
    if interrupted() {
        Err(Failure::Interrupted)
    } else if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(Failure::Failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

/// Runs a program to its end and returns what it prints, without the space around it. Its other output
/// goes where ours goes.
pub(crate) fn ask_aloud(program: &mut Command) -> Result<String, Failure> {
    let mut running = Guarded::start(program, &Orders::default(), |guard| {
        guard.stdout(Stdio::piped());
    })?;
    let mut printed = String::new();
    if let Some(mut stdout) = running.guard.stdout.take() {
        stdout.read_to_string(&mut printed).map_err(Failure::on("read the output"))?;
    }
    let status = running.wait()?;
    if status.success() {
        Ok(printed.trim().to_owned())
    } else {
        Err(Failure::Failed(format!("`{}` failed ({status})", line(program))))
    }
}

/// The cargo that runs us, about to do something else.
pub(crate) fn cargo<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(args);
    cargo
}

/// The command as one would type it.
pub(crate) fn line(program: &Command) -> String {
    let name = program.get_program();
    let name = if env::var_os("CARGO").is_some_and(|cargo| cargo == name) {
        "cargo".into()
    } else {
        name.to_string_lossy()
    };
    let args = program.get_args().map(|arg| arg.to_string_lossy());
    std::iter::once(name).chain(args).collect::<Vec<_>>().join(" ")
}

/// `PATH` with a directory before all others.
pub(crate) fn path_starting_with(dir: &Path) -> Result<OsString, Failure> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths(std::iter::once(dir.to_path_buf()).chain(env::split_paths(&path)))
        .map_err(|error| Failure::Failed(format!("cannot extend PATH: {error}")))
}

/// A program below its guard. Dropping it does not stop the program: `end` does, and the end of
/// xtask does.
pub(crate) struct Guarded {
    pub(crate) guard: Child,
}

impl Guarded {
    /// Starts `program`; `adjust` has the last word about the guard's streams, which are also
    /// those of the program.
    pub(crate) fn start(
        program: &Command,
        orders: &Orders,
        adjust: impl FnOnce(&mut Command),
    ) -> Result<Self, Failure> {
        let cannot = || Failure::on(format!("start `{}`", line(program)));
        let mut command = orders.guarding(program).map_err(cannot())?;
        adjust(command.stdin(Stdio::piped()));
        // Held while starting, so that a signal finds the program registered or not started.
        let mut started = started();
        if started.interrupted {
            return Err(Failure::Interrupted);
        }
        let mut guard = command.spawn().map_err(cannot())?;
        // Taken out, since `Child::wait` would close it.
        if let Some(lifeline) = guard.stdin.take() {
            started.lifelines.push((guard.id(), lifeline));
        }
        Ok(Self { guard })
    }

    /// Waits until the program ends by itself, or because of a signal to xtask.
    pub(crate) fn wait(mut self) -> Result<ExitStatus, Failure> {
        let status = self.guard.wait().map_err(Failure::on("wait for a program"));
        let mut started = started();
        started.forget(self.guard.id());
        if started.interrupted { Err(Failure::Interrupted) } else { status }
    }

    /// Stops the program and waits until it has exited and its directory is deleted.
    pub(crate) fn end(&mut self) {
        started().forget(self.guard.id());
        // An error here means that there is no such process any more, which is what we want.
        let _ = self.guard.wait();
    }
}

/// Whether a signal asked xtask to stop.
pub(crate) fn interrupted() -> bool {
    started().interrupted
}

/// From now on a signal stops the program that was started last. The function that waits for it then
/// gets `Failure::Interrupted` and stops the programs that were started before. A second signal does not
/// wait for that: the guards stop the rest.
pub(crate) fn watch_signals() -> Result<(), Failure> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Failure::on("handle signals"))?;
    thread::spawn(move || {
        for _ in signals.forever() {
            let mut started = started();
            if started.interrupted || started.lifelines.is_empty() {
                exit(130);
            }
            started.interrupted = true;
            started.lifelines.pop();
        }
    });
    Ok(())
}

/// State for the signal handler. Signals are sent to the whole process, so there is one instance.
struct Started {
    interrupted: bool,
    /// The pipes that keep programs alive, by the process id of the guard, oldest first.
    lifelines: Vec<(u32, ChildStdin)>,
}

impl Started {
    fn forget(&mut self, guard: u32) {
        self.lifelines.retain(|(id, _)| *id != guard);
    }
}

fn started() -> MutexGuard<'static, Started> {
    static STARTED: Mutex<Started> =
        Mutex::new(Started { interrupted: false, lifelines: Vec::new() });
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}
