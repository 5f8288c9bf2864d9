//! Settings of a server that change how it works.

use punctual::Timestamp;

use crate::cluster::Database;
use crate::process::{Serving, punctual, text, write_with_mode};

#[test]
fn a_server_serves_its_queues_in_strict_order() {
    let directory = tempfile::tempdir().unwrap();
    let settings =
        "[worker]\nqueues = [\"high\", \"low\"]\nqueue_order = \"strict\"\nmax_running = 1\n";
    write_with_mode(&directory.path().join("punctual.toml"), settings, 0o600);
    // A server without workers only accepts jobs.
    let server = Serving::start(directory.path(), &["serve", "--role", "api"]);
    for queue in ["low", "high"].repeat(8) {
        server.ask(&["job", "enqueue", "echo", "--queue", queue]);
    }
    assert_eq!(server.stop(), Some(0));
    let server = Serving::start(directory.path(), &["serve"]);
    // The last job of the last queue.
    server.ask(&["job", "enqueue", "echo", "--queue", "low", "--wait"]);
    let jobs = server.ask(&["job", "list", "-n", "100"]);
    let ended = |queue: &str| -> Vec<Timestamp> {
        let jobs = jobs["items"].as_array().unwrap().iter().filter(|job| job["queue"] == queue);
        jobs.map(|job| job["finished_at"].as_str().unwrap().parse().unwrap()).collect()
    };
    let (high, low) = (ended("high"), ended("low"));
    assert_eq!((high.len(), low.len()), (8, 9));
    // The results of several jobs may be written at once.
    assert!(high.iter().max() <= low.iter().min(), "high: {high:?}, low: {low:?}");
}

#[test]
fn partitions_are_created_for_as_many_days_as_configured() {
    let database = Database::new();
    let directory = tempfile::tempdir().unwrap();
    let mut migrate = punctual(directory.path(), &["db", "migrate", "--database", &database.url()]);
    let output = migrate.env("PUNCTUAL__DATABASE__PARTITION_DAYS", "2").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let partitions = || {
        database
            .count("SELECT count(*) FROM pg_inherits WHERE inhparent = 'punctual.job'::regclass")
    };
    // The default partition, today, and the days ahead.
    assert_eq!(partitions(), 4);
    let settings = format!("[database]\nurl = \"{}\"\npartition_days = 5\n", database.url());
    write_with_mode(&directory.path().join("punctual.toml"), &settings, 0o600);
    let server = Serving::start(directory.path(), &["serve"]);
    assert_eq!(partitions(), 7);
    assert_eq!(server.stop(), Some(0));
}
