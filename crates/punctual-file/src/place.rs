//! Where something stands in a file, and what is wrong there.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// A file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What it is called in messages.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// A place in a file, counted from 1; columns count characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The file.
    pub path: String,
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// Something that is wrong, its place, and the way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// What is wrong, with the value.
    pub message: String,
    /// What would be right.
    pub hint: Option<String>,
    /// The line and the carets under it; boxed, since what is right should not carry room for it.
    #[serde(skip)]
    excerpt: Option<Box<(String, String)>>,
}

/// All that is wrong, in the order of files and lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes(pub Vec<Mistake>);

/// The most characters of a line that a message repeats.
const ECHO: usize = 120;

impl Source {
    /// A text under a name.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Source {
        Source { path: path.into(), text: text.into() }
    }

    /// Where a byte of it stands.
    pub(crate) fn place(&self, byte: usize) -> Place {
        let before = &self.text[..self.text.floor_char_boundary(byte)];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Place {
            path: self.path.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    /// The byte that stands at a place of it.
    pub(crate) fn byte(&self, place: &Place) -> usize {
        let line_start: usize =
            self.text.split_inclusive('\n').take(place.line - 1).map(str::len).sum();
        let line = self.text.get(line_start..).unwrap_or("");
        let column = line.char_indices().nth(place.column - 1).map_or(line.len(), |(at, _)| at);
        line_start + column
    }

    /// A mistake at these bytes.
    pub(crate) fn mistake(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Mistake {
        Mistake {
            place: self.place(span.start),
            message: message.into(),
            hint,
            excerpt: self.excerpt(span).map(Box::new),
        }
    }

    /// The line of a mistake, from a little before it if it is long, and carets under the place.
    fn excerpt(&self, span: Range<usize>) -> Option<(String, String)> {
        let start = self.text.floor_char_boundary(span.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let rest = &self.text[line_start..];
        let line = rest.split('\n').next().unwrap_or("").trim_end_matches('\r');
        if line.trim().is_empty() {
            return None;
        }
        let before = self.text[line_start..start].chars().count();
        let skipped = if line.chars().count() > ECHO { before.saturating_sub(ECHO / 2) } else { 0 };
        let (mut shown, mut carets) = (String::new(), String::new());
        for (byte, character) in line.char_indices().skip(skipped).take(ECHO) {
            let at = line_start + byte;
            let is_plain =
                character == ' ' || !(character.is_control() || character.is_whitespace());
            shown.push(if is_plain { character } else { ' ' });
            let is_first = at == start;
            carets.push(if is_first || span.contains(&at) { '^' } else { ' ' });
        }
        if start >= line_start + line.len() {
            carets.push('^');
        }
        Some((shown.trim_end().to_owned(), carets.trim_end().to_owned()))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.path, self.line, self.column)
    }
}

/// Over several lines: the place and what is wrong, the line, carets, a hint.
impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        if let Some((line, carets)) = self.excerpt.as_deref() {
            write!(f, "\n  {line}\n  {carets}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mistake in &self.0 {
            writeln!(f, "{mistake}")?;
        }
        match self.0.len() {
            1 => write!(f, "1 error found"),
            count => write!(f, "{count} errors found"),
        }
    }
}

impl std::error::Error for Mistakes {}

/// At most so much of what somebody wrote, on one line.
pub(crate) fn echo(text: &str) -> String {
    let shown = text.chars().map(|one| if one.is_control() { ' ' } else { one });
    let mut echoed: String = shown.take(ECHO).collect();
    if text.chars().nth(ECHO).is_some() {
        echoed.push('…');
    }
    echoed
}
