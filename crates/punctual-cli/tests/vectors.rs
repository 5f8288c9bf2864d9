//! The project's vectors, asked through the command line in one batch.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::Value;

fn testdata(file: &str) -> String {
    let path = format!("{}/../../testdata/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn ask(questions: &[String], host_zone: &str) -> Vec<Value> {
    let mut punctual = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["cron", "next", "--batch"])
        .env("TZ", host_zone)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = punctual.stdin.take().expect("a pipe");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            stdin.write_all(questions.join("\n").as_bytes()).expect("questions are read");
        });
        punctual.wait_with_output().expect("the command ends")
    });
    assert!(output.status.success());
    let answers = String::from_utf8(output.stdout).expect("text");
    answers.lines().map(|line| serde_json::from_str(line).expect("a JSON answer a line")).collect()
}

#[test]
fn the_batch_agrees_with_every_vector() {
    let vectors: Vec<Value> = testdata("cron_vectors.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let questions: Vec<String> = vectors
        .iter()
        .map(|vector| {
            let count = vector["next"].as_array().expect("a list").len().max(1);
            serde_json::json!({"expr": vector["expr"], "tz": vector["tz"], "from": vector["from"], "n": count}).to_string()
        })
        .collect();
    let answers = ask(&questions, "UTC");
    assert_eq!(answers.len(), vectors.len());
    // Where the machine stands does not matter.
    assert_eq!(ask(&questions, "America/New_York"), answers);
    let instants = |list: &Value| -> Vec<jiff::Timestamp> {
        let slots = list["next"].as_array().unwrap_or_else(|| panic!("no answer: {list}"));
        slots.iter().map(|slot| slot.as_str().expect("text").parse().expect("an instant")).collect()
    };
    for (vector, answer) in vectors.iter().zip(&answers) {
        assert_eq!(instants(vector), instants(answer), "{vector}");
    }
}

#[test]
fn the_batch_refuses_every_bad_expression() {
    let bad = testdata("cron_bad.txt");
    let questions: Vec<String> =
        bad.lines().map(|line| serde_json::json!({"expr": line}).to_string()).collect();
    let answers = ask(&questions, "UTC");
    assert_eq!(answers.len(), questions.len());
    for (question, answer) in questions.iter().zip(&answers) {
        assert!(answer["error"].is_string(), "{question} was answered with {answer}");
    }
}

#[test]
fn an_answer_does_not_wait_for_the_end_of_the_next_question() {
    let mut punctual = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["cron", "next", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = punctual.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(punctual.stdout.take().expect("a pipe")).lines();
    let question = r#"{"expr":"@daily","from":"2027-01-01T00:00:00Z","n":1}"#;
    for _ in 0..3 {
        // A whole question and the beginning of the next one.
        stdin.write_all(format!("{question}\n{{\"expr\"").as_bytes()).expect("questions are read");
        let answer = answers.next().expect("an answer").expect("text");
        assert_eq!(answer, r#"{"next":["2027-01-02T00:00:00Z"]}"#);
        stdin.write_all(b":\"@daily\",\"n\":0}\n").expect("questions are read");
        assert_eq!(answers.next().expect("an answer").expect("text"), r#"{"next":[]}"#);
    }
    drop(stdin);
    assert!(punctual.wait().expect("the command ends").success());
}
