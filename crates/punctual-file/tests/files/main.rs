//! Files of schedules and crontabs, as people write them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod crontabs;
mod mistakes;
mod round_trip;
mod simulating;

use punctual_file::{Mistakes, Set, Source, read};

/// Reads one file.
pub(crate) fn one(text: &str) -> Result<Set, Mistakes> {
    read(&[Source::new("a.toml", text)]).map(|mut sets| sets.remove(0))
}
