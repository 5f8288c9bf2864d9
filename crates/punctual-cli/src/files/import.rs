//! `punctual import`: what others keep, as a file of schedules.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, Subcommand};
use punctual_core::Zone;
use punctual_file::crontab::{Ask, Form, import};
use punctual_file::{Mistake, Source};

use super::read_file;
use crate::exit::Failure;
use crate::output::{self, print_json};

const CRONTAB_HELP: &str = "\
Examples:
  punctual import crontab -o schedules.toml
  punctual import crontab --system -o system.toml
  punctual import crontab web1.crontab --tz Europe/Paris --user www-data";

#[derive(Subcommand)]
pub(crate) enum Import {
    /// Convert crontabs to a schedule file
    #[command(after_help = CRONTAB_HELP)]
    Crontab(Crontab),
}

#[derive(Args)]
pub(crate) struct Crontab {
    /// Crontabs, or `-` for stdin [default: your crontab, as printed by `crontab -l`]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Read system crontabs, which have a user column [default files: /etc/crontab, /etc/cron.d/*]
    #[arg(long)]
    system: bool,
    /// Output file [default: stdout]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Set of the schedules
    #[arg(long, value_name = "SET", default_value = "crontab")]
    set: String,
    /// IANA time zone of the crontabs [default: the time zone of this machine]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// User that runs the lines of a user crontab [default: the user of the worker]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Print a report as JSON; without --output, the report contains the schedule file
    #[arg(long)]
    json: bool,
}

impl Import {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Import::Crontab(crontab) = self;
        crontab.run()
    }
}

const SYSTEM_TAB: &str = "/etc/crontab";
const SYSTEM_DIRECTORY: &str = "/etc/cron.d";

impl Crontab {
    fn run(self) -> Result<(), Failure> {
        let tabs = self.tabs()?;
        let tz = match &self.tz {
            Some(tz) => tz.clone(),
            None => system_zone(),
        };
        Zone::get(&tz).map_err(|error| Failure::usage(format!("--tz: {error}")))?;
        let ask = Ask { set: &self.set, tz: &tz, user: self.user.as_deref(), home: &home_of };
        let imported = import(&tabs, &ask);
        let count = imported.schedules.len();
        if let Some(path) = &self.output {
            std::fs::write(path, &imported.text).map_err(|error| {
                Failure::failed(format!("cannot write {}: {error}", path.display()))
            })?;
        }
        let mut out = output::stdout();
        if self.json {
            let file = self.output.is_none().then_some(&imported.text);
            let report = serde_json::json!({
                "imported": count,
                "skipped": imported.refused,
                "review": imported.attention,
                "tz": tz,
                "file": file,
            });
            return Ok(print_json(&mut out, &report)?);
        }
        if self.output.is_none() {
            write!(out, "{}", imported.text)?;
        }
        let mut say = output::stderr();
        let tell = |say: &mut dyn Write, what: &str, mistakes: &[Mistake]| {
            mistakes.iter().try_for_each(|mistake| writeln!(say, "{what} {mistake}"))
        };
        tell(&mut say, "not imported:", &imported.refused)?;
        tell(&mut say, "review:", &imported.attention)?;
        writeln!(
            say,
            "Imported {count}, skipped {}, {} to review (time zone: {tz})",
            imported.refused.len(),
            imported.attention.len()
        )?;
        if let Some(path) = &self.output {
            writeln!(say, "Next: punctual diff -f {0} · punctual apply -f {0}", path.display())?;
        }
        Ok(())
    }

    fn tabs(&self) -> Result<Vec<(Source, Form)>, Failure> {
        if self.files.is_empty() {
            return if self.system { system_tabs() } else { own_tab() };
        }
        let tab = |path: &PathBuf| {
            let is_systems = self.system
                || path == Path::new(SYSTEM_TAB)
                || path.parent() == Some(Path::new(SYSTEM_DIRECTORY));
            let form = if is_systems { Form::System } else { Form::User };
            Ok((read_file(path)?, form))
        };
        self.files.iter().map(tab).collect()
    }
}

/// What `crontab -l` prints.
fn own_tab() -> Result<Vec<(Source, Form)>, Failure> {
    let output = Command::new("crontab").arg("-l").output().map_err(|error| {
        Failure::failed(format!("cannot run `crontab -l`: {error}; pass a file instead"))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::failed(format!("`crontab -l` failed: {said}; pass a file instead")));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(vec![(Source::new("crontab", text), Form::User)])
}

/// The system's own, and those of packages.
fn system_tabs() -> Result<Vec<(Source, Form)>, Failure> {
    let mut paths: Vec<PathBuf> = vec![PathBuf::from(SYSTEM_TAB)];
    if let Ok(entries) = std::fs::read_dir(SYSTEM_DIRECTORY) {
        let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        found.sort();
        for path in found {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // As cron has it: others are left behind by package managers and editors.
            let is_read = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            match name.bytes().all(is_read) {
                true => paths.push(path),
                false => output::say_warning(&format!(
                    "skipped {}: cron ignores files with such names",
                    path.display()
                )),
            }
        }
    }
    let there = paths.into_iter().filter(|path| path.is_file());
    let tabs: Vec<(Source, Form)> =
        there.map(|path| Ok((read_file(&path)?, Form::System))).collect::<Result<_, Failure>>()?;
    match tabs.is_empty() {
        true => Err(Failure::not_found(format!(
            "no system crontabs found: {SYSTEM_TAB} does not exist and {SYSTEM_DIRECTORY} has no \
             files; pass a file"
        ))),
        false => Ok(tabs),
    }
}

/// The zone of this machine, by name.
fn system_zone() -> String {
    let zone = jiff::tz::TimeZone::try_system().ok();
    match zone.as_ref().and_then(|zone| zone.iana_name()) {
        Some(name) => name.to_owned(),
        None => "UTC".to_owned(),
    }
}

/// Where a user is at home, as the system knows it.
fn home_of(user: &str) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.split(':').next() == Some(user))?;
    line.split(':').nth(5).filter(|home| !home.is_empty()).map(str::to_owned)
}
