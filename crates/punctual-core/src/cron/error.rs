//! What is wrong with an expression, and where.

use std::fmt;
use std::ops::Range;

use super::Unit;

/// The kind of mistake, as a stable word for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CronErrorCode {
    /// There is nothing to read.
    Empty,
    /// Longer than any sensible expression.
    TooLong,
    /// Not five, six or seven fields.
    FieldCount,
    /// A number outside the field's range.
    OutOfRange,
    /// A value, a range end or a list item is missing.
    MissingValue,
    /// A name that the field does not know.
    UnknownName,
    /// A character or combination that means nothing here.
    Unexpected,
    /// `a-b` with a above b.
    DescendingRange,
    /// `n/s`: a step needs `*` or a range.
    StepNeedsRange,
    /// A step of zero or above the number of values.
    BadStep,
    /// `L`, `W`, `#`, `?`, `+` or `H` where it cannot stand.
    Misplaced,
    /// `*/n` in one day field while the other is restricted.
    AmbiguousDays,
    /// An `@word` that is none of the nicknames.
    UnknownNickname,
    /// A zone inside the expression.
    ZoneInside,
    /// `H` without a schedule name to spread by.
    NameNeeded,
    /// `@every` without a usable length of time.
    BadInterval,
    /// `@at` without a usable instant.
    BadInstant,
}

impl CronErrorCode {
    /// The word for this kind, as it appears in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            CronErrorCode::Empty => "empty",
            CronErrorCode::TooLong => "too_long",
            CronErrorCode::FieldCount => "field_count",
            CronErrorCode::OutOfRange => "out_of_range",
            CronErrorCode::MissingValue => "missing_value",
            CronErrorCode::UnknownName => "unknown_name",
            CronErrorCode::Unexpected => "unexpected",
            CronErrorCode::DescendingRange => "descending_range",
            CronErrorCode::StepNeedsRange => "step_needs_range",
            CronErrorCode::BadStep => "bad_step",
            CronErrorCode::Misplaced => "misplaced",
            CronErrorCode::AmbiguousDays => "ambiguous_days",
            CronErrorCode::UnknownNickname => "unknown_nickname",
            CronErrorCode::ZoneInside => "zone_inside",
            CronErrorCode::NameNeeded => "name_needed",
            CronErrorCode::BadInterval => "bad_interval",
            CronErrorCode::BadInstant => "bad_instant",
        }
    }
}

/// Why an expression was refused: the first mistake in it, its place and the way out.
///
/// `Display` is one line; [`CronError::report`] adds the expression with a caret under
/// the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", self.message(), self.hint_suffix())]
pub struct CronError(Box<Mistake>);

/// Boxed, since an expression that is right should not carry room for what may be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mistake {
    code: CronErrorCode,
    field: Option<Unit>,
    span: Range<usize>,
    /// A second place that takes part in the mistake.
    also: Option<Range<usize>>,
    message: String,
    hint: Option<String>,
    text: String,
}

impl CronError {
    pub(crate) fn new(
        code: CronErrorCode,
        text: &str,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> CronError {
        // Some mistakes are shown with what stands beside them, which may be nothing.
        let end = text.floor_char_boundary(span.end.min(text.len()));
        let start = text.floor_char_boundary(span.start.min(end));
        CronError(Box::new(Mistake {
            code,
            field: None,
            span: start..end,
            also: None,
            message: message.into(),
            hint: None,
            text: text.to_owned(),
        }))
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<Hint>) -> CronError {
        self.0.hint = hint.into().0;
        self
    }

    pub(super) fn in_field(mut self, unit: Unit) -> CronError {
        self.0.field = Some(unit);
        self
    }

    pub(super) fn and_at(mut self, also: Range<usize>) -> CronError {
        self.0.also = Some(also);
        self
    }

    /// The expression, as it was written.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The kind of mistake.
    pub fn code(&self) -> CronErrorCode {
        self.0.code
    }

    /// The field it is in, if it is in one.
    pub fn field(&self) -> Option<Unit> {
        self.0.field
    }

    /// The bytes of the expression that are at fault.
    pub fn span(&self) -> Range<usize> {
        self.0.span.clone()
    }

    /// What would be right, often a corrected expression.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The message on one line, without the hint.
    pub fn message(&self) -> String {
        format!("{}{}", self.field_prefix(), self.0.message)
    }

    /// The message over several lines: what, the expression, a caret under the place, a hint.
    pub fn report(&self) -> impl fmt::Display {
        Report { error: self, has_hint: true }
    }

    /// The same without the hint.
    pub fn marked(&self) -> impl fmt::Display {
        Report { error: self, has_hint: false }
    }

    fn field_prefix(&self) -> String {
        self.0.field.map_or_else(String::new, |unit| format!("{}: ", unit.name()))
    }

    fn hint_suffix(&self) -> String {
        self.0.hint.as_ref().map_or_else(String::new, |hint| format!(" (hint: {hint})"))
    }
}

/// The way out, where there is one to offer.
pub(crate) struct Hint(Option<String>);

impl From<&str> for Hint {
    fn from(hint: &str) -> Hint {
        Hint(Some(hint.to_owned()))
    }
}

impl From<String> for Hint {
    fn from(hint: String) -> Hint {
        Hint(Some(hint))
    }
}

impl From<Option<String>> for Hint {
    fn from(hint: Option<String>) -> Hint {
        Hint(hint)
    }
}

/// The most characters of a user's text that a message repeats.
const ECHO: usize = 120;

/// What a message repeats of a user's text: no control characters, and not without end.
pub(crate) fn echo(text: &str) -> String {
    let mut echoed: String = text.chars().take(ECHO).map(printable).collect();
    if text.chars().nth(ECHO).is_some() {
        echoed.push('…');
    }
    echoed
}

/// One character of the text for one column on the screen, so that carets stay aligned, and
/// nothing that a terminal or a reader could take for a command.
fn printable(character: char) -> char {
    match character {
        '\t' => ' ',
        seen if seen == ' ' || seen.is_ascii_graphic() || seen.is_alphanumeric() => seen,
        _ => '\u{FFFD}',
    }
}

struct Report<'a> {
    error: &'a CronError,
    has_hint: bool,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = self.error;
        f.write_str(&error.message())?;
        if !error.0.text.trim().is_empty() {
            let (line, carets) = error.excerpt();
            write!(f, "\n  {}\n  {}", line.trim_end(), carets.trim_end())?;
        }
        match error.hint().filter(|_| self.has_hint) {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl CronError {
    /// The part of the expression around the mistake, and carets under it.
    fn excerpt(&self) -> (String, String) {
        let mistake = &self.0;
        let at_fault = |byte: usize| {
            let within = |span: &Range<usize>| span.contains(&byte);
            within(&mistake.span) || mistake.also.as_ref().is_some_and(within)
        };
        // A long expression is shown from a little before the mistake.
        let before = mistake.text[..mistake.span.start.min(mistake.text.len())].chars().count();
        let skipped =
            if mistake.text.chars().count() > ECHO { before.saturating_sub(ECHO / 2) } else { 0 };
        let mut line = String::new();
        let mut carets = String::new();
        for (byte, character) in mistake.text.char_indices().skip(skipped).take(ECHO) {
            line.push(printable(character));
            carets.push(if at_fault(byte) { '^' } else { ' ' });
        }
        if mistake.span.start >= mistake.text.len() {
            carets.push('^');
        }
        (line, carets)
    }
}
