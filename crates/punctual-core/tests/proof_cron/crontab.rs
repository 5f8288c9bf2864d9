//! Crontabs as people and packages have them: imported, and a year of slots of each line beside the
//! oracle, which reads the line by itself.

use std::collections::HashMap;

use punctual_core::{Timestamp, Zone};
use punctual_file::Source;
use punctual_file::crontab::{Ask, Form, import, parse};

use crate::oracle::Walk;
use crate::pattern::Pattern;

/// A leap year with two clock changes in most of these zones.
const FROM: i64 = 1_830_297_600;
const TO: i64 = FROM + 366 * 86_400;
const AT_HOME: &str = "Europe/Paris";

/// What nicknames stand for.
const NICKNAMES: &[(&str, &str)] = &[
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

#[test]
fn imported_lines_have_the_slots_that_cron_would_have() {
    let files = [
        ("user", Form::User, include_str!("../../../../testdata/crontab/user.crontab")),
        ("system", Form::System, include_str!("../../../../testdata/crontab/system.crontab")),
    ];
    let tabs = files.map(|(path, form, text)| (Source::new(path, text), form));
    let home = |user: &str| Some(format!("/srv/{user}"));
    let ask = Ask { set: "crontab", tz: AT_HOME, user: None, home: &home };
    let imported = import(&tabs, &ask);
    assert_eq!(imported.refused, []);
    let lines: Vec<String> = tabs
        .iter()
        .flat_map(|(source, form)| parse(source, *form).entries)
        .map(|entry| entry.line)
        .collect();
    assert_eq!(lines.len(), imported.schedules.len());
    assert!(lines.len() >= 60, "only {} lines", lines.len());
    // What was written is read back as it was.
    let read = punctual_file::read(&[Source::new("crontab.toml", imported.text)]);
    let read = read.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let mut walks: HashMap<&str, Walk> = HashMap::new();
    let mut slots = 0;
    for ((line, schedule), again) in lines.iter().zip(&imported.schedules).zip(&read[0].schedules) {
        assert_eq!(schedule.definition, again.definition, "{line}");
        let tz = match line {
            line if line.contains("in-new-york") => "America/New_York",
            line if line.contains("in-kathmandu") => "Asia/Kathmandu",
            _ => AT_HOME,
        };
        assert_eq!(schedule.definition.tz, tz, "{line}");
        let walk =
            walks.entry(tz).or_insert_with(|| Walk::new(&Zone::get(tz).expect("a zone"), FROM, TO));
        let first = line.split_whitespace().next().expect("a word").trim_start_matches('-');
        let nickname = NICKNAMES.iter().find(|(name, _)| *name == first);
        let text = nickname.map_or(line.trim_start_matches('-'), |(_, fields)| *fields);
        let fields: Vec<&str> = text.split_whitespace().take(5).collect();
        let fields: [&str; 5] = fields.try_into().expect("five fields");
        let expected = walk.slots(&Pattern::of_crontab(fields), None, None);
        let spec = schedule.definition.rule(&schedule.name).expect("a rule").spec;
        let (from, to) = (Timestamp::from_seconds(FROM), Timestamp::from_seconds(TO));
        let found: Vec<i64> =
            spec.slots(from, to, usize::MAX).map(Timestamp::floor_seconds).collect();
        assert_eq!(found, expected, "{line}");
        slots += found.len();
    }
    assert!(slots > 500_000, "too few slots to mean anything: {slots}");
}
