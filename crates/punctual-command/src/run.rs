//! One attempt at a command, as the worker sees it.

use std::os::fd::OwnedFd;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use punctual::{BoxError, Ctx, Done, Failure, LogLevel, StopReason, is_out_of_resources};
use punctual_secrets::Mask;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command as Process};

use crate::commands::Commands;
use crate::explain;
use crate::orphans::Watched;
use crate::output::{Room, Stream};
use crate::payload::Command;
use crate::plan::{self, Plan, Refusal, RefusalReason};
use crate::shim::SHORTAGE;
use crate::wire::{Ask, Exit, Spec, Told};

/// What is read at once.
const PIECE_BYTES: usize = 32 << 10;

/// After so many lines the command waits for a moment, by its full pipe: lines are written to the
/// store beside the work, and those of other jobs shall find room, too.
const LINES_AT_ONCE: usize = 200;
const BREATH: Duration = Duration::from_millis(10);

/// How long to wait for the end of the output once nothing of the command is left. Only a process
/// that was handed the pipe by other means can still hold it.
const DRAIN: Duration = Duration::from_secs(1);

/// What is left to report the end of a command before its attempt is dropped.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How often to wake a shim that was told to stop: what it watches may not want it to hear.
const WAKE_AGAIN: Duration = Duration::from_millis(100);

/// What is kept of a command that succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The last that it wrote.
    pub stdout: String,
    /// The last that it wrote about itself.
    pub stderr: String,
    /// How much it wrote in all.
    pub output_bytes: u64,
    /// Is there more than the log has?
    pub truncated: bool,
    /// Processes that it left behind, and that were killed.
    pub left_behind: usize,
}

/// Runs a command: the handler of kind `command`.
pub async fn command(job: Command, cx: Ctx<Commands>) -> Result<Done<Report>, BoxError> {
    let known = cx.state().known();
    let plan = plan::plan(known, &job, variables(&cx));
    // After the secrets were read, so that it knows them as they were read.
    let mask = known.secrets.mask();
    let attempt = Attempt { cx: &cx, mask: &mask };
    let Plan { spec, success_codes, retry_codes } = match plan {
        Ok(plan) => plan,
        Err(Refusal { text, reason }) => {
            let text = mask.text(&text).into_owned();
            return Err(match reason {
                RefusalReason::Invalid => Failure::permanent(text).into(),
                RefusalReason::NotHere => text.into(),
                RefusalReason::OutOfResources => Failure::out_of_resources(text).into(),
            });
        }
    };
    let (told, report) = attempt.run(&spec).await.map_err(|trouble| match trouble {
        Trouble::OutOfResources(text) => Failure::out_of_resources(attempt.masked(&text)).into(),
        Trouble::Other(text) => attempt.masked(&text),
    })?;
    let exit = match told {
        Told::Ended(exit) => exit,
        Told::NotStarted(failed) => {
            let error = attempt.masked(&explain::not_started(&spec, &failed));
            return Err(match failed.is_out_of_resources(&spec) {
                true => Failure::out_of_resources(error).into(),
                false => error,
            });
        }
    };
    if exit.left > 0 {
        cx.log_at(
            LogLevel::Warn,
            &format!(
                "killed the processes that were still running when the command exited: {}",
                exit.left
            ),
        );
    }
    if exit.code.is_some_and(|code| success_codes.contains(&code)) {
        return Ok(Done(report));
    }
    let error = with_last_words(&explain::ended(exit), &report);
    match retry_codes {
        Some(codes) if exit.code.is_some_and(|code| !codes.contains(&code)) => {
            Err(Failure::permanent(error).into())
        }
        _ => Err(error.into()),
    }
}

/// What every command is told about its job.
fn variables(cx: &Ctx<Commands>) -> Vec<(&'static str, String)> {
    let mut variables = vec![
        ("PUNCTUAL_JOB", cx.job_id().to_string()),
        ("PUNCTUAL_ATTEMPT", cx.attempt().to_string()),
        ("PUNCTUAL_LAST_ATTEMPT", cx.is_last_attempt().to_string()),
        ("PUNCTUAL_DUE_AT", cx.due_at().to_string()),
    ];
    if let Some(trace) = cx.trace() {
        variables.push(("TRACEPARENT", trace.to_owned()));
    }
    if let Some(fired) = cx.fired() {
        variables.push(("PUNCTUAL_SCHEDULE", fired.facts.name));
        if let Some(slot) = fired.slot {
            variables.push(("PUNCTUAL_SLOT", slot.to_string()));
            variables.push(("PUNCTUAL_LATE_SECONDS", fired.late_by.as_secs().to_string()));
        }
    }
    // Whoever wrote these may have put anything in them.
    variables.retain(|(_, value)| !value.contains('\0'));
    variables
}

/// An error with the last lines that the command wrote.
fn with_last_words(error: &str, report: &Report) -> String {
    let (name, words) = match report.stderr.trim().is_empty() {
        true => ("stdout", report.stdout.trim()),
        false => ("stderr", report.stderr.trim()),
    };
    match words.is_empty() {
        true => format!("{error}; no output"),
        false => format!("{error}; end of {name}:\n{words}"),
    }
}

/// The shim of an attempt. A command of the same user can stop it with a signal; it has to hear that
/// the attempt is over all the same.
pub(crate) struct Shim(pub(crate) Child, pub(crate) Arc<Watched>);

impl Shim {
    fn wake(&self) {
        let pid = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // Nobody else has its number before it was waited for. If it is over, so much the better.
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    /// Ends what it has left behind, beside the work of others: that takes many looks at files. Only
    /// if threads cannot be started is nothing done.
    async fn end_orphans(&self) -> usize {
        let watched = self.1.clone();
        tokio::task::spawn_blocking(move || watched.end_orphans()).await.unwrap_or(0)
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        self.wake();
    }
}

/// Why there is no report about a command.
enum Trouble {
    /// The worker lacked memory, processes or open files.
    OutOfResources(String),
    Other(String),
}

impl Trouble {
    fn at_start(error: &std::io::Error) -> Trouble {
        let text = format!(
            "cannot start the supervisor process of the command: {error}; check the worker's limits \
             for processes and open files"
        );
        // No process could be started.
        let is_process = error.kind() == std::io::ErrorKind::WouldBlock;
        match is_process || is_out_of_resources(error) {
            true => Trouble::OutOfResources(text),
            false => Trouble::Other(text),
        }
    }

    /// The shim ended with this status and without a result.
    fn without_a_word(status: Option<ExitStatus>, text: String) -> Trouble {
        match status.and_then(|status| status.code()) == Some(SHORTAGE.into()) {
            true => Trouble::OutOfResources(text),
            false => Trouble::Other(text),
        }
    }
}

struct Attempt<'a> {
    cx: &'a Ctx<Commands>,
    mask: &'a Mask,
}

impl Attempt<'_> {
    fn masked(&self, text: &str) -> BoxError {
        self.mask.text(text).into_owned().into()
    }

    async fn run(&self, spec: &Spec) -> Result<(Told, Report), Trouble> {
        let (mut shim, socket) = self.start().map_err(|error| Trouble::at_start(&error))?;
        let config = &self.cx.state().known().config;
        let room = Mutex::new(Room::new(config.log_bytes));
        let stream = |level: LogLevel| Mutex::new(Stream::new(level, self.mask, config.tail_bytes));
        // What is written to stderr is not always bad news, but it is where bad news is.
        let (out, err) = (stream(LogLevel::Info), stream(LogLevel::Warn));
        let (stdout, stderr) = (shim.0.stdout.take(), shim.0.stderr.take());
        let told = {
            let mut read = pin!(async {
                tokio::join!(self.read(stdout, &out, &room), self.read(stderr, &err, &room))
            });
            let mut talk = pin!(self.talk(socket, spec, &shim));
            let mut is_read = false;
            let told = loop {
                tokio::select! {
                    told = &mut talk => break told,
                    _ = &mut read, if !is_read => is_read = true,
                }
            };
            let told = match told {
                Ok(told) => Ok(told),
                Err(error) => Err((error, shim.end_orphans().await)),
            };
            if !is_read && tokio::time::timeout(DRAIN, read).await.is_err() {
                let text = "another process keeps the command's output open; the rest of the \
                    output is not recorded";
                self.cx.log_at(LogLevel::Warn, text);
            }
            told
        };
        let told = match told {
            Ok(told) => told,
            Err((error, left)) => {
                if left > 0 {
                    let text =
                        format!("killed the processes that the command left running: {left}");
                    self.cx.log_at(LogLevel::Warn, &text);
                }
                return Err(self.without_a_word(&error, &mut shim.0).await);
            }
        };
        let (mut room, mut out, mut err) = (lock(&room), lock(&out), lock(&err));
        let log = |level: LogLevel, line: &str| self.cx.log_at(level, line);
        let exit = match &told {
            Told::Ended(exit) => *exit,
            Told::NotStarted(_) => Exit::default(),
        };
        let report = Report {
            exit_code: exit.code,
            signal: exit.signal.map(explain::signal_name),
            stdout: out.finish(&mut room, &log),
            stderr: err.finish(&mut room, &log),
            output_bytes: out.bytes + err.bytes,
            truncated: room.is_full(),
            left_behind: exit.left,
        };
        Ok((told, report))
    }

    /// Starts a shim, which waits for what it is told.
    fn start(&self) -> std::io::Result<(Shim, UnixStream)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        // This very program, even if another has its name by now.
        let mut process = Process::new("/proc/self/exe");
        process
            .arg0("punctual")
            .args([crate::SHIM, &self.cx.job_id().to_string()])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (shim, watched) = Watched::start(&mut process)?;
        Ok((Shim(shim, Arc::new(watched)), UnixStream::from_std(ours)?))
    }

    /// Tells the shim what to run, and to stop if it must; answers with what it tells. If this is
    /// dropped, the socket closes, and the shim kills all.
    async fn talk(&self, socket: UnixStream, spec: &Spec, shim: &Shim) -> Result<Told, String> {
        let (told, mut tell) = socket.into_split();
        let mut told = BufReader::new(told).lines();
        say(&mut tell, spec).await?;
        let mut is_stopped = false;
        loop {
            tokio::select! {
                line = told.next_line() => {
                    let line = line.map_err(|error| error.to_string())?;
                    let line = line.ok_or("the connection was closed without a result")?;
                    return serde_json::from_str(&line).map_err(|error| error.to_string());
                }
                // At a shutdown it may run until shortly before the grace ends.
                reason = self.cx.must_stop(), if !is_stopped => {
                    is_stopped = true;
                    let left = self.cx.time_left().unwrap_or(Duration::MAX);
                    let grace = self.cx.state().kill_grace().min(left.saturating_sub(LAST_WORDS));
                    self.cx.log_at(LogLevel::Warn, &stopping(reason, grace));
                    let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
                    say(&mut tell, &Ask::Stop { grace_ms }).await?;
                    shim.wake();
                }
                // The command may stop it again.
                () = pause(WAKE_AGAIN), if is_stopped => shim.wake(),
            }
        }
    }

    async fn without_a_word(&self, error: &str, shim: &mut Child) -> Trouble {
        let (status, how) = match tokio::time::timeout(DRAIN, shim.wait()).await {
            Ok(Ok(status)) => (Some(status), format!("the process ended ({status})")),
            Ok(Err(error)) => (None, error.to_string()),
            Err(_) => (None, "the process is still running".to_owned()),
        };
        let text = format!(
            "lost contact with the supervisor process of the command: {error}; {how}; check \
             whether worker processes are killed, for example by the out-of-memory killer"
        );
        Trouble::without_a_word(status, text)
    }

    /// Reads a stream to its end.
    async fn read(
        &self,
        from: Option<impl AsyncRead + Unpin>,
        stream: &Mutex<Stream>,
        room: &Mutex<Room>,
    ) {
        let Some(mut from) = from else { return };
        let log = |level: LogLevel, line: &str| self.cx.log_at(level, line);
        let mut piece = vec![0; PIECE_BYTES];
        let mut lines = 0;
        // A pipe that cannot be read any more has ended.
        while let Ok(count @ 1..) = from.read(&mut piece).await {
            let now = {
                let mut room = lock(room);
                lock(stream).push(&piece[..count], &mut room, &log);
                room.lines()
            };
            if now >= lines + LINES_AT_ONCE {
                lines = now;
                pause(BREATH).await;
            }
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a handler runs outside the engine and may use real time"
)]
async fn pause(length: Duration) {
    tokio::time::sleep(length).await;
}

async fn say(
    tell: &mut tokio::net::unix::OwnedWriteHalf,
    what: &impl Serialize,
) -> Result<(), String> {
    let mut line = serde_json::to_vec(what).map_err(|error| error.to_string())?;
    line.push(b'\n');
    tell.write_all(&line).await.map_err(|error| error.to_string())
}

fn stopping(reason: StopReason, grace: Duration) -> String {
    let why = match reason {
        StopReason::TimedOut(limit) => {
            format!("the timeout of {} was exceeded", punctual_core::format_duration(limit))
        }
        StopReason::Cancelled => "the job was cancelled".to_owned(),
        StopReason::Shutdown => "the worker is shutting down".to_owned(),
        StopReason::OutOfTouch => "the worker has lost contact with the database".to_owned(),
    };
    format!(
        "sending SIGTERM: {why}; SIGKILL follows after {}",
        punctual_core::format_duration(grace)
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing here panics while it holds the lock; if a bug does, the state is still whole.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use std::io::Error;
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_shim_that_lacks_resources_releases_the_job() {
        let is_shortage = |trouble: Trouble| matches!(trouble, Trouble::OutOfResources(_));
        // EAGAIN, ENOMEM, ENFILE, EMFILE.
        for errno in [11, 12, 23, 24] {
            let error = Error::from_raw_os_error(errno);
            assert!(is_shortage(Trouble::at_start(&error)), "{errno}");
        }
        // EACCES.
        assert!(!is_shortage(Trouble::at_start(&Error::from_raw_os_error(13))));
        let ended = |code: i32| {
            Trouble::without_a_word(Some(ExitStatus::from_raw(code << 8)), "text".to_owned())
        };
        assert!(is_shortage(ended(SHORTAGE.into())) && !is_shortage(ended(1)));
    }
}
