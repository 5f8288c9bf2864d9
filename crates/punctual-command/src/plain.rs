//! Plain text from what programs write to terminals.

/// Takes escape sequences and control characters out of bytes that come in pieces. What is left is
/// text, tabs and ends of lines.
#[derive(Debug, Default)]
pub(crate) struct Plain(State);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// Behind ESC.
    Escape,
    /// Within `ESC [ …`.
    Sequence,
    /// Within a text that is for the terminal, as a title.
    String,
    /// Behind ESC within such a text.
    StringEscape,
    /// Behind the first byte of what may be a control character of two.
    Wide,
}

impl Plain {
    pub(crate) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut plain = Vec::with_capacity(piece.len());
        for byte in piece {
            self.take(*byte, &mut plain);
        }
        plain
    }

    /// Gives what was held back: nothing more comes.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        match std::mem::take(&mut self.0) {
            State::Wide => vec![0xc2],
            _ => Vec::new(),
        }
    }

    fn take(&mut self, byte: u8, plain: &mut Vec<u8>) {
        let next = match (self.0, byte) {
            (State::Wide, 0x80..=0x9f) => State::Text,
            (State::Wide, byte) => {
                plain.push(0xc2);
                return self.again(byte, plain);
            }
            (State::Text, 0x1b) => State::Escape,
            (State::Text, 0xc2) => State::Wide,
            (State::Text, b'\n' | b'\r' | b'\t') => {
                plain.push(byte);
                State::Text
            }
            (State::Text, 0..=0x1f | 0x7f) => State::Text,
            (State::Text, byte) => {
                plain.push(byte);
                State::Text
            }
            // Whatever is not closed ends with its line: it must not swallow the rest.
            (State::Escape | State::Sequence | State::String | State::StringEscape, b'\n') => {
                return self.again(byte, plain);
            }
            (State::Escape, b'[') => State::Sequence,
            (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => State::String,
            (State::Escape, 0x20..=0x2f) => State::Escape,
            (State::Escape, _) => State::Text,
            (State::Sequence, 0x20..=0x3f) => State::Sequence,
            (State::Sequence, 0x40..=0x7e) => State::Text,
            (State::Sequence, byte) => return self.again(byte, plain),
            (State::String, 0x07) => State::Text,
            (State::String, 0x1b) => State::StringEscape,
            (State::String, _) => State::String,
            (State::StringEscape, b'\\') => State::Text,
            (State::StringEscape, _) => State::String,
        };
        self.0 = next;
    }

    fn again(&mut self, byte: u8, plain: &mut Vec<u8>) {
        self.0 = State::Text;
        self.take(byte, plain);
    }
}
