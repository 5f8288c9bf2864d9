use super::*;

fn refused(change: impl FnOnce(&mut Definition)) -> String {
    let mut definition = Definition::new("0 8 * * *", "k");
    change(&mut definition);
    let now = "2027-01-01T00:00:00Z".parse().unwrap();
    definition.rule_from("s", now).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_is_named_with_its_place_and_the_way_out() {
    let mistakes = [
        refused(|it| it.when.clear()),
        refused(|it| it.when[0] = "61 * * * *".to_owned()),
        refused(|it| it.when.push("0 0 30 2 *x".to_owned())),
        refused(|it| it.when[0] = "0 0 30 2 *".to_owned()),
        refused(|it| it.when[0] = "*/5 * * * * *".to_owned()),
        refused(|it| it.tz = "Europe/Pariss".to_owned()),
        refused(|it| it.start = Some("tomorrow".to_owned())),
        refused(|it| {
            it.start = Some("2027-02-01T00:00:00Z".to_owned());
            it.end = Some("2027-01-01T00:00:00Z".to_owned());
        }),
        refused(|it| it.end = Some("2026-01-01T00:00:00Z".to_owned())),
        refused(|it| it.dst_gap = Some("later".to_owned())),
        refused(|it| it.dst_fold = Some("last".to_owned())),
        refused(|it| it.jitter = "soon".to_owned()),
        refused(|it| it.missed_window = "30s".to_owned()),
        refused(|it| it.missed_limit = 0),
        refused(|it| it.missed_pace = 5_000),
        refused(|it| it.job.timeout = Some("0s".to_owned())),
        refused(|it| it.job.backoff = Some("now and then".to_owned())),
        refused(|it| it.job.backoff = Some("linear 1h to 1m".to_owned())),
        refused(|it| it.run_on = "everywhere".to_owned()),
        refused(|it| it.pause_after_failures = Some(0)),
        refused(|it| it.job.queue = "@a".to_owned()),
        refused(|it| {
            it.run_on = "node a".to_owned();
            it.job.queue = "mails".to_owned();
        }),
        refused(|it| {
            it.run_on = "every_node".to_owned();
            it.overlap = Overlap::QueueOne;
        }),
    ];
    insta::assert_snapshot!(mistakes.join("\n"));
}

#[test]
fn a_word_that_is_no_policy_is_refused() {
    let refused = |json: &str| Definition::parse(json).unwrap_err().to_string();
    let mistakes = [
        refused(r#"{"when": ["@daily"], "overlap": "forbid", "job": {"kind": "k"}}"#),
        refused(r#"{"when": ["@daily"], "missed": "some", "job": {"kind": "k"}}"#),
        refused(r#"{"when": ["@daily"], "timezone": "UTC", "job": {"kind": "k"}}"#),
        refused(r#"{"when": ["@daily"]}"#),
    ];
    insta::assert_snapshot!(mistakes.join("\n"));
}

#[test]
fn the_stored_form_says_everything_and_reads_back() {
    let definition =
        Definition::parse(r#"{"when": ["H 8 * * *"], "job": {"kind": "digest"}}"#).unwrap();
    assert_eq!(definition, Definition::new("H 8 * * *", "digest"));
    let json = serde_json::to_string(&definition).unwrap();
    insta::assert_snapshot!(json);
    assert_eq!(Definition::parse(&json).unwrap(), definition);
}
