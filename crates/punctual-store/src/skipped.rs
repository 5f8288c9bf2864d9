//! Slots that were decided without a job, summarised for the log.

use punctual_core::job::SlotOutcome;
use punctual_core::{ScheduleId, Timestamp};

use crate::{SlotRow, SlotView};

/// Slots of one schedule that were decided together, with the same outcome and without a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedSlots {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The outcome of all of them.
    pub outcome: SlotOutcome,
    /// The reason of the last one.
    pub reason: String,
    /// The number of slots; if each node has jobs of its own, one per slot and node.
    pub count: u64,
    /// The first slot.
    pub first: Timestamp,
    /// The last slot.
    pub last: Timestamp,
}

impl SkippedSlots {
    /// The slots that this row decides.
    pub fn of_row(schedule: ScheduleId, row: &SlotRow) -> SkippedSlots {
        SkippedSlots {
            schedule,
            outcome: row.outcome,
            reason: row.reason.clone().unwrap_or_default(),
            count: row.count,
            first: row.slot,
            last: row.end.unwrap_or(row.slot),
        }
    }

    /// Whether both are reported as one. Reasons that name a job or another slot are not compared.
    pub fn is_like(&self, other: &SkippedSlots) -> bool {
        use SlotOutcome::{SkippedExcluded, SkippedOverlap};
        let has_names = matches!(self.outcome, SkippedOverlap | SkippedExcluded);
        self.schedule == other.schedule
            && self.outcome == other.outcome
            && (has_names || self.reason == other.reason)
    }

    /// Adds later slots.
    pub fn extend(&mut self, later: SkippedSlots) {
        self.reason = later.reason;
        self.count = self.count.saturating_add(later.count);
        self.first = self.first.min(later.first);
        self.last = self.last.max(later.last);
    }
}

/// Adds a row of the ledger to those of the same transaction, unless it has a job.
pub fn add(all: &mut Vec<SkippedSlots>, schedule: ScheduleId, view: &SlotView) {
    if view.job.is_some() {
        return;
    }
    let new = SkippedSlots {
        schedule,
        outcome: view.outcome,
        reason: view.reason.clone().unwrap_or_default(),
        count: view.count,
        first: view.slot,
        last: view.end.unwrap_or(view.slot),
    };
    // The rows of a schedule follow each other, and have few different outcomes.
    let mut own = all.iter_mut().rev().take_while(|one| one.schedule == schedule);
    match own.find(|one| one.is_like(&new)) {
        Some(like) => like.extend(new),
        None => all.push(new),
    }
}
