//! Sets: schedules that one program declares, under a generation that rises with each release of it.
//!
//! Several versions of a program may run at once and declare different schedules. The highest
//! generation is in force: an older one cannot write over what a newer one declared.

use std::borrow::Cow;
use std::collections::BTreeSet;

use punctual_core::{ScheduleId, Timestamp};

use crate::{
    Actor, NewSchedule, PassedSlots, Result, Schedule, ScheduleChange, StoreError, limits, rules,
};

/// What a program declares of its schedules, as far as it has to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The set, for example `code:shop`.
    pub set: String,
    /// The generation that declares it.
    pub generation: i64,
    /// What is to be written: all of it or nothing.
    pub entries: Vec<SetEntry>,
    /// Who changes schedules, and why. One that is created says so itself.
    pub actor: Actor,
}

/// One schedule of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetEntry {
    /// It is new, and says that it is of this set.
    Create(NewSchedule),
    /// It is there and is of this set.
    Change {
        /// The schedule.
        id: ScheduleId,
        /// The stamp that the change was made from.
        stamp: i64,
        /// What changes.
        change: ScheduleChange,
    },
    /// It is there, is of this set or of none, and is of this set from now on.
    Bring {
        /// The schedule.
        id: ScheduleId,
        /// The stamp that this was made from.
        stamp: i64,
        /// Its name from now on, which nobody else has.
        name: String,
        /// What else changes, one after the other.
        changes: Vec<ScheduleChange>,
    },
    /// It is there, is of this set, and goes.
    Remove {
        /// The schedule.
        id: ScheduleId,
        /// The stamp that this was made from.
        stamp: i64,
        /// The outcomes of slots that are due and undecided.
        passed: PassedSlots,
    },
}

/// What became of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registered {
    /// Done; the schedules as they are now, in the order of the entries, or as they were when they
    /// went.
    Done(Vec<Schedule>),
    /// This generation is in force, which is higher; nothing was written.
    Superseded(i64),
    /// A schedule has changed or is gone, a name was taken meanwhile, or a slot became due that its
    /// change does not decide. Nothing was written; read the schedules again.
    Stale,
}

impl Registration {
    /// As it is kept, if it is within the bounds: every reason is cut.
    pub fn kept(&self) -> Result<Registration> {
        limits::check_name("set", &self.set, false).map_err(StoreError::invalid)?;
        rules::check_count(self.entries.len(), limits::SET_ENTRIES_MAX, "schedules in one set")?;
        let mut kept = self.clone();
        kept.actor = self.actor.kept()?;
        let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
        let (mut brought, mut taken) = (Vec::new(), BTreeSet::new());
        for entry in &mut kept.entries {
            let id = match entry {
                SetEntry::Change { id, .. } | SetEntry::Remove { id, .. } => *id,
                SetEntry::Bring { id, name, .. } => {
                    limits::check_name("schedule name", name, false)
                        .map_err(StoreError::invalid)?;
                    brought.push(name.clone());
                    *id
                }
                SetEntry::Create(new) => {
                    new.check()?;
                    new.actor = new.actor.kept()?;
                    if new.set != self.set {
                        return Err(rules::not_of_set(&new.name, &self.set));
                    }
                    if !names.insert((new.tenant.clone(), new.name.clone())) {
                        let message =
                            format!("schedule `{}` is declared twice; remove one", new.name);
                        return Err(StoreError::invalid(message));
                    }
                    new.id
                }
            };
            if !ids.insert(id) {
                let message = format!("schedule {id} is listed twice; remove one");
                return Err(StoreError::invalid(message));
            }
        }
        for name in brought {
            let is_created = names.iter().any(|(_, created)| *created == name);
            if is_created || !taken.insert(name.clone()) {
                let message =
                    format!("two schedules would have the name `{name}`; rename one of them");
                return Err(StoreError::invalid(message));
            }
        }
        Ok(kept)
    }
}

impl SetEntry {
    /// The schedule, if it has to be there already, and the stamp that the caller saw.
    pub fn seen(&self) -> Option<(ScheduleId, i64)> {
        match self {
            SetEntry::Create(_) => None,
            SetEntry::Change { id, stamp, .. }
            | SetEntry::Bring { id, stamp, .. }
            | SetEntry::Remove { id, stamp, .. } => Some((*id, *stamp)),
        }
    }

    /// Applies the entry to an existing schedule: name and set first, then the changes in order.
    /// Returns false if a change is stale ([`Schedule::change`]).
    ///
    /// # Errors
    ///
    /// Returns an error if a change is invalid or the schedule belongs to another set. The schedule
    /// must not be used after it, nor after false.
    pub fn carry_out(
        &self,
        schedule: &mut Schedule,
        set: &str,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<bool> {
        self.check_owner(schedule, set)?;
        if let SetEntry::Bring { name, .. } = self {
            schedule.place(name, set, now);
        }
        for change in self.changes().iter() {
            if matches!(change, ScheduleChange::Realign(_)) {
                let message = "a set cannot realign a schedule; realign the schedule itself";
                return Err(StoreError::invalid(message));
            }
            if schedule.change(change, actor, now)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// May this set write this schedule?
    pub fn check_owner(&self, schedule: &Schedule, set: &str) -> Result<()> {
        let may_be_nobodys = matches!(self, SetEntry::Bring { .. }) && schedule.set.is_empty();
        match schedule.set == set || may_be_nobodys {
            true => Ok(()),
            false => Err(rules::not_of_set(&schedule.name, set)),
        }
    }

    /// The changes of a schedule that is there.
    pub fn changes(&self) -> Cow<'_, [ScheduleChange]> {
        match self {
            SetEntry::Create(_) => Cow::Borrowed(&[]),
            SetEntry::Change { change, .. } => Cow::Borrowed(std::slice::from_ref(change)),
            SetEntry::Bring { changes, .. } => Cow::Borrowed(changes),
            SetEntry::Remove { passed, .. } => {
                Cow::Owned(vec![ScheduleChange::Disable { passed: passed.clone() }])
            }
        }
    }
}

impl Registered {
    /// Was a schedule written?
    pub fn has_schedules(&self) -> bool {
        matches!(self, Registered::Done(schedules) if !schedules.is_empty())
    }
}
