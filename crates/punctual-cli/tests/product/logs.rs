//! The server's own log.

use std::fs::File;
use std::path::Path;

use serde_json::Value;

use crate::process::{Serving, punctual, text};

const CONFIG: &str = r#"
[log]
format = "json"
level = "info"

[commands.fails]
argv = ["false"]

[commands.hangs]
argv = ["sleep", "600"]
"#;

/// Starts a server whose stderr is the file `log`.
fn logging(directory: &Path) -> Serving {
    let mut command = punctual(directory, &["serve"]);
    command.env_remove("RUST_LOG").stderr(File::create(directory.join("log")).unwrap());
    Serving::of(command)
}

#[test]
fn failed_and_timed_out_attempts_are_json_events_with_their_job() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("punctual.toml"), CONFIG).unwrap();
    let server = logging(directory.path());
    let mut jobs = Vec::new();
    for (name, outcome) in [("fails", "failed"), ("hangs", "timed_out")] {
        let payload = format!(r#"{{"name":"{name}"}}"#);
        let enqueued = server.run(&[
            "job",
            "enqueue",
            "command",
            "--payload",
            &payload,
            "--max-attempts",
            "1",
            "--timeout",
            "1s",
            "--wait",
            "--json",
        ]);
        let enqueued: Value = serde_json::from_slice(&enqueued.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&enqueued.stderr)));
        jobs.push((enqueued["id"].as_str().unwrap().to_owned(), outcome));
    }
    assert_eq!(server.stop(), Some(0));
    let log = std::fs::read_to_string(directory.path().join("log")).unwrap();
    let events: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    for (job, outcome) in jobs {
        let event = events
            .iter()
            .find(|event| event["job"] == *job && event["message"] == "job failed for good")
            .unwrap_or_else(|| panic!("no event for {job} in {log}"));
        assert_eq!(event["level"], "ERROR");
        assert_eq!((&event["kind"], &event["queue"]), (&"command".into(), &"default".into()));
        assert_eq!((&event["attempt"], &event["outcome"]), (&1.into(), &outcome.into()));
        assert!(event["duration_ms"].is_u64() && event["error"].is_string(), "{event}");
    }
}

#[test]
fn a_log_file_has_no_colors_and_the_configured_level() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("punctual.toml"), "[log]\nlevel = \"punctual=trace\"")
        .unwrap();
    let server = logging(directory.path());
    assert!(server.run(&["node", "list"]).status.success());
    assert_eq!(server.stop(), Some(0));
    let log = std::fs::read_to_string(directory.path().join("log")).unwrap();
    assert!(log.contains(" TRACE "), "{log}");
    assert!(!log.contains('\u{1b}'), "{log}");
}

#[test]
fn invalid_log_settings_are_refused_with_the_place_and_the_value() {
    let directory = tempfile::tempdir().unwrap();
    for (config, expected) in [
        ("level = \"punctual=loud\"", "log.level: invalid level `punctual=loud`"),
        ("format = \"xml\"", "log.format: unknown value `xml`; expected text or json"),
    ] {
        std::fs::write(directory.path().join("punctual.toml"), format!("[log]\n{config}")).unwrap();
        let refused = punctual(directory.path(), &["serve"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(expected), "{}", text(&refused.stderr));
    }
}
