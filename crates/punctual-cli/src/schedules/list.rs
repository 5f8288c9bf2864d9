//! `punctual schedule list`: what is next, and how it went.

use std::io::Write;

use punctual::Timestamp;
use punctual_api::{RecentSlot, Schedule};

use crate::exit::Failure;
use crate::output::{self, FAINT, print_json};
use crate::pages;
use crate::target::Client;

/// How many slots are shown of each schedule.
pub(super) const HISTORY: usize = 10;

pub(super) fn run(client: &Client, is_json: bool) -> Result<(), Failure> {
    let path = format!("/schedules?history={HISTORY}");
    let schedules = pages::read::<Schedule>(client, &path, usize::MAX)?;
    let mut out = output::stdout();
    if is_json {
        return Ok(print_json(&mut out, &schedules)?);
    }
    let head = ["NAME", "CADENCE", "TIME ZONE", "NEXT", "IN", "LAST", "HISTORY", "STATUS"];
    let now = output::now();
    let row = |schedule: &Schedule| {
        vec![
            schedule.name.clone(),
            schedule.description.clone().unwrap_or_else(|| "?".to_owned()),
            schedule.definition["tz"].as_str().unwrap_or("?").to_owned(),
            schedule.next_slot.clone().unwrap_or_else(|| "–".to_owned()),
            left(schedule, now),
            last(schedule),
            history(schedule),
            status(schedule),
        ]
    };
    output::print_table(&mut out, &head, schedules.items.iter().map(row).collect())?;
    let count =
        |is_so: fn(&Schedule) -> bool| schedules.items.iter().filter(|it| is_so(it)).count();
    let paused = count(|schedule| schedule.pause.is_some());
    let failing = match count(|schedule| status(schedule) == FAILING) {
        0 => String::new(),
        failing => format!(" · {failing} failing"),
    };
    let all = schedules.items.len();
    Ok(writeln!(out, "{FAINT}{all} schedules · {paused} paused{failing}{FAINT:#}")?)
}

/// The status of one whose last job that has ended has failed.
const FAILING: &str = "failing";

/// How a schedule is, in a word or two.
pub(super) fn status(schedule: &Schedule) -> String {
    match (&schedule.quarantine_reason, &schedule.pause) {
        (Some(reason), _) => format!("quarantined: {reason}"),
        (None, _) if !schedule.enabled => "disabled".to_owned(),
        (None, Some(pause)) => output::paused(pause),
        (None, None) if schedule.ahead_until.is_some() => "ahead".to_owned(),
        (None, None) if schedule.next_slot.is_none() => "finished".to_owned(),
        (None, None) if schedule.held.is_some() => "unserved".to_owned(),
        (None, None) if streak(schedule) > 0 => FAILING.to_owned(),
        (None, None) => "active".to_owned(),
    }
}

fn recent(schedule: &Schedule) -> &[RecentSlot] {
    schedule.history.as_deref().unwrap_or_default()
}

/// How many jobs have failed in a row, up to now and as far as is known.
fn streak(schedule: &Schedule) -> usize {
    let states = recent(schedule).iter().filter_map(|slot| slot.job_state.as_deref());
    let ended = states.filter(|state| *state != "running");
    ended.take_while(|state| *state == "failed").count()
}

/// What became of the last slot, and of its job.
fn last(schedule: &Schedule) -> String {
    let Some(slot) = recent(schedule).first() else { return "–".to_owned() };
    let outcome = slot.slot.outcome.as_str();
    match (outcome, slot.job_state.as_deref(), streak(schedule)) {
        (_, Some("failed"), 0 | 1) => "failed".to_owned(),
        (_, Some("failed"), HISTORY) => format!("failed ×{HISTORY} or more"),
        (_, Some("failed"), failures) => format!("failed ×{failures}"),
        ("fired", Some(state), _) => state.to_owned(),
        (outcome, _, _) => outcome.to_owned(),
    }
}

/// The last slots of a schedule as marks, oldest first.
pub(super) fn history(schedule: &Schedule) -> String {
    let mark = |slot: &RecentSlot| match (slot.slot.outcome.as_str(), slot.job_state.as_deref()) {
        (_, Some("failed")) => '✖',
        (_, Some("running")) => '▸',
        (_, Some("cancelled")) => '⊘',
        ("caught_up" | "backfilled", _) => '↻',
        ("fired", Some(_)) => '✔',
        // Its job waits, or is so old that it is gone.
        ("fired", None) => '•',
        ("missed", _) => '!',
        _ => '·',
    };
    recent(schedule).iter().rev().map(mark).collect()
}

/// How long it takes until the next slot, in its largest unit.
fn left(schedule: &Schedule, now: Timestamp) -> String {
    let next = schedule.next_slot.as_ref().and_then(|next| next.parse::<Timestamp>().ok());
    let fires = schedule.enabled && schedule.pause.is_none() && schedule.held.is_none();
    let Some(next) = next.filter(|_| fires) else {
        return "–".to_owned();
    };
    match next.since(now).as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use punctual_api::{HeldSlots, Pause};

    use super::*;

    fn schedule() -> Schedule {
        let instant = "2027-01-01T00:00:00Z".to_owned();
        Schedule {
            id: "01932b2f-7c00-7a3e-8f21-0d6f3c5b9a10".to_owned(),
            name: "once".to_owned(),
            owner: String::new(),
            set: String::new(),
            definition: serde_json::json!({"when": ["@at 2027-01-01T00:00:00Z"]}),
            description: None,
            revision: 1,
            etag: String::new(),
            enabled: true,
            pause: None,
            quarantine_reason: None,
            next_slot: None,
            held: None,
            last_slot: Some(instant.clone()),
            ahead_until: None,
            created_at: instant.clone(),
            changed_at: instant,
            history: None,
        }
    }

    #[test]
    fn a_schedule_without_a_next_slot_is_finished() {
        let next_slot = Some("2027-01-02T00:00:00Z".to_owned());
        assert_eq!(status(&schedule()), "finished");
        assert_eq!(status(&Schedule { next_slot, ..schedule() }), "active");
        assert_eq!(status(&Schedule { enabled: false, ..schedule() }), "disabled");
        let held = HeldSlots {
            queue: "@db-1".to_owned(),
            since: "2027-01-01T00:00:00Z".to_owned(),
            until: None,
        };
        let held =
            Schedule { held: Some(held), next_slot: Some(schedule().created_at), ..schedule() };
        assert_eq!(
            (status(&held), left(&held, Timestamp::EPOCH)),
            ("unserved".to_owned(), "–".to_owned())
        );
        let pause = Pause {
            by: "ada".to_owned(),
            why: String::new(),
            since: "2027-01-01T00:00:00Z".to_owned(),
            until: None,
        };
        assert_eq!(status(&Schedule { pause: Some(pause), ..schedule() }), "paused by ada");
        let ahead_until = Some("2027-01-01T02:00:00Z".to_owned());
        assert_eq!(status(&Schedule { ahead_until, ..schedule() }), "ahead");
        let quarantine_reason = Some("broken".to_owned());
        assert_eq!(status(&Schedule { quarantine_reason, ..schedule() }), "quarantined: broken");
    }
}
