//! Sets of schedules.

use punctual_core::Timestamp;

use super::state::State;
use crate::*;

impl State {
    pub(super) fn register(&mut self, now: Timestamp, ask: &Registration) -> Result<Registered> {
        if let Some(kept) = self.generations.get(&ask.set).filter(|kept| **kept > ask.generation) {
            return Ok(Registered::Superseded(*kept));
        }
        // All or nothing: what is written is written to a copy first.
        let mut after = self.clone();
        after.generations.insert(ask.set.clone(), ask.generation);
        let mut schedules = Vec::new();
        for entry in &ask.entries {
            let Some(schedule) = after.enter(now, ask, entry)? else {
                return Ok(Registered::Stale);
            };
            schedules.push(schedule);
        }
        *self = after;
        Ok(Registered::Done(schedules))
    }

    /// Writes one schedule; none if it is not as the caller saw it.
    fn enter(
        &mut self,
        now: Timestamp,
        ask: &Registration,
        entry: &SetEntry,
    ) -> Result<Option<Schedule>> {
        match entry {
            SetEntry::Create(new) => match self.create_schedule(now, new) {
                Err(taken) if taken.kind() == ErrorKind::Conflict => Ok(None),
                created => created.map(Some),
            },
            SetEntry::Change { id, stamp, change } => {
                if let Some(other) = self.schedules.get(id).filter(|other| other.set != ask.set) {
                    return Err(rules::not_of_set(&other.name, &ask.set));
                }
                match self.change_schedule(now, *id, *stamp, change, &ask.actor)? {
                    EditAnswer::Done(schedule) => Ok(Some(schedule)),
                    EditAnswer::Stale(_) | EditAnswer::NotFound => Ok(None),
                }
            }
        }
    }
}
