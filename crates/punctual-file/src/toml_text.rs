//! Writing TOML, the same way every time.

use punctual_core::is_terminal_control;
use serde_json::{Map, Value as Json};

/// A value on one line.
pub(crate) fn inline(json: &Json) -> String {
    match json {
        Json::String(text) => quoted(text),
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Json::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Json::Object(fields) => {
            let fields: Vec<String> = sorted(fields)
                .map(|(name, value)| format!("{} = {}", key(name), inline(value)))
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// The parts of a table by name, whatever order they came in.
pub(crate) fn sorted(fields: &Map<String, Json>) -> impl Iterator<Item = (&String, &Json)> {
    let mut fields: Vec<(&String, &Json)> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| *name);
    fields.into_iter()
}

/// A text in quotes: in single ones if it would need escapes in double ones and can do without. What a
/// terminal would obey is always escaped, since files are printed, too.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = !text.chars().any(|one| is_terminal_control(one) || one == '\'');
    if is_plain && text.contains(['"', '\\']) {
        return format!("'{text}'");
    }
    let mut quoted = String::from('"');
    for one in text.chars() {
        match one {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            one if is_terminal_control(one) => {
                quoted.push_str(&format!("\\u{:04X}", u32::from(one)));
            }
            one => quoted.push(one),
        }
    }
    quoted.push('"');
    quoted
}

/// A key, in quotes if it needs them.
pub(crate) fn key(name: &str) -> String {
    let is_bare = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if is_bare { name.to_owned() } else { quoted(name) }
}
