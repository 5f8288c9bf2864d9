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

#[test]
fn the_queue_bench_measures_every_figure() {
    let small = ["--jobs", "400", "--pickups", "5", "--idle-ms", "100"];
    let bench = run(&[&["queue", "--backend", "sqlite", "--json"][..], &small].concat());
    for (part, figure) in [
        ("drain", "bare_per_s"),
        ("drain", "engine_per_s"),
        ("pickup", "insert_and_claim_us"),
        ("pickup", "engine_us"),
        ("idle", "calls_per_s"),
    ] {
        assert!(bench[part][figure].as_f64() > Some(0.0), "{part}: {bench}");
    }
}

#[test]
fn workers_that_are_killed_and_stopped_lose_and_burn_nothing() {
    let proof = run(&["worker-kill", "--kills", "10", "--stops", "5"]);
    assert!(proof["kills"].as_u64() >= Some(10) && proof["stops"].as_u64() >= Some(5), "{proof}");
    for nothing in ["lost", "over_attempts", "stale_accepted", "burnt_by_stops"] {
        assert_eq!(proof[nothing], 0, "{proof}");
    }
    // A run in which nothing happened shows nothing.
    assert!(proof["aborting_jobs_failed_after_3_crashes"].as_u64() >= Some(1), "{proof}");
    for something in ["attempts_abandoned", "attempts_released", "failed", "succeeded"] {
        assert!(proof[something].as_u64() >= Some(5), "{proof}");
    }
}

#[test]
fn the_store_bench_measures_every_figure() {
    let bench =
        run(&["store", "--backend", "sqlite", "--json", "--backlog", "20000", "--slice-ms", "5"]);
    let figures = bench["figures"].as_array().expect("figures");
    assert_eq!(figures.len(), 4);
    assert!(figures.iter().all(|figure| figure["ours_per_s"].as_f64() > Some(0.0)), "{bench}");
}
