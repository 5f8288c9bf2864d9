//! What would happen.

use punctual_core::Timestamp;
use punctual_file::simulate::{Story, simulate};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn what_is_due_while_nobody_is_there_at_the_end_is_undecided() {
    let text = "set = \"s\"\n[[schedule]]\nname = \"a\"\nevery = \"1h\"\njob = \"x\"\n\
        [[schedule]]\nname = \"off\"\nevery = \"1h\"\nenabled = false\njob = \"x\"\n";
    let (from, to) = (at("2027-01-01T00:30:00Z"), at("2027-01-01T05:00:00Z"));
    let story = Story {
        down: vec![(at("2027-01-01T02:30:00Z"), at("2027-01-01T09:00:00Z"))],
        deploys: vec![(from, crate::one(text).unwrap().schedules)],
    };
    let simulated = simulate(&story, from, to).unwrap();
    let told: Vec<String> = simulated
        .decisions
        .iter()
        .map(|it| format!("{} {} {} {}", it.schedule, it.slot, it.count, it.outcome))
        .collect();
    assert_eq!(
        told,
        [
            "a 2027-01-01T01:00:00Z 1 fired",
            "a 2027-01-01T02:00:00Z 1 fired",
            "a 2027-01-01T03:00:00Z 2 undecided",
        ]
    );
    assert!(!simulated.is_cut);
}

#[test]
fn too_much_is_cut() {
    let text = "set = \"s\"\n[[schedule]]\nname = \"a\"\nevery = \"1s\"\njob = \"x\"\n";
    let (from, to) = (at("2027-01-01T00:00:00Z"), at("2027-01-03T00:00:00Z"));
    let deploys = vec![(from, crate::one(text).unwrap().schedules)];
    let simulated = simulate(&Story { down: Vec::new(), deploys }, from, to).unwrap();
    assert!(simulated.is_cut);
    assert_eq!(simulated.decisions.len(), 100_000);
}
