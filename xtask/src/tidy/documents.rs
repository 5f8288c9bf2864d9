//! Documents: the numbers of the decision records, and links that lead somewhere.

use std::collections::BTreeSet;

use super::Violation;

const ADRS: &str = "docs/adr/";

/// Decision records are `NNNN-title.md`, counted from 0001 without a gap and without a double.
pub(super) fn check_adrs(paths: &BTreeSet<String>) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut next = 1;
    for path in paths.iter().filter(|path| path.starts_with(ADRS)) {
        let name = &path[ADRS.len()..];
        if name == "README.md" {
            continue;
        }
        let Some(number) = adr_number(name) else {
            found.push(Violation::new(path, 1, "the name is not of the form NNNN-title.md"));
            continue;
        };
        if number != next {
            let what = format!("number {number:04} where {next:04} is next: renumber it");
            found.push(Violation::new(path, 1, what));
        }
        next = next.max(number + 1);
    }
    found
}

fn adr_number(name: &str) -> Option<u32> {
    let (number, title) = name.strip_suffix(".md")?.split_once('-')?;
    let is_number = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !title.is_empty() && !title.contains('/')).then(|| number.parse().ok())?
}

/// Relative links in Markdown lead to files, or directories of files, that the repository holds.
pub(super) fn check_links(path: &str, text: &str, paths: &BTreeSet<String>) -> Vec<Violation> {
    if !path.ends_with(".md") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (line, target) in links(text) {
        let file = target.split(['#', '?']).next().unwrap_or_default();
        // A link with a scheme leads elsewhere, one with `::` to an item that rustdoc checks.
        if file.is_empty() || file.contains(':') {
            continue;
        }
        if !resolve(path, file).is_some_and(|resolved| holds(paths, &resolved)) {
            let what = format!("no file at `{file}`: correct the link, or add the file to git");
            found.push(Violation::new(path, line, what));
        }
    }
    found
}

/// The targets of inline links, images and link definitions, outside of code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let start = line.trim_start();
        if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark)) {
            match fence {
                None => fence = Some(mark),
                Some(open) if open == mark => fence = None,
                Some(_) => {}
            }
            continue;
        }
        if fence.is_some() {
            continue;
        }
        let prose = without_code(line);
        let definition = prose
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]:"))
            .filter(|(label, _)| !label.contains(']') && !label.starts_with('^'))
            .map(|(_, target)| target.trim());
        let inline = prose.match_indices("](").map(|(at, mark)| &prose[at + mark.len()..]);
        for rest in inline.chain(definition) {
            found.extend(target(rest).map(|target| (number, target.to_owned())));
        }
    }
    found
}

/// The line without what is between backticks.
fn without_code(line: &str) -> String {
    let mut parts: Vec<&str> = line.split('`').collect();
    // An even number of parts has an odd number of backticks: the last one opens nothing.
    let rest = if parts.len().is_multiple_of(2) { parts.pop() } else { None };
    parts.into_iter().step_by(2).chain(rest).collect()
}

/// The target at the start of `rest`: up to the bracket that closes it, or to its title.
fn target(rest: &str) -> Option<&str> {
    if let Some(quoted) = rest.strip_prefix('<') {
        return quoted.split_once('>').map(|(target, _)| target);
    }
    let mut depth = 0;
    let end = rest.find(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth < 0 || c.is_whitespace()
    });
    Some(&rest[..end.unwrap_or(rest.len())]).filter(|target| !target.is_empty())
}

/// The path from the root of the repository, or None if it leads out of it.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn holds(paths: &BTreeSet<String>, path: &str) -> bool {
    let as_directory = format!("{path}/");
    path.is_empty()
        || paths.contains(path)
        || paths
            .range(as_directory.clone()..)
            .next()
            .is_some_and(|next| next.starts_with(&as_directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(paths: &[&str]) -> BTreeSet<String> {
        paths.iter().copied().map(String::from).collect()
    }

    #[track_caller]
    fn check_names(names: &[&str], expected: &[&str]) {
        let found = check_adrs(&paths(names));
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn adrs_are_counted_from_one() {
        check_names(&["docs/adr/0001-one.md", "docs/adr/0002-two.md", "docs/adr/README.md"], &[]);
        check_names(
            &["docs/adr/0002-two.md"],
            &["docs/adr/0002-two.md:1: number 0002 where 0001 is next: renumber it"],
        );
    }

    #[test]
    fn a_gap_and_a_double_are_each_found_once() {
        check_names(
            &[
                "docs/adr/0001-a.md",
                "docs/adr/0003-b.md",
                "docs/adr/0003-c.md",
                "docs/adr/0004-d.md",
            ],
            &[
                "docs/adr/0003-b.md:1: number 0003 where 0002 is next: renumber it",
                "docs/adr/0003-c.md:1: number 0003 where 0004 is next: renumber it",
            ],
        );
    }

    #[test]
    fn an_adr_has_a_number_and_a_title() {
        for name in ["1-a.md", "0001.md", "0001-.md", "0001-a.txt", "notes.md", "sub/0001-a.md"] {
            let path = format!("docs/adr/{name}");
            check_names(
                &[&path],
                &[&format!("{path}:1: the name is not of the form NNNN-title.md")],
            );
        }
    }

    #[track_caller]
    fn check_text(text: &str, expected: &[&str]) {
        let paths = paths(&["README.md", "docs/a.md", "docs/adr/0001-a.md", "docs/a (b).md"]);
        let found = check_links("docs/a.md", text, &paths);
        let found: Vec<&str> =
            found.iter().filter_map(|violation| violation.what.split('`').nth(1)).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn links_to_what_exists_pass() {
        check_text("[a](a.md) ![b](../README.md#top) [c](adr/) [d](/docs/adr) [e](..)", &[]);
        check_text("[a](a.md \"title\") [b](<a (b).md>)\n[c]: adr/0001-a.md", &[]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        check_text(
            "[a](b.md), then [b](README.md) and [c](adr/0002.md#x)",
            &["b.md", "README.md", "adr/0002.md"],
        );
        check_text("[a]: gone.md \"title\"", &["gone.md"]);
        check_text("[a](../../out.md) [b](x_(y).md)", &["../../out.md", "x_(y).md"]);
    }

    #[test]
    fn what_is_no_relative_link_is_left_alone() {
        check_text("[a](https://example.org/x) [b](#below) [c](mailto:a@example.org)", &[]);
        check_text("[d](crate::Store) `[e](gone.md)` [^1]: a note", &[]);
        check_text("`[a](gone.md)` and a lone ` then [b](lost.md)", &["lost.md"]);
        check_text("```md\n[a](gone.md)\n```\n~~~\n[a](gone.md)\n```\n~~~\n", &[]);
        check_text("```\n```\n[a](gone.md)", &["gone.md"]);
    }

    #[test]
    fn violations_name_the_line() {
        let found = check_links("a.md", "fine\n[a](gone.md)\n", &paths(&["a.md"]));
        assert_eq!(
            found,
            [Violation::new(
                "a.md",
                2,
                "no file at `gone.md`: correct the link, or add the file to git"
            )]
        );
    }
}
