//! Schedules, their slots and the ledger.

use std::collections::BTreeMap;

use punctual_core::job::SlotOutcome;
use punctual_core::schedule::{Overlap, Seat};
use punctual_core::{JobId, NodeId, ScheduleId, Timestamp};

use crate::{Actor, CancelAnswer, Json, NewJob, Result, SlotView, StoreError, bugs, limits, rules};

/// A schedule to be created. What it means is text to the store; the watermark is the caller's
/// first answer to what is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSchedule {
    /// Its name for ever.
    pub id: ScheduleId,
    /// Whose it is.
    pub tenant: String,
    /// Its name, one of a kind within the tenant.
    pub name: String,
    /// Who its jobs act for.
    pub owner: String,
    /// The set that it is of; empty: none.
    pub set: String,
    /// Which leader plans it.
    pub shard: i16,
    /// Is it planned from the start?
    pub enabled: bool,
    /// The definition.
    pub spec: Json,
    /// Its first slot.
    pub next_slot: Option<Timestamp>,
    /// Who creates it, and why.
    pub actor: Actor,
}

/// A schedule as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Its name for ever.
    pub id: ScheduleId,
    /// Whose it is.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Who its jobs act for.
    pub owner: String,
    /// The set that it is of, from its creation on or since it was taken over; empty: none.
    pub set: String,
    /// Which leader plans it.
    pub shard: i16,
    /// The definition.
    pub spec: Json,
    /// Counts definitions, from 1.
    pub revision: i64,
    /// Rises with every write, as [`rules::next_stamp`] says; a plan made from another one is not
    /// applied.
    pub stamp: i64,
    /// Is it planned at all?
    pub enabled: bool,
    /// Who paused it and why. A pause that has ended stays until the next plan is applied, so that
    /// whoever makes it knows which slots were skipped on purpose.
    pub pause: Option<Pause>,
    /// Why it cannot be planned, while it cannot.
    pub set_aside: Option<String>,
    /// The watermark: everything before it is decided.
    pub next_slot: Option<Timestamp>,
    /// The last slot that was decided.
    pub last_slot: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed by somebody.
    pub changed_at: Timestamp,
}

/// Who stopped something, why, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Who and why.
    pub by: Actor,
    /// Since when.
    pub since: Timestamp,
    /// Until when; none: until somebody resumes it.
    pub until: Option<Timestamp>,
}

/// A change of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleChange {
    /// Another definition, and the watermark that it begins with.
    Define {
        /// The definition.
        spec: Json,
        /// Who its jobs act for.
        owner: String,
        /// The next slot under it.
        next_slot: Option<Timestamp>,
        /// What becomes of slots that were due under the old one and are undecided.
        passed: Vec<SlotRow>,
    },
    /// Slots are skipped.
    Pause {
        /// Until then.
        until: Option<Timestamp>,
    },
    /// Slots are fired again.
    Resume,
    /// Planned again, from this slot on.
    Enable {
        /// The next slot.
        next_slot: Option<Timestamp>,
        /// What becomes of slots that were due while it could not be planned.
        passed: Vec<SlotRow>,
    },
    /// Not planned any more.
    Disable {
        /// What becomes of slots that are due and undecided.
        passed: Vec<SlotRow>,
    },
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditAnswer {
    /// Done; the schedule as it is now (or was, if it was deleted).
    Done(Schedule),
    /// It has changed since the caller saw it; this is how it is.
    Stale(Schedule),
    /// There is no such schedule.
    NotFound,
}

/// Schedules that have something to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The instant that was used.
    pub at: Timestamp,
    /// The schedules.
    pub schedules: Vec<Schedule>,
    /// When the next one is due that is not yet.
    pub next: Option<Timestamp>,
}

/// What the leader decided about one schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotPlan {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The stamp that the plan was made from.
    pub stamp: i64,
    /// What is written.
    pub decision: SlotDecision,
}

/// What a plan writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotDecision {
    /// These slots are decided, and the watermark moves.
    Advance {
        /// What becomes of slots while earlier jobs are unfinished.
        overlap: Overlap,
        /// The slots, in order.
        slots: Vec<SlotRow>,
        /// The next slot to decide.
        next_slot: Option<Timestamp>,
    },
    /// It cannot be planned, for this reason, until somebody mends it.
    SetAside(String),
}

/// One decided slot, or a run of slots that were skipped alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRow {
    /// The slot, or the first of the run.
    pub slot: Timestamp,
    /// The last of the run.
    pub end: Option<Timestamp>,
    /// How many slots it stands for.
    pub count: u64,
    /// What became of it.
    pub outcome: SlotOutcome,
    /// Why, if it did not become a job.
    pub reason: Option<String>,
    /// The job that it became.
    pub job: Option<NewJob>,
}

/// The answer to firing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The instant that was used.
    pub at: Timestamp,
    /// Until when the role was renewed by it; none: the term is over and nothing was written.
    pub until: Option<Timestamp>,
    /// One for each plan; empty if the term is over.
    pub answers: Vec<FireAnswer>,
    /// How many slots asked for a job and have none because earlier ones were unfinished.
    pub refused: usize,
    /// How many slots asked for a job and have none because no live node takes it.
    pub unplaced: usize,
}

/// What became of one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FireAnswer {
    /// It was applied.
    Applied,
    /// The schedule had changed, or was gone, or the clock was set back so that it is early: read
    /// it again.
    Stale,
    /// It broke a rule, so that the schedule was set aside with this reason.
    SetAside(String),
}

impl NewSchedule {
    /// Checks it against the bounds.
    pub fn check(&self) -> Result<()> {
        let names = [
            ("tenant", &self.tenant, true),
            ("owner", &self.owner, true),
            ("set", &self.set, true),
            ("schedule name", &self.name, false),
        ];
        for (what, name, may_be_empty) in names {
            limits::check_name(what, name, may_be_empty).map_err(StoreError::invalid)?;
        }
        rules::check_spec(&self.spec)
    }

    /// The schedule as it begins.
    pub fn at_creation(&self, now: Timestamp) -> Schedule {
        Schedule {
            id: self.id,
            tenant: self.tenant.clone(),
            name: self.name.clone(),
            owner: self.owner.clone(),
            set: self.set.clone(),
            shard: self.shard,
            spec: self.spec.clone(),
            revision: 1,
            stamp: 1,
            enabled: self.enabled,
            pause: None,
            set_aside: None,
            next_slot: self.next_slot,
            last_slot: None,
            created_at: now,
            changed_at: now,
        }
    }
}

impl ScheduleChange {
    /// The slots that would be undecided after it, and what becomes of them: none of them a job.
    pub fn passed(&self) -> &[SlotRow] {
        match self {
            ScheduleChange::Define { passed, .. }
            | ScheduleChange::Enable { passed, .. }
            | ScheduleChange::Disable { passed } => passed,
            ScheduleChange::Pause { .. } | ScheduleChange::Resume => &[],
        }
    }

    /// What the audit calls it.
    pub fn action(&self) -> &'static str {
        match self {
            ScheduleChange::Define { .. } => "edit schedule",
            ScheduleChange::Pause { .. } => "pause schedule",
            ScheduleChange::Resume => "resume schedule",
            ScheduleChange::Enable { .. } => "enable schedule",
            ScheduleChange::Disable { .. } => "disable schedule",
        }
    }
}

impl Schedule {
    /// Is it paused?
    pub fn is_paused(&self, now: Timestamp) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.is_in_force(now))
    }

    /// When the leader has something to decide: at the next slot, or when a pause ends.
    pub fn due_at(&self) -> Option<Timestamp> {
        let next = self.next_slot.filter(|_| self.enabled && self.set_aside.is_none())?;
        match &self.pause {
            None => Some(next),
            Some(pause) => pause.until.map(|until| until.max(next)),
        }
    }

    /// Carries out a change that somebody made, unless it would let a slot come again: what was
    /// decided was decided, also after it has been pruned. The answer is what the ledger gets: the
    /// slots that would be undecided.
    pub fn change(
        &mut self,
        change: &ScheduleChange,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Vec<SlotView>> {
        if let ScheduleChange::Define { owner, spec, .. } = change {
            limits::check_name("owner", owner, true).map_err(StoreError::invalid)?;
            rules::check_spec(spec)?;
        }
        let passed = self.pass(change.passed(), now)?;
        if let ScheduleChange::Define { next_slot: Some(next), .. }
        | ScheduleChange::Enable { next_slot: Some(next), .. } = change
            && let Some(last) = self.last_slot.filter(|last| next <= last)
        {
            let message = format!(
                "the next slot would be {next}, but slots up to {last} are already decided"
            );
            return Err(StoreError::invalid(message));
        }
        self.stamp = rules::next_stamp(self.stamp, now);
        self.changed_at = now;
        match change {
            ScheduleChange::Define { spec, owner, next_slot, .. } => {
                self.revision += 1;
                self.spec = spec.clone();
                self.owner = owner.clone();
                self.next_slot = *next_slot;
                self.set_aside = None;
            }
            ScheduleChange::Pause { until } => {
                // What an earlier pause skipped and nobody has written down yet is skipped still.
                let since = self.pause.as_ref().map_or(now, |pause| pause.since);
                self.pause = Some(Pause { by: actor.clone(), since, until: *until });
            }
            ScheduleChange::Resume => {
                if let Some(pause) = &mut self.pause {
                    pause.until = Some(pause.until.map_or(now, |until| until.min(now)));
                }
            }
            ScheduleChange::Enable { next_slot, .. } => {
                self.enabled = true;
                self.next_slot = *next_slot;
                self.set_aside = None;
            }
            ScheduleChange::Disable { passed } => {
                self.enabled = false;
                // Nothing is due until somebody enables it, from then on.
                self.next_slot = self.next_slot.filter(|_| passed.is_empty());
            }
        }
        Ok(passed)
    }

    /// Gives it this name, and makes it one of this set.
    pub fn place(&mut self, name: &str, set: &str, now: Timestamp) {
        self.name = name.to_owned();
        self.set = set.to_owned();
        self.stamp = rules::next_stamp(self.stamp, now);
        self.changed_at = now;
    }

    /// Decides slots that nobody will decide any more.
    fn pass(&mut self, rows: &[SlotRow], now: Timestamp) -> Result<Vec<SlotView>> {
        let Some(last) = rows.last() else { return Ok(Vec::new()) };
        let last = last.end.unwrap_or(last.slot);
        let checked = check_rows(self.id, rows, self.next_slot).and_then(|_| {
            let job = rows.iter().find(|row| row.job.is_some()).map(|row| row.slot);
            match job.or(Some(last).filter(|last| *last > now)) {
                Some(slot) => Err(format!("slot {slot} can be decided only by the leader")),
                None => Ok(()),
            }
        });
        checked.map_err(|why| StoreError::invalid(format!("{why}; read the schedule again")))?;
        rules::check_count(rows.len(), limits::PLAN_SLOTS_MAX, "slots of one schedule")?;
        self.last_slot = Some(last);
        let nobody = NodeId::from_bytes([0; 16]);
        let view = |row: &SlotRow| row.decided(&Seated::Free, 0, nobody, self.revision, now);
        Ok(rows.iter().map(view).collect())
    }
}

impl Pause {
    /// Does it hold, or has it ended?
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

impl SlotPlan {
    /// Does it decide a slot before its time? The database's clock was set back since it was made.
    pub fn is_early(&self, now: Timestamp) -> bool {
        let SlotDecision::Advance { slots, .. } = &self.decision else { return false };
        slots.last().is_some_and(|row| row.end.unwrap_or(row.slot) > now)
    }

    /// What the plan writes, if it keeps the rules: slots ascend from the watermark and pass over
    /// none, the watermark moves beyond them, and just those have a job that say so. A plan that
    /// breaks one comes from a bug or from bad data; its reason sets the schedule aside.
    pub fn check(
        &self,
        watermark: Option<Timestamp>,
    ) -> std::result::Result<(&[SlotRow], Option<Timestamp>), String> {
        let (slots, next_slot) = match &self.decision {
            SlotDecision::SetAside(reason) => {
                return Err(limits::cut(reason, limits::REASON_BYTES_MAX).to_owned());
            }
            SlotDecision::Advance { slots, next_slot, .. } => (slots, *next_slot),
        };
        if bugs::has_lax_plans() {
            return Ok((slots, next_slot));
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
            _ => Ok((slots, next_slot)),
        }
    }
}

/// Checks slots that are decided from the watermark on; the answer is the instant after the last.
fn check_rows(
    schedule: ScheduleId,
    slots: &[SlotRow],
    watermark: Option<Timestamp>,
) -> std::result::Result<Timestamp, String> {
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
        from = last + std::time::Duration::from_micros(1);
    }
    Ok(from)
}

impl SlotPlan {
    /// What becomes of slots while earlier jobs are unfinished.
    fn overlap(&self) -> Overlap {
        match &self.decision {
            SlotDecision::Advance { overlap, .. } => *overlap,
            SlotDecision::SetAside(_) => Overlap::Allow,
        }
    }

    /// The last slot that asks for a job.
    fn last_job(&self) -> Option<Timestamp> {
        let SlotDecision::Advance { slots, .. } = &self.decision else { return None };
        slots.iter().rev().find(|row| row.job.is_some()).map(|row| row.slot)
    }

    /// Does it depend on the schedule's unfinished jobs?
    pub fn asks_for_unfinished(&self) -> bool {
        self.overlap() != Overlap::Allow && self.last_job().is_some()
    }

    /// Who calls off the schedule's unfinished jobs, if the plan does.
    pub fn calls_off(&self) -> Option<Actor> {
        let slot = self.last_job().filter(|_| self.overlap() == Overlap::CancelRunning)?;
        Some(rules::overlap_actor(slot))
    }
}

/// Which slots of a plan become jobs, and which of these have to wait: decided in the transaction
/// that fires them, from the unfinished jobs that it finds, with those that are called off left out.
#[derive(Clone, Debug)]
pub struct Seats {
    overlap: Overlap,
    unfinished: Vec<JobId>,
    waiting: usize,
    last: Option<Timestamp>,
    /// By queue, where each node has jobs of its own that mind no other's.
    of_nodes: Option<BTreeMap<String, Vec<JobId>>>,
}

/// What becomes of a slot that asks for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seated {
    /// A job that may start when it is due.
    Free,
    /// A job that waits until the others have ended.
    Waits,
    /// No job, for this reason.
    Refused(String),
}

impl Seats {
    /// For the slots of a plan, where these jobs of its schedule are unfinished, oldest first, and
    /// so many of them wait for others.
    pub fn new(plan: &SlotPlan, unfinished: Vec<JobId>, waiting: usize) -> Seats {
        let (overlap, last) = (plan.overlap(), plan.last_job());
        Seats { overlap, unfinished, waiting, last, of_nodes: None }
    }

    /// For the slots of a plan by which each node has jobs of its own, where these are unfinished,
    /// each with its queue.
    pub fn of_nodes(plan: &SlotPlan, unfinished: Vec<(JobId, String)>) -> Seats {
        let mut of_nodes: BTreeMap<String, Vec<JobId>> = BTreeMap::new();
        for (job, queue) in unfinished {
            of_nodes.entry(queue).or_default().push(job);
        }
        Seats { of_nodes: Some(of_nodes), ..Seats::new(plan, Vec::new(), 0) }
    }

    /// Is a job out of the way that was called off with this answer? Only one that still runs is in it:
    /// one that ended, or is not there at all, would be waited for without end.
    pub fn are_free_of(called_off: CancelAnswer) -> bool {
        called_off != CancelAnswer::Asked
    }

    /// What becomes of the next slot.
    pub fn take(&mut self, row: &SlotRow) -> Seated {
        let Some(job) = &row.job else { return Seated::Free };
        if let Some(last) = self.last.filter(|last| *last > row.slot)
            && self.overlap == Overlap::CancelRunning
        {
            return Seated::Refused(format!("replaced by slot {last}"));
        }
        let unfinished = match &mut self.of_nodes {
            Some(of_nodes) => of_nodes.entry(job.queue.clone()).or_default(),
            None => &mut self.unfinished,
        };
        match self.overlap.seat(unfinished.len(), self.waiting, limits::LIVE_MAX) {
            Seat::Free => {
                unfinished.push(job.id);
                Seated::Free
            }
            Seat::Wait => {
                unfinished.push(job.id);
                self.waiting += 1;
                Seated::Waits
            }
            Seat::Taken => Seated::Refused(match (self.overlap, unfinished.first()) {
                (Overlap::Skip, Some(first)) => format!("job {first} is unfinished"),
                _ => format!("jobs already waiting: {}", self.waiting),
            }),
        }
    }
}

impl SlotRow {
    /// The row of the ledger, as it is decided at the watermark by whoever leads, from the
    /// schedule's revision as it stands.
    pub fn decided(
        &self,
        seated: &Seated,
        term: i64,
        node: NodeId,
        revision: i64,
        now: Timestamp,
    ) -> SlotView {
        let view = SlotView {
            slot: self.slot,
            run: 0,
            end: self.end,
            count: self.count,
            outcome: self.outcome,
            reason: self
                .reason
                .as_ref()
                .map(|reason| limits::cut(reason, limits::REASON_BYTES_MAX).to_owned()),
            job: self.job.as_ref().map(|job| job.id),
            term,
            node,
            revision,
            decided_at: now,
        };
        match seated {
            Seated::Free | Seated::Waits => view,
            Seated::Refused(reason) => SlotView {
                outcome: SlotOutcome::SkippedOverlap,
                reason: Some(reason.clone()),
                job: None,
                ..view
            },
        }
    }
}
