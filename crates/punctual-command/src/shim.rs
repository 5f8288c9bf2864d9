//! The process between a worker and a command, which outlives both by a moment.
//!
//! It leads a session of its own and is a subreaper: what a command leaves behind, however it was
//! started, comes back to it as a child. So when the system says that it has no child left, nothing
//! is left of the command. Its only tie to the worker is a socket; the end of that is the end of the
//! worker. A command that runs as the worker's user can stop it; the worker, or its end, wakes it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::pin::Pin;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process_group, set_child_subreaper,
    set_parent_process_death_signal, setsid, wait,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::time::Sleep;

use crate::descendants;
use crate::hide::hide_process;
use crate::wire::{Ask, Become, Exit, NotStarted, Spec, Step, Told};

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
    hide_process()?;
    // Whoever stops this process shall not have it sleep through the end of the worker.
    set_parent_process_death_signal(Some(Signal::CONT))?;
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
    let told = attend(spec, &mut asked, children).await?;
    let mut line = serde_json::to_vec(&told)?;
    line.push(b'\n');
    tell.write_all(&line).await
}

/// Starts what will be the command, and stays until nothing is left of it.
async fn attend(
    spec: Spec,
    asked: &mut Lines<BufReader<OwnedReadHalf>>,
    children: Signals,
) -> io::Result<Told> {
    let (command, socket) = match start() {
        Ok(started) => started,
        Err(error) => {
            let (errno, why) = (error.raw_os_error(), error.to_string());
            return Ok(Told::NotStarted(NotStarted { step: Step::Prepare, errno, why }));
        }
    };
    let told = serde_json::to_vec(&Become { spec, shim: getpid().as_raw_pid() })?;
    let (mut failed, mut tell) = socket.into_split();
    let hand_over = async {
        tell.write_all(&told).await?;
        tell.shutdown().await
    };
    // It may be ended before it has heard all; then that is what is told.
    let (exit, _) = tokio::join!(watch(command, asked, children), hand_over);
    // Nobody is left to hold the other end. One that was ended before it had heard all breaks it.
    let mut line = Vec::new();
    let _ = failed.read_to_end(&mut line).await;
    Ok(match line.is_empty() {
        true => Told::Ended(exit),
        false => Told::NotStarted(serde_json::from_slice(&line)?),
    })
}

fn start() -> io::Result<(Pid, UnixStream)> {
    setsid()?;
    set_child_subreaper(Some(getpid()))?;
    // Without it nobody could be found again.
    std::fs::metadata("/proc/self/stat")?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let ours = UnixStream::from_std(ours)?;
    let child = Command::new("/proc/self/exe")
        .arg0("punctual")
        .arg(crate::LAST_STEP)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .process_group(0)
        .spawn()?;
    Ok((Pid::from_child(&child), ours))
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

#[expect(clippy::disallowed_methods, reason = "the shim is a separate process, outside the engine")]
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
