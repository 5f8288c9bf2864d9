//! Schedules that are disabled in the moment in which a slot becomes due.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use punctual::Timestamp;
use serde_json::Value;

use crate::cluster::Database;
use crate::process::Serving;

/// Schedules that are disabled around the same second, at different distances from it.
const AT_ONCE: u64 = 40;
/// How many seconds are aimed at.
const SECONDS: u64 = 3;
/// The distance to the second, before and after it.
const DISTANCE: Duration = Duration::from_millis(30);

/// Sends one request on its own connection and returns the body of the response.
fn send(server: &Serving, method: &str, path: &str, body: &str) -> Value {
    let address = server.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "{method} /api/v1/schedules/{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").expect("a response has a head");
    assert!(head.starts_with("HTTP/1.1 20"), "{method} {path}: {response}");
    serde_json::from_str(body).expect("a body in JSON")
}

#[expect(clippy::disallowed_methods, reason = "the server runs on the clock of this machine")]
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Aims at an instant of the clock: no event of the server marks it.
fn wait_until(instant: Duration) {
    while let Some(left) = instant.checked_sub(now()).filter(|left| !left.is_zero()) {
        std::thread::park_timeout(left);
    }
}

/// The second that contains an instant.
fn second(instant: &Value) -> i64 {
    let instant: Timestamp = instant.as_str().unwrap().parse().unwrap();
    instant.as_micros().div_euclid(1_000_000)
}

/// Disables schedules around full seconds. Every second from the first slot to the instant of the
/// change must have one outcome.
fn check(server: &Serving) {
    let body = r#"{"when": ["@every 1s"], "overlap": "allow", "job": {"kind": "echo"}}"#;
    for round in 0..SECONDS {
        let names: Vec<String> = (0..AT_ONCE).map(|one| format!("s{round}-{one}")).collect();
        for name in &names {
            send(server, "PUT", name, body);
        }
        let target = Duration::from_secs(now().as_secs() + 2);
        std::thread::scope(|scope| {
            for (number, name) in (0_u32..).zip(&names) {
                let offset = DISTANCE * 2 * number / u32::try_from(AT_ONCE).unwrap();
                scope.spawn(move || {
                    wait_until(target - DISTANCE + offset);
                    let disabled = send(server, "POST", &format!("{name}/disable"), "{}");
                    let until = second(&disabled["changed_at"]);
                    let slots = send(server, "GET", &format!("{name}/slots?limit=100"), "");
                    let mut decided = BTreeSet::new();
                    for row in slots["items"].as_array().unwrap() {
                        let first = second(&row["slot"]);
                        let last = if row["end"].is_null() { first } else { second(&row["end"]) };
                        for slot in first..=last {
                            assert!(decided.insert(slot), "{name}: {slot} has two outcomes");
                        }
                    }
                    let first = *decided.first().expect("the schedule has slots");
                    let due: BTreeSet<i64> = (first..=until).collect();
                    assert_eq!(decided, due, "{name}: {disabled}\n{slots}");
                });
            }
        });
    }
}

#[test]
fn a_slot_that_is_due_when_its_schedule_is_disabled_has_an_outcome() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::start(directory.path(), &["serve"]);
    check(&server);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_slot_that_is_due_when_its_schedule_is_disabled_has_an_outcome_on_postgresql() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::new();
    let url = database.url();
    let server = Serving::start(directory.path(), &["serve", "--database", &url]);
    check(&server);
    assert_eq!(server.stop(), Some(0));
}
