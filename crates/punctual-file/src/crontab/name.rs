//! A name for a line of a crontab, from what it runs.

use std::collections::BTreeSet;

/// Words that say how something is run, and not what.
const WRAPPERS: &[&str] = &[
    "sudo",
    "nice",
    "ionice",
    "chronic",
    "command",
    "exec",
    "env",
    "nohup",
    "time",
    "timeout",
    "sh",
    "bash",
    "dash",
    "then",
    "else",
    "if",
    "do",
    "start-stop-daemon",
    "flock",
    "setsid",
];
/// Commands that only ask or prepare.
const PREPARING: &[&str] = &["[", "[[", "test", "cd", "export", "umask", "sleep", ":", "true", "!"];

/// A name that none of `taken` has; it is taken by this.
pub(super) fn name(path: &str, command: &str, taken: &mut BTreeSet<String>) -> String {
    let file = path.rsplit('/').next().unwrap_or("");
    let file = file.split('.').next().unwrap_or("");
    let file = if ["crontab", "-", ""].contains(&file) { String::new() } else { slug(file) };
    let program = program(command).unwrap_or_else(|| "line".to_owned());
    let base = match file.as_str() {
        "" => program,
        file if program.starts_with(file) => program,
        file => format!("{file}-{program}"),
    };
    let mut name = base.clone();
    let mut number = 2;
    while !taken.insert(name.clone()) {
        name = format!("{base}-{number}");
        number += 1;
    }
    name
}

/// What a command runs: the first program that is not there to ask or to prepare.
fn program(command: &str) -> Option<String> {
    let separated = ["&&", "||", ";", "|", "(", ")", "{", "}"]
        .iter()
        .fold(command.to_owned(), |text, mark| text.replace(mark, "\n"));
    for part in separated.split('\n') {
        let mut words = part.split_whitespace().peekable();
        if words.peek().is_none_or(|first| PREPARING.contains(first)) {
            continue;
        }
        let is_what = |word: &&str| {
            let base = word.rsplit('/').next().unwrap_or("");
            !(word.starts_with('-')
                || word.contains('=')
                || word.starts_with(|one: char| one.is_ascii_digit())
                || WRAPPERS.contains(&base))
        };
        let Some(word) = words.find(is_what) else { continue };
        let base = word.trim_matches(['"', '\'', '`']).trim_end_matches('/');
        let base = base.rsplit('/').next().unwrap_or("");
        let stem = base.rsplit_once('.').map_or(base, |(stem, _)| stem);
        let name = slug(stem);
        if !name.is_empty() {
            return Some(name);
        }
    }
    None
}

/// Letters, digits and single hyphens, not too many.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for one in text.chars().take(40) {
        match one {
            one if one.is_ascii_alphanumeric() || one == '_' => slug.push(one.to_ascii_lowercase()),
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
    }
    slug.trim_end_matches('-').to_owned()
}
