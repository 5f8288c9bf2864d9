//! Schedules as a file: what differs from the usual, in one order, so that the same schedules are
//! always the same bytes.

use punctual_core::schedule::Definition;
use serde_json::Value as Json;

use crate::job;
use crate::keys::KEYS;
use crate::read::Declared;
use crate::toml_text::{inline, key, quoted, sorted};

/// The most characters of a command or payload on one line; longer ones get a table of their own.
const INLINE_MAX: usize = 80;

/// The file of a set.
pub fn write(set: &str, schedules: &[Declared]) -> String {
    let mut text = format!("set = {}\n", quoted(set));
    let usual = Definition::new("@daily", "job");
    let mut schedules: Vec<&Declared> = schedules.iter().collect();
    schedules.sort_by(|left, right| left.name.cmp(&right.name));
    for schedule in schedules {
        text.push('\n');
        text.push_str(&one(schedule, &usual));
    }
    text
}

/// One schedule, where it differs from what is usual in the file.
pub(crate) fn one(schedule: &Declared, usual: &Definition) -> String {
    let mut lines = vec![format!("name = {}", quoted(&schedule.name))];
    if let Some(renamed_from) = &schedule.renamed_from {
        lines.push(format!("renamed_from = {}", quoted(renamed_from)));
    }
    if !schedule.enabled {
        lines.push("enabled = false".to_owned());
    }
    lines.extend(when(&schedule.definition.when));
    let usual = as_json(usual);
    let definition = as_json(&schedule.definition);
    for known in KEYS {
        let value = definition.pointer(known.at).unwrap_or(&Json::Null);
        let is_usual = usual.pointer(known.at).unwrap_or(&Json::Null) == value;
        if !is_usual && !value.is_null() {
            lines.push(format!("{} = {}", known.name, inline(value)));
        }
    }
    let template = &schedule.definition.job;
    let (name, value) = job::written(&template.kind, &template.payload);
    let short = format!("{name} = {}", inline(&value));
    match value.as_object().filter(|_| short.chars().count() > INLINE_MAX) {
        None => lines.push(short),
        Some(parts) => {
            lines.push(String::new());
            lines.push(format!("[schedule.{name}]"));
            let line =
                |(part, value): (&String, &Json)| format!("{} = {}", key(part), inline(value));
            lines.extend(sorted(parts).map(line));
        }
    }
    format!("[[schedule]]\n{}\n", lines.join("\n"))
}

fn as_json(definition: &Definition) -> Json {
    serde_json::to_value(definition).unwrap_or(Json::Null)
}

/// The rules, by their kind where that keeps their order.
fn when(rules: &[String]) -> Vec<String> {
    let kind = |rule: &String| match rule.split_once(' ') {
        Some(("@every", _)) => 1,
        Some(("@at", _)) => 2,
        _ => 0,
    };
    let list = |name: &str, rules: &[String]| {
        let rules: Vec<Json> = rules.iter().map(|rule| Json::String(rule.clone())).collect();
        match rules.as_slice() {
            [one] => format!("{name} = {}", inline(one)),
            _ => format!("{name} = {}", inline(&Json::Array(rules))),
        }
    };
    if !rules.is_sorted_by_key(kind) {
        return vec![list("cron", rules)];
    }
    let mut lines = Vec::new();
    for (number, name) in ["cron", "every", "at"].into_iter().enumerate() {
        let own: Vec<String> = rules
            .iter()
            .filter(|rule| kind(rule) == number)
            .map(|rule| match number {
                0 => rule.clone(),
                _ => rule.split_once(' ').map_or(String::new(), |(_, rest)| rest.to_owned()),
            })
            .collect();
        if !own.is_empty() {
            lines.push(list(name, &own));
        }
    }
    lines
}
