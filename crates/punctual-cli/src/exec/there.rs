//! A run that a server records: this process is a worker elsewhere, as `docs/workers.md` has it. It
//! orders the job, claims it, is heard of while the command runs, and reports the end. All of that
//! happens on a thread of its own, so that the command never waits for the server.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use axum::http::Method;
use punctual::LogLevel;
use punctual_api::{
    ClaimRequest, ClaimResponse, CompleteRequest, EnqueueRequest, EnqueueResponse, FailRequest,
    HeartbeatResponse, LogAppendResponse, NewLogLine, SettleResponse,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Exec, LONGEST, RECORDING, Run, not_recorded};
use crate::exit::Failure;
use crate::output;
use crate::target::{self, There, part};

/// How long one answer may take. Two come before the command.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How often the server hears of the run, if it does not say how often it has to.
const BEAT: Duration = Duration::from_secs(5);
/// Lines that come one after the other are sent together.
const GATHER: Duration = Duration::from_millis(300);
/// The wait before a call is repeated that has to come through.
const AGAIN: Duration = Duration::from_millis(300);

/// What is kept of what a command says, as for any other job: its lines, the bytes of one, and all.
const LINES_MAX: u32 = 10_000;
const LINE_BYTES_MAX: usize = 4 * 1_024;
const BYTES_MAX: usize = 1_024 * 1_024;
/// Lines of one call.
const CALL_LINES_MAX: usize = 200;

/// Runs the command, and has the server record it.
pub(super) async fn run(server: There, exec: &Exec, run: &Run) -> Result<u8, Failure> {
    let asked = order(exec, run).and_then(|order| Ok((order, claim(exec)?)));
    let begin = tokio::task::spawn_blocking(move || match asked {
        Ok((order, claim)) => Recorder::begin(server, order, claim),
        Err(why) => Err(first_line(&why)),
    });
    // Each call has its bound; this one is for whatever else could go wrong.
    let begun = match tokio::time::timeout(2 * PATIENCE, begin).await {
        Ok(Ok(begun)) => begun,
        _ => Err("no response from the server".to_owned()),
    };
    let recorder = match begun {
        Ok(recorder) => recorder,
        Err(why) => {
            not_recorded(&why);
            return run.by_itself().await;
        }
    };
    let (say, heard) = channel();
    let recording = tokio::task::spawn_blocking(move || recorder.listen(&heard));
    let kept = Mutex::new(Bound::default());
    let note = |level: LogLevel, line: &str| {
        // Nothing here panics while it holds the lock; if a bug does, it is still whole.
        let mut kept = kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(line) = kept.line(level, line) {
            // If nobody listens any more, that is told at the end.
            let _ = say.send(Said::Line(line));
        }
    };
    let code = run.piped(note).await;
    let _ = say.send(Said::Ended(code));
    match tokio::time::timeout(RECORDING + PATIENCE, recording).await {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(why))) => not_recorded(&why),
        _ => not_recorded("the server did not accept the result in time"),
    }
    Ok(code)
}

fn order(exec: &Exec, run: &Run) -> Result<String, Failure> {
    let payload = serde_json::to_value(exec.kept(&run.mask));
    target::json(&EnqueueRequest {
        kind: "exec".to_owned(),
        payload: payload.map_err(|error| Failure::failed(error.to_string()))?,
        queue: Some(exec.queue()),
        max_attempts: Some(1),
        timeout: Some(punctual_core::format_duration(LONGEST)),
        tags: vec![exec.name.clone()],
        ..EnqueueRequest::default()
    })
}

fn claim(exec: &Exec) -> Result<String, Failure> {
    target::json(&ClaimRequest {
        name: format!("exec {}", exec.name),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        queues: vec![exec.queue()],
        kinds: vec!["exec".to_owned()],
        wait: Some("3s".to_owned()),
        ..ClaimRequest::default()
    })
}

/// What happens to the command.
enum Said {
    Line(NewLogLine),
    Ended(u8),
}

/// How much it has said.
#[derive(Default)]
struct Bound {
    lines: u32,
    bytes: usize,
}

impl Bound {
    /// The line to keep, if it is still kept.
    fn line(&mut self, level: LogLevel, text: &str) -> Option<NewLogLine> {
        if self.lines >= LINES_MAX || self.bytes > BYTES_MAX {
            return None;
        }
        let text = &text[..text.floor_char_boundary(LINE_BYTES_MAX)];
        self.lines += 1;
        self.bytes += text.len();
        let (level, text) = match self.lines == LINES_MAX || self.bytes > BYTES_MAX {
            true => (LogLevel::Warn, "the log of this attempt is full; further lines are dropped"),
            false => (level, text),
        };
        Some(NewLogLine { level: Some(level.to_string()), text: text.to_owned() })
    }
}

/// Who tells the server.
struct Recorder {
    server: There,
    node: String,
    lease: String,
    beat: Duration,
    /// Lines that the server has not taken yet, and the number of the first.
    waiting: Vec<NewLogLine>,
    first: usize,
    /// Why some were left out.
    left_out: Option<String>,
}

impl Recorder {
    /// Orders the job and claims it.
    fn begin(server: There, order: String, claim: String) -> Result<Recorder, String> {
        // Nobody serves the kind but who orders it.
        let path = "/jobs?allow_unknown_kind=true";
        let ordered: EnqueueResponse =
            server.ask(Method::POST, path, Some(order), &[]).map_err(|why| first_line(&why))?;
        let claimed = server.ask(Method::POST, "/claims", Some(claim), &[]);
        let claimed = claimed.map_err(|why| first_line(&why)).and_then(|claimed: ClaimResponse| {
            let lease = claimed.leases.into_iter().next();
            let beat = punctual_core::parse_duration(&claimed.heartbeat_interval).unwrap_or(BEAT);
            let lease = lease.ok_or("the server did not return a lease for the job")?;
            Ok((claimed.node, lease.lease, beat))
        });
        match claimed {
            Ok((node, lease, beat)) => {
                let (waiting, left_out) = (Vec::new(), None);
                Ok(Recorder { server, node, lease, beat, waiting, first: 1, left_out })
            }
            Err(why) => {
                // Nobody else would ever claim it. If the server does not answer, it stays.
                let path = format!("/jobs/{}/cancel", part(&ordered.id));
                let _ = server.ask::<Value>(Method::POST, &path, None, &[]);
                Err(why)
            }
        }
    }

    /// Tells the server of all that is said, until the command has ended.
    fn listen(mut self, heard: &Receiver<Said>) -> Result<(), String> {
        let mut due = now() + self.beat;
        loop {
            match heard.recv_timeout(due.saturating_duration_since(now())) {
                Ok(Said::Line(line)) => {
                    self.waiting.push(line);
                    due = due.min(now() + GATHER);
                }
                Ok(Said::Ended(code)) => return self.finish(code),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("the run was aborted".to_owned());
                }
                Err(RecvTimeoutError::Timeout) => {
                    let told = match self.waiting.is_empty() {
                        true => self.call::<HeartbeatResponse>("heartbeat", &json!({})).map(drop),
                        false => self.send_lines(),
                    };
                    match told {
                        // Another has the job, which only this process could run: nothing more is
                        // taken. Of other trouble it is not known whether it lasts.
                        Err(why) if why.is_conflict() => return Err(first_line(&why)),
                        _ => due = now() + self.beat,
                    }
                }
            }
        }
    }

    /// Reports the end, as often as it takes.
    fn finish(mut self, code: u8) -> Result<(), String> {
        let until = now() + RECORDING;
        while let Err(why) = self.send_lines().and_then(|()| self.end(code)) {
            if why.is_conflict() || now() >= until {
                return Err(first_line(&why));
            }
            pause();
        }
        // Whether it is in the list of nodes for a little longer does not matter.
        let path = format!("/nodes/{}/leave", part(&self.node));
        let _ = self.server.ask::<Value>(Method::POST, &path, None, &[]);
        if let Some(why) = self.left_out {
            output::say_warning(&format!("part of the output is not recorded: {why}"));
        }
        Ok(())
    }

    fn end(&self, code: u8) -> Result<(), Failure> {
        match code {
            0 => {
                let done = CompleteRequest { result: Some(json!({"exit_code": 0})) };
                self.call::<SettleResponse>("complete", &done).map(drop)
            }
            code => {
                let error = format!("exit code {code}");
                let failed = FailRequest { error, retry: Some(false), retry_after: None };
                self.call::<SettleResponse>("fail", &failed).map(drop)
            }
        }
    }

    /// Sends the lines that wait, under their numbers, so that none is written twice.
    fn send_lines(&mut self) -> Result<(), Failure> {
        while !self.waiting.is_empty() {
            let count = self.waiting.len().min(CALL_LINES_MAX);
            let mut body = String::new();
            for line in &self.waiting[..count] {
                body.push_str(&target::json(line)?);
                body.push('\n');
            }
            let path = format!("/leases/{}/logs?first={}", part(&self.lease), self.first);
            match self.server.ask::<LogAppendResponse>(Method::POST, &path, Some(body), &[]) {
                Ok(_) => {}
                Err(why) if why.is_refusal() => self.left_out = Some(first_line(&why)),
                Err(why) => return Err(why),
            }
            self.waiting.drain(..count);
            self.first += count;
        }
        Ok(())
    }

    fn call<T: DeserializeOwned>(
        &self,
        what: &str,
        body: &impl serde::Serialize,
    ) -> Result<T, Failure> {
        let path = format!("/leases/{}/{what}", part(&self.lease));
        self.server.ask(Method::POST, &path, Some(target::json(body)?), &[])
    }
}

/// What went wrong, without the hints for whoever asks for something else.
fn first_line(why: &Failure) -> String {
    why.message().lines().next().unwrap_or("unknown error").to_owned()
}

#[expect(clippy::disallowed_methods, reason = "the command line has no engine to ask")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "nothing tells when a server is there again")]
fn pause() {
    std::thread::sleep(AGAIN);
}
