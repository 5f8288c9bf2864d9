//! What a slot becomes: `job`, `command` or `http` in a file, one template in a definition.

use serde_json::{Map, Value as Json, json};
use toml::de::DeValue;

use crate::place::{Mistake, Source, echo};
use crate::value::{Value, Wrong, each_text, expected, inside, to_json, what};

/// What a command may be told beside its words.
const COMMAND: &[(&str, Part)] = &[
    ("argv", Part::Texts),
    ("shell", Part::Flag),
    ("user", Part::Text),
    ("group", Part::Text),
    ("env", Part::Table),
    ("cwd", Part::Text),
    ("stdin", Part::Text),
    ("name", Part::Text),
    ("params", Part::Any),
    ("success_codes", Part::Any),
    ("retry_codes", Part::Any),
];

#[derive(Clone, Copy)]
enum Part {
    Text,
    Texts,
    Flag,
    Table,
    Any,
}

/// The kind of job and its payload.
pub(crate) type Work = (String, Json);

/// Reads one of the three ways to say it.
pub(crate) fn read(source: &Source, key: &str, value: &Value<'_>) -> Result<Work, Vec<Mistake>> {
    match key {
        "command" => command(source, value),
        "http" => match value.get_ref() {
            DeValue::Table(_) => Ok(("http".to_owned(), to_json(value.get_ref()))),
            DeValue::String(url) => Ok(("http".to_owned(), json!({"url": url}))),
            other => {
                let example = "{ method = \"POST\", url = \"https://…\" }";
                Err(vec![
                    expected("http", other, "a string or a table", example)
                        .at(source, value.span()),
                ])
            }
        },
        _ => job(source, value),
    }
}

fn job(source: &Source, value: &Value<'_>) -> Result<Work, Vec<Mistake>> {
    let example = "{ kind = \"send_digest\", payload = { tier = \"free\" } }";
    let table = match value.get_ref() {
        DeValue::String(kind) if !kind.is_empty() => return Ok((kind.to_string(), Json::Null)),
        DeValue::Table(table) => table,
        other => {
            return Err(vec![
                expected("job", other, "a non-empty string or a table", example)
                    .at(source, value.span()),
            ]);
        }
    };
    let (mut kind, mut payload, mut mistakes) = (None, Json::Null, Vec::new());
    for (key, value) in table {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("kind", DeValue::String(text)) if !text.is_empty() => kind = Some(text.to_string()),
            ("kind", other) => {
                mistakes.push(
                    expected("kind", other, "a non-empty string", "\"…\"").at(source, value.span()),
                );
            }
            ("payload", any) => payload = to_json(any),
            // For what TOML cannot say, such as null.
            ("payload_json", DeValue::String(text)) => match serde_json::from_str(text) {
                Ok(json) => payload = json,
                Err(error) => mistakes.push(
                    Wrong::new(format!("`payload_json` is not valid JSON: {error}"))
                        .at(source, inside(source, value)),
                ),
            },
            (other, _) => {
                let known = ["kind", "payload", "payload_json"];
                let hint = match other {
                    "args" | "data" | "params" => Some("did you mean `payload`?".to_owned()),
                    "queue" | "priority" | "max_attempts" | "backoff" | "timeout" | "tags" => {
                        Some(format!("`{other}` is a key of the schedule, not of `job`"))
                    }
                    _ => crate::keys::meant(other, known.into_iter()),
                };
                let message = format!("unknown key `{}` in `job`", echo(other));
                mistakes.push(source.mistake(key.span(), message, hint));
            }
        }
    }
    if kind.is_none() && mistakes.is_empty() {
        let wrong =
            Wrong::new("`job` has no `kind`").hint(format!("for example, `job = {example}`"));
        mistakes.push(wrong.at(source, value.span()));
    }
    match kind {
        Some(kind) if mistakes.is_empty() => Ok((kind, payload)),
        _ => Err(mistakes),
    }
}

fn command(source: &Source, value: &Value<'_>) -> Result<Work, Vec<Mistake>> {
    let table = match value.get_ref() {
        DeValue::Array(_) => {
            let words = each_text(source, "command", value).map_err(|mistake| vec![mistake])?;
            let argv: Vec<&str> = words.into_iter().map(|(word, _)| word).collect();
            if argv.first().is_none_or(|program| program.is_empty()) {
                let wrong = Wrong::new("`command` has no program")
                    .hint("for example, `command = [\"pg_dump\", \"-Fc\", \"app\"]`");
                return Err(vec![wrong.at(source, value.span())]);
            }
            return Ok(("command".to_owned(), json!({"argv": argv})));
        }
        DeValue::Table(table) => table,
        other => {
            let wrong =
                Wrong::new(format!("`command` must be an array or a table, got {}", what(other)));
            let wrong = wrong.hint(
                "for example, `command = [\"pg_dump\", \"-Fc\", \"app\"]`; for a shell command, \
                 `command = { argv = [\"…\"], shell = true }`",
            );
            return Err(vec![wrong.at(source, value.span())]);
        }
    };
    let (mut payload, mut mistakes) = (Map::new(), Vec::new());
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let Some((_, part)) = COMMAND.iter().find(|(known, _)| *known == name) else {
            let hint = crate::keys::meant(name, COMMAND.iter().map(|(known, _)| *known));
            let message = format!("unknown key `{}` in `command`", echo(name));
            mistakes.push(source.mistake(key.span(), message, hint));
            continue;
        };
        match check(source, name, *part, value) {
            Ok(json) => drop(payload.insert(name.to_owned(), json)),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    let is_named = payload.contains_key("name");
    let has_words = payload.get("argv").and_then(Json::as_array).is_some_and(|it| !it.is_empty());
    if mistakes.is_empty() && !is_named && !has_words {
        let wrong = Wrong::new("`command` has no program").hint("add `argv = [\"…\"]`");
        mistakes.push(wrong.at(source, value.span()));
    }
    if mistakes.is_empty() {
        Ok(("command".to_owned(), Json::Object(payload)))
    } else {
        Err(mistakes)
    }
}

fn check(source: &Source, name: &str, part: Part, value: &Value<'_>) -> Result<Json, Mistake> {
    let refuse = |asked: &str, example: &str| {
        Err(expected(name, value.get_ref(), asked, example).at(source, value.span()))
    };
    match (part, value.get_ref()) {
        (Part::Text, DeValue::String(_)) | (Part::Flag, DeValue::Boolean(_)) | (Part::Any, _) => {
            Ok(to_json(value.get_ref()))
        }
        (Part::Texts, DeValue::Array(_)) => {
            each_text(source, name, value)?;
            Ok(to_json(value.get_ref()))
        }
        (Part::Table, DeValue::Table(table)) => {
            for item in table.values() {
                if !matches!(item.get_ref(), DeValue::String(_)) {
                    let wrong =
                        expected(name, item.get_ref(), "a table of strings", "{ NAME = \"…\" }");
                    return Err(wrong.at(source, item.span()));
                }
            }
            Ok(to_json(value.get_ref()))
        }
        (Part::Text, _) => refuse("a string", "\"…\""),
        (Part::Flag, _) => refuse("true or false", "true"),
        (Part::Texts, _) => refuse("an array of strings", "[\"…\"]"),
        (Part::Table, _) => refuse("a table of strings", "{ NAME = \"…\" }"),
    }
}

/// How a file says it: the key, and what stands there. None: only as `payload_json`.
pub(crate) fn written(kind: &str, payload: &Json) -> (&'static str, Json) {
    if kind == "command" && is_command(payload) {
        let only_words = payload.as_object().is_some_and(|payload| payload.len() == 1);
        return match payload.get("argv").filter(|_| only_words) {
            Some(argv) => ("command", argv.clone()),
            None => ("command", payload.clone()),
        };
    }
    if kind == "http" && payload.is_object() && can_be_toml(payload) {
        return ("http", payload.clone());
    }
    let value = match payload {
        Json::Null => json!({"kind": kind}),
        payload if can_be_toml(payload) => json!({"kind": kind, "payload": payload}),
        payload => json!({"kind": kind, "payload_json": payload.to_string()}),
    };
    ("job", value)
}

/// Would a file read it back as it is?
fn is_command(payload: &Json) -> bool {
    let Some(parts) = payload.as_object().filter(|_| can_be_toml(payload)) else { return false };
    let is_texts = |json: &Json| json.as_array().is_some_and(|all| all.iter().all(Json::is_string));
    let fits = |(name, value): (&String, &Json)| {
        let part = COMMAND.iter().find(|(known, _)| known == name).map(|(_, part)| *part);
        match part {
            Some(Part::Text) => value.is_string(),
            Some(Part::Texts) => is_texts(value),
            Some(Part::Flag) => value.is_boolean(),
            Some(Part::Table) => {
                value.as_object().is_some_and(|all| all.values().all(Json::is_string))
            }
            Some(Part::Any) => true,
            None => false,
        }
    };
    let has_words = parts
        .get("argv")
        .and_then(Json::as_array)
        .is_some_and(|words| words.first().is_some_and(|first| first != ""));
    parts.iter().all(fits) && (has_words || parts.contains_key("name"))
}

/// TOML has no null, no numbers beyond 64 bits, and its floats are written with a point.
fn can_be_toml(json: &Json) -> bool {
    match json {
        Json::Null => false,
        Json::Bool(_) | Json::String(_) => true,
        Json::Number(number) => number.is_i64(),
        Json::Array(items) => items.iter().all(can_be_toml),
        Json::Object(fields) => fields.values().all(can_be_toml),
    }
}
