//! A server stops within its grace, also if its stderr has no reader.

use std::io::{ErrorKind, PipeWriter, Read, Write, pipe};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::process::{Serving, punctual, text};

/// The grace of the servers, and the time within which they end after SIGTERM.
const GRACE: &str = "2s";
const LIMIT: Duration = Duration::from_secs(2 + 3);

/// A server whose stderr is this pipe.
fn serving(directory: &std::path::Path, stderr: PipeWriter) -> Serving {
    let config = directory.join("punctual-server.toml");
    std::fs::write(&config, format!("[worker]\nshutdown_grace = \"{GRACE}\"\n")).unwrap();
    let mut command = punctual(directory, &["serve", "--config", config.to_str().unwrap()]);
    command.env_remove("RUST_LOG").stderr(stderr);
    Serving::of(command)
}

/// Runs a job that fails, about which the server logs an error.
fn fail_a_job(server: &Serving) {
    let job = server.run(&["job", "enqueue", "fail", "--max-attempts", "1", "--wait"]);
    assert!(text(&job.stdout).contains("failed"), "{}", text(&job.stderr));
}

#[test]
fn a_server_whose_stderr_has_no_reader_works_and_stops() {
    let directory = tempfile::tempdir().unwrap();
    let (reader, writer) = pipe().unwrap();
    let server = serving(directory.path(), writer);
    drop(reader);
    fail_a_job(&server);
    let metrics = ureq::get(format!("{}/metrics", server.url)).call().unwrap();
    let metrics = metrics.into_body().read_to_string().unwrap();
    assert!(metrics.contains("punctual_server_log_lines_lost_total"), "{metrics}");
    assert_eq!(server.stop_within(LIMIT), Some(0));
}

/// Writes until the pipe takes no more.
fn fill(mut writer: &PipeWriter) {
    let flags = fcntl_getfl(writer).unwrap();
    fcntl_setfl(writer, flags | OFlags::NONBLOCK).unwrap();
    loop {
        match writer.write(&[b'.'; 1_024]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    fcntl_setfl(writer, flags).unwrap();
}

#[test]
fn a_server_whose_stderr_is_full_works_and_stops_and_writes_its_log_once_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let (mut reader, writer) = pipe().unwrap();
    fill(&writer);
    let server = serving(directory.path(), writer.try_clone().unwrap());
    fail_a_job(&server);
    assert_eq!(server.stop_within(LIMIT), Some(0));

    // The same, and the reader continues before the end.
    let server = serving(directory.path(), writer);
    fail_a_job(&server);
    let mut read = Vec::new();
    while !text(&read).contains("job failed for good") {
        let mut piece = [0; 4_096];
        let count = reader.read(&mut piece).unwrap();
        assert_ne!(count, 0, "the log ended: {}", text(&read));
        read.extend_from_slice(&piece[..count]);
    }
    assert_eq!(server.stop_within(LIMIT), Some(0));
}
