//! Schedules as code, as people use them: real files, a real database, real processes.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::{punctual, text};

const DATABASE: [&str; 2] = ["--database", "sqlite://p.db"];

/// A command on the directory's database.
fn run(directory: &Path, args: &[&str]) -> Output {
    punctual(directory, &DATABASE).args(args).output().unwrap()
}

/// The same, which must end with this code; what it says on stdout and stderr.
fn says(directory: &Path, args: &[&str], code: i32) -> (String, String) {
    let output = run(directory, args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}: {out} {err}");
    (out, err)
}

fn json(directory: &Path, args: &[&str]) -> Value {
    let (out, _) = says(directory, &[args, &["--json"]].concat(), 0);
    serde_json::from_str(&out).unwrap()
}

fn example(directory: &Path) {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/schedules.toml");
    std::fs::copy(example, directory.join("s.toml")).unwrap();
    says(directory, &["db", "migrate"], 0);
}

#[test]
fn what_was_applied_differs_in_nothing_and_what_was_exported_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let here = place.path();
    example(here);
    let (out, _) = says(here, &["diff", "-f", "s.toml"], 1);
    assert!(out.starts_with("set ops: 6 to add, 0 to change, 0 to delete, 0 unchanged\n"), "{out}");
    assert!(out.contains("+ digest             every 15 minutes → send_digest"), "{out}");
    let (out, warned) = says(here, &["apply", "-f", "s.toml"], 0);
    assert!(warned.contains("unknown job kind `send_digest`"), "{warned}");
    assert!(out.starts_with("set ops: 6 added, 0 changed, 0 deleted, 0 unchanged\n"), "{out}");
    let same = "set ops: 0 to add, 0 to change, 0 to delete, 6 unchanged\n";
    assert_eq!(says(here, &["diff", "-f", "s.toml"], 0).0, same);
    // A directory of files is the same as one file.
    std::fs::create_dir(here.join("dir")).unwrap();
    let (exported, _) = says(here, &["export", "--set", "ops"], 0);
    std::fs::write(here.join("dir/1.toml"), &exported).unwrap();
    assert_eq!(says(here, &["diff", "-f", "dir"], 0).0, same);
    let (out, _) = says(here, &["apply", "-f", "dir", "--prune", "--adopt"], 0);
    assert_eq!(out, "set ops: 0 added, 0 changed, 0 deleted, 6 unchanged\n");
    assert_eq!(says(here, &["export", "--set", "ops"], 0).0, exported);
    for schedule in json(here, &["schedule", "list"])["items"].as_array().unwrap() {
        assert_eq!(schedule["revision"], 1, "{schedule}");
    }
}

#[test]
fn a_change_is_shown_with_its_slots_and_a_pause_is_kept() {
    let place = tempfile::tempdir().unwrap();
    let here = place.path();
    example(here);
    says(here, &["apply", "-f", "s.toml"], 0);
    says(here, &["schedule", "pause", "sync-crm", "--why", "their server moves"], 0);
    let text = std::fs::read_to_string(here.join("s.toml")).unwrap();
    let text = text.replace("30 2 * * *", "45 2 * * *").replace("start_within = \"6h\"\n", "");
    let text = text.replace("name = \"digest\"", "name = \"news\"\nrenamed_from = \"digest\"");
    let (kept, gone) = text.split_once("[[schedule]]\nname = \"report\"").unwrap();
    assert!(gone.contains("build"));
    std::fs::write(here.join("s.toml"), kept).unwrap();
    let (out, _) = says(here, &["diff", "-f", "s.toml"], 1);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "set ops: 0 to add, 2 to change, 1 to delete, 3 unchanged");
    assert_eq!(lines[1], "~ nightly-backup");
    assert!(lines[2].starts_with("    cron           \"30 2 * * *\" "), "{out}");
    assert!(lines[2].ends_with("→  \"45 2 * * *\""), "{out}");
    assert!(lines[3].starts_with("    start_within   \"6h\""), "{out}");
    assert!(lines[4].starts_with("    next") && lines[4].contains("02:30 CE"), "{out}");
    assert!(lines[4].contains("→") && lines[4].contains("02:45 CE"), "{out}");
    assert!(out.contains("~ news   (was digest)\n"), "{out}");
    assert!(
        out.contains(
            "- report             never fired; 0 unfinished jobs   (kept; pass --prune to delete)"
        ),
        "{out}"
    );
    assert!(out.contains("(their server moves); stays paused"), "{out}");

    says(here, &["apply", "-f", "s.toml", "--prune"], 0);
    assert_eq!(run(here, &["diff", "-f", "s.toml"]).status.code(), Some(0));
    let kept = json(here, &["schedule", "show", "sync-crm"]);
    assert_eq!(kept["pause"]["why"], "their server moves");
    assert_eq!(run(here, &["schedule", "show", "report"]).status.code(), Some(3));
}

#[test]
fn an_edit_of_a_calendar_is_an_edit_of_each_schedule_that_names_it() {
    let place = tempfile::tempdir().unwrap();
    let here = place.path();
    let text = "set = \"pay\"\n[calendars.holidays]\nics = \"days.ics\"\nweekly = [\"Sat\", \"Sun\"]\n\
        [defaults]\non_excluded = \"next_working_day\"\n\
        [[schedule]]\nname = \"payroll\"\ncron = \"0 9 1 1 *\"\nexclude = [\"@holidays\"]\njob = \"pay\"\n\
        [[schedule]]\nname = \"other\"\ncron = \"0 9 * * *\"\njob = \"pay\"\n";
    std::fs::write(here.join("s.toml"), text).unwrap();
    let (_, err) = says(here, &["diff", "-f", "s.toml"], 2);
    assert!(err.contains("s.toml:3:8: cannot read `days.ics`"), "{err}");
    let event = |day: &str| {
        let lines = ["BEGIN:VCALENDAR", "BEGIN:VEVENT", day, "RRULE:FREQ=YEARLY", "END:VEVENT"];
        let text = lines.join("\r\n") + "\r\nEND:VCALENDAR\r\n";
        std::fs::write(here.join("days.ics"), text).unwrap();
    };
    event("DTSTART;VALUE=DATE:20270102");
    says(here, &["apply", "-f", "s.toml"], 0);
    event("DTSTART;VALUE=DATE:20270101");
    let (out, _) = says(here, &["diff", "-f", "s.toml"], 1);
    assert!(out.starts_with("set pay: 0 to add, 1 to change, 0 to delete, 1 unchanged\n"), "{out}");
    assert!(out.contains("    exclude") && out.contains("01-01"), "{out}");
    says(here, &["apply", "-f", "s.toml"], 0);
    assert_eq!(json(here, &["schedule", "show", "payroll"])["revision"], 2);
    assert_eq!(json(here, &["schedule", "show", "other"])["revision"], 1);
    // New Year is always excluded now, so that all that fires has moved.
    let next = json(here, &["schedule", "next", "payroll", "-n", "3"]);
    assert_eq!(next["moved"].as_array().map(Vec::len), Some(3), "{next}");
    let (out, _) = says(here, &["schedule", "next", "payroll", "-n", "1"], 0);
    assert!(out.contains("-01-01T09:00:00Z") && out.contains("  moved from "), "{out}");
    let (exported, _) = says(here, &["export", "--set", "pay"], 0);
    assert!(exported.contains("exclude = [\"01-01\", \"Sat\", \"Sun\"]"), "{exported}");
    std::fs::write(here.join("exported.toml"), exported).unwrap();
    says(here, &["diff", "-f", "exported.toml"], 0);
}

#[test]
fn mistakes_are_told_all_together_and_nothing_is_written() {
    let place = tempfile::tempdir().unwrap();
    let here = place.path();
    example(here);
    let text = std::fs::read_to_string(here.join("s.toml")).unwrap();
    let text = text
        .replace("Europe/Paris", "Europe/Pariss")
        .replace("every = \"15m\"", "every = \"often\"");
    let often = text.lines().position(|line| line.contains("often")).unwrap() + 1;
    std::fs::write(here.join("s.toml"), text).unwrap();
    for command in ["diff", "apply"] {
        let (out, err) = says(here, &[command, "-f", "s.toml"], 2);
        assert_eq!(out, "");
        assert!(err.contains("s.toml:7:7: unknown time zone `Europe/Pariss`"), "{err}");
        assert!(err.contains("hint: did you mean `Europe/Paris`?"), "{err}");
        assert!(err.contains(&format!("s.toml:{often}:10: ")), "{err}");
        assert!(err.contains("2 errors; nothing was changed"), "{err}");
    }
    assert_eq!(json(here, &["schedule", "list"])["items"].as_array().unwrap().len(), 0);
    let (out, _) = says(here, &["apply", "-f", "s.toml", "--json"], 2);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["errors"][0]["line"], 7);
    assert_eq!(says(here, &["diff", "-f", "nowhere.toml"], 2).0, "");
}

#[test]
fn a_deprecated_key_is_applied_with_a_warning() {
    let place = tempfile::tempdir().unwrap();
    let here = place.path();
    example(here);
    let text = std::fs::read_to_string(here.join("s.toml")).unwrap();
    let old = text.replace("\nstart_within", "\nmust_start_within");
    std::fs::write(here.join("old.toml"), old).unwrap();
    let warning = "old.toml:22:1: `must_start_within` is deprecated; use `start_within`";
    let (_, err) = says(here, &["diff", "-f", "old.toml"], 1);
    assert!(err.contains(warning), "{err}");
    let (_, err) = says(here, &["apply", "-f", "old.toml"], 0);
    assert!(err.contains(warning), "{err}");
    let (_, err) = says(here, &["diff", "-f", "s.toml"], 0);
    assert!(!err.contains("deprecated"), "{err}");
    let (_, err) = says(here, &["cron", "check", "old.toml"], 0);
    assert!(err.contains(warning), "{err}");
    let (exported, _) = says(here, &["export", "--set", "ops"], 0);
    assert!(exported.contains("\nstart_within = \"6h\"\n"), "{exported}");
}

/// Waits until a schedule is there, or is no more.
fn wait_for(here: &Path, name: &str) {
    #[expect(clippy::disallowed_methods, reason = "a deadline for a process of its own")]
    let deadline = Instant::now() + Duration::from_secs(30);
    while run(here, &["schedule", "show", name]).status.code() != Some(0) {
        #[expect(clippy::disallowed_methods, reason = "a deadline for a process of its own")]
        let now = Instant::now();
        assert!(now < deadline, "{name} never came");
    }
}

#[test]
fn a_watched_file_is_applied_when_it_changes() {
    let place = tempfile::tempdir().unwrap();
    let here = place.path();
    example(here);
    let mut watching = punctual(here, &["apply", "--watch", "-f", "s.toml"])
        .args(DATABASE)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(here, "digest");
    // A mistake in between does not end it.
    std::fs::write(here.join("s.toml"), "set = 7\n").unwrap();
    let text = "set = \"ops\"\n[[schedule]]\nname = \"late\"\nevery = \"1h\"\njob = \"x\"\n";
    std::fs::write(here.join("s.toml"), text).unwrap();
    wait_for(here, "late");
    watching.kill().unwrap();
    watching.wait().unwrap();
}

#[test]
fn a_wrapped_command_runs_once_and_is_recorded() {
    let place = tempfile::tempdir().unwrap();
    let here = place.path();
    let line = "echo out; echo err >&2; echo x >> ran; exit 3";
    let (out, err) = says(here, &["exec", "backup", "--", "sh", "-c", line], 3);
    assert_eq!((out.as_str(), err.as_str()), ("out\n", "err\n"));
    assert_eq!(says(here, &["exec", "backup", "--", "true"], 0).0, "");
    let jobs = json(here, &["job", "list", "--kind", "exec"]);
    let jobs = jobs["items"].as_array().unwrap();
    let states: Vec<&str> = jobs.iter().map(|job| job["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["succeeded", "failed"]);
    let shown = says(here, &["job", "show", jobs[1]["id"].as_str().unwrap()], 0).0;
    assert!(shown.contains("exit code 3") && shown.contains("backup"), "{shown}");
    let logs = says(here, &["job", "logs", jobs[1]["id"].as_str().unwrap()], 0).0;
    assert!(logs.contains("out") && logs.contains("err"), "{logs}");

    // Out of reach or not named: it runs all the same, once, and says so.
    let lost = ["--database", "sqlite:///nowhere/at/all/p.db"];
    let line = "echo x >> ran; exit 4";
    for where_to in [&lost[..], &[]] {
        let output = punctual(here, where_to).args(["exec", "b", "--", "sh", "-c", line]).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(4));
        assert!(text(&output.stderr).contains("not recorded: "), "{}", text(&output.stderr));
    }
    assert_eq!(std::fs::read_to_string(here.join("ran")).unwrap(), "x\nx\nx\n");
    let missing = says(here, &["exec", "b", "--", "/no/such/program"], 127);
    assert!(missing.1.contains("cannot run `/no/such/program`"), "{}", missing.1);
}
