//! The start of a server whose database cannot be reached.

use std::io::{BufRead, BufReader, Lines, copy, pipe};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::Database;
use crate::process::{Serving, punctual, text};

/// An address at which nothing listens.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn serve(database: &str, args: &[&str]) -> Command {
    let mut command = punctual(Path::new("/tmp"), &["serve", "--database", database]);
    command.args(args).env_remove("RUST_LOG");
    command
}

/// A server that waits for its database; it dies with this value.
struct Waiting {
    process: Child,
    log: Lines<BufReader<std::io::PipeReader>>,
}

impl Waiting {
    /// Starts it and waits until its log says that it waits.
    fn start(mut command: Command) -> Waiting {
        let (reader, writer) = pipe().unwrap();
        let process = command.stderr(writer).spawn().unwrap();
        drop(command);
        let mut waiting = Waiting { process, log: BufReader::new(reader).lines() };
        let retries = |line: &String| line.contains("cannot reach the database, retrying");
        assert!(waiting.log.by_ref().map(Result::unwrap).any(|line| retries(&line)));
        waiting
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_server_answers_that_it_waits_for_its_database_and_stops_on_the_first_signal() {
    let (database, listen) = (free_address(), free_address());
    let url = format!("postgres://app@{database}/app");
    let waits = ["--database-wait", "10m", "--listen", &listen.to_string()];
    let mut waiting = Waiting::start(serve(&url, &waits));
    let get = |path: &str| {
        let request = ureq::get(format!("http://{listen}{path}"));
        let mut response = request.config().http_status_as_error(false).build().call().unwrap();
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("cross-origin-resource-policy"), "same-origin", "{path}");
        assert_eq!(header("cache-control"), "no-store", "{path}");
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    };
    assert_eq!(get("/healthz/live").0, 200);
    for path in ["/healthz/ready", "/api/v1/jobs", "/"] {
        let (status, problem) = get(path);
        assert!(status == 503 && problem.contains("\"unreachable\""), "{path}: {problem}");
    }
    kill_process(Pid::from_child(&waiting.process), Signal::TERM).unwrap();
    assert_eq!(waiting.process.wait().unwrap().code(), Some(0));
}

#[test]
fn the_wait_is_bounded_and_then_the_server_exits_with_6() {
    let url = format!("postgres://app@{}/app", free_address());
    for (wait, is_retried) in [("1s", true), ("0s", false)] {
        let output = serve(&url, &["--database-wait", wait, "--listen", "127.0.0.1:0"]).output();
        let output = output.unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(6), "{error}");
        assert_eq!(error.contains("retrying"), is_retried, "{error}");
        assert!(error.contains("cannot connect to PostgreSQL"), "{error}");
    }
    // Commands do not wait.
    let list = punctual(Path::new("/tmp"), &["job", "list", "--database", &url]).output().unwrap();
    assert_eq!(list.status.code(), Some(6), "{}", text(&list.stderr));
}

/// Forwards connections to the server of the tests.
fn forward(listener: TcpListener, to: SocketAddr) {
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(to).unwrap());
            let pairs =
                [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)];
            for (mut from, mut to) in pairs {
                std::thread::spawn(move || {
                    // When one side closes the connection, the other side is closed, too.
                    let _ = copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
}

#[test]
fn a_server_starts_once_its_database_can_be_reached() {
    let database = Database::new();
    let (url, address) = (database.url(), free_address());
    let server = database.address();
    let url = url.replace(&server.to_string(), &address.to_string());
    assert!(url.contains(&address.to_string()), "{url} is at {server}");
    let (reader, writer) = pipe().unwrap();
    let mut command = serve(&url, &[]);
    command.stderr(writer);
    // The log says that it waits; then the database is reachable.
    std::thread::spawn(move || {
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains("cannot reach the database, retrying")));
        forward(TcpListener::bind(address).unwrap(), server);
        lines.for_each(drop);
    });
    let serving = Serving::of(command);
    assert!(serving.run(&["node", "list"]).status.success());
    assert_eq!(serving.stop(), Some(0));
}

#[test]
fn what_waiting_cannot_change_is_final_at_once() {
    let database = Database::new();
    let unknown = database.url().replace("punctual_product_", "punctual_unknown_");
    let output = serve(&unknown, &["--listen", "127.0.0.1:0"]).output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("database not found") && !error.contains("retrying"), "{error}");
    let output = serve("sqlite:///nowhere/punctual.db", &["--listen", "127.0.0.1:0"]).output();
    let error = text(&output.unwrap().stderr);
    assert!(error.contains("/nowhere") && !error.contains("retrying"), "{error}");
}
