//! The list of idioms that the project's texts do without, and the search for them.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex_lite::Regex;

const LIST: &str = include_str!("idioms.txt");

/// Prefix of the lines in the list whose matches are removed before the search.
const EXCEPTION: &str = "! ";

static IDIOMS: LazyLock<Regex> = LazyLock::new(|| {
    let idioms = lines().filter(|line| !line.starts_with(EXCEPTION));
    compile(&format!(r"\b(?:{})\b", idioms.collect::<Vec<_>>().join("|")))
});

static EXCEPTIONS: LazyLock<Regex> = LazyLock::new(|| {
    let exceptions = lines().filter_map(|line| line.strip_prefix(EXCEPTION));
    compile(&exceptions.collect::<Vec<_>>().join("|"))
});

fn lines() -> impl Iterator<Item = &'static str> {
    LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The expression, in any case and with any white space between its words.
fn compile(pattern: &str) -> Regex {
    let pattern = format!("(?i){}", pattern.replace(' ', r"\s+"));
    Regex::new(&pattern).unwrap_or_else(|error| panic!("invalid line in idioms.txt: {error}"))
}

/// The idioms in a text with the byte offset of each.
pub(super) fn find(text: &str) -> Vec<(usize, String)> {
    let searched = without_exceptions(text);
    IDIOMS.find_iter(&searched).map(|found| (found.start(), found.as_str().to_owned())).collect()
}

/// The text with exceptions replaced by as many bytes, so that offsets stay valid.
fn without_exceptions(text: &str) -> Cow<'_, str> {
    EXCEPTIONS.replace_all(text, |found: &regex_lite::Captures<'_>| "-".repeat(found[0].len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found: Vec<String> = find(text).into_iter().map(|(_, idiom)| idiom).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn idioms_are_found_in_any_case_and_across_lines() {
        check("Whoever asks is told.", &["Whoever", "told"]);
        check("the job goes\n  on", &["goes\n  on"]);
        check("`x` is no id", &["is no id"]);
    }

    #[test]
    fn parts_of_words_do_not_count() {
        check("retold, standstill, behindhand, hosted besides", &[]);
    }

    #[test]
    fn exceptions_hide_only_their_own_words() {
        check("there is no token; the lease is no longer valid; MSRV stands for it", &[]);
        check("there is no token for whoever asks", &["whoever"]);
        check("there is no one; there are no online nodes", &["is no one"]);
        check("user `nobody`; if value is None: there are none", &["are none"]);
    }

    #[test]
    fn an_offset_is_that_of_the_original_text() {
        assert_eq!(find("there are no jobs; nobody"), [(19, "nobody".to_owned())]);
    }
}
