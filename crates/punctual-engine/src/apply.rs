//! Schedules that files declare: all of a set is brought to what they say in one transaction, or
//! nothing is.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::schedule::Definition;
use punctual_store::{
    Actor, ErrorKind, NewSchedule, PassedSlots, Registered, Registration, Schedule, ScheduleChange,
    SetEntry, StoreError,
};

use crate::schedules::{ScheduleError, Schedules, TRIES, passed, stored};
use crate::skip_log::log_passed_in_set;

/// A schedule as somebody wants it.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// What it is told.
    pub definition: Definition,
    /// Is it planned at all?
    pub enabled: bool,
    /// What it was called before; it keeps its history then.
    pub renamed_from: Option<String>,
}

/// How far a set may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Does what the set has and nobody wants any more go?
    pub prune: bool,
    /// Are schedules of the same name taken over that were made by hand?
    pub adopt: bool,
    /// Is nothing written?
    pub dry_run: bool,
}

/// What was done, or would be.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The instant that was used.
    pub at: Timestamp,
    /// One for each schedule that is wanted, in that order, then those that nobody wants.
    pub steps: Vec<Step>,
}

/// What is done with one schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its name, as it will be.
    pub name: String,
    /// What is done.
    pub what: What,
    /// The schedule as it was.
    pub before: Option<Schedule>,
    /// The schedule as it will be.
    pub wanted: Option<Wanted>,
}

/// What is done with a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It is new.
    Add,
    /// It becomes another.
    Change,
    /// It is as it should be.
    Keep,
    /// It goes.
    Remove,
    /// Nobody wants it, and it stays, since nobody said that such go.
    Leave,
}

/// Files have no releases: what was applied last is in force.
const GENERATION: i64 = 0;
/// Sets of programs, which files leave alone.
const OF_PROGRAMS: &str = "code:";

impl Schedules {
    /// Brings the schedules of a set to what is wanted. Everything is checked before anything is
    /// written; a pause holds, and what is due and undecided is never fired by a change.
    pub async fn apply(
        &self,
        tenant: &str,
        set: &str,
        wanted: &[Wanted],
        manner: Manner,
        actor: &Actor,
    ) -> Result<Applied, ScheduleError> {
        if set.starts_with(OF_PROGRAMS) {
            let message = format!(
                "invalid set name `{set}`: names that start with `{OF_PROGRAMS}` are reserved for \
                 schedules declared in code; use another name"
            );
            return Err(StoreError::invalid(message).into());
        }
        for _ in 0..TRIES {
            let kept = self.all_of(tenant, set).await?;
            let found = self.find_all(tenant, manner, &kept, wanted).await?;
            // Read last: a slot that becomes due between this instant and the write makes it stale.
            let at = self.store.now(self.env.at()).await?;
            let look = Look { tenant, set, manner, actor, at, kept: &kept };
            let (steps, entries) = self.steps(&look, wanted, found)?;
            if manner.dry_run || entries.is_empty() {
                return Ok(Applied { at, steps });
            }
            let (set, actor) = (set.to_owned(), actor.clone());
            let ask = Registration { set, generation: GENERATION, entries, actor };
            match self.store.register(self.env.at(), &ask).await? {
                Registered::Done(schedules) => {
                    log_passed_in_set(&ask.entries, &schedules);
                    return Ok(Applied { at, steps });
                }
                Registered::Superseded(higher) => {
                    let message = format!(
                        "set `{}` is declared by a program (generation {higher}); use another name",
                        ask.set
                    );
                    return Err(StoreError::new(ErrorKind::Conflict, message).into());
                }
                Registered::Stale => self.env.sleep(Duration::from_millis(1)).await,
            }
        }
        Err(ScheduleError::Busy(set.to_owned()))
    }

    /// The existing schedule of each wanted one, or why it cannot be used.
    async fn find_all(
        &self,
        tenant: &str,
        manner: Manner,
        kept: &[Schedule],
        wanted: &[Wanted],
    ) -> Result<Vec<FindResult>, ScheduleError> {
        let mut found = Vec::with_capacity(wanted.len());
        for one in wanted {
            match self.find(tenant, manner, kept, one).await {
                Err(error) if error.is_of_the_store() => return Err(error),
                other => found.push(other),
            }
        }
        Ok(found)
    }

    /// The steps for all schedules. All errors are reported together.
    fn steps(
        &self,
        look: &Look<'_>,
        wanted: &[Wanted],
        found: Vec<FindResult>,
    ) -> Result<(Vec<Step>, Vec<SetEntry>), ScheduleError> {
        let (mut steps, mut entries, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        let mut names = BTreeSet::new();
        for (one, found) in wanted.iter().zip(found) {
            if !names.insert(one.name.as_str()) {
                let twice = ScheduleError::Job("declared twice; remove one".to_owned());
                wrong.push(twice.of(&one.name));
                continue;
            }
            match found.and_then(|found| self.step(look, one, found)) {
                Ok((step, entry)) => {
                    entries.extend(entry);
                    steps.push(step);
                }
                Err(error) => wrong.push(error.of(&one.name)),
            }
        }
        let is_wanted = |schedule: &&Schedule| {
            let is_kept = |step: &Step| step.before.as_ref().is_some_and(|it| it.id == schedule.id);
            names.contains(schedule.name.as_str()) || steps.iter().any(is_kept)
        };
        let gone: Vec<Schedule> =
            look.kept.iter().filter(|schedule| !is_wanted(schedule)).cloned().collect();
        for schedule in gone {
            let what = if look.manner.prune { What::Remove } else { What::Leave };
            if what == What::Remove {
                let reason = format!("removed by {} before the slot was decided", look.actor.who);
                let passed = passed(&schedule, look.at, &reason);
                entries.push(SetEntry::Remove { id: schedule.id, stamp: schedule.stamp, passed });
            }
            let name = schedule.name.clone();
            steps.push(Step { name, what, before: Some(schedule), wanted: None });
        }
        match wrong.len() {
            0 => Ok((steps, entries)),
            1 => Err(wrong.remove(0)),
            _ => Err(ScheduleError::Several(wrong)),
        }
    }

    /// What has to be done with one schedule.
    fn step(
        &self,
        look: &Look<'_>,
        wanted: &Wanted,
        found: Option<Schedule>,
    ) -> Result<(Step, Option<SetEntry>), ScheduleError> {
        let step = |what: What, before: Option<Schedule>| {
            let (name, wanted) = (wanted.name.clone(), Some(wanted.clone()));
            Step { name, what, before, wanted }
        };
        let Some(schedule) = found else {
            let (name, definition) = (&wanted.name, &wanted.definition);
            let new = self.new_schedule(look.tenant, name, definition, look.actor, look.at)?;
            let new = NewSchedule { set: look.set.to_owned(), enabled: wanted.enabled, ..new };
            return Ok((step(What::Add, None), Some(SetEntry::Create(new))));
        };
        let changes = self.changes(look, wanted, &schedule)?;
        let is_placed = schedule.set == look.set && schedule.name == wanted.name;
        if changes.is_empty() && is_placed {
            return Ok((step(What::Keep, Some(schedule)), None));
        }
        let (id, stamp, name) = (schedule.id, schedule.stamp, wanted.name.clone());
        let entry = SetEntry::Bring { id, stamp, name, changes };
        Ok((step(What::Change, Some(schedule)), Some(entry)))
    }

    /// The schedule that a wanted one is so far: of that name, or of the name that it had.
    async fn find(
        &self,
        tenant: &str,
        manner: Manner,
        kept: &[Schedule],
        wanted: &Wanted,
    ) -> FindResult {
        let own = |name: &str| kept.iter().find(|schedule| schedule.name == name).cloned();
        if let Some(schedule) = own(&wanted.name) {
            return Ok(Some(schedule));
        }
        if let Some(other) = self.store.schedule_named(tenant, &wanted.name).await? {
            return match other.set.as_str() {
                "" if manner.adopt => Ok(Some(other)),
                "" => Err(taken(
                    "was created manually; take it over with `adopt`, or use another name",
                )),
                set => Err(taken(&format!("belongs to set `{set}`; use another name"))),
            };
        }
        let Some(old) = &wanted.renamed_from else { return Ok(None) };
        if let Some(schedule) = own(old) {
            return Ok(Some(schedule));
        }
        // Of another set it stays, and this one is new.
        let other = self.store.schedule_named(tenant, old).await?;
        Ok(other.filter(|other| other.set.is_empty() && manner.adopt))
    }

    /// What has to change of a schedule that is there.
    fn changes(
        &self,
        look: &Look<'_>,
        wanted: &Wanted,
        schedule: &Schedule,
    ) -> Result<Vec<ScheduleChange>, ScheduleError> {
        let Wanted { name, definition, enabled, .. } = wanted;
        let after = look.at.max(schedule.last_slot.unwrap_or(look.at));
        let next_slot =
            || Ok::<_, ScheduleError>(definition.rule_from(name, after)?.spec.next(after));
        let mut changes = Vec::new();
        let before = Definition::parse(schedule.spec.as_str()).ok();
        // Spread and jitter go by the name.
        if before.as_ref() != Some(definition) || schedule.name != *name {
            let renamed = Schedule { name: name.clone(), ..schedule.clone() };
            self.check_job(&renamed, definition)?;
            let reason = format!("changed by {} before the slot was decided", look.actor.who);
            changes.push(ScheduleChange::Define {
                spec: stored(definition)?,
                owner: schedule.owner.clone(),
                next_slot: next_slot()?,
                passed: passed(schedule, look.at, &reason),
            });
        }
        // What was due is decided by the change before it, if there is one.
        let undecided = |reason: &str| match changes.is_empty() {
            true => passed(schedule, look.at, reason),
            false => PassedSlots::default(),
        };
        let change = match (schedule.enabled, *enabled) {
            (true, false) => {
                let reason = format!("disabled by {} before the slot was decided", look.actor.who);
                Some(ScheduleChange::Disable { passed: undecided(&reason) })
            }
            (false, true) => {
                let passed = undecided("the schedule was quarantined");
                Some(ScheduleChange::Enable { next_slot: next_slot()?, passed })
            }
            _ => None,
        };
        changes.extend(change);
        Ok(changes)
    }
}

/// The existing schedule of a wanted one, if there is one, or why it cannot be used.
type FindResult = Result<Option<Schedule>, ScheduleError>;

/// One look at a set, and what is to be done to it.
struct Look<'a> {
    tenant: &'a str,
    set: &'a str,
    manner: Manner,
    actor: &'a Actor,
    at: Timestamp,
    kept: &'a [Schedule],
}

fn taken(owner: &str) -> ScheduleError {
    let message = format!("a schedule with this name {owner}");
    StoreError::new(ErrorKind::Conflict, message).into()
}

impl ScheduleError {
    /// Is it about the store itself, so that there is no use in going on?
    fn is_of_the_store(&self) -> bool {
        let ScheduleError::Store(error) = self else { return false };
        !matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Invalid | ErrorKind::Limit)
    }
}
