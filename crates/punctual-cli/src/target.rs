//! Whom a command asks: a server, or the database itself.

use std::io::{self, Read};
use std::net::IpAddr;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{Method, Request, StatusCode};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use futures_util::StreamExt;
use punctual::ErrorKind;
use punctual_api::Problem;
use punctual_server::Server;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt;

use crate::database::DatabaseAccess;
use crate::exit::Failure;
use crate::redact::redacted;
use crate::serve::kinds;

/// The server or database that a command connects to.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection options")]
pub(crate) struct Target {
    /// Server URL [default: http://127.0.0.1:7347]
    #[arg(
        long,
        global = true,
        env = "PUNCTUAL_SERVER",
        value_name = "URL",
        hide_env_values = true
    )]
    server: Option<String>,
    /// Database to open directly, without a server: sqlite://FILE or postgres://USER@HOST/DATABASE
    #[arg(
        long,
        global = true,
        env = "PUNCTUAL_DATABASE",
        value_name = "URL",
        hide_env_values = true
    )]
    database: Option<String>,
    /// API token
    #[arg(
        long,
        global = true,
        env = "PUNCTUAL_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
}

/// Somebody who answers.
pub(crate) struct Client {
    runtime: tokio::runtime::Runtime,
    way: Way,
}

enum Way {
    /// The same answers as a server would give, from this process.
    Here(axum::Router),
    There(There),
}

/// A server that was named.
pub(crate) struct There {
    server: String,
    token: Option<String>,
    agent: ureq::Agent,
}

/// An answer is a page of rows, each with a payload; a hundred megabytes are a mistake.
const ANSWER_BYTES_MAX: u64 = 100 * 1_024 * 1_024;

const USUAL_SERVER: &str = "http://127.0.0.1:7347";

/// Who does it, for the audit.
fn actor() -> String {
    std::env::var("USER")
        .ok()
        .filter(|user| user.is_ascii() && !user.is_empty())
        .unwrap_or("cli".to_owned())
}

impl Target {
    /// What is written on the command line goes before the environment, and of that a database before
    /// a server.
    pub(crate) fn settled(mut self, written: &ArgMatches) -> Result<Target, Failure> {
        let is_written = |name| written.value_source(name) == Some(ValueSource::CommandLine);
        match (is_written("server"), is_written("database")) {
            (true, true) => {
                let message = "--server and --database cannot be combined; pass one of them";
                return Err(Failure::usage(message));
            }
            (true, false) => self.database = None,
            _ if self.database.is_some() => self.server = None,
            _ => {}
        }
        Ok(self)
    }

    /// The server that was named, if one was. Whoever asks it waits for an answer no longer than this.
    pub(crate) fn server(&self, patience: Duration) -> Option<There> {
        Some(There::new(self.server.as_deref()?, self.token.clone(), Some(patience)))
    }

    /// The database itself, for commands that no server could carry out.
    pub(crate) fn without_server(&self) -> Target {
        Target { server: None, ..self.clone() }
    }

    /// Somebody who answers, from what is there: a database that is not is not made by a question.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        if let Some(database) = self.database_access()? {
            database.must_exist()?;
        }
        self.open(true)
    }

    /// The same for who brings something along, for which a database may be made.
    pub(crate) fn client_that_may_create(&self) -> Result<Client, Failure> {
        self.open(true)
    }

    /// The same, and tables that are old stay so: whoever examines a database changes nothing.
    pub(crate) fn client_as_it_is(&self) -> Result<Client, Failure> {
        if let Some(database) = self.database_access()? {
            database.must_exist()?;
        }
        self.open(false)
    }

    fn open(&self, may_migrate: bool) -> Result<Client, Failure> {
        let runtime = interruptible()?;
        let way = match self.database_access()? {
            Some(database) => {
                let punctual = runtime.block_on(database.opened(may_migrate))?;
                // Whoever serves this database most likely runs this very program.
                let kinds = kinds::ALL.map(str::to_owned).to_vec();
                Way::Here(Server { kinds, ..Server::new(punctual) }.router())
            }
            None => {
                let server = self.server.as_deref().unwrap_or(USUAL_SERVER);
                Way::There(There::new(server, self.token.clone(), None))
            }
        };
        Ok(Client { runtime, way })
    }

    /// The token that was given, if one was.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The database that was named, if one was, with the settings of the environment for it.
    pub(crate) fn database_access(&self) -> Result<Option<DatabaseAccess>, Failure> {
        self.database.as_deref().map(DatabaseAccess::from_environment).transpose()
    }

    /// The URL of the database that was named, if one was.
    pub(crate) fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }
}

/// The runtime that a command needs.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Runtime::new()
        .map_err(|error| Failure::failed(format!("cannot start threads: {error}")))
}

/// The same, for a command that ends where it is when somebody interrupts it.
pub(crate) fn interruptible() -> Result<tokio::runtime::Runtime, Failure> {
    let runtime = runtime()?;
    runtime.spawn(async {
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(INTERRUPTED);
        }
    });
    Ok(runtime)
}

/// What shells say of a command that was interrupted.
const INTERRUPTED: i32 = 130;

impl Client {
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.ask(Method::GET, path, None, &[])
    }

    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        self.ask(Method::POST, path, Some(json(body)?), &[])
    }

    /// Asks with any method, body and headers.
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        headers: &[(&str, &str)],
    ) -> Result<T, Failure> {
        match &self.way {
            Way::Here(router) => {
                let (status, text) = self.ask_here(router, method, path, body, headers)?;
                read(status, text)
            }
            Way::There(there) => there.ask(method, path, body, headers),
        }
    }

    /// Asks for a stream, and reads it to its end.
    pub(crate) fn stream(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        read: impl FnOnce(&mut dyn Read) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match &self.way {
            Way::Here(router) => {
                let request = request_here(Method::GET, path, None, headers)?;
                let Ok(response) = self.runtime.block_on(router.clone().oneshot(request));
                let (status, body) = (response.status(), response.into_body());
                if status.is_success() {
                    let frames = body.into_data_stream();
                    let mut body = BodyHere { runtime: &self.runtime, frames, rest: Bytes::new() };
                    return read(&mut body);
                }
                let text = self.runtime.block_on(to_bytes(body, usize::MAX));
                let text = text.map_err(|error| Failure::failed(error.to_string()))?;
                Err(refused(status, &String::from_utf8_lossy(&text)))
            }
            Way::There(There { server, token, agent }) => {
                let request =
                    request_there(server, token.as_deref(), Method::GET, path, None, headers)?;
                let out_of_reach = |error: ureq::Error| does_not_answer(server, &error);
                let mut response = agent.run(request).map_err(out_of_reach)?;
                let status = response.status();
                if status.is_success() {
                    return read(&mut response.body_mut().as_reader());
                }
                let text = response
                    .body_mut()
                    .with_config()
                    .limit(ANSWER_BYTES_MAX)
                    .read_to_string()
                    .map_err(out_of_reach)?;
                Err(refused(status, &text))
            }
        }
    }

    fn ask_here(
        &self,
        router: &axum::Router,
        method: Method,
        path: &str,
        body: Option<String>,
        headers: &[(&str, &str)],
    ) -> Result<(StatusCode, String), Failure> {
        let request = request_here(method, path, body, headers)?;
        self.runtime.block_on(async {
            let Ok(response) = router.clone().oneshot(request).await;
            let status = response.status();
            let bytes = to_bytes(response.into_body(), usize::MAX).await;
            let bytes = bytes.map_err(|error| Failure::failed(error.to_string()))?;
            Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
        })
    }
}

impl There {
    fn new(server: &str, token: Option<String>, patience: Option<Duration>) -> There {
        let mut settings =
            ureq::Agent::config_builder().http_status_as_error(false).timeout_global(patience);
        // Without this, the proxy variables of the environment apply, `NO_PROXY` among them.
        if is_on_this_machine(server) {
            settings = settings.proxy(None);
        }
        let settings = settings.build();
        let server = server.trim_end_matches('/').to_owned();
        There { server, token, agent: settings.into() }
    }

    /// Asks with any method, body and headers.
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        headers: &[(&str, &str)],
    ) -> Result<T, Failure> {
        let There { server, token, agent } = self;
        let (status, text) =
            ask_there(server, token.as_deref(), agent, method, path, body, headers)?;
        read(status, text)
    }
}

/// What was asked for, if that is what the answer is.
fn read<T: DeserializeOwned>(status: StatusCode, text: String) -> Result<T, Failure> {
    if !status.is_success() {
        return Err(refused(status, &text));
    }
    let text = if text.is_empty() { "null".to_owned() } else { text };
    serde_json::from_str(&text)
        .map_err(|error| Failure::failed(format!("invalid response: {error}")))
}

fn request_here(
    method: Method,
    path: &str,
    body: Option<String>,
    headers: &[(&str, &str)],
) -> Result<Request<Body>, Failure> {
    let mut request =
        Request::builder().method(method).uri(format!("http://localhost/api/v1{path}"));
    request = request.header("host", "localhost").header("punctual-actor", actor());
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request
        .body(Body::from(body.unwrap_or_default()))
        .map_err(|error| Failure::usage(format!("invalid request: {error}")))
}

/// A body that is made in this process, read as it comes.
struct BodyHere<'a> {
    runtime: &'a tokio::runtime::Runtime,
    frames: axum::body::BodyDataStream,
    rest: Bytes,
}

impl Read for BodyHere<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            let next = self.runtime.block_on(self.frames.next());
            match next.transpose().map_err(io::Error::other)? {
                Some(frame) => self.rest = frame,
                None => return Ok(0),
            }
        }
        let count = self.rest.len().min(into.len());
        into[..count].copy_from_slice(&self.rest.split_to(count));
        Ok(count)
    }
}

fn request_there(
    server: &str,
    token: Option<&str>,
    method: Method,
    path: &str,
    body: Option<String>,
    headers: &[(&str, &str)],
) -> Result<Request<String>, Failure> {
    check_url(server)?;
    let mut request = Request::builder().method(method).uri(format!("{server}/api/v1{path}"));
    request = request.header("punctual-actor", actor());
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body.unwrap_or_default()).map_err(|error| {
        let server = redacted(server);
        Failure::usage(format!("invalid server URL `{server}`: {error}"))
    })
}

/// Does the URL of a server name this machine, by a loopback address or as `localhost`? A proxy is
/// another machine, for which the same name means something else, and it would see the token.
fn is_on_this_machine(server: &str) -> bool {
    let Ok(url) = server.parse::<axum::http::Uri>() else { return false };
    let Some(host) = url.host() else { return false };
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    match address.map(|address| address.to_canonical()) {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
}

/// Checks that the URL of a server has a scheme and a host.
fn check_url(server: &str) -> Result<(), Failure> {
    let remedy = match server.split_once("://") {
        Some(("http" | "https", host)) if !host.is_empty() => return Ok(()),
        None if !server.is_empty() => format!("http://{}", redacted(server)),
        _ => "http://HOST:PORT or https://HOST:PORT".to_owned(),
    };
    let server = redacted(server);
    Err(Failure::usage(format!("invalid server URL `{server}`; use {remedy}")))
}

fn does_not_answer(server: &str, error: &ureq::Error) -> Failure {
    let server = redacted(server);
    let reason = match error {
        ureq::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    };
    Failure::out_of_reach(format!("cannot reach the server at {server}: {reason}")).hint(
        "start a server with `punctual serve`, pass --server URL, or open a database with \
         --database URL",
    )
}

fn ask_there(
    server: &str,
    token: Option<&str>,
    agent: &ureq::Agent,
    method: Method,
    path: &str,
    body: Option<String>,
    headers: &[(&str, &str)],
) -> Result<(StatusCode, String), Failure> {
    let request = request_there(server, token, method, path, body, headers)?;
    let out_of_reach = |error: ureq::Error| does_not_answer(server, &error);
    let mut response = agent.run(request).map_err(out_of_reach)?;
    let text = response
        .body_mut()
        .with_config()
        .limit(ANSWER_BYTES_MAX)
        .read_to_string()
        .map_err(out_of_reach)?;
    Ok((response.status(), text))
}

/// A body.
pub(crate) fn json(body: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(body).map_err(|error| Failure::usage(error.to_string()))
}

/// A part of a path, so that any name can be in it.
pub(crate) fn part(name: &str) -> String {
    let mut part = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                part.push(char::from(byte));
            }
            byte => part.push_str(&format!("%{byte:02X}")),
        }
    }
    part
}

/// What a refusal means for whoever gave the command.
fn refused(status: StatusCode, text: &str) -> Failure {
    let problem: Option<Problem> = serde_json::from_str(text).ok();
    let message = match &problem {
        Some(problem) => problem.detail.clone(),
        None => format!("the server responded with {status}"),
    };
    let failure = match (status.as_u16(), problem.as_ref().map(|problem| problem.code.as_str())) {
        (_, Some("schema_too_new")) => Failure::schema_too_new(message),
        (_, Some("schema_too_old")) => Failure::schema_too_old(message),
        (404, _) => Failure::not_found(message),
        (401 | 403, _) => Failure::not_allowed(message),
        (409 | 412, _) | (_, Some("key_reused")) => Failure::conflict(message),
        (400 | 413 | 415 | 422, _) => Failure::usage(message),
        (502..=504, _) => Failure::out_of_reach(message),
        _ => Failure::failed(message),
    };
    match problem.and_then(|problem| problem.hint) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

impl From<punctual::Error> for Failure {
    fn from(error: punctual::Error) -> Failure {
        let message = error.to_string();
        match error.kind() {
            ErrorKind::Invalid => Failure::usage(message),
            ErrorKind::NotFound => Failure::not_found(message),
            ErrorKind::Denied => Failure::not_allowed(message),
            ErrorKind::Conflict | ErrorKind::Fenced => Failure::conflict(message),
            ErrorKind::Unreachable | ErrorKind::Retry | ErrorKind::Full | ErrorKind::Stopped => {
                Failure::out_of_reach(message)
            }
            ErrorKind::SchemaTooNew => Failure::schema_too_new(message),
            ErrorKind::SchemaTooOld => Failure::schema_too_old(message),
            // `ErrorKind::Limit`, `ErrorKind::Corrupt` and kinds of later versions.
            _ => Failure::failed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T>(checked: Result<T, Failure>) -> String {
        checked.map(|_| ()).expect_err("a URL that is refused").message().to_owned()
    }

    #[test]
    fn a_server_url_has_a_scheme_and_a_host() {
        assert!(check_url("http://127.0.0.1:7420").is_ok());
        assert!(check_url("https://punctual.example").is_ok());
        let refused = |url: &str| refused(check_url(url));
        assert_eq!(
            refused("127.0.0.1:7420"),
            "invalid server URL `127.0.0.1:7420`; use http://127.0.0.1:7420"
        );
        assert_eq!(
            refused("ftp://x"),
            "invalid server URL `ftp://x`; use http://HOST:PORT or https://HOST:PORT"
        );
        assert!(refused("http://").starts_with("invalid server URL `http://`; use http://HOST"));
        assert!(refused("").starts_with("invalid server URL ``; use http://HOST:PORT"));
    }

    #[test]
    fn a_server_on_this_machine_is_known_by_its_url() {
        let own = ["127.0.0.1:7347", "127.9.9.9", "[::1]:1", "[::ffff:127.0.0.1]:1", "0.0.0.0:1"];
        for host in own.into_iter().chain(["localhost:1", "LOCALHOST.", "a.localhost:80"]) {
            assert!(is_on_this_machine(&format!("http://{host}")), "{host}");
            assert!(is_on_this_machine(&format!("https://{host}/base")), "{host}");
        }
        for host in ["10.0.0.1:1", "[2001:db8::1]", "localhost.example", "notlocalhost", "db"] {
            assert!(!is_on_this_machine(&format!("http://{host}")), "{host}");
        }
        assert!(!is_on_this_machine("http://127.0.0.1:1@example.com/"));
    }
}
