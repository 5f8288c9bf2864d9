//! `punctual cron check`: mistakes of a crontab or a file of schedules, with their places.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use punctual_file::crontab::{Form, parse};
use punctual_file::{Mistake, Source};

use crate::Failure;
use crate::files::{self, beside, read_file};
use crate::output::{self, print_json};

#[derive(Args)]
pub(crate) struct Check {
    /// Crontabs or schedule files (*.toml); `-` reads a crontab from stdin
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Read system crontabs, which have a user column
    #[arg(long)]
    system: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found in all files.
#[derive(Default)]
struct Found {
    schedules: usize,
    mistakes: Vec<Mistake>,
    attention: Vec<Mistake>,
    warnings: Vec<String>,
}

/// Exit 0 if there are none, 1 if there are, 2 if a file cannot be read.
pub(super) fn run(check: &Check) -> Result<(), Failure> {
    let mut found = Found::default();
    for path in &check.files {
        let source = read_file(path)?;
        match path.extension().is_some_and(|extension| extension == "toml") {
            true => found.schedules_of(source),
            false => found.crontab(&source, check.form(path)),
        }
    }
    let Found { schedules, mistakes, attention, warnings } = &found;
    if check.json {
        let answer = serde_json::json!({
            "schedules": schedules,
            "errors": mistakes,
            "review": attention,
            "warnings": warnings,
        });
        print_json(&mut output::stdout(), &answer)?;
    } else {
        let mut out = output::stdout();
        for mistake in mistakes {
            writeln!(out, "error: {mistake}")?;
        }
        for mistake in attention {
            writeln!(out, "warning: {mistake}")?;
        }
        let many = |count: usize| if count == 1 { "" } else { "s" };
        let count = mistakes.len();
        writeln!(out, "{schedules} schedule{}, {count} error{}", many(*schedules), many(count))?;
        warnings.iter().for_each(|warning| output::say_warning(warning));
    }
    match mistakes.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed("")),
    }
}

impl Check {
    fn form(&self, path: &Path) -> Form {
        let is_systems = self.system
            || path == Path::new("/etc/crontab")
            || path.parent() == Some(Path::new("/etc/cron.d"));
        if is_systems { Form::System } else { Form::User }
    }
}

impl Found {
    fn crontab(&mut self, source: &Source, form: Form) {
        let tab = parse(source, form);
        self.schedules += tab.entries.len();
        self.mistakes.extend(tab.mistakes);
        self.attention.extend(tab.attention);
    }

    fn schedules_of(&mut self, source: Source) {
        let sets = match punctual_file::read_beside(&[source], &beside) {
            Ok(sets) => sets,
            Err(mistakes) => return self.mistakes.extend(mistakes.0),
        };
        self.warnings.extend(files::warnings(&sets));
        let now = output::now();
        for schedule in sets.iter().flat_map(|set| &set.schedules) {
            self.schedules += 1;
            let Ok(rule) = schedule.definition.rule(&schedule.name) else { continue };
            let warnings = rule.spec.warnings(now).into_iter();
            self.warnings.extend(warnings.map(|it| format!("{}: {it}", schedule.name)));
        }
    }
}
