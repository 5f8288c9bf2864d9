//! Sets of schedules, as files declare them.

use punctual::{Applied, Definition, Manner, Step, Wanted, What};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::list::text;
use crate::problem::FieldError;
use crate::queue::Pause;
use crate::schedule::ScheduleBody;

/// All schedules of a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct SetBody {
    /// The schedules.
    pub schedules: Vec<SetSchedule>,
}

/// One schedule of a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub struct SetSchedule {
    /// Name of the schedule.
    pub name: String,
    /// False to disable the schedule. Default: true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Previous name of the schedule. The schedule keeps its history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_from: Option<String>,
    /// Definition of the schedule.
    pub definition: ScheduleBody,
}

fn yes() -> bool {
    true
}

/// The changes to a set, applied or only computed (`dry_run`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SetChange {
    /// Name of the set.
    pub set: String,
    /// True if the changes were only computed and not applied.
    pub dry_run: bool,
    /// Time at which the changes were computed.
    pub at: String,
    /// Number of schedules added.
    pub added: usize,
    /// Number of schedules changed.
    pub changed: usize,
    /// Number of schedules deleted.
    pub deleted: usize,
    /// Number of schedules that are not in the request and were kept because `prune` is off.
    pub kept: usize,
    /// Number of schedules that did not change.
    pub unchanged: usize,
    /// One step per schedule.
    pub steps: Vec<SetStep>,
    /// Warnings about schedules that are probably wrong, such as unknown job kinds.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The change to one schedule of a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SetStep {
    /// Name of the schedule.
    pub name: String,
    /// `add`, `change`, `unchanged`, `delete` or `keep`.
    pub action: String,
    /// Previous name, if the schedule is renamed.
    pub renamed_from: Option<String>,
    /// True if a manually created schedule is taken over by the set.
    pub adopted: bool,
    /// The expressions in plain English.
    pub description: Option<String>,
    /// Kind of its jobs.
    pub kind: Option<String>,
    /// Time zone of the schedule.
    pub tz: Option<String>,
    /// Changed fields of the definition.
    pub fields: Vec<FieldChange>,
    /// The next slots before the change, at most 3.
    pub next_before: Vec<String>,
    /// The next slots after the change, at most 3.
    pub next_after: Vec<String>,
    /// The current pause, which the change does not affect.
    pub pause: Option<Pause>,
    /// The last slot that was decided.
    pub last_slot: Option<String>,
    /// For `delete` and `keep`: number of unfinished jobs among the newest 100 jobs of the
    /// schedule.
    pub unfinished: usize,
}

/// A changed field of a definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FieldChange {
    /// Name of the field, such as `tz` or `job.queue`.
    pub field: String,
    /// The old value.
    pub from: Value,
    /// The new value.
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
            deleted: count(What::Remove),
            kept: count(What::Leave),
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
                What::Keep => "unchanged",
                What::Remove => "delete",
                What::Leave => "keep",
            }
            .to_owned(),
            renamed_from: Some(old_name.to_owned())
                .filter(|old| !old.is_empty() && *old != step.name),
            adopted: step.what == What::Change && before.is_some_and(|it| it.set.is_empty()),
            description: rule.map(|rule| {
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
            pause: Pause::at(before.and_then(|schedule| schedule.pause.as_ref()), at),
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
