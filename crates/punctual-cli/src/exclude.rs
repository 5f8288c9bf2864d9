//! Days and times at which something does not fire, from flags and files.

use std::path::PathBuf;

use punctual_core::CalendarText;

use crate::exit::Failure;

const EXCLUSIONS: &str = "Exclusions";

/// Days and periods on which a schedule does not fire, and the policy for their slots.
#[derive(clap::Args, Default)]
pub(crate) struct ExcludeArgs {
    /// Day or weekly period without slots, for example 2027-12-24, 12-25, Sat or
    /// 'Sat 00:00-Mon 06:00'. May be repeated
    #[arg(long, value_name = "WHEN", help_heading = EXCLUSIONS)]
    exclude: Vec<String>,
    /// File with one exclusion per line, or an iCalendar file (.ics) with all-day events. May be
    /// repeated
    #[arg(long, value_name = "FILE", help_heading = EXCLUSIONS)]
    exclude_file: Vec<PathBuf>,
    /// Policy for excluded slots. One of: skip, next_working_day [default: skip]
    #[arg(long, value_name = "POLICY", help_heading = EXCLUSIONS)]
    pub(crate) on_excluded: Option<String>,
}

impl ExcludeArgs {
    /// Is nothing said?
    pub(crate) fn is_empty(&self) -> bool {
        self.exclude.is_empty() && self.exclude_file.is_empty() && self.on_excluded.is_none()
    }

    /// All entries, those of files included.
    pub(crate) fn entries(&self) -> Result<Vec<String>, Failure> {
        let mut entries = self.exclude.clone();
        for file in &self.exclude_file {
            let shown = file.display();
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::usage(format!("cannot read {shown}: {error}")))?;
            let is_ics = file.extension().is_some_and(|it| it.eq_ignore_ascii_case("ics"));
            let read = match is_ics {
                true => CalendarText::from_ics(&text),
                false => Ok(CalendarText::from_lines(&text)),
            };
            let read = read.and_then(|read| read.read().map(|_| read));
            let read = read.map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
            entries.extend(read.entries());
        }
        Ok(entries)
    }
}
