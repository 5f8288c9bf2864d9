//! Text of workers, clients and other people on an operator's terminal.

use std::fs::File;

use serde_json::{Value, json};

use crate::process::{Serving, punctual, text};

/// A title, the clipboard, a cleared screen twice, a reversed text, and what overwrites a line.
const ATTACK: &str =
    "\x1b]0;title\x07\x1b]52;c;UFdORUQ=\x07\x1b[2J\u{9b}2J\u{202e}\u{2066}\x7f\x08\rend";

/// How a terminal shows its beginning.
const SHOWN: &str = r"\x1b]0;title\x07";

/// Names must not contain control characters; this is all that is left.
const NAME: &str = "n\u{202e}\u{200f}ame";

/// Asserts that a terminal would obey nothing in the text.
fn assert_plain(what: &str, text: &str) {
    let is_obeyed = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let found: Vec<char> = text.chars().filter(|c| is_obeyed(*c)).collect();
    assert!(found.is_empty(), "{what}: {found:?} in {text:?}");
}

/// A request that the command line would not send.
fn post(server: &Serving, path: &str, body: &str) -> Value {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
    let mut response = agent
        .post(format!("{}/api/v1{path}", server.url))
        .header("content-type", "application/json")
        .send(body)
        .unwrap();
    let answer = response.body_mut().read_to_string().unwrap();
    assert!(response.status().is_success(), "{path}: {answer}");
    serde_json::from_str(&answer).unwrap()
}

/// Claims one job as a worker in another language; the answer is its lease.
fn claim(server: &Serving, node: &str) -> String {
    let ask = json!({
        "node": node, "name": NAME, "version": NAME, "queues": [NAME], "kinds": [NAME],
        "wait": "10s",
    });
    let claimed = post(server, "/claims", &ask.to_string());
    claimed["leases"][0]["lease"].as_str().unwrap().to_owned()
}

fn enqueue(server: &Serving) -> String {
    let job = json!({
        "kind": NAME, "queue": NAME, "payload": { NAME: ATTACK }, "tags": [NAME], "max_attempts": 1,
    });
    let enqueued = post(server, "/jobs?allow_unknown_kind=true", &job.to_string());
    enqueued["id"].as_str().unwrap().to_owned()
}

/// Runs a command, as text and as JSON; what must be seen of the attack is seen.
fn check(server: &Serving, args: &[&str], shows: bool) {
    let output = server.run(args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_plain(&format!("{args:?}"), &out);
    assert_plain(&format!("{args:?}"), &err);
    assert!(!shows || out.contains(SHOWN) || err.contains(SHOWN), "{args:?}: {out} {err}");
    let json = server.run(&[args, &["--json"]].concat());
    assert_plain(&format!("{args:?} --json"), &text(&json.stdout));
    assert_plain(&format!("{args:?} --json"), &text(&json.stderr));
}

#[test]
fn no_escape_sequence_of_others_reaches_a_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let mut command = punctual(directory.path(), &["serve"]);
    command.env("RUST_LOG", "debug").stderr(File::create(&log).unwrap());
    let server = Serving::of(command);
    let node = "6f0c1a52-7c1e-4f0e-9d3c-0123456789ab";

    // A job that runs, one that fails, and one that succeeds.
    let failed = enqueue(&server);
    let lease = claim(&server, node);
    let line = json!({ "level": "warn", "text": ATTACK }).to_string();
    post(&server, &format!("/leases/{lease}/logs?first=1"), &line);
    let progress = json!({ "progress": { "percent": 40, "note": ATTACK } }).to_string();
    post(&server, &format!("/leases/{lease}/heartbeat"), &progress);
    check(&server, &["job", "show", &failed], true);
    check(&server, &["why", "job", &failed], false);
    let error = json!({ "error": ATTACK, "retry": false }).to_string();
    post(&server, &format!("/leases/{lease}/fail"), &error);
    let succeeded = enqueue(&server);
    let lease = claim(&server, node);
    let result = json!({ "result": { NAME: ATTACK } }).to_string();
    post(&server, &format!("/leases/{lease}/complete"), &result);
    let own = json!({ "message": ATTACK, "permanent": true }).to_string();
    check(&server, &["job", "enqueue", "fail", "--payload", &own, "--wait"], true);

    // Reasons of people, and texts of definitions.
    let payload = json!({ NAME: ATTACK }).to_string();
    let create = ["schedule", "create", NAME, "--every", "1h", "--kind", "echo"];
    check(&server, &[&create[..], &["--payload", &payload, "--why", ATTACK]].concat(), false);
    check(&server, &["schedule", "pause", NAME, "--why", ATTACK], true);
    check(&server, &["queue", "pause", NAME, "--why", ATTACK], true);
    enqueue(&server);

    // Programs that read JSON get what was written.
    let shown = server.ask(&["job", "show", &failed]);
    assert_eq!((&shown["error"], &shown["kind"]), (&json!(ATTACK), &json!(NAME)));

    for (args, shows) in [
        (&["job", "list"][..], true),
        (&["job", "show", &failed], true),
        (&["job", "show", &succeeded], false),
        (&["job", "logs", &failed], true),
        (&["job", "wait", &failed], true),
        (&["why", "job", &failed], true),
        (&["why", "schedule", NAME], true),
        (&["why", "queue", NAME], true),
        (&["events", "--since", "1h"], true),
        (&["top", "--once"], true),
        (&["doctor"], false),
        (&["schedule", "list"], true),
        (&["schedule", "show", NAME], true),
        (&["schedule", "revisions", NAME], true),
        (&["schedule", "slots", NAME], false),
        (&["schedule", "next", NAME], false),
        (&["queue", "list"], true),
        (&["node", "list"], false),
        (&["leader"], false),
        (&["export"], false),
        (&["job", "retry", "--all-matching", "state:failed", "--why", ATTACK], false),
        // What is wrong is repeated.
        (&["schedule", "show", ATTACK], true),
        (&["job", "enqueue", ATTACK], true),
        (&["job", "list", "--state", ATTACK], false),
    ] {
        check(&server, args, shows);
    }

    // A file of schedules means the same, and can be printed.
    let file = directory.path().join("schedules.toml");
    let exported = server.run(&["export"]);
    std::fs::write(&file, &exported.stdout).unwrap();
    let file = file.display().to_string();
    let adopted = server.run(&["apply", "-f", &file, "--adopt"]);
    assert_plain("apply", &text(&adopted.stdout));
    let shown = server.ask(&["schedule", "show", NAME]);
    assert_eq!(shown["definition"]["job"]["payload"][NAME], ATTACK, "{shown}");

    assert_eq!(server.stop(), Some(0));
    let log = std::fs::read_to_string(&log).unwrap();
    assert_plain("the log", &log);
    assert!(log.contains(r"\u{1b}]0;title"), "{log}");
}

#[test]
fn an_argument_that_is_not_understood_is_shown_without_its_escape_sequences() {
    let directory = tempfile::tempdir().unwrap();
    for args in [&["job", ATTACK][..], &[ATTACK], &["job", "list", "--limit", ATTACK]] {
        let output = punctual(directory.path(), args).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with("error: ") && said.contains(r"\u{202e}"), "{said}");
        assert_plain(&format!("{args:?}"), &said);
    }
}
