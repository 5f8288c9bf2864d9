//! A server with more connections than it serves, none of which has shown a token.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::process::{Serving, punctual, text};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Connections in the tests, and the open files of their server: half of them are for connections.
const CONNECTIONS: usize = 300;
const FILES: &str = "256";

/// Each probe is answered within this time, except during floods of HTTP/2 requests: their clients send
/// megabytes at once, and take the time of the processors that probes need.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// The memory that the server may use at its peak.
const RSS_MAX_KB: u64 = 150 << 10;

/// Connections that are opened at most in each round, once the first ones have been opened. A client that
/// opens thousands of connections per second floods the operating system, not the server.
const REOPENED_MAX: usize = 50;

/// Jobs of each kind that run during the flood.
const JOBS: usize = 5;

#[expect(clippy::disallowed_methods, reason = "a server that runs in real time")]
fn now() -> Instant {
    Instant::now()
}

/// A kind of connection, by the data that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FloodKind {
    /// No data.
    Silent,
    /// A request head, byte by byte.
    TrickledHead,
    /// The preface of HTTP/2, byte by byte.
    TrickledPreface,
    /// Nearly as much of a request head as the server reads.
    HalfHead,
    /// A sign-in form in pieces of one byte, without its end.
    FormPieces,
    /// Requests for pages. The responses are not read, until the server cannot send more.
    UnreadPages,
    /// HTTP/2 requests for pages, compressed if possible, without a window for the responses.
    Http2WithoutWindow,
    /// HTTP/2 requests with large heads, whose sign-in forms are not sent.
    Http2HalfForms,
    /// HTTP/2 requests with sign-in forms in pieces of one byte, without their ends.
    Http2FormPieces,
}

use FloodKind::*;

impl FloodKind {
    fn is_http2(self) -> bool {
        matches!(self, Http2WithoutWindow | Http2HalfForms | Http2FormPieces)
    }
}

/// All kinds; those of HTTP/2 requests are the last ones.
const KINDS: [FloodKind; 9] = [
    Silent,
    TrickledHead,
    TrickledPreface,
    HalfHead,
    FormPieces,
    UnreadPages,
    Http2WithoutWindow,
    Http2HalfForms,
    Http2FormPieces,
];

/// The number of kinds without HTTP/2 requests.
const HTTP1_KINDS: usize = 6;

/// Requests that each HTTP/2 connection tries to have at the same time; more than the server allows.
const STREAMS: u32 = 40;

const FORM: &str = "application/x-www-form-urlencoded";

fn http2_frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header with the name of an entry of the static table, or with a new name.
fn http2_header(name: Result<u8, &str>, value: &str) -> Vec<u8> {
    let string = |text: &str| {
        // An integer with a prefix of seven bits.
        let length = u32::try_from(text.len()).unwrap();
        let mut bytes = match length.checked_sub(127) {
            None => vec![u8::try_from(length).unwrap()],
            Some(rest) => {
                let (low, high) = (rest % 128, rest / 128);
                vec![127, u8::try_from(low | 128).unwrap(), u8::try_from(high).unwrap()]
            }
        };
        bytes.extend(text.as_bytes());
        bytes
    };
    match name {
        Ok(index) if index < 15 => [vec![index], string(value)].concat(),
        Ok(index) => [vec![15, index - 15], string(value)].concat(),
        Err(name) => [vec![0], string(name), string(value)].concat(),
    }
}

/// A connection with a request for each stream, and with no window for responses.
fn http2(flags: u8, head: impl Fn(u32) -> Vec<u8>, data: usize) -> Vec<u8> {
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(http2_frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    sent.extend(http2_frame(4, 1, 0, &[]));
    let streams = (0..STREAMS).map(|number| 2 * number + 1);
    for stream in streams.clone() {
        sent.extend(http2_frame(1, flags, stream, &head(stream)));
    }
    for _ in 0..data {
        for stream in streams.clone() {
            sent.extend(http2_frame(0, 0, stream, b"a"));
        }
    }
    sent
}

fn http2_post(padding: usize) -> Vec<u8> {
    [
        vec![0x83, 0x86],
        http2_header(Ok(4), "/login"),
        http2_header(Ok(1), "localhost"),
        http2_header(Ok(31), FORM),
        http2_header(Err("x-padding"), &"a".repeat(padding)),
    ]
    .concat()
}

/// The data that connections of each kind send.
static TEXTS: LazyLock<[Vec<u8>; KINDS.len()]> = LazyLock::new(|| {
    KINDS.map(|kind| match kind {
        Silent => Vec::new(),
        TrickledHead => {
            let padding = "a".repeat(1_000);
            format!("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: {padding}").into_bytes()
        }
        TrickledPreface => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r".to_vec(),
        HalfHead => {
            let padding = "a".repeat(15_900);
            format!("POST /login HTTP/1.1\r\nHost: localhost\r\nX-Padding: {padding}").into_bytes()
        }
        FormPieces => {
            let pieces = "1\r\na\r\n".repeat(8_000);
            format!(
                "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\n\
                 Transfer-Encoding: chunked\r\n\r\n{pieces}"
            )
            .into_bytes()
        }
        UnreadPages => "GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(16).into_bytes(),
        Http2WithoutWindow => {
            let next = "a".repeat(1_000);
            let head = |stream: u32| {
                let page = format!("/login?next={next}{stream}");
                [
                    vec![0x82, 0x86],
                    http2_header(Ok(4), &page),
                    http2_header(Ok(1), "localhost"),
                    vec![0x90],
                ]
                .concat()
            };
            http2(5, head, 0)
        }
        Http2HalfForms => http2(4, |_| http2_post(7_500), 0),
        Http2FormPieces => http2(4, |_| http2_post(0), 400),
    })
});

/// A connection that uses a place.
struct FloodConnection {
    stream: TcpStream,
    kind: FloodKind,
    sent: usize,
}

impl FloodConnection {
    fn open(server: SocketAddr, kind: FloodKind) -> std::io::Result<FloodConnection> {
        let stream = TcpStream::connect(server)?;
        stream.set_nonblocking(true)?;
        Ok(FloodConnection { stream, kind, sent: 0 })
    }

    /// Sends what the server accepts, or the next byte; false: the server has closed the connection.
    fn step(&mut self) -> bool {
        match self.kind {
            UnreadPages => self.write().is_ok() && matches!(self.stream.take_error(), Ok(None)),
            _ => self.write().is_ok() && self.is_open(),
        }
    }

    fn write(&mut self) -> std::io::Result<()> {
        let text = &TEXTS[self.kind as usize];
        loop {
            // Requests for pages are repeated until the server does not read them.
            let from = if self.kind == UnreadPages { self.sent % text.len() } else { self.sent };
            let rest = &text[from.min(text.len())..];
            let is_trickle = matches!(self.kind, TrickledHead | TrickledPreface);
            let rest = if is_trickle { rest.get(..1).unwrap_or_default() } else { rest };
            if rest.is_empty() {
                return Ok(());
            }
            match self.stream.write(rest) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            if is_trickle {
                return Ok(());
            }
        }
    }

    /// Reads the received data. The responses that this kind needs to be unread have no window.
    fn is_open(&mut self) -> bool {
        let mut bytes = [0; 4_096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    }
}

/// Opens connections, keeps them, and opens new ones for those that the server closes, several times a
/// second. The kinds alternate.
fn flood(
    server: SocketAddr,
    kinds: &[FloodKind],
    count: usize,
    opened: &AtomicUsize,
    stop: &AtomicBool,
) {
    let mut all: Vec<FloodConnection> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        all.retain_mut(FloodConnection::step);
        let mut reopened = 0;
        for _ in all.len()..count {
            let number = opened.load(Ordering::Relaxed);
            if number >= count && reopened == REOPENED_MAX {
                break;
            }
            reopened += usize::from(number >= count);
            let kind = kinds[number % kinds.len()];
            // Without a descriptor, the connection is opened in the next round.
            let Ok(mut connection) = FloodConnection::open(server, kind) else { break };
            opened.fetch_add(1, Ordering::Relaxed);
            if connection.step() {
                all.push(connection);
            }
        }
        std::thread::park_timeout(Duration::from_millis(200));
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

/// The most memory that the process has used.
fn rss_peak_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
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
    let settings = "[http]\nallow = [\"localhost\"]\n[commands.ok]\nargv = [\"true\"]\n";
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

/// Answers requests of HTTP jobs for as long as the tests run.
fn receiver() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            assert!(stream.read(&mut [0; 4_096]).unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        }
    });
    port
}

/// The measurements of a flood.
#[derive(Default)]
struct FloodReport {
    opened: usize,
    probes: usize,
    slowest: Duration,
    rss_kb: u64,
    jobs: usize,
    failed: usize,
}

/// Floods a server and runs jobs on it, for as long as the flood must last at least.
fn run_flood(kinds: &[FloodKind], count: usize, is_full: bool, at_least: Duration) -> FloodReport {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path(), is_full);
    let address: SocketAddr = server.url.trim_start_matches("http://").parse().unwrap();
    let (opened, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut report = FloodReport::default();
    let mut jobs: Vec<String> = Vec::new();
    std::thread::scope(|scope| {
        let flooding = scope.spawn(|| flood(address, kinds, count, &opened, &stop));
        // Also if an assertion fails.
        let _stop = Stop(&stop);
        // The API is out of reach once all connections are taken.
        let has_room = || {
            get(address, "/api/v1/nodes", Some(TOKEN))
                .is_ok_and(|it| it.0.starts_with("HTTP/1.1 200"))
        };
        let began = now();
        // The server closes some kinds at once, so that they alone leave room.
        let may_leave_room = || kinds.len() == 1 && began.elapsed() > Duration::from_secs(5);
        while opened.load(Ordering::Relaxed) < count || has_room() && !may_leave_room() {
            assert!(!flooding.is_finished());
            assert!(began.elapsed() < Duration::from_secs(60), "{kinds:?}: {opened:?} connections");
            std::thread::yield_now();
        }
        let began = now();
        let mut probe = || {
            for path in ["/healthz/live", "/healthz/ready"] {
                let (answer, took) = get(address, path, None).unwrap();
                assert!(answer.starts_with("HTTP/1.1 200"), "{kinds:?} {path}: {answer}");
                let is_bounded = !is_full || !kinds.iter().any(|kind| kind.is_http2());
                assert!(!is_bounded || took <= PROBE_MAX, "{kinds:?} {path} took {took:?}");
                report.probes += 1;
                report.slowest = report.slowest.max(took);
            }
        };
        probe();
        let url = json!({ "url": format!("http://localhost:{}/", receiver()) }).to_string();
        for (name, payload) in
            [("command", r#"{"name":"ok"}"#), ("echo", r#""hello""#), ("http", &*url)]
        {
            for _ in 0..JOBS {
                let job = ["job", "enqueue", name, "--payload", payload, "--max-attempts", "1"];
                let job = with_database(directory.path(), &job);
                jobs.push(job["id"].as_str().unwrap().to_owned());
                probe();
            }
        }
        for job in &jobs {
            let ended = with_database(directory.path(), &["job", "wait", job]);
            report.failed += usize::from(ended["state"] != "succeeded");
            assert_eq!(ended["state"], "succeeded", "{ended}");
            probe();
        }
        while began.elapsed() < at_least {
            probe();
            std::thread::park_timeout(Duration::from_millis(200));
        }
    });
    report.rss_kb = rss_peak_kb(server.pid());
    report.opened = opened.load(Ordering::Relaxed);
    report.jobs = jobs.len();
    // Each was accepted by the system, as connections of the server or in its backlog.
    assert!(report.opened >= count, "{} connections", report.opened);
    assert!(report.rss_kb <= RSS_MAX_KB, "{kinds:?}: the server used {} kB", report.rss_kb);
    // The connections are closed; their places become free.
    let began = now();
    let metrics = loop {
        match get(address, "/metrics", Some(TOKEN)) {
            Ok((answer, _)) if answer.starts_with("HTTP/1.1 200") => break answer,
            other => assert!(began.elapsed() < Duration::from_secs(30), "{other:?}"),
        }
    };
    let refused = r#"punctual_server_connections_refused_total{reason="total"} "#;
    assert!(kinds.len() == 1 || metrics.contains(refused), "{metrics}");
    assert_eq!(server.stop(), Some(0));
    report
}

#[test]
fn connection_flood() {
    let full = std::env::var("PUNCTUAL_PROOF_CONNECTIONS").ok().and_then(|it| it.parse().ok());
    let count: usize = full.unwrap_or(CONNECTIONS);
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    // At full size, longer than the server allows a connection without a request, and then with
    // connections of each kind alone.
    let at_least = Duration::from_secs(if full.is_some() { 45 } else { 0 });
    let kinds = if full.is_some() { &KINDS[..HTTP1_KINDS] } else { &KINDS };
    let mut all = vec![run_flood(kinds, count, full.is_some(), at_least)];
    if full.is_some() {
        all.extend(KINDS.map(|kind| run_flood(&[kind], count, true, Duration::from_secs(5))));
    }
    let sum = |of: fn(&FloodReport) -> usize| all.iter().map(of).sum::<usize>();
    let slowest: Vec<u128> = all.iter().map(|it| it.slowest.as_millis()).collect();
    let rss_kb: Vec<u64> = all.iter().map(|it| it.rss_kb).collect();
    let failed = sum(|it| it.failed);
    let report = json!({
        "proof": "connection-flood",
        "connections": count,
        "opened": sum(|it| it.opened),
        "probes": sum(|it| it.probes),
        "slowest_probe_ms_of_each_flood": slowest,
        "rss_mib": rss_kb.iter().max().copied().unwrap_or_default() >> 10,
        "rss_mib_of_each_flood": rss_kb.iter().map(|it| it >> 10).collect::<Vec<_>>(),
        "jobs": sum(|it| it.jobs),
        "failed_jobs": failed,
    });
    println!("{report}");
    assert_eq!(failed, 0);
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
