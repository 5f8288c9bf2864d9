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
            let Some(schedule) = after.enter(now, ask, entry, self)? else {
                return Ok(Registered::Stale);
            };
            schedules.push(schedule);
        }
        *self = after;
        Ok(Registered::Done(schedules))
    }

    /// Writes one schedule; none if it is not as the caller saw it. A name has to be free before
    /// anything is written: one that another entry gives up is free the next time.
    fn enter(
        &mut self,
        now: Timestamp,
        ask: &Registration,
        entry: &SetEntry,
        before: &State,
    ) -> Result<Option<Schedule>> {
        match entry {
            SetEntry::Create(new)
                if before.seen(new.id).is_none()
                    && before.schedule_named(&new.tenant, &new.name).is_some() =>
            {
                Ok(None)
            }
            SetEntry::Create(new) => match self.create_schedule(now, new) {
                Err(taken) if taken.kind() == ErrorKind::Conflict => Ok(None),
                created => created.map(Some),
            },
            SetEntry::Change { id, stamp, .. }
            | SetEntry::Bring { id, stamp, .. }
            | SetEntry::Remove { id, stamp, .. } => {
                let Some(mut schedule) = self.seen(*id) else { return Ok(None) };
                if schedule.stamp != *stamp {
                    entry.check_owner(&schedule, &ask.set)?;
                    return Ok(None);
                }
                if !entry.carry_out(&mut schedule.clone(), &ask.set, &ask.actor, now)? {
                    return Ok(None);
                }
                if let SetEntry::Bring { name, .. } = entry {
                    let other = before.schedule_named(&schedule.tenant, name);
                    if other.is_some_and(|other| other.id != *id) {
                        return Ok(None);
                    }
                    self.place_schedule(now, &mut schedule, name, &ask.set, &ask.actor);
                }
                for change in entry.changes().iter() {
                    let stamp = schedule.stamp;
                    match self.change_schedule(now, *id, stamp, change, &ask.actor)? {
                        EditAnswer::Done(changed) => schedule = changed,
                        EditAnswer::Stale(_) | EditAnswer::NotFound => return Ok(None),
                    }
                }
                if matches!(entry, SetEntry::Remove { .. }) {
                    self.delete_schedule(now, *id, schedule.stamp, &ask.actor);
                }
                Ok(Some(schedule))
            }
        }
    }

    /// Another name, another set; of a row that cannot be read, just that.
    fn place_schedule(
        &mut self,
        now: Timestamp,
        schedule: &mut Schedule,
        name: &str,
        set: &str,
        actor: &Actor,
    ) {
        for action in rules::placed(schedule, name, set) {
            self.note(now, actor, &action, name);
        }
        schedule.place(name, set, now);
        if let Some(kept) = self.schedules.get_mut(&schedule.id) {
            kept.place(name, set, now);
        }
    }
}
