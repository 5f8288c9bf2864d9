//! The commands that a worker knows, and what a job may ask of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use punctual_secrets::Secrets;
use serde_json::Value;

use crate::config::{Config, Named};
use crate::payload::Command;
use crate::plan::{self, Refusal};
use crate::template::{Part, Patterns, Template};

/// What a handler of commands is told: how they run, which have names, and where secrets are.
#[derive(Clone, Debug)]
pub struct Commands(Arc<Known>);

#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) config: Config,
    pub(crate) named: BTreeMap<String, Prepared>,
    pub(crate) secrets: Secrets,
    pub(crate) kill_grace: Duration,
}

/// A command of the configuration, with its arguments read.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) argv: Vec<Template>,
    pub(crate) named: Named,
    /// What parameters must match, by their names.
    pub(crate) patterns: Patterns,
}

impl Commands {
    /// Checks what the configuration says.
    pub fn new(
        config: Config,
        named: BTreeMap<String, Named>,
        secrets: Secrets,
    ) -> Result<Commands, String> {
        config.check()?;
        let kill_grace = config.kill_grace()?;
        let prepare = |(name, named): (String, Named)| {
            let prepared = prepare(named, &config);
            let prepared = prepared.map_err(|error| format!("commands.{name}: {error}"))?;
            Ok::<_, String>((name, prepared))
        };
        let named = named.into_iter().map(prepare).collect::<Result<_, _>>()?;
        Ok(Commands(Arc::new(Known { config, named, secrets, kill_grace })))
    }

    /// Says what of a payload would be refused here, without looking at the machine: a name that
    /// nobody knows, a parameter that does not fit, a program where none may be brought.
    pub fn check(&self, payload: &Value) -> Result<(), String> {
        let job: Command = serde_json::from_value(payload.clone())
            .map_err(|error| format!("invalid payload for kind `command`: {error}"))?;
        match plan::resolve(&self.0, &job) {
            Ok(_) => Ok(()),
            Err(Refusal { text, .. }) => Err(text),
        }
    }

    /// From TERM to KILL.
    pub fn kill_grace(&self) -> Duration {
        self.0.kill_grace
    }

    pub(crate) fn known(&self) -> &Known {
        &self.0
    }
}

fn prepare(named: Named, config: &Config) -> Result<Prepared, String> {
    if named.argv.first().is_none_or(String::is_empty) {
        return Err("`argv` must not be empty; its first element is the program".to_owned());
    }
    if named.shell && !config.allow_shell {
        return Err(
            "`shell` is not allowed on this worker; pass the program and its arguments as a list, \
             or set `command.allow_shell = true`"
                .to_owned(),
        );
    }
    plan::check_script(named.shell, &named.argv)?;
    named.limits.check("limits")?;
    let mut patterns = Patterns::new();
    for (name, param) in &named.params {
        let pattern = param.check().map_err(|error| format!("params.{name}: {error}"))?;
        patterns.extend(pattern.map(|pattern| (name.clone(), pattern)));
    }
    plan::check_variables(&named.env)?;
    let argv: Vec<Template> =
        named.argv.iter().map(|text| Template::read(text)).collect::<Result<_, _>>()?;
    for name in argv.iter().flat_map(Template::places) {
        if !named.params.contains_key(name) {
            return Err(format!(
                "unknown parameter `{name}` in `argv`; declare it in `params`, or write \
                 `{{{{{name}}}}}` for literal braces"
            ));
        }
    }
    let is_fixed =
        |template: &Template| template.parts().iter().all(|part| matches!(part, Part::Text(_)));
    if !argv.first().is_some_and(is_fixed) {
        return Err(match named.shell {
            true => "a parameter is not allowed in the text of a shell command, because the shell \
                would execute it; pass it as an additional argument and use \"$1\""
                .to_owned(),
            false => "the first element of `argv` must not contain a parameter; define one \
                command for each program"
                .to_owned(),
        });
    }
    for name in named.params.keys() {
        if !argv.iter().any(|template| template.places().any(|place| place == name)) {
            return Err(format!(
                "parameter `{name}` is not used; add `{{{name}}}` to `argv`, or remove it from \
                 `params`"
            ));
        }
    }
    Ok(Prepared { argv, named, patterns })
}
