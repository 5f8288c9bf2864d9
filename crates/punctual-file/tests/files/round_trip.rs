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
start_within = "10m"
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

const CALENDARS: &str = r#"set = "ops"

[calendars.holidays]
dates = [2027-12-24, "2027-12-31..2028-01-02", "12-25"]
weekly = ["Sat", "Sun 00:00-Mon 06:00"]
ics = "days.ics"

[defaults]
exclude = ["@holidays"]

[[schedule]]
name = "a"
cron = "0 9 * * *"
job = "x"

[[schedule]]
name = "b"
cron = "0 9 * * *"
exclude = ["05-01", "@holidays", "12-25"]
on_excluded = "next_working_day"
job = "x"

[[schedule]]
name = "c"
cron = "0 9 * * *"
exclude = []
job = "x"
"#;

const ICS: &str = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20270517\r\n\
    DTEND;VALUE=DATE:20270518\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";

fn with_calendars(text: &str, ics: &str) -> punctual_file::Set {
    let source = punctual_file::Source::new("a.toml", text);
    let beside = |source: &punctual_file::Source, name: &str| {
        assert_eq!((source.path.as_str(), name), ("a.toml", "days.ics"));
        Ok(ics.to_owned())
    };
    let read = punctual_file::read_beside(&[source], &beside);
    read.unwrap_or_else(|mistakes| panic!("{mistakes}")).remove(0)
}

#[test]
fn a_calendar_is_what_it_holds_to_each_schedule_that_names_it() {
    let set = with_calendars(CALENDARS, ICS);
    let excluded = |number: usize| -> Vec<&str> {
        set.schedules[number].definition.exclude.iter().map(String::as_str).collect()
    };
    let holidays = [
        "2027-12-24",
        "2027-12-31..2028-01-02",
        "12-25",
        "2027-05-17",
        "Sat",
        "Sun 00:00-Mon 06:00",
    ];
    assert_eq!(excluded(0), holidays);
    assert_eq!(excluded(1), [&["05-01"][..], &holidays].concat());
    assert_eq!(excluded(2), [""; 0]);
    // What is exported has the entries, and is the same schedules and the same bytes from then on.
    let written = write("ops", &set.schedules);
    let again = crate::one(&written).unwrap_or_else(|mistakes| panic!("{written}\n{mistakes}"));
    let definitions = |set: &punctual_file::Set| -> Vec<Definition> {
        set.schedules.iter().map(|it| it.definition.clone()).collect()
    };
    assert_eq!(definitions(&again), definitions(&set));
    assert_eq!(write("ops", &again.schedules), written);
    assert!(written.contains("on_excluded = \"next_working_day\""), "{written}");
    // Another day in the calendar is an edit of those that name it.
    let edited =
        with_calendars(&CALENDARS.replace("\"12-25\"]\nweekly", "\"12-26\"]\nweekly"), ICS);
    let changed = definitions(&edited)
        .into_iter()
        .zip(definitions(&set))
        .map(|(new, old)| new != old)
        .collect::<Vec<bool>>();
    assert_eq!(changed, [true, true, false]);
    let source = punctual_file::Source::new("a.toml", CALENDARS);
    assert_eq!(punctual_file::beside(&source), ["days.ics"]);
}
