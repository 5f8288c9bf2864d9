//! Sets: schedules that one program declares, under a generation that rises with each release of it.
//!
//! Several versions of a program may run at once and declare different schedules. The highest
//! generation is in force: an older one cannot write over what a newer one declared.

use std::collections::BTreeSet;

use punctual_core::ScheduleId;

use crate::{Actor, NewSchedule, Result, Schedule, ScheduleChange, StoreError, limits, rules};

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
}

/// What became of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registered {
    /// Done; the schedules as they are now, in the order of the entries.
    Done(Vec<Schedule>),
    /// This generation is in force, which is higher; nothing was written.
    Superseded(i64),
    /// A schedule has changed or is gone, or a name was taken meanwhile: nothing was written. Look
    /// again.
    Stale,
}

impl Registration {
    /// As it is kept, if it is within the bounds: every reason is cut.
    pub fn kept(&self) -> Result<Registration> {
        limits::check_name("set", &self.set, false).map_err(StoreError::invalid)?;
        rules::check_count(self.entries.len(), limits::SET_ENTRIES_MAX, "schedules of a set")?;
        let mut kept = self.clone();
        kept.actor = self.actor.kept()?;
        let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
        for entry in &mut kept.entries {
            let id = match entry {
                SetEntry::Change { id, .. } => *id,
                SetEntry::Create(new) => {
                    new.check()?;
                    new.actor = new.actor.kept()?;
                    if new.set != self.set {
                        return Err(rules::not_of_set(&new.name, &self.set));
                    }
                    if !names.insert((new.tenant.clone(), new.name.clone())) {
                        let message =
                            format!("the schedule `{}` is declared twice; leave one out", new.name);
                        return Err(StoreError::invalid(message));
                    }
                    new.id
                }
            };
            if !ids.insert(id) {
                let message = format!("schedule {id} is named twice; leave one out");
                return Err(StoreError::invalid(message));
            }
        }
        Ok(kept)
    }
}

impl Registered {
    /// Was a schedule written?
    pub fn has_schedules(&self) -> bool {
        matches!(self, Registered::Done(schedules) if !schedules.is_empty())
    }
}
