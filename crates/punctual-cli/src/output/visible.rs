//! Text from elsewhere, made harmless for a terminal: names, errors, notes, log lines and reasons come
//! from jobs, workers and other people, who may put escape sequences in them.

use std::borrow::Cow;
use std::fmt::Write as _;

use punctual_core::is_terminal_control;

/// The text with everything that a terminal would obey in a visible form, such as `\x1b`. Newlines and
/// tabs stay; a newline with a carriage return before it is a newline.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let is_shown = |c: char| matches!(c, '\n' | '\t') || !is_terminal_control(c);
    escaped(text, is_shown)
}

/// The same for a text that must not be taken for several lines or columns.
pub(crate) fn on_one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| !is_terminal_control(c))
}

/// The codes with which the formatter of the log sets fonts and colours: reset, bold, dimmed, italic and
/// the colours of levels. None of them hides or covers text.
const LOG_CODES: [&str; 9] = ["0", "1", "2", "3", "31", "32", "33", "34", "35"];

/// The same for an event of the log: the formatter's own fonts and colours stay. Values of fields may
/// contain the same sequences, which a reader sees as colours, but no others.
pub(crate) fn visible_with_colors(text: &str) -> String {
    let mut pieces = text.split('\x1b');
    let mut shown = visible(pieces.next().unwrap_or_default()).into_owned();
    for piece in pieces {
        let code = piece.strip_prefix('[').and_then(|code| code.split_once('m'));
        shown.push_str(match code {
            Some((code, _)) if LOG_CODES.contains(&code) => "\x1b",
            _ => "\\x1b",
        });
        shown.push_str(&visible(piece));
    }
    shown
}

fn escaped(text: &str, is_shown: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.chars().all(&is_shown) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        // A string takes whatever is written to it.
        let _ = match c {
            '\r' if rest.peek() == Some(&'\n') => Ok(()),
            c if is_shown(c) => escaped.write_char(c),
            '\n' => escaped.write_str("\\n"),
            '\t' => escaped.write_str("\\t"),
            '\r' => escaped.write_str("\\r"),
            c if c.is_ascii() => write!(escaped, "\\x{:02x}", u32::from(c)),
            c => write!(escaped, "\\u{{{:x}}}", u32::from(c)),
        };
    }
    Cow::Owned(escaped)
}

/// A JSON document that means the same and has nothing in it that a terminal would obey. JSON escapes
/// only the control characters of ASCII; the others occur only in strings, where they can be escaped.
pub(crate) fn in_json(document: &str) -> Cow<'_, str> {
    let is_obeyed = |c: char| c > '\x1f' && is_terminal_control(c);
    if !document.contains(is_obeyed) {
        return Cow::Borrowed(document);
    }
    let mut escaped = String::with_capacity(document.len() + 16);
    for c in document.chars() {
        // A string takes whatever is written to it. None of them needs a surrogate pair.
        let _ = match is_obeyed(c) {
            true => write!(escaped, "\\u{:04x}", u32::from(c)),
            false => escaped.write_char(c),
        };
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_lines_stay() {
        assert_eq!(visible("plain – text\n\tof é 漢"), "plain – text\n\tof é 漢");
        assert_eq!(visible("\x1b]0;title\x07"), "\\x1b]0;title\\x07");
        assert_eq!(visible("\x1b[2J\x7f\0"), "\\x1b[2J\\x7f\\x00");
        assert_eq!(visible("\u{9b}2J a\u{202e}b"), "\\u{9b}2J a\\u{202e}b");
        assert_eq!(visible("dos\r\nover\rwrite"), "dos\nover\\rwrite");
        assert_eq!(on_one_line("a\nb\tc\r\n"), "a\\nb\\tc\\n");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let text = "\x1b]0;x\x07 \x7f \u{9b}2J \u{202e} \u{2066} é";
        let plain = serde_json::json!({ "text": text }).to_string();
        let safe = in_json(&plain);
        assert!(!safe.chars().any(is_terminal_control), "{safe:?}");
        let read: serde_json::Value = serde_json::from_str(&safe).unwrap();
        assert_eq!(read["text"], text);
        assert!(matches!(in_json("{\"a\":\"é\"}"), Cow::Borrowed(_)));
    }
}
