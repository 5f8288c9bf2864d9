//! Jobs of kind `http`, from the order to the receiver's ledger.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod errors;
mod flaky;
mod network;
mod requests;
mod shortage;
mod ssrf;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::{Backoff, Finished, Growth, Order, Punctual, Spread};
use punctual_http::{Config, Http};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What may be called in tests.
pub(crate) fn loopback() -> Config {
    Config { allow: vec!["127.0.0.0/8".into(), "::1".into()], ..Config::default() }
}

/// A node that handles nothing else, and tries again soon.
pub(crate) async fn node(config: Config) -> Punctual {
    let http = Http::new(config).unwrap();
    let wait = Duration::from_millis(50);
    let soon = Backoff { base: wait, growth: Growth::Fixed, cap: wait, spread: Spread::None };
    http.handle(Punctual::memory()).backoff(soon).start().await.unwrap()
}

/// Orders a job and waits for its end.
pub(crate) async fn ended(punctual: &Punctual, payload: Value, attempts: u32) -> Finished {
    let order = Order::of_kind("http", &payload).max_attempts(attempts);
    let job = punctual.enqueue(order).await.unwrap();
    punctual.wait(job.id).await.unwrap()
}

/// A request as it came in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Reads a request; none if the other side went away.
    pub(crate) async fn read(stream: &mut (impl AsyncReadExt + Unpin)) -> Option<Seen> {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.lines();
        let line = lines.next()?.to_owned();
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers: Vec<(String, String)> =
            headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut seen = Seen { line, headers, body: String::new() };
        let length: usize = seen.header("content-length").unwrap_or("0").parse().ok()?;
        let mut body = bytes[end + 4..].to_vec();
        while body.len() < length {
            if stream.read_buf(&mut body).await.ok()? == 0 {
                return None;
            }
        }
        seen.body = String::from_utf8_lossy(&body).into_owned();
        Some(seen)
    }
}

/// Somebody who answers every request alike, and keeps what was asked.
pub(crate) struct Receiver {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Receiver {
    pub(crate) async fn answering(answer: &'static str) -> Receiver {
        Receiver::at(std::net::TcpListener::bind("127.0.0.1:0").unwrap(), answer)
    }

    /// The same for who has to know the place before there is an answer.
    pub(crate) fn at(listener: std::net::TcpListener, answer: &'static str) -> Receiver {
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let kept = seen.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(request) = Seen::read(&mut stream).await else { continue };
                kept.lock().unwrap().push(request);
                say(&mut stream, answer).await;
            }
        });
        Receiver { url, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

/// Says something, if the other side still listens.
pub(crate) async fn say(stream: &mut TcpStream, text: &str) {
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// A whole answer.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nx-a: b\r\n\r\nfine";
