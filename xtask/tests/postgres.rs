//! The server that `cargo xtask test` hands to the tests is there and is new enough.

use std::env;
use std::process::Command;

#[test]
fn the_test_server_answers() {
    let Ok(url) = env::var("PUNCTUAL_TEST_POSTGRES") else {
        panic!("PUNCTUAL_TEST_POSTGRES is not set; run the tests with `cargo xtask test`");
    };
    let psql = Command::new("psql")
        .args([&url, "-XAtc", "SHOW server_version_num"])
        .output()
        .expect("psql is on PATH; run the tests with `cargo xtask test`");
    assert!(psql.status.success(), "{}", String::from_utf8_lossy(&psql.stderr));
    let version: u32 = String::from_utf8_lossy(&psql.stdout).trim().parse().unwrap();
    assert!(version >= 150_000, "PostgreSQL {version} is older than 15");
}

#[test]
fn the_test_pooler_answers() {
    let Ok(url) = env::var("PUNCTUAL_TEST_PGBOUNCER") else {
        panic!("PUNCTUAL_TEST_PGBOUNCER is not set; run the tests with `cargo xtask test`");
    };
    let psql = Command::new("psql")
        .args([&url, "-XAtc", "SELECT 7"])
        .output()
        .expect("psql is on PATH; run the tests with `cargo xtask test`");
    assert!(psql.status.success(), "{}", String::from_utf8_lossy(&psql.stderr));
    assert_eq!(String::from_utf8_lossy(&psql.stdout).trim(), "7");
}
