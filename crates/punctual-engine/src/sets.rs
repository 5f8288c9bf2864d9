//! Schedules that a program declares: the same set at each start, another with another version.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::schedule::Definition;
use punctual_store::{
    Actor, ErrorKind, NewSchedule, Registered, Registration, Schedule, ScheduleChange, SetEntry,
    StoreError, limits,
};

use crate::schedules::{ScheduleError, Schedules, TRIES, passed, stored};
use crate::skip_log::log_passed_in_set;

/// Why a schedule is paused that its program no longer declares.
pub const REMOVED: &str = "removed from code";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Done,
    Superseded(i64),
    Stale,
}

/// What became of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// It is in force; so many schedules were written for it.
    InForce(usize),
    /// This higher generation is, and nothing has changed.
    Superseded(i64),
}

impl Schedules {
    /// Brings the schedules of a set to what a program declares, unless a higher generation is in
    /// force. What is as declared is not touched; a pause by anybody else holds.
    pub async fn register(
        &self,
        tenant: &str,
        set: &str,
        generation: i64,
        declared: &BTreeMap<String, Definition>,
    ) -> Result<Declared, ScheduleError> {
        let actor = Actor::new(set, &format!("generation {generation}"));
        // From here on no lower generation writes, so that what is seen now is all there is of them.
        if let Written::Superseded(higher) = self.write(set, generation, Vec::new(), &actor).await?
        {
            return Ok(Declared::Superseded(higher));
        }
        let mut total = 0;
        for _ in 0..TRIES {
            let kept = self.all_of(tenant, set).await?;
            let found = |name: &str| kept.iter().find(|schedule| schedule.name == *name);
            for name in declared.keys().filter(|name| found(name).is_none()) {
                self.check_name(tenant, name).await.map_err(|error| error.of(name))?;
            }
            // Read last: a slot that becomes due between this instant and the write makes it stale.
            let now = self.store.now(self.env.at()).await?;
            let mut entries = Vec::new();
            for (name, definition) in declared {
                let entry = match found(name) {
                    Some(schedule) => self.declare(set, definition, schedule, &actor, now),
                    None => self.new_schedule(tenant, name, definition, &actor, now).map(|new| {
                        let new = NewSchedule { set: set.to_owned(), ..new };
                        vec![SetEntry::Create(new)]
                    }),
                };
                entries.extend(entry.map_err(|error| error.of(name))?);
            }
            let gone = kept.iter().filter(|schedule| !declared.contains_key(&schedule.name));
            // A pause that ends would let it fire again.
            let is_stopped = |it: &Schedule| it.pause.as_ref().is_some_and(|it| it.until.is_none());
            let pauses: Vec<SetEntry> = gone
                .filter(|schedule| !is_stopped(schedule))
                .map(|schedule| change(schedule, ScheduleChange::Pause { until: None }))
                .collect();
            let written = entries.len() + pauses.len();
            // Two reasons are two writes.
            let mut answer = self.write(set, generation, entries, &actor).await?;
            if answer == Written::Done {
                let removed = Actor::new(set, REMOVED);
                answer = self.write(set, generation, pauses, &removed).await?;
            }
            match answer {
                Written::Superseded(higher) => return Ok(Declared::Superseded(higher)),
                // All is as declared once nothing is left to write.
                Written::Done if written == 0 => return Ok(Declared::InForce(total)),
                Written::Done => total += written,
                Written::Stale => self.env.sleep(Duration::from_millis(1)).await,
            }
        }
        Err(ScheduleError::Busy(set.to_owned()))
    }

    /// Writes in parts; one that is stale leaves the others to the next look.
    async fn write(
        &self,
        set: &str,
        generation: i64,
        mut entries: Vec<SetEntry>,
        actor: &Actor,
    ) -> Result<Written, ScheduleError> {
        loop {
            let rest = entries.split_off(entries.len().min(limits::SET_ENTRIES_MAX));
            let (set, actor) = (set.to_owned(), actor.clone());
            let ask = Registration { set, generation, entries, actor };
            match self.store.register(self.env.at(), &ask).await? {
                Registered::Done(schedules) => {
                    log_passed_in_set(&ask.entries, &schedules);
                    if rest.is_empty() {
                        return Ok(Written::Done);
                    }
                    entries = rest;
                }
                Registered::Superseded(higher) => return Ok(Written::Superseded(higher)),
                Registered::Stale => return Ok(Written::Stale),
            }
        }
    }

    /// Every schedule of a set.
    pub(crate) async fn all_of(
        &self,
        tenant: &str,
        set: &str,
    ) -> Result<Vec<Schedule>, ScheduleError> {
        let mut all: Vec<Schedule> = Vec::new();
        loop {
            let after = all.last().map(|schedule| schedule.name.as_str());
            let page = self.store.schedules_of(tenant, set, after, limits::PAGE_MAX).await?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    /// Checks that no schedule outside the set has this name.
    async fn check_name(&self, tenant: &str, name: &str) -> Result<(), ScheduleError> {
        let Some(other) = self.store.schedule_named(tenant, name).await? else { return Ok(()) };
        let owner = match other.set.as_str() {
            "" => "was created manually".to_owned(),
            set => format!("belongs to set `{set}`"),
        };
        let message =
            format!("a schedule with this name {owner}; use another name, or delete that schedule");
        Err(StoreError::new(ErrorKind::Conflict, message).into())
    }

    /// The changes that make an existing schedule equal to its declaration.
    fn declare(
        &self,
        set: &str,
        definition: &Definition,
        schedule: &Schedule,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Vec<SetEntry>, ScheduleError> {
        let spec = stored(definition)?;
        let mut changes = Vec::new();
        if schedule.spec != spec {
            self.check_job(schedule, definition)?;
            let after = now.max(schedule.last_slot.unwrap_or(now));
            let reason = format!("changed by {} before the slot was decided", actor.who);
            changes.push(ScheduleChange::Define {
                spec,
                owner: schedule.owner.clone(),
                next_slot: definition.rule_from(&schedule.name, after)?.spec.next(after),
                passed: passed(schedule, now, &reason),
            });
        }
        // A pause that was lifted has an end.
        let is_removed = |schedule: &Schedule| {
            let pause = schedule.pause.as_ref().filter(|pause| pause.until.is_none());
            pause.is_some_and(|pause| pause.by.who == set && pause.by.why == REMOVED)
        };
        // It is declared again. If it has changed as well, that comes first, and this with the next
        // look.
        if is_removed(schedule) && changes.is_empty() {
            changes.push(ScheduleChange::Resume);
        }
        Ok(changes.into_iter().map(|it| change(schedule, it)).collect())
    }
}

fn change(schedule: &Schedule, change: ScheduleChange) -> SetEntry {
    SetEntry::Change { id: schedule.id, stamp: schedule.stamp, change }
}
