//! A server that has no descriptor left for its commands.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use super::{Place, ended, enqueue, run};
use crate::process::{Serving, punctual};

const SETTINGS: &str = "[commands.ok]\nargv = [\"true\"]\n";

/// Sets the soft limit of open files of the server.
fn limit(server: &Serving, current: u64) {
    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap());
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(current), maximum }).unwrap();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a server that runs in real time")]
fn a_lack_of_descriptors_releases_the_job_without_counting_the_attempt() {
    let place = Place::new(SETTINGS);
    let server = place.serve();
    let id = enqueue(&server, &json!({"name": "ok"}), &["--delay", "2s"]);
    // Existing descriptors stay open; new ones are refused.
    limit(&server, 8);
    std::thread::sleep(Duration::from_secs(4));
    limit(&server, 1_024);
    let job = ended(&server, &id);
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

#[test]
fn a_server_raises_its_limit_of_open_files_and_its_commands_keep_theirs() {
    let place =
        Place::new("[commands.limits]\nargv = [\"sh\", \"-c\", \"ulimit -Sn; ulimit -Hn\"]\n");
    let serve = punctual(place.path(), &["serve"]);
    let mut command = Command::new("/bin/bash");
    command.args(["-c", "ulimit -Sn 300 && ulimit -Hn 700 && exec \"$@\"", "bash"]);
    command.arg(serve.get_program()).args(serve.get_args()).current_dir(place.path());
    command.stderr(Stdio::null());
    let server = Serving::of(command);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers, ["700", "700"], "{line}");
    let job = run(&server, &json!({"name": "limits"}));
    assert_eq!(job["result"]["stdout"], "300\n700", "{job}");
}
