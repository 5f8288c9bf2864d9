//! Each thing that can be wrong with an installation, found by the command that people give.
//!
//! Nothing runs: a database is made as it would be found, with a node that seems to be alive.

use std::path::Path;
use std::time::Duration;

use punctual::rusqlite::Connection;
use punctual_core::{JobId, Timestamp};
use serde_json::Value;

use crate::process::{punctual, text};

/// What time it is, as SQLite tells it.
const NOW: &str = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)";

/// A database in which all is well: a node that has just been heard of leads what there is to lead.
fn well(directory: &Path) {
    run(directory, &["db", "migrate"]);
    change(
        directory,
        "INSERT INTO punctual_node (id, name, version, queues, kinds, labels, joined_at, seen_at)
         VALUES (x'01932b2f7c007a3e8f210d6f3c5b9a10', 'web-1', '0.1.0', '[\"default\"]', '[\"echo\"]', '[]', {now}, {now});
         INSERT INTO punctual_leader (role, term, nonce, node, since, lease_until, renewed_at, watched)
         SELECT role, 1, id, id, {now}, {now} + 3600000000, {now}, 0
         FROM punctual_node, (SELECT 'scheduler/0' AS role UNION ALL SELECT 'maintenance')",
    );
}

/// Runs a command on the database.
fn run(directory: &Path, args: &[&str]) {
    let mut command = punctual(directory, args);
    let output = command.args(["--database", "sqlite://found.db"]).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
}

/// Changes the database by hand.
fn change(directory: &Path, statements: &str) {
    let db = Connection::open(directory.join("found.db")).unwrap();
    db.execute_batch(&statements.replace("{now}", NOW)).unwrap();
}

/// What `doctor` finds, and its exit code.
fn doctor(directory: &Path) -> (Vec<String>, Option<i32>) {
    let mut command = punctual(directory, &["doctor", "--json"]);
    let output = command.args(["--database", "sqlite://found.db"]).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    let findings = found["findings"].as_array().unwrap();
    let problems = findings.iter().filter(|finding| finding["severity"] == "problem");
    let codes = problems.map(|finding| finding["code"].as_str().unwrap().to_owned());
    (codes.collect(), output.status.code())
}

#[test]
#[expect(clippy::disallowed_methods, reason = "SQLite goes by the clock of this host, too")]
fn doctor_finds_what_is_wrong_and_says_so_with_its_exit_code() {
    let hour = "3600000000";
    let schedule = ["schedule", "create", "hourly", "--every", "1h", "--kind", "echo"];
    let set = |what: &str| format!("UPDATE punctual_schedule SET {what}");
    let old = Timestamp::from_jiff(jiff::Timestamp::now()) - Duration::from_secs(30 * 86_400);
    let id: String =
        JobId::mint(old, [7; 10]).as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let situations: [(&str, Vec<&[&str]>, String, &str); 8] = [
        (
            "a node that is silent, and nobody declares it dead",
            vec![],
            format!(
                "UPDATE punctual_leader SET watched = {hour};
                 INSERT INTO punctual_node (id, name, version, queues, kinds, labels, joined_at, seen_at)
                 VALUES (x'01932b2f7c007a3e8f210d6f3c5b9a11', 'web-2', '0.1.0', '[]', '[]', '[]', 0, {{now}} - {hour})"
            ),
            "node_silent",
        ),
        (
            "a kind that no node handles",
            vec![&["job", "enqueue", "unheard-of", "--allow-unknown-kind"]],
            format!("UPDATE punctual_job_ready SET due_at = {{now}} - {hour}"),
            "no_node_for_kind",
        ),
        (
            "a schedule that is behind",
            vec![&schedule],
            set(&format!("next_slot = {{now}} - {hour}")),
            "firing_late",
        ),
        (
            "an old schema",
            vec![],
            "UPDATE punctual_meta SET value = 0 WHERE name = 'schema_version'".to_owned(),
            "schema_old",
        ),
        (
            "clocks that differ",
            vec![],
            format!("UPDATE punctual_node SET seen_at = {{now}} + {hour}"),
            "clock_skew",
        ),
        (
            "a pause that is past its end",
            vec![&schedule],
            set(&format!(
                "next_slot = {{now}} - 3 * {hour}, pause_who = 'ada', pause_why = '', pause_since = {{now}} - 2 * {hour}, pause_until = {{now}} - {hour}"
            )),
            "pause_expired",
        ),
        (
            "a schedule whose jobs fail again and again",
            vec![
                &schedule,
                &["schedule", "run", "hourly"],
                &["schedule", "run", "hourly"],
                &["schedule", "run", "hourly"],
            ],
            "INSERT INTO punctual_job_done (job, outcome, finished_at, attempt, spent, crashes, queue, kind, error)
             SELECT job, 2, {now}, 5, 5, 0, queue, kind, 'no luck' FROM punctual_job_ready;
             DELETE FROM punctual_job_live;
             DELETE FROM punctual_job_ready"
                .to_owned(),
            "jobs_fail",
        ),
        (
            "history that nobody prunes",
            vec![&["job", "enqueue", "echo"]],
            format!(
                "INSERT INTO punctual_job_done (job, outcome, finished_at, attempt, spent, crashes)
                 VALUES (x'{id}', 1, {{now}} - 30 * 24 * {hour}, 1, 1, 0);
                 UPDATE punctual_job SET id = x'{id}', created_at = {{now}} - 30 * 24 * {hour};
                 DELETE FROM punctual_job_ready"
            ),
            "history_overdue",
        ),
    ];
    for (what, commands, statements, code) in situations {
        let directory = tempfile::tempdir().unwrap();
        well(directory.path());
        assert_eq!(doctor(directory.path()), (vec![], Some(0)), "before: {what}");
        commands.iter().for_each(|args| run(directory.path(), args));
        change(directory.path(), &statements);
        assert_eq!(doctor(directory.path()), (vec![code.to_owned()], Some(1)), "{what}");
    }
}

#[test]
fn what_is_wrong_is_told_in_words() {
    let directory = tempfile::tempdir().unwrap();
    well(directory.path());
    run(directory.path(), &["job", "enqueue", "unheard-of", "--allow-unknown-kind"]);
    change(directory.path(), "UPDATE punctual_job_ready SET due_at = {now} - 3600000000");
    let mut command = punctual(directory.path(), &["doctor"]);
    let output = command.args(["--database", "sqlite://found.db"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stdout);
    assert!(told.contains("unheard-of") && told.contains("    → "), "{told}");
    assert!(told.lines().last().unwrap().starts_with("1 problem, 0 warnings"), "{told}");
}
