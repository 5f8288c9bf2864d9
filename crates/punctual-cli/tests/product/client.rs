//! The HTTP API as a program in another language uses it: the client that ships as an example.

use std::path::Path;
use std::process::Command;

use crate::process::{Serving, text};

#[test]
fn the_example_client_takes_its_tour_of_a_server_with_a_token() {
    let directory = tempfile::tempdir().unwrap();
    let token = ("PUNCTUAL_TOKEN", "a-token-for-the-example-client");
    let server = Serving::start_with(directory.path(), &["serve"], &[token]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/http-client/client.py");
    let mut python = Command::new("python3");
    python.env("PYTHONDONTWRITEBYTECODE", "1").env("PUNCTUAL_SERVER", &server.url);
    python.env(token.0, token.1).arg(script);
    let output = python.output().expect("python3 runs the script; install it");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.ends_with("All steps passed.\n"), "{out}\n{err}");
    assert_eq!(server.stop(), Some(0));
}
