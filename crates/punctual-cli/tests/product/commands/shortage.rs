//! A server that has no descriptor left for its commands.

use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use super::{Place, ended, enqueue};
use crate::process::Serving;

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
