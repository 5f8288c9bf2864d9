//! `[calendars.NAME]`: days and times under a name, for which `exclude = ["@NAME"]` stands.
//!
//! Names end here. A schedule is given the entries, so that whoever edits a calendar edits every
//! schedule that uses it, sees that beforehand and finds it among the revisions.

use std::collections::BTreeMap;

use punctual_core::CalendarText;
use serde_json::{Value as Json, json};
use toml::de::{DeTable, DeValue};

use crate::place::{Mistake, Source, echo};
use crate::value::{Value, Wrong, each_text, expected, inside, what};

/// Reads a file that a file of schedules names, which lies beside it.
pub(crate) type Beside<'a> = &'a dyn Fn(&Source, &str) -> Result<String, String>;

/// What marks the name of a calendar among entries.
const NAME_MARK: char = '@';

/// The calendars of a file.
#[derive(Default)]
pub(crate) struct Calendars {
    /// The entries of each; none if it has mistakes, which are told where they are.
    named: BTreeMap<String, Option<Vec<String>>>,
}

/// Names of files that this one reads beside it; none if it cannot be read itself.
pub fn beside(source: &Source) -> Vec<String> {
    let (document, _) = DeTable::parse_recoverable(&source.text);
    let Some(DeValue::Table(calendars)) =
        document.get_ref().get("calendars").map(|it| it.get_ref())
    else {
        return Vec::new();
    };
    let ics = calendars.values().filter_map(|calendar| match calendar.get_ref() {
        DeValue::Table(table) => match table.get("ics")?.get_ref() {
            DeValue::String(name) => Some(name.to_string()),
            _ => None,
        },
        _ => None,
    });
    ics.collect()
}

impl Calendars {
    /// Reads the table `[calendars]`.
    pub(crate) fn read(
        source: &Source,
        value: &Value<'_>,
        beside: Beside<'_>,
    ) -> (Calendars, Vec<Mistake>) {
        let mut calendars = Calendars::default();
        let mut mistakes = Vec::new();
        let DeValue::Table(table) = value.get_ref() else {
            let message = format!("`calendars` must be a table, got {}", what(value.get_ref()));
            let wrong = Wrong::new(message).hint("use `[calendars.holidays]`");
            return (calendars, vec![wrong.at(source, value.span())]);
        };
        for (name, value) in table {
            let before = mistakes.len();
            let entries = entries(source, value, beside, &mut mistakes);
            let is_right = mistakes.len() == before;
            calendars.named.insert(name.get_ref().to_string(), is_right.then_some(entries));
        }
        (calendars, mistakes)
    }

    /// What a list of entries and names of calendars stands for, each entry once.
    pub(crate) fn expand(
        &self,
        source: &Source,
        key: &str,
        value: &Value<'_>,
    ) -> Result<Json, Vec<Mistake>> {
        let DeValue::Array(_) = value.get_ref() else {
            let wrong =
                expected(key, value.get_ref(), "an array of strings", "[\"@holidays\", \"12-24\"]");
            return Err(vec![wrong.at(source, value.span())]);
        };
        let texts = each_text(source, key, value).map_err(|mistake| vec![mistake])?;
        let (mut all, mut mistakes) = (Vec::<String>::new(), Vec::new());
        for (text, span) in texts {
            let entries = match text.trim().strip_prefix(NAME_MARK) {
                Some(name) => self.of(name).map(|entries| entries.to_vec()),
                None => checked(text).map(|()| vec![text.to_owned()]),
            };
            match entries {
                Ok(entries) => all.extend(entries),
                Err(wrong) => mistakes.push(wrong.at(source, span)),
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let mut known = std::collections::HashSet::new();
        Ok(all.iter().filter(|entry| known.insert(entry.as_str())).map(|it| json!(it)).collect())
    }

    fn of(&self, name: &str) -> Result<&[String], Wrong> {
        match self.named.get(name) {
            Some(entries) => Ok(entries.as_deref().unwrap_or_default()),
            None => {
                let wrong = Wrong::new(format!("unknown calendar `{}`", echo(name)));
                let names = self.named.keys().map(String::as_str);
                Err(match punctual_core::nearest(name, names) {
                    Some(nearest) => wrong.hint(format!("did you mean `@{nearest}`?")),
                    None => wrong.hint(format!("declare it as `[calendars.{}]`", echo(name))),
                })
            }
        }
    }
}

/// The entries of one calendar, in the order dates, all-day events, times of the week.
fn entries(
    source: &Source,
    value: &Value<'_>,
    beside: Beside<'_>,
    mistakes: &mut Vec<Mistake>,
) -> Vec<String> {
    let DeValue::Table(table) = value.get_ref() else {
        let wrong =
            Wrong::new(format!("a calendar must be a table, got {}", what(value.get_ref())))
                .hint("use `[calendars.holidays]` with keys such as `dates = [\"12-25\"]`");
        mistakes.push(wrong.at(source, value.span()));
        return Vec::new();
    };
    let known = ["dates", "weekly", "ics"];
    for (key, _) in table.iter().filter(|(key, _)| !known.contains(&key.get_ref().as_ref())) {
        let name = key.get_ref().as_ref();
        let wrong = Wrong::new(format!("unknown key `{}` in a calendar", echo(name)));
        let wrong = match punctual_core::nearest(name, known) {
            Some(nearest) => wrong.hint(format!("did you mean `{nearest}`?")),
            None => wrong.hint("expected one of `dates`, `weekly`, `ics`"),
        };
        mistakes.push(wrong.at(source, key.span()));
    }
    let mut all = Vec::new();
    for key in known {
        let Some(value) = table.get(key) else { continue };
        match key {
            "ics" => match events(source, value, beside) {
                Ok(dates) => all.push((1, dates)),
                Err(mistake) => mistakes.push(mistake),
            },
            _ => {
                let rank = if key == "dates" { 0 } else { 2 };
                all.push((rank, listed(source, key, value, mistakes)));
            }
        }
    }
    all.sort_by_key(|(rank, _)| *rank);
    all.into_iter().flat_map(|(_, entries)| entries).collect()
}

/// The entries of `dates` or `weekly`, with what is wrong in its place.
fn listed(
    source: &Source,
    key: &str,
    value: &Value<'_>,
    mistakes: &mut Vec<Mistake>,
) -> Vec<String> {
    let DeValue::Array(items) = value.get_ref() else {
        let example = if key == "dates" { "[\"12-25\"]" } else { "[\"Sat\", \"Sun\"]" };
        let wrong = expected(key, value.get_ref(), "an array of strings", example);
        mistakes.push(wrong.at(source, value.span()));
        return Vec::new();
    };
    let mut entries = Vec::new();
    for item in items {
        let text = match item.get_ref() {
            DeValue::String(text) => text.to_string(),
            // A date need not be quoted.
            DeValue::Datetime(date) => date.to_string(),
            other => {
                mistakes.push(
                    expected(key, other, "an array of strings", "[\"…\"]").at(source, item.span()),
                );
                continue;
            }
        };
        let one = vec![text.clone()];
        let read = match key {
            "dates" => CalendarText { dates: one, weekly: Vec::new() }.read(),
            _ => CalendarText { dates: Vec::new(), weekly: one }.read(),
        };
        match read {
            Ok(_) => entries.push(text),
            Err(error) => {
                mistakes.push(Wrong::new(error.message).at(source, inside(source, item)));
            }
        }
    }
    entries
}

/// The all-day events of a file.
fn events(source: &Source, value: &Value<'_>, beside: Beside<'_>) -> Result<Vec<String>, Mistake> {
    let wrong = |wrong: Wrong| wrong.at(source, inside(source, value));
    let DeValue::String(name) = value.get_ref() else {
        return Err(wrong(expected("ics", value.get_ref(), "a string", "\"holidays.ics\"")));
    };
    let text = beside(source, name)
        .map_err(|error| wrong(Wrong::new(format!("cannot read `{}`: {error}", echo(name)))))?;
    let read = CalendarText::from_ics(&text).and_then(|read| read.read().map(|_| read));
    read.map(CalendarText::entries)
        .map_err(|error| wrong(Wrong::new(format!("`{}`: {error}", echo(name)))))
}

/// Is this an entry?
fn checked(text: &str) -> Result<(), Wrong> {
    let own = CalendarText::from_lines(text);
    let read = match text.contains('#') || text.trim().is_empty() {
        true => {
            return Err(Wrong::new(format!("invalid exclusion `{}`", echo(text))).hint(
                "use a value such as `2027-12-24`, `12-25`, `Sat` or `Sat 00:00-Mon 06:00`",
            ));
        }
        false => own.read(),
    };
    read.map(|_| ()).map_err(|error| Wrong::new(error.message))
}
