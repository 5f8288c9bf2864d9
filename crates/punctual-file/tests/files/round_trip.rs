//! What is written is read as it was, byte by byte.

use std::path::Path;

use punctual_core::schedule::Definition;
use punctual_file::{Declared, schema, write};
use serde_json::json;

const EVERYTHING: &str = r#"set = "ops"

[[schedule]]
name = "all of it"
enabled = false
cron = ["0 8 * * MON-FRI", "0 12 * * SAT"]
every = "1h/H"
at = "2027-03-28T03:00:00+02:00"
tz = "Europe/Paris"
start = "2027-01-01T00:00:00Z"
end = "2028-01-01T00:00:00Z"
jitter = "2m"
dst_gap = "skip"
dst_fold = "both"
missed = "all"
missed_window = "2d"
missed_limit = 10
missed_pace = 2
missed_paused = true
overlap = "queue_one"
queue = "ops"
priority = -5
max_attempts = 3
backoff = "exponential 10s to 1h"
timeout = "2h"
budget = "5h"
must_start_within = "10m"
tags = ["db", "nightly"]

[schedule.job]
kind = "backup"
payload = { deep = [1, { a = true }], to = 's3://"x"' }

[[schedule]]
name = "command"
cron = "@daily"
command = ["pg_dump", "-Fc", "app"]

[[schedule]]
name = "http"
cron = "@daily"
http = { method = "POST", url = "https://crm.example/sync" }

[[schedule]]
name = "nothing"
cron = "@daily"
job = { kind = "tick" }

[[schedule]]
name = "shell"
cron = "@daily"

[schedule.command]
argv = ["cd /srv && ./report | mail -s 'done' ops; echo \"it's done\""]
cwd = "/srv"
env = { LANG = "C.UTF-8", PATH = "/usr/bin:/bin" }
shell = true
stdin = "two\nlines\n"
user = "report"
"#;

#[test]
fn what_was_written_is_written_again() {
    let set = crate::one(EVERYTHING).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(write("ops", &set.schedules), EVERYTHING);
    let command = &set.schedules[1].definition.job;
    assert_eq!(
        (&command.kind[..], &command.payload),
        ("command", &json!({"argv": ["pg_dump", "-Fc", "app"]}))
    );
    assert_eq!(set.schedules[4].definition.job.payload["stdin"], "two\nlines\n");
}

#[test]
fn whatever_a_definition_holds_is_kept() {
    let mut odd = Definition::new("@every 15m", "odd");
    odd.when = vec![
        "@every 15m".to_owned(),
        "0 8 * * *".to_owned(),
        "@at 2027-01-01T00:00:00Z".to_owned(),
    ];
    let payloads = [
        json!(null),
        json!({"a": null}),
        json!([1.5, u64::MAX]),
        json!("text \u{7} with a bell and 'quotes' \"of\" \\ both kinds"),
        json!({"argv": []}),
        json!({"key with blanks": {"": 1}}),
    ];
    for payload in payloads {
        for kind in ["odd", "command", "http"] {
            odd.job.kind = kind.to_owned();
            odd.job.payload = payload.clone();
            let declared = Declared {
                name: "odd \"one\"".to_owned(),
                definition: odd.clone(),
                enabled: true,
                renamed_from: None,
                place: None,
            };
            let text = write("s", std::slice::from_ref(&declared));
            let set = crate::one(&text).unwrap_or_else(|mistakes| panic!("{text}\n{mistakes}"));
            assert_eq!(set.schedules[0].definition, odd, "{text}");
            assert_eq!(write("s", &set.schedules), text);
        }
    }
}

#[test]
fn defaults_hold_unless_a_schedule_says_otherwise() {
    let text = "set = \"s\"\n[defaults]\ntz = \"Asia/Tokyo\"\nqueue = \"ops\"\n\
        [[schedule]]\nname = \"a\"\ncron = \"@daily\"\njob = \"x\"\n\
        [[schedule]]\nname = \"b\"\ncron = \"@daily\"\ntz = \"UTC\"\njob = \"x\"\n";
    let set = crate::one(text).unwrap();
    let told: Vec<(&str, &str)> = set
        .schedules
        .iter()
        .map(|it| (it.definition.tz.as_str(), it.definition.job.queue.as_str()))
        .collect();
    assert_eq!(told, [("Asia/Tokyo", "ops"), ("UTC", "ops")]);
}

#[test]
fn the_schema_is_as_committed() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schedules.schema.json");
    let described = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if std::fs::read_to_string(&file).unwrap_or_default() != described {
        std::fs::write(&file, &described).unwrap();
        panic!(
            "docs/schedules.schema.json was not what the reader reads; it is now: look at the difference and commit it"
        );
    }
}
