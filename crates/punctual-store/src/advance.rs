//! How a plan is applied: it is checked, and slots that no live node can run are held.
//!
//! Held slots stay undecided. The watermark of their schedule stays at the first of them, so that the
//! planner decides them again later: they fire when a node can run them, and the policy for missed slots
//! applies when none could in time. Stores call this from the transaction that fires.

use std::time::Duration;

use punctual_core::job::SlotOutcome;
use punctual_core::schedule::{EVERY_NODE_QUEUE, NODE_QUEUE, Overlap};
use punctual_core::{ScheduleId, Timestamp};

use crate::bugs::{self, Bug};
use crate::{Actor, FireAnswer, NodeInfo, SlotDecision, SlotPlan, SlotRow, limits, placing, rules};

/// The least difference between two instants.
const TICK: Duration = Duration::from_micros(1);

/// Due slots that stay undecided because no live node can run them: all from the watermark of their
/// schedule on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSlots {
    /// The queue of the nodes that could run them.
    pub queue: String,
    /// Since when slots of the schedule have been held without interruption.
    pub since: Timestamp,
    /// When they are examined again. A node that joins and serves the queue brings this forward.
    pub until: Timestamp,
}

impl HeldSlots {
    /// The nodes that could run them, in words.
    pub fn nodes(&self) -> String {
        let name = self.queue.trim_start_matches(NODE_QUEUE);
        match (self.queue.as_str(), name.contains('=')) {
            (EVERY_NODE_QUEUE, _) => "a node that handles the kind".to_owned(),
            (_, true) => format!("a node with label {name}"),
            (_, false) => format!("node `{name}`"),
        }
    }

    /// For which nodes they waited, for the reasons of slots that are missed after all.
    pub fn awaited(&self) -> String {
        format!("waited for {}", self.nodes())
    }
}

/// The part of a plan that is applied now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance<'a> {
    /// The schedule.
    pub schedule: ScheduleId,
    /// What happens to slots while earlier jobs are unfinished.
    pub overlap: Overlap,
    /// The slots that are decided, in order.
    pub slots: &'a [SlotRow],
    /// The watermark after them.
    pub next_slot: Option<Timestamp>,
    /// The slots from the watermark on that wait for a node, if any do.
    pub held: Option<HeldSlots>,
    /// For which node slots of the schedule waited before, if any did.
    awaited: Option<String>,
}

impl SlotPlan {
    /// Does it decide a slot before its time? The database's clock was set back since it was made.
    pub fn is_early(&self, now: Timestamp) -> bool {
        let SlotDecision::Advance { slots, .. } = &self.decision else { return false };
        slots.last().is_some_and(|row| row.end.unwrap_or(row.slot) > now)
    }

    /// What the plan writes with these live nodes, if it keeps the rules: slots ascend from the watermark
    /// and pass over none, the watermark moves beyond them, and just those have a job that say so. A plan
    /// that breaks one comes from a bug or from bad data; its reason sets the schedule aside.
    ///
    /// `held` is what the schedule holds so far.
    pub fn check(
        &self,
        watermark: Option<Timestamp>,
        held: Option<&HeldSlots>,
        live: &[NodeInfo],
        now: Timestamp,
    ) -> Result<Advance<'_>, String> {
        let (overlap, slots, next_slot, hold_for) = match &self.decision {
            SlotDecision::SetAside(reason) => {
                return Err(limits::cut(reason, limits::REASON_BYTES_MAX).to_owned());
            }
            SlotDecision::Advance { overlap, slots, next_slot, hold_for } => {
                (*overlap, slots.as_slice(), *next_slot, *hold_for)
            }
        };
        let awaited = held.map(HeldSlots::awaited);
        let advance =
            Advance { schedule: self.schedule, overlap, slots, next_slot, held: None, awaited };
        if bugs::has_lax_plans() {
            return Ok(advance);
        }
        let first = slots.first().map_or(next_slot, |row| Some(row.slot));
        if let Some(from) = watermark.filter(|from| first.is_none_or(|first| first > *from)) {
            return Err(format!("slot {from} was skipped without a decision"));
        }
        let from = check_rows(self.schedule, slots, watermark)?;
        match next_slot {
            Some(next_slot) if next_slot < from => {
                Err(format!("the next slot {next_slot} is before the last decided slot"))
            }
            _ => Ok(advance.hold(held, hold_for, live, now)),
        }
    }
}

impl<'a> Advance<'a> {
    /// Leaves slots undecided from the first one on that no live node can run.
    fn hold(
        self,
        held: Option<&HeldSlots>,
        hold_for: Duration,
        live: &[NodeInfo],
        now: Timestamp,
    ) -> Advance<'a> {
        let Some((index, queue)) = self.first_held(live) else { return self };
        let (slots, first) = (&self.slots[..index], self.slots[index].slot);
        if bugs::is_planted(Bug::HeldForgotten) {
            return Advance { slots, ..self };
        }
        let since = held.map_or(now, |held| held.since);
        // Until then the planner decides the same again, unless a node joins.
        let gives_up = first + hold_for + TICK;
        let until = gives_up.min(now + rules::held_wait(since, now));
        let until = until.max(now + rules::HELD_WAIT_MIN);
        let held = HeldSlots { queue: queue.to_owned(), since, until };
        Advance { slots, next_slot: Some(first), held: Some(held), ..self }
    }

    /// The first row that is held, and the queue that no live node serves. A slot that is merged into a
    /// held one is held as well: whether that one gets a job is not known yet.
    fn first_held(&self, live: &[NodeInfo]) -> Option<(usize, &'a str)> {
        let queue = |row: &'a SlotRow| {
            let job = row.job.as_ref()?;
            placing::is_untaken(live, &job.queue, &job.kind).then_some(job.queue.as_str())
        };
        let (index, queue) =
            self.slots.iter().enumerate().find_map(|(index, row)| Some((index, queue(row)?)))?;
        let placed = self.slots[..index].iter().rposition(|row| row.job.is_some());
        let from = placed.map_or(0, |placed| placed + 1);
        let is_merged = |row: &SlotRow| row.outcome == SlotOutcome::Coalesced;
        let merged = self.slots[from..index].iter().position(is_merged);
        Some((merged.map_or(index, |merged| from + merged), queue))
    }

    /// The answer to the leader.
    pub fn answer(&self) -> FireAnswer {
        match &self.held {
            Some(held) => FireAnswer::Held(self.slots.len(), held.clone()),
            None => FireAnswer::Applied,
        }
    }

    /// For which node slots of the schedule waited before, if any did: part of the reason of those that
    /// are missed now.
    pub fn awaited(&self) -> Option<&str> {
        self.awaited.as_deref()
    }

    /// The queue that the schedule waited for until now, if a node of it runs one of its slots: then it
    /// can run those of other schedules that wait for it.
    pub fn freed_queue<'h>(&self, held: Option<&'h HeldSlots>) -> Option<&'h str> {
        let queue = held?.queue.as_str();
        let is_its = |row: &SlotRow| row.job.as_ref().is_some_and(|job| job.queue == queue);
        (self.held.is_none() && self.slots.iter().any(is_its)).then_some(queue)
    }

    /// The last slot that is decided, if any is.
    pub fn last_slot(&self) -> Option<Timestamp> {
        self.slots.last().map(|row| row.end.unwrap_or(row.slot))
    }

    /// Up to when slots are decided. A pause that ends later stays: held slots may be from it.
    pub fn decided_to(&self, now: Timestamp) -> Timestamp {
        let first_held = self.next_slot.filter(|_| self.held.is_some());
        first_held.map_or(now, |first| first.min(now))
    }

    /// The last slot that asks for a job.
    pub(crate) fn last_job(&self) -> Option<Timestamp> {
        self.slots.iter().rev().find(|row| row.job.is_some()).map(|row| row.slot)
    }

    /// Does it depend on the schedule's unfinished jobs?
    pub fn asks_for_unfinished(&self) -> bool {
        self.overlap != Overlap::Allow && self.last_job().is_some()
    }

    /// Who calls off the schedule's unfinished jobs, if it does.
    pub fn calls_off(&self) -> Option<Actor> {
        let slot = self.last_job().filter(|_| self.overlap == Overlap::CancelRunning)?;
        Some(rules::overlap_actor(slot))
    }

    /// Has each node a job of its own, whatever the others do?
    pub fn is_for_every_node(&self) -> bool {
        placing::queues(self.slots).any(|queue| queue == EVERY_NODE_QUEUE)
    }
}

/// Checks slots that are decided from the watermark on; the answer is the instant after the last.
pub(crate) fn check_rows(
    schedule: ScheduleId,
    slots: &[SlotRow],
    watermark: Option<Timestamp>,
) -> Result<Timestamp, String> {
    let Some(mut from) = watermark else {
        return Err("a slot was planned although the schedule has no slots left".to_owned());
    };
    if let Some(first) = slots.first().filter(|first| first.slot > from) {
        return Err(format!(
            "slot {from} was skipped without a decision; the plan starts with {}",
            first.slot
        ));
    }
    for row in slots {
        let last = row.end.unwrap_or(row.slot);
        if row.count == 0 || (row.end.is_some() && row.outcome.has_job()) {
            return Err(format!("slot {} has an invalid slot count: {}", row.slot, row.count));
        }
        if row.slot < from || last < row.slot {
            return Err(format!("slot {} was planned twice or out of order", row.slot));
        }
        if row.job.is_some() != row.outcome.has_job() {
            return Err(format!(
                "slot {} has the outcome {}, which does not match its job",
                row.slot, row.outcome
            ));
        }
        if let Some(job) = &row.job {
            job.check()?;
            let origin = job.origin.as_ref().map(|origin| (origin.schedule, origin.slot));
            if origin != Some((schedule, Some(row.slot))) {
                return Err(format!(
                    "the job of slot {} belongs to another schedule or slot",
                    row.slot
                ));
            }
            if job.unique.is_some() {
                return Err("the job of a slot cannot have a unique key".to_owned());
            }
        }
        from = last + TICK;
    }
    Ok(from)
}
