//! Schedules, their slots and the ledger.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::job::SlotOutcome;
use punctual_core::schedule::{Overlap, Seat};
use punctual_core::{JobId, NodeId, ScheduleId, Timestamp};

use crate::advance::check_rows;
use crate::bugs::{self, Bug};
use crate::{
    Actor, Advance, AuditAction, CancelAnswer, HeldSlots, Json, NewJob, Realignment, Result,
    SkippedSlots, SlotView, StoreError, limits, rules,
};

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
    /// The slots from the watermark on that wait for a node, if any do.
    pub held: Option<HeldSlots>,
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
        /// The outcomes of slots that are due under the old definition and undecided.
        passed: PassedSlots,
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
        /// The outcomes of slots that became due while it could not be planned.
        passed: PassedSlots,
    },
    /// Not planned any more.
    Disable {
        /// The outcomes of slots that are due and undecided.
        passed: PassedSlots,
    },
    /// Decisions about slots after an instant are discarded: they were made by a wrong clock.
    Realign(Realignment),
}

/// The due slots that a change decides, because the leader will not decide them after it.
///
/// They are computed before the transaction that applies the change. A slot that becomes due in
/// between makes the change stale: `next` is how the transaction detects it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassedSlots {
    /// The outcomes, in order, none of them with a job. If empty, no slot was due.
    pub rows: Vec<SlotRow>,
    /// The first slot after `rows` by the rule in force. Ignored if `rows` is empty: that slot is
    /// the watermark then.
    pub next: Option<Timestamp>,
}

impl From<Vec<SlotRow>> for PassedSlots {
    /// These slots, and none after them.
    fn from(rows: Vec<SlotRow>) -> PassedSlots {
        PassedSlots { rows, next: None }
    }
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditAnswer {
    /// Done; the schedule as it is now (or was, if it was deleted).
    Done(Schedule),
    /// It has changed since the caller saw it, or a slot became due that the change does not
    /// decide. Nothing was written; this is the current schedule.
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
        /// How long after its due time a slot can still get a job. A slot that no live node can run stays
        /// undecided for so long.
        hold_for: Duration,
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
    /// How many slots asked for jobs and have none because there are too many nodes.
    pub unplaced: usize,
    /// The slots that were decided without a job.
    pub skipped: Vec<SkippedSlots>,
    /// Further schedules whose held slots were made due, because a node runs slots that were held for
    /// the same queue.
    pub woken: usize,
}

/// What became of one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FireAnswer {
    /// It was applied.
    Applied,
    /// Its first rows were applied, so many of them. No live node can run the next slot, so that all
    /// slots from that one on are held.
    Held(usize, HeldSlots),
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
            held: None,
            last_slot: None,
            created_at: now,
            changed_at: now,
        }
    }
}

impl ScheduleChange {
    /// Is its first slot due already? Then that slot precedes the change.
    fn starts_before(&self, now: Timestamp) -> bool {
        match self {
            ScheduleChange::Define { next_slot, .. } | ScheduleChange::Enable { next_slot, .. } => {
                let is_due = next_slot.is_some_and(|next| next <= now);
                is_due && !bugs::is_planted(Bug::ChangeStartsBefore)
            }
            ScheduleChange::Pause { .. }
            | ScheduleChange::Resume
            | ScheduleChange::Disable { .. }
            | ScheduleChange::Realign(_) => false,
        }
    }

    /// The due slots that it decides. None if it leaves all of them to the leader.
    pub fn passed(&self) -> Option<&PassedSlots> {
        match self {
            ScheduleChange::Define { passed, .. }
            | ScheduleChange::Enable { passed, .. }
            | ScheduleChange::Disable { passed } => Some(passed),
            ScheduleChange::Pause { .. } | ScheduleChange::Resume | ScheduleChange::Realign(_) => {
                None
            }
        }
    }

    /// What the audit calls it.
    pub fn action(&self) -> AuditAction {
        match self {
            ScheduleChange::Define { .. } => AuditAction::EditSchedule,
            ScheduleChange::Pause { .. } => AuditAction::PauseSchedule,
            ScheduleChange::Resume => AuditAction::ResumeSchedule,
            ScheduleChange::Enable { .. } => AuditAction::EnableSchedule,
            ScheduleChange::Disable { .. } => AuditAction::DisableSchedule,
            ScheduleChange::Realign(_) => AuditAction::RealignSchedule,
        }
    }
}

impl Schedule {
    /// Is it paused?
    pub fn is_paused(&self, now: Timestamp) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.is_in_force(now))
    }

    /// When the leader has something to decide: at the next slot, when a pause ends, or when held slots
    /// are to be examined again.
    pub fn due_at(&self) -> Option<Timestamp> {
        let next = self.next_slot.filter(|_| self.enabled && self.set_aside.is_none())?;
        let next = self.held.as_ref().map_or(next, |held| held.until);
        match &self.pause {
            None => Some(next),
            Some(pause) => pause.until.map(|until| until.max(next)),
        }
    }

    /// Applies a change and returns the ledger rows of the slots that it decides. The slots of a
    /// realignment depend on the ledger: the store applies [`Realignment::apply`] next. Returns none and
    /// changes nothing if a slot became due since the change was computed: a slot of the old rule
    /// would have no outcome, and one of the new rule would fire although it precedes the change.
    ///
    /// # Errors
    ///
    /// Returns an error if the change is invalid, or if a decided slot would become due again. That
    /// includes slots whose ledger rows have been pruned. The schedule must not be used after it.
    pub fn change(
        &mut self,
        change: &ScheduleChange,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Option<Vec<SlotView>>> {
        if let ScheduleChange::Define { owner, spec, .. } = change {
            limits::check_name("owner", owner, true).map_err(StoreError::invalid)?;
            rules::check_spec(spec)?;
        }
        if change.passed().is_some_and(|passed| self.has_slot_between(passed, now)) {
            return Ok(None);
        }
        if let ScheduleChange::Define { next_slot: Some(next), .. }
        | ScheduleChange::Enable { next_slot: Some(next), .. } = change
            && let Some(last) = self.last_slot.filter(|last| next <= last)
        {
            let message = format!(
                "the next slot would be {next}, but slots up to {last} are already decided"
            );
            return Err(StoreError::invalid(message));
        }
        if change.starts_before(now) {
            return Ok(None);
        }
        if let ScheduleChange::Realign(realignment) = change
            && !realignment.is_current(self, now)?
        {
            return Ok(None);
        }
        let passed =
            self.pass(change.passed().map_or(&[], |passed| passed.rows.as_slice()), now)?;
        self.stamp = rules::next_stamp(self.stamp, now);
        self.changed_at = now;
        if change.passed().is_some() {
            self.held = None;
        }
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
                self.next_slot = self.next_slot.filter(|_| passed.rows.is_empty());
            }
            ScheduleChange::Realign(_) => {
                self.held = None;
                // One that began by the wrong clock begins now.
                if let Some(pause) = &mut self.pause {
                    pause.since = pause.since.min(now);
                }
            }
        }
        Ok(Some(passed))
    }

    /// Is a slot due that follows the ones that a change decides?
    fn has_slot_between(&self, passed: &PassedSlots, now: Timestamp) -> bool {
        let next = if passed.rows.is_empty() { self.next_slot } else { passed.next };
        let is_due = self.enabled && next.is_some_and(|next| next <= now);
        is_due && !bugs::is_planted(Bug::ChangeByEarlierClock)
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
    pub fn new(plan: &Advance<'_>, unfinished: Vec<JobId>, waiting: usize) -> Seats {
        let (overlap, last) = (plan.overlap, plan.last_job());
        Seats { overlap, unfinished, waiting, last, of_nodes: None }
    }

    /// For the slots of a plan by which each node has jobs of its own, where these are unfinished,
    /// each with its queue.
    pub fn of_nodes(plan: &Advance<'_>, unfinished: Vec<(JobId, String)>) -> Seats {
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
