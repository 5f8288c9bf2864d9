use super::super::{Definition, OnExcluded};
use super::*;
use crate::hash;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn definition(when: &str, missed: Missed) -> Definition {
    Definition { seconds: true, missed, ..Definition::new(when, "k") }
}

fn planned(definition: &Definition, watermark: &str, now: &str) -> Plan {
    plan(&definition.rule("s").unwrap(), "s", at(watermark), None, at(now))
}

/// One line for each row: slot, end, count, outcome, reason.
fn told(plan: &Plan) -> Vec<String> {
    let line = |row: &PlannedSlot| {
        let end = row.end.map(|end| format!("..{end} x{}", row.count)).unwrap_or_default();
        let reason = row.reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        format!("{}{end} {}{reason}", row.slot, row.outcome)
    };
    plan.slots.iter().map(line).collect()
}

#[test]
fn a_slot_on_time_fires_whatever_the_policy() {
    for missed in Missed::ALL {
        let plan = planned(
            &definition("0 * * * *", *missed),
            "2027-01-01T10:00:00Z",
            "2027-01-01T10:00:59Z",
        );
        assert_eq!(told(&plan), ["2027-01-01T10:00:00Z fired"]);
        assert_eq!(plan.next, Some(at("2027-01-01T11:00:00Z")));
    }
}

#[test]
fn nothing_is_planned_before_its_time() {
    let hourly = definition("0 * * * *", Missed::All);
    let plan = planned(&hourly, "2027-01-01T10:00:00Z", "2027-01-01T09:59:59.999999Z");
    assert_eq!((told(&plan), plan.next), (Vec::new(), Some(at("2027-01-01T10:00:00Z"))));
}

#[test]
fn missed_slots_go_by_the_policy() {
    let planned = |missed| {
        let hourly = definition("0 * * * *", missed);
        told(&planned(&hourly, "2027-01-01T10:00:00Z", "2027-01-01T13:30:00Z"))
    };
    let range = "2027-01-01T10:00:00Z..2027-01-01T13:00:00Z x4";
    assert_eq!(planned(Missed::None), [format!("{range} missed: missed = none")]);
    assert_eq!(
        planned(Missed::Latest),
        [
            "2027-01-01T10:00:00Z..2027-01-01T12:00:00Z x3 coalesced: missed = latest",
            "2027-01-01T13:00:00Z caught_up"
        ]
    );
    let all = ["10", "11", "12", "13"].map(|hour| format!("2027-01-01T{hour}:00:00Z caught_up"));
    assert_eq!(planned(Missed::All), all);
}

#[test]
fn what_is_missed_is_folded_into_a_slot_that_is_on_time() {
    let hourly = definition("0 * * * *", Missed::Latest);
    let plan = planned(&hourly, "2027-01-01T10:00:00Z", "2027-01-01T13:00:05Z");
    assert_eq!(
        told(&plan),
        [
            "2027-01-01T10:00:00Z..2027-01-01T12:00:00Z x3 coalesced: missed = latest",
            "2027-01-01T13:00:00Z fired"
        ]
    );
    let job = plan.slots[1].job.unwrap();
    assert_eq!((job.missed_count, job.due_at), (3, at("2027-01-01T13:00:00Z")));
}

#[test]
fn the_limit_keeps_the_newest_and_the_window_cuts_the_oldest() {
    let hourly = Definition {
        missed_limit: 2,
        missed_window: "6h".to_owned(),
        ..definition("0 * * * *", Missed::All)
    };
    let plan = planned(&hourly, "2027-01-01T00:00:00Z", "2027-01-01T12:30:00Z");
    assert_eq!(
        told(&plan),
        [
            "2027-01-01T00:00:00Z..2027-01-01T06:00:00Z x7 missed: more than missed_window = 6h late",
            "2027-01-01T07:00:00Z..2027-01-01T10:00:00Z x4 missed: more than missed_limit = 2 slots were missed",
            "2027-01-01T11:00:00Z caught_up",
            "2027-01-01T12:00:00Z caught_up"
        ]
    );
    let jobs: Vec<PlannedJob> = plan.slots.iter().filter_map(|row| row.job).collect();
    assert_eq!(jobs[0], PlannedJob { due_at: at("2027-01-01T12:30:00Z"), missed_count: 11 });
    assert_eq!(jobs[1], PlannedJob { due_at: at("2027-01-01T12:30:00.2Z"), missed_count: 0 });
}

#[test]
fn paused_time_is_skipped_on_purpose_unless_asked_otherwise() {
    let paused = PausedTime {
        since: at("2027-01-01T10:30:00Z"),
        until: at("2027-01-01T13:00:00Z"),
        reason: "paused by ana: index rebuild".to_owned(),
    };
    let planned = |missed_paused| {
        let hourly = Definition { missed_paused, ..definition("0 * * * *", Missed::Latest) };
        let rule = hourly.rule("s").unwrap();
        let (watermark, now) = (at("2027-01-01T10:00:00Z"), at("2027-01-01T13:00:01Z"));
        told(&plan(&rule, "s", watermark, Some(&paused), now))
    };
    assert_eq!(
        planned(false),
        [
            "2027-01-01T10:00:00Z coalesced: missed = latest",
            "2027-01-01T11:00:00Z..2027-01-01T12:00:00Z x2 skipped_paused: paused by ana: index rebuild",
            "2027-01-01T13:00:00Z fired"
        ]
    );
    assert_eq!(
        planned(true),
        [
            "2027-01-01T10:00:00Z..2027-01-01T12:00:00Z x3 coalesced: missed = latest",
            "2027-01-01T13:00:00Z fired"
        ]
    );
}

/// A new edition of the zones may say that it is none. It was promised, and it is decided.
#[test]
fn the_watermark_is_a_slot_whatever_the_rule_says() {
    let hourly = definition("0 * * * *", Missed::None);
    let plan = planned(&hourly, "2027-01-01T10:20:00Z", "2027-01-01T12:00:30Z");
    assert_eq!(
        told(&plan),
        [
            "2027-01-01T10:20:00Z..2027-01-01T11:00:00Z x2 missed: missed = none",
            "2027-01-01T12:00:00Z fired"
        ]
    );
}

#[test]
fn a_schedule_whose_window_has_ended_has_no_next_slot() {
    let hourly = Definition {
        end: Some("2027-01-01T11:00:00Z".to_owned()),
        ..definition("0 * * * *", Missed::All)
    };
    let plan = planned(&hourly, "2027-01-01T11:00:00Z", "2027-01-01T11:00:00Z");
    assert_eq!((told(&plan), plan.next), (vec!["2027-01-01T11:00:00Z fired".to_owned()], None));
}

#[test]
fn jitter_moves_the_job_and_not_the_slot() {
    let spread = Definition { jitter: "10m".to_owned(), ..definition("0 * * * *", Missed::Latest) };
    let rule = spread.rule("s").unwrap();
    let slot = at("2027-01-01T10:00:00Z");
    let plan = plan(&rule, "s", slot, None, slot);
    let wait = rule.spec.jitter("s", slot, Duration::from_secs(600));
    assert!(!wait.is_zero());
    assert_eq!(plan.slots[0].slot, slot);
    assert_eq!(plan.slots[0].job.unwrap().due_at, slot + wait);
}

#[test]
fn a_year_of_seconds_is_one_row() {
    let second = definition("* * * * * *", Missed::Latest);
    let plan = planned(&second, "2027-01-01T00:00:00Z", "2028-01-01T00:00:00.5Z");
    let rest = plan.slots.iter().map(|row| row.count).sum::<u64>();
    assert_eq!(rest, 365 * 86_400 + 1);
    assert_eq!(plan.slots.len(), 2 + 60);
    assert_eq!(plan.slots[0].outcome, SlotOutcome::Missed);
    assert_eq!(plan.slots[1].outcome, SlotOutcome::Coalesced);
}

/// What becomes of one slot, said slot by slot, without any of the planner's cuts.
fn naive(
    rule: &Rule,
    watermark: Timestamp,
    paused: Option<&PausedTime>,
    now: Timestamp,
) -> Vec<(Timestamp, SlotOutcome)> {
    let mut slots = vec![watermark];
    while let Some(next) = rule.spec.next(*slots.last().unwrap()).filter(|next| *next <= now) {
        slots.push(next);
    }
    slots.retain(|slot| *slot <= now);
    let is_paused = |slot: Timestamp| {
        !rule.missed_paused
            && paused.is_some_and(|paused| paused.since <= slot && slot < paused.until)
    };
    let is_on_time = |slot: Timestamp| now.since(slot) <= ON_TIME;
    let is_free = |slot: Timestamp| !is_paused(slot) && !rule.is_excluded(slot);
    let has_fresh = slots.iter().any(|slot| is_on_time(*slot) && is_free(*slot));
    let mut room = match rule.missed {
        Missed::None => 0,
        Missed::Latest => u32::from(!has_fresh),
        Missed::All => rule.missed_limit,
    };
    let mut decided = Vec::new();
    for slot in slots.into_iter().rev() {
        let outcome = if rule.is_excluded(slot) {
            SlotOutcome::SkippedExcluded
        } else if is_paused(slot) {
            SlotOutcome::SkippedPaused
        } else if is_on_time(slot) {
            SlotOutcome::Fired
        } else if rule.missed == Missed::None || now.since(slot) > rule.missed_window {
            SlotOutcome::Missed
        } else if room > 0 {
            room -= 1;
            SlotOutcome::CaughtUp
        } else if rule.missed == Missed::Latest {
            SlotOutcome::Coalesced
        } else {
            SlotOutcome::Missed
        };
        decided.push((slot, outcome));
    }
    decided.reverse();
    decided
}

const EXCLUDES: [&[&str]; 4] =
    [&[], &["2027-03-28"], &["Sat 22:00-Sun 04:30"], &["03-27", "Sun 05:00-Sun 05:30"]];

#[test]
fn random_plans_agree_with_deciding_slot_by_slot() {
    let mut seed = 7_u64;
    let mut below = |most: u64| {
        seed = hash::mix(seed.wrapping_add(0x9E37_79B9_7F4A_7C15));
        seed % most
    };
    let whens =
        ["* * * * *", "*/7 * * * * *", "30 2 * * *", "0 */3 * * *", "0 */3 * * MON", "@every 97s"];
    for _ in 0..5_000 {
        let moves = [OnExcluded::Skip, OnExcluded::NextWorkingDay];
        let definition = Definition {
            on_excluded: moves[below(2) as usize],
            tz: ["UTC", "Europe/Paris", "America/New_York"][below(3) as usize].to_owned(),
            missed_limit: 1 + below(40) as u32,
            missed_window: format!("{}m", 1 + below(600)),
            missed_paused: below(4) == 0,
            exclude: EXCLUDES[below(4) as usize].iter().map(|it| (*it).to_owned()).collect(),
            ..definition(whens[below(6) as usize], Missed::ALL[below(3) as usize])
        };
        // Those of too many slots are refused.
        let Ok(rule) = definition.rule("s") else { continue };
        let now = at("2027-03-28T04:00:00Z") + Duration::from_micros(below(7_200_000_000));
        let longest = [100, 4_000, 100_000][below(3) as usize];
        let back = Duration::from_secs(below(longest));
        let Some(mut watermark) = rule.spec.next(now - back) else { continue };
        if below(10) == 0 {
            watermark = watermark - Duration::from_secs(1);
        }
        if watermark > now {
            continue;
        }
        let since = now - Duration::from_secs(below(20_000));
        let until = since + Duration::from_secs(below(20_000));
        let paused = PausedTime { since, until: until.min(now), reason: "why".to_owned() };
        let paused = Some(&paused).filter(|_| below(2) == 0);
        let plan = plan(&rule, "s", watermark, paused, now);
        let mut decided = Vec::new();
        for row in &plan.slots {
            let last = row.end.unwrap_or(row.slot);
            let own = (row.slot == watermark).then_some(watermark);
            let from = if own.is_some() { watermark + TICK } else { row.slot };
            let others = rule.spec.slots(from, last + TICK, usize::MAX);
            let slots: Vec<Timestamp> = own.into_iter().chain(others).collect();
            assert_eq!(slots.len() as u64, row.count, "{row:?}");
            assert_eq!(row.job.is_some(), row.outcome.has_job());
            // A run of equal skips has one row, but what lies between is its own.
            decided.extend(slots.into_iter().map(|slot| (slot, row.outcome)));
        }
        assert_eq!(
            decided,
            naive(&rule, watermark, paused, now),
            "{definition:?} {paused:?} {now}"
        );
        assert_eq!(plan.next, rule.spec.next(now));
    }
}

/// A payroll of every day at nine, of which Saturday and Sunday go to Monday.
fn moving(missed: Missed) -> Definition {
    Definition {
        tz: "Europe/Berlin".to_owned(),
        exclude: ["Sat", "Sun"].map(str::to_owned).to_vec(),
        on_excluded: OnExcluded::NextWorkingDay,
        ..definition("0 9 15,16 * *", missed)
    }
}

#[test]
fn an_excluded_slot_says_where_it_went_and_is_decided_there() {
    // The 15th and 16th of May 2027 are a Saturday and a Sunday.
    let on_time = |watermark: &str| planned(&moving(Missed::Latest), watermark, watermark);
    let saturday = on_time("2027-05-15T07:00:00Z");
    let reason = "excluded by `exclude`; moved to 2027-05-17 09:00 Europe/Berlin";
    assert_eq!(told(&saturday), [format!("2027-05-15T07:00:00Z skipped_excluded: {reason}")]);
    assert_eq!(saturday.next, Some(at("2027-05-16T07:00:00Z")));
    let sunday = on_time("2027-05-16T07:00:00Z");
    assert_eq!(sunday.next, Some(at("2027-05-17T07:00:00Z")));
    let monday = on_time("2027-05-17T07:00:00Z");
    assert_eq!(told(&monday), ["2027-05-17T07:00:00Z fired"]);
    assert_eq!(monday.next, Some(at("2027-06-15T07:00:00Z")));
}

#[test]
fn a_moved_slot_is_missed_and_caught_up_like_any_other() {
    let after_outage =
        |missed| told(&planned(&moving(missed), "2027-05-15T07:00:00Z", "2027-05-17T12:00:00Z"));
    let excluded = "2027-05-15T07:00:00Z..2027-05-16T07:00:00Z x2 skipped_excluded: \
         excluded by `exclude`; moved to 2027-05-17 09:00 Europe/Berlin";
    assert_eq!(after_outage(Missed::Latest), [excluded, "2027-05-17T07:00:00Z caught_up"]);
    assert_eq!(
        after_outage(Missed::None),
        [excluded, "2027-05-17T07:00:00Z missed: missed = none"]
    );
}

#[test]
fn a_long_outage_tells_the_newest_moves_and_no_more() {
    let hourly = Definition {
        exclude: ["Sat", "Sun"].map(str::to_owned).to_vec(),
        on_excluded: OnExcluded::NextWorkingDay,
        missed_limit: 1_000,
        missed_window: "400d".to_owned(),
        ..definition("30 * * * *", Missed::All)
    };
    let plan = planned(&hourly, "2026-01-01T00:30:00Z", "2027-03-28T12:00:00Z");
    let of_each =
        |row: &&PlannedSlot| row.reason.as_ref().is_some_and(|why| why.contains("moved to"));
    assert_eq!(plan.slots.iter().filter(of_each).map(|row| row.count).sum::<u64>(), 100);
    assert!(plan.slots.len() < 1_400, "more than a store takes: {}", plan.slots.len());
    let hours = at("2027-03-28T12:00:00Z").since(at("2026-01-01T00:00:00Z")).as_secs() / 3_600;
    assert_eq!(plan.slots.iter().map(|row| row.count).sum::<u64>(), hours);
}
