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
fn the_store_bench_measures_every_figure() {
    let bench =
        run(&["store", "--backend", "sqlite", "--json", "--backlog", "20000", "--slice-ms", "5"]);
    let figures = bench["figures"].as_array().expect("figures");
    assert_eq!(figures.len(), 4);
    assert!(figures.iter().all(|figure| figure["ours_per_s"].as_f64() > Some(0.0)), "{bench}");
}
