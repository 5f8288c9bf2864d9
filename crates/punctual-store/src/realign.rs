//! Schedules that are ahead of the clock, and the change that brings them back.
//!
//! A schedule is ahead when slots later than the database clock are decided: they were decided while
//! the clock was wrong. It fires nothing until the clock reaches them. A realignment discards these
//! decisions, so that the slots are decided again at their time.

use std::time::Duration;

use punctual_core::Timestamp;

use crate::{Result, Schedule, SlotView, StoreError, limits};

/// By how much a decided slot must be later than the database clock: a clock that is slewed or
/// corrected by seconds needs no repair.
pub const AHEAD_MIN: Duration = Duration::from_secs(5);

/// Schedules that are ahead of the clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AheadSchedules {
    /// The schedules, the furthest ahead first.
    pub schedules: Vec<Schedule>,
    /// Are there more, or may there be more that were not examined?
    pub is_partial: bool,
}

/// Discards the decisions about slots after an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Realignment {
    /// Slots after this instant become undecided.
    pub after: Timestamp,
    /// The first slot after it.
    pub next_slot: Option<Timestamp>,
    /// What remains of the ledger row that has slots before and after the instant, if there is one.
    pub cut: Option<RowCut>,
}

/// The part of a ledger row that remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCut {
    /// The first slot of the row, which identifies it.
    pub slot: Timestamp,
    /// The new last slot, if there is more than one.
    pub end: Option<Timestamp>,
    /// How many slots remain.
    pub count: u64,
}

impl RowCut {
    fn last(&self) -> Timestamp {
        self.end.unwrap_or(self.slot)
    }
}

/// The part of a ledger row that a realignment needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecidedRow {
    /// The slot, or the first of the run.
    pub slot: Timestamp,
    /// The last of the run.
    pub end: Option<Timestamp>,
    /// How many slots it stands for.
    pub count: u64,
}

impl DecidedRow {
    /// The last slot.
    pub fn last(&self) -> Timestamp {
        self.end.unwrap_or(self.slot)
    }
}

impl From<&SlotView> for DecidedRow {
    fn from(view: &SlotView) -> DecidedRow {
        DecidedRow { slot: view.slot, end: view.end, count: view.count }
    }
}

/// What one transaction of a realignment leaves in the ledger beyond its instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remainder {
    /// The newest row that remains.
    pub newest: DecidedRow,
    /// The earliest slot that was discarded.
    pub discarded: Timestamp,
}

impl Schedule {
    /// The last decided slot, if it is later than the clock: nothing fires before the clock has
    /// reached it.
    pub fn ahead_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.last_slot.filter(|last| *last > now + AHEAD_MIN)
    }
}

impl Realignment {
    /// Checks the realignment of a schedule at the instant of the transaction; false if it was
    /// computed by another clock than the one of the transaction, or a slot became due meanwhile.
    pub(crate) fn is_current(&self, schedule: &Schedule, now: Timestamp) -> Result<bool> {
        if schedule.last_slot.is_none_or(|last| last <= self.after) {
            return Err(StoreError::invalid(format!(
                "no slot after {} is decided; nothing to realign",
                self.after
            )));
        }
        if self.next_slot.is_some_and(|next| next <= self.after) {
            return Err(StoreError::invalid(format!(
                "the next slot must be after {}, the instant of the realignment",
                self.after
            )));
        }
        Ok(self.after <= now && self.next_slot.is_none_or(|next| next > now))
    }

    /// Checks the cut against the last ledger row that begins at or before the instant.
    ///
    /// # Errors
    ///
    /// Returns an error if that row must be cut and the realignment does not say how, or would keep
    /// later slots or more slots than the row has.
    pub fn check(&self, last: Option<&DecidedRow>) -> Result<()> {
        let straddling = last.filter(|row| row.last() > self.after);
        let is_right = match (straddling, &self.cut) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(row), Some(cut)) => {
                cut.slot == row.slot
                    && (cut.slot..=self.after).contains(&cut.last())
                    && (1..=row.count).contains(&cut.count)
            }
        };
        match is_right {
            true => Ok(()),
            false => Err(StoreError::invalid(
                "the realignment does not match the ledger; read the schedule again",
            )),
        }
    }

    /// Sets the watermark of the schedule and returns the cut to be made. `last` is the last ledger row
    /// that begins at or before the instant.
    ///
    /// One transaction discards at most [`limits::REALIGN_ROWS_MAX`] rows, the newest ones. If later
    /// rows are left, the watermark goes to the earliest discarded slot, and the realignment is to be
    /// repeated.
    pub fn apply(
        &self,
        schedule: &mut Schedule,
        last: Option<&DecidedRow>,
        left: Option<Remainder>,
    ) -> Option<RowCut> {
        if let Some(Remainder { newest, discarded }) = left {
            (schedule.last_slot, schedule.next_slot) = (Some(newest.last()), Some(discarded));
            return None;
        }
        let cut = self.cut.filter(|_| last.is_some_and(|row| row.last() > self.after));
        let last = cut.as_ref().map(RowCut::last).or(last.map(DecidedRow::last));
        (schedule.last_slot, schedule.next_slot) = (last, self.next_slot);
        cut
    }

    /// May rows be left after a transaction that discarded so many?
    pub fn may_be_partial(&self, discarded: usize) -> bool {
        discarded >= limits::REALIGN_ROWS_MAX
    }
}
