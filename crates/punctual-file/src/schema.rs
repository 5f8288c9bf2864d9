//! The schema of a file, for editors: made from the same table as the reader.

use serde_json::{Map, Value as Json, json};

use crate::keys::{DEPRECATED, KEYS, Key, Kind};

/// The JSON Schema of a file of schedules.
pub fn schema() -> Json {
    let mut shared: Map<String, Json> =
        KEYS.iter().map(|key| (key.name.to_owned(), of(key))).collect();
    for (old, current) in DEPRECATED {
        let mut schema = shared[*current].clone();
        schema["deprecated"] = json!(true);
        schema["description"] = json!(format!("Deprecated: use `{current}`"));
        shared.insert((*old).to_owned(), schema);
    }
    let mut own = shared.clone();
    own.extend(own_keys());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "punctual schedules",
        "description": "Schedule file of punctual, applied with `punctual apply -f FILE`",
        "type": "object",
        "additionalProperties": false,
        "required": ["set"],
        "properties": {
            "set": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Set that these schedules belong to; `apply` changes only schedules of this set"},
            "defaults": {
                "type": "object",
                "description": "Default values for every schedule of this file",
                "additionalProperties": false,
                "properties": shared,
            },
            "calendars": {
                "type": "object",
                "description": "Named lists of days and weekly periods; `exclude` refers to them as `@NAME`",
                "additionalProperties": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": calendar_keys(),
                },
            },
            "schedule": {
                "type": "array",
                "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": own,
                    "required": ["name"],
                    "allOf": [
                        {"anyOf": [{"required": ["cron"]}, {"required": ["every"]}, {"required": ["at"]}]},
                        {"oneOf": [{"required": ["job"]}, {"required": ["command"]}, {"required": ["http"]}]},
                    ],
                },
            },
        },
    })
}

fn of(key: &Key) -> Json {
    let mut schema = match key.kind {
        Kind::Text => json!({"type": "string", "minLength": 1}),
        Kind::Texts => json!({"type": "array", "items": {"type": "string"}}),
        Kind::Excluded => {
            json!({"type": "array", "items": {"type": "string", "examples": ["2027-12-24", "2027-12-24..2028-01-02", "12-25", "Sat", "Sat 00:00-Mon 06:00", "@holidays"]}})
        }
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Number(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Kind::Word(known) => json!({"enum": known}),
        Kind::Zone => json!({"type": "string", "examples": ["UTC", "Europe/Paris"]}),
        Kind::Length => json!({"type": "string", "examples": ["90s", "15m", "1h30m", "2d"]}),
        Kind::Instant => json!({"type": "string", "examples": ["2027-03-28T01:00:00Z"]}),
        Kind::Backoff => {
            let pattern = "^(fixed|linear|exponential) .+$";
            json!({"type": "string", "pattern": pattern, "examples": ["exponential 10s to 1h", "linear 5s", "fixed 30s"]})
        }
        Kind::RunOn => {
            json!({"type": "string", "pattern": "^(any|every_node|node .+|label [^=]+=.+)$"})
        }
    };
    schema["description"] = json!(key.about);
    schema
}

fn calendar_keys() -> Json {
    let texts = |examples: &[&str]| json!({"type": "array", "items": {"type": "string", "examples": examples}});
    let mut keys = json!({
        "dates": texts(&["2027-12-24", "2027-12-24..2028-01-02", "12-25"]),
        "weekly": texts(&["Sat", "Sat 00:00-Mon 06:00"]),
        "ics": {"type": "string", "minLength": 1, "examples": ["holidays.ics"]},
    });
    for (key, about) in [
        ("dates", "Days: a date, a range of dates, or a day of every year"),
        ("weekly", "Weekly periods: a weekday, or a range such as `Sat 00:00-Mon 06:00`"),
        ("ics", "iCalendar file with all-day events; the path is relative to this file"),
    ] {
        keys[key]["description"] = json!(about);
    }
    keys
}

fn own_keys() -> Map<String, Json> {
    let one_or_more = json!({"oneOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
    ]});
    let texts = json!({"type": "array", "items": {"type": "string"}, "minItems": 1});
    let mut keys = Map::new();
    for (name, about) in crate::keys::OWN {
        let mut schema = match *name {
            "enabled" => json!({"type": "boolean"}),
            "cron" | "every" | "at" => one_or_more.clone(),
            "job" => json!({"oneOf": [{"type": "string"}, {
                "type": "object",
                "required": ["kind"],
                "additionalProperties": false,
                "properties": {
                    "kind": {"type": "string"},
                    "payload": {},
                    "payload_json": {"type": "string"},
                },
            }]}),
            "command" => json!({"oneOf": [texts, {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "argv": texts,
                    "shell": {"type": "boolean"},
                    "user": {"type": "string"},
                    "group": {"type": "string"},
                    "env": {"type": "object", "additionalProperties": {"type": "string"}},
                    "cwd": {"type": "string"},
                    "stdin": {"type": "string"},
                    "name": {"type": "string"},
                    "params": {},
                    "success_codes": {"type": "array", "items": {"type": "integer"}},
                    "retry_codes": {"type": "array", "items": {"type": "integer"}},
                },
            }]}),
            "http" => json!({"oneOf": [{"type": "string"}, {"type": "object"}]}),
            _ => json!({"type": "string", "minLength": 1, "maxLength": 200}),
        };
        schema["description"] = json!(about);
        keys.insert((*name).to_owned(), schema);
    }
    keys
}
