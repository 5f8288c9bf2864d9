//! `punctual config`: what a server would be told, and by whom.

use std::io::Write;

use clap::Subcommand;
use serde::Serialize;

use crate::exit::Failure;
use crate::output::{self, print_json};
use crate::serve;
use crate::serve::settings::{Flags, KEYS, read};
use crate::target::Target;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show every setting and its source
    Show(Flags),
    /// Validate the configuration without starting the server
    Check(Flags),
}

#[derive(Serialize)]
struct Shown {
    key: &'static str,
    value: serde_json::Value,
    from: String,
}

impl Command {
    pub(crate) fn run(self, target: &Target, is_json: bool) -> Result<(), Failure> {
        let database = target.database();
        let mut out = output::stdout();
        match self {
            Command::Check(flags) => {
                serve::admitted(&flags.settings(database)?, target.token())?;
                serve::check_variables()?;
                match is_json {
                    true => Ok(print_json(&mut out, &serde_json::json!({"ok": true}))?),
                    false => Ok(writeln!(out, "Configuration is valid")?),
                }
            }
            Command::Show(flags) => {
                let layers = flags.layers(database)?;
                let settings = read(&layers)?;
                let all = serde_json::to_value(&settings).map_err(Failure::failed)?;
                let shown: Vec<Shown> = KEYS
                    .iter()
                    .map(|&key| {
                        let pointer = format!("/{}", key.replace('.', "/"));
                        let value = match key {
                            "database.url" => settings.shown_database().into(),
                            _ => all.pointer(&pointer).cloned().unwrap_or_default(),
                        };
                        let source = layers.find_metadata(key);
                        let from =
                            source.map_or("default".to_owned(), |source| match &source.source {
                                // What is not read from anywhere is ours, or was given with the command.
                                Some(figment::Source::Code(_)) => given(key, &source.name),
                                Some(place) => format!("{} {place}", source.name),
                                None => source.name.to_string(),
                            });
                        Shown { key, value, from }
                    })
                    .collect();
                if is_json {
                    return Ok(print_json(&mut out, &shown)?);
                }
                let rows = shown
                    .into_iter()
                    .map(|it| vec![it.key.to_owned(), it.value.to_string(), it.from]);
                Ok(output::print_table(&mut out, &["SETTING", "VALUE", "SOURCE"], rows.collect())?)
            }
        }
    }
}

/// Where a value comes from that no file and no variable of its own has.
fn given(key: &str, provider: &str) -> String {
    match (provider.ends_with("Settings"), key) {
        (true, _) => "default".to_owned(),
        (false, "database.url") => "--database or PUNCTUAL_DATABASE".to_owned(),
        (false, _) => "flag".to_owned(),
    }
}
