use super::*;
use crate::AtError;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn spec(text: &str, zone: &str) -> Spec {
    Spec::new(When::parse(text).unwrap(), Zone::get(zone).unwrap())
}

fn listed(spec: &Spec, from: &str, to: &str) -> Vec<String> {
    spec.slots(at(from), at(to), 100).map(|slot| slot.to_string()).collect()
}

#[test]
fn several_rules_make_one_row_of_slots_without_doubles() {
    let spec = spec("0 */6 * * *", "UTC")
        .also(When::parse("0 12 * * *").unwrap())
        .also(When::parse("@every 8h").unwrap())
        .also(When::parse("@at 2027-01-01T13:00:00Z").unwrap());
    let slots = listed(&spec, "2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z");
    let hours: Vec<&str> = slots.iter().map(|slot| &slot[11..13]).collect();
    assert_eq!(hours, ["00", "06", "08", "12", "13", "16", "18"]);
    assert_eq!(spec.count(at("2027-01-01T00:00:00Z"), at("2027-01-02T00:00:00Z")), 7);
    assert_eq!(spec.previous(at("2027-01-01T13:00:00Z")), Some(at("2027-01-01T12:00:00Z")));
}

#[test]
fn both_ends_of_a_window_belong_to_it() {
    let window =
        Window { start: Some(at("2027-01-01T06:00:00Z")), end: Some(at("2027-01-01T12:00:00Z")) };
    let spec = spec("0 */6 * * *", "UTC").within(window);
    assert_eq!(
        listed(&spec, "2026-12-01T00:00:00Z", "2027-02-01T00:00:00Z"),
        ["2027-01-01T06:00:00Z", "2027-01-01T12:00:00Z"]
    );
    assert_eq!(spec.next(at("2020-01-01T00:00:00Z")), Some(at("2027-01-01T06:00:00Z")));
    assert_eq!(spec.next(at("2027-01-01T12:00:00Z")), None);
    assert_eq!(spec.previous(at("2030-01-01T00:00:00Z")), Some(at("2027-01-01T12:00:00Z")));
    assert_eq!(spec.previous(at("2027-01-01T06:00:00Z")), None);
    assert_eq!(spec.count(Timestamp::MIN, Timestamp::MAX), 2);
}

#[test]
fn ranges_compose_without_gap_or_overlap() {
    let spec = spec("*/7 * * * * *", "Australia/Lord_Howe");
    let (a, c) = (at("2026-04-04T13:00:00.25Z"), at("2026-04-04T17:00:00Z"));
    let whole: Vec<Timestamp> = spec.slots(a, c, usize::MAX).collect();
    for b in [
        at("2026-04-04T14:59:59.999999Z"),
        at("2026-04-04T15:00:00Z"),
        at("2026-04-04T15:00:00.000001Z"),
    ] {
        let parts: Vec<Timestamp> =
            spec.slots(a, b, usize::MAX).chain(spec.slots(b, c, usize::MAX)).collect();
        assert_eq!(parts, whole);
        assert_eq!(spec.count(a, b) + spec.count(b, c), whole.len() as u64);
    }
}

#[test]
fn a_zone_that_is_not_whole_minutes_from_utc_is_counted_right() {
    // Liberia was 44 minutes and 30 seconds behind until 1972, which cuts civil minutes at
    // midnight UTC.
    for text in ["* * * * * *", "*/20 * * * * *", "0 30 5 * * *", "45 15 23 * * *"] {
        let spec = spec(text, "Africa/Monrovia");
        for (from, to) in [
            ("1971-12-30T00:00:00Z", "1972-01-09T00:00:00Z"),
            ("1971-06-01T03:00:10Z", "1971-06-02T03:00:20Z"),
        ] {
            let slots = spec.slots(at(from), at(to), usize::MAX).count();
            assert_eq!(spec.count(at(from), at(to)), slots as u64, "{text} {from}");
        }
    }
}

#[test]
fn counting_many_years_costs_per_day_and_not_per_slot() {
    // One slot a second for 230 years would take minutes if each were visited.
    let spec = spec("* * * * * *", "UTC");
    assert_eq!(spec.count(Timestamp::MIN, Timestamp::MAX), 7_258_118_400);
}

#[test]
fn an_interval_is_counted_from_its_origin_whenever_one_asks() {
    let every = spec("@every 7h", "Europe/Paris");
    let first = every.next(at("2027-01-01T00:00:00Z")).unwrap();
    assert_eq!(first.floor_seconds() % (7 * 3_600), 0);
}

#[test]
fn a_one_shot_at_a_local_time_must_exist_exactly_once() {
    let paris = Zone::get("Europe/Paris").unwrap();
    let once = When::at("2027-03-28T03:30", &paris).unwrap();
    assert_eq!(once, When::At(at("2027-03-28T01:30:00Z")));
    assert_eq!(When::at("2027-03-28T03:30:00+02:00", &paris).unwrap(), once);
    let errors = ["2027-03-28T02:30", "2027-10-31T02:30", "2027-03-28T12:00:00.5Z", "soon"]
        .map(|text| When::at(text, &paris).unwrap_err());
    assert!(matches!(&errors[0], AtError::NotOnce { .. }));
    insta::assert_snapshot!(errors.map(|error| error.to_string()).join("\n"), @"
    local time `2027-03-28T02:30` does not exist in Europe/Paris; use 2027-03-28T00:30:00Z or 2027-03-28T01:30:00Z
    local time `2027-10-31T02:30` happens twice in Europe/Paris; use 2027-10-31T00:30:00Z or 2027-10-31T01:30:00Z
    time `2027-03-28T12:00:00.5Z` has a fraction of a second; use whole seconds
    invalid time `soon`; use RFC 3339 such as 2027-03-28T01:00:00Z, or a local time such as 2027-03-28T03:00
    ");
}

#[test]
fn the_rules_for_clock_changes_can_be_chosen() {
    let night = |spec: Spec, day: &str| -> Vec<String> {
        let start = at(&format!("{day}T00:00:00Z")) - Duration::from_secs(3 * 3_600);
        spec.slots(start, start + Duration::from_secs(86_400), 100)
            .map(|slot| slot.to_string()[11..16].to_owned())
            .collect()
    };
    let fixed = || spec("30 2 * * *", "Europe/Paris");
    let wild = || spec("30 2,* * * *", "Europe/Paris");
    let (spring, autumn) = ("2027-03-28", "2027-10-31");
    assert_eq!(night(fixed(), spring), ["01:00"]);
    assert_eq!(night(fixed().dst_gap(DstGap::Skip), spring), [""; 0]);
    assert_eq!(night(fixed(), autumn), ["00:30"]);
    assert_eq!(night(fixed().dst_fold(DstFold::Second), autumn), ["01:30"]);
    assert_eq!(night(fixed().dst_fold(DstFold::Both), autumn), ["00:30", "01:30"]);
    assert_eq!(night(wild(), spring).len(), 24);
    assert_eq!(night(wild().dst_gap(DstGap::End), spring).len(), 25);
    assert_eq!(night(wild(), autumn).len(), 24);
    assert_eq!(night(wild().dst_fold(DstFold::First), autumn).len(), 23);
}

#[test]
fn jitter_is_fixed_by_name_and_slot_and_ends_before_the_next_slot() {
    let hourly = spec("0 * * * *", "UTC");
    let slot = at("2026-01-01T00:00:00Z");
    let most = Duration::from_secs(30);
    assert_eq!(hourly.jitter("backup/nightly", slot, most), Duration::from_millis(21_481));
    assert_eq!(hourly.jitter("backup/nightly", slot, Duration::ZERO), Duration::ZERO);
    let every_second = spec("* * * * * *", "UTC");
    for hour in 0..100 {
        let slot = slot + Duration::from_secs(hour);
        assert!(
            every_second.jitter("x", slot, Duration::from_secs(3_600)) < Duration::from_secs(1)
        );
    }
}

#[test]
fn clock_changes_tell_which_time_is_missing() {
    let changes: Vec<_> = spec("30 2 * * *", "Europe/Paris")
        .clock_changes(at("2027-01-01T00:00:00Z"), at("2028-01-01T00:00:00Z"))
        .collect();
    assert_eq!(changes.len(), 2);
    assert!(changes[0].is_forward() && !changes[1].is_forward());
    assert_eq!(
        changes[0].missing.map(|local| local.to_string()).as_deref(),
        Some("2027-03-28T02:30:00")
    );
    assert_eq!(changes[1].missing, None);
    assert!(changes[1].repeats("2027-10-31T02:30:00".parse().unwrap()));
    assert!(!changes[1].repeats("2027-10-31T03:00:00".parse().unwrap()));
}

#[test]
fn what_is_perhaps_not_meant_draws_a_warning() {
    let expressions = [
        "0 0 30 2 *",
        "* * * * * *",
        "*/5 * * * *",
        "*/7 * * * *",
        "0 */5 * * *",
        "*/45 * * * *",
        "0 0 1 * MON",
        "0 0 31 * *",
        "0 0 29 2 *",
        "0 0 28-31 * *",
        "@every 1d",
        "@every 90m",
        "@at 2020-01-01T00:00:00Z",
        "@every 1s",
        "* 30 2 * * *",
        "*/59 * * * *",
    ];
    let lines = expressions.map(|text| {
        let warnings = spec(text, "Europe/Paris").warnings(at("2027-01-01T00:00:00Z"));
        format!("{text}\n  {}", warnings.join("\n  "))
    });
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_schedule_without_slots_says_why() {
    let from = at("2026-01-01T00:00:00Z");
    let noon = |spec: Spec| {
        spec.within(Window {
            start: Some(at("2027-01-01T13:00:00Z")),
            end: Some(at("2027-01-01T14:00:00Z")),
        })
    };
    let specs = [
        spec("@at 2020-01-01T00:00:00Z", "UTC"),
        spec("0 0 12 1 1 * 2020", "UTC"),
        spec("0 0 30 2 *", "UTC"),
        spec("0 0 0 29 2 * 2027", "UTC"),
        spec("0 30 2 28 3 * 2027", "Europe/Paris").dst_gap(DstGap::Skip),
        spec("0 0 12 30 12 * 2011", "Pacific/Apia"),
        noon(spec("0 12 * * *", "UTC")),
        spec("0 12 * * *", "UTC"),
    ];
    let reasons = specs.map(|spec| spec.never_fires(from).unwrap_or_else(|| "fires".to_owned()));
    insta::assert_snapshot!(reasons.join("\n"));
    let with_a_dead_rule = spec("@daily", "UTC").also(When::parse("0 0 30 2 *").unwrap());
    assert!(with_a_dead_rule.warnings(from)[0].starts_with("`0 0 30 FEB *` never fires"));
}

#[test]
fn intervals_too_keep_to_the_years_that_have_slots() {
    let hourly = spec("@every 1h", "UTC");
    assert_eq!(hourly.next(at("1900-01-01T00:00:00Z")), Some(Timestamp::EPOCH));
    assert_eq!(hourly.previous(Timestamp::MAX), Some(at("2199-12-31T23:00:00Z")));
    assert_eq!(hourly.next(at("2199-12-31T23:00:00Z")), None);
    assert_eq!(hourly.count(Timestamp::MIN, Timestamp::MAX), 7_258_118_400 / 3_600);
    assert_eq!(hourly.slots(at("2199-12-31T22:30:00Z"), Timestamp::MAX, 10).count(), 1);
}

#[test]
fn the_next_slot_never_comes_earlier_for_a_later_question() {
    let spec =
        spec("*/7 1-3 * * *", "Australia/Lord_Howe").also(When::parse("30 2 * * *").unwrap());
    let start = at("2026-04-04T00:00:00Z");
    let mut last = spec.next(start).unwrap();
    for step in 1..2_000_u64 {
        let next = spec.next(start + Duration::from_secs(step * 97)).unwrap();
        assert!(next >= last);
        last = next;
    }
}
