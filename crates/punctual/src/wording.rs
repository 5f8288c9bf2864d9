//! How lengths of time, instants, names and counts are put in words.

use std::fmt::Display;
use std::time::Duration;

use punctual_core::{Timestamp, format_duration};

/// A length of time as people say it: no finer than seconds, and from a day on than minutes.
pub(crate) fn length(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0 => "less than 1s".to_owned(),
        86_400.. => format_duration(Duration::from_secs(seconds - seconds % 60)),
        _ => format_duration(Duration::from_secs(seconds)),
    }
}

/// An instant, to the second.
pub(crate) fn instant(instant: Timestamp) -> String {
    Timestamp::from_seconds(instant.floor_seconds()).to_string()
}

/// An instant beside now: `4m10s ago (2027-01-15T08:00:00Z)` or `in 4m10s (…)`.
pub(crate) fn when(now: Timestamp, then: Timestamp) -> String {
    let at = instant(then);
    if then > now {
        return format!("in {} ({at})", length(then.since(now)));
    }
    format!("{} ago ({at})", length(now.since(then)))
}

/// How long something has lasted: `for 4m10s (since 2027-01-15T08:00:00Z)`.
pub(crate) fn lasting(now: Timestamp, since: Timestamp) -> String {
    format!("for {} (since {})", length(now.since(since)), instant(since))
}

/// A count and what is counted.
pub(crate) fn count(count: u64, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {many}"),
    }
}

/// How much of a list is told: more would be read by nobody.
const SHOWN: usize = 5;

/// The first few of a list, and how many there are beside.
pub(crate) fn listed(items: impl IntoIterator<Item = impl Display>) -> String {
    let (mut items, more) = first_few(items);
    if more > 0 {
        return format!("{} and {more} more", items.join(", "));
    }
    match items.pop() {
        Some(last) if !items.is_empty() => format!("{} and {last}", items.join(", ")),
        last => last.unwrap_or_default(),
    }
}

/// The same for clauses, which have lists of their own.
pub(crate) fn apart(clauses: impl IntoIterator<Item = impl Display>) -> String {
    match first_few(clauses) {
        (clauses, 0) => clauses.join("; "),
        (clauses, more) => format!("{}; and {more} more", clauses.join("; ")),
    }
}

fn first_few(items: impl IntoIterator<Item = impl Display>) -> (Vec<String>, usize) {
    let mut items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    // One more is as short as to say that there is one.
    let more = if items.len() > SHOWN + 1 { items.len() - SHOWN } else { 0 };
    items.truncate(items.len() - more);
    (items, more)
}

/// A name in a sentence.
pub(crate) fn quoted(name: &str) -> String {
    format!("`{name}`")
}

/// A name in a command, which may be pasted into a shell.
pub(crate) fn argument(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@+".contains(letter);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}

/// The beginning of a text that may be long: its first line.
pub(crate) fn brief(text: &str) -> String {
    const LETTERS: usize = 200;
    let mut lines = text.trim().lines();
    let line = lines.next().unwrap_or_default().trim_end();
    match line.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if lines.next().is_some() => format!("{line} …"),
        None => line.to_owned(),
    }
}

/// A text after a colon; nothing if there is none.
pub(crate) fn after_colon(text: &str) -> String {
    match brief(text) {
        text if text.is_empty() => text,
        text => format!(": {text}"),
    }
}

/// `did you mean …?`, if a name is near enough to one that exists.
pub(crate) fn did_you_mean<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    punctual_core::nearest(name, known).map(|near| format!("did you mean `{near}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_fine_as_people_need_them() {
        let said = |micros: u64| length(Duration::from_micros(micros));
        let s = 1_000_000;
        assert_eq!(said(900_000), "less than 1s");
        assert_eq!(said(250 * s + 17), "4m10s");
        assert_eq!(said(3 * 86_400 * s + 7_325 * s), "3d2h2m");
    }

    #[test]
    fn instants_are_told_beside_now() {
        let now = Timestamp::from_seconds(1_800_000_000);
        let later = now + Duration::from_micros(250_400_000);
        assert_eq!(when(now, later), "in 4m10s (2027-01-15T08:04:10Z)");
        assert_eq!(when(later, now), "4m10s ago (2027-01-15T08:00:00Z)");
        assert_eq!(when(now, now), "less than 1s ago (2027-01-15T08:00:00Z)");
        assert_eq!(lasting(later, now), "for 4m10s (since 2027-01-15T08:00:00Z)");
    }

    #[test]
    fn long_lists_are_cut_and_counts_have_a_plural() {
        assert_eq!(listed(["a"]), "a");
        assert_eq!(listed(["a", "b"]), "a and b");
        assert_eq!(listed(["a", "b", "c", "d", "e", "f"]), "a, b, c, d, e and f");
        assert_eq!(listed(["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
        assert_eq!(listed(Vec::<String>::new()), "");
        assert_eq!(apart(["a", "b"]), "a; b");
        assert_eq!(apart(["a"; 8]), "a; a; a; a; a; and 3 more");
        assert_eq!(count(1, "job", "jobs"), "1 job");
        assert_eq!(count(10_000, "job", "jobs"), "10000 jobs");
    }

    #[test]
    fn a_name_in_a_command_does_nothing_in_a_shell() {
        assert_eq!(argument("mail-eu"), "mail-eu");
        assert_eq!(argument("it's $(late)"), r"'it'\''s $(late)'");
        assert_eq!(argument(""), "''");
    }

    #[test]
    fn of_a_long_text_the_beginning_is_told() {
        assert_eq!(brief("boom\nat line 7"), "boom …");
        assert_eq!(brief(&"é".repeat(300)), format!("{}…", "é".repeat(200)));
        assert_eq!(after_colon("  "), "");
    }
}
