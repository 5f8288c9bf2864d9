//! Characters that a terminal obeys instead of showing.

/// Does a terminal act on the character, or does it change the order in which the text around it is
/// shown? These are the control characters of ASCII and C1, and the separators and bidirectional
/// controls of Unicode. Newlines and tabs are among them: whether a text may have lines is the
/// caller's decision.
pub fn is_terminal_control(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_told_from_text() {
        for c in ['\0', '\n', '\t', '\x1b', '\x7f', '\u{80}', '\u{9b}', '\u{9f}'] {
            assert!(is_terminal_control(c), "{c:?}");
        }
        for c in ['\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}']
        {
            assert!(is_terminal_control(c), "{c:?}");
        }
        for c in [' ', 'a', '\u{a0}', 'é', '–', '•', '漢', '🕐', '\u{200d}', '\u{2065}'] {
            assert!(!is_terminal_control(c), "{c:?}");
        }
    }
}
