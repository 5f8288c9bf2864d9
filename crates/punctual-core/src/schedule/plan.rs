//! What becomes of each slot that is due: the one decision that the leader, a preview and the
//! simulator share.

use std::time::Duration;

use super::{Missed, Rule};
use crate::job::SlotOutcome;
use crate::{Timestamp, format_duration};

/// A slot that is decided within this time is on time, whatever the policy for missed ones: it is
/// longer than it takes another node to take over.
pub const ON_TIME: Duration = Duration::from_secs(60);

/// A stretch of time in which a schedule was paused: `since` belongs to it, `until` does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PausedTime {
    /// From when.
    pub since: Timestamp,
    /// To when.
    pub until: Timestamp,
    /// What the ledger says about its slots.
    pub reason: String,
}

/// What becomes of everything that is due, and what comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The slots from the watermark up to now, in order, each exactly once.
    pub slots: Vec<PlannedSlot>,
    /// The first slot after now.
    pub next: Option<Timestamp>,
}

/// What becomes of one slot, or of a run of slots that are skipped alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedSlot {
    /// The slot, or the first of the run.
    pub slot: Timestamp,
    /// The last of the run, if there is more than one.
    pub end: Option<Timestamp>,
    /// How many slots it stands for.
    pub count: u64,
    /// What becomes of it.
    pub outcome: SlotOutcome,
    /// Why, if it does not become a job.
    pub reason: Option<String>,
    /// The job that it becomes.
    pub job: Option<PlannedJob>,
}

/// The job that a slot becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedJob {
    /// When it may start.
    pub due_at: Timestamp,
    /// How many slots were missed or folded into this one since the job before it.
    pub missed_count: u64,
}

/// Decides what is due of a schedule of this name whose first undecided slot is `watermark`, at
/// `now`. Its cost is per day that lies behind, not per slot.
pub fn plan(
    rule: &Rule,
    name: &str,
    watermark: Timestamp,
    paused: Option<&PausedTime>,
    now: Timestamp,
) -> Plan {
    let planner = Planner::new(rule, watermark, paused, now);
    let mut slots = planner.slots();
    planner.give_jobs(&mut slots, name);
    Plan { slots, next: rule.spec.next(now) }
}

/// The least difference between two instants.
const TICK: Duration = Duration::from_micros(1);

struct Planner<'a> {
    rule: &'a Rule,
    paused: Option<&'a PausedTime>,
    now: Timestamp,
    /// The watermark is a slot, whatever the rule says by now: a new edition of the zones may
    /// have moved it after it was written.
    watermark: Timestamp,
    /// The end of what is due, which is not due itself.
    end: Timestamp,
    /// Slots from here on are on time.
    on_time_from: Timestamp,
    /// Slots before this are too late to be caught up.
    window_from: Timestamp,
    /// The first slot of those that are caught up.
    caught_up_from: Option<Timestamp>,
    /// When slots are excluded, in order and apart from one another.
    excluded: Vec<(Timestamp, Timestamp)>,
    /// The first of the excluded slots that are told one by one, since each moves.
    moved_from: Option<Timestamp>,
}

/// How far back exclusions are looked at: what lies further back is too late for any policy, and is
/// missed whatever it was.
const EXCLUDED_BACK: Duration = Duration::from_secs(400 * 86_400);
/// Stretches of excluded time that are told apart, the newest: each is a row of the ledger.
const STRETCHES_MAX: usize = 100;
/// Excluded slots of which each has a row that says where it went, the newest; older ones are one
/// row for each stretch.
const MOVED_MAX: usize = 100;
/// Why a slot is excluded.
const EXCLUDED: &str = "excluded by `exclude`";

impl<'a> Planner<'a> {
    fn new(
        rule: &'a Rule,
        watermark: Timestamp,
        paused: Option<&'a PausedTime>,
        now: Timestamp,
    ) -> Planner<'a> {
        let mut planner = Planner {
            rule,
            paused: paused.filter(|_| !rule.missed_paused),
            now,
            watermark,
            end: now + TICK,
            on_time_from: now - ON_TIME,
            window_from: now - rule.missed_window,
            caught_up_from: None,
            excluded: Vec::new(),
            moved_from: None,
        };
        let from = watermark.max(now - EXCLUDED_BACK);
        planner.excluded = rule.excluded.stretches(rule.spec.zone(), from, planner.end);
        let old = planner.excluded.len().saturating_sub(STRETCHES_MAX);
        planner.excluded.drain(..old);
        planner.caught_up_from = planner.first_caught_up();
        planner.moved_from = rule.spec.moves_excluded().then(|| planner.first_moved());
        planner
    }

    /// Where what becomes of slots may change, in order.
    fn cuts(&self) -> Vec<Timestamp> {
        let pause = self.paused.map(|paused| [paused.since, paused.until]);
        let mut cuts = vec![self.watermark, self.window_from, self.on_time_from, self.end];
        cuts.extend(pause.into_iter().flatten().chain(self.caught_up_from).chain(self.moved_from));
        cuts.extend(self.excluded.iter().flat_map(|(start, end)| [*start, *end]));
        cuts.retain(|cut| (self.watermark..=self.end).contains(cut));
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    }

    fn slots(&self) -> Vec<PlannedSlot> {
        let mut slots: Vec<PlannedSlot> = Vec::new();
        for ends in self.cuts().windows(2) {
            let &[from, to] = ends else { continue };
            match self.fate(from) {
                Fate::Job(outcome) => slots.extend(self.each(from, to).map(|slot| PlannedSlot {
                    slot,
                    end: None,
                    count: 1,
                    outcome,
                    reason: None,
                    job: Some(PlannedJob { due_at: slot, missed_count: 0 }),
                })),
                Fate::Skip(outcome, reason) => {
                    if let Some((first, last, count)) = self.run(from, to) {
                        let end = (count > 1).then_some(last);
                        add_skipped(&mut slots, first, end, count, outcome, reason);
                    }
                }
                Fate::Move => {
                    for slot in self.each(from, to) {
                        let (outcome, reason) = (SlotOutcome::SkippedExcluded, self.moved(slot));
                        add_skipped(&mut slots, slot, None, 1, outcome, reason);
                    }
                }
            }
        }
        slots
    }

    /// Why an excluded slot is skipped, and where it went.
    fn moved(&self, slot: Timestamp) -> String {
        match self.rule.moved(slot) {
            Some(moved) => format!("{EXCLUDED}; {moved}"),
            None => EXCLUDED.to_owned(),
        }
    }

    /// What becomes of the slots from here up to the next cut.
    fn fate(&self, from: Timestamp) -> Fate {
        if self.exclusion(from).is_some() {
            if self.moved_from.is_some_and(|first| from >= first) {
                return Fate::Move;
            }
            return Fate::Skip(SlotOutcome::SkippedExcluded, EXCLUDED.to_owned());
        }
        if let Some(paused) = self.paused.filter(|_| self.is_paused(from)) {
            return Fate::Skip(SlotOutcome::SkippedPaused, paused.reason.clone());
        }
        if from >= self.on_time_from {
            return Fate::Job(SlotOutcome::Fired);
        }
        if self.caught_up_from.is_some_and(|first| from >= first) {
            return Fate::Job(SlotOutcome::CaughtUp);
        }
        let is_too_late = from < self.window_from;
        let (outcome, reason) = match self.rule.missed {
            Missed::None => (SlotOutcome::Missed, "missed = none".to_owned()),
            _ if is_too_late => {
                let window = format_duration(self.rule.missed_window);
                (SlotOutcome::Missed, format!("more than missed_window = {window} late"))
            }
            Missed::Latest => (SlotOutcome::Coalesced, "missed = latest".to_owned()),
            Missed::All => {
                let limit = self.rule.missed_limit;
                (SlotOutcome::Missed, format!("more than missed_limit = {limit} slots were missed"))
            }
        };
        Fate::Skip(outcome, reason)
    }

    /// Since when the time around this instant is excluded, if it is.
    fn exclusion(&self, at: Timestamp) -> Option<Timestamp> {
        let of_it = self.excluded.iter().find(|(start, end)| (*start..*end).contains(&at));
        of_it.map(|(start, _)| *start)
    }

    fn is_paused(&self, at: Timestamp) -> bool {
        self.paused.is_some_and(|paused| paused.since <= at && at < paused.until)
    }

    /// The first of the slots that are caught up: the newest ones, as many as the policy allows.
    fn first_caught_up(&self) -> Option<Timestamp> {
        let has_on_time = || {
            let mut due = self.each(self.on_time_from.max(self.watermark), self.end);
            due.any(|slot| !self.is_paused(slot) && self.exclusion(slot).is_none())
        };
        let most = match self.rule.missed {
            Missed::None => 0,
            Missed::Latest if has_on_time() => 0,
            Missed::Latest => 1,
            Missed::All => self.rule.missed_limit,
        };
        let (mut first, mut found) = (None, 0);
        let mut before = self.on_time_from;
        while found < most {
            let Some(slot) = self.last_before(before) else { break };
            if slot < self.window_from {
                break;
            }
            if let Some(since) = self.exclusion(slot) {
                before = since;
                continue;
            }
            match self.paused.filter(|_| self.is_paused(slot)) {
                Some(paused) => before = paused.since,
                None => (first, before, found) = (Some(slot), slot, found + 1),
            }
        }
        first
    }

    /// The first of the excluded slots that are told one by one: the newest ones.
    fn first_moved(&self) -> Timestamp {
        let mut first = self.end;
        let mut found = 0;
        for (start, end) in self.excluded.iter().rev() {
            let mut before = (*end).min(self.end);
            while let Some(slot) = self.last_before(before).filter(|slot| slot >= start) {
                if found == MOVED_MAX {
                    return first;
                }
                (first, before, found) = (slot, slot, found + 1);
            }
        }
        first
    }

    fn last_before(&self, before: Timestamp) -> Option<Timestamp> {
        if before <= self.watermark {
            return None;
        }
        let slot = self.rule.spec.previous(before);
        Some(slot.unwrap_or(self.watermark).max(self.watermark))
    }

    /// The slots of `from..to`.
    fn each(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = Timestamp> {
        let own = (from <= self.watermark && self.watermark < to).then_some(self.watermark);
        let others = self.rule.spec.slots(from.max(self.watermark + TICK), to, usize::MAX);
        own.into_iter().chain(others)
    }

    /// The first and the last slot of `from..to`, and how many there are.
    fn run(&self, from: Timestamp, to: Timestamp) -> Option<(Timestamp, Timestamp, u64)> {
        let first = self.each(from, to).next()?;
        let last = self.last_before(to).unwrap_or(first).max(first);
        let others = self.rule.spec.count(first + TICK, to);
        Some((first, last, others + 1))
    }

    /// Says when jobs may start and what went before them.
    fn give_jobs(&self, slots: &mut [PlannedSlot], name: &str) {
        let pace = Duration::from_secs(1) / self.rule.missed_pace.max(1);
        let (mut missed_count, mut caught_up) = (0, 0);
        for slot in slots {
            let Some(job) = &mut slot.job else {
                if matches!(slot.outcome, SlotOutcome::Missed | SlotOutcome::Coalesced) {
                    missed_count += slot.count;
                }
                continue;
            };
            job.missed_count = std::mem::take(&mut missed_count);
            if slot.outcome == SlotOutcome::CaughtUp {
                job.due_at = self.now + pace * caught_up;
                caught_up += 1;
            } else {
                job.due_at = slot.slot + self.rule.spec.jitter(name, slot.slot, self.rule.jitter);
            }
        }
    }
}

/// Adds slots that are skipped, to the row before if that says the same.
fn add_skipped(
    slots: &mut Vec<PlannedSlot>,
    slot: Timestamp,
    end: Option<Timestamp>,
    count: u64,
    outcome: SlotOutcome,
    reason: String,
) {
    match slots.last_mut() {
        Some(before) if before.outcome == outcome && before.reason.as_ref() == Some(&reason) => {
            before.end = end.or(Some(slot));
            before.count += count;
        }
        _ => slots.push(PlannedSlot { slot, end, count, outcome, reason: Some(reason), job: None }),
    }
}

/// What becomes of slots.
enum Fate {
    /// No job, and each goes somewhere else.
    Move,
    Job(SlotOutcome),
    Skip(SlotOutcome, String),
}

#[cfg(test)]
mod tests;
