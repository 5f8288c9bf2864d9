//! Servers that are tortured, judged by an account that shares no code with them: `bench/torture`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::process::text;

/// Duration of the faults per database in the tests, in seconds.
const SECONDS: u64 = 12;

/// A shorter run shows only that the proof works, so both databases may share the machine.
const SHORT_SECONDS: u64 = 60;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/torture")
}

fn python() -> Command {
    let mut python = Command::new("python3");
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

#[test]
fn the_account_finds_planted_violations() {
    let output = python()
        .args(["-m", "unittest"])
        .current_dir(directory())
        .output()
        .expect("python3 runs the tests; install it");
    let err = text(&output.stderr);
    assert!(output.status.success() && err.contains("\nOK\n"), "{err}");
}

fn start(database: &str, seconds: u64) -> Child {
    let mut python = python();
    python.arg(directory()).args(["--punctual", env!("CARGO_BIN_EXE_punctual")]);
    python.args(["--database", database, "--seconds", &seconds.to_string()]);
    python.stdout(Stdio::piped()).spawn().expect("python3 runs the proof; install it")
}

fn end(process: Child) -> Value {
    let output = process.wait_with_output().unwrap();
    let line = text(&output.stdout);
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn acknowledged_jobs_and_due_slots_survive_torture() {
    let seconds = std::env::var("PUNCTUAL_PROOF_SECONDS");
    let seconds = seconds.map_or(SECONDS, |seconds| seconds.parse().unwrap());
    let (postgres, sqlite) = if seconds < SHORT_SECONDS {
        let both = (start("postgres", seconds), start("sqlite", seconds));
        (end(both.0), end(both.1))
    } else {
        (end(start("postgres", seconds)), end(start("sqlite", seconds)))
    };
    println!(r#"{{"proof":"torture","postgres":{postgres},"sqlite":{sqlite}}}"#);
    for proof in [&postgres, &sqlite] {
        assert_eq!(proof["violations"], json!({}), "{proof}");
        assert_eq!(proof["is_ok"], true, "{proof}");
        // A run in which nothing happened shows nothing.
        for something in ["acknowledged_jobs", "changes", "slots"] {
            assert!(proof[something].as_u64() > Some(30), "{something}: {proof}");
        }
    }
}
