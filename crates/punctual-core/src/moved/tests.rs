use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Weekday};

use crate::schedule::{Definition, OnExcluded};
use crate::{Moved, Timestamp, Zone, hash};

const MINUTE: Duration = Duration::from_secs(60);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn moving(when: &[&str], tz: &str, exclude: &[&str]) -> Definition {
    let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Definition {
        when: own(when),
        tz: tz.to_owned(),
        exclude: own(exclude),
        on_excluded: OnExcluded::NextWorkingDay,
        seconds: true,
        ..Definition::new("", "k")
    }
}

fn listed(definition: &Definition, from: &str, to: &str) -> Vec<String> {
    let spec = definition.rule("s").unwrap().spec;
    spec.slots(at(from), at(to), 100).map(|slot| slot.to_string()).collect()
}

#[test]
fn an_excluded_slot_is_at_its_time_on_the_next_free_day() {
    // Christmas is a Saturday in 2027; in Berlin nine o'clock is eight in UTC.
    let payroll = moving(&["0 9 25 * *"], "Europe/Berlin", &["Sat", "Sun", "12-27"]);
    assert_eq!(
        listed(&payroll, "2027-11-01T00:00:00Z", "2028-02-01T00:00:00Z"),
        [
            "2027-11-25T08:00:00Z",
            "2027-12-25T08:00:00Z",
            "2027-12-28T08:00:00Z",
            "2028-01-25T08:00:00Z",
        ]
    );
    let spec = payroll.rule("s").unwrap().spec;
    let (excluded, free) = (at("2027-12-25T08:00:00Z"), at("2027-12-28T08:00:00Z"));
    assert_eq!(spec.moved(excluded), Some(Moved::To(free)));
    assert_eq!(spec.moved_from(free), Some(excluded));
    assert_eq!((spec.moved(free), spec.moved_from(excluded)), (None, None));
}

#[test]
fn what_moves_to_a_slot_is_one_with_it() {
    let daily = moving(&["30 2 * * *"], "Europe/Paris", &["Sat", "Sun"]);
    // On this Sunday the clocks skip half past two, and the slot is at three o'clock. Saturday's and
    // its own move to the half past two of Monday, which is a slot anyway.
    assert_eq!(
        listed(&daily, "2027-03-26T12:00:00Z", "2027-03-30T00:00:00Z"),
        ["2027-03-27T01:30:00Z", "2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"]
    );
    let spec = daily.rule("s").unwrap().spec;
    for excluded in ["2027-03-27T01:30:00Z", "2027-03-28T01:00:00Z"] {
        let monday = at("2027-03-29T00:30:00Z");
        assert_eq!(spec.moved(at(excluded)), Some(Moved::To(monday)), "{excluded}");
    }
}

#[test]
fn a_slot_that_can_go_nowhere_says_why() {
    let excluded = at("2027-03-01T02:30:00Z");
    let moved = |definition: Definition| {
        let spec = definition.rule("s").unwrap().spec;
        assert_eq!(spec.count(excluded, excluded + Duration::from_secs(40 * 86_400)), 1);
        match spec.moved(excluded) {
            Some(Moved::Nowhere(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let monthly = |days: &str| moving(&["30 2 1 3 *"], "UTC", &[days]);
    let windowed =
        Definition { end: Some("2027-03-01T12:00:00Z".to_owned()), ..monthly("2027-03-01") };
    let skipped = Definition {
        dst_gap: Some("skip".to_owned()),
        tz: "America/Los_Angeles".to_owned(),
        ..moving(&["30 2 28 2 *"], "UTC", &["2027-02-28..2027-03-13"])
    };
    let spec = skipped.rule("s").unwrap().spec;
    let sunday = at("2027-02-28T10:30:00Z");
    let Some(Moved::Nowhere(why)) = spec.moved(sunday) else { panic!("it moved") };
    assert!(why.contains("a clock change skips this time"), "{why}");
    assert_eq!(spec.next(sunday), Some(at("2028-02-28T10:30:00Z")));
    assert!(moved(windowed).contains("after the schedule's `end`"));
    assert!(moved(monthly("2027-03-01..2027-04-01")).contains("the next 31 days"));
    // A day less, and it has one.
    let spec = monthly("2027-03-01..2027-03-31").rule("s").unwrap().spec;
    assert_eq!(spec.moved(excluded), Some(Moved::To(at("2027-04-01T02:30:00Z"))));
}

#[test]
fn only_few_times_of_day_of_cron_expressions_move() {
    let refused = |when: &[&str]| moving(when, "UTC", &["Sat"]).rule("s").unwrap_err().to_string();
    let errors = [
        refused(&["@every 8h"]),
        refused(&["0 9 * * *", "@at 2027-01-01T13:00:00Z"]),
        refused(&["*/15 * * * *"]),
        refused(&["0 * * * *", "30 9 * * *"]),
    ];
    insta::assert_snapshot!(errors.join("\n"));
    assert!(moving(&["0 * * * *"], "UTC", &["Sat"]).rule("s").is_ok());
}

/// A stretch of a zone, minute by minute: what its clocks showed, and when they showed it.
struct Walked {
    zone: &'static str,
    first: Date,
    last: Date,
    local: HashMap<Timestamp, DateTime>,
    instants: HashMap<DateTime, Vec<Timestamp>>,
    in_order: Vec<Timestamp>,
    dates: HashSet<Date>,
}

impl Walked {
    fn new(zone: &'static str, middle: &str) -> Walked {
        let rules = Zone::get(zone).unwrap();
        let middle: Date = middle.parse().unwrap();
        let (first, last) = (middle - 45.days(), middle + 45.days());
        let (mut local, mut instants) = (HashMap::new(), HashMap::<_, Vec<_>>::new());
        let mut in_order = Vec::new();
        let mut instant = at(&format!("{first}T00:00:00Z"));
        while instant < at(&format!("{last}T00:00:00Z")) {
            let shown = rules.to_jiff().to_datetime(instant.to_jiff());
            local.insert(instant, shown);
            instants.entry(shown).or_default().push(instant);
            in_order.push(instant);
            instant = instant + MINUTE;
        }
        let dates = local.values().map(|shown| shown.date()).collect();
        Walked { zone, first, last, local, instants, in_order, dates }
    }

    /// When a civil time is, by looking at every minute.
    fn when(&self, wall: DateTime, gap: &str, fold: &str) -> Vec<Timestamp> {
        if let Some(found) = self.instants.get(&wall) {
            return match fold {
                "first" => vec![found[0]],
                "second" => vec![*found.last().unwrap()],
                _ => found.clone(),
            };
        }
        let had_date = self.dates.contains(&wall.date());
        let resumed = self.in_order.iter().find(|instant| self.local[instant] > wall);
        match gap {
            "end" if had_date => resumed.into_iter().copied().collect(),
            _ => Vec::new(),
        }
    }
}

/// A rule of the test: minutes, hours, and which days.
struct Rule {
    text: &'static str,
    minutes: &'static [i8],
    hours: &'static [i8],
    is_day: fn(Date) -> bool,
    is_wild: bool,
}

fn is_workday(date: Date) -> bool {
    !matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday)
}

const RULES: [Rule; 7] = [
    Rule { text: "0 9 * * *", minutes: &[0], hours: &[9], is_day: |_| true, is_wild: false },
    Rule { text: "30 2 * * *", minutes: &[30], hours: &[2], is_day: |_| true, is_wild: false },
    Rule {
        text: "0,30 2,3 * * SUN",
        minutes: &[0, 30],
        hours: &[2, 3],
        is_day: |date| date.weekday() == Weekday::Sunday,
        is_wild: false,
    },
    Rule {
        text: "15 0,1,23 * * MON-FRI",
        minutes: &[15],
        hours: &[0, 1, 23],
        is_day: is_workday,
        is_wild: false,
    },
    Rule {
        text: "*/30 2,23 * * *",
        minutes: &[0, 30],
        hours: &[2, 23],
        is_day: |_| true,
        is_wild: true,
    },
    Rule {
        text: "0 0,2 1,15 * *",
        minutes: &[0],
        hours: &[0, 2],
        is_day: |date| [1, 15].contains(&date.day()),
        is_wild: false,
    },
    Rule {
        text: "45 1 28-31 * *",
        minutes: &[45],
        hours: &[1],
        is_day: |date| date.day() >= 28,
        is_wild: false,
    },
];

/// An entry of the test: its text, and whether it has a civil time.
type Entry = (String, Box<dyn Fn(DateTime) -> bool>);

fn weekly(text: &str, day: Weekday, from: i32, to: i32) -> Entry {
    let has = move |wall: DateTime| {
        let minute = i32::from(wall.hour()) * 60 + i32::from(wall.minute());
        wall.weekday() == day && (from..to).contains(&minute)
    };
    (text.to_owned(), Box::new(has))
}

fn days(first: Date, last: Date) -> Entry {
    (format!("{first}..{last}"), Box::new(move |wall| first <= wall.date() && wall.date() <= last))
}

fn entry(number: u64, middle: Date, days_long: u64) -> Entry {
    let near = middle - 6.days() + i64::try_from(days_long).unwrap().days();
    match number {
        0 => weekly("Sat", Weekday::Saturday, 0, 1_440),
        1 => weekly("sun", Weekday::Sunday, 0, 1_440),
        2 => weekly("Sun 02:00-Sun 02:45", Weekday::Sunday, 120, 165),
        3 => weekly("Sun 03:00-Sun 04:00", Weekday::Sunday, 180, 240),
        4 => weekly("Mon 00:00-Mon 02:30", Weekday::Monday, 0, 150),
        5 => days(near, near),
        6 => days(middle - 3.days(), middle + 1.days()),
        7 => days(middle - 20.days(), middle - 20.days() + (25 + near.day() % 9).days()),
        _ => {
            let (month, day) = (near.month(), near.day());
            let has = move |wall: DateTime| (wall.month(), wall.day()) == (month, day);
            (format!("{month}-{day}"), Box::new(has))
        }
    }
}

/// All that a spec answers, against what a walk through every minute of three months finds.
#[test]
fn slots_agree_with_a_walk_through_every_minute() {
    let mut seed = 11_u64;
    let mut below = |most: u64| {
        seed = hash::mix(seed.wrapping_add(0x9E37_79B9_7F4A_7C15));
        seed % most
    };
    let zones = [
        ("UTC", "2027-12-25"),
        ("Europe/Paris", "2027-03-28"),
        ("Europe/Paris", "2027-10-31"),
        ("Australia/Lord_Howe", "2026-10-04"),
        // At midnight, into the day before and over a whole date.
        ("America/Sao_Paulo", "2018-11-04"),
        ("America/Sao_Paulo", "2018-02-18"),
        ("Pacific/Apia", "2011-12-30"),
    ];
    for (zone, middle) in zones {
        let walked = Walked::new(zone, middle);
        let middle: Date = middle.parse().unwrap();
        for _ in 0..30 {
            let rules: Vec<&Rule> = (0..=below(2)).map(|_| &RULES[below(7) as usize]).collect();
            let entries: Vec<Entry> =
                (0..=below(3)).map(|_| entry(below(9), middle, below(12))).collect();
            let (gap, fold) = (
                [None, None, Some("end"), Some("skip")][below(4) as usize],
                [None, None, Some("first"), Some("second"), Some("both")][below(5) as usize],
            );
            let cut = (walked.in_order.len() as u64 / 2) + below(6 * 1_440);
            let end = (below(4) == 0).then(|| walked.in_order[cut as usize]);
            let texts: Vec<&str> = rules.iter().map(|rule| rule.text).collect();
            let excludes: Vec<&str> = entries.iter().map(|(text, _)| text.as_str()).collect();
            let definition = Definition {
                dst_gap: gap.map(str::to_owned),
                dst_fold: fold.map(str::to_owned),
                end: end.map(|end| end.to_string()),
                ..moving(&texts, walked.zone, &excludes)
            };
            let is_excluded = |wall: DateTime| entries.iter().any(|(_, has)| has(wall));
            let is_open = |slot: &Timestamp| end.is_none_or(|end| *slot <= end);
            let (mut slots, mut moves) = (BTreeSet::new(), Vec::new());
            for rule in &rules {
                let (usual_gap, usual_fold) =
                    if rule.is_wild { ("skip", "both") } else { ("end", "first") };
                let (gap, fold) = (gap.unwrap_or(usual_gap), fold.unwrap_or(usual_fold));
                let mut date = walked.first + 1.day();
                while date < walked.last - 1.day() {
                    for (hour, minute) in rule
                        .hours
                        .iter()
                        .flat_map(|hour| rule.minutes.iter().map(move |minute| (*hour, *minute)))
                        .filter(|_| (rule.is_day)(date))
                    {
                        let wall = date.at(hour, minute, 0, 0);
                        let own = walked.when(wall, gap, fold).into_iter().filter(is_open);
                        for slot in own {
                            slots.insert(slot);
                            if !is_excluded(walked.local[&slot]) {
                                continue;
                            }
                            let mut later = (1..=31).map(|days| wall + days.days());
                            let Some(free) = later.find(|wall| !is_excluded(*wall)) else {
                                continue;
                            };
                            if free.date() < walked.last - 1.day() {
                                let to = walked.when(free, gap, fold).into_iter().filter(is_open);
                                moves.extend(to.map(|to| (slot, to)));
                            }
                        }
                    }
                    date = date.tomorrow().unwrap();
                }
            }
            slots.extend(moves.iter().map(|(_, to)| *to));
            // Within this stretch the walk has seen all that a slot may come from.
            let from = at(&format!("{}T00:00:00Z", walked.first + 36.days()));
            let to = at(&format!("{}T00:00:00Z", walked.last - 36.days()));
            let expected: Vec<Timestamp> = slots.range(from..to).copied().collect();
            let rule = definition.rule("s").unwrap();
            let spec = &rule.spec;
            let what = format!("{definition:?}");
            let found: Vec<Timestamp> = spec.slots(from, to, usize::MAX).collect();
            assert_eq!(found, expected, "{what}");
            assert_eq!(spec.count(from, to), expected.len() as u64, "{what}");
            for _ in 0..8 {
                let span = to.since(from).as_secs();
                let point = from + Duration::from_secs(below(span));
                let next = slots.range(point + Duration::from_micros(1)..).next().copied();
                let found = spec.next(point).filter(|next| *next < to);
                assert_eq!(found, next.filter(|next| *next < to), "after {point}: {what}");
                let before = slots.range(..point).next_back().copied();
                let found = spec.previous(point).filter(|before| *before >= from);
                assert_eq!(found, before.filter(|it| *it >= from), "before {point}: {what}");
                let whole = spec.count(from, point) + spec.count(point, to);
                assert_eq!(whole, expected.len() as u64, "at {point}: {what}");
                let free = expected.iter().filter(|slot| !is_excluded(walked.local[*slot])).count();
                assert_eq!(rule.count(from, to), free as u64, "{what}");
            }
            for slot in &expected {
                let to: Vec<Timestamp> =
                    moves.iter().filter(|(source, _)| source == slot).map(|(_, to)| *to).collect();
                match spec.moved(*slot) {
                    Some(Moved::To(found)) => assert!(to.contains(&found), "{slot}: {what}"),
                    Some(Moved::Nowhere(_)) | None => assert_eq!(to, [], "{slot}: {what}"),
                }
                let mut sources =
                    moves.iter().filter(|(_, to)| to == slot).map(|(source, _)| *source);
                match spec.moved_from(*slot) {
                    Some(found) => assert!(sources.any(|source| source == found), "{slot}: {what}"),
                    None => assert_eq!(sources.next(), None, "{slot}: {what}"),
                }
            }
        }
    }
}
