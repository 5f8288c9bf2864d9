//! Days and times at which something does not fire, from flags and files.

use std::path::PathBuf;

use punctual_core::CalendarText;

use crate::exit::Failure;

/// When a schedule does not fire, and what becomes of its slots then.
#[derive(clap::Args, Default)]
pub(crate) struct ExcludeArgs {
    /// A day or a time of the week at which it does not fire: 2027-12-24, 12-25, Sat or
    /// 'Sat 00:00-Mon 06:00'; may be given several times
    #[arg(long, value_name = "WHEN")]
    exclude: Vec<String>,
    /// A file of these, one a line, or of all-day events (.ics)
    #[arg(long, value_name = "FILE")]
    exclude_file: Vec<PathBuf>,
    /// skip or next_working_day: what becomes of a slot that is excluded
    #[arg(long, value_name = "CHOICE")]
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
                .map_err(|error| Failure::usage(format!("{shown} cannot be read: {error}")))?;
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
