//! `punctual diff` and `punctual apply`: what files say, and what is.

use std::time::Duration;

use axum::http::Method;
use clap::Args;
use punctual_api::{SetBody, SetChange, SetSchedule};
use punctual_file::{Declared, Set};

use super::Files;
use super::change;
use crate::exit::Failure;
use crate::output::{self, print_json};
use crate::target::{Client, Target, json, part};

pub(crate) const DIFF_HELP: &str = "\
Exit code 0 if the schedules match the files, 1 if applying them would change something, 2 or more
on errors.

Examples:
  punctual diff -f schedules.toml
  punctual diff -f schedules/ --prune --json";

pub(crate) const APPLY_HELP: &str = "\
The schedules of one set are applied in one transaction: all of them or none.

Examples:
  punctual apply -f schedules.toml
  punctual apply -f schedules/ --prune
  punctual apply -f schedules.toml --dry-run";

/// How far a set may go.
#[derive(Args, Clone, Copy, Debug)]
struct Manner {
    /// Delete schedules of the set that are not in the files
    #[arg(long)]
    prune: bool,
    /// Take over existing schedules of the same name that belong to no set
    #[arg(long)]
    adopt: bool,
}

#[derive(Args)]
pub(crate) struct Diff {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    manner: Manner,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Apply {
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    manner: Manner,
    /// With --prune, also delete schedules that have unfinished jobs
    #[arg(long)]
    yes: bool,
    /// Print the changes without applying them
    #[arg(long)]
    dry_run: bool,
    /// Keep running and apply again when a file changes
    #[arg(long, conflicts_with = "dry_run")]
    watch: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Diff {
    /// Exit 0 if all is as the files say, 1 if not, more if that cannot be told.
    pub(crate) fn run(self, target: &Target) -> Result<(), Failure> {
        let sets = self.files.sets(self.json)?;
        let changes =
            ask_all(&target.client()?, &sets, self.manner, true).map_err(Failure::at_least_2)?;
        print(&changes, self.json)?;
        match changes.iter().all(is_nothing) {
            true => Ok(()),
            false => Err(Failure::failed("")),
        }
    }
}

impl Apply {
    pub(crate) fn run(self, target: &Target) -> Result<(), Failure> {
        let mut opened = None;
        if !self.watch {
            return self.once(target, &mut opened);
        }
        let mut seen = self.files.mark();
        loop {
            // What is wrong now may be right after the next change.
            if let Err(failure) = self.once(target, &mut opened) {
                failure.report();
            }
            while seen == self.files.mark() {
                wait();
            }
            seen = self.files.mark();
        }
    }

    /// Files with mistakes open no database, and make none.
    fn once(&self, target: &Target, opened: &mut Option<Client>) -> Result<(), Failure> {
        let sets = self.files.sets(self.json)?;
        let client = match opened {
            Some(client) => client,
            None => opened.insert(target.client_that_may_create()?),
        };
        // All sets are looked at before any is written.
        let planned = ask_all(client, &sets, self.manner, true)?;
        if self.dry_run {
            return print(&planned, self.json);
        }
        let busy = planned.iter().flat_map(|change| &change.steps);
        let mut busy = busy.filter(|step| step.action == "delete" && step.unfinished > 0);
        if let Some(step) = busy.next().filter(|_| !self.yes) {
            return Err(Failure::conflict(format!(
                "schedule `{}` has unfinished jobs ({}); wait for them, or pass --yes to delete it \
                 anyway",
                step.name, step.unfinished
            )));
        }
        print(&ask_all(client, &sets, self.manner, false)?, self.json)
    }
}

#[expect(clippy::disallowed_methods, reason = "whoever watches files has nothing else to do")]
fn wait() {
    std::thread::sleep(Duration::from_secs(1));
}

fn is_nothing(change: &SetChange) -> bool {
    change.added + change.changed + change.deleted + change.kept == 0
}

fn print(changes: &[SetChange], is_json: bool) -> Result<(), Failure> {
    let mut out = output::stdout();
    if is_json {
        return Ok(print_json(&mut out, &serde_json::json!({"sets": changes}))?);
    }
    for one in changes {
        change::print(&mut out, one)?;
        one.warnings.iter().for_each(|warning| output::say_warning(warning));
    }
    if changes.is_empty() {
        output::say_warning("no schedules found in the files");
    }
    Ok(())
}

fn ask_all(
    client: &Client,
    sets: &[Set],
    manner: Manner,
    dry_run: bool,
) -> Result<Vec<SetChange>, Failure> {
    let ask = |set: &Set| {
        let Manner { prune, adopt } = manner;
        let path =
            format!("/sets/{}?dry_run={dry_run}&prune={prune}&adopt={adopt}", part(&set.name));
        let schedules: Result<Vec<SetSchedule>, Failure> =
            set.schedules.iter().map(as_asked).collect();
        let body = SetBody { schedules: schedules? };
        client.ask(Method::PUT, &path, Some(json(&body)?), &[])
    };
    sets.iter().map(ask).collect()
}

/// A schedule of a file, as the server reads it.
fn as_asked(schedule: &Declared) -> Result<SetSchedule, Failure> {
    let definition = serde_json::to_value(&schedule.definition).and_then(serde_json::from_value);
    let definition = definition.map_err(|error| {
        Failure::usage(format!("invalid schedule `{}`: {error}", schedule.name))
    })?;
    Ok(SetSchedule {
        name: schedule.name.clone(),
        enabled: schedule.enabled,
        renamed_from: schedule.renamed_from.clone(),
        definition,
    })
}
