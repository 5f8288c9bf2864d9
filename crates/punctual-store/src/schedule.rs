//! Schedules, their slots and the ledger.

use punctual_core::job::SlotOutcome;
use punctual_core::{JobId, NodeId, ScheduleId, Timestamp};

use crate::{Actor, Json, NewJob, Result, SlotView, StoreError, limits, rules};

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
    /// Which leader plans it.
    pub shard: i16,
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
    /// Which leader plans it.
    pub shard: i16,
    /// The definition.
    pub spec: Json,
    /// Counts definitions, from 1.
    pub revision: i64,
    /// Counts writes of any kind; a plan made from an older one is not applied.
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
    },
    /// Not planned any more.
    Disable,
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
    /// The schedules, by next slot.
    pub schedules: Vec<DueSchedule>,
}

/// A schedule that has something to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueSchedule {
    /// The schedule.
    pub schedule: Schedule,
    /// Its unfinished jobs, oldest first; no more than [`limits::LIVE_MAX`] are named.
    pub live: Vec<JobId>,
    /// How many unfinished jobs there are; [`limits::LIVE_COUNT_MAX`] means as many or more. To know
    /// whether there is one, or how many wait, this is enough; to call all of them off, call off
    /// those that are named and look again.
    pub live_count: usize,
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
}

/// What became of one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FireAnswer {
    /// It was applied.
    Applied,
    /// The schedule had changed, or was gone: read it again.
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
            ("schedule's name", &self.name, false),
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
            shard: self.shard,
            spec: self.spec.clone(),
            revision: 1,
            stamp: 1,
            enabled: true,
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
    /// What the audit calls it.
    pub fn action(&self) -> &'static str {
        match self {
            ScheduleChange::Define { .. } => "edit schedule",
            ScheduleChange::Pause { .. } => "pause schedule",
            ScheduleChange::Resume => "resume schedule",
            ScheduleChange::Enable { .. } => "enable schedule",
            ScheduleChange::Disable => "disable schedule",
        }
    }
}

impl Schedule {
    /// Is it paused?
    pub fn is_paused(&self, now: Timestamp) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.is_in_force(now))
    }

    /// Carries out a change that somebody made, unless it would let a slot come again: what was
    /// decided was decided, also after it has been pruned.
    pub fn change(&mut self, change: &ScheduleChange, actor: &Actor, now: Timestamp) -> Result<()> {
        if let ScheduleChange::Define { owner, spec, .. } = change {
            limits::check_name("owner", owner, true).map_err(StoreError::invalid)?;
            rules::check_spec(spec)?;
        }
        if let ScheduleChange::Define { next_slot: Some(next), .. }
        | ScheduleChange::Enable { next_slot: Some(next) } = change
            && let Some(last) = self.last_slot.filter(|last| next <= last)
        {
            let message = format!(
                "the next slot {next} does not lie after {last}, which is decided; an edit never fires retroactively"
            );
            return Err(StoreError::invalid(message));
        }
        self.stamp += 1;
        self.changed_at = now;
        match change {
            ScheduleChange::Define { spec, owner, next_slot } => {
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
            ScheduleChange::Enable { next_slot } => {
                self.enabled = true;
                self.next_slot = *next_slot;
                self.set_aside = None;
            }
            ScheduleChange::Disable => self.enabled = false,
        }
        Ok(())
    }
}

impl Pause {
    /// Does it hold, or has it ended?
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

impl SlotPlan {
    /// What the plan writes, if it keeps the rules: slots ascend from the watermark and pass over
    /// none, none is early, the watermark moves beyond them, and just those have a job that say so. A plan
    /// that breaks one comes from a bug or from bad data; its reason sets the schedule aside.
    pub fn check(
        &self,
        watermark: Option<Timestamp>,
        now: Timestamp,
    ) -> std::result::Result<(&[SlotRow], Option<Timestamp>), String> {
        let (slots, next_slot) = match &self.decision {
            SlotDecision::SetAside(reason) => {
                return Err(limits::cut(reason, limits::REASON_BYTES_MAX).to_owned());
            }
            SlotDecision::Advance { slots, next_slot } => (slots, *next_slot),
        };
        let Some(mut from) = watermark else {
            return Err("it has no slots left, and yet one was planned".to_owned());
        };
        let first = slots.first().map_or(next_slot, |row| Some(row.slot));
        if first.is_none_or(|first| first > from) {
            return Err(format!("slot {from} was passed over"));
        }
        for row in slots {
            let last = row.end.unwrap_or(row.slot);
            if row.count == 0 || (row.end.is_some() && row.outcome.has_job()) {
                return Err(format!("slot {} stands for {} slots", row.slot, row.count));
            }
            if row.slot < from || last < row.slot {
                return Err(format!("slot {} was planned twice or out of order", row.slot));
            }
            if last > now {
                return Err(format!("slot {last} was planned before its time"));
            }
            if row.job.is_some() != row.outcome.has_job() {
                return Err(format!(
                    "slot {} is {} and should not be planned so",
                    row.slot, row.outcome
                ));
            }
            if let Some(job) = &row.job {
                job.check()?;
                if job.unique.is_some() {
                    return Err(
                        "the job of a slot is one of a kind already and takes no unique key"
                            .to_owned(),
                    );
                }
            }
            from = last + std::time::Duration::from_micros(1);
        }
        match next_slot {
            Some(next_slot) if next_slot < from => {
                Err(format!("the next slot {next_slot} lies before the last"))
            }
            _ => Ok((slots, next_slot)),
        }
    }
}

impl SlotRow {
    /// The row of the ledger, as it is decided at the watermark by whoever leads, from the
    /// schedule's revision as it stands.
    pub fn decided(&self, term: i64, node: NodeId, revision: i64, now: Timestamp) -> SlotView {
        SlotView {
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
        }
    }
}
