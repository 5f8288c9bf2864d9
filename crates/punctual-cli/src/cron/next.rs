//! `punctual cron next`: due times, as a table or as JSON.

use std::io::Write;

use punctual_core::Timestamp;
use serde::Serialize;

use super::excluded::Effect;
use super::question::{Asked, Options};
use crate::Failure;
use crate::output;

#[derive(Serialize)]
struct Answer<'a> {
    expr: &'a str,
    tz: &'a str,
    next: Vec<String>,
    /// What falls out and what moves, if that was asked.
    #[serde(flatten)]
    effect: Option<Effect>,
}

pub(super) fn run(expression: &str, options: &Options, json: bool) -> Result<(), Failure> {
    let asked = options.ask(expression)?;
    let mut stdout = output::stdout();
    let listed: Vec<Timestamp> = asked.slots().collect();
    let effect = Effect::on(&asked, &listed);
    if json {
        let next = listed.iter().map(ToString::to_string).collect();
        let answer = Answer { expr: expression, tz: asked.spec.zone().name(), next, effect };
        output::print_json(&mut stdout, &answer)?;
    } else {
        let table = output::columns(rows(&asked, &listed, effect.as_ref()));
        if !table.is_empty() {
            writeln!(stdout, "{table}")?;
        }
    }
    for warning in asked.warnings() {
        output::say_warning(&warning);
    }
    Ok(())
}

/// A line for each slot; with a calendar those that fall out have one as well.
fn rows(asked: &Asked, slots: &[Timestamp], effect: Option<&Effect>) -> Vec<Vec<String>> {
    let row = |slot: Timestamp| vec![shown(asked, slot), slot.to_string()];
    let Some(effect) = effect else { return slots.iter().map(|slot| row(*slot)).collect() };
    let mut all: Vec<Timestamp> = slots.to_vec();
    all.extend(effect.excluded.iter().map(|excluded| excluded.at));
    all.sort_unstable();
    let words = |slot: Timestamp| effect.words(slot).unwrap_or_default();
    all.into_iter().map(|slot| [row(slot), vec![words(slot)]].concat()).collect()
}

/// The due times in UTC, as text.
pub(super) fn slots(asked: &Asked) -> Vec<String> {
    asked.slots().map(|slot| slot.to_string()).collect()
}

/// A due time on the wall clock of the question's zone, for people.
pub(super) fn shown(asked: &Asked, slot: Timestamp) -> String {
    let zoned = slot.to_jiff().to_zoned(asked.spec.zone().to_jiff().clone());
    let format =
        if zoned.second() == 0 { "%a %Y-%m-%d %H:%M %Z" } else { "%a %Y-%m-%d %H:%M:%S %Z" };
    zoned.strftime(format).to_string()
}
