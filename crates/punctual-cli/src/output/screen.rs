//! Standard output and standard error. Every text that is written there passes
//! [`visible`](super::visible), so that no command can forget it. Only this program's own styles reach
//! a terminal as they are.

use std::fmt;
use std::io::{self, Write};

use super::visible;

/// An escape sequence of this program: in a format string, `{FAINT}` begins it and `{FAINT:#}` ends it.
pub(crate) struct Style<const N: usize>([u8; N]);

static END: Style<4> = Style(*b"\x1b[0m");
/// For labels and what is of less weight.
pub(crate) static FAINT: Style<4> = Style(*b"\x1b[2m");
/// For what should not be overlooked.
pub(crate) static NOTICE: Style<5> = Style(*b"\x1b[33m");
pub(crate) static ERROR: Style<7> = Style(*b"\x1b[1;31m");
pub(crate) static WARNING: Style<7> = Style(*b"\x1b[1;33m");
pub(crate) static HINT: Style<5> = Style(*b"\x1b[36m");
/// Moves to the corner of the screen and clears it.
pub(crate) static CLEAR: Style<7> = Style(*b"\x1b[H\x1b[2J");

impl<const N: usize> Style<N> {
    /// Is it this one, and not a text from elsewhere that looks the same? A static has an address that
    /// nothing else has, and formatting hands its bytes on without a copy.
    fn is(&self, piece: &[u8]) -> bool {
        std::ptr::eq(self.0.as_slice(), piece)
    }

    fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Is it one of the program's styles?
fn is_style(piece: &[u8]) -> bool {
    END.is(piece)
        || FAINT.is(piece)
        || NOTICE.is(piece)
        || ERROR.is(piece)
        || WARNING.is(piece)
        || HINT.is(piece)
        || CLEAR.is(piece)
}

impl<const N: usize> fmt::Display for Style<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if f.alternate() { END.as_str() } else { self.as_str() })
    }
}

/// A stream for people. Each piece of a formatted text is written on its own.
pub(crate) struct Screen<W: Write>(W);

/// Standard output, locked.
pub(crate) fn stdout() -> Screen<impl Write> {
    #[expect(clippy::disallowed_methods, reason = "the only place that writes to it")]
    Screen(anstream::stdout().lock())
}

/// Standard error, locked.
pub(crate) fn stderr() -> Screen<impl Write> {
    #[expect(clippy::disallowed_methods, reason = "the only place that writes to it")]
    Screen(anstream::stderr().lock())
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.write_all(piece)?;
        Ok(piece.len())
    }

    fn write_all(&mut self, piece: &[u8]) -> io::Result<()> {
        match is_style(piece) {
            true => self.0.write_all(piece),
            false => self.0.write_all(visible(&String::from_utf8_lossy(piece)).as_bytes()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_styles_pass_and_the_same_text_from_elsewhere_is_shown() {
        let foreign = String::from("\x1b[2m");
        let mut written = Screen(Vec::new());
        write!(written, "{FAINT}{foreign}{FAINT:#} {WARNING}{foreign:<6}{WARNING:#}|").unwrap();
        let written = String::from_utf8(written.0).unwrap();
        assert_eq!(written, "\x1b[2m\\x1b[2m\x1b[0m \x1b[1;33m\\x1b[2m  \x1b[0m|");
    }
}
