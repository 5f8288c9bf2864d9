//! One value of a file: is it what its key asks for?

use std::ops::Range;

use punctual_core::job::Backoff;
use punctual_core::schedule::RunOn;
use punctual_core::{Timestamp, Zone, parse_duration};
use serde_json::{Value as Json, json};
use toml::Spanned;
use toml::de::DeValue;

use crate::keys::Kind;
use crate::place::{Mistake, Source, echo};

/// A value and where it stands.
pub(crate) type Value<'t> = Spanned<DeValue<'t>>;

/// What is wrong with a value, before it is known where: within it, if the place is exact.
pub(crate) struct Wrong {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Wrong {
    pub(crate) fn new(message: impl Into<String>) -> Wrong {
        Wrong { message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Wrong {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn at(self, source: &Source, span: Range<usize>) -> Mistake {
        source.mistake(span, self.message, self.hint)
    }
}

/// What kind of value stands there, in words.
pub(crate) fn what(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// The bytes between the quotes, so that a caret points at what was written.
pub(crate) fn inside(source: &Source, value: &Value<'_>) -> Range<usize> {
    let span = value.span();
    let written = source.text.get(span.clone()).unwrap_or("");
    let quotes = ["\"\"\"", "'''", "\"", "'"];
    match quotes.iter().find(|quote| written.starts_with(**quote)) {
        Some(quote) if written.len() > 2 * quote.len() => {
            span.start + quote.len()..span.end - quote.len()
        }
        _ => span,
    }
}

/// Reads a value as its key asks for it, or says what is wrong and where.
pub(crate) fn read(
    source: &Source,
    key: &str,
    kind: Kind,
    value: &Value<'_>,
) -> Result<Json, Mistake> {
    let wrong = |wrong: Wrong| wrong.at(source, inside(source, value));
    match kind {
        Kind::Texts | Kind::Excluded => texts(source, key, value),
        Kind::Flag => match value.get_ref() {
            DeValue::Boolean(flag) => Ok(json!(flag)),
            other => Err(wrong(expected(key, other, "true or false", "true"))),
        },
        Kind::Number(least, most) => match number(value.get_ref()) {
            Some(number) if (least..=most).contains(&number) => Ok(json!(number)),
            Some(number) => {
                let message = format!("`{key}` must be between {least} and {most}, got {number}");
                Err(wrong(Wrong::new(message)))
            }
            None => {
                Err(wrong(expected(key, value.get_ref(), "an integer", &least.max(1).to_string())))
            }
        },
        Kind::Instant => match value.get_ref() {
            DeValue::Datetime(written) => instant(key, &written.to_string()).map_err(wrong),
            DeValue::String(text) => instant(key, text).map_err(wrong),
            other => Err(wrong(expected(key, other, "a time", "\"2027-03-28T01:00:00Z\""))),
        },
        Kind::Text | Kind::Word(_) | Kind::Zone | Kind::Length | Kind::RunOn | Kind::Backoff => {
            let DeValue::String(text) = value.get_ref() else {
                return Err(wrong(expected(key, value.get_ref(), "a string", example(kind))));
            };
            word(key, kind, text).map_err(wrong)
        }
    }
}

fn example(kind: Kind) -> &'static str {
    match kind {
        Kind::Length => "\"15m\"",
        Kind::Zone => "\"Europe/Paris\"",
        Kind::RunOn => "\"any\"",
        Kind::Backoff => "\"exponential 10s to 1h\"",
        _ => "\"…\"",
    }
}

pub(crate) fn expected(key: &str, found: &DeValue<'_>, asked: &str, example: &str) -> Wrong {
    Wrong::new(format!("`{key}` must be {asked}, got {}", what(found)))
        .hint(format!("for example, `{key} = {example}`"))
}

fn word(key: &str, kind: Kind, text: &str) -> Result<Json, Wrong> {
    match kind {
        Kind::Zone => Zone::get(text).map(|_| ()).map_err(|error| {
            let wrong = Wrong::new(format!("unknown time zone `{}`", echo(text)));
            wrong.hint(match error.nearest() {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => "use an IANA name such as `UTC` or `Europe/Paris`".to_owned(),
            })
        })?,
        Kind::Length => {
            parse_duration(text).map_err(|error| Wrong::new(format!("`{key}`: {error}")))?;
        }
        Kind::Word(known) if !known.contains(&text) => {
            let wrong = Wrong::new(format!(
                "`{key}`: unknown value `{}`; expected one of {}",
                echo(text),
                known.join(", ")
            ));
            return Err(match punctual_core::nearest(text, known.iter().copied()) {
                Some(nearest) => wrong.hint(format!("did you mean `{nearest}`?")),
                None => wrong,
            });
        }
        Kind::RunOn => {
            RunOn::parse(text).map_err(|error| Wrong::new(format!("`{key}`: {error}")))?;
        }
        Kind::Backoff => {
            text.parse::<Backoff>().map_err(|error| Wrong::new(format!("`{key}`: {error}")))?;
        }
        _ if text.trim().is_empty() => {
            return Err(Wrong::new(format!(
                "`{key}` must not be empty; set a value, or remove the key"
            )));
        }
        _ => {}
    }
    Ok(json!(text))
}

pub(crate) fn instant(key: &str, text: &str) -> Result<Json, Wrong> {
    match text.parse::<Timestamp>() {
        Ok(_) => Ok(json!(text)),
        Err(error) => Err(Wrong::new(format!("`{key}`: {error}"))),
    }
}

/// Texts, each with its place.
pub(crate) fn each_text<'v, 't>(
    source: &Source,
    key: &str,
    value: &'v Value<'t>,
) -> Result<Vec<(&'v str, Range<usize>)>, Mistake> {
    let one = |item: &'v Value<'t>| match item.get_ref() {
        DeValue::String(text) => Ok((text.as_ref(), inside(source, item))),
        other => Err(expected(key, other, "a string", "\"…\"").at(source, item.span())),
    };
    match value.get_ref() {
        DeValue::Array(items) => items.iter().map(one).collect(),
        _ => one(value).map(|one| vec![one]),
    }
}

fn texts(source: &Source, key: &str, value: &Value<'_>) -> Result<Json, Mistake> {
    let DeValue::Array(_) = value.get_ref() else {
        let wrong = expected(key, value.get_ref(), "an array of strings", "[\"…\"]");
        return Err(wrong.at(source, value.span()));
    };
    let texts = each_text(source, key, value)?;
    Ok(texts.into_iter().map(|(text, _)| json!(text)).collect())
}

fn number(value: &DeValue<'_>) -> Option<i64> {
    let DeValue::Integer(number) = value else { return None };
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// Any value, as what a handler is given.
pub(crate) fn to_json(value: &DeValue<'_>) -> Json {
    match value {
        DeValue::String(text) => json!(text),
        DeValue::Integer(_) => number(value).map_or(Json::Null, |number| json!(number)),
        DeValue::Float(float) => {
            float.as_str().parse::<f64>().ok().map_or(Json::Null, |float| json!(float))
        }
        DeValue::Boolean(flag) => json!(flag),
        DeValue::Datetime(written) => json!(written.to_string()),
        DeValue::Array(items) => items.iter().map(|item| to_json(item.get_ref())).collect(),
        DeValue::Table(table) => table
            .iter()
            .map(|(key, value)| (key.get_ref().to_string(), to_json(value.get_ref())))
            .collect(),
    }
}
