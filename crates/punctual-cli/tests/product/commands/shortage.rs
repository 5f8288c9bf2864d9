//! A server that has no descriptor left for its jobs.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use super::{Place, ended, enqueue, run, until};
use crate::process::{Serving, punctual};

const SETTINGS: &str = "[http]\nallow = [\"localhost\"]\n[commands.ok]\nargv = [\"true\"]\n";

/// Sets the soft limit of open files of the server.
fn limit(server: &Serving, current: u64) {
    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap());
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(current), maximum }).unwrap();
}

/// The job after its first attempt, which must not count.
fn assert_released(job: &Value) {
    assert_eq!(
        (&job["state"], &job["counted_attempts"]),
        (&json!("succeeded"), &json!(1)),
        "{job}"
    );
    let first = &job["attempts"][0];
    assert_eq!(first["outcome"], "released", "{job}");
    let error = first["error"].as_str().unwrap();
    assert!(error.contains("Too many open files"), "{error}");
}

/// Answers one request.
fn receiver() -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4_096];
        assert!(stream.read(&mut request).unwrap() > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    };
    (port, std::thread::spawn(answer))
}

#[test]
fn a_lack_of_descriptors_releases_the_job_without_counting_the_attempt() {
    let place = Place::new(SETTINGS);
    let mut command = punctual(place.path(), &["serve"]);
    let log = place.path().join("log");
    command.env_remove("RUST_LOG").stderr(File::create(&log).unwrap());
    let server = Serving::of(command);
    let (port, answered) = receiver();
    let payload = json!({ "url": format!("http://localhost:{port}/") }).to_string();
    let delayed = ["--max-attempts", "1", "--delay", "5s"];
    let http = ["job", "enqueue", "http", "--payload", &payload];
    let http = server.ask(&[&http[..], &delayed].concat())["id"].as_str().unwrap().to_owned();
    let command = enqueue(&server, &json!({"name": "ok"}), &["--delay", "5s"]);
    // Existing descriptors stay open; new ones are refused.
    limit(&server, 8);
    until("both attempts have ended", Duration::from_secs(60), || {
        let log = std::fs::read_to_string(&log).unwrap();
        log.matches("attempt ended because this node lacks resources").count() >= 2
    });
    limit(&server, 1_024);
    assert_released(&ended(&server, &command));
    assert_released(&ended(&server, &http));
    answered.join().unwrap();
}

#[test]
fn a_server_raises_and_logs_its_limit_of_open_files_and_its_commands_keep_theirs() {
    let place =
        Place::new("[commands.limits]\nargv = [\"sh\", \"-c\", \"ulimit -Sn; ulimit -Hn\"]\n");
    let serve = punctual(place.path(), &["serve"]);
    let mut command = Command::new("/bin/bash");
    command.args(["-c", "ulimit -Sn 300 && ulimit -Hn 700 && exec \"$@\"", "bash"]);
    command.arg(serve.get_program()).args(serve.get_args()).current_dir(place.path());
    let log = place.path().join("log");
    command.stderr(File::create(&log).unwrap()).env_remove("RUST_LOG");
    let server = Serving::of(command);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("connections limit=350 per_address=256 open_files=700"), "{log}");
    assert!(log.contains("raise the hard limit of open files to 3316"), "{log}");
    let metrics = ureq::get(format!("{}/metrics", server.url)).call().unwrap();
    let metrics = metrics.into_body().read_to_string().unwrap();
    assert!(metrics.contains("punctual_server_connections_max 350\n"), "{metrics}");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers, ["700", "700"], "{line}");
    let job = run(&server, &json!({"name": "limits"}));
    assert_eq!(job["result"]["stdout"], "300\n700", "{job}");
}
