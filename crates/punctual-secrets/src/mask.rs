//! Taking values out of text: whole texts, and streams that come in pieces.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

/// What stands where a value was.
const MASKED: &str = "•••";

/// A line of a secret with several is masked for itself if it is at least this long: a key comes out
/// line by line, and `}` is in every text.
const LINE_MIN: usize = 8;

/// Replaces every known value by `•••`: as it is, and as it looks within JSON or a URL.
#[derive(Clone, Default)]
pub struct Mask(Arc<Patterns>);

struct Patterns {
    /// The longest first, so that a value which contains another is masked as a whole.
    values: Vec<Vec<u8>>,
    /// Bytes that some value begins with; most bytes of a text are not looked at twice.
    firsts: [bool; 256],
}

impl Default for Patterns {
    fn default() -> Patterns {
        Patterns { values: Vec::new(), firsts: [false; 256] }
    }
}

/// What a place in a text is.
enum Place {
    /// A value of this length begins here.
    Value(usize),
    /// A value may begin here; the bytes that decide it are not there yet.
    Undecided,
    /// Nothing begins here.
    Plain,
}

impl Mask {
    /// A mask for these values.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Mask {
        let mut all: Vec<Vec<u8>> = Vec::new();
        for value in values {
            let lines = value.lines().filter(|line| line.len() >= LINE_MIN && *line != value);
            for text in std::iter::once(value).chain(lines).filter(|text| !text.is_empty()) {
                // Some write JSON in ASCII alone, and URLs in small letters or as forms do.
                let url = in_url(text);
                let forms = [text.to_owned(), in_json(text, false), in_json(text, true)];
                all.extend(forms.map(String::into_bytes));
                all.extend([url.replace("%20", "+"), in_small(&url), url].map(String::into_bytes));
            }
        }
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        let mut firsts = [false; 256];
        for first in all.iter().filter_map(|value| value.first()) {
            firsts[usize::from(*first)] = true;
        }
        Mask(Arc::new(Patterns { values: all, firsts }))
    }

    /// Is there nothing to mask?
    pub fn is_empty(&self) -> bool {
        self.0.values.is_empty()
    }

    /// The length of the longest value, in bytes: what was cut out of a text may begin with the end
    /// of one.
    pub fn longest(&self) -> usize {
        self.0.values.first().map_or(0, Vec::len)
    }

    /// The text without the values; the same text if there is none in it.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let has_value =
            |at: usize| matches!(self.place(&text.as_bytes()[at..], true), Place::Value(_));
        if self.is_empty() || !(0..text.len()).any(has_value) {
            return Cow::Borrowed(text);
        }
        let mut stream = self.stream();
        let mut masked = stream.push(text.as_bytes());
        masked.extend(stream.finish());
        // A value is whole characters, so that what is left is, too.
        Cow::Owned(String::from_utf8(masked).unwrap_or_else(|_| MASKED.to_owned()))
    }

    /// The document without the values: in its texts, in its keys, and where a number is one. If the
    /// whole of it still shows one, since a secret may be a piece of JSON, nothing of it is left.
    pub fn json(&self, document: Value) -> Value {
        if self.is_empty() {
            return document;
        }
        let masked = self.within(document);
        match self.text(&masked.to_string()) {
            Cow::Borrowed(_) => masked,
            Cow::Owned(_) => Value::String(MASKED.to_owned()),
        }
    }

    fn within(&self, document: Value) -> Value {
        match document {
            Value::String(text) => Value::String(self.text(&text).into_owned()),
            Value::Array(items) => items.into_iter().map(|item| self.within(item)).collect(),
            Value::Object(fields) => fields
                .into_iter()
                .map(|(key, value)| (self.text(&key).into_owned(), self.within(value)))
                .collect(),
            Value::Number(number) => match self.text(&number.to_string()) {
                Cow::Borrowed(_) => Value::Number(number),
                Cow::Owned(masked) => Value::String(masked),
            },
            plain => plain,
        }
    }

    /// A mask for bytes that come in pieces, which may part a value.
    pub fn stream(&self) -> MaskStream {
        MaskStream { mask: self.clone(), held: Vec::new() }
    }

    /// What begins where `rest` does, if these are all the bytes or more may come.
    fn place(&self, rest: &[u8], is_all: bool) -> Place {
        let Some(first) = rest.first() else { return Place::Plain };
        if !self.0.firsts[usize::from(*first)] {
            return Place::Plain;
        }
        for value in &self.0.values {
            if rest.starts_with(value) {
                return Place::Value(value.len());
            }
            // Longer values come first: whatever could still become one is waited for.
            if !is_all && value.starts_with(rest) {
                return Place::Undecided;
            }
        }
        Place::Plain
    }
}

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mask({})", self.0.values.len())
    }
}

/// Masks bytes that come in pieces. It holds back no more than the beginning of a value.
#[derive(Debug)]
pub struct MaskStream {
    mask: Mask,
    held: Vec<u8>,
}

impl MaskStream {
    /// Takes the next piece and gives what is decided.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.mask.is_empty() {
            return piece.to_vec();
        }
        self.held.extend_from_slice(piece);
        self.decide(false)
    }

    /// Gives the rest: nothing more comes.
    pub fn finish(&mut self) -> Vec<u8> {
        self.decide(true)
    }

    fn decide(&mut self, is_all: bool) -> Vec<u8> {
        let mut masked = Vec::with_capacity(self.held.len());
        let mut at = 0;
        while let Some(byte) = self.held.get(at) {
            match self.mask.place(&self.held[at..], is_all) {
                Place::Value(length) => {
                    masked.extend_from_slice(MASKED.as_bytes());
                    at += length;
                }
                Place::Undecided => break,
                Place::Plain => {
                    masked.push(*byte);
                    at += 1;
                }
            }
        }
        self.held.drain(..at);
        masked
    }
}

/// The text as it stands within a JSON string.
fn in_json(text: &str, is_ascii: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => escaped.extend(['\\', c]),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            c if is_ascii && !c.is_ascii() => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // A string takes whatever is written to it.
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// The text as it stands within a URL.
fn in_url(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte));
            }
            byte => {
                // A string takes whatever is written to it.
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}

/// A URL's text with its escapes in small letters.
fn in_small(url: &str) -> String {
    let mut parts = url.split('%');
    let mut small = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // Two digits, which are ASCII.
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        small.extend(["%", &digits.to_ascii_lowercase(), rest]);
    }
    small
}
