//! Canaries: what somebody else was handed, and sends back in whatever they say.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::process::{Serving, punctual, text, write_with_mode};

/// One that is changed meanwhile, what it is then, and one that is a number.
const BEFORE: &str = "canary \"sent\" & changed-5521";
const AFTER: &str = "canary-after-the-change-6632";
const NUMBER: &str = "774411882299";

/// Somebody who takes every job for later; the answer is where, and each request as it came.
fn receiver() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = vec![0; 16 << 10];
            let mut length = 0;
            while !find(&request[..length], b"\r\n\r\n") {
                length += stream.read(&mut request[length..]).unwrap();
            }
            let accepted = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(accepted).unwrap();
            if tell.send(text(&request[..length])).is_err() {
                return;
            }
        }
    });
    (url, told)
}

fn header<'a>(request: &'a str, name: &str) -> &'a str {
    let of = |line: &'a str| line.split_once(": ").filter(|it| it.0 == name).map(|it| it.1);
    request.lines().find_map(of).unwrap()
}

/// Says something about a lease, or asks for work.
fn post(server: &Serving, path: &str, body: &str) -> Value {
    let url = format!("{}/api/v1/{path}", server.url);
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let request = agent.post(&url).header("content-type", "application/json");
    let mut answer = request.send(body).unwrap();
    let told = answer.body_mut().read_to_string().unwrap();
    assert!(answer.status().is_success(), "{path}: {told}");
    serde_json::from_str(&told).unwrap()
}

fn page(server: &Serving, path: &str) -> String {
    let mut answer = ureq::get(format!("{}{path}", server.url)).call().unwrap();
    answer.body_mut().read_to_string().unwrap()
}

fn find(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// How many canaries are in this, in any form.
fn hits(bytes: &[u8]) -> usize {
    let in_json = BEFORE.replace('"', "\\\"");
    let in_html = BEFORE.replace('&', "&amp;").replace('"', "&quot;");
    let in_url = "canary%20%22sent%22%20%26%20changed-5521";
    let all = [BEFORE, &in_json, &in_html, in_url, AFTER, NUMBER, "changed-5521"];
    all.iter().filter(|canary| find(bytes, canary.as_bytes())).count()
}

/// All that a worker says of a job: lines, and its end. It knows every secret.
fn say_all(server: &Serving, lease: &str, how: &str) {
    let all = format!("{BEFORE} {AFTER} {NUMBER}");
    let encoded = json!({ "inner": BEFORE }).to_string();
    let line = |text: &str| json!({ "level": "warn", "text": text }).to_string();
    let lines = format!("{}\n{}\n", line(&all), line(&encoded));
    post(server, &format!("leases/{lease}/logs"), &lines);
    let number: u64 = NUMBER.parse().unwrap();
    let end = match how {
        "complete" => json!({ "result": { "deep": [all, encoded, number], BEFORE: NUMBER } }),
        _ => json!({ "error": all, "retry": false }),
    };
    post(server, &format!("leases/{lease}/{how}"), &end.to_string());
}

#[test]
fn what_workers_elsewhere_send_is_masked_before_it_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (url, requests) = receiver();
    write_with_mode(&at("changing"), BEFORE, 0o600);
    let settings = format!(
        r#"
[http]
allow = ["127.0.0.0/8"]
[secrets]
changing = {{ file = "{}", http = ["{url}"] }}
number = {{ env = "CANARY", http = ["{url}"] }}
"#,
        at("changing").display()
    );
    std::fs::write(at("punctual.toml"), settings).unwrap();
    let mut command = punctual(directory.path(), &["serve"]);
    let log = File::create(at("stderr")).unwrap();
    command.env("CANARY", NUMBER).env("RUST_LOG", "trace").stderr(log);
    let server = Serving::of(command);
    let enqueue = |kind: &str, payload: &Value| {
        let payload = payload.to_string();
        let args = [
            "job",
            "enqueue",
            kind,
            "--payload",
            &payload,
            "--max-attempts",
            "1",
            "--allow-unknown-kind",
        ];
        server.ask(&args)["id"].as_str().unwrap().to_owned()
    };

    // Receivers that take a job, and settle it when the secret is another already.
    let mut jobs = Vec::new();
    let mut leases = Vec::new();
    for _ in 0..2 {
        let headers = json!({ "x-one": "secret://changing", "x-two": "secret://number" });
        let url = format!("{url}/?q=secret://changing");
        jobs.push(enqueue("http", &json!({ "url": url, "headers": headers })));
        let request = requests.recv().unwrap();
        assert_eq!((header(&request, "x-one"), header(&request, "x-two")), (BEFORE, NUMBER));
        leases.push(header(&request, "punctual-lease").to_owned());
    }
    write_with_mode(&at("changing"), AFTER, 0o600);
    say_all(&server, &leases[0], "complete");
    say_all(&server, &leases[1], "fail");

    // A worker that echoes what it knows, with its claims and heartbeats, too.
    for how in ["complete", "fail"] {
        let job = enqueue("echoing", &Value::Null);
        let claim = json!({
            "name": format!("worker {AFTER}"), "version": NUMBER, "kinds": ["echoing"], "wait": "20s",
        });
        let claimed = post(&server, "claims", &claim.to_string());
        assert_eq!(claimed["leases"][0]["job"], *job, "{claimed}");
        let lease = claimed["leases"][0]["lease"].as_str().unwrap();
        let beat = json!({ "progress": { "percent": 50, "note": format!("with {BEFORE}") } });
        post(&server, &format!("leases/{lease}/heartbeat"), &beat.to_string());
        let shown = server.ask(&["job", "show", &job]);
        assert_eq!(shown["progress"]["note"], "with •••");
        say_all(&server, lease, how);
        jobs.push(job);
    }

    // What the API, the command line and the pages tell of it.
    let since = server.ask(&["job", "show", &jobs[0]])["created_at"].as_str().unwrap().to_owned();
    let events = format!("/api/v1/events?follow=false&since={since}");
    let lists = ["/api/v1/jobs", "/api/v1/nodes", "/api/v1/audit", "/nodes", "/activity", &events];
    let mut heard: String = lists.iter().map(|path| page(&server, path)).collect();
    for (job, is_done) in jobs.iter().zip([true, false, true, false]) {
        let told = server.run(&["job", "wait", job, "--json"]);
        let told: Value = serde_json::from_slice(&told.stdout).unwrap();
        match is_done {
            true => assert_eq!(
                told["result"],
                json!({ "deep": ["••• ••• •••", r#"{"inner":"•••"}"#, "•••"], "•••": "•••" })
            ),
            false => assert_eq!(told["error"], "••• ••• •••", "{told}"),
        }
        heard.push_str(&told.to_string());
        heard.push_str(&text(&server.run(&["why", "job", job]).stdout));
        let log = page(&server, &format!("/jobs/{job}/log.txt"));
        assert!(log.contains("••• ••• •••") && log.contains(r#"{"inner":"•••"}"#), "{log}");
        heard.push_str(&log);
        heard.push_str(&page(&server, &format!("/api/v1/jobs/{job}/log")));
        heard.push_str(&page(&server, &format!("/jobs/{job}")));
    }
    assert!(heard.contains("worker •••"), "{heard}");
    assert_eq!(hits(heard.as_bytes()), 0, "{heard}");
    assert_eq!(hits_in_files(directory.path()), 0);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(hits_in_files(directory.path()), 0);
}

/// A line of a crontab goes on saying to cron what it says.
#[test]
fn what_a_crontab_line_says_is_masked_before_it_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    write_with_mode(&at("secret"), BEFORE, 0o600);
    let settings = format!("[secrets]\nit = {{ file = \"{}\" }}\n", at("secret").display());
    std::fs::write(at("settings.toml"), settings).unwrap();
    let exec = |config: &str| {
        let script = "printf '%s\n' \"$0\"; echo \"oh $0!\" >&2; exit 3";
        let named = ["--config", config, "--database", "sqlite://punctual.db"];
        let mut command = punctual(directory.path(), &["exec", "nightly"]);
        let output = command.args(named).args(["--", "sh", "-c", script, BEFORE]).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout), format!("{BEFORE}\n"));
        text(&output.stderr)
    };
    let list = || {
        let args = ["job", "list", "--json", "--database", "sqlite://punctual.db"];
        let output = punctual(directory.path(), &args).output().unwrap();
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        listed["items"].as_array().unwrap().clone()
    };
    assert_eq!(exec("settings.toml"), format!("oh {BEFORE}!\n"));
    let [job] = &list()[..] else { panic!("one job") };
    assert_eq!((&job["kind"], &job["state"]), (&json!("exec"), &json!("failed")), "{job}");
    let args = ["job", "logs", job["id"].as_str().unwrap(), "--database", "sqlite://punctual.db"];
    let log = text(&punctual(directory.path(), &args).output().unwrap().stdout);
    assert!(log.contains("•••") && log.contains("oh •••!"), "{log}");
    assert_eq!(hits(log.as_bytes()) + hits_in_files(directory.path()), 0, "{log}");

    // Settings that cannot be read: nobody knows what to mask, so that nothing is kept.
    let told = exec("no-such-file.toml");
    assert!(
        told.contains("not recorded: configuration file not found: no-such-file.toml"),
        "{told}"
    );
    assert_eq!(list().len(), 1);
}

/// In the database, before it is tidied up and after, and in what the process tells of itself.
fn hits_in_files(directory: &Path) -> usize {
    let read = |name: &str| std::fs::read(directory.join(name)).unwrap_or_default();
    let files = ["punctual.db", "punctual.db-wal", "stderr"].map(read);
    assert!(files.iter().any(|file| find(file, "•••".as_bytes())), "what is masked is stored");
    files.iter().map(|file| hits(file)).sum()
}
