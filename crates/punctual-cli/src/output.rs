//! What goes to the screen: colours where there is a terminal, plain text elsewhere, and nothing that a
//! terminal would obey except this program's own colours.

mod screen;
mod visible;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::sync::OnceLock;

use comfy_table::{ContentArrangement, Table, presets};
use punctual_api::Pause;
use serde::Serialize;

pub(crate) use screen::{CLEAR, ERROR, FAINT, HINT, NOTICE, WARNING, stderr, stdout};
pub(crate) use visible::{in_json, on_one_line, visible, visible_with_colors};

/// Is what goes to stderr for programs, too?
static IS_JSON: OnceLock<bool> = OnceLock::new();

/// Mistakes and warnings are objects of JSON from now on, one a line, if `--json` is among the
/// arguments: also those of somebody who could not be understood otherwise.
pub(crate) fn speak_as_asked(mut arguments: impl Iterator<Item = OsString>) {
    // What comes behind `--` is for another program.
    let is_asked = arguments.by_ref().take_while(|word| word != "--").any(|word| word == "--json");
    // It is said once.
    let _ = IS_JSON.set(is_asked);
}

pub(crate) fn is_json() -> bool {
    IS_JSON.get().copied().unwrap_or(false)
}

/// What a command could not do, and how it ends.
pub(crate) fn say_failure(message: &str, hint: Option<&str>, code: u8) {
    if is_json() {
        let error = serde_json::json!({ "error": message, "hint": hint, "code": code });
        return say(format_args!("{}", in_json(&error.to_string())));
    }
    say_error(message);
    // The word is highlighted, so that the remedy is found quickly.
    if let Some(hint) = hint {
        say(format_args!("{HINT}hint:{HINT:#} {hint}"));
    }
}

pub(crate) fn say_error(message: &str) {
    say(format_args!("{ERROR}error:{ERROR:#} {message}"));
}

pub(crate) fn say_warning(message: &str) {
    if is_json() {
        let warning = serde_json::json!({ "warning": message }).to_string();
        return say(format_args!("{}", in_json(&warning)));
    }
    say(format_args!("{WARNING}warning:{WARNING:#} {message}"));
}

fn say(line: fmt::Arguments<'_>) {
    // Stderr may be closed, and errors have no other place.
    let _ = writeln!(stderr(), "{line}");
}

/// One JSON document on a line of its own.
pub(crate) fn print_json(out: &mut impl Write, document: &impl Serialize) -> io::Result<()> {
    let document = serde_json::to_string(document)?;
    writeln!(out, "{}", in_json(&document))
}

/// Rows in aligned columns, without lines around them. A cell is one line, whatever is in it.
pub(crate) fn columns(rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    for row in rows {
        table.add_row(row.iter().map(|cell| on_one_line(cell)));
    }
    let count = table.column_count();
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index + 1 < count { 3 } else { 0 }));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// A table with a head, or nothing but the head.
pub(crate) fn print_table(
    out: &mut impl Write,
    head: &[&str],
    rows: Vec<Vec<String>>,
) -> io::Result<()> {
    let head = head.iter().map(|&name| name.to_owned()).collect();
    let table = columns(std::iter::once(head).chain(rows));
    for (index, line) in table.lines().enumerate() {
        match index {
            0 => writeln!(out, "{FAINT}{line}{FAINT:#}")?,
            _ => writeln!(out, "{line}")?,
        }
    }
    Ok(())
}

/// The first line of a text, cut where it gets long.
pub(crate) fn short(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or("");
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// A pause in words.
pub(crate) fn paused(pause: &Pause) -> String {
    let until = pause.until.as_ref().map(|until| format!(" until {until}")).unwrap_or_default();
    let why = if pause.why.is_empty() { String::new() } else { format!(" ({})", pause.why) };
    format!("paused by {}{until}{why}", pause.by)
}

/// What time it is where the command is given: for what people read, and never stored.
#[expect(clippy::disallowed_methods, reason = "a question at the prompt means the prompt's now")]
pub(crate) fn now() -> punctual_core::Timestamp {
    punctual_core::Timestamp::from_jiff(jiff::Timestamp::now())
}
