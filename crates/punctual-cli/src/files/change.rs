//! What is done to a set, for people.

use std::io::{self, Write};

use punctual_api::{FieldChange, SetChange, SetStep};
use punctual_core::{Timestamp, Zone};
use serde_json::Value;

use crate::output::{self, FAINT, NOTICE};

/// Prints what would be done, or was.
pub(super) fn print(out: &mut impl Write, change: &SetChange) -> io::Result<()> {
    let SetChange { set, added, changed, deleted, kept, unchanged, .. } = change;
    let (add, alter, remove) = match change.dry_run {
        true => ("to add", "to change", "to delete"),
        false => ("added", "changed", "deleted"),
    };
    let gone = deleted + if change.dry_run { *kept } else { 0 };
    writeln!(
        out,
        "set {set}: {added} {add}, {changed} {alter}, {gone} {remove}, {unchanged} unchanged"
    )?;
    for step in &change.steps {
        match step.action.as_str() {
            "add" => added_step(out, step)?,
            "change" => changed_step(out, step)?,
            "delete" => removed_step(out, step, "")?,
            "keep" => removed_step(out, step, "   (kept; pass --prune to delete)")?,
            _ => {}
        }
    }
    let is_paused = |step: &&SetStep| step.pause.is_some() && step.action != "delete";
    for step in change.steps.iter().filter(is_paused) {
        let Some(pause) = &step.pause else { continue };
        let paused = output::paused(pause);
        writeln!(out, "{NOTICE}!{NOTICE:#} {:<18} {paused}; stays paused", step.name)?;
    }
    Ok(())
}

fn added_step(out: &mut impl Write, step: &SetStep) -> io::Result<()> {
    let means = step.description.as_deref().unwrap_or("?");
    let kind = step.kind.as_deref().unwrap_or("?");
    writeln!(out, "+ {:<18} {means} → {kind}", step.name)?;
    match step.next_after.first() {
        Some(next) => writeln!(out, "    {FAINT}next{FAINT:#}  {}", local(next, step)),
        None => writeln!(out, "    {FAINT}next{FAINT:#}  –"),
    }
}

fn removed_step(out: &mut impl Write, step: &SetStep, note: &str) -> io::Result<()> {
    let last = match &step.last_slot {
        Some(slot) => format!("last slot {}", local(slot, step)),
        None => "never fired".to_owned(),
    };
    let jobs = if step.unfinished == 1 { "job" } else { "jobs" };
    writeln!(out, "- {:<18} {last}; {} unfinished {jobs}{note}", step.name, step.unfinished)
}

fn changed_step(out: &mut impl Write, step: &SetStep) -> io::Result<()> {
    let renamed = step.renamed_from.as_ref().map(|old| format!("   (was {old})"));
    let adopted = if step.adopted { "   (adopted; belonged to no set)" } else { "" };
    writeln!(out, "~ {}{}{adopted}", step.name, renamed.unwrap_or_default())?;
    let mut rows: Vec<Vec<String>> = step
        .fields
        .iter()
        .map(|change| {
            let key = punctual_file::key_of(&change.field).to_owned();
            vec![key, shown(change, &change.from), format!("→  {}", shown(change, &change.to))]
        })
        .collect();
    // Slots that both have say nothing.
    let pairs = step.next_before.iter().map(Some).chain(std::iter::repeat(None));
    let pairs = pairs.zip(step.next_after.iter().map(Some).chain(std::iter::repeat(None)));
    let differ = pairs.take(step.next_before.len().max(step.next_after.len()));
    for (before, after) in differ.filter(|(before, after)| before != after) {
        let text = |slot: Option<&String>| slot.map_or("–".to_owned(), |slot| local(slot, step));
        rows.push(vec!["next".to_owned(), text(before), format!("→  {}", text(after))]);
    }
    for line in output::columns(rows).lines() {
        writeln!(out, "    {line}")?;
    }
    Ok(())
}

/// A value as a file would have it.
fn shown(change: &FieldChange, value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::Array(items) if items.len() == 1 && change.field == "when" => items[0].to_string(),
        value => output::short(&value.to_string(), 60),
    }
}

/// A slot on the schedule's wall clock.
fn local(slot: &str, step: &SetStep) -> String {
    let zone = step.tz.as_deref().and_then(|tz| Zone::get(tz).ok()).unwrap_or(Zone::UTC);
    match slot.parse::<Timestamp>() {
        Ok(instant) => {
            let zoned = instant.to_jiff().to_zoned(zone.to_jiff().clone());
            let format = match zoned.second() {
                0 => "%a %Y-%m-%d %H:%M %Z",
                _ => "%a %Y-%m-%d %H:%M:%S %Z",
            };
            zoned.strftime(format).to_string()
        }
        Err(_) => slot.to_owned(),
    }
}
