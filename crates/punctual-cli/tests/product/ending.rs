//! How a process is asked how it is, and how it ends while somebody is connected.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::process::{Serving, text};

/// A connection on which something was asked.
fn ask(server: &Serving, path: &str) -> TcpStream {
    let address = server.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    stream
}

/// The whole of it, up to a clean end.
fn rest(stream: impl Read) -> String {
    let mut all = Vec::new();
    BufReader::new(stream).read_to_end(&mut all).unwrap();
    text(&all)
}

#[test]
fn streams_end_cleanly_and_whoever_waits_is_answered_when_a_process_ends() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::start(directory.path(), &["serve"]);
    let later = server.ask(&["job", "enqueue", "echo", "--delay", "1h"]);
    let id = later["id"].as_str().unwrap();
    let mut events = BufReader::new(ask(&server, "/api/v1/events"));
    let mut line = String::new();
    while !line.starts_with("id:") {
        line.clear();
        assert_ne!(events.read_line(&mut line).unwrap(), 0, "the stream has begun");
    }
    let waiting = ask(&server, &format!("/api/v1/jobs/{id}/wait"));
    // Another question on a second connection is answered: the first one is under way by then.
    assert!(server.run(&["node", "list"]).status.success());
    let address = server.url.trim_start_matches("http://").to_owned();
    assert_eq!(server.stop(), Some(0), "it ends by itself");
    // The last chunk is empty: it was not cut off.
    assert!(rest(events).ends_with("0\r\n\r\n"));
    let answered = rest(waiting);
    assert!(answered.starts_with("HTTP/1.1 200") && answered.contains("scheduled"), "{answered}");
    assert!(TcpStream::connect(address).is_err(), "nobody new is let in");
}

#[test]
fn a_process_without_the_api_answers_who_looks_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::start(directory.path(), &["serve", "--role", "scheduler,worker"]);
    let get = |path: &str| {
        let answer = ureq::get(format!("{}{path}", server.url));
        let answer = answer.config().http_status_as_error(false).build().call();
        let mut answer = answer.unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    };
    assert_eq!(get("/healthz/live"), (200, "ok\n".to_owned()));
    assert_eq!(get("/healthz/ready"), (200, "ok\n".to_owned()));
    let (status, metrics) = get("/metrics");
    assert!(status == 200 && metrics.contains("# HELP punctual_"), "{metrics}");
    for path in ["/", "/api/v1/jobs", "/api/openapi.json"] {
        let (status, problem) = get(path);
        assert_eq!(status, 404, "{path}");
        assert!(problem.contains("without the role `api`"), "{problem}");
    }
    assert_eq!(server.stop(), Some(0));
}
