//! How a schedule is, in one word.

use std::time::Duration;

use punctual::{JobState, Schedule, SlotRun, Timestamp};

/// How a schedule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Active,
    Late,
    Unserved,
    Ahead,
    Failing(usize),
    Paused,
    Off,
    Aside,
    Over,
}

impl Status {
    /// The words that schedules are asked for by. A streak of failures takes more than the schedule's
    /// row to see.
    pub(crate) const ASKED: [&str; 8] =
        ["active", "late", "unserved", "ahead", "paused", "disabled", "quarantined", "finished"];

    /// From the schedule and its newest slots.
    pub(crate) fn of(schedule: &Schedule, now: Timestamp, runs: &[SlotRun]) -> Status {
        if schedule.set_aside.is_some() {
            return Status::Aside;
        }
        if !schedule.enabled {
            return Status::Off;
        }
        if schedule.is_paused(now) {
            return Status::Paused;
        }
        if schedule.ahead_until(now).is_some() {
            return Status::Ahead;
        }
        let Some(due) = schedule.due_at() else { return Status::Over };
        if now.since(due) > Duration::from_secs(60) {
            return Status::Late;
        }
        if schedule.held.is_some() {
            return Status::Unserved;
        }
        let ended = runs.iter().filter_map(|run| run.run).filter(|run| run.finished_at.is_some());
        match ended.take_while(|run| run.state == JobState::Failed).count() {
            0 => Status::Active,
            failures => Status::Failing(failures),
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Status::Active => "active",
            Status::Late => "late",
            Status::Unserved => "unserved",
            Status::Ahead => "ahead",
            Status::Failing(_) => "failing",
            Status::Paused => "paused",
            Status::Off => "disabled",
            Status::Aside => "quarantined",
            Status::Over => "finished",
        }
    }
}

/// When something happens to the schedule next: its next slot, also if that waits for a node, or the end
/// of its pause.
pub(crate) fn next_event(schedule: &Schedule) -> Option<Timestamp> {
    let due_at = schedule.due_at()?;
    match &schedule.held {
        Some(_) if schedule.pause.is_none() => schedule.next_slot,
        _ => Some(due_at),
    }
}

/// From when on, at the earliest from this instant, the slots of a schedule fire; none of one that is
/// off, set aside or paused for good.
pub(crate) fn fires_from(schedule: &Schedule, from: Timestamp) -> Option<Timestamp> {
    if !schedule.enabled || schedule.set_aside.is_some() {
        return None;
    }
    match &schedule.pause {
        None => Some(from),
        Some(pause) => pause.until.map(|until| until.max(from)),
    }
}

/// Which schedules somebody asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    words: Vec<String>,
    status: String,
}

impl Wanted {
    /// Those that have all words of a line in their name or definition, and this status if it is one.
    pub(crate) fn new(line: &str, status: &str) -> Wanted {
        let words = line.split_whitespace().map(str::to_lowercase).collect();
        Wanted { words, status: status.to_owned() }
    }

    /// Are all of them asked for?
    pub(crate) fn is_all(&self) -> bool {
        self.words.is_empty() && self.status.is_empty()
    }

    pub(crate) fn has(&self, schedule: &Schedule, now: Timestamp) -> bool {
        let text = format!("{} {}", schedule.name, schedule.spec.as_str()).to_lowercase();
        let is_so = self.status.is_empty() || Status::of(schedule, now, &[]).word() == self.status;
        self.words.iter().all(|word| text.contains(word)) && is_so
    }
}
