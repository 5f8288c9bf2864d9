//! Brings schedules back that are ahead of the clock.
//!
//! While the database clock is wrong, slots of the future are decided. When it is right again, the
//! schedule fires nothing until the clock has reached the last of them. A realignment discards these
//! decisions in the ledger, so that the slots are decided again at their time. Jobs that they created
//! are not touched.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::schedule::{Definition, Rule};
use punctual_store::{
    Actor, EditAnswer, Realignment, RevisionCursor, RowCut, Schedule, ScheduleChange, SlotCursor,
    SlotView, limits,
};

use crate::schedules::{ScheduleError, Schedules, TRIES};

/// The least difference between two instants.
const TICK: Duration = Duration::from_micros(1);
/// Maximum number of ledger rows that are read to count the slots that a realignment discards.
const COUNT_ROWS_MAX: usize = 10_000;
/// Maximum number of discarded slots that are reported one by one, the earliest.
const REPORT_MAX: usize = 5;
/// Rows in which the newest decision at the watermark is searched: those of backfills may come first.
const ROWS: usize = 5;
/// Maximum number of transactions of one realignment. Each discards up to
/// [`limits::REALIGN_ROWS_MAX`] rows, so that a schedule with a slot each second can be four months ahead.
const ROUNDS_MAX: usize = 5_000;

/// What a realignment did, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Realigned {
    /// The schedule after it, or as it is in a preview.
    pub schedule: Schedule,
    /// Decisions about slots after this instant are discarded.
    pub after: Timestamp,
    /// The last slot that was decided before it.
    pub until: Timestamp,
    /// How many slots become undecided.
    pub slots: u64,
    /// Are there more than so many? They were not counted.
    pub is_partial: bool,
    /// The earliest ledger entries about these slots, in order; none if `is_partial`.
    pub discarded: Vec<SlotView>,
    /// The first slot that fires after it.
    pub next_slot: Option<Timestamp>,
}

/// The slots after an instant that are decided.
#[derive(Default)]
struct Later {
    slots: u64,
    is_partial: bool,
    earliest: Vec<SlotView>,
}

impl Schedules {
    /// Discards the decisions about slots that are later than the database clock.
    ///
    /// # Errors
    ///
    /// [`ScheduleError::NotAhead`] if the schedule is not ahead of the clock.
    pub async fn realign(
        &self,
        tenant: &str,
        name: &str,
        actor: &Actor,
    ) -> Result<Realigned, ScheduleError> {
        let mut report: Option<Realigned> = None;
        let mut tries = 0;
        for _ in 0..ROUNDS_MAX {
            let schedule = self.get(tenant, name).await?;
            let now = self.store.now(self.env.at()).await?;
            let Some(until) = schedule.ahead_until(now) else {
                return report.ok_or_else(|| ScheduleError::NotAhead(name.to_owned()));
            };
            let realignment = self.realignment(&schedule, now).await?;
            if report.is_none() {
                report = Some(self.report(&schedule, &realignment, until).await?);
            }
            let (id, stamp) = (schedule.id, schedule.stamp);
            let change = ScheduleChange::Realign(realignment);
            match self.store.change_schedule(self.env.at(), id, stamp, &change, actor).await? {
                EditAnswer::Done(schedule) => {
                    let is_ahead = schedule.ahead_until(now).is_some();
                    if let Some(report) = &mut report {
                        report.next_slot = schedule.next_slot;
                        report.schedule = schedule;
                    }
                    if !is_ahead {
                        break;
                    }
                }
                EditAnswer::Stale(_) if tries < TRIES => {
                    tries += 1;
                    report = None;
                    self.env.sleep(Duration::from_millis(1)).await;
                }
                EditAnswer::Stale(_) => return Err(ScheduleError::Busy(name.to_owned())),
                EditAnswer::NotFound => return Err(ScheduleError::NotFound(name.to_owned())),
            }
        }
        report.ok_or_else(|| ScheduleError::Busy(name.to_owned()))
    }

    /// What [`Schedules::realign`] would do now.
    ///
    /// # Errors
    ///
    /// [`ScheduleError::NotAhead`] if the schedule is not ahead of the clock.
    pub async fn preview_realign(
        &self,
        tenant: &str,
        name: &str,
    ) -> Result<Realigned, ScheduleError> {
        let schedule = self.get(tenant, name).await?;
        let now = self.store.now(self.env.at()).await?;
        let Some(until) = schedule.ahead_until(now) else {
            return Err(ScheduleError::NotAhead(name.to_owned()));
        };
        let realignment = self.realignment(&schedule, now).await?;
        self.report(&schedule, &realignment, until).await
    }

    async fn realignment(
        &self,
        schedule: &Schedule,
        after: Timestamp,
    ) -> Result<Realignment, ScheduleError> {
        let definition = Definition::parse(schedule.spec.as_str())?;
        let next_slot = definition.rule(&schedule.name)?.spec.next(after);
        let page = self.store.slots(schedule.id, Some(from_later(after)), ROWS).await?;
        let last = page.items.into_iter().find(|view| view.run == 0);
        let cut = match last.filter(|view| view.end.is_some_and(|end| end > after)) {
            Some(view) => Some(cut(&view, &self.rule_of(schedule, view.revision).await?, after)),
            None => None,
        };
        Ok(Realignment { after, next_slot, cut })
    }

    /// The rule of a revision of a schedule.
    async fn rule_of(&self, schedule: &Schedule, revision: i64) -> Result<Rule, ScheduleError> {
        let mut spec = schedule.spec.clone();
        if revision != schedule.revision {
            let before = Some(RevisionCursor(revision + 1));
            let page = self.store.revisions(schedule.id, before, 1).await?;
            let found = page.items.into_iter().find(|view| view.revision == revision);
            spec = found.map(|view| view.spec).ok_or_else(|| {
                let name = schedule.name.clone();
                ScheduleError::NoRevision(name, revision)
            })?;
        }
        Ok(Definition::parse(spec.as_str())?.rule(&schedule.name)?)
    }

    async fn report(
        &self,
        schedule: &Schedule,
        realignment: &Realignment,
        until: Timestamp,
    ) -> Result<Realigned, ScheduleError> {
        let later = self.later(schedule, realignment).await?;
        Ok(Realigned {
            schedule: schedule.clone(),
            after: realignment.after,
            until,
            slots: later.slots,
            is_partial: later.is_partial,
            discarded: later.earliest,
            next_slot: realignment.next_slot,
        })
    }

    /// Counts the decided slots after the instant of a realignment.
    async fn later(
        &self,
        schedule: &Schedule,
        realignment: &Realignment,
    ) -> Result<Later, ScheduleError> {
        let (mut later, mut examined, mut cursor) = (Later::default(), 0, None);
        loop {
            let page = self.store.slots(schedule.id, cursor, limits::PAGE_MAX).await?;
            examined += page.items.len();
            for view in page.items.into_iter().filter(|view| view.run == 0) {
                if view.slot > realignment.after {
                    later.slots += view.count;
                    later.earliest.insert(0, view);
                    later.earliest.truncate(REPORT_MAX);
                    continue;
                }
                if let Some(cut) = realignment.cut.filter(|cut| cut.slot == view.slot) {
                    later.slots += view.count.saturating_sub(cut.count);
                    later.earliest.insert(0, view);
                    later.earliest.truncate(REPORT_MAX);
                }
                return Ok(later);
            }
            match page.next {
                None => return Ok(later),
                Some(_) if examined >= COUNT_ROWS_MAX => {
                    return Ok(Later { is_partial: true, earliest: Vec::new(), ..later });
                }
                next => cursor = next,
            }
        }
    }
}

/// Where a listing of slots begins that are not later than an instant.
fn from_later(after: Timestamp) -> SlotCursor {
    SlotCursor(after + TICK, 0)
}

/// The part of a ledger row up to an instant, by the rule that it was decided by.
fn cut(view: &SlotView, rule: &Rule, after: Timestamp) -> RowCut {
    let until = after + TICK;
    let count = (1 + rule.spec.count(view.slot + TICK, until)).min(view.count);
    let last = rule.spec.previous(until).filter(|last| *last > view.slot && count > 1);
    RowCut { slot: view.slot, end: last, count: if last.is_some() { count } else { 1 } }
}

#[cfg(test)]
mod tests {
    use punctual_core::NodeId;
    use punctual_core::job::SlotOutcome;

    use super::*;

    const START: Timestamp = Timestamp::from_seconds(1_798_761_600);
    const MINUTE: Duration = Duration::from_secs(60);

    /// Where ten slots from the start on, one each minute, are cut.
    fn cut_at(seconds: u64) -> (u64, Option<Timestamp>) {
        let rule = Definition::new("* * * * *", "mail").rule("x").unwrap();
        let view = SlotView {
            slot: START,
            run: 0,
            end: Some(START + 9 * MINUTE),
            count: 10,
            outcome: SlotOutcome::Coalesced,
            reason: None,
            job: None,
            term: 1,
            node: NodeId::from_bytes([0; 16]),
            revision: 1,
            decided_at: START + 9 * MINUTE,
        };
        let cut = cut(&view, &rule, START + Duration::from_secs(seconds));
        assert_eq!(cut.slot, START);
        (cut.count, cut.end)
    }

    #[test]
    fn a_row_keeps_its_slots_up_to_the_instant() {
        assert_eq!(cut_at(0), (1, None));
        assert_eq!(cut_at(59), (1, None));
        assert_eq!(cut_at(60), (2, Some(START + MINUTE)));
        assert_eq!(cut_at(150), (3, Some(START + 2 * MINUTE)));
        assert_eq!(cut_at(539), (9, Some(START + 8 * MINUTE)));
    }
}
