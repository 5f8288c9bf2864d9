//! The project's vectors: expressions whose slots several independent implementations agree
//! on, and texts that are no expressions.

use punctual_core::{Spec, Timestamp, When, Zone};
use serde::Deserialize;

#[derive(Deserialize)]
struct Vector {
    expr: String,
    tz: String,
    from: String,
    next: Vec<String>,
}

fn testdata(file: &str) -> String {
    let path = format!("{}/../../testdata/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_vector_agrees_by_next_by_iterator_and_by_count() {
    let mut seen = 0;
    for line in testdata("cron_vectors.jsonl").lines() {
        let vector: Vector = serde_json::from_str(line).unwrap();
        let spec = Spec::new(When::parse(&vector.expr).unwrap(), Zone::get(&vector.tz).unwrap());
        let from: Timestamp = vector.from.parse().unwrap();
        let expected: Vec<Timestamp> =
            vector.next.iter().map(|slot| slot.parse().unwrap()).collect();

        let by_next: Vec<Timestamp> =
            std::iter::successors(spec.next(from), |slot| spec.next(*slot))
                .take(expected.len().max(1))
                .collect();
        assert_eq!(by_next, expected, "{line}");

        let just_after = Timestamp::from_micros(from.as_micros() + 1);
        let by_iterator: Vec<Timestamp> =
            spec.slots(just_after, Timestamp::MAX, expected.len().max(1)).collect();
        assert_eq!(by_iterator, expected, "{line}");

        let until = expected
            .last()
            .map_or(Timestamp::MAX, |last| Timestamp::from_micros(last.as_micros() + 1));
        assert_eq!(spec.count(just_after, until), expected.len() as u64, "{line}");
        seen += 1;
    }
    assert_eq!(seen, 404);
}

#[test]
fn every_bad_expression_is_refused() {
    let bad = testdata("cron_bad.txt");
    for line in bad.lines() {
        assert!(When::parse(line).is_err(), "accepted: {line}");
    }
    assert_eq!(bad.lines().count(), 60);
}
