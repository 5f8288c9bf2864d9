//! What would happen: every slot of a stretch of time and what is decided about it, by the same
//! function that the leader calls.
//!
//! Jobs take as long as the story says, no time if it says nothing, and none fails; nobody pauses
//! anything.

mod jobs;

use std::collections::BTreeMap;
use std::time::Duration;

pub use jobs::LIVE_MAX;
use jobs::{Course, Jobs};

use punctual_core::Timestamp;
use punctual_core::schedule::{Definition, DefinitionError, Missed, PlannedSlot, Rule, plan};

use crate::read::Declared;

/// What happens meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// When nobody is there to decide anything: from then, until then.
    pub down: Vec<(Timestamp, Timestamp)>,
    /// Which schedules are applied when, beginning with those of the start.
    pub deploys: Vec<(Timestamp, Vec<Declared>)>,
    /// How long jobs take of which nothing else is said.
    pub all_take: Duration,
    /// How long the jobs of a schedule take, by its name.
    pub takes: BTreeMap<String, Duration>,
}

impl Story {
    /// When somebody is there who can decide, from `at` on.
    fn up(&self, at: Timestamp) -> Timestamp {
        let mut at = at;
        // Outages may touch each other, in any order.
        while let Some((_, end)) = self.down.iter().find(|(start, end)| *start <= at && at < *end) {
            at = *end;
        }
        at
    }

    fn takes(&self, schedule: &str) -> Duration {
        self.takes.get(schedule).copied().unwrap_or(self.all_take)
    }
}

/// What becomes of a slot, or of a run of slots alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The schedule.
    pub schedule: String,
    /// The slot, or the first of the run.
    pub slot: Timestamp,
    /// The last of the run, if there is more than one.
    pub end: Option<Timestamp>,
    /// How many slots it stands for.
    pub count: u64,
    /// What becomes of it: a word of the ledger, or `undecided`.
    pub outcome: String,
    /// Why.
    pub reason: Option<String>,
    /// When that is decided.
    pub decided_at: Timestamp,
    /// When its job may start.
    pub due_at: Option<Timestamp>,
    /// When it does, if it does in this time.
    pub starts_at: Option<Timestamp>,
    /// When it ends, or is called off.
    pub ends_at: Option<Timestamp>,
    /// How many slots were missed or folded into this one since the job before it.
    pub missed_count: u64,
}

/// All that was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simulated {
    /// In the order of decisions.
    pub decisions: Vec<Decision>,
    /// Was there more than is shown?
    pub is_truncated: bool,
}

/// Decisions of one answer: more is no longer for reading.
const DECISIONS_MAX: usize = 100_000;

/// A schedule as it stands.
struct State {
    definition: Definition,
    rule: Rule,
    enabled: bool,
    next: Option<Timestamp>,
    last: Option<Timestamp>,
    jobs: Jobs,
}

/// Plays a stretch of time, `from` to `to`; the schedule of a name that has a mistake is the error.
pub fn simulate(
    story: &Story,
    from: Timestamp,
    to: Timestamp,
) -> Result<Simulated, (String, DefinitionError)> {
    let mut world = World { story, to, states: BTreeMap::new(), done: Simulated::default() };
    let mut deploys: Vec<&(Timestamp, Vec<Declared>)> = story.deploys.iter().collect();
    deploys.sort_by_key(|(at, _)| *at);
    for (at, schedules) in deploys {
        let at = (*at).max(from);
        world.run(at);
        for schedule in schedules {
            let applied = world.apply(schedule, at);
            applied.map_err(|error| (schedule.name.clone(), error))?;
        }
    }
    world.run(to);
    world.finish();
    world.leave_open();
    let mut done = world.done;
    done.decisions.sort_by(|left, right| {
        let key = |it: &Decision| (it.decided_at, it.slot, it.schedule.clone());
        key(left).cmp(&key(right))
    });
    Ok(done)
}

struct World<'a> {
    story: &'a Story,
    to: Timestamp,
    states: BTreeMap<String, State>,
    done: Simulated,
}

impl World<'_> {
    /// Decides all that somebody would decide before `until`.
    fn run(&mut self, until: Timestamp) {
        let names: Vec<String> = self.states.keys().cloned().collect();
        for name in names {
            while let Some(first) = self.due(&name) {
                let now = self.story.up(first);
                if now >= until || self.is_full() {
                    break;
                }
                self.decide(&name, first, now);
            }
        }
    }

    fn is_full(&mut self) -> bool {
        self.done.is_truncated |= self.done.decisions.len() >= DECISIONS_MAX;
        self.done.is_truncated
    }

    /// The first slot that is not decided.
    fn due(&self, name: &str) -> Option<Timestamp> {
        let state = self.states.get(name).filter(|state| state.enabled)?;
        state.next.filter(|next| *next < self.to)
    }

    fn decide(&mut self, name: &str, first: Timestamp, now: Timestamp) {
        let Some(state) = self.states.get_mut(name) else { return };
        let planned = plan(&state.rule, name, first, None, now);
        state.next = planned.next;
        state.last = planned.slots.last().map(|slot| slot.end.unwrap_or(slot.slot));
        let decisions = &mut self.done.decisions;
        let first = decisions.len();
        decisions.extend(planned.slots.into_iter().map(|slot| decision(name, slot, now)));
        let mut course = Course { story: self.story, takes: self.story.takes(name), decisions };
        state.jobs.pass(now, &mut course);
        state.jobs.seat(now, state.rule.overlap, first, &mut course);
    }

    /// Lets jobs go on until the end.
    fn finish(&mut self) {
        for (name, state) in &mut self.states {
            let (takes, decisions) = (self.story.takes(name), &mut self.done.decisions);
            state.jobs.pass(self.to, &mut Course { story: self.story, takes, decisions });
        }
    }

    /// Brings a schedule to what a file says; what is due and undecided by then is missed.
    fn apply(&mut self, schedule: &Declared, now: Timestamp) -> Result<(), DefinitionError> {
        if let Some(old) = &schedule.renamed_from
            && !self.states.contains_key(&schedule.name)
            && let Some(state) = self.states.remove(old)
        {
            self.states.insert(schedule.name.clone(), state);
        }
        let rule = schedule.definition.rule_from(&schedule.name, now)?;
        let before = self.states.remove(&schedule.name);
        let before = match before {
            Some(state)
                if state.definition == schedule.definition && state.enabled == schedule.enabled =>
            {
                self.states.insert(schedule.name.clone(), State { rule, ..state });
                return Ok(());
            }
            before => before,
        };
        let (mut last, mut jobs) = (None, Jobs::default());
        if let Some(state) = before {
            (last, jobs) = (state.last, state.jobs);
            if let Some(first) = state.next.filter(|next| *next <= now && state.enabled) {
                let nothing = Rule { missed: Missed::None, ..state.rule };
                let reason = "changed by apply before the slot was decided".to_owned();
                let run = merged(plan(&nothing, &schedule.name, first, None, now).slots);
                last = run.as_ref().map(|slot| slot.end.unwrap_or(slot.slot)).or(last);
                self.done.decisions.extend(run.map(|slot| Decision {
                    outcome: "missed".to_owned(),
                    reason: Some(reason),
                    due_at: None,
                    ..decision(&schedule.name, slot, now)
                }));
            }
        }
        let next = rule.spec.next(now.max(last.unwrap_or(now)));
        let (definition, enabled) = (schedule.definition.clone(), schedule.enabled);
        let state = State { definition, rule, enabled, next, last, jobs };
        self.states.insert(schedule.name.clone(), state);
        Ok(())
    }

    /// What is due at the end, while nobody is there, is left open.
    fn leave_open(&mut self) {
        let names: Vec<String> = self.states.keys().cloned().collect();
        for name in names {
            let Some(first) = self.due(&name).filter(|_| !self.done.is_truncated) else { continue };
            let Some(state) = self.states.get(&name) else { continue };
            let count = state.rule.spec.count(first, self.to);
            let last = state.rule.spec.previous(self.to).filter(|last| *last > first);
            self.done.decisions.push(Decision {
                schedule: name,
                slot: first,
                end: last,
                count,
                outcome: "undecided".to_owned(),
                reason: Some("no node runs at the end of the time range".to_owned()),
                decided_at: self.to,
                due_at: None,
                starts_at: None,
                ends_at: None,
                missed_count: 0,
            });
        }
    }
}

/// Slots that are missed alike, as one run.
fn merged(slots: Vec<PlannedSlot>) -> Option<PlannedSlot> {
    let mut slots = slots.into_iter();
    let mut run = slots.next()?;
    for slot in slots {
        run.end = Some(slot.end.unwrap_or(slot.slot));
        run.count += slot.count;
    }
    Some(run)
}

fn decision(name: &str, slot: PlannedSlot, now: Timestamp) -> Decision {
    Decision {
        schedule: name.to_owned(),
        slot: slot.slot,
        end: slot.end,
        count: slot.count,
        outcome: slot.outcome.to_string(),
        reason: slot.reason,
        decided_at: now,
        due_at: slot.job.map(|job| job.due_at),
        starts_at: None,
        ends_at: None,
        missed_count: slot.job.map_or(0, |job| job.missed_count),
    }
}
