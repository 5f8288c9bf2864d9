//! Watching what happens, doing one thing to many jobs, looking at one screen.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::process::{Serving, punctual, text};

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn events_are_followed_until_somebody_interrupts() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::start(directory.path(), &["serve"]);
    let args = ["events", "--follow", "--since", "1h", "--topics", "jobs", "--json"];
    let mut follow = punctual(directory.path(), &args);
    let mut follow = follow.args(["--server", &server.url]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut expected = Vec::new();
    for payload in ["1", "2"] {
        let done = server.ask(&["job", "enqueue", "echo", "--payload", payload, "--wait"]);
        expected.push(done["id"].clone());
        let told = json(&lines.next().unwrap().unwrap());
        assert_eq!((&told["job"]["id"], &told["job"]["state"]), (&done["id"], &"succeeded".into()));
    }
    let pid = rustix::process::Pid::from_child(&follow);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(follow.wait().unwrap().code(), Some(130));

    // Without a server, and to the end of what there is.
    assert_eq!(server.stop(), Some(0));
    let args = ["events", "--topics", "jobs", "--json", "--database", "sqlite://punctual.db"];
    let output = punctual(directory.path(), &args).output().unwrap();
    let told: Vec<Value> = text(&output.stdout).lines().map(json).collect();
    let ids: Vec<Value> = told.iter().map(|event| event["job"]["id"].clone()).collect();
    assert_eq!(ids, expected);
    let args = ["events", "--topics", "job", "--database", "sqlite://punctual.db"];
    let output = punctual(directory.path(), &args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("did you mean `jobs`?"), "{}", text(&output.stderr));
}

#[test]
fn many_jobs_are_retried_moved_and_cancelled_with_one_command() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::start(directory.path(), &["serve"]);
    let failing = ["job", "enqueue", "fail", "--payload", r#"{"times":1}"#, "--max-attempts", "1"];
    let failed: Vec<Value> = (0..3).map(|_| server.ask(&failing)["id"].clone()).collect();
    for id in &failed {
        assert_eq!(server.run(&["job", "wait", id.as_str().unwrap()]).status.code(), Some(1));
    }
    let done = server.ask(&["job", "retry", "--all-matching", "state:failed kind:fail"]);
    assert_eq!((&done["state"], &done["result"]["done"]), (&"succeeded".into(), &3.into()));
    for id in &failed {
        assert!(server.run(&["job", "wait", id.as_str().unwrap()]).status.success());
    }
    for _ in 0..3 {
        server.ask(&["job", "enqueue", "echo", "--delay", "1h", "--tag", "old"]);
    }
    let moved = server.run(&["job", "move", "--all-matching", "tag:old", "--queue", "slow"]);
    assert_eq!(text(&moved.stdout), "Moved 3 jobs, skipped 0\n");
    let asked = server.ask(&["job", "cancel", "--all-matching", "queue:slow", "--no-wait"]);
    let id = asked["id"].as_str().unwrap();
    assert_eq!(server.ask(&["job", "wait", id])["result"]["done"], 3);
    let wrong = server.run(&["job", "retry", "--all-matching", "state:ready"]);
    assert_eq!(wrong.status.code(), Some(2));
    let neither = server.run(&["job", "retry"]);
    assert_eq!(neither.status.code(), Some(2));
}

#[test]
fn a_list_of_schedules_tells_which_ones_fail() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::start(directory.path(), &["serve"]);
    let payload = r#"{"message":"no luck","permanent":true}"#;
    let bad =
        ["schedule", "create", "bad", "--every", "1s", "--kind", "fail", "--payload", payload];
    server.ask(&bad);
    server.ask(&["schedule", "create", "good", "--every", "1s", "--kind", "echo"]);
    let told = |name: &str| {
        let list = text(&server.run(&["schedule", "list"]).stdout);
        let line = list.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        (line, list)
    };
    // Each question is a process, which takes its time.
    let is_told = (0..2_000).any(|_| {
        let (bad, good) = (told("bad").0, told("good").0);
        bad.contains("failed ×2") && good.contains("✔")
    });
    let ((bad, list), (good, _)) = (told("bad"), told("good"));
    assert!(is_told, "{list}");
    assert!(bad.contains("✖✖") && !bad.contains("✔") && bad.ends_with("failing"), "{bad}");
    assert!(!good.contains("✖") && good.ends_with("active"), "{good}");
    assert!(list.ends_with("2 schedules · 0 paused · 1 failing\n"), "{list}");
    let shown = text(&server.run(&["schedule", "show", "bad"]).stdout);
    assert!(shown.contains("failing") && shown.contains("✖✖"), "{shown}");
}

#[test]
fn as_many_rows_are_shown_as_were_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::start(directory.path(), &["serve"]);
    let jobs: Vec<Value> =
        (0..501).map(|_| serde_json::json!({"kind": "echo", "delay": "1h"})).collect();
    let batch = serde_json::json!({ "jobs": jobs }).to_string();
    let made = ureq::post(format!("{}/api/v1/jobs:batch", server.url));
    made.content_type("application/json").send(batch).unwrap();
    let listed = |most: &str| server.ask(&["job", "list", "-n", most]);
    let all = listed("5000");
    assert_eq!((all["items"].as_array().unwrap().len(), &all["next_cursor"]), (501, &Value::Null));
    let some = listed("500");
    assert_eq!(some["items"].as_array().unwrap().len(), 500);
    assert!(some["next_cursor"].is_string());
    let told = text(&server.run(&["job", "list", "-n", "500"]).stdout);
    assert!(told.ends_with("More results are available; raise --limit\n"), "{told}");
    assert_eq!(server.run(&["job", "list", "-n", "0"]).status.code(), Some(2));
    // A second definition is one more than is shown.
    server.ask(&["schedule", "create", "s", "--cron", "0 8 * * *", "--kind", "echo"]);
    server.ask(&["schedule", "edit", "s", "--cron", "0 9 * * *"]);
    let told = text(&server.run(&["schedule", "revisions", "s", "-n", "1"]).stdout);
    assert!(told.ends_with("More results are available; raise --limit\n"), "{told}");
}

#[test]
fn a_queue_is_limited_paused_and_let_go_again() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::start(directory.path(), &["serve"]);
    let status = |args: &[&str]| {
        let output = server.run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout).lines().last().unwrap().to_owned()
    };
    assert!(status(&["queue", "limit", "mail", "3"]).ends_with("active (at most 3 running)"));
    let listed = server.ask(&["queue", "list"]);
    assert_eq!(listed["items"][0]["limits"]["max_running"], 3, "{listed}");
    let paused = status(&["queue", "pause", "mail", "--until", "2099-01-01T00:00:00Z"]);
    assert!(paused.contains("paused by "), "{paused}");
    assert!(paused.ends_with(" until 2099-01-01T00:00:00Z"), "{paused}");
    assert!(status(&["queue", "resume", "mail"]).ends_with("active (at most 3 running)"));
    assert!(status(&["queue", "limit", "mail", "--none"]).ends_with("active"));
    for wrong in [&["queue", "limit", "mail"][..], &["queue", "limit", "mail", "3", "--none"]] {
        assert_eq!(server.run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn everything_is_on_one_screen() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::start(directory.path(), &["serve", "--name", "web-1"]);
    server.ask(&["schedule", "create", "nightly", "--cron", "0 3 * * *", "--kind", "echo"]);
    let failing = ["job", "enqueue", "fail", "--payload", r#"{"permanent":true}"#, "--wait"];
    assert_eq!(server.run(&failing).status.code(), Some(1));
    let screen = text(&server.run(&["top", "--once"]).stdout);
    for part in [
        "1 node ·",
        "maintenance on web-1",
        "nightly",
        "at 03:00 every day",
        "the payload requested this failure",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let screen = server.ask(&["top", "--once"]);
    assert_eq!(screen["next"][0]["name"], "nightly");
    assert_eq!(screen["queues"][0]["kinds"][0]["failed"], 1);
    assert_eq!(screen["failed"][0]["kind"], "fail");
}
