//! What cannot be run: the cause, and the way out.

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{Place, run};
use crate::process::{punctual, text};

const SETTINGS: &str = r#"
[command]
allow_api_argv = true
search_path = ["/usr/bin", "/bin"]
users = ["no-such-user"]

[commands.backup]
argv = ["/bin/echo", "{days}", "{target}"]
params = { days = "integer", target = { type = "string", values = ["all", "new"] } }
"#;

#[test]
fn an_attempt_that_cannot_start_says_why_and_what_to_do() {
    let place = Place::new(SETTINGS);
    place.file("plain", 0o644, "#!/bin/sh\n");
    place.file("no-interpreter", 0o755, "#!/usr/bin/pythn -u\n");
    place.file("garbage", 0o755, "\u{1}\u{2}\u{3}");
    let server = place.serve();
    let here = place.path().display().to_string();
    let error = |payload: Value| {
        let payload = payload.to_string().replace("HERE", &here);
        let job = run(&server, &serde_json::from_str(&payload).unwrap());
        assert_eq!(job["state"], "failed", "{job}");
        job["error"].as_str().unwrap().replace(&here, "HERE")
    };
    assert_snapshot!(error(json!({"argv": ["no-such-program"]})), @"");
    assert_snapshot!(error(json!({"argv": ["/no/such/program"]})), @"");
    assert_snapshot!(error(json!({"argv": ["bin/backup"]})), @"");
    assert_snapshot!(error(json!({"argv": ["HERE/plain"]})), @"");
    assert_snapshot!(error(json!({"argv": ["HERE"]})), @"");
    assert_snapshot!(error(json!({"argv": ["HERE/no-interpreter"]})), @"");
    assert_snapshot!(error(json!({"argv": ["HERE/garbage"]})), @"");
    assert_snapshot!(error(json!({"argv": ["true"], "cwd": "/no/such/directory"})), @"");
    assert_snapshot!(error(json!({"argv": ["true"], "cwd": "/etc/passwd"})), @"");
    assert_snapshot!(error(json!({"argv": ["true"], "user": "no-such-user"})), @"");
    assert_snapshot!(error(json!({"argv": ["true"], "env": {"A": "secret://none"}})), @"");
    assert_snapshot!(error(json!({"argv": ["sh", "-c", "echo oh no >&2; exit 3"]})), @"");
    assert_snapshot!(error(json!({"argv": ["sh", "-c", "kill -SEGV $$"]})), @"");
}

#[test]
fn what_is_known_to_be_wrong_is_refused_when_it_is_enqueued() {
    let place = Place::new(SETTINGS);
    let server = place.serve();
    let refusal = |args: &[&str], payload: Value| {
        let output = server.run(&[args, &["--payload", &payload.to_string()]].concat());
        assert_eq!(output.status.code(), Some(2), "{payload}");
        text(&output.stderr).trim_end().to_owned()
    };
    let job = |payload: Value| refusal(&["job", "enqueue", "command"], payload);
    let named = |params: Value| job(json!({"name": "backup", "params": params}));
    assert_snapshot!(job(json!({"name": "bakcup"})), @"");
    assert_snapshot!(job(json!({})), @"");
    assert_snapshot!(job(json!({"agrv": ["true"]})), @"");
    assert_snapshot!(job(json!({"argv": ["true"], "shell": true})), @"");
    assert_snapshot!(job(json!({"argv": ["true"], "user": "root"})), @"");
    assert_snapshot!(job(json!({"name": "backup", "cwd": "/"})), @"");
    assert_snapshot!(named(json!({"days": 3})), @"");
    assert_snapshot!(named(json!({"days": "3", "target": "all"})), @"");
    assert_snapshot!(named(json!({"days": 3, "target": "some"})), @"");
    assert_snapshot!(named(json!({"day": 3})), @"");
    let create = ["schedule", "create", "s", "--every", "1h", "--kind", "command"];
    assert_snapshot!(refusal(&create, json!({"name": "bakcup"})), @"");
}

#[test]
fn a_job_brings_no_program_where_that_is_not_allowed() {
    let place = Place::new("");
    let server = place.serve();
    let payload = json!({"argv": ["id"]}).to_string();
    let refused = server.run(&["job", "enqueue", "command", "--payload", &payload]);
    assert_snapshot!(text(&refused.stderr), @"");
    // Nobody is asked there; the worker refuses it all the same.
    let database = ["--database", "sqlite://punctual.db", "--json"];
    let mut enqueue = punctual(place.path(), &["job", "enqueue", "command"]);
    let made = enqueue.args(["--payload", &payload]).args(database).output().unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let job = super::ended(&server, made["id"].as_str().unwrap());
    assert_eq!((&job["state"], &job["attempts"][0]["attempt"]), (&json!("failed"), &json!(1)));
    assert!(job["error"].as_str().unwrap().starts_with("a job may not bring its own program"));
}

#[test]
fn mistakes_in_the_settings_are_told_before_anything_starts() {
    let told = |settings: &str| {
        let place = Place::new(settings);
        let output = punctual(place.path(), &["config", "check"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{settings}");
        text(&output.stderr).trim_end().to_owned()
    };
    assert_snapshot!(told("[commands.a]\nargv = [\"x\", \"{y}\"]"), @"");
    assert_snapshot!(told("[commands.a]\nargv = [\"{y}\"]\nparams = { y = \"string\" }"), @"");
    assert_snapshot!(told("[commands.a]\nargv = [\"x\"]\nparams = { y = \"string\" }"), @"");
    assert_snapshot!(told("[commands.a]\nargv = [\"x\", \"{y\"]"), @"");
    assert_snapshot!(told("[commands.a]\nargv = [\"x | y\"]\nshell = true"), @"");
    assert_snapshot!(told("[command]\nallow_shell = true\n[commands.a]\nargv = [\"x {y}\"]\nshell = true\nparams = { y = \"string\" }"), @"");
    assert_snapshot!(told("[command]\nkill_grace = \"1m\""), @"");
    assert_snapshot!(told("[command]\nlimits = { memory_bytes = 1000 }"), @"");
    assert_snapshot!(told("[secrets]\n\"a b\" = { env = \"X\" }"), @"");
}
