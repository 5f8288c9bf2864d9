//! Files of schedules, read whole: either every schedule of them, or everything that is wrong.

use std::collections::BTreeMap;
use std::ops::Range;

use punctual_core::schedule::Definition;
use punctual_core::{When, Zone};
use serde_json::{Map, Value as Json, json};
use toml::de::{DeTable, DeValue};

use crate::calendars::{Beside, Calendars};
use crate::job;
use crate::keys::{KEYS, Kind, OWN, meant, renamed};
use crate::place::{Mistake, Mistakes, Place, Source, echo};
use crate::value::{self, Value, Wrong, each_text, expected, inside};

/// The schedules that belong together: `apply` touches no others.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// Its name.
    pub name: String,
    /// Its schedules, in the order of the files.
    pub schedules: Vec<Declared>,
    /// Deprecated keys in its files, with their places, in the order of the files.
    pub warnings: Vec<Mistake>,
}

/// A schedule as a file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// What it is told.
    pub definition: Definition,
    /// Is it planned at all?
    pub enabled: bool,
    /// What it was called before.
    pub renamed_from: Option<String>,
    /// Where it stands.
    pub place: Option<Place>,
}

/// Sets that programs declare begin so; no file may.
const OF_PROGRAMS: &str = "code:";
/// The longest name that is kept.
const NAME_BYTES_MAX: usize = 200;

/// Reads files, of which several may be of one set. If anything is wrong anywhere, all that is
/// wrong is told and nothing else.
pub fn read(sources: &[Source]) -> Result<Vec<Set>, Mistakes> {
    read_beside(sources, &|_, _| Err("other files are not read here".to_owned()))
}

/// The same for files that name others beside them (`ics = "holidays.ics"`): these are read by
/// `beside`, from the file that names one and the name.
pub fn read_beside(
    sources: &[Source],
    beside: &dyn Fn(&Source, &str) -> Result<String, String>,
) -> Result<Vec<Set>, Mistakes> {
    let mut mistakes = Vec::new();
    let mut sets: BTreeMap<String, Set> = BTreeMap::new();
    let mut names: BTreeMap<String, Place> = BTreeMap::new();
    for source in sources {
        let calendars = Calendars::default();
        let mut file = File {
            source,
            mistakes: Vec::new(),
            warnings: Vec::new(),
            names: &mut names,
            calendars,
            beside,
        };
        if let Some((name, schedules)) = file.read() {
            let empty = Set { name: name.clone(), schedules: Vec::new(), warnings: Vec::new() };
            let set = sets.entry(name).or_insert(empty);
            set.schedules.extend(schedules);
            file.warnings.sort_by_key(|warning| warning.place.clone());
            set.warnings.append(&mut file.warnings);
        }
        mistakes.append(&mut file.mistakes);
    }
    for schedule in sets.values().flat_map(|set| &set.schedules) {
        // It would be renamed and kept at once.
        if let Some(old) = &schedule.renamed_from
            && let Some(place) = names.get(old)
            && let (Some(source), Some(at)) =
                (sources.iter().find(|it| it.path == place.path), &schedule.place)
        {
            let message = format!(
                "schedule `{}` is renamed from `{}`, but that schedule is also declared, at \
                 {place}",
                schedule.name,
                echo(old)
            );
            let hint = Some("remove that schedule, or remove `renamed_from`".to_owned());
            let source = sources.iter().find(|it| it.path == at.path).unwrap_or(source);
            let byte = source.byte(at);
            mistakes.push(source.mistake(byte..byte + schedule.name.len(), message, hint));
        }
    }
    if !mistakes.is_empty() {
        let rank = |mistake: &Mistake| {
            let file = sources.iter().position(|source| source.path == mistake.place.path);
            (file, mistake.place.clone())
        };
        mistakes.sort_by_key(rank);
        return Err(Mistakes(mistakes));
    }
    Ok(sets.into_values().collect())
}

/// One file while it is read.
struct File<'a> {
    source: &'a Source,
    mistakes: Vec<Mistake>,
    warnings: Vec<Mistake>,
    names: &'a mut BTreeMap<String, Place>,
    calendars: Calendars,
    beside: Beside<'a>,
}

/// Values of keys that go into a definition, and where they stand.
#[derive(Clone, Default)]
struct Told {
    values: Vec<(&'static str, Json)>,
    places: BTreeMap<String, Range<usize>>,
}

impl File<'_> {
    fn wrong(&mut self, span: Range<usize>, message: impl Into<String>, hint: Option<String>) {
        self.mistakes.push(self.source.mistake(span, message, hint));
    }

    fn read(&mut self) -> Option<(String, Vec<Declared>)> {
        let source = self.source;
        let (document, errors) = DeTable::parse_recoverable(&source.text);
        for error in &errors {
            let span = error.span().unwrap_or(0..0);
            self.wrong(span, format!("invalid TOML: {}", error.message()), None);
        }
        let table = document.get_ref();
        let mut set = None;
        let mut defaults = Told::default();
        // Before anything that may name one.
        if let Some(value) = table.get("calendars") {
            let (calendars, mut mistakes) = Calendars::read(source, value, self.beside);
            self.calendars = calendars;
            self.mistakes.append(&mut mistakes);
        }
        for (key, value) in table {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("set", DeValue::String(name)) => {
                    set = self.name("set name", name, inside(source, value));
                }
                ("set", other) => {
                    self.mistakes.push(
                        expected("set", other, "a string", "\"ops\"").at(source, value.span()),
                    );
                }
                ("defaults", DeValue::Table(table)) => {
                    defaults = self.told(table, &[], "`[defaults]`");
                }
                ("defaults", other) => {
                    let message = format!("`defaults` must be a table, got {}", value::what(other));
                    self.wrong(value.span(), message, Some("use `[defaults]`".to_owned()));
                }
                ("schedule", DeValue::Array(_)) | ("calendars", _) => {}
                ("schedule", _) => {
                    let hint = Some("use `[[schedule]]`, with two brackets".to_owned());
                    self.wrong(key.span(), "`schedule` must be an array of tables", hint);
                }
                (other, _) => {
                    let known = ["set", "defaults", "calendars", "schedule"];
                    let hint = match other {
                        "schedules" => Some("did you mean `schedule`?".to_owned()),
                        // It would have been meant for a schedule, or for all of them.
                        _ if is_key(other) => {
                            Some(format!("move `{other}` to `[defaults]` or `[[schedule]]`"))
                        }
                        _ => meant(other, known.into_iter()).or_else(|| {
                            let keys = KEYS.iter().map(|key| key.name);
                            meant(other, keys).map(|hint| format!("{hint} Put it in `[defaults]`"))
                        }),
                    };
                    self.wrong(key.span(), format!("unknown key `{}`", echo(other)), hint);
                }
            }
        }
        let has_set = table.keys().any(|key| key.get_ref() == "set");
        if !has_set && errors.is_empty() {
            let hint = "start the file with the name of the set, such as `set = \"ops\"`";
            self.wrong(0..0, "missing key `set`", Some(hint.to_owned()));
        }
        let schedules = match table.get("schedule").map(|value| value.get_ref()) {
            Some(DeValue::Array(items)) => {
                items.iter().filter_map(|item| self.schedule(item, &defaults)).collect()
            }
            _ => Vec::new(),
        };
        Some((set?, schedules))
    }

    /// A name that can be kept.
    fn name(&mut self, what: &str, name: &str, span: Range<usize>) -> Option<String> {
        let message = if name.is_empty() {
            format!("the {what} must not be empty")
        } else if name.len() > NAME_BYTES_MAX {
            format!("the {what} is too long: {} bytes, maximum {NAME_BYTES_MAX}", name.len())
        } else if name.chars().any(char::is_control) {
            format!("the {what} `{}` contains a control character", echo(name))
        } else if what == "set name" && name.starts_with(OF_PROGRAMS) {
            format!(
                "set names that start with `{OF_PROGRAMS}` are reserved for schedules declared in \
                 code"
            )
        } else {
            return Some(name.to_owned());
        };
        self.wrong(span, message, Some("use another name".to_owned()));
        None
    }

    /// The keys that go into a definition. Others are known if they are of `own`.
    fn told(&mut self, table: &DeTable<'_>, own: &[(&'static str, &str)], within: &str) -> Told {
        let mut told = Told::default();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if own.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let current = renamed(name);
            let Some(known) = KEYS.iter().find(|known| known.name == current.unwrap_or(name))
            else {
                let all =
                    KEYS.iter().map(|known| known.name).chain(own.iter().map(|(name, _)| *name));
                let hint = match OWN.iter().any(|(other, _)| *other == name) {
                    true => Some("set it in each `[[schedule]]`".to_owned()),
                    false => meant(name, all),
                };
                self.wrong(key.span(), format!("unknown key `{}` in {within}", echo(name)), hint);
                continue;
            };
            if let Some(current) = current {
                if table.contains_key(current) {
                    let message = format!("`{current}` and `{name}` cannot be combined");
                    let hint = format!("remove `{name}`, which is deprecated");
                    self.wrong(key.span(), message, Some(hint));
                    continue;
                }
                let message = format!("`{name}` is deprecated; use `{current}`");
                self.warnings.push(self.source.mistake(key.span(), message, None));
            }
            told.places.insert(known.at.to_owned(), inside(self.source, value));
            let read = match known.kind {
                Kind::Excluded => self.calendars.expand(self.source, name, value),
                kind => value::read(self.source, name, kind, value).map_err(|it| vec![it]),
            };
            match read {
                Ok(json) => told.values.push((known.at, json)),
                Err(mut mistakes) => self.mistakes.append(&mut mistakes),
            }
        }
        told
    }

    fn schedule(&mut self, item: &Value<'_>, defaults: &Told) -> Option<Declared> {
        let before = self.mistakes.len();
        let DeValue::Table(table) = item.get_ref() else {
            let message =
                format!("a schedule must be a table, got {}", value::what(item.get_ref()));
            self.wrong(item.span(), message, Some("use `[[schedule]]`".to_owned()));
            return None;
        };
        // The header alone, so that a caret is under one line.
        let header =
            item.span().start..item.span().end.min(item.span().start + "[[schedule]]".len());
        let (name, place) = self.own_name(table, &header);
        let enabled = self.enabled(table);
        let renamed_from = self.renamed_from(table, name.as_deref());
        let own = self.told(table, OWN, "`[[schedule]]`");
        let mut told = defaults.clone();
        told.values.extend(own.values);
        told.places.extend(own.places);
        let mut definition = json!({"job": {}});
        for (at, value) in &told.values {
            put(&mut definition, at, value.clone());
        }
        let zone = definition["tz"].as_str().and_then(|name| Zone::get(name).ok());
        let rules =
            self.rules(table, name.as_deref().unwrap_or(""), &zone.unwrap_or(Zone::UTC), &header);
        definition["when"] = rules.iter().map(|(rule, _)| json!(rule)).collect();
        if let Some((kind, payload)) = self.work(table, &header) {
            definition["job"]["kind"] = json!(kind);
            definition["job"]["payload"] = payload;
        }
        if self.mistakes.len() > before {
            return None;
        }
        let name = name?;
        let read: Result<Definition, _> = serde_json::from_value(definition);
        let definition = match read {
            Ok(definition) => definition,
            Err(error) => {
                self.wrong(header, format!("schedule `{name}`: {error}"), None);
                return None;
            }
        };
        if let Err(error) = definition.rule(&name) {
            let number = error.field.strip_prefix("when[").and_then(|rest| rest.strip_suffix(']'));
            let rule = number.and_then(|number| rules.get(number.parse::<usize>().ok()?));
            let pointer = format!("/{}", error.field.replace('.', "/"));
            let span = rule.map(|(_, span)| span).or_else(|| told.places.get(&pointer));
            let message = match rule {
                Some(_) => error.message.clone(),
                None => format!("`{}`: {}", crate::key_of(&error.field), error.message),
            };
            self.wrong(span.cloned().unwrap_or(header), message, None);
            return None;
        }
        Some(Declared { name, definition, enabled, renamed_from, place })
    }

    fn own_name(
        &mut self,
        table: &DeTable<'_>,
        header: &Range<usize>,
    ) -> (Option<String>, Option<Place>) {
        let Some(value) = table.get("name") else {
            let hint = Some("add one, such as `name = \"nightly-backup\"`".to_owned());
            self.wrong(header.clone(), "the schedule has no `name`", hint);
            return (None, None);
        };
        let span = inside(self.source, value);
        let DeValue::String(name) = value.get_ref() else {
            let wrong = expected("name", value.get_ref(), "a string", "\"nightly-backup\"");
            self.mistakes.push(wrong.at(self.source, span));
            return (None, None);
        };
        let place = self.source.place(span.start);
        let Some(name) = self.name("schedule name", name, span.clone()) else {
            return (None, None);
        };
        if let Some(first) = self.names.get(&name) {
            let message = format!("schedule `{name}` is declared twice; first at {first}");
            self.wrong(span, message, Some("remove one of them, or use another name".to_owned()));
            return (Some(name), Some(place));
        }
        self.names.insert(name.clone(), place.clone());
        (Some(name), Some(place))
    }

    fn enabled(&mut self, table: &DeTable<'_>) -> bool {
        match table.get("enabled").map(|value| (value, value.get_ref())) {
            None => true,
            Some((_, DeValue::Boolean(enabled))) => *enabled,
            Some((value, other)) => {
                let wrong = expected("enabled", other, "true or false", "false");
                self.mistakes.push(wrong.at(self.source, value.span()));
                true
            }
        }
    }

    fn renamed_from(&mut self, table: &DeTable<'_>, name: Option<&str>) -> Option<String> {
        let value = table.get("renamed_from")?;
        let span = inside(self.source, value);
        match value.get_ref() {
            DeValue::String(old) if Some(old.as_ref()) == name => {
                let hint = Some("remove `renamed_from`".to_owned());
                self.wrong(
                    span,
                    format!("`renamed_from` is the current name, `{}`", echo(old)),
                    hint,
                );
                None
            }
            DeValue::String(old) => self.name("previous schedule name", old, span),
            other => {
                let wrong = expected("renamed_from", other, "a string", "\"old-name\"");
                self.mistakes.push(wrong.at(self.source, span));
                None
            }
        }
    }

    /// The rules that say when, and where they stand.
    fn rules(
        &mut self,
        table: &DeTable<'_>,
        name: &str,
        zone: &Zone,
        header: &Range<usize>,
    ) -> Vec<(String, Range<usize>)> {
        let source = self.source;
        let mut rules = Vec::new();
        let mut has_key = false;
        for key in ["cron", "every", "at"] {
            let Some(value) = table.get(key) else { continue };
            has_key = true;
            if let ("at", DeValue::Datetime(written)) = (key, value.get_ref()) {
                rules.extend(self.rule(key, &written.to_string(), value.span(), name, zone));
                continue;
            }
            let texts = match each_text(source, key, value) {
                Ok(texts) if texts.is_empty() => {
                    self.wrong(value.span(), format!("`{key}` must not be empty"), None);
                    continue;
                }
                Ok(texts) => texts,
                Err(mistake) => {
                    self.mistakes.push(mistake);
                    continue;
                }
            };
            for (text, span) in texts {
                rules.extend(self.rule(key, text, span, name, zone));
            }
        }
        if !has_key {
            let hint = Some("add `cron`, `every` or `at`".to_owned());
            self.wrong(header.clone(), "the schedule has no times", hint);
        }
        rules
    }

    fn rule(
        &mut self,
        key: &str,
        text: &str,
        span: Range<usize>,
        name: &str,
        zone: &Zone,
    ) -> Option<(String, Range<usize>)> {
        let is_instant = text.parse::<punctual_core::Timestamp>().is_ok();
        let rule = match key {
            "every" => format!("@every {text}"),
            "at" if is_instant => format!("@at {text}"),
            "at" => match When::at(text, zone) {
                Ok(when) => when.to_string(),
                Err(error) => {
                    self.wrong(span, error.to_string(), None);
                    return None;
                }
            },
            _ => text.to_owned(),
        };
        match When::parse_named(&rule, name) {
            Ok(_) => Some((rule, span)),
            Err(error) => {
                // Where it is within the text, unless that was written with escapes.
                let ahead = rule.len() - text.len();
                let is_as_written = self.source.text.get(span.clone()) == Some(text);
                let within = error.span();
                let exact = match is_as_written && within.start >= ahead {
                    true => span.start + within.start - ahead..span.start + within.end - ahead,
                    false => span,
                };
                let message = error.message();
                let hint = error.hint().map(str::to_owned);
                self.wrong(exact, message, hint);
                None
            }
        }
    }

    /// The job that a slot becomes.
    fn work(&mut self, table: &DeTable<'_>, header: &Range<usize>) -> Option<job::Work> {
        let keys = ["job", "command", "http"];
        let mut found = table.iter().filter(|(key, _)| keys.contains(&key.get_ref().as_ref()));
        let Some((key, value)) = found.next() else {
            let hint = "add `job`, `command` or `http`".to_owned();
            self.wrong(header.clone(), "the schedule has no job", Some(hint));
            return None;
        };
        if let Some((other, _)) = found.next() {
            let (first, second) = (key.get_ref(), other.get_ref());
            let wrong = Wrong::new(format!("`{first}` and `{second}` cannot be combined"))
                .hint("remove one of them");
            self.mistakes.push(wrong.at(self.source, later(key.span(), other.span())));
            return None;
        }
        match job::read(self.source, key.get_ref(), value) {
            Ok(work) => Some(work),
            Err(mut mistakes) => {
                self.mistakes.append(&mut mistakes);
                None
            }
        }
    }
}

/// The one that stands further down.
fn later(one: Range<usize>, other: Range<usize>) -> Range<usize> {
    if other.start > one.start { other } else { one }
}

fn is_key(name: &str) -> bool {
    KEYS.iter().any(|key| key.name == name) || OWN.iter().any(|(own, _)| *own == name)
}

/// Puts a value at a place of a definition.
fn put(definition: &mut Json, at: &str, value: Json) {
    let mut place = definition;
    let mut parts = at.trim_start_matches('/').split('/').peekable();
    while let Some(part) = parts.next() {
        let Json::Object(fields) = place else { return };
        if parts.peek().is_none() {
            fields.insert(part.to_owned(), value);
            return;
        }
        place = fields.entry(part.to_owned()).or_insert_with(|| Json::Object(Map::new()));
    }
}
