//! What no line may hold, and how many lines a file may have.

use super::Violation;

/// A file longer than this tells more than one story.
const MAX_RUST_LINES: usize = 700;

/// All violations in one file.
pub(super) fn check(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    let lines = text.lines().count();
    if is_rust(path) && lines > MAX_RUST_LINES {
        let what = format!("{lines} lines, over {MAX_RUST_LINES}: move the second story out");
        found.push(Violation::new(path, MAX_RUST_LINES + 1, what));
    }
    let banned: Vec<&Banned> = BANNED.iter().filter(|banned| (banned.from)(path)).collect();
    // Not `lines`, which would hide a carriage return.
    for (line, number) in text.split('\n').zip(1..) {
        let here = banned.iter().filter(|banned| banned.is_in(line));
        found.extend(here.map(|banned| Violation::new(path, number, banned.what)));
        if is_laid_out(path) && line.trim_end() != line {
            found.push(Violation::new(path, number, "space at the end of the line: delete it"));
        }
    }
    found
}

/// A piece of text that must not be there.
struct Banned {
    /// Taken apart, so that these lines do not themselves hold what they ban.
    needle: &'static str,
    /// The files it is banned from, by path.
    from: fn(&str) -> bool,
    /// Whether it counts, given what comes before and after it.
    counts: fn(Option<char>, Option<char>) -> bool,
    what: &'static str,
}

const BANNED: &[Banned] = &[
    Banned { needle: concat!("to", "do!("), from: is_rust, counts: anywhere, what: UNFINISHED },
    Banned {
        needle: concat!("unimple", "mented!("),
        from: is_rust,
        counts: anywhere,
        what: UNFINISHED,
    },
    Banned { needle: concat!("TO", "DO"), from: is_ours, counts: as_a_word, what: UNFINISHED },
    Banned { needle: concat!("FIX", "ME"), from: is_ours, counts: as_a_word, what: UNFINISHED },
    Banned { needle: concat!("XX", "X"), from: is_ours, counts: as_a_word, what: UNFINISHED },
    Banned { needle: concat!("HA", "CK"), from: is_ours, counts: as_a_word, what: UNFINISHED },
    Banned { needle: concat!("#[ig", "nore"), from: is_rust, counts: anywhere, what: IGNORED },
    Banned { needle: concat!("thread::", "sleep"), from: is_test, counts: anywhere, what: SLEEP },
    Banned { needle: concat!("time::", "sleep("), from: is_test, counts: anywhere, what: SLEEP },
    Banned { needle: "\t", from: is_laid_out, counts: anywhere, what: "a tab: use spaces" },
    Banned { needle: concat!("/ho", "me/"), from: anything, counts: as_a_root, what: MACHINE },
    Banned { needle: concat!("/ro", "ot/"), from: anything, counts: as_a_root, what: MACHINE },
    Banned { needle: concat!("/wo", "rk/"), from: anything, counts: as_a_root, what: MACHINE },
];

const UNFINISHED: &str = "unfinished work: finish it, or explain what is missing and why";
const IGNORED: &str = "a test that never runs: fix it or delete it";
const SLEEP: &str = "a test that sleeps is slow or flaky: wait for the event itself";
const MACHINE: &str =
    "a path of a specific machine: make it relative, or use a path under /srv or /tmp";

impl Banned {
    fn is_in(&self, line: &str) -> bool {
        line.match_indices(self.needle).any(|(start, needle)| {
            let before = line[..start].chars().next_back();
            let after = line[start + needle.len()..].chars().next();
            (self.counts)(before, after)
        })
    }
}

fn anywhere(_: Option<char>, _: Option<char>) -> bool {
    true
}

fn as_a_word(before: Option<char>, after: Option<char>) -> bool {
    let joins = |c: char| c.is_alphanumeric() || c == '_';
    !before.is_some_and(joins) && !after.is_some_and(joins)
}

/// Where a path begins, as opposed to in the middle of one.
fn as_a_root(before: Option<char>, _: Option<char>) -> bool {
    !before.is_some_and(|c| c.is_alphanumeric() || "_-.~*}".contains(c))
}

fn anything(_: &str) -> bool {
    true
}

pub(super) fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

pub(super) fn is_test(path: &str) -> bool {
    is_rust(path) && path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// As opposed to what others wrote for us to read.
fn is_ours(path: &str) -> bool {
    !path.split('/').any(|part| part == "testdata")
}

/// A file whose white space is ours to choose: not data, and not the recorded output of a program.
fn is_laid_out(path: &str) -> bool {
    let is_recorded =
        path.split('/').any(|part| part == "snapshots" || part == "cmd" || part == "trycmd");
    is_ours(path)
        && !is_recorded
        && [".rs", ".toml", ".md", ".sql"].iter().any(|end| path.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each `_` in a line is left out, so that this file may hold what it bans.
    #[track_caller]
    fn check_line(path: &str, line: &str, expected: &[&str]) {
        let text = format!("fine\n{}\nfine\n", line.replace('_', ""));
        let found = check(path, &text);
        assert!(found.iter().all(|violation| violation.path == path && violation.line == 2));
        let what: Vec<&str> = found.iter().map(|violation| violation.what.as_str()).collect();
        assert_eq!(what, expected, "{path}: {line}");
    }

    #[test]
    fn unfinished_work_is_found() {
        check_line("src/a.rs", "    to_do!()", &[UNFINISHED]);
        check_line("src/a.rs", "    unimple_mented!(\"later\")", &[UNFINISHED]);
        check_line("src/a.rs", "// TO_DO: later", &[UNFINISHED]);
        check_line("README.md", "FIX_ME", &[UNFINISHED]);
        check_line(".ci/run", "# XX_X", &[UNFINISHED]);
        check_line("sql/claim.sql", "-- HA_CK (it works)", &[UNFINISHED]);
    }

    #[test]
    fn words_that_only_resemble_unfinished_work_are_left_alone() {
        check_line("src/a.rs", "// HA_CKERS; mktemp XX_XXXX; to_do", &[]);
        check_line("testdata/other.txt", "TO_DO", &[]);
    }

    #[test]
    fn ignored_tests_are_found() {
        check_line("src/a.rs", "#[ig_nore]", &[IGNORED]);
        check_line("tests/a.rs", "    #[ig_nore = \"slow\"]", &[IGNORED]);
        check_line("notes.md", "#[ig_nore]", &[]);
    }

    #[test]
    fn sleep_is_found_in_tests_only() {
        for path in ["tests/a.rs", "crates/x/tests/it/b.rs", "src/foo/tests.rs"] {
            check_line(path, "std::thread::sl_eep(wait);", &[SLEEP]);
            check_line(path, "tokio::time::sl_eep(wait).await;", &[SLEEP]);
        }
        check_line("src/env.rs", "std::thread::sl_eep(wait);", &[]);
    }

    #[test]
    fn white_space_is_checked_where_it_is_ours() {
        for path in ["src/a.rs", "Cargo.toml", "README.md", "sql/a.sql"] {
            check_line(path, "\tx", &["a tab: use spaces"]);
            check_line(path, "x ", &["space at the end of the line: delete it"]);
            check_line(path, "x\r", &["space at the end of the line: delete it"]);
        }
        for path in ["testdata/a.md", "tests/cmd/a.toml", "src/snapshots/a.md", "Makefile"] {
            check_line(path, "\tx ", &[]);
        }
    }

    #[test]
    fn paths_of_a_machine_are_found_where_they_begin() {
        check_line("a.md", "see /ho_me/me/x", &[MACHINE]);
        check_line("a.rs", "\"/ro_ot/.cargo\"", &[MACHINE]);
        check_line("tests/cmd/a.trycmd", "/wo_rk/main", &[MACHINE]);
        check_line("a.md", "see crates/wo_rk/x and https://example.org/ho_me/", &[]);
    }

    #[test]
    fn rust_files_may_have_seven_hundred_lines() {
        assert_eq!(check("a.rs", &"x\n".repeat(700)), []);
        assert_eq!(check("a.md", &"x\n".repeat(701)), []);
        let found = check("a.rs", &"x\n".repeat(701));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 701);
    }
}
