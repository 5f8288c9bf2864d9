//! `punctual cron explain`: an expression in words, with what clock changes do to it.

use std::io::Write;

use jiff::civil::DateTime;
use punctual_core::{ClockChange, DstFold, DstGap, Spec, Timestamp, When};
use serde::{Serialize, Serializer};

use super::excluded::Effect;
use super::next::shown;
use super::question::{Asked, Options};
use crate::Failure;
use crate::output::{self, FAINT, NOTICE};

#[derive(Serialize)]
struct Explanation<'a> {
    expr: &'a str,
    normalized: String,
    description: String,
    tz: &'a str,
    clock_changes: String,
    next: Vec<Due>,
    warnings: Vec<String>,
}

/// A line of the list: a slot, or a local time that has none.
#[derive(Serialize)]
struct Due {
    #[serde(rename = "utc", serialize_with = "as_text")]
    slot: Option<Timestamp>,
    local: String,
    note: Option<String>,
    /// Is it a slot that does not fire?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    excluded: bool,
    /// The local time for people.
    #[serde(skip)]
    shown: String,
    /// When it is, or would have been.
    #[serde(skip)]
    at: Timestamp,
}

fn as_text<S: Serializer>(slot: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    slot.map(|slot| slot.to_string()).serialize(serializer)
}

pub(super) fn run(expression: &str, options: &Options, json: bool) -> Result<(), Failure> {
    let asked = options.ask(expression)?;
    let when = asked.when();
    let explanation = Explanation {
        expr: expression,
        normalized: when.to_string(),
        description: when.describe(),
        tz: asked.spec.zone().name(),
        clock_changes: clock_changes_in_words(&asked.spec, when, asked.from),
        next: due(&asked),
        warnings: asked.warnings(),
    };
    let mut stdout = output::stdout();
    if json {
        output::print_json(&mut stdout, &explanation)?;
        return Ok(());
    }
    for (label, value) in [
        ("expression", explanation.expr),
        ("normalized", &explanation.normalized),
        ("description", &explanation.description),
        ("time zone", explanation.tz),
        ("clock changes", &explanation.clock_changes),
    ] {
        writeln!(stdout, "{FAINT}{label:<15}{FAINT:#}{value}")?;
    }
    let rows = explanation.next.iter().map(|due| {
        let utc = due.slot.map_or_else(|| "–".to_owned(), |slot| slot.to_string());
        let note = due.note.as_ref().map_or_else(String::new, |note| format!("! {note}"));
        vec![due.shown.clone(), utc, note]
    });
    let table = output::columns(rows);
    let never = asked.spec.never_fires(asked.from).map(|_| "never");
    for (index, line) in table.lines().chain(never).enumerate() {
        let label = if index == 0 { "next" } else { "" };
        let (slot, note) = line.split_at(line.find("! ").unwrap_or(line.len()));
        writeln!(stdout, "{FAINT}{label:<15}{FAINT:#}{slot}{NOTICE}{note}{NOTICE:#}")?;
    }
    for warning in &explanation.warnings {
        output::say_warning(warning);
    }
    Ok(())
}

fn clock_changes_in_words(spec: &Spec, when: &When, from: Timestamp) -> String {
    let When::Cron(cron) = when else { return "no effect: intervals are elapsed time".to_owned() };
    if spec.clock_changes(from, Timestamp::MAX).next().is_none() {
        return "none ahead in this time zone".to_owned();
    }
    let (gap, fold) = spec.dst_rules(cron);
    let skipped = match gap {
        DstGap::End => "a skipped time fires at the end of the gap",
        DstGap::Skip => "a skipped time has no slot",
    };
    let repeated = match fold {
        DstFold::First => "the first time only",
        DstFold::Second => "the second time only",
        DstFold::Both => "both times",
    };
    format!("{skipped}; a repeated time fires {repeated}")
}

/// The slots, with a note where the clock plays a part, and between them the local times that
/// have none because of it.
fn due(asked: &Asked) -> Vec<Due> {
    let firing: Vec<Timestamp> = asked.slots().collect();
    let effect = Effect::on(asked, &firing);
    let excluded = effect.iter().flat_map(|effect| &effect.excluded).map(|it| it.at);
    let mut slots: Vec<Timestamp> = firing.iter().copied().chain(excluded).collect();
    slots.sort_unstable();
    let Some(last) = slots.last() else { return Vec::new() };
    // A change repeats or skips at most a day.
    let day = std::time::Duration::from_secs(86_400);
    let changes: Vec<ClockChange> =
        asked.spec.clock_changes(asked.from - day, *last + day).collect();
    let mut due: Vec<Due> = Vec::new();
    for slot in &slots {
        let zoned = slot.to_jiff().to_zoned(asked.spec.zone().to_jiff().clone());
        let local = zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        let of_clock = changes.iter().find_map(|change| note(asked, change, *slot));
        let of_calendar = effect.as_ref().and_then(|effect| effect.words(*slot));
        let notes: Vec<String> = of_calendar.into_iter().chain(of_clock).collect();
        let note = (!notes.is_empty()).then(|| notes.join("; "));
        let shown = shown(asked, *slot);
        let excluded = !firing.contains(slot);
        due.push(Due { slot: Some(*slot), local, note, excluded, shown, at: *slot });
    }
    for change in &changes {
        let without_slot =
            change.at > asked.from && change.at < *last && !slots.contains(&change.at);
        let a_date_is_gone =
            change.to.date() > change.from.date() && change.to >= next_day(change.from);
        let first_missing = change.missing.or(a_date_is_gone.then_some(change.from));
        if let Some(missing) = first_missing.filter(|_| without_slot) {
            let (local, shown) = (missing.to_string(), missing.strftime("%a %Y-%m-%d").to_string());
            let shown = if a_date_is_gone { shown } else { format!("{shown} {}", time(missing)) };
            let what = if a_date_is_gone { "date" } else { "time" };
            let note = format!("no slot: this {what} does not exist, {}", in_words(change));
            let note = Some(note);
            due.push(Due { slot: None, local, note, excluded: false, shown, at: change.at });
        }
    }
    due.sort_by_key(|due| due.at);
    due
}

fn note(asked: &Asked, change: &ClockChange, slot: Timestamp) -> Option<String> {
    let wall = asked.spec.zone().local(slot);
    if change.is_forward() {
        let missing = change.missing.filter(|_| slot == change.at)?;
        return Some(format!("{} does not exist on that day: {}", time(missing), in_words(change)));
    }
    change.repeats(wall).then(|| {
        let which = if slot < change.at { "first" } else { "second" };
        format!("the {which} of two {} on that day: {}", time(wall), in_words(change))
    })
}

fn in_words(change: &ClockChange) -> String {
    let direction = if change.is_forward() { "forward" } else { "back" };
    let (mut from, mut to) = (time(change.from), time(change.to));
    if from == to {
        (from, to) = (change.from.date().to_string(), change.to.date().to_string());
    }
    format!("clocks go {direction} from {from} to {to}")
}

fn next_day(local: DateTime) -> DateTime {
    local.checked_add(jiff::SignedDuration::from_hours(24)).unwrap_or(DateTime::MAX)
}

fn time(local: DateTime) -> String {
    let format = if local.second() == 0 { "%H:%M" } else { "%H:%M:%S" };
    local.strftime(format).to_string()
}
