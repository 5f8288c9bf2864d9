//! Workers in another language: the protocol, as the script that ships with the example drives it.

use std::path::Path;
use std::process::Command;

use crate::process::{Serving, text};

#[test]
fn a_worker_in_python_and_the_server_keep_the_protocol() {
    let directory = tempfile::tempdir().unwrap();
    // Two servers on one database, asked in turn: neither may remember what the other has to know.
    let server = Serving::start(directory.path(), &["serve"]);
    let other = Serving::start(directory.path(), &["serve", "--role", "api"]);
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/http-worker/conformance.py");
    let output = Command::new("python3")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("PUNCTUAL_TOKEN")
        .arg(script)
        .args(["--server", &server.url, "--server", &other.url])
        .output()
        .expect("python3 runs the script; install it");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert_eq!(out.lines().filter(|line| line.starts_with("ok ")).count(), 9, "{out}");
    let nodes = text(&other.run(&["node", "list"]).stdout);
    assert!(nodes.contains("remote"), "{nodes}");
    assert_eq!((other.stop(), server.stop()), (Some(0), Some(0)));
}
