//! The proofs and benches at a small size: they run, and say what they should.

use std::process::Command;

use serde_json::Value;

fn run(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_punctual-bench"))
        .args(arguments)
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.starts_with(r#"{"proof":"#), "{text}");
    serde_json::from_str(text.lines().last().expect("a line")).expect("JSON")
}

#[test]
fn twenty_kills_lose_nothing_that_was_acknowledged() {
    let proof = run(&["sqlite-kill", "--kills", "20"]);
    assert_eq!(
        (&proof["kills"], &proof["lost"], &proof["integrity"]),
        (&20.into(), &0.into(), &"ok".into())
    );
    assert!(proof["enqueues_acknowledged"].as_u64() > Some(100), "{proof}");
    assert!(proof["settles_acknowledged"].as_u64() > Some(20), "{proof}");
    assert!(proof["fires_acknowledged"].as_u64() > Some(20), "{proof}");
    assert_eq!(proof["doubled"], 0);
}

/// What a bench with these arguments measured, by the name of the figure.
fn figures(arguments: &[&str]) -> Vec<(String, f64)> {
    let bench = run(arguments);
    let figures = bench["figures"].as_array().expect("figures");
    let figure = |figure: &Value| {
        let name = figure["figure"].as_str().expect("a name").to_owned();
        (name, figure["ours"].as_f64().expect("a number"))
    };
    figures.iter().map(figure).collect()
}

#[test]
fn the_queue_bench_measures_every_figure() {
    let small = ["--json", "--jobs", "400", "--rounds", "1", "--pickups", "5", "--idle-ms", "100"];
    for (backend, count) in [("sqlite", 6), ("postgres", 12)] {
        let figures = figures(&[&["queue", "--backend", backend][..], &small].concat());
        assert_eq!(figures.len(), count, "{figures:?}");
        // An idle node of which little is seen may do nothing.
        for (name, ours) in &figures {
            assert!(*ours > 0.0 || name.contains("idle node"), "{name}: {ours}");
        }
    }
}

#[test]
fn the_queue_limit_bench_compares_two_nodes_with_one() {
    let small = ["queue-limit", "--backend", "postgres", "--json", "--jobs", "3", "--rounds", "1"];
    let figures = figures(&small);
    assert!(matches!(&figures[..], [(_, rate)] if *rate > 0.0), "{figures:?}");
}

#[test]
fn settling_is_measured_under_stale_and_fresh_statistics() {
    let small = ["stale-statistics", "--backend", "postgres", "--json"];
    let figures = figures(&[&small[..], &["--leases", "2000", "--rounds", "1"]].concat());
    assert!(matches!(&figures[..], [(_, rate)] if *rate > 0.0), "{figures:?}");
}

#[test]
fn servers_are_measured_under_load_and_without() {
    let sizes: [(&[&str], usize); 3] = [
        (&["counts", "--queues", "30", "--jobs", "100", "--rounds", "1"], 2),
        (&["remote", "--jobs", "300", "--rounds", "1"], 3),
        (&["lists", "--jobs", "2000", "--connections", "40", "--slots", "2"], 5),
    ];
    for backend in ["sqlite", "postgres"] {
        for (size, count) in sizes {
            let figures = figures(&[&["load", "--backend", backend, "--json"], size].concat());
            assert_eq!(figures.len(), count, "{figures:?}");
            for (name, ours) in &figures {
                assert!(*ours > 0.0 || name.contains("503"), "{name}: {ours}");
            }
        }
    }
}

/// Kills and stops workers on a database, and looks at what it says.
fn kill_and_stop(backend: &[&str]) {
    let proof = run(&[&["worker-kill", "--kills", "6", "--stops", "3"][..], backend].concat());
    assert!(proof["kills"].as_u64() >= Some(6) && proof["stops"].as_u64() >= Some(3), "{proof}");
    for nothing in
        ["lost", "doubled", "unfinished", "over_attempts", "stale_accepted", "burnt_by_stops"]
    {
        assert_eq!(proof[nothing], 0, "{proof}");
    }
    // A run in which nothing happened shows nothing.
    assert!(proof["aborting_jobs_failed_after_3_crashes"].as_u64() >= Some(1), "{proof}");
    for something in ["attempts_abandoned", "attempts_released", "failed", "succeeded"] {
        assert!(proof[something].as_u64() >= Some(5), "{proof}");
    }
}

#[test]
fn workers_that_are_killed_and_stopped_lose_and_burn_nothing() {
    kill_and_stop(&["--backend", "sqlite"]);
}

#[test]
fn nor_do_three_at_once_on_postgresql() {
    kill_and_stop(&["--backend", "postgres"]);
}

#[test]
fn nor_do_they_through_a_pooler() {
    kill_and_stop(&["--backend", "postgres", "--pooled"]);
}

/// Kills workers whose handlers settle in their own transaction, and looks at the effects.
fn once(backend: &str) {
    let proof = run(&["exactly-once", "--backend", backend, "--kills", "5"]);
    assert_eq!(
        (&proof["kills"], &proof["doubled"], &proof["missing"]),
        (&5.into(), &0.into(), &0.into())
    );
    assert_eq!(proof["jobs"], 200, "{proof}");
    assert_eq!(proof["effects"], proof["jobs"], "{proof}");
}

#[test]
fn a_job_that_settles_in_its_own_transaction_has_one_effect_on_sqlite() {
    once("sqlite");
}

#[test]
fn and_on_postgresql() {
    once("postgres");
}

/// Half a minute of faults, for which the time of a test is too short to see each kind.
fn faults(more: &[&str]) {
    let proof = run(&[&["pg-faults", "--seconds", "30", "--untimed"][..], more].concat());
    for nothing in [
        "lost",
        "doubled",
        "unfinished",
        "over_attempts",
        "stale_accepted",
        "leases_left",
        "burnt_by_stops",
    ] {
        assert_eq!(proof[nothing], 0, "{proof}");
    }
    for something in ["acknowledged", "keys", "cuts_after_commit", "recoveries", "answers_unknown"]
    {
        assert!(proof[something].as_u64() >= Some(1), "{proof}");
    }
}

#[test]
fn a_server_that_crashes_and_connections_that_are_cut_lose_nothing() {
    faults(&["--seed", "1"]);
}

#[test]
fn nor_do_they_behind_a_pooler() {
    faults(&["--seed", "2", "--pooled"]);
}

/// Lets schedules fire each second while nodes die, and looks at what became of their slots.
fn slots(more: &[&str]) {
    // A kind of fault that did not happen fails the proof itself.
    let proof = run(&[&["slots"][..], more].concat());
    for nothing in [
        "lost",
        "doubled",
        "early",
        "phantom",
        "skipped",
        "out_of_term",
        "at_once",
        "overlapping",
        "unfinished",
    ] {
        assert_eq!(proof[nothing], 0, "{proof}");
    }
    assert!(proof["slots"].as_u64() >= Some(500), "{proof}");
}

#[test]
fn no_slot_is_lost_doubled_or_early_when_nodes_and_servers_die() {
    slots(&["--backend", "postgres", "--seconds", "30", "--seed", "3", "--untimed"]);
}

#[test]
fn nor_is_one_behind_a_pooler() {
    slots(&["--backend", "postgres", "--seconds", "30", "--seed", "4", "--pooled", "--untimed"]);
}

#[test]
fn nor_is_one_on_sqlite() {
    slots(&["--backend", "sqlite", "--kills", "10"]);
}

#[test]
fn the_store_bench_measures_every_figure() {
    let small = ["--json", "--backlog", "10000", "--slice-ms", "5", "--held-seconds", "1"];
    for (backend, count) in [("sqlite", 5), ("postgres", 12)] {
        let figures = figures(&[&["store", "--backend", backend][..], &small].concat());
        assert_eq!(figures.len(), count, "{figures:?}");
        // The log is the whole server's, to which other tests write at the same time.
        let is_measured =
            |(name, ours): &(String, f64)| *ours > 0.0 || name.starts_with("log per job");
        assert!(figures.iter().all(is_measured), "{figures:?}");
    }
}

/// It writes to the tables of schedules by itself, and must know them.
#[test]
fn the_schedule_bench_measures_fires() {
    let small = ["--json", "--only", "speed", "--schedules", "2000", "--due", "500"];
    for backend in ["sqlite", "postgres"] {
        let figures = figures(&[&["schedule", "--backend", backend][..], &small].concat());
        assert!(!figures.is_empty() && figures.iter().all(|(_, ours)| *ours > 0.0), "{figures:?}");
    }
}

#[test]
fn fresh_slots_are_measured_beside_a_backlog() {
    let small = ["schedule", "--backend", "postgres", "--json", "--only", "backlog"];
    let figures = figures(&[&small[..], &["--backlog", "3000"]].concat());
    assert_eq!(figures.len(), 4, "{figures:?}");
    assert!(figures.iter().all(|(_, ours)| *ours > 0.0), "{figures:?}");
}

/// With next to nothing in it, both in time and in weight.
#[test]
fn every_page_of_the_dashboard_is_measured() {
    let small = ["--jobs", "2000", "--slots", "40", "--schedules", "20"];
    for backend in ["sqlite", "postgres"] {
        let proof = run(&[&["dashboard", "--backend", backend, "--untimed"][..], &small].concat());
        let pages = proof["pages"].as_array().expect("pages");
        assert!(pages.len() > 20, "{proof}");
        assert!(pages.iter().all(|page| page["bytes"].as_u64() > Some(1_000)), "{proof}");
    }
}
