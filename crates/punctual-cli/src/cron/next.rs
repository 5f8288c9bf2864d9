//! `punctual cron next`: due times, as a table or as JSON.

use std::io::Write;

use punctual_core::Timestamp;
use serde::Serialize;

use super::question::{Asked, Options};
use crate::Failure;
use crate::output;

#[derive(Serialize)]
struct Answer<'a> {
    expr: &'a str,
    tz: &'a str,
    next: Vec<String>,
}

pub(super) fn run(expression: &str, options: &Options, json: bool) -> Result<(), Failure> {
    let asked = options.ask(expression)?;
    let mut stdout = anstream::stdout().lock();
    if json {
        let answer = Answer { expr: expression, tz: asked.spec.zone().name(), next: slots(&asked) };
        output::print_json(&mut stdout, &answer)?;
    } else {
        let rows = asked.slots().map(|slot| vec![shown(&asked, slot), slot.to_string()]);
        let table = output::columns(rows);
        if !table.is_empty() {
            writeln!(stdout, "{table}")?;
        }
    }
    for warning in asked.spec.warnings(asked.from) {
        output::say_warning(&warning);
    }
    Ok(())
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
