//! What a program does not get from the server that runs it.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;
use serde_json::{Value, json};

use super::{Place, run};
use crate::cluster::Database;
use crate::process::{Serving, punctual, text};

const SETTINGS: &str = "[command]\nallow_api_argv = true\n";

/// The result of a job of a server with a token.
fn run_with(server: &Serving, token: &str, payload: &Value) -> Value {
    let payload = payload.to_string();
    let args = ["job", "enqueue", "command", "--payload", &payload, "--max-attempts", "1"];
    let output = server.run(&[&args[..], &["--wait", "--json", "--token", token]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

#[test]
fn the_token_of_the_server_is_masked_in_what_a_job_stores() {
    let place = Place::new(SETTINGS);
    let token = "token-of-the-server-5730";
    let file = place.file("printed", 0o600, token);
    let server = Serving::start_with(place.path(), &["serve"], &[("PUNCTUAL_TOKEN", token)]);
    let script = "cat \"$0\"; echo; cat \"$0\" >&2; exit $1";
    let job =
        |code: &str| run_with(&server, token, &json!({ "argv": ["sh", "-c", script, file, code] }));
    let (succeeded, failed) = (job("0"), job("3"));
    assert_eq!(succeeded["result"]["stdout"], "•••", "{succeeded}");
    let error = failed["error"].as_str().unwrap();
    assert!(error.ends_with("end of stderr:\n•••"), "{failed}");
    let id = succeeded["id"].as_str().unwrap();
    let log = text(&server.run(&["job", "logs", id, "--token", token]).stdout);
    assert_eq!((log.matches("•••").count(), log.matches(token).count()), (2, 0), "{log}");
}

/// What a job stores of a file that it prints.
fn printed(server: &Serving, file: &Path) -> Value {
    run(server, &json!({ "argv": ["cat", file] }))["result"]["stdout"].clone()
}

#[test]
fn the_password_of_the_database_is_masked_in_what_a_job_stores() {
    let place = Place::new(SETTINGS);
    let database = Database::new();
    let url = database.url();
    let [first, second] = ["first-password-5731", "second-password-5732"];
    let file = place.file("password", 0o600, &format!("{first}\n"));
    let copy = place.file("copy", 0o600, first);
    let path = file.to_str().unwrap();
    let args = ["serve", "--database", &url, "--database-password-file", path];
    let server = Serving::start(place.path(), &args);
    assert_eq!(printed(&server, &file), "•••");
    // A new password needs no restart, and the old one stays masked.
    std::fs::write(&file, second).unwrap();
    assert_eq!(printed(&server, &file), "•••");
    assert_eq!(printed(&server, &copy), "•••");
    assert_eq!(server.stop(), Some(0));

    let separator = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{separator}password={first}");
    let server = Serving::start_with(place.path(), &["serve"], &[("PUNCTUAL_DATABASE", &url)]);
    assert_eq!(printed(&server, &copy), "•••");
    assert_eq!(server.stop(), Some(0));
}

/// A server that does not run as root, to which nothing is closed. The programs of its jobs run as its
/// user.
fn serve_unprivileged(place: &Place) -> Serving {
    if !rustix::process::geteuid().is_root() {
        return place.serve();
    }
    let is_open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(place.path(), is_open).unwrap();
    // The directory of the binary may be closed to others.
    let binary = place.path().join("punctual");
    std::fs::copy(env!("CARGO_BIN_EXE_punctual"), &binary).unwrap();
    let mut command = Command::new(binary);
    command.arg("serve").current_dir(place.path()).uid(65_534).gid(65_534);
    for name in ["PUNCTUAL_DATABASE", "PUNCTUAL_SERVER", "PUNCTUAL_TOKEN"] {
        command.env_remove(name);
    }
    Serving::of(command)
}

#[test]
fn a_program_cannot_read_the_environment_of_the_server_or_of_its_shim() {
    let place = Place::new(SETTINGS);
    let server = serve_unprivileged(&place);
    for whose in [&server.pid().to_string(), "$PPID"] {
        for file in ["environ", "mem", "fd/0"] {
            let script = format!("id -u; cat /proc/{whose}/{file}");
            let job = run(&server, &json!({ "argv": ["sh", "-c", script] }));
            let error = job["error"].as_str().unwrap_or_else(|| panic!("{whose} {file}: {job}"));
            assert!(error.contains("Permission denied"), "{whose} {file}: {job}");
        }
    }
    // Its own are open to it.
    let own = run(&server, &json!({ "argv": ["cat", "/proc/self/environ"] }));
    assert_eq!(own["state"], "succeeded", "{own}");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_program_inherits_no_descriptor_that_the_server_was_started_with() {
    let place = Place::new(SETTINGS);
    let file = rustix::fs::open("/dev/null", OFlags::RDONLY, Mode::empty()).unwrap();
    // They are inherited by all that this process starts.
    let inherited = [10, 251].map(|number| {
        let copy = rustix::io::fcntl_dupfd_cloexec(&file, number).unwrap();
        rustix::io::fcntl_setfd(&copy, FdFlags::empty()).unwrap();
        copy
    });
    let server = place.serve();
    // Only root may look.
    if let Ok(all) = std::fs::read_dir(format!("/proc/{}/fd", server.pid())) {
        let names: Vec<_> = all.map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().any(|name| name == "251"), "{names:?}");
    }
    let job = run(&server, &json!({ "argv": ["sh", "-c", "echo /proc/$$/fd/*"] }));
    let listed = job["result"]["stdout"].as_str().unwrap_or_else(|| panic!("{job}"));
    let numbers: Vec<u32> = listed
        .split_whitespace()
        .map(|path| path.rsplit('/').next().unwrap().parse().unwrap())
        .collect();
    // The shell reads the directory through a descriptor of its own.
    let others: Vec<&u32> = numbers.iter().filter(|number| **number > 2).collect();
    assert!(numbers.starts_with(&[0, 1, 2]) && others.len() <= 1, "{numbers:?}");
    assert!(!numbers.contains(&251), "{numbers:?}");
    drop(inherited);
}

/// Soft and hard limit of a resource, in a text like `/proc/self/limits`.
fn limits_of(name: &str, limits: &str) -> (u64, u64) {
    let line = limits.lines().find_map(|line| line.strip_prefix(name)).expect(limits);
    let number = |text: &str| if text == "unlimited" { u64::MAX } else { text.parse().unwrap() };
    let mut words = line.split_whitespace().map(number);
    (words.next().unwrap(), words.next().unwrap())
}

/// What a program of a server with these settings has.
fn limits(settings: &str) -> String {
    let place = Place::new(&format!("{SETTINGS}{settings}"));
    let job = run(&place.serve(), &json!({ "argv": ["cat", "/proc/self/limits"] }));
    job["result"]["stdout"].as_str().unwrap_or_else(|| panic!("{job}")).to_owned()
}

#[test]
fn the_default_limits_lower_and_never_raise_and_can_be_removed() {
    let own = std::fs::read_to_string("/proc/self/limits").unwrap();
    let of = |name: &str, most: u64| {
        let (soft, hard) = limits_of(name, &own);
        (soft.min(most), hard.min(most))
    };
    let default = limits("");
    assert_eq!(limits_of("Max open files", &default), of("Max open files", 65_536));
    assert_eq!(limits_of("Max processes", &default), of("Max processes", 8_192));
    let free = limits("limits = { open_files = \"none\", processes = \"none\" }\n");
    for name in ["Max open files", "Max processes"] {
        assert_eq!(limits_of(name, &free), limits_of(name, &own), "{name}");
    }
    for name in ["Max address space", "Max cpu time", "Max file size"] {
        assert_eq!(limits_of(name, &default), limits_of(name, &own), "{name}");
    }
}

#[test]
fn a_limit_that_is_none_is_refused_with_its_place() {
    let place = Place::new("[command]\nlimits = { open_files = \"lots\" }\n");
    let output = punctual(place.path(), &["config", "check"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(text(&output.stderr), @r#"error: `punctual.toml`: `command.limits.open_files` must be a whole number, "none" or "default", got "lots""#);
}
