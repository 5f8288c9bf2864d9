//! Reading expressions and finding slots, beside croner, cronexpr and cron in the same run.
//!
//! `cargo bench -p punctual-core` prints a table; `-- --json` prints one line of JSON.

mod measure;

use std::str::FromStr;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use cronexpr::{FallbackTimezoneOption, MakeTimestamp, ParseOptions};
use measure::{Contender, Time, measure};
use punctual_core::{Spec, Timestamp, When, Zone};

const OURS: &str = "punctual";
/// The goals for our own times, in nanoseconds.
const TYPICAL: f64 = 1_000.0;
const WORST: f64 = 20_000.0;

/// A question to all contenders. `cron` counts weekdays from Sunday = 1 and wants seconds, so
/// its expression is written apart; an empty one cannot be asked.
struct Case {
    name: &'static str,
    expression: &'static str,
    for_cron: &'static str,
    zone: &'static str,
    from: &'static str,
    /// croner and cronexpr know no answer, or a wrong one, or never answer.
    not_for: &'static [&'static str],
    goal: f64,
}

const PARSE: [(&str, &str, &str); 3] = [
    ("parse, every 5 minutes", "*/5 * * * *", "0 */5 * * * *"),
    ("parse, weekdays at 9", "0 9 * * 1-5", "0 0 9 * * 2-6"),
    (
        "parse, long lists",
        "1,2,3,5,8,13,21,34,55 0-6,12,18-23 1-7,15,31 JAN-MAR,OCT MON,WED,FRI",
        "0 1,2,3,5,8,13,21,34,55 0-6,12,18-23 1-7,15,31 JAN-MAR,OCT MON,WED,FRI",
    ),
];

const NEXT: [Case; 11] = [
    Case {
        name: "next, every 5 minutes, UTC",
        expression: "*/5 * * * *",
        for_cron: "0 */5 * * * *",
        zone: "UTC",
        from: "2026-06-15T10:02:30Z",
        not_for: &[],
        goal: TYPICAL,
    },
    Case {
        name: "next, every 5 minutes, Berlin",
        expression: "*/5 * * * *",
        for_cron: "0 */5 * * * *",
        zone: "Europe/Berlin",
        from: "2026-06-15T10:02:30Z",
        not_for: &[],
        goal: TYPICAL,
    },
    Case {
        name: "next, weekdays at 9, Berlin",
        expression: "0 9 * * 1-5",
        for_cron: "0 0 9 * * 2-6",
        zone: "Europe/Berlin",
        from: "2026-06-12T10:02:30Z",
        not_for: &[],
        goal: TYPICAL,
    },
    Case {
        name: "next, over a gap",
        expression: "30 2 * * *",
        for_cron: "0 30 2 * * *",
        zone: "Europe/Berlin",
        from: "2026-03-28T12:00:00Z",
        not_for: &[],
        goal: TYPICAL,
    },
    Case {
        name: "next, in the repeated hour",
        expression: "*/15 * * * *",
        for_cron: "0 */15 * * * *",
        zone: "Europe/Berlin",
        from: "2026-10-25T00:50:00Z",
        not_for: &[],
        goal: TYPICAL,
    },
    Case {
        name: "next, yearly, New York",
        expression: "0 0 1 1 *",
        for_cron: "0 0 0 1 1 *",
        zone: "America/New_York",
        from: "2026-02-15T10:00:00Z",
        not_for: &[],
        goal: TYPICAL,
    },
    Case {
        name: "next, last day of the month",
        expression: "0 0 L * *",
        for_cron: "",
        zone: "Europe/Berlin",
        from: "2026-06-15T10:00:00Z",
        not_for: &[],
        goal: TYPICAL,
    },
    Case {
        name: "next, 29 February, New York",
        expression: "0 0 29 2 *",
        for_cron: "0 0 0 29 2 *",
        zone: "America/New_York",
        from: "2025-03-01T00:00:00Z",
        not_for: &[],
        goal: TYPICAL,
    },
    Case {
        name: "next, 29 February after 2096",
        expression: "0 0 29 2 *",
        for_cron: "",
        zone: "UTC",
        from: "2096-03-01T00:00:00Z",
        not_for: &["cronexpr"],
        goal: WORST,
    },
    Case {
        name: "next, Monday 29 February",
        expression: "0 0 29 2 +1",
        for_cron: "0 0 0 29 2 2",
        zone: "Europe/Berlin",
        from: "2026-01-01T00:00:00Z",
        not_for: &["cronexpr"],
        goal: WORST,
    },
    Case {
        name: "next, 30 February (never)",
        expression: "0 0 30 2 *",
        for_cron: "0 0 0 30 2 *",
        zone: "UTC",
        from: "2026-01-01T00:00:00Z",
        not_for: &[],
        goal: WORST,
    },
];

fn main() {
    let mut rows: Vec<(&str, f64, Vec<Time>)> = Vec::new();
    for (name, expression, for_cron) in PARSE {
        rows.push((name, TYPICAL, measure(parse_contenders(expression, for_cron))));
    }
    for case in &NEXT {
        rows.push((case.name, case.goal, measure(next_contenders(case))));
    }
    rows.push(("a year of slots, every 5 minutes", f64::INFINITY, measure(year_contenders())));

    let goals_met = rows.iter().all(|(_, goal, times)| ours(times) <= *goal);
    let fastest =
        rows.iter().all(|(_, _, times)| times.iter().all(|time| time.nanos >= ours(times)));
    if std::env::args().any(|argument| argument == "--json") {
        print_json(&rows, goals_met, fastest);
    } else {
        print_table(&rows);
        println!("within the goals: {goals_met}; fastest of all in every row: {fastest}");
    }
}

fn parse_contenders(expression: &'static str, for_cron: &'static str) -> Vec<Contender<'static>> {
    vec![
        contender(OURS, move || When::parse(expression).is_ok() as u64),
        contender("croner", move || croner::Cron::from_str(expression).is_ok() as u64),
        contender("cronexpr", move || {
            cronexpr::parse_crontab_with(expression, in_utc()).is_ok() as u64
        }),
        contender("cron", move || cron::Schedule::from_str(for_cron).is_ok() as u64),
    ]
}

fn in_utc() -> ParseOptions {
    let mut options = ParseOptions::default();
    options.fallback_timezone_option = FallbackTimezoneOption::UTC;
    options
}

fn next_contenders(case: &Case) -> Vec<Contender<'_>> {
    let from: Timestamp = case.from.parse().expect("an instant");
    let zone: Tz = case.zone.parse().expect("a zone");
    let chrono_from = case.from.parse::<DateTime<Utc>>().expect("an instant").with_timezone(&zone);
    let mut contenders = Vec::new();

    let spec = Spec::new(
        When::parse(case.expression).expect("an expression"),
        Zone::get(case.zone).expect("a zone"),
    );
    contenders.push(contender(OURS, move || spec.next(from).is_some() as u64));

    if !case.not_for.contains(&"croner") {
        let croner = croner::Cron::from_str(case.expression).expect("an expression");
        contenders.push(contender("croner", move || {
            croner.find_next_occurrence(&chrono_from, false).is_ok() as u64
        }));
    }
    if !case.not_for.contains(&"cronexpr") {
        let text = format!("{} {}", case.expression, case.zone);
        let cronexpr = cronexpr::parse_crontab(&text).expect("an expression");
        let from = MakeTimestamp(from.to_jiff());
        contenders.push(contender("cronexpr", move || cronexpr.find_next(from).is_ok() as u64));
    }
    if !case.for_cron.is_empty() {
        let cron = cron::Schedule::from_str(case.for_cron).expect("an expression");
        contenders
            .push(contender("cron", move || cron.after(&chrono_from).next().is_some() as u64));
    }
    contenders
}

fn year_contenders() -> Vec<Contender<'static>> {
    const FROM: &str = "2026-01-01T00:00:00Z";
    const TO: &str = "2027-01-01T00:00:00Z";
    let (from, to): (Timestamp, Timestamp) =
        (FROM.parse().expect("an instant"), TO.parse().expect("an instant"));
    let zone = chrono_tz::Europe::Berlin;
    let chrono_from = FROM.parse::<DateTime<Utc>>().expect("an instant").with_timezone(&zone);
    let chrono_to = TO.parse::<DateTime<Utc>>().expect("an instant").with_timezone(&zone);

    let spec = Spec::new(
        When::parse("*/5 * * * *").expect("an expression"),
        Zone::get("Europe/Berlin").expect("a zone"),
    );
    let croner = croner::Cron::from_str("*/5 * * * *").expect("an expression");
    let cronexpr = cronexpr::parse_crontab("*/5 * * * * Europe/Berlin").expect("an expression");
    let cron = cron::Schedule::from_str("0 */5 * * * *").expect("an expression");
    vec![
        contender(OURS, move || spec.slots(from, to, usize::MAX).count() as u64),
        contender("croner", move || {
            croner.iter_after(chrono_from).take_while(|slot| *slot < chrono_to).count() as u64
        }),
        contender("cronexpr", move || {
            let slots = cronexpr.iter_after(MakeTimestamp(from.to_jiff())).expect("an instant");
            slots.map_while(Result::ok).take_while(|slot| slot.timestamp() < to.to_jiff()).count()
                as u64
        }),
        contender("cron", move || {
            cron.after(&chrono_from).take_while(|slot| *slot < chrono_to).count() as u64
        }),
    ]
}

fn contender<'a>(name: &'static str, run: impl FnMut() -> u64 + 'a) -> Contender<'a> {
    Contender { name, run: Box::new(run) }
}

fn ours(times: &[Time]) -> f64 {
    times.iter().find(|time| time.name == OURS).map_or(f64::INFINITY, |time| time.nanos)
}

fn print_table(rows: &[(&str, f64, Vec<Time>)]) {
    println!("{:<34} {:>12}  (nanoseconds per call, and times ours)", "", OURS);
    for (name, _, times) in rows {
        print!("{name:<34} {:>12.0}", ours(times));
        for time in times.iter().filter(|time| time.name != OURS) {
            print!("   {} {:.0} ({:.1}×)", time.name, time.nanos, time.nanos / ours(times));
        }
        println!();
    }
}

fn print_json(rows: &[(&str, f64, Vec<Time>)], goals_met: bool, fastest: bool) {
    let rows: Vec<String> = rows
        .iter()
        .map(|(name, _, times)| {
            let times: Vec<String> = times
                .iter()
                .map(|time| format!("\"{}_ns\":{:.0}", time.name, time.nanos))
                .collect();
            format!("{{\"case\":\"{name}\",{}}}", times.join(","))
        })
        .collect();
    println!(
        "{{\"proof\":\"cron-bench\",\"goals_met\":{goals_met},\"fastest_in_every_case\":{fastest},\"cases\":[{}]}}",
        rows.join(",")
    );
}
