//! Plain language: no idiom in a text that users read, and a budget for the rest that may only fall.
//!
//! Users read string literals outside tests, the help and API descriptions, Markdown, the examples
//! and the dashboard's scripts. Comments, tests and SQL have a budget per folder, see `budgets.txt`.

mod idioms;
mod visible;

use std::collections::BTreeMap;
use std::process::Command;

use super::Violation;
use super::text::{is_rust, is_test};
use crate::failure::Failure;
use crate::run;

const BUDGET_PATH: &str = "xtask/src/tidy/wording/budgets.txt";
const LIST_PATH: &str = "xtask/src/tidy/wording/idioms.txt";
const BUDGET: &str = include_str!("wording/budgets.txt");

/// Endings of the files whose wording is checked.
const CHECKED: [&str; 12] = [
    ".rs", ".sql", ".md", ".js", ".css", ".toml", ".py", ".sh", ".snap", ".stdout", ".stderr",
    ".txt",
];

/// Number of idioms per folder, collected file by file.
#[derive(Default)]
pub(super) struct Wording {
    counts: BTreeMap<String, usize>,
}

impl Wording {
    /// Counts the idioms of one file, and returns those that users would read.
    pub(super) fn check(&mut self, path: &str, text: &str) -> Vec<Violation> {
        if !is_checked(path) {
            return Vec::new();
        }
        let in_file = idioms::find(text);
        *self.counts.entry(folder(path)).or_default() += in_file.len();
        if is_rust(path) {
            if is_test(path) { Vec::new() } else { check_rust(path, text) }
        } else if is_visible(path) {
            let line = |offset: usize| 1 + text[..offset].matches('\n').count();
            let found = in_file
                .into_iter()
                .filter(|(offset, _)| !is_in_script_comment(path, text, *offset));
            found.map(|(offset, idiom)| violation(path, line(offset), &idiom)).collect()
        } else {
            Vec::new()
        }
    }

    /// Compares the counts with the budget, in both directions: an unused rest would let it rise. And
    /// the budget with `earlier` ones: no number may be higher than it ever was.
    pub(super) fn check_budget(&self, earlier: &[String]) -> Vec<Violation> {
        let mut budget = read_budget(BUDGET);
        let mut found = Vec::new();
        for (folder, (line, allowed)) in &budget {
            let before = earlier.iter().map(|text| read_budget(text));
            let least =
                before.map(|budget| budget.get(folder).map_or(0, |(_, count)| *count)).min();
            if least.is_some_and(|least| *allowed > least) {
                let what = format!("the budget of `{folder}` rose to {allowed}: use plain words");
                found.push(Violation::new(BUDGET_PATH, *line, what));
            }
        }
        for (folder, &count) in &self.counts {
            let (line, allowed) = budget.remove(folder.as_str()).unwrap_or((1, 0));
            if count > allowed {
                let what = format!(
                    "{count} idioms in `{folder}`, the budget is {allowed}: use plain words, \
                     see idioms.txt for the list"
                );
                found.push(Violation::new(BUDGET_PATH, line, what));
            } else if count < allowed {
                let what = format!("only {count} idioms in `{folder}`: lower {allowed} to {count}");
                found.push(Violation::new(BUDGET_PATH, line, what));
            }
        }
        for (folder, (line, _)) in budget {
            found.push(Violation::new(
                BUDGET_PATH,
                line,
                format!("no folder `{folder}`: delete it"),
            ));
        }
        found
    }
}

/// The budgets of all commits in the history of this checkout.
pub(super) fn earlier_budgets() -> Result<Vec<String>, Failure> {
    let mut log = Command::new("git");
    log.args(["log", "--format=%H", "--", BUDGET_PATH]);
    let commits = run::ask(&mut log)?;
    let budget = |commit: &str| {
        let mut show = Command::new("git");
        run::ask(show.args(["show", &format!("{commit}:{BUDGET_PATH}")]))
    };
    commits.lines().map(budget).collect()
}

/// Checks the texts of a Rust file that users read.
fn check_rust(path: &str, source: &str) -> Vec<Violation> {
    let texts = match visible::texts(source) {
        Ok(texts) => texts,
        Err(error) => return vec![Violation::new(path, error.span().start().line, "invalid Rust")],
    };
    let mut found = Vec::new();
    for text in texts {
        let idioms = idioms::find(&text.text);
        found.extend(idioms.iter().map(|(_, idiom)| violation(path, text.line, idiom)));
    }
    found
}

fn violation(path: &str, line: usize, idiom: &str) -> Violation {
    let idiom = idiom.split_whitespace().collect::<Vec<_>>().join(" ");
    Violation::new(path, line, format!("the idiom `{idiom}` in a text for users: use plain words"))
}

/// As opposed to data, texts that others wrote, and the list of idioms itself.
fn is_checked(path: &str) -> bool {
    let is_foreign = path.starts_with("LICENSE") || path.split('/').any(|part| part == "testdata");
    !is_foreign
        && path != LIST_PATH
        && (CHECKED.iter().any(|end| path.ends_with(end)) || path.starts_with("docs/"))
}

/// Whether users read the whole file, or all of a script but its comments.
fn is_visible(path: &str) -> bool {
    let is_document = path.ends_with(".md") || path.starts_with("docs/");
    is_document || path.starts_with("examples/") || path.ends_with(".js")
}

fn is_in_script_comment(path: &str, text: &str, offset: usize) -> bool {
    let line = text[..offset].rsplit('\n').next().unwrap_or_default();
    path.ends_with(".js") && line.contains("//")
}

/// The crate, or the top folder.
fn folder(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["crates", name, _, ..] => format!("crates/{name}"),
        [top, _, ..] => (*top).to_owned(),
        _ => "(root)".to_owned(),
    }
}

/// Folder → line and number, from lines such as `12 crates/punctual`.
fn read_budget(text: &str) -> BTreeMap<&str, (usize, usize)> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with('#'));
    lines
        .filter_map(|(number, line)| {
            let (count, folder) = line.split_once(' ')?;
            Some((folder, (number, count.parse().ok()?)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, lines: &[usize]) {
        let found = Wording::default().check(path, text);
        let found: Vec<usize> = found.iter().map(|violation| violation.line).collect();
        assert_eq!(found, lines, "{path}: {text}");
    }

    #[test]
    fn idioms_in_documents_and_strings_are_violations() {
        check("docs/a.md", "fine\nask whoever knows\n", &[2]);
        check("examples/a.py", "# nobody\n", &[1]);
        check("crates/a/src/lib.rs", "// nobody\nfn f() {\n    g(\"somebody\");\n}\n", &[3]);
        check("crates/a/src/a.js", "// nobody\nshow('somebody');\n", &[2]);
    }

    #[test]
    fn idioms_in_comments_and_tests_only_count() {
        check("crates/a/src/lib.rs", "// nobody\n", &[]);
        check("crates/a/tests/a.rs", "const A: &str = \"nobody\";\n", &[]);
        let mut wording = Wording::default();
        wording.check("crates/a/tests/a.rs", "// nobody is told\n");
        assert_eq!(wording.counts["crates/a"], 2);
    }

    #[test]
    fn a_budget_must_be_exact() {
        let budget = read_budget(BUDGET).into_iter();
        let counts = budget.map(|(folder, (_, count))| (folder.to_owned(), count)).collect();
        let mut wording = Wording { counts };
        assert_eq!(wording.check_budget(&[]), []);
        wording.counts.insert("new".to_owned(), 1);
        assert_eq!(wording.check_budget(&[]).len(), 1);
    }

    #[test]
    fn a_budget_never_rises() {
        let budget = read_budget(BUDGET).into_iter();
        let counts = budget.map(|(folder, (_, count))| (folder.to_owned(), count)).collect();
        let wording = Wording { counts };
        assert_eq!(wording.check_budget(&[BUDGET.to_owned()]), []);
        let lower = BUDGET.replace(" xtask", " elsewhere");
        assert_eq!(wording.check_budget(&[BUDGET.to_owned(), lower]).len(), 1);
    }

    #[test]
    fn folders_are_crates_or_the_top() {
        assert_eq!(folder("crates/punctual/src/lib.rs"), "crates/punctual");
        assert_eq!(folder("xtask/src/main.rs"), "xtask");
        assert_eq!(folder("README.md"), "(root)");
    }
}
