//! Templates: `{{name}}` stands for a value. A value is data: it goes into one component of a URL, one
//! header or one string of JSON as it is, and nothing in it is read again.

use std::fmt::Write as _;

use punctual::Ctx;

/// What a job's templates may name.
pub(crate) struct Variables(Vec<(&'static str, Option<String>)>);

impl Variables {
    pub(crate) fn of(cx: &Ctx) -> Variables {
        let fired = cx.fired();
        Variables(vec![
            ("job.id", Some(cx.job_id().to_string())),
            ("attempt", Some(cx.attempt().to_string())),
            ("due_at", Some(cx.due_at().to_string())),
            ("slot", cx.slot().map(|slot| slot.to_string())),
            ("schedule", fired.map(|fired| fired.facts.name)),
            ("lease", Some(cx.held().to_string())),
        ])
    }

    #[cfg(test)]
    pub(crate) fn new(values: &[(&'static str, Option<&str>)]) -> Variables {
        let own = values.iter().map(|(name, value)| (*name, value.map(str::to_owned)));
        Variables(own.collect())
    }

    fn get(&self, name: &str) -> Result<&str, String> {
        match self.0.iter().find(|(known, _)| *known == name) {
            Some((_, Some(value))) => Ok(value),
            Some((_, None)) => Err(format!(
                "`{{{{{name}}}}}` has no value: the job was not created by a slot of a schedule; \
                 remove the variable, or create the job with a schedule"
            )),
            None => {
                let known: Vec<&str> = self.0.iter().map(|(name, _)| *name).collect();
                Err(format!(
                    "unknown variable `{{{{{name}}}}}`; expected one of {}; to send literal \
                     braces, set `templates` to false",
                    known.join(", ")
                ))
            }
        }
    }
}

/// A part of a text.
pub(crate) enum Part<'a> {
    Literal(&'a str),
    Value(&'a str),
}

/// The parts of a text: what is written, and what its variables stand for.
pub(crate) fn parts<'a>(text: &'a str, known: &'a Variables) -> Result<Vec<Part<'a>>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, behind)) = after.split_once("}}") else {
            let shown: String = after.chars().take(40).collect();
            return Err(format!(
                "`{{{{{shown}` is not closed; add `}}}}`, or set `templates` to false to send \
                 literal braces"
            ));
        };
        parts.push(Part::Literal(before));
        parts.push(Part::Value(known.get(name.trim())?));
        rest = behind;
    }
    parts.push(Part::Literal(rest));
    Ok(parts)
}

/// A value as a component of a URL: whatever could end one is escaped.
pub(crate) fn in_url(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte));
            }
            // A string takes whatever is written to it.
            byte => drop(write!(escaped, "%{byte:02X}")),
        }
    }
    escaped
}
