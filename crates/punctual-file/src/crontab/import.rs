//! Crontabs as a file of schedules that do what cron did.

use std::collections::BTreeSet;

use punctual_core::schedule::{Definition, Missed, Overlap};
use serde_json::{Value as Json, json};

use super::name::name;
use super::{Entry, Form, parse};
use crate::place::{Mistake, Source};
use crate::read::Declared;
use crate::toml_text::quoted;
use crate::write;

/// What crontabs become.
pub struct Ask<'a> {
    /// The set.
    pub set: &'a str,
    /// The zone of the machine whose crontabs they are.
    pub tz: &'a str,
    /// As whom the lines of a user's crontab run; none: as whoever runs the worker.
    pub user: Option<&'a str>,
    /// The home of a user, where cron runs commands.
    pub home: &'a dyn Fn(&str) -> Option<String>,
}

/// What became of crontabs.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The file.
    pub text: String,
    /// Its schedules.
    pub schedules: Vec<Declared>,
    /// Lines that are not in it.
    pub refused: Vec<Mistake>,
    /// What needs a look.
    pub attention: Vec<Mistake>,
}

/// Settings that are for cron, and not for commands.
const FOR_CRON: &[&str] = &[
    "SHELL",
    "MAILTO",
    "MAILFROM",
    "CRON_TZ",
    "RANDOM_DELAY",
    "START_HOURS_RANGE",
    "CONTENT_TYPE",
    "CONTENT_TRANSFER_ENCODING",
];
const USUAL_SHELL: &str = "/bin/sh";

/// Why the defaults of an imported file are what they are.
const AS_CRON: &str = "\
# Same behavior as cron: missed runs are not caught up, runs may overlap, failures are not retried.
# Recommended for most jobs: missed = \"latest\", overlap = \"skip\".
";

/// Makes a file of crontabs.
pub fn import(tabs: &[(Source, Form)], ask: &Ask<'_>) -> Imported {
    let usual = usual(ask.tz);
    let mut text = format!("set = {}\n\n[defaults]\n{AS_CRON}", quoted(ask.set));
    text.push_str(&format!(
        "tz = {}\nmissed = \"none\"\noverlap = \"allow\"\nmax_attempts = 1\ntimeout = \"1d\"\n",
        quoted(ask.tz)
    ));
    let mut imported = Imported {
        text: String::new(),
        schedules: Vec::new(),
        refused: Vec::new(),
        attention: Vec::new(),
    };
    let mut taken = BTreeSet::new();
    for (source, form) in tabs {
        let tab = parse(source, *form);
        for entry in &tab.entries {
            let schedule = Declared {
                name: name(&source.path, &entry.command, &mut taken),
                definition: definition(entry, ask, &usual),
                enabled: true,
                renamed_from: None,
                place: Some(entry.place.clone()),
            };
            text.push_str(&format!("\n# {}:{}: {}\n", source.path, entry.place.line, entry.line));
            text.push_str(&write::one(&schedule, &usual));
            imported.schedules.push(schedule);
        }
        for refused in &tab.mistakes {
            let line = source.text.lines().nth(refused.place.line - 1).unwrap_or("").trim();
            text.push_str(&format!(
                "\n# NOT IMPORTED, {}:{}: {}\n# {line}\n",
                source.path, refused.place.line, refused.message
            ));
        }
        imported.refused.extend(tab.mistakes);
        imported.attention.extend(tab.attention);
    }
    imported.text = text;
    imported
}

/// What `[defaults]` of an imported file says.
fn usual(tz: &str) -> Definition {
    let mut usual = Definition::new("@daily", "command");
    usual.tz = tz.to_owned();
    usual.missed = Missed::None;
    usual.overlap = Overlap::Allow;
    usual.job.max_attempts = 1;
    usual.job.timeout = Some("1d".to_owned());
    usual
}

fn definition(entry: &Entry, ask: &Ask<'_>, usual: &Definition) -> Definition {
    let mut definition = Definition { when: vec![entry.expression.clone()], ..usual.clone() };
    if let Some(tz) = &entry.tz {
        definition.tz.clone_from(tz);
    }
    if let Some(minutes) = entry.delay_minutes {
        definition.jitter = format!("{minutes}m");
    }
    definition.job.payload = payload(entry, ask);
    definition
}

fn payload(entry: &Entry, ask: &Ask<'_>) -> Json {
    let shell = entry.env.get("SHELL").map_or(USUAL_SHELL, String::as_str);
    let mut payload = match shell {
        USUAL_SHELL => json!({"argv": [entry.command], "shell": true}),
        shell => json!({"argv": [shell, "-c", entry.command]}),
    };
    let user = entry.user.as_deref().or(ask.user);
    if let Some(user) = user {
        payload["user"] = json!(user);
    }
    let home = entry.env.get("HOME").cloned().or_else(|| user.and_then(|user| (ask.home)(user)));
    if let Some(home) = home {
        payload["cwd"] = json!(home);
    }
    let env: serde_json::Map<String, Json> = entry
        .env
        .iter()
        .filter(|(name, _)| !FOR_CRON.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect();
    if !env.is_empty() {
        payload["env"] = Json::Object(env);
    }
    if let Some(stdin) = &entry.stdin {
        payload["stdin"] = json!(stdin);
    }
    payload
}
