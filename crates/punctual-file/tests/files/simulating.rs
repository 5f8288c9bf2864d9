//! What would happen.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_file::simulate::{Decision, Story, simulate};

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
        ..Story::default()
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
    assert!(!simulated.is_truncated);
}

#[test]
fn too_much_is_cut() {
    let text = "set = \"s\"\n[[schedule]]\nname = \"a\"\nevery = \"1s\"\njob = \"x\"\n";
    let (from, to) = (at("2027-01-01T00:00:00Z"), at("2027-01-03T00:00:00Z"));
    let deploys = vec![(from, crate::one(text).unwrap().schedules)];
    let simulated = simulate(&Story { deploys, ..Story::default() }, from, to).unwrap();
    assert!(simulated.is_truncated);
    assert_eq!(simulated.decisions.len(), 100_000);
}

/// Every ten minutes a job that takes twenty-five; when it starts and ends.
fn overlapping(overlap: &str) -> Vec<String> {
    let text = format!(
        "set = \"s\"\n[[schedule]]\nname = \"a\"\nevery = \"10m\"\noverlap = \"{overlap}\"\njob = \"x\"\n"
    );
    let (from, to) = (at("2027-01-01T00:05:00Z"), at("2027-01-01T00:59:00Z"));
    let story = Story {
        deploys: vec![(from, crate::one(&text).unwrap().schedules)],
        takes: [("a".to_owned(), Duration::from_secs(25 * 60))].into(),
        ..Story::default()
    };
    let minute = |instant: Option<Timestamp>| {
        instant.map_or("–".to_owned(), |it| it.to_string()["2027-01-01T".len()..][..5].to_owned())
    };
    let line = |it: &Decision| {
        let times = [Some(it.slot), it.starts_at, it.ends_at].map(minute).join(" ");
        format!("{times} {} {}", it.outcome, it.reason.as_deref().unwrap_or(""))
    };
    simulate(&story, from, to).unwrap().decisions.iter().map(line).collect()
}

#[test]
fn jobs_that_take_longer_than_their_period_go_by_the_policy() {
    let unfinished = |slot: &str| format!("the job of slot 2027-01-01T00:{slot}:00Z is unfinished");
    let skipped =
        |slot: &str, before: &str| format!("00:{slot} – – skipped_overlap {}", unfinished(before));
    assert_eq!(
        overlapping("skip"),
        [
            "00:10 00:10 00:35 fired ".to_owned(),
            skipped("20", "10"),
            skipped("30", "10"),
            "00:40 00:40 01:05 fired ".to_owned(),
            skipped("50", "40"),
        ]
    );
    assert_eq!(
        overlapping("queue_one"),
        [
            "00:10 00:10 00:35 fired ",
            "00:20 00:35 01:00 fired ",
            "00:30 – – skipped_overlap jobs already waiting: 1",
            "00:40 – – fired ",
            "00:50 – – skipped_overlap jobs already waiting: 1",
        ]
    );
    assert_eq!(
        overlapping("queue_all"),
        [
            "00:10 00:10 00:35 fired ",
            "00:20 00:35 01:00 fired ",
            "00:30 – – fired ",
            "00:40 – – fired ",
            "00:50 – – fired ",
        ]
    );
    assert_eq!(
        overlapping("cancel_running"),
        [
            "00:10 00:10 00:20 fired ",
            "00:20 00:20 00:30 fired ",
            "00:30 00:30 00:40 fired ",
            "00:40 00:40 00:50 fired ",
            "00:50 00:50 01:15 fired ",
        ]
    );
    assert_eq!(
        overlapping("allow")[1..3],
        ["00:20 00:20 00:45 fired ", "00:30 00:30 00:55 fired "]
    );
}
