//! Schedules as code: `diff`, `apply`, `export`, `import`, `simulate`, `schema`.

mod apply;
mod change;
mod export;
mod import;
mod simulate;
mod source;

pub(crate) use apply::{APPLY_HELP, Apply, DIFF_HELP, Diff};
pub(crate) use export::{EXPORT_HELP, Export};
pub(crate) use import::Import;
pub(crate) use simulate::{SIMULATE_HELP, Simulate};
pub(crate) use source::{Files, beside, mistaken, read_file, warnings};

use std::io::Write;

use crate::exit::Failure;
use crate::output;

/// `punctual schema`: the schema of a file, for editors.
pub(crate) fn schema() -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(&punctual_file::schema())
        .map_err(|error| Failure::failed(error.to_string()))?;
    Ok(writeln!(output::stdout(), "{text}")?)
}
