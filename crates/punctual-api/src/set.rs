//! Sets of schedules, as files declare them.

use punctual::{Applied, Definition, Manner, Step, Wanted, What};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::list::text;
use crate::problem::FieldError;
use crate::queue::Paused;
use crate::schedule::ScheduleBody;

/// All schedules of a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetBody {
    /// The schedules.
    pub schedules: Vec<SetSchedule>,
}

/// One schedule of a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSchedule {
    /// Its name.
    pub name: String,
    /// Is it planned at all? True if nothing is said.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// What it was called before: it keeps its history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<String>,
    /// What it is told.
    pub definition: ScheduleBody,
}

fn yes() -> bool {
    true
}

/// What was done to a set, or would be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SetChange {
    /// The set.
    pub set: String,
    /// Was nothing written?
    pub dry_run: bool,
    /// When it was looked at.
    pub at: String,
    /// How many are new.
    pub added: usize,
    /// How many become others.
    pub changed: usize,
    /// How many go.
    pub removed: usize,
    /// How many nobody wants and stay, since nobody said that such go.
    pub left: usize,
    /// How many are as they should be.
    pub unchanged: usize,
    /// One for each schedule.
    pub steps: Vec<SetStep>,
    /// What is carried out, and is most likely not meant so.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// What is done with one schedule of a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SetStep {
    /// Its name.
    pub name: String,
    /// `add`, `change`, `remove`, `leave` or `keep`.
    pub action: String,
    /// What it is called so far, if it is renamed.
    pub renamed_from: Option<String>,
    /// Is it taken over from whoever made it by hand?
    pub adopted: bool,
    /// Its rules in words.
    pub means: Option<String>,
    /// The kind of its jobs.
    pub kind: Option<String>,
    /// The zone.
    pub tz: Option<String>,
    /// What changes.
    pub fields: Vec<FieldChange>,
    /// Its next slots so far.
    pub next_before: Vec<String>,
    /// Its next slots from now on.
    pub next_after: Vec<String>,
    /// Who paused it; the pause stays.
    pub pause: Option<Paused>,
    /// The last slot that was decided.
    pub last_slot: Option<String>,
    /// How many of its jobs are unfinished, if it goes: as far as they were counted.
    pub unfinished: usize,
}

/// A part of a definition that changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FieldChange {
    /// Which, such as `tz` or `job.queue`.
    pub field: String,
    /// What it was.
    pub from: Value,
    /// What it becomes.
    pub to: Value,
}

/// How many slots are shown on either side of a change.
const NEXT: usize = 3;

impl SetBody {
    /// The schedules that it means; the error says what of them cannot be read.
    pub fn wanted(&self) -> Result<Vec<Wanted>, FieldError> {
        let wanted = |(number, schedule): (usize, &SetSchedule)| {
            let definition = schedule.definition.definition().map_err(|error| FieldError {
                pointer: format!("/schedules/{number}/definition{}", error.pointer),
                ..error
            })?;
            Ok(Wanted {
                name: schedule.name.clone(),
                definition,
                enabled: schedule.enabled,
                renamed_from: schedule.renamed_from.clone(),
            })
        };
        self.schedules.iter().enumerate().map(wanted).collect()
    }
}

impl SetChange {
    /// What was done to this set.
    pub fn new(set: &str, manner: Manner, applied: Applied) -> SetChange {
        let count = |what: What| applied.steps.iter().filter(|step| step.what == what).count();
        SetChange {
            set: set.to_owned(),
            dry_run: manner.dry_run,
            at: applied.at.to_string(),
            added: count(What::Add),
            changed: count(What::Change),
            removed: count(What::Remove),
            left: count(What::Leave),
            unchanged: count(What::Keep),
            steps: applied.steps.iter().map(|step| SetStep::new(step, applied.at)).collect(),
            warnings: Vec::new(),
        }
    }
}

impl SetStep {
    fn new(step: &Step, at: punctual::Timestamp) -> SetStep {
        let before = step.before.as_ref();
        let old = before.and_then(|schedule| Definition::parse(schedule.spec.as_str()).ok());
        let new = step.wanted.as_ref().map(|wanted| &wanted.definition);
        let shown = new.or(old.as_ref());
        let next = |definition: Option<&Definition>, name: &str, is_on: bool| -> Vec<String> {
            let rule = definition.filter(|_| is_on).and_then(|it| it.rule(name).ok());
            let Some(rule) = rule else { return Vec::new() };
            let slots = std::iter::successors(rule.next(at), |slot| rule.next(*slot));
            slots.take(NEXT).map(|slot| slot.to_string()).collect()
        };
        let old_name = before.map_or("", |schedule| schedule.name.as_str());
        let was_on = before.is_some_and(|schedule| schedule.enabled);
        let is_on = step.wanted.as_ref().is_some_and(|wanted| wanted.enabled);
        let rule = shown.and_then(|definition| definition.rule(&step.name).ok());
        SetStep {
            name: step.name.clone(),
            action: match step.what {
                What::Add => "add",
                What::Change => "change",
                What::Keep => "keep",
                What::Remove => "remove",
                What::Leave => "leave",
            }
            .to_owned(),
            renamed_from: Some(old_name.to_owned())
                .filter(|old| !old.is_empty() && *old != step.name),
            adopted: step.what == What::Change && before.is_some_and(|it| it.set.is_empty()),
            means: rule.map(|rule| {
                let rules: Vec<String> =
                    rule.spec.whens().iter().map(|when| when.describe()).collect();
                rules.join("; ")
            }),
            kind: shown.map(|definition| definition.job.kind.clone()),
            tz: shown.map(|definition| definition.tz.clone()),
            fields: match step.what {
                What::Change => fields(old.as_ref(), new, was_on, is_on),
                _ => Vec::new(),
            },
            next_before: next(old.as_ref(), old_name, was_on),
            next_after: next(new, &step.name, is_on),
            pause: Paused::at(before.and_then(|schedule| schedule.pause.as_ref()), at),
            last_slot: text(before.and_then(|schedule| schedule.last_slot)),
            unfinished: 0,
        }
    }
}

/// The parts that differ, in the order of the definition; those of the job one by one.
fn fields(
    old: Option<&Definition>,
    new: Option<&Definition>,
    was_on: bool,
    is_on: bool,
) -> Vec<FieldChange> {
    let parts = |definition: Option<&Definition>| -> Vec<(String, Value)> {
        let Some(Ok(Value::Object(whole))) = definition.map(serde_json::to_value) else {
            return Vec::new();
        };
        let mut parts = Vec::new();
        for (name, value) in whole {
            match value {
                Value::Object(job) if name == "job" => {
                    parts.extend(
                        job.into_iter().map(|(part, value)| (format!("job.{part}"), value)),
                    );
                }
                value => parts.push((name, value)),
            }
        }
        parts
    };
    let (old, new) = (parts(old), parts(new));
    let of = |parts: &[(String, Value)], name: &str| {
        let found = parts.iter().find(|(field, _)| field == name);
        found.map_or(Value::Null, |(_, value)| value.clone())
    };
    let names = new.iter().chain(&old).map(|(name, _)| name.clone());
    let mut changes: Vec<FieldChange> = Vec::new();
    for field in names {
        let (from, to) = (of(&old, &field), of(&new, &field));
        if from != to && changes.iter().all(|change| change.field != field) {
            changes.push(FieldChange { field, from, to });
        }
    }
    // What says when comes first, and the rest is sorted.
    changes.sort_by_key(|change| (change.field != "when", change.field.clone()));
    if was_on != is_on {
        let field = "enabled".to_owned();
        changes.push(FieldChange { field, from: was_on.into(), to: is_on.into() });
    }
    changes
}
