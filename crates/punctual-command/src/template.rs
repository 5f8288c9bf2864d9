//! Arguments with places in them, and what may stand there.

use std::collections::BTreeMap;

use regex_lite::Regex;
use serde_json::{Map, Value};

use crate::config::{Full, Param, Type};

/// One argument: what is put in its places stays within it, whatever it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    Place(String),
}

impl Template {
    /// Reads an argument: `{name}` is a place, `{{` and `}}` are braces.
    pub(crate) fn read(text: &str) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            if let Some(behind) = from.strip_prefix("{{") {
                plain.push('{');
                rest = behind;
            } else if let Some(behind) = from.strip_prefix("}}") {
                plain.push('}');
                rest = behind;
            } else if let Some((name, behind)) =
                from.strip_prefix('{').and_then(|from| from.split_once('}'))
            {
                parts.push(Part::Text(std::mem::take(&mut plain)));
                parts.push(Part::Place(name.to_owned()));
                rest = behind;
            } else {
                return Err(format!(
                    "`{text}` has an unmatched brace; write `{{{{` or `}}}}` for a literal brace"
                ));
            }
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        parts.retain(|part| *part != Part::Text(String::new()));
        Ok(Template(parts))
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.0
    }

    /// The names of its places.
    pub(crate) fn places(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Place(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }
}

/// What parameters must match, by their names: each expression is for the whole of a text.
pub(crate) type Patterns = BTreeMap<String, Regex>;

/// An expression that matches only whole texts.
fn pattern(text: &str) -> Result<Regex, String> {
    // By itself first: with a parenthesis of its own it could get out of ours.
    Regex::new(text).and_then(|_| Regex::new(&format!(r"\A(?:{text})\z"))).map_err(|error| {
        format!(
            "invalid pattern `{text}`: {error}; use a regular expression such as \
                 `[a-z0-9_.-]+`, and a backslash before characters with a meaning"
        )
    })
}

impl Type {
    fn as_str(self) -> &'static str {
        match self {
            Type::String => "a string",
            Type::Integer => "an integer",
            Type::Number => "a number",
            Type::Boolean => "a boolean",
        }
    }

    /// The value as an argument, if it is of this type.
    fn show(self, value: &Value) -> Option<String> {
        match (self, value) {
            (Type::String, Value::String(text)) => Some(text.clone()),
            (Type::Integer, Value::Number(number)) if number.is_i64() || number.is_u64() => {
                Some(number.to_string())
            }
            (Type::Number, Value::Number(number)) => Some(number.to_string()),
            (Type::Boolean, Value::Bool(is)) => Some(is.to_string()),
            _ => None,
        }
    }
}

impl Param {
    fn full(&self) -> Full {
        match self {
            Param::Any(of) => Full { of: *of, default: None, values: None, pattern: None },
            Param::Full(full) => full.clone(),
        }
    }

    /// Can it be nothing but a number, whose sign is no option?
    pub(crate) fn is_number(&self) -> bool {
        matches!(self.full().of, Type::Integer | Type::Number)
    }

    /// Says what is wrong with it, as the configuration has it; if nothing is, what it must match.
    pub(crate) fn check(&self) -> Result<Option<Regex>, String> {
        let Full { of, default, values, pattern: text } = self.full();
        if text.is_some() && of != Type::String {
            return Err(format!(
                "`pattern` requires `type = \"string\"`, but the type is {}; remove `pattern`",
                of.as_str()
            ));
        }
        for value in default.iter().chain(values.iter().flatten()) {
            if of.show(value).is_none() {
                return Err(format!("{value} is not {}", of.as_str()));
            }
        }
        if let (Some(default), Some(values)) = (&default, &values)
            && !values.contains(default)
        {
            return Err(format!("the default {default} is not one of `values`"));
        }
        let Some(text) = text else { return Ok(None) };
        let pattern = pattern(&text)?;
        for value in default.iter().chain(values.iter().flatten()) {
            if of.show(value).is_some_and(|value| !pattern.is_match(&value)) {
                return Err(format!("{value} does not match the pattern `{text}`"));
            }
        }
        Ok(Some(pattern))
    }

    fn show(
        &self,
        name: &str,
        pattern: Option<&Regex>,
        given: Option<&Value>,
    ) -> Result<String, String> {
        let Full { of, default, values, pattern: wanted } = self.full();
        let Some(value) = given.or(default.as_ref()) else {
            return Err(format!("missing parameter `{name}`; expected {}", of.as_str()));
        };
        let Some(text) = of.show(value) else {
            return Err(format!("parameter `{name}` must be {}, got {value}", of.as_str()));
        };
        if let Some(values) = values.filter(|values| !values.contains(value)) {
            let all: Vec<String> = values.iter().map(ToString::to_string).collect();
            return Err(format!(
                "parameter `{name}` must be one of {}, got {value}",
                all.join(", ")
            ));
        }
        if let (Some(pattern), Some(wanted)) = (pattern, wanted)
            && !pattern.is_match(&text)
        {
            return Err(format!(
                "parameter `{name}` must match the pattern `{wanted}`, got {value}"
            ));
        }
        if text.contains('\0') {
            return Err(format!("parameter `{name}` contains a NUL byte; remove it"));
        }
        Ok(text)
    }
}

/// The parameters of a command as texts, checked.
pub(crate) fn fill(
    params: &BTreeMap<String, Param>,
    patterns: &Patterns,
    given: &Map<String, Value>,
) -> Result<BTreeMap<String, String>, String> {
    if let Some(unknown) = given.keys().find(|name| !params.contains_key(*name)) {
        let known: Vec<&str> = params.keys().map(String::as_str).collect();
        let hint = match punctual_core::nearest(unknown, known.iter().copied()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None if known.is_empty() => "this command has no parameters".to_owned(),
            None => format!("expected one of {}", known.join(", ")),
        };
        return Err(format!("unknown parameter `{unknown}`; {hint}"));
    }
    let show = |(name, param): (&String, &Param)| {
        Ok((name.clone(), param.show(name, patterns.get(name), given.get(name))?))
    };
    params.iter().map(show).collect()
}
