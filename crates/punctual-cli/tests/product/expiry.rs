//! Jobs that no worker takes before their start deadline.

use serde_json::Value;

use crate::cluster::Database;
use crate::process::{Serving, text};

/// Waits until a job has ended and returns it.
fn ended(server: &Serving, id: &str) -> Value {
    let waited = server.run(&["job", "wait", id, "--json"]);
    serde_json::from_str(&text(&waited.stdout)).unwrap_or_else(|error| {
        panic!("{error}: {} {}", text(&waited.stdout), text(&waited.stderr))
    })
}

/// The slots of a schedule, oldest first.
fn slots(server: &Serving, name: &str) -> Vec<Value> {
    let mut slots = server.ask(&["schedule", "slots", name])["items"].as_array().unwrap().clone();
    slots.reverse();
    slots
}

fn check(server: &Serving) {
    let unserved = ["--queue", "nobody", "--start-within", "1s"];
    let job = server.ask(&[&["job", "enqueue", "echo"], &unserved[..]].concat());
    let id = job["id"].as_str().unwrap();
    assert!(server.ask(&["job", "show", id])["start_deadline_at"].is_string());
    let why = text(&server.run(&["why", "job", id]).stdout);
    assert!(why.contains("start deadline") || why.contains("expired"), "{why}");
    assert_eq!(ended(server, id)["state"], "failed");
    let shown = server.ask(&["job", "show", id]);
    assert_eq!((&shown["state"], &shown["counted_attempts"]), (&"failed".into(), &0.into()));
    assert_eq!(shown["error"], "expired before it could start");
    assert_eq!(shown["attempts"].as_array().unwrap().len(), 0);
    let why = server.ask(&["why", "job", id]);
    assert_eq!(why["reasons"][0]["code"], "expired");

    // The schedule of such a job is free again, although no slot starts beside an unfinished job.
    let schedule =
        ["schedule", "create", "s", "--every", "4s", "--kind", "echo", "--overlap", "skip"];
    server.ask(&[&schedule[..], &unserved].concat());
    let mut fired = Vec::new();
    while fired.len() < 2 {
        let slots = slots(server, "s");
        let outcome = |slot: &Value| slot["outcome"].as_str().unwrap().to_owned();
        fired = slots.into_iter().filter(|slot| outcome(slot) == "fired").collect();
        if let Some(slot) = fired.last() {
            ended(server, slot["job"].as_str().unwrap());
        }
    }
    let metrics = ureq::get(format!("{}/metrics", server.url)).call().unwrap();
    let metrics = metrics.into_body().read_to_string().unwrap();
    let expired = metrics.lines().find(|line| line.starts_with("punctual_jobs_expired_total"));
    assert!(expired.is_some_and(|line| !line.ends_with(" 0")), "{expired:?}");
}

#[test]
fn a_job_that_no_worker_takes_expires_and_frees_its_schedule() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::start(directory.path(), &["serve"]);
    check(&server);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_job_that_no_worker_takes_expires_and_frees_its_schedule_on_postgresql() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::new();
    let url = database.url();
    let server = Serving::start(directory.path(), &["serve", "--database", &url]);
    check(&server);
    assert_eq!(server.stop(), Some(0));
}
