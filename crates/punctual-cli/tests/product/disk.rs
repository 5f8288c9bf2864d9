//! A server whose database file is deleted, or whose disk is full.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::{Serving, punctual, text};

/// The status, the header `Retry-After` and the body of a response.
fn get(server: &Serving, path: &str) -> (u16, Option<String>, String) {
    let request = ureq::get(format!("{}{path}", server.url));
    let mut response = request.config().http_status_as_error(false).build().call().unwrap();
    let retry_after = response.headers().get("retry-after");
    let retry_after = retry_after.map(|value| value.to_str().unwrap().to_owned());
    let body = response.body_mut().read_to_string().unwrap();
    (response.status().as_u16(), retry_after, body)
}

#[test]
fn a_server_whose_database_was_deleted_accepts_nothing_and_exits_with_1() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::start(directory.path(), &["serve"]);
    server.ask(&["job", "enqueue", "echo"]);
    assert_eq!(get(&server, "/healthz/ready").0, 200);
    for file in ["punctual.db", "punctual.db-wal", "punctual.db-shm"] {
        fs::remove_file(directory.path().join(file)).unwrap();
    }
    let enqueue = server.run(&["job", "enqueue", "echo"]);
    assert_eq!(enqueue.status.code(), Some(6));
    let error = text(&enqueue.stderr);
    assert!(error.contains("was deleted or renamed while it was in use"), "{error}");
    let (status, retry_after, body) = get(&server, "/api/v1/jobs");
    assert_eq!((status, retry_after.as_deref()), (503, Some("1")), "{body}");
    let (status, _, body) = get(&server, "/healthz/ready");
    assert!(status == 503 && body.contains("was deleted or renamed"), "{body}");
    let doctor = server.run(&["doctor", "--json"]);
    assert_eq!(doctor.status.code(), Some(1));
    let findings = text(&doctor.stdout);
    assert!(findings.contains("store_stopped"), "{findings}");
    assert_eq!(server.stop(), Some(1));

    // The next start does not create an empty database in its place.
    let mut start = punctual(directory.path(), &["serve", "--listen", "127.0.0.1:0"]);
    let start = start.output().unwrap();
    assert_eq!(start.status.code(), Some(3));
    let error = text(&start.stderr);
    assert!(error.contains("restore the database from a backup"), "{error}");
    assert!(!directory.path().join("punctual.db").exists());
}

/// Runs the test of this name again in a mount namespace, where it may mount a small file system
/// that disappears with it. Returns true inside.
fn is_in_mount_namespace(test: &str) -> bool {
    const INSIDE: &str = "PUNCTUAL_TEST_MAY_MOUNT";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let is_root = fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0);
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "unchanged"]);
    if !is_root {
        unshare.arg("--map-root-user");
    }
    let program = std::env::current_exe().expect("the path of this test");
    let inside = unshare.arg(program).args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    let status = inside.status().expect("`unshare` of util-linux");
    assert!(status.success(), "{test} failed in its mount namespace: {status}");
    false
}

fn mount(options: &str, at: &Path) {
    let mut mount = Command::new("mount");
    let mounted = mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).status();
    assert!(mounted.is_ok_and(|status| status.success()), "`mount -o {options}` failed");
}

#[test]
fn a_full_disk_is_a_temporary_error_and_the_server_is_not_ready_until_there_is_space() {
    if !is_in_mount_namespace(
        "disk::a_full_disk_is_a_temporary_error_and_the_server_is_not_ready_until_there_is_space",
    ) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    mount("size=6m", directory.path());
    let server = Serving::start(directory.path(), &["serve"]);
    let payload = format!("\"{}\"", "x".repeat(20_000));
    let order = format!(r#"{{"kind":"echo","delay":"1h","payload":{payload}}}"#);
    let enqueue = || {
        let request = ureq::post(format!("{}/api/v1/jobs", server.url));
        let request = request.config().http_status_as_error(false).build();
        let mut response = request.header("content-type", "application/json").send(&order).unwrap();
        let retry_after = response.headers().get("retry-after").is_some();
        let body = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), retry_after, serde_json::from_str::<Value>(&body).unwrap())
    };
    let mut acknowledged = Vec::new();
    let (status, retry_after, problem) = loop {
        let (status, retry_after, body) = enqueue();
        match status {
            201 => acknowledged.push(body["id"].as_str().unwrap().to_owned()),
            _ => break (status, retry_after, body),
        }
    };
    assert_eq!((status, retry_after, &problem["code"]), (503, true, &json!("disk_full")));
    assert!(acknowledged.len() > 20, "{}", acknowledged.len());
    let (status, _, body) = get(&server, "/healthz/ready");
    assert!(status == 503 && body.contains("disk_full"), "{status} {body}");
    let doctor = server.run(&["doctor", "--json"]);
    assert!(doctor.status.code() == Some(1) && text(&doctor.stdout).contains("disk_full"));
    let refused = server.run(&["job", "enqueue", "echo", "--delay", "1h", "--payload", &payload]);
    assert_eq!(refused.status.code(), Some(6), "{}", text(&refused.stderr));

    mount("remount,size=64m", directory.path());
    // The last check is valid for a second.
    while get(&server, "/healthz/ready").0 != 200 {
        std::thread::park_timeout(Duration::from_millis(50));
    }
    assert_eq!(enqueue().0, 201);
    for id in acknowledged {
        assert_eq!(server.ask(&["job", "show", &id])["state"], "scheduled");
    }
    assert_eq!(server.stop(), Some(0));
}
