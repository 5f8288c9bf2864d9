//! `punctual export`: what is, as a file.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use punctual_api::{List, Schedule};
use punctual_file::Declared;

use crate::exit::Failure;
use crate::output;
use crate::target::{Client, part};

pub(crate) const EXPORT_HELP: &str = "\
Examples:
  punctual export -o schedules.toml
  punctual export --set billing";

#[derive(Args)]
pub(crate) struct Export {
    /// Set to export [default: the schedules that belong to no set]
    #[arg(long, value_name = "SET")]
    set: Option<String>,
    /// Output file [default: stdout]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The set of a file whose schedules were made by hand.
const BY_HAND: &str = "main";

impl Export {
    pub(crate) fn run(self, client: &Client) -> Result<(), Failure> {
        let schedules = match &self.set {
            Some(set) => all(client, &format!("/sets/{}", part(set)))?,
            None => all(client, "/schedules")?,
        };
        let (own, others): (Vec<Schedule>, Vec<Schedule>) = schedules
            .into_iter()
            .partition(|schedule| schedule.set == self.set.as_deref().unwrap_or(""));
        if let Some(set) = self.set.as_ref().filter(|_| own.is_empty()) {
            return Err(Failure::not_found(format!("no schedules found in set `{set}`")));
        }
        let mut text = String::new();
        if self.set.is_none() {
            text.push_str(
                "# These schedules belong to no set; `punctual apply --adopt` adds them to this one.\n",
            );
            let mut sets: Vec<&str> = others.iter().map(|schedule| schedule.set.as_str()).collect();
            sets.dedup();
            sets.sort_unstable();
            sets.dedup();
            if !sets.is_empty() {
                let sets = sets.join("`, `");
                output::say_warning(&format!(
                    "not exported: schedules of the sets `{sets}`; pass --set SET to export a set"
                ));
            }
        }
        let declared: Result<Vec<Declared>, Failure> = own.iter().map(declared).collect();
        let set = self.set.as_deref().unwrap_or(BY_HAND);
        text.push_str(&punctual_file::write(set, &declared?));
        match &self.output {
            Some(path) => std::fs::write(path, text).map_err(|error| {
                Failure::failed(format!("cannot write {}: {error}", path.display()))
            }),
            None => Ok(write!(output::stdout(), "{text}")?),
        }
    }
}

fn all(client: &Client, path: &str) -> Result<Vec<Schedule>, Failure> {
    let mut schedules: Vec<Schedule> = Vec::new();
    let mut cursor = String::new();
    loop {
        let page: List<Schedule> = client.get(&format!("{path}?limit=500{cursor}"))?;
        schedules.extend(page.items);
        match page.next_cursor {
            Some(next) => cursor = format!("&cursor={}", part(&next)),
            None => return Ok(schedules),
        }
    }
}

fn declared(schedule: &Schedule) -> Result<Declared, Failure> {
    let definition = serde_json::from_value(schedule.definition.clone()).map_err(|error| {
        Failure::failed(format!("invalid definition of schedule `{}`: {error}", schedule.name))
    })?;
    Ok(Declared {
        name: schedule.name.clone(),
        definition,
        enabled: schedule.enabled,
        renamed_from: None,
        place: None,
    })
}
