//! What is wrong is told, all of it, with its place and the way out.

use punctual_file::{Mistake, Source, read};

const TEN: &str = r#"set = "ops"
timezone = "Europe/Paris"

[defaults]
tz = "Europe/Pariss"
overlap = "skipp"

[[schedule]]
name = "backup"
cron = "0 25 * * *"
job = { kind = "backup", args = {} }

[[schedule]]
name = "digest"
every = "15 minuts"
jitter = 30
priority = 900
comand = ["true"]
job = "digest"

[[schedule]]
name = "backup"
at = "2027-03-28T01:00:00Z"
job = "once"
missed_window = "5s"
"#;

fn told(mistakes: &[Mistake]) -> Vec<String> {
    mistakes.iter().map(|it| format!("{}:{}", it.place.line, it.place.column)).collect()
}

#[test]
fn ten_different_mistakes_are_told_with_line_and_column() {
    let mistakes = crate::one(TEN).unwrap_err();
    let expected = [
        "2:1",   // no such key of a file
        "5:7",   // no such zone
        "6:12",  // no such policy
        "10:11", // hour 25
        "11:26", // args
        "15:10", // no length of time
        "16:10", // a number where a text should be
        "17:12", // beyond the bounds
        "18:1",  // no such key of a schedule
        "22:9",  // declared twice
    ];
    assert_eq!(told(&mistakes.0), expected, "{mistakes}");
    insta::assert_snapshot!("ten_mistakes", mistakes);
}

#[test]
fn a_file_that_is_no_toml_is_told_where() {
    let mistakes = crate::one("set = \"ops\"\n[[schedule]\nname = \n").unwrap_err();
    assert!(mistakes.0.len() >= 2, "{mistakes}");
    assert!(mistakes.0[0].message.starts_with("invalid TOML"), "{mistakes}");
    assert_eq!(mistakes.0[0].place.line, 2);
}

/// One mistake, as it is told.
fn check(schedule: &str, expected: &str) {
    let text = format!("set = \"ops\"\n[[schedule]]\n{schedule}\n");
    let mistakes = crate::one(&text).unwrap_err();
    let told = mistakes.0.iter().map(|mistake| {
        let hint = mistake.hint.as_ref().map(|hint| format!(" | {hint}"));
        format!(
            "{}:{} {}{}",
            mistake.place.line,
            mistake.place.column,
            mistake.message,
            hint.unwrap_or_default()
        )
    });
    assert_eq!(told.collect::<Vec<_>>().join("\n"), expected);
}

#[test]
fn each_mistake_has_its_place_and_the_way_out() {
    check(
        "cron = \"@daily\"\njob = \"x\"",
        "2:1 the schedule has no `name` | add one, such as `name = \"nightly-backup\"`",
    );
    check(
        "name = \"a\"\njob = \"x\"",
        "2:1 the schedule has no times | add `cron`, `every` or `at`",
    );
    check(
        "name = \"a\"\ncron = \"@daily\"",
        "2:1 the schedule has no job | add `job`, `command` or `http`",
    );
    check(
        "name = \"a\"\ncron = \"@daily\"\njob = \"x\"\ncommand = [\"true\"]",
        "6:1 `command` and `job` cannot be combined | remove one of them",
    );
    check(
        "name = \"a\"\ncron = \"* * * * * *\"\njob = \"x\"",
        "4:9 the expression has 6 fields, the first is for seconds; set `seconds = true` to allow this",
    );
    check(
        "name = \"a\"\ncron = [\"@daily\", \"0 22-2 * * *\"]\njob = \"x\"",
        "4:22 hour: the range `22-2` is reversed | use `22-23,0-2`",
    );
    check(
        "name = \"a\"\ncron = \"@daily\"\nmissed_window = \"5s\"\njob = \"x\"",
        "5:18 `missed_window`: must be at least 1m; slots up to 1m late always fire",
    );
    check(
        "name = \"a\"\ncron = \"@daily\"\njob = \"x\"\nstart = \"2027-02-01T00:00:00Z\"\nend = \"2027-01-01T00:00:00Z\"",
        "7:8 `end`: 2027-01-01T00:00:00Z is before `start` (2027-02-01T00:00:00Z)",
    );
    check(
        "name = \"a\"\ncron = \"@daily\"\ncommand = \"ls -l\"",
        "5:11 `command` must be an array or a table, got a string | for example, `command = [\"pg_dump\", \"-Fc\", \"app\"]`; for a shell command, `command = { argv = [\"…\"], shell = true }`",
    );
    check(
        "name = \"a\"\ncron = \"@daily\"\ncommand = { argv = [\"x\"], usr = \"root\" }",
        "5:27 unknown key `usr` in `command` | did you mean `user`?",
    );
    check(
        "name = \"a\"\ncron = \"@daily\"\njob = \"x\"\nrun_on = \"nodes\"",
        "6:11 `run_on`: unknown value `nodes`; expected one of any, every_node, node NAME, label KEY=VALUE",
    );
    check(
        "name = \"a\"\ncron = \"@daily\"\njob = \"x\"\nbackoff = \"10s\"",
        "6:12 `backoff`: invalid backoff `10s`; use a value such as `exponential 5s to 15m`, `linear 10s` or `fixed 30s`",
    );
    check(
        "name = \"a\"\ncron = \"@daily\"\njob = \"x\"\nbackoff = 10",
        "6:11 `backoff` must be a string, got an integer | for example, `backoff = \"exponential 10s to 1h\"`",
    );
    check(
        "name = \"a\"\ncron = \"@daily\"\njob = \"x\"\nretry = { max_attempts = 3 }",
        "6:1 unknown key `retry` in `[[schedule]]` | did you mean `max_attempts` and `backoff`?",
    );
    check(
        "name = \"a\"\ncron = \"@daily\"\njob = \"x\"\nrenamed_from = \"a\"",
        "6:17 `renamed_from` is the current name, `a` | remove `renamed_from`",
    );
    check(
        "name = \"a\"\nat = \"2027-03-28T02:30\"\ntz = \"Europe/Paris\"\njob = \"x\"",
        "4:7 local time `2027-03-28T02:30` does not exist in Europe/Paris; use 2027-03-28T00:30:00Z or 2027-03-28T01:30:00Z",
    );
}

#[test]
fn a_deprecated_key_is_read_with_a_warning() {
    let file = |key: &str, place: &str| {
        let (defaults, schedule) = match place {
            "defaults" => (format!("[defaults]\n{key} = \"10m\"\n"), String::new()),
            _ => (String::new(), format!("{key} = \"10m\"\n")),
        };
        format!(
            "set = \"ops\"\n{defaults}[[schedule]]\nname = \"a\"\ncron = \"@daily\"\njob = \"x\"\n{schedule}"
        )
    };
    for (place, line) in [("schedule", 6), ("defaults", 3)] {
        let old = crate::one(&file("must_start_within", place)).unwrap();
        let new = crate::one(&file("start_within", place)).unwrap();
        assert_eq!(old.schedules[0].definition, new.schedules[0].definition);
        assert_eq!(new.schedules[0].definition.job.start_within.as_deref(), Some("10m"));
        assert_eq!(told(&old.warnings), [format!("{line}:1")]);
        assert_eq!(
            old.warnings[0].message,
            "`must_start_within` is deprecated; use `start_within`"
        );
        assert_eq!(new.warnings, []);
        let written = punctual_file::write("ops", &old.schedules);
        assert!(written.contains("\nstart_within = \"10m\"\n"), "{written}");
    }
}

#[test]
fn a_key_and_its_deprecated_name_cannot_be_combined() {
    check(
        "name = \"a\"\ncron = \"@daily\"\njob = \"x\"\nstart_within = \"10m\"\nmust_start_within = \"5m\"",
        "7:1 `start_within` and `must_start_within` cannot be combined | remove `must_start_within`, which is deprecated",
    );
    // A schedule may override a default that has the deprecated name.
    let text = "set = \"ops\"\n[defaults]\nmust_start_within = \"5m\"\n[[schedule]]\nname = \"a\"\n\
        cron = \"@daily\"\njob = \"x\"\nstart_within = \"10m\"\n";
    let set = crate::one(text).unwrap();
    assert_eq!(set.schedules[0].definition.job.start_within.as_deref(), Some("10m"));
    assert_eq!(told(&set.warnings), ["3:1"]);
}

#[test]
fn the_file_as_a_whole_is_checked() {
    let mistake = |text: &str| crate::one(text).unwrap_err().0.remove(0).message;
    assert_eq!(mistake(""), "missing key `set`");
    assert_eq!(
        mistake("set = \"code:shop\""),
        "set names that start with `code:` are reserved for schedules declared in code"
    );
    assert_eq!(
        mistake("set = \"a\"\n[schedule]\nname = \"x\""),
        "`schedule` must be an array of tables"
    );
    assert_eq!(mistake("set = 7"), "`set` must be a string, got an integer");
}

#[test]
fn names_are_one_of_a_kind_over_all_files() {
    let file = |set: &str, name: &str| {
        format!("set = \"{set}\"\n[[schedule]]\nname = \"{name}\"\nevery = \"1h\"\njob = \"x\"\n")
    };
    let (first, second) = (file("ops", "a"), file("ops", "b"));
    let sources = |other: &str| {
        [
            Source::new("1.toml", &*first),
            Source::new("2.toml", &*second),
            Source::new("3.toml", other),
        ]
    };
    let sets = read(&sources(&file("web", "c"))).unwrap();
    let names: Vec<(&str, usize)> =
        sets.iter().map(|set| (set.name.as_str(), set.schedules.len())).collect();
    assert_eq!(names, [("ops", 2), ("web", 1)]);
    let mistakes = read(&sources(&file("web", "b"))).unwrap_err();
    assert_eq!(mistakes.0.len(), 1);
    let told = mistakes.0[0].to_string();
    assert!(
        told.starts_with("3.toml:3:9: schedule `b` is declared twice; first at 2.toml:3:9"),
        "{told}"
    );
    let renamed = file("web", "c").replace("every", "renamed_from = \"a\"\nevery");
    let told = read(&sources(&renamed)).unwrap_err().to_string();
    assert!(
        told.contains("is renamed from `a`, but that schedule is also declared, at 1.toml:3:9"),
        "{told}"
    );
}

#[test]
fn what_is_wrong_with_calendars_is_told_with_line_and_column() {
    let text = r#"set = "ops"

[calendars.holidays]
dates = ["2027-12-24", "2027-02-30"]
weekly = ["Saturday"]
ics = "none.ics"
days = ["12-25"]

[calendars.odd]
dates = "12-25"

[defaults]
exclude = ["@holydays", "12-24"]
on_excluded = "next_workday"

[[schedule]]
name = "digest"
cron = "0 8 * * *"
exclude = ["@holidays", "@mine", "Sunday", "12-24"]
job = "digest"

[[schedule]]
name = "often"
cron = "*/5 * * * *"
exclude = ["@holidays", "Sat"]
on_excluded = "next_working_day"
job = "digest"
"#;
    let mistakes = crate::one(text).unwrap_err();
    let expected = [
        "4:25",  // no such date
        "5:12",  // no such day of the week
        "6:8",   // no such file
        "7:1",   // no such key
        "10:9",  // no list
        "13:13", // no such calendar, did you mean
        "14:16", // no such choice
        "19:26", // no such calendar at all
        "19:35", // no such day of the week
        "26:16", // too often to move
    ];
    assert_eq!(told(&mistakes.0), expected, "{mistakes}");
    insta::assert_snapshot!("calendars", mistakes);
}
