//! Workers in another language: the protocol, as the script that ships with the example drives it.

use std::path::Path;
use std::process::Command;

use crate::cluster::Database;
use crate::process::{Serving, text};

/// Runs the script against servers of one database, which it asks in turn.
fn check(servers: &[&Serving]) {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/http-worker/conformance.py");
    let mut python = Command::new("python3");
    python.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PUNCTUAL_TOKEN").arg(script);
    for server in servers {
        python.args(["--server", &server.url]);
    }
    let output = python.output().expect("python3 runs the script; install it");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert_eq!(out.lines().filter(|line| line.starts_with("ok ")).count(), 11, "{out}");
    let nodes = text(&servers[0].run(&["node", "list"]).stdout);
    assert!(nodes.contains("dead since") && nodes.contains(", remote"), "{nodes}");
}

#[test]
fn a_worker_in_python_and_the_server_keep_the_protocol() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::new();
    let url = database.url();
    let serve = |role: &str| {
        let args = ["serve", "--database", &url, "--name", role, "--role", role];
        Serving::start(directory.path(), &args)
    };
    std::thread::scope(|scope| {
        // One process on a file, and at the same time two on one server, of which neither may
        // remember what the other has to know. Most of it is waiting for a dead worker to be missed.
        scope.spawn(|| check(&[&Serving::start(directory.path(), &["serve"])]));
        scope.spawn(|| check(&[&serve("api"), &serve("api,scheduler,worker")]));
    });
}
