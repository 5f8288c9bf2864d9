//! `cargo xtask tidy`: cheap checks of the text of every file that is, or is about to be, in git.

mod documents;
mod manifests;
mod text;
mod wording;

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::process::Command;

use crate::failure::Failure;
use crate::run;
use wording::Wording;

/// Nothing that belongs in the repository is larger; what is generated belongs elsewhere.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Prints all violations; fails if there are any.
pub(crate) fn tidy() -> Result<(), Failure> {
    let paths = project_files()?;
    let mut found = documents::check_adrs(&paths);
    let mut wording = Wording::default();
    for path in &paths {
        let bytes = fs::read(path).map_err(Failure::on(format_args!("read `{path}`")))?;
        found.extend(check_size(path, bytes.len()));
        // What is not text has no lines to check.
        if let Ok(text) = String::from_utf8(bytes) {
            found.extend(text::check(path, &text));
            found.extend(manifests::check(path, &text));
            found.extend(documents::check_links(path, &text, &paths));
            found.extend(wording.check(path, &text));
        }
    }
    found.extend(wording.check_budget(&wording::earlier_budgets()?));
    if found.is_empty() {
        return Ok(());
    }
    for violation in &found {
        println!("{violation}");
    }
    Err(Failure::Failed(format!("{} untidy, see above", found.len())))
}

/// A violation at a line, with the remedy.
#[derive(Debug, PartialEq)]
struct Violation {
    path: String,
    line: usize,
    what: String,
}

impl Violation {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.into(), line, what: what.into() }
    }
}

impl Display for Violation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

fn check_size(path: &str, bytes: usize) -> Option<Violation> {
    (bytes > MAX_FILE_BYTES).then(|| {
        let what = format!("{bytes} bytes, over 1 MiB: generate it where it is used, or shrink it");
        Violation::new(path, 1, what)
    })
}

/// Regular files only: git also lists those that are deleted but not yet committed as such.
fn project_files() -> Result<BTreeSet<String>, Failure> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = run::ask(&mut git)?;
    Ok(listed
        .split('\0')
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|file| file.is_file()))
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_reads_like_a_compiler_message() {
        let violation = Violation::new("src/lib.rs", 7, "a tab: use spaces");
        assert_eq!(violation.to_string(), "src/lib.rs:7: a tab: use spaces");
    }

    #[test]
    fn files_may_have_a_mebibyte_and_no_more() {
        assert_eq!(check_size("a", MAX_FILE_BYTES), None);
        assert_eq!(check_size("a", MAX_FILE_BYTES + 1).map(|violation| violation.line), Some(1));
    }
}
