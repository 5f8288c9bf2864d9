//! A server on SQLite whose host had a clock two hours ahead: its schedules wait, `doctor` and `why` say
//! so, and a command repairs it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual::Timestamp;
use serde_json::Value;

use crate::process::{Serving, text};

/// The library that moves the clock of one process. Debian puts it in a directory per architecture.
fn faketime() -> PathBuf {
    let directories = std::fs::read_dir("/usr/lib").unwrap();
    directories
        .map(|entry| entry.unwrap().path().join("faketime/libfaketimeMT.so.1"))
        .find(|library| library.is_file())
        .expect("libfaketime runs this test; install it")
}

/// A server whose clock is two hours ahead. A process that starts with a wrong clock cannot tell, so
/// that it decides slots at once.
fn two_hours_ahead(directory: &Path) -> Serving {
    let library = faketime();
    let library = library.to_str().unwrap();
    let environment =
        [("LD_PRELOAD", library), ("FAKETIME", "+2h"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
    Serving::start_with(directory, &["serve"], &environment)
}

fn instant(value: &Value) -> Timestamp {
    value.as_str().unwrap_or_else(|| panic!("no instant: {value}")).parse().unwrap()
}

/// Waits until a schedule has decided a slot after this one, and returns the last one.
fn slot_after(server: &Serving, name: &str, earlier: Option<Timestamp>) -> Timestamp {
    // Long enough for a machine under load; a slot is due each second.
    for _ in 0..600 {
        let last = &server.ask(&["schedule", "show", name])["last_slot"];
        if !last.is_null() && Some(instant(last)) > earlier {
            return instant(last);
        }
        std::thread::park_timeout(Duration::from_millis(100));
    }
    panic!("{name} has decided no slot after {earlier:?}");
}

/// The codes of the problems that `doctor` finds.
fn problems(server: &Serving) -> Vec<String> {
    let found: Value = serde_json::from_slice(&server.run(&["doctor", "--json"]).stdout).unwrap();
    let findings = found["findings"].as_array().unwrap().iter();
    let problems = findings.filter(|finding| finding["severity"] == "problem");
    problems.map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn schedules_fire_again_after_the_clock_of_the_host_was_ahead() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::start(directory.path(), &["serve"]);
    let create = ["schedule", "create", "tick", "--every", "1s", "--kind", "echo"];
    server.ask(&[&create[..], &["--overlap", "allow"]].concat());
    let normal = slot_after(&server, "tick", None);
    server.kill();

    let server = two_hours_ahead(directory.path());
    let ahead = slot_after(&server, "tick", Some(normal + Duration::from_secs(3_600)));
    server.kill();

    // What the clock has left of the killed server does not keep its successor from leading.
    let server = Serving::start(directory.path(), &["serve"]);
    let job = server.ask(&["job", "enqueue", "echo"]);
    let waited = server.run(&["job", "wait", job["id"].as_str().unwrap()]);
    assert!(waited.status.success(), "{}", text(&waited.stderr));
    let shown = server.ask(&["schedule", "show", "tick"]);
    let until = instant(&shown["ahead_until"]);
    assert!(until >= ahead, "{shown}");
    assert!(problems(&server).contains(&"schedules_ahead".to_owned()));
    let why = server.ask(&["why", "schedule", "tick"]);
    assert_eq!(
        (&why["state"], &why["reasons"][0]["code"]),
        (&"ahead".into(), &"schedule_ahead".into())
    );
    let remedy = why["reasons"][0]["remedy"].as_str().unwrap();
    assert!(remedy.contains("punctual schedule realign tick"), "{remedy}");

    let preview = server.ask(&["schedule", "realign", "--all", "--dry-run"]);
    assert_eq!((&preview[0]["schedule"], &preview[0]["dry_run"]), (&"tick".into(), &true.into()));
    let last = instant(&server.ask(&["schedule", "show", "tick"])["last_slot"]);
    assert_eq!(last, until, "a dry run changes nothing");
    let done = server.ask(&["schedule", "realign", "--all", "--why", "wrong clock"]);
    let after = instant(&done[0]["after"]);
    assert!(done[0]["slots"].as_u64().unwrap() > 3_600, "{done}");
    let fired = slot_after(&server, "tick", Some(after));
    assert!(fired < after + Duration::from_secs(3_600), "{fired}");
    assert!(!problems(&server).contains(&"schedules_ahead".to_owned()));

    let again = server.run(&["schedule", "realign", "tick"]);
    assert_eq!(again.status.code(), Some(5), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("not ahead of the database clock"));
    let none = server.ask(&["schedule", "realign", "--all"]);
    assert_eq!(none, Value::Array(Vec::new()));
    assert_eq!(server.stop(), Some(0));
}
