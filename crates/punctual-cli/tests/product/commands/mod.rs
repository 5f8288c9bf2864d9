//! Jobs that are programs.

mod ends;
mod hidden;
mod refusals;
mod runs;
mod secrets;
mod shortage;
mod takeover;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{Serving, text};

/// A directory with settings, and programs.
struct Place(tempfile::TempDir);

impl Place {
    fn new(settings: &str) -> Place {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("punctual.toml"), settings).unwrap();
        Place(directory)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, which may be executed or not.
    fn file(&self, name: &str, mode: u32, content: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn serve(&self) -> Serving {
        Serving::start(self.path(), &["serve"])
    }
}

/// Enqueues a command that is tried once; the answer is its id.
fn enqueue(server: &Serving, payload: &Value, more: &[&str]) -> String {
    let payload = payload.to_string();
    let args = ["job", "enqueue", "command", "--payload", &payload, "--max-attempts", "1"];
    server.ask(&[&args, more].concat())["id"].as_str().unwrap().to_owned()
}

/// Waits for the end of a job; the answer is all about it.
fn ended(server: &Serving, id: &str) -> Value {
    let output = server.run(&["job", "wait", id, "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

/// Runs a command to its end.
fn run(server: &Serving, payload: &Value) -> Value {
    ended(server, &enqueue(server, payload, &[]))
}

/// The lines of a job's log.
fn log(server: &Serving, id: &str) -> Vec<Value> {
    let output = server.run(&["job", "logs", id, "--follow", "--json"]);
    let lines = text(&output.stdout);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A program that does all it can to stay: it starts others, in its group, in sessions of their own,
/// without a parent and without its environment, and none of them listens to TERM.
const STUBBORN: &str = r#"#!/bin/sh
trap '' TERM HUP INT
stay='trap "" TERM HUP INT; while :; do sleep 1; done'
sh -c "$stay" &
setsid sh -c "$stay" &
(setsid sh -c "(setsid sh -c '$stay' &)" &)
setsid env -i "PATH=$PATH" sh -c "$stay" "MARK=$MARK" &
if [ "$1" = leave ]; then
  while [ "$(grep -lz "MARK=$MARK" /proc/[0-9]*/environ 2>/dev/null | wc -l)" -lt 10 ]; do :; done
  exit 0
fi
while :; do sleep 1; done
"#;

/// How many processes with a mark `STUBBORN` comes to when all are there: four shells and what they
/// wait for, and one shell that has it among its arguments.
const STUBBORN_COUNT: usize = 9;

fn stubborn(program: &Path, mark: &str) -> Value {
    json!({ "argv": [program], "env": { "MARK": mark } })
}

/// How many processes have this mark in their environment, or among their arguments. All have it that
/// a command with the mark has started, but for what `STUBBORN` waits for without an environment.
fn marked(mark: &str) -> usize {
    let mark = format!("MARK={mark}");
    let has_mark = |entry: &std::fs::DirEntry| {
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let has = |all: &[u8]| all.split(|byte| *byte == 0).any(|one| one == mark.as_bytes());
        has(&read("environ")) || has(&read("cmdline"))
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(has_mark).count()
}

/// Waits until it is so; the answer is how long that took.
fn until(what: &str, most: Duration, mut is_so: impl FnMut() -> bool) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "processes are in nobody's simulation")]
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < most, "not within {most:?}: {what}");
        // Nobody tells of the end of processes that are not one's own children.
        std::thread::park_timeout(Duration::from_millis(5));
    }
    start.elapsed()
}
