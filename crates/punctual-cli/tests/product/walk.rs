//! The walk of the README, as a new user takes it.

use punctual::rusqlite::Connection;

use crate::process::{Serving, punctual, text};

#[test]
fn the_readmes_walk_works_as_written() {
    let directory = tempfile::tempdir().unwrap();
    let dev = Serving::start(directory.path(), &["dev"]);

    let schedules = dev.ask(&["schedule", "list"]);
    let names: Vec<&str> = schedules["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["backup", "clock", "flaky-sync", "heartbeat", "slow-report", "weekly-digest"]
    );
    assert!(text(&dev.run(&["schedule", "list"]).stdout).contains("every 5 seconds"));

    let done = dev.ask(&["job", "enqueue", "echo", "--payload", "\"hello\"", "--wait"]);
    assert_eq!((&done["state"], &done["result"]), (&"succeeded".into(), &"hello".into()));

    // One fails, is asked about, and is tried again.
    let failing = r#"{"message":"no luck","permanent":true}"#;
    let failed = dev.run(&["job", "enqueue", "fail", "--payload", failing, "--wait", "--json"]);
    assert_eq!(failed.status.code(), Some(1));
    let failed: serde_json::Value = serde_json::from_slice(&failed.stdout).unwrap();
    let id = failed["id"].as_str().unwrap();
    let listed = dev.ask(&["job", "list", "--state", "failed"]);
    assert!(listed["items"].as_array().unwrap().iter().any(|job| job["id"] == id));
    let why = text(&dev.run(&["why", "job", id]).stdout);
    assert!(why.contains("no luck"), "{why}");
    assert_eq!(dev.ask(&["job", "retry", id])["id"], id);
    assert_eq!(dev.run(&["job", "wait", id]).status.code(), Some(1));

    let paused = dev.ask(&["schedule", "pause", "heartbeat", "--why", "too noisy"]);
    assert_eq!(paused["pause"]["why"], "too noisy");
    let why = text(&dev.run(&["why", "schedule", "heartbeat"]).stdout);
    assert!(why.contains("too noisy"), "{why}");
    let resumed = text(&dev.run(&["schedule", "resume", "heartbeat"]).stdout);
    assert!(resumed.lines().any(|line| line == "status       active"), "{resumed}");
    let next = dev.ask(&["schedule", "next", "weekly-digest", "-n", "3"]);
    assert_eq!(next["next"].as_array().unwrap().len(), 3);
    dev.ask(&["schedule", "slots", "slow-report"]);
    assert_eq!(dev.ask(&["leader"])["items"].as_array().unwrap().len(), 2);

    let made = dev.ask(&["schedule", "create", "mine", "--cron", "0 8 * * MON", "--kind", "echo"]);
    assert_eq!(made["description"], "at 08:00 on Monday");
    let edited =
        dev.ask(&["schedule", "edit", "mine", "--tz", "Europe/Paris", "--overlap", "queue_one"]);
    assert_eq!(edited["definition"]["overlap"], "queue_one");
    let ran = dev.ask(&["schedule", "run", "mine"]);
    assert_eq!(dev.ask(&["job", "wait", ran["job"].as_str().unwrap()])["state"], "succeeded");
    let edited = dev.ask(&[
        "schedule",
        "edit",
        "mine",
        "--overlap",
        "skip",
        "--run-on",
        "every_node",
        "--exclude",
        "12-25",
        "--pause-after-failures",
        "3",
        "--why",
        "on each machine",
    ]);
    assert_eq!(edited["definition"]["run_on"], "every_node");
    assert_eq!(edited["definition"]["exclude"], serde_json::json!(["12-25"]));
    let revisions = dev.ask(&["schedule", "revisions", "mine"]);
    assert_eq!(revisions["items"][0]["why"], "on each machine");
    assert_eq!(dev.ask(&["schedule", "disable", "mine"])["enabled"], false);
    assert_eq!(dev.ask(&["schedule", "enable", "mine"])["enabled"], true);
    dev.ask(&["schedule", "delete", "mine"]);
    assert_eq!(dev.run(&["schedule", "show", "mine"]).status.code(), Some(3));
    assert_eq!(dev.stop(), Some(0));

    // What it knows is kept, and can be asked without a server.
    let database = ["--database", "sqlite://punctual.db"];
    let output = punctual(directory.path(), &["job", "show", id, "--json"]).args(database).output();
    let shown: serde_json::Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(shown["state"], "failed");
    let status = punctual(directory.path(), &["db", "status"]).args(database).output().unwrap();
    assert!(text(&status.stdout).starts_with("sqlite 3."), "{}", text(&status.stdout));
}

#[test]
fn shells_and_manuals_have_what_they_need() {
    let run =
        |args: &[&str]| text(&punctual(std::path::Path::new("/"), args).output().unwrap().stdout);
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(&["completions", shell]).contains("enqueue"), "{shell}");
    }
    assert!(run(&["man"]).contains(".TH punctual"));
    assert!(run(&["man", "job", "enqueue"]).contains("payload"));
}

#[test]
fn a_served_file_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let first = Serving::start(directory.path(), &["serve"]);
    let made = first.ask(&["job", "enqueue", "echo", "--delay", "1h"]);
    first.kill();
    let second = Serving::start(directory.path(), &["serve"]);
    let id = made["id"].as_str().unwrap();
    assert_eq!(second.ask(&["job", "show", id])["state"], "scheduled");
    assert_eq!(second.stop(), Some(0));
}

#[test]
fn start_deadlines_are_stored() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::start(directory.path(), &["serve"]);
    server.ask(&["job", "enqueue", "echo", "--delay", "1h", "--start-within", "10m"]);
    let create = ["schedule", "create", "s", "--cron", "1 2 * * *", "--kind", "echo"];
    let made = server.ask(&[&create[..], &["--start-within", "6h"]].concat());
    assert_eq!(made["definition"]["job"]["start_within"], "6h");
    let other = ["--set", r#"{"job": {"timeout": "1h"}}"#];
    let edited =
        server.ask(&[&["schedule", "edit", "s", "--start-within", "2h"][..], &other].concat());
    let job = &edited["definition"]["job"];
    assert_eq!((&job["start_within"], &job["timeout"]), (&"2h".into(), &"1h".into()));
    assert_eq!(job["kind"], "echo");
    assert_eq!(server.stop(), Some(0));
    let db = Connection::open(directory.path().join("punctual.db")).unwrap();
    let question =
        "SELECT (expires_at - created_at) / 1000000 FROM punctual_job ORDER BY created_at";
    let seconds: i64 = db.query_row(question, [], |row| row.get(0)).unwrap();
    assert_eq!(seconds, 70 * 60);
}

#[test]
fn the_script_takes_the_same_walk() {
    passes_all_steps("walk.sh");
}

/// Imported lines are shell text that runs as a user; only Linux can do that.
#[cfg(target_os = "linux")]
#[test]
fn the_script_replaces_a_crontab() {
    passes_all_steps("crontab-walk.sh");
}

/// Runs a script of `examples` with this binary.
fn passes_all_steps(script: &str) {
    let path = format!("{}/../../examples/{script}", env!("CARGO_MANIFEST_DIR"));
    let mut walk = std::process::Command::new("bash");
    let output = walk.arg(path).env("PUNCTUAL", env!("CARGO_BIN_EXE_punctual")).output().unwrap();
    let (printed, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{printed}\n{error}");
    assert!(printed.ends_with("All steps passed.\n"), "{printed}");
}
