//! The process between a worker and a command, which outlives both by a moment.
//!
//! It leads a session of its own and is a subreaper: what a command leaves behind, however it was
//! started, comes back to it as a child. So when the system says that it has no child left, nothing
//! is left of the command. Its only tie to the worker is a socket; the end of that is the end of the
//! worker.

use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::pin::Pin;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, getpid, getrlimit, kill_process_group,
    set_child_subreaper, setrlimit, setsid, wait,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::time::Sleep;

use crate::config::Limits;
use crate::descendants;
use crate::wire::{Ask, Exit, NotStarted, Spec, Step, Told};

/// How long after a kill to look again: somebody may have been born between two looks.
const AGAIN: Duration = Duration::from_millis(20);

/// Is the shim of one command, from start to end. A binary that handles commands calls it when
/// [`SHIM`](crate::SHIM) is its first argument.
pub fn shim() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(run())) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever waits for a word sees that none came. Nobody reads more: what this process could
        // print would be taken for the command's.
        Err(_) => ExitCode::FAILURE,
    }
}

async fn run() -> io::Result<()> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let socket = std::os::unix::net::UnixStream::from(socket);
    socket.set_nonblocking(true)?;
    let (asked, mut tell) = UnixStream::from_std(socket)?.into_split();
    let mut asked = BufReader::new(asked).lines();
    // The worker may be gone before it has said a word.
    let Some(spec) = asked.next_line().await? else { return Ok(()) };
    let spec: Spec = serde_json::from_str(&spec)?;
    // Whoever ends a whole service by signals means the worker, which then asks for the end; or it
    // dies, and that is seen, too. A shim that died of them would leave its command behind.
    let _deaf = [
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::hangup())?,
        signal(SignalKind::quit())?,
    ];
    let children = signal(SignalKind::child())?;
    let told = match start(&spec) {
        Ok(command) => Told::Ended(watch(command, &mut asked, children).await),
        Err(failed) => Told::NotStarted(failed),
    };
    let mut line = serde_json::to_vec(&told)?;
    line.push(b'\n');
    tell.write_all(&line).await
}

fn start(spec: &Spec) -> Result<Pid, NotStarted> {
    let at = |step: Step| {
        move |error: io::Error| NotStarted {
            step,
            errno: error.raw_os_error(),
            why: error.to_string(),
        }
    };
    prepare(spec).map_err(at(Step::Prepare))?;
    std::env::set_current_dir(&spec.cwd).map_err(at(Step::Directory))?;
    let input = input(spec.stdin.as_deref()).map_err(at(Step::Prepare))?;
    let mut command = Command::new(&spec.program);
    command.args(&spec.args).env_clear().envs(&spec.env).stdin(input).process_group(0);
    if let Some((uid, gid)) = spec.become_ids {
        // Root's further groups are dropped with it.
        command.uid(uid).gid(gid);
    }
    let child = command.spawn().map_err(at(Step::Start))?;
    Ok(Pid::from_child(&child))
}

/// All that the command inherits.
fn prepare(spec: &Spec) -> io::Result<()> {
    setsid()?;
    set_child_subreaper(Some(getpid()))?;
    // Without it nobody could be found again.
    std::fs::metadata("/proc/self/stat")?;
    rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o077));
    if !spec.new_privileges {
        rustix::thread::set_no_new_privs(true)?;
    }
    let Limits { cpu_seconds, memory_bytes, processes, open_files, file_bytes } = spec.limits;
    let limits = [
        (Resource::Core, Some(0)),
        (Resource::Cpu, cpu_seconds),
        (Resource::As, memory_bytes),
        (Resource::Nproc, processes),
        (Resource::Nofile, open_files),
        (Resource::Fsize, file_bytes),
    ];
    for (resource, limit) in limits {
        let Some(limit) = limit else { continue };
        // More than the worker has is not to be had.
        let most = getrlimit(resource).maximum.map_or(limit, |most| most.min(limit));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// What the command reads: a file in memory, so that nobody has to feed it.
fn input(text: Option<&str>) -> io::Result<Stdio> {
    let Some(text) = text else { return Ok(Stdio::null()) };
    let file = rustix::fs::memfd_create("stdin", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(file);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(Stdio::from(file))
}

/// Waits until the command is over and nothing of it is left.
async fn watch(
    command: Pid,
    asked: &mut Lines<BufReader<OwnedReadHalf>>,
    mut children: Signals,
) -> Exit {
    let mut exit = None;
    let mut left = None;
    let mut is_alone = false;
    let mut late: Option<Pin<Box<Sleep>>> = None;
    let mut is_late = false;
    loop {
        let is_any_left = reap(command, &mut exit);
        if !is_any_left {
            return Exit { left: left.unwrap_or(0), ..exit.unwrap_or_default() };
        }
        if exit.is_some() || is_alone || is_late {
            // What cannot be read now can be later: to give up would leave processes behind.
            let killed = descendants::kill_all().unwrap_or(0);
            if exit.is_some() {
                left.get_or_insert(killed);
            }
            tokio::select! {
                _ = children.recv() => {}
                () = pause(AGAIN) => {}
            }
            continue;
        }
        tokio::select! {
            line = asked.next_line() => match line.ok().flatten() {
                Some(line) => {
                    if let Ok(Ask::Stop { grace_ms }) = serde_json::from_str(&line) {
                        // It may be gone: then so much the better.
                        let _ = kill_process_group(command, Signal::TERM);
                        late = Some(Box::pin(pause(Duration::from_millis(grace_ms))));
                    }
                }
                None => is_alone = true,
            },
            _ = children.recv() => {}
            () = passed(&mut late) => is_late = true,
        }
    }
}

/// Takes note of all that have ended; false if nobody is left.
fn reap(command: Pid, exit: &mut Option<Exit>) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == command => {
                let (code, signal) = (status.exit_status(), status.terminating_signal());
                *exit = Some(Exit { code, signal, left: 0 });
            }
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            // No child: no descendant.
            Err(_) => return false,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "it is a process of its own, beside the engine")]
fn pause(length: Duration) -> Sleep {
    tokio::time::sleep(length)
}

/// Ends when the time has passed; never if there is none.
async fn passed(late: &mut Option<Pin<Box<Sleep>>>) {
    match late {
        Some(late) => late.await,
        None => std::future::pending().await,
    }
}
