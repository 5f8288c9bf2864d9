//! A crontab line that a server records, whatever becomes of the server.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::process::{Serving, punctual, text};

const TOKEN: &str = "a-token-that-is-long-enough";

/// Runs a line of shell as crontab would, with a server in its environment.
fn exec(here: &Path, server: &str, args: &[&str], line: &str) -> Output {
    let mut command = punctual(here, args);
    command.env("PUNCTUAL_SERVER", server).env("PUNCTUAL_TOKEN", TOKEN);
    command.args(["exec", "backup", "--", "sh", "-c", line]).output().unwrap()
}

fn exit_and_output(output: &Output) -> (Option<i32>, String, String) {
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// It ran once, its exit code was passed on, and stderr says that the run is not recorded.
fn is_not_recorded(here: &Path, output: &Output, code: i32) {
    let (ended, _, err) = exit_and_output(output);
    assert_eq!(ended, Some(code), "{err}");
    assert!(err.contains("not recorded: ") && err.lines().count() == 1, "{err}");
    assert_eq!(std::fs::read_to_string(here.join("ran")).unwrap(), "x\n");
}

#[expect(clippy::disallowed_methods, reason = "a deadline for a process of its own")]
fn wait_for(file: &Path) {
    let until = Instant::now() + Duration::from_secs(30);
    while !file.exists() {
        assert!(Instant::now() < until, "{} never comes", file.display());
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn a_crontab_line_is_recorded_by_a_server() {
    let place = tempfile::tempdir().unwrap();
    let here = place.path();
    let serving = Serving::start_with(here, &["serve"], &[("PUNCTUAL_TOKEN", TOKEN)]);
    let failing = exec(here, &serving.url, &[], "echo out; echo err >&2; echo x >> ran; exit 3");
    assert_eq!(exit_and_output(&failing), (Some(3), "out\n".to_owned(), "err\n".to_owned()));
    assert_eq!(std::fs::read_to_string(here.join("ran")).unwrap(), "x\n");
    let long = exec(here, &serving.url, &[], "seq 1 12000");
    assert_eq!(
        (long.status.code(), long.stdout.len()),
        (Some(0), 60_894),
        "{:?}",
        exit_and_output(&long).2
    );

    let ask = |args: &[&str]| serving.ask(&[args, &["--token", TOKEN]].concat());
    let jobs = ask(&["job", "list", "--kind", "exec"]);
    let jobs = jobs["items"].as_array().unwrap();
    let states: Vec<&str> = jobs.iter().map(|job| job["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["succeeded", "failed"]);
    let show = |job: &serde_json::Value| {
        let run = |what: &str| {
            let id = job["id"].as_str().unwrap();
            text(&serving.run(&["job", what, id, "--token", TOKEN]).stdout)
        };
        (run("show"), run("logs"))
    };
    let (shown, logs) = show(&jobs[1]);
    assert!(shown.contains("exit code 3") && shown.contains("backup"), "{shown}");
    assert!(logs.contains("out") && logs.contains("err"), "{logs}");
    let (shown, logs) = show(&jobs[0]);
    assert!(shown.contains("exit_code"), "{shown}");
    assert!(logs.contains("9999") && logs.contains("the log of this attempt is full"));
    // Nobody is left who could be missed.
    let nodes = text(&serving.run(&["node", "list", "--token", TOKEN]).stdout);
    assert!(!nodes.contains("exec backup"), "{nodes}");

    // What is on the command line goes before the environment, and names one.
    let other = format!("sqlite://{}", here.join("other.db").display());
    let args = ["--database", &other];
    let elsewhere = exec(here, "http://127.0.0.1:1", &args, "exit 6");
    assert_eq!(exit_and_output(&elsewhere), (Some(6), String::new(), String::new()));
    let listed = punctual(here, &["job", "list", "--database", &other]).output().unwrap();
    assert!(text(&listed.stdout).contains("exec"), "{}", text(&listed.stdout));
    let both = ["--server", &serving.url, "--database", &other];
    let (code, _, err) = exit_and_output(&exec(here, &serving.url, &both, "true"));
    assert_eq!(code, Some(2));
    assert!(err.contains("cannot be combined"), "{err}");
}

#[test]
fn the_password_file_of_the_environment_is_masked_in_the_log() {
    let place = tempfile::tempdir().unwrap();
    let here = place.path();
    let file = here.join("password");
    std::fs::write(&file, "password-of-the-file-5733\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let database = ["--database", "sqlite://jobs.db"];
    let mut command = punctual(here, &database);
    command.env("PUNCTUAL__DATABASE__PASSWORD_FILE", &file);
    let output = command.args(["exec", "backup", "--", "cat", "password"]).output().unwrap();
    assert_eq!(
        exit_and_output(&output),
        (Some(0), "password-of-the-file-5733\n".into(), String::new())
    );
    let run =
        |args: &[&str]| text(&punctual(here, &[args, &database].concat()).output().unwrap().stdout);
    let jobs: serde_json::Value = serde_json::from_str(&run(&["job", "list", "--json"])).unwrap();
    let log = run(&["job", "logs", jobs["items"][0]["id"].as_str().unwrap()]);
    assert!(log.contains("•••") && !log.contains("5733"), "{log}");
}

#[test]
fn a_command_runs_once_whatever_becomes_of_the_server() {
    let places: Vec<_> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
    let at = |place: usize| places[place].path();
    let line = "echo x >> ran; exit 4";
    std::thread::scope(|scope| {
        // Nobody listens there.
        scope.spawn(|| is_not_recorded(at(0), &exec(at(0), "http://127.0.0.1:1", &[], line), 4));
        // Somebody listens and never answers.
        scope.spawn(|| {
            let silent = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}", silent.local_addr().unwrap());
            is_not_recorded(at(1), &exec(at(1), &url, &[], line), 4);
        });
        // It asks for another token.
        scope.spawn(|| {
            let token = [("PUNCTUAL_TOKEN", "another-token-that-is-long-enough")];
            let serving = Serving::start_with(at(2), &["serve"], &token);
            is_not_recorded(at(2), &exec(at(2), &serving.url, &[], line), 4);
        });
        // It dies while the command runs.
        scope.spawn(|| {
            let here = at(3);
            let serving = Serving::start_with(here, &["serve"], &[("PUNCTUAL_TOKEN", TOKEN)]);
            let url = serving.url.clone();
            let line = "echo x >> ran; until [ -e go ]; do sleep 0.05; done; exit 5";
            let running = scope.spawn(move || exec(here, &url, &[], line));
            wait_for(&here.join("ran"));
            serving.kill();
            std::fs::write(here.join("go"), "").unwrap();
            is_not_recorded(here, &running.join().unwrap(), 5);
        });
    });
}
