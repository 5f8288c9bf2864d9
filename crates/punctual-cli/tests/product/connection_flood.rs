//! A server with more connections than it serves, none of which has shown a token.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

use crate::process::{Serving, punctual, text};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Connections in the tests, and the open files of their server: half of them are for connections.
const CONNECTIONS: usize = 300;
const FILES: &str = "256";

/// Each probe is answered within this time.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// What the server may use.
const RSS_MAX_KB: u64 = 150 << 10;

/// Jobs of each kind that run during the flood.
const JOBS: usize = 5;

#[expect(clippy::disallowed_methods, reason = "a server that runs in real time")]
fn now() -> Instant {
    Instant::now()
}

/// A connection that uses a place.
struct Flooding {
    stream: TcpStream,
    kind: usize,
    sent: usize,
}

/// Request heads that are sent byte by byte.
const TRICKLES: [&[u8]; 2] =
    [b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: ", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"];
const HALF: &[u8] = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n";
const UNREAD: &[u8] = b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n";

impl Flooding {
    /// Idle, trickling in two protocols, half a head, half a body, or not reading what it asked for.
    fn open(server: SocketAddr, kind: usize) -> std::io::Result<Flooding> {
        let mut stream = TcpStream::connect(server)?;
        stream.set_nonblocking(true)?;
        match kind % 6 {
            3 => stream.write_all(HALF)?,
            4 => stream.write_all(&[HALF, b"\r\ntoken="].concat())?,
            5 => stream.write_all(&UNREAD.repeat(4))?,
            _ => {}
        }
        Ok(Flooding { stream, kind, sent: 0 })
    }

    /// Sends the next byte, if it is one that trickles; false: the server has closed it.
    fn step(&mut self) -> bool {
        if let 1 | 2 = self.kind % 6 {
            let text = TRICKLES[self.kind % 6 - 1];
            let byte = text.get(self.sent).copied().unwrap_or(b'a');
            self.sent += 1;
            return self.stream.write_all(&[byte]).is_ok();
        }
        let mut byte = [0];
        match self.stream.peek(&mut byte) {
            Ok(0) => false,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
            Ok(_) => true,
        }
    }
}

/// Opens connections, keeps them, and opens new ones for those that the server closes, once a second.
fn flood(server: SocketAddr, count: usize, opened: &AtomicUsize, stop: &AtomicBool) {
    let mut all: Vec<Flooding> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        all.retain_mut(Flooding::step);
        let missing = count - all.len();
        // A refused connection may be reset before all is written.
        let new = (0..missing).filter_map(|_| {
            let number = opened.fetch_add(1, Ordering::Relaxed);
            Flooding::open(server, number).ok()
        });
        all.extend(new);
        std::thread::park_timeout(Duration::from_secs(1));
    }
}

/// The status of a request, and how long it took.
fn get(server: SocketAddr, path: &str, token: Option<&str>) -> std::io::Result<(String, Duration)> {
    let started = now();
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{token}Connection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok((text(&answer), started.elapsed()))
}

fn rss_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Runs a command that opens the database and needs no connection to the server.
fn with_database(directory: &Path, args: &[&str]) -> Value {
    let output = punctual(directory, args)
        .args(["--database", "sqlite://punctual.db", "--json"])
        .output()
        .unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{args:?}: {out} {err}"))
}

fn serve(directory: &Path, is_full: bool) -> Serving {
    let settings = "[commands.ok]\nargv = [\"true\"]\n";
    std::fs::write(directory.join("punctual.toml"), settings).unwrap();
    let limit = if is_full { "true".to_owned() } else { format!("ulimit -n {FILES}") };
    let mut command = Command::new("/bin/bash");
    command.args(["-c", &format!("{limit} && exec \"$@\""), "bash"]);
    let serve = punctual(directory, &["serve", "--database", "sqlite://punctual.db"]);
    command.arg(serve.get_program()).args(serve.get_args()).current_dir(directory);
    command.env_remove("PUNCTUAL_DATABASE").env_remove("PUNCTUAL_SERVER");
    command.env("PUNCTUAL_TOKEN", TOKEN).stderr(Stdio::null());
    Serving::of(command)
}

#[test]
fn connection_flood() {
    let full = std::env::var("PUNCTUAL_PROOF_CONNECTIONS").ok().and_then(|it| it.parse().ok());
    let count: usize = full.unwrap_or(CONNECTIONS);
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), full.is_some());
    let address: SocketAddr = server.url.trim_start_matches("http://").parse().unwrap();
    let (opened, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (mut probes, mut slowest, mut rss) = (0, Duration::ZERO, 0);
    let mut jobs: Vec<String> = Vec::new();
    std::thread::scope(|scope| {
        let flooding = scope.spawn(|| flood(address, count, &opened, &stop));
        // Also if an assertion fails.
        let _stop = Stop(&stop);
        // The API is out of reach once all connections are taken.
        let is_full = || {
            !get(address, "/api/v1/nodes", Some(TOKEN))
                .is_ok_and(|it| it.0.starts_with("HTTP/1.1 200"))
        };
        while opened.load(Ordering::Relaxed) < count || !is_full() {
            assert!(!flooding.is_finished());
            std::thread::yield_now();
        }
        let mut probe = || {
            for path in ["/healthz/live", "/healthz/ready"] {
                let (answer, took) = get(address, path, None).unwrap();
                assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
                assert!(took <= PROBE_MAX, "{path} took {took:?}");
                (probes, slowest) = (probes + 1, slowest.max(took));
            }
            rss = rss.max(rss_kb(server.pid()));
        };
        probe();
        for kind in ["command", "echo"] {
            for _ in 0..JOBS {
                let payload = r#"{"name":"ok"}"#;
                let job = ["job", "enqueue", kind, "--payload", payload, "--max-attempts", "1"];
                let job = with_database(directory.path(), &job);
                jobs.push(job["id"].as_str().unwrap().to_owned());
                probe();
            }
        }
        for job in &jobs {
            let ended = with_database(directory.path(), &["job", "wait", job]);
            assert_eq!(ended["state"], "succeeded", "{ended}");
            probe();
        }
        // At full size, longer than the server allows a connection without a request.
        let began = now();
        while full.is_some() && began.elapsed() < Duration::from_secs(45) {
            probe();
            std::thread::park_timeout(Duration::from_millis(200));
        }
    });
    assert!(rss <= RSS_MAX_KB, "the server uses {rss} kB");
    // The connections are closed; their places become free.
    let began = now();
    let metrics = loop {
        match get(address, "/metrics", Some(TOKEN)) {
            Ok((answer, _)) if answer.starts_with("HTTP/1.1 200") => break answer,
            other => assert!(began.elapsed() < Duration::from_secs(30), "{other:?}"),
        }
    };
    let refused = r#"punctual_server_connections_refused_total{reason="total"} "#;
    assert!(metrics.contains(refused), "{metrics}");
    let token = ["--token", TOKEN];
    let mut failed = 0;
    for job in &jobs {
        let job = server.ask(&[&["job", "show", job][..], &token].concat());
        failed += usize::from(job["state"] != "succeeded");
    }
    println!(
        "{{\"proof\":\"connection-flood\",\"connections\":{count},\"opened\":{},\"probes\":{probes},\
         \"slowest_probe_ms\":{},\"rss_mib\":{},\"jobs\":{},\"failed_jobs\":{failed}}}",
        opened.load(Ordering::Relaxed),
        slowest.as_millis(),
        rss >> 10,
        jobs.len(),
    );
    assert_eq!(failed, 0);
    assert_eq!(server.stop(), Some(0));
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
