//! Connections that use more than their share, over real sockets and with short limits.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use futures_util::stream;
use punctual::Punctual;
use punctual_server::{Closing, ConnectionLimits, Routers, Server, Token};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};

/// A limit that ends a connection in a test.
const SHORT: Duration = Duration::from_millis(200);

/// No test waits longer for something that happens.
const PATIENCE: Duration = Duration::from_secs(30);

/// Limits that no test reaches.
fn wide() -> ConnectionLimits {
    let long = Duration::from_secs(600);
    ConnectionLimits {
        total: 100,
        per_address: 100,
        files_kept: 0,
        probes: 2,
        probe_time: long,
        first_head: long,
        idle: long,
        body: long,
        unread: long,
        stalled: long,
    }
}

struct Listening {
    address: SocketAddr,
    closing: Closing,
    task: JoinHandle<()>,
}

impl Listening {
    async fn start(limits: ConnectionLimits) -> Listening {
        let punctual = Punctual::memory().start().await.unwrap();
        Listening::of(Server::new(punctual).routers(), limits).await
    }

    async fn of(routers: Routers, limits: ConnectionLimits) -> Listening {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, closing) = (listener.local_addr().unwrap(), Closing::default());
        let listening = punctual_server::listen(listener, routers, limits, closing.clone());
        Listening { address, closing, task: tokio::spawn(listening) }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The whole response to a request, on a connection that ends with it.
    async fn ask(&self, path: &str) -> String {
        self.ask_with(path, "").await
    }

    /// The same with further headers.
    async fn ask_with(&self, path: &str, headers: &str) -> String {
        let mut stream = self.connect().await;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        rest(&mut stream).await
    }
}

/// What comes until the server closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    // A reset ends a connection as well.
    let _ = read.expect("the server closes the connection");
    String::from_utf8_lossy(&bytes).into_owned()
}

const GET: &str = "GET /healthz/live HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[tokio::test]
async fn a_connection_without_a_complete_request_head_is_closed() {
    let limits = ConnectionLimits { first_head: SHORT, ..wide() };
    let server = Listening::start(limits).await;
    // Nothing; half a head; half of the HTTP/2 preface; the preface without a request.
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for sent in ["", "GET / HTTP/1.1\r\nHost: lo", "PRI * HTTP/2.0\r\n", preface] {
        let mut stream = server.connect().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        rest(&mut stream).await;
    }
}

#[tokio::test]
async fn a_client_that_sends_a_byte_now_and_then_is_closed_as_well() {
    let limits = ConnectionLimits { first_head: SHORT, ..wide() };
    let server = Listening::start(limits).await;
    for text in [GET, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let (mut read, mut write) = server.connect().await.into_split();
        let trickle = async {
            let mut every = interval(SHORT / 4);
            // The last byte is never sent.
            for byte in text.as_bytes()[..text.len() - 1].iter().cycle() {
                every.tick().await;
                if write.write_all(&[*byte]).await.is_err() {
                    break;
                }
            }
        };
        let mut bytes = Vec::new();
        tokio::select! {
            () = trickle => {}
            _ = read.read_to_end(&mut bytes) => {}
            () = async { timeout(PATIENCE, std::future::pending::<()>()).await.unwrap_or(()) } => {
                panic!("the connection is still open");
            }
        }
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_response() {
    let limits = ConnectionLimits { idle: SHORT, ..wide() };
    let server = Listening::start(limits).await;
    let mut stream = server.connect().await;
    stream.write_all(GET.as_bytes()).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Also if the next request has begun.
    let mut stream = server.connect().await;
    stream.write_all(format!("{GET}GET /").as_bytes()).await.unwrap();
    let answer = rest(&mut stream).await;
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
}

#[tokio::test]
async fn a_request_body_that_stops_is_answered_with_408() {
    let limits = ConnectionLimits { body: SHORT, ..wide() };
    let punctual = Punctual::memory().start().await.unwrap();
    let token = Some(Token::new("0123456789abcdef").unwrap());
    let server = Server { token, ..Server::new(punctual) };
    let server = Listening::of(server.routers(), limits).await;
    for (path, kind) in
        [("/api/v1/jobs", "application/json"), ("/login", "application/x-www-form-urlencoded")]
    {
        let mut stream = server.connect().await;
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Authorization: Bearer 0123456789abcdef\r\n\
             Content-Type: {kind}\r\nContent-Length: 100\r\n\r\n{{"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.contains("stopped sending the request body"), "{answer}");
    }
}

/// A router whose response never ends, and a channel that reports when it is dropped.
fn endless() -> (Routers, mpsc::UnboundedReceiver<()>) {
    let (dropped, ended) = mpsc::unbounded_channel();
    let answer = move || {
        let dropped = dropped.clone();
        async move {
            let guard = Dropped(dropped);
            let pieces = stream::repeat_with(move || {
                let _ = &guard;
                Ok::<_, std::convert::Infallible>(Bytes::from_static(&[b'.'; 16 << 10]))
            });
            Body::from_stream(pieces)
        }
    };
    let all = Router::new().route("/", get(answer));
    (Routers { probes: all.clone(), all }, ended)
}

struct Dropped(mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_its_response_is_closed() {
    let (routers, mut ended) = endless();
    let limits = ConnectionLimits { unread: SHORT, idle: SHORT, ..wide() };
    let server = Listening::of(routers, limits).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    timeout(PATIENCE, ended.recv()).await.expect("the response is dropped").unwrap();
}

#[tokio::test]
async fn an_http2_client_that_opens_no_window_is_closed() {
    let (routers, mut ended) = endless();
    let limits = ConnectionLimits { stalled: SHORT, idle: SHORT, ..wide() };
    let server = Listening::of(routers, limits).await;
    let mut stream = server.connect().await;
    stream.write_all(&http2_get(&[1], "/")).await.unwrap();
    timeout(PATIENCE, ended.recv()).await.expect("the response is dropped").unwrap();
}

/// The preface of HTTP/2, SETTINGS with `INITIAL_WINDOW_SIZE` = 0, and a GET request for each stream.
fn http2_get(streams: &[u8], path: &str) -> Vec<u8> {
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]);
    for stream in streams {
        sent.extend(http2_head(*stream, path));
    }
    sent
}

/// HEADERS with END_STREAM and END_HEADERS: `GET http://localhost` and a path, accepting gzip.
fn http2_head(stream: u8, path: &str) -> Vec<u8> {
    let mut head = vec![0x82, 0x86, 0x44, u8::try_from(path.len()).unwrap()];
    head.extend(path.as_bytes());
    head.extend(b"\x41\x09localhost\x90");
    let length = u8::try_from(head.len()).unwrap();
    [&[0, 0, length, 1, 5, 0, 0, 0, stream], &head[..]].concat()
}

#[tokio::test]
async fn a_live_request_does_not_keep_a_stalled_one_of_the_same_connection() {
    let (mut routers, mut ended) = endless();
    routers.all = routers.all.route("/quick", get(|| async { "" }));
    let limits = ConnectionLimits { stalled: SHORT, idle: SHORT, ..wide() };
    let server = Listening::of(routers, limits).await;
    let (mut read, mut write) = server.connect().await.into_split();
    write.write_all(&http2_get(&[1], "/")).await.unwrap();
    let mut bytes = Vec::new();
    let live = async {
        let mut every = interval(SHORT / 4);
        // More often than the response may stall. The server closes the connection at some point.
        for stream in (3..=255).step_by(2) {
            every.tick().await;
            if write.write_all(&http2_head(stream, "/quick")).await.is_err() {
                return;
            }
        }
        panic!("the connection is still open");
    };
    tokio::join!(live, read.read_to_end(&mut bytes)).1.unwrap_or_default();
    ended.try_recv().expect("the response is dropped");
}

#[tokio::test]
async fn a_connection_has_a_limited_number_of_http2_requests() {
    let (routers, mut ended) = endless();
    let server = Listening::of(routers, wide()).await;
    let mut stream = server.connect().await;
    // SETTINGS_MAX_CONCURRENT_STREAMS is the second frame that a client learns; it is 16.
    stream.write_all(&http2_get(&[1], "/")).await.unwrap();
    let mut settings = [0; 64];
    stream.read_exact(&mut settings[..9]).await.unwrap();
    let length = usize::from(settings[2]);
    stream.read_exact(&mut settings[..length]).await.unwrap();
    assert!(settings[..length].chunks(6).any(|it| it == [0, 3, 0, 0, 0, 16]), "{settings:?}");
    drop(stream);
    timeout(PATIENCE, ended.recv()).await.expect("the response is dropped").unwrap();
}

#[tokio::test]
async fn beyond_the_limit_only_health_checks_and_metrics_are_answered() {
    let limits = ConnectionLimits { total: 2, ..wide() };
    let server = Listening::start(limits).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = server.connect().await;
        stream.write_all(GET.as_bytes()).await.unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        held.push(stream);
    }
    for path in ["/healthz/live", "/healthz/ready", "/metrics"] {
        let answer = server.ask(path).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    let refused = server.ask("/api/v1/nodes").await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains(r#""code":"overloaded""#), "{refused}");
    assert!(refused.contains("retry-after: 1"), "{refused}");
    drop(held);
    let all_served = async {
        while !server.ask("/api/v1/nodes").await.starts_with("HTTP/1.1 200") {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, all_served).await.expect("closed connections make room");
}

#[tokio::test]
async fn metrics_beyond_the_limit_need_the_token_too() {
    let punctual = Punctual::memory().start().await.unwrap();
    let token = Some(Token::new("0123456789abcdef").unwrap());
    for is_api in [true, false] {
        let server = Server { token: token.clone(), ..Server::new(punctual.clone()) };
        let routers = if is_api { server.routers() } else { server.probes() };
        let server = Listening::of(routers, ConnectionLimits { total: 0, ..wide() }).await;
        let answer = server.ask("/metrics").await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        let header = "Authorization: Bearer 0123456789abcdef\r\n";
        let answer = server.ask_with("/metrics", header).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

#[tokio::test]
async fn silent_connections_do_not_keep_health_checks_from_their_places() {
    let server = Listening::start(ConnectionLimits { total: 0, ..wide() }).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(server.connect().await);
    }
    let answer = server.ask("/healthz/live").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The first ones made room.
    rest(&mut silent[0]).await;
}

#[tokio::test]
async fn a_place_of_health_checks_is_free_again_after_its_time() {
    let limits = ConnectionLimits { total: 0, probe_time: SHORT, ..wide() };
    let server = Listening::start(limits).await;
    rest(&mut server.connect().await).await;
}

#[tokio::test]
async fn closing_ends_idle_connections_and_answers_requests_in_progress() {
    let (begun, mut asked) = mpsc::unbounded_channel();
    let (go, gone) = tokio::sync::watch::channel(());
    let answer = move || {
        let (begun, mut gone) = (begun.clone(), gone.clone());
        async move {
            begun.send(()).unwrap();
            gone.changed().await.unwrap();
            "done"
        }
    };
    let all = Router::new()
        .route("/slow", get(answer))
        .route("/", get(|| async { "quick" }))
        .route("/empty", get(|| async {}));
    let server = Listening::of(Routers { probes: all.clone(), all }, wide()).await;
    let mut idle = server.connect().await;
    idle.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut silent = server.connect().await;
    let mut half = server.connect().await;
    half.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
    // It accepts no announcement of the end.
    let mut deaf = server.connect().await;
    deaf.write_all(&http2_get(&[1], "/empty")).await.unwrap();
    deaf.peek(&mut [0]).await.unwrap();
    let mut slow = server.connect().await;
    slow.write_all(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    asked.recv().await.unwrap();
    server.closing.begin();
    assert!(rest(&mut idle).await.ends_with("quick"));
    assert_eq!(rest(&mut silent).await, "");
    assert_eq!(rest(&mut half).await, "");
    rest(&mut deaf).await;
    assert!(!server.task.is_finished());
    go.send(()).unwrap();
    assert!(rest(&mut slow).await.ends_with("done"));
    timeout(PATIENCE, server.task).await.expect("the last response was sent").unwrap();
}
