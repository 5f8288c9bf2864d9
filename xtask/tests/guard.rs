//! What xtask starts ends with xtask, even if xtask is killed: the guard sees to it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program of a shell below a guard, its output going to a pipe, and the pipe that keeps it
/// alive. The latter is apart because `Child::wait` would close it.
fn guarded(options: &[&str], script: &str) -> (Child, ChildStdin) {
    let mut guard = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("guard")
        .args(options)
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("xtask starts");
    let lifeline = guard.stdin.take().expect("a pipe");
    (guard, lifeline)
}

/// Waits until the program says that it is ready for what the test is about.
fn wait_for_a_line(guard: &mut Child) -> BufReader<ChildStdout> {
    let mut stdout = BufReader::new(guard.stdout.take().expect("a pipe"));
    stdout.read_line(&mut String::new()).expect("a line");
    stdout
}

/// The pipe can be read to its end only when every process that holds its other end has exited.
fn everything_ends(mut stdout: impl Read) {
    stdout.read_to_end(&mut Vec::new()).expect("the end");
}

#[test]
fn the_exit_code_is_that_of_the_program() {
    for (script, code) in [("exit 7", 7), ("kill -KILL $$", 128 + 9)] {
        let (mut guard, _lifeline) = guarded(&[], script);
        assert_eq!(guard.wait().unwrap().code(), Some(code), "{script}");
    }
}

#[test]
fn a_closed_pipe_stops_the_program_and_removes_its_directory() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("passing");
    fs::create_dir_all(dir.join("data")).unwrap();
    let (mut guard, lifeline) =
        guarded(&["--remove", dir.to_str().unwrap()], "echo ready; sleep 1000; echo not reached");
    let stdout = wait_for_a_line(&mut guard);
    assert!(dir.exists());

    drop(lifeline);
    assert_eq!(guard.wait().unwrap().code(), Some(128 + 15));
    everything_ends(stdout);
    assert!(!dir.exists());
}

#[test]
fn the_program_is_asked_with_the_signal_it_was_promised() {
    let script = "trap 'echo int; exit 3' INT; echo ready; while :; do sleep 0.01; done";
    let (mut guard, lifeline) = guarded(&["--stop", "int"], script);
    let mut stdout = wait_for_a_line(&mut guard);
    drop(lifeline);
    assert_eq!(guard.wait().unwrap().code(), Some(3));
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "int\n");
}

#[test]
fn a_program_that_does_not_stop_is_killed() {
    let script = "trap '' TERM; echo ready; while :; do sleep 1000; done";
    let (mut guard, lifeline) = guarded(&["--grace-ms", "50"], script);
    let stdout = wait_for_a_line(&mut guard);
    drop(lifeline);
    assert_eq!(guard.wait().unwrap().code(), Some(128 + 9));
    everything_ends(stdout);
}

#[test]
fn what_the_program_leaves_behind_ends_with_it() {
    let (mut guard, _lifeline) = guarded(&[], "sleep 1000 & echo ready");
    let stdout = wait_for_a_line(&mut guard);
    assert_eq!(guard.wait().unwrap().code(), Some(0));
    everything_ends(stdout);
}

#[test]
fn a_signal_to_the_guard_itself_does_not_abandon_the_program() {
    let (mut guard, lifeline) = guarded(&[], "echo ready; sleep 1000");
    let stdout = wait_for_a_line(&mut guard);
    for signal in ["-HUP", "-INT", "-TERM"] {
        let id = guard.id().to_string();
        // The shell's own, since a small system has no program of that name.
        let kill = format!("kill {signal} {id}");
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }
    assert!(guard.try_wait().unwrap().is_none());
    drop(lifeline);
    assert_eq!(guard.wait().unwrap().code(), Some(128 + 15));
    everything_ends(stdout);
}

#[test]
fn a_program_that_cannot_start_still_loses_its_directory() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("passing");
    fs::create_dir(&dir).unwrap();
    let mut guard = Command::new(env!("CARGO_BIN_EXE_xtask"));
    guard.args(["guard", "--remove"]).arg(&dir).args(["--", "no-such-program"]);
    let output = guard.stdin(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot run `no-such-program`"));
    assert!(!dir.exists());
}
