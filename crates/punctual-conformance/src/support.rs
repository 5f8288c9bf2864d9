//! Rigs that the tests of several crates need.

use std::fmt;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

/// Runs the test of this name once more, in a namespace in which it may mount and from which no
/// mount can stay behind; true if it is there already.
pub fn may_mount(test: &str) -> bool {
    const INSIDE: &str = "PUNCTUAL_TEST_MAY_MOUNT";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0);
    // Below a `chroot` the root is not a mount whose propagation can be changed.
    let can_be_private = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let propagation = if can_be_private || !is_root { "private" } else { "unchanged" };
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", propagation]);
    if !is_root {
        unshare.arg("--map-root-user");
    }
    let program = std::env::current_exe().expect("a test is a program");
    unshare.arg(program).args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    let status = unshare.status().expect("`unshare` of util-linux, to make file systems");
    assert!(status.success(), "{test} failed in its namespace: {status}");
    false
}

/// A schema on the PostgreSQL server of the tests. It is dropped at the end.
pub struct ThrowawaySchema(pub String);

impl fmt::Display for ThrowawaySchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Deref for ThrowawaySchema {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Drop for ThrowawaySchema {
    fn drop(&mut self) {
        // A test that failed can still hold locks.
        let text = format!("SET lock_timeout = '10s'; DROP SCHEMA IF EXISTS {} CASCADE", self.0);
        // A test's own runtime may be the one that is ending.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let (client, connection) =
                    tokio_postgres::connect(&postgres_url(), tokio_postgres::NoTls).await?;
                tokio::spawn(connection);
                client.batch_execute(&text).await
            })
        });
        if let Ok(Err(error)) = dropped.join() {
            eprintln!("{} was left behind: {error}", self.0);
        }
    }
}

/// Where the PostgreSQL server of the tests is.
pub fn postgres_url() -> String {
    std::env::var("PUNCTUAL_TEST_POSTGRES")
        .expect("PUNCTUAL_TEST_POSTGRES is not set; run the tests with `cargo xtask test`")
}
