use super::*;

fn calendar(dates: &[&str], weekly: &[&str]) -> Result<Calendar, CalendarError> {
    let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    CalendarText { dates: own(dates), weekly: own(weekly) }.read()
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

#[test]
fn days_are_judged_in_the_zone() {
    let paris = Zone::get("Europe/Paris").expect("a zone");
    let holidays = calendar(&["2027-07-14", "12-25", "2027-12-31..2028-01-02"], &[]).expect("one");
    let is_excluded = |text: &str| holidays.excludes(&paris, at(text));
    assert!(!is_excluded("2027-07-13T21:59:59Z") && is_excluded("2027-07-13T22:00:00Z"));
    assert!(is_excluded("2027-07-14T21:59:59Z") && !is_excluded("2027-07-14T22:00:00Z"));
    assert!(is_excluded("2030-12-25T12:00:00Z"), "every year");
    assert!(is_excluded("2027-12-31T00:00:00Z") && is_excluded("2028-01-02T22:59:59Z"));
    assert!(!is_excluded("2028-01-02T23:00:00Z"));
}

#[test]
fn times_of_the_week_go_over_its_end() {
    let weekend = calendar(&[], &["Fri 18:00-Mon 06:00", "wed"]).expect("one");
    let is_excluded = |text: &str| weekend.excludes(&Zone::UTC, at(text));
    // The first of January 2027 is a Friday.
    assert!(!is_excluded("2027-01-01T17:59:59Z") && is_excluded("2027-01-01T18:00:00Z"));
    assert!(is_excluded("2027-01-03T12:00:00Z") && is_excluded("2027-01-04T05:59:59Z"));
    assert!(!is_excluded("2027-01-04T06:00:00Z"));
    assert!(is_excluded("2027-01-06T00:00:00Z") && !is_excluded("2027-01-07T00:00:00Z"));
}

/// Every stretch is what `excludes` says of each of its instants, also where clocks change.
#[test]
fn stretches_agree_with_looking_at_each_instant() {
    let own = calendar(&["2027-03-28", "03-30"], &["Sat 22:00-Sun 02:30", "Thu 01:00-Thu 02:00"]);
    let own = own.expect("one");
    for (zone, day) in [("Europe/Paris", "03-25"), ("America/New_York", "03-11"), ("UTC", "03-26")]
    {
        let zone = Zone::get(zone).expect("a zone");
        let from = at(&format!("2027-{day}T00:00:00Z"));
        let to = from + std::time::Duration::from_secs(8 * 86_400);
        let stretches = own.stretches(&zone, from, to);
        assert!(stretches.windows(2).all(|two| two[0].1 < two[1].0), "{stretches:?}");
        for minute in 0..8 * 1_440 {
            let instant = from + std::time::Duration::from_secs(minute * 60);
            let is_in = stretches.iter().any(|(start, end)| (*start..*end).contains(&instant));
            assert_eq!(is_in, own.excludes(&zone, instant), "{instant} {zone}");
        }
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let wrong = |dates: &[&str], weekly: &[&str]| {
        calendar(dates, weekly).expect_err("it is refused").to_string()
    };
    let mistakes = [
        wrong(&["2027-02-29"], &[]),
        wrong(&["2027-01-01", "13-01"], &[]),
        wrong(&["tomorrow"], &[]),
        wrong(&["2027-02-01..2027-01-01"], &[]),
        wrong(&[], &["Saturday"]),
        wrong(&[], &["Sat 00:00-Mon"]),
        wrong(&[], &["Sat 25:00-Sun 00:00"]),
        wrong(&[], &["Sat 06:00-Sat 06:00"]),
    ];
    insta::assert_snapshot!(mistakes.join("\n"));
}

#[test]
fn a_list_has_an_entry_a_line() {
    let read = CalendarText::from_lines("# ours\n2027-12-24  # eve\n\nSat\nSun 00:00-Mon 06:00\n");
    assert_eq!(read.dates, ["2027-12-24"]);
    assert_eq!(read.weekly, ["Sat", "Sun 00:00-Mon 06:00"]);
}

const ICS: &str = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nSUMMARY:A long\r\n  name\r\n\
DTSTART;VALUE=DATE:20270704\r\nDTEND;VALUE=DATE:20270705\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\n\
DTSTART;VALUE=DATE:20271224\r\nDTEND;VALUE=DATE:20271227\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\n\
SUMMARY:May Day\r\nDTSTART;VALUE=DATE:20200501\r\nRRULE:FREQ=YEARLY\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";

#[test]
fn whole_days_of_icalendar_are_dates() {
    let read = CalendarText::from_ics(ICS).expect("a calendar");
    assert_eq!(read.dates, ["2027-07-04", "2027-12-24..2027-12-26", "05-01"]);
    read.read().expect("it means something");
}

#[test]
fn what_icalendar_says_beyond_whole_days_is_refused() {
    let wrong = |from: &str, to: &str| {
        CalendarText::from_ics(&ICS.replace(from, to)).expect_err("it is refused").to_string()
    };
    let mistakes = [
        wrong("FREQ=YEARLY", "FREQ=WEEKLY;BYDAY=MO"),
        wrong("DTSTART;VALUE=DATE:20270704", "DTSTART:20270704T100000Z"),
        wrong("RRULE:FREQ=YEARLY", "EXDATE;VALUE=DATE:20210501"),
        wrong("DTSTART;VALUE=DATE:20271224\r\n", ""),
        wrong("END:VEVENT\r\nEND:VCALENDAR", "END:VCALENDAR"),
        wrong("BEGIN:VCALENDAR\r\n", ""),
    ];
    insta::assert_snapshot!(mistakes.join("\n"));
}
