//! Crontabs, imported.

use punctual_file::Source;
use punctual_file::crontab::{Ask, Form, import, parse};

const ODD: &str = r#"MAILTO=ops@example.com
PATH=/usr/local/bin:/usr/bin
30 2 * * * /opt/app/bin/backup.sh --full > /dev/null 2>&1
0 22 * * 1-5 mail -s "10\% off" joe%Joe,%Where are you?
0 0 */2 * MON both-days
@reboot /opt/app/start
*/90 * * * * /opt/poll
5/15 * * * * wrong-step
0 25 * * * wrong-hour
0 3~5 * * * somewhere
SHELL=/bin/bash
CRON_TZ=Asia/Tokyo
RANDOM_DELAY=10
0 6 * * * [[ -f /x ]] && run-x
nonsense
"#;

fn home(user: &str) -> Option<String> {
    Some(format!("/srv/{user}"))
}

#[test]
fn a_users_crontab_becomes_a_file() {
    let ask = Ask { set: "crontab", tz: "Europe/Paris", user: Some("ana"), home: &home };
    let imported = import(&[(Source::new("crontab", ODD), Form::User)], &ask);
    insta::assert_snapshot!("imported", imported.text);
    let told = |mistakes: &[punctual_file::Mistake]| {
        mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!("refused", told(&imported.refused));
    insta::assert_snapshot!("attention", told(&imported.attention));
    // What it wrote has no mistakes.
    let set = crate::one(&imported.text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(set.schedules.len(), imported.schedules.len());
}

#[test]
fn a_systems_crontab_has_users() {
    let text = "17 * * * * root cd / && run-parts --report /etc/cron.hourly\n@daily www-data  clean  up\n0 1 * * * root\n";
    let tab = parse(&Source::new("/etc/crontab", text), Form::System);
    let told: Vec<(Option<&str>, &str)> =
        tab.entries.iter().map(|entry| (entry.user.as_deref(), entry.command.as_str())).collect();
    assert_eq!(
        told,
        [
            (Some("root"), "cd / && run-parts --report /etc/cron.hourly"),
            (Some("www-data"), "clean  up")
        ]
    );
    assert_eq!(tab.mistakes[0].place.line, 3);
}

#[test]
fn settings_are_read_as_cron_reads_them() {
    let text = "A=1\n B = two words  \n\"C\"='quoted '\nD=\n* * * * * x\nA=2\n* * * * * y\n";
    let tab = parse(&Source::new("t", text), Form::User);
    let env = &tab.entries[0].env;
    let told: Vec<(&str, &str)> = env.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    assert_eq!(told, [("A", "1"), ("B", "two words"), ("C", "quoted "), ("D", "")]);
    assert_eq!(tab.entries[1].env["A"], "2");
}

#[test]
fn percent_signs_are_input_and_line_ends() {
    let read = |command: &str| {
        let tab = parse(&Source::new("t", format!("* * * * * {command}\n")), Form::User);
        (tab.entries[0].command.clone(), tab.entries[0].stdin.clone())
    };
    let plain = |command: &str| (command.to_owned(), None);
    let fed = |command: &str, stdin: &str| (command.to_owned(), Some(stdin.to_owned()));
    assert_eq!(read("date +\\%d"), plain("date +%d"));
    assert_eq!(read("cat%one%two"), fed("cat", "one\ntwo\n"));
    assert_eq!(read("cat % 100\\% %"), fed("cat", " 100% \n"));
    assert_eq!(read("echo a\\\\b"), plain("echo a\\\\b"));
}

#[test]
fn names_tell_what_runs() {
    let text = "0 1 * * * /usr/bin/pg_dump -Fc app\n0 2 * * * /usr/bin/pg_dump other\n0 3 * * * cd /srv && ./report.sh\n0 4 * * * FOO=1 nice -n10 /usr/sbin/logcheck\n0 5 * * * [ -x /x ] && true\n";
    let ask = Ask { set: "s", tz: "UTC", user: None, home: &|_| None };
    let names = |path: &str| -> Vec<String> {
        let imported = import(&[(Source::new(path, text), Form::User)], &ask);
        imported.schedules.into_iter().map(|schedule| schedule.name).collect()
    };
    assert_eq!(names("crontab"), ["pg_dump", "pg_dump-2", "report", "logcheck", "line"]);
    assert_eq!(names("/etc/cron.d/app")[0], "app-pg_dump");
}
