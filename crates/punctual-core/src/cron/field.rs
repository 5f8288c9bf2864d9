//! One field of an expression: lists, ranges, steps, names and `H`.

use std::iter;
use std::ops::Range;

use super::error::{CronError, CronErrorCode as Code};
use super::spread::Spread;
use super::unit::{FIRST_YEAR, Unit};
use super::{echo, hints};

const STEP_NEEDS_RANGE: &str = "a step needs `*` or a range before `/`";

/// The text of one field, with its place in the expression.
pub(super) struct Field<'a> {
    pub(super) text: &'a str,
    pub(super) unit: Unit,
    pub(super) span: Range<usize>,
    /// The seed of the schedule's name, which `H` needs.
    pub(super) seed: Option<u64>,
}

/// The values that a field names.
#[derive(Default)]
pub(super) struct Values {
    pub(super) bits: [u64; 4],
    pub(super) star: bool,
    pub(super) spread: Option<Spread>,
}

impl Values {
    fn add(&mut self, low: u32, high: u32, step: u32) {
        if high < 64 {
            self.bits[0] |= stepped(low, high, step);
            return;
        }
        for value in (low..=high).step_by(step as usize) {
            self.bits[(value / 64) as usize] |= 1 << (value % 64);
        }
    }

    /// Was the field written as a cadence rather than as fixed values?
    pub(super) fn is_wild(&self) -> bool {
        self.star || self.spread.is_some_and(|spread| spread.step.is_some())
    }
}

/// The bits from `low` to `high`, which is below 64, at a distance of `step`.
pub(super) fn stepped(low: u32, high: u32, step: u32) -> u64 {
    if step == 1 {
        return (!0 >> (63 - (high - low))) << low;
    }
    let (mut bits, mut value) = (0, low);
    while value <= high {
        bits |= 1 << value;
        value += step;
    }
    bits
}

/// One comma-separated part of a field: where it is, and where its `-` and `/` are.
pub(super) struct Item {
    pub(super) start: usize,
    dash: Option<usize>,
    slash: Option<usize>,
    pub(super) end: usize,
}

impl Item {
    pub(super) fn span(&self) -> Range<usize> {
        self.start..self.end
    }

    pub(super) fn as_str<'a>(&self, text: &'a str) -> &'a str {
        &text[self.span()]
    }

    /// What stands before the step.
    fn base(&self) -> Range<usize> {
        self.start..self.slash.unwrap_or(self.end)
    }

    fn step(&self) -> Option<Range<usize>> {
        self.slash.map(|slash| slash + 1..self.end)
    }
}

impl<'a> Field<'a> {
    pub(super) fn as_str(&self) -> &'a str {
        &self.text[self.span.clone()]
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.span.clone()]
    }

    /// Reads a field that has no letters of its own but `H`.
    pub(super) fn values(&self) -> Result<Values, CronError> {
        let mut values = Values::default();
        for item in self.items(self.span.start) {
            self.add_item(&item, &mut values)?;
        }
        Ok(values)
    }

    /// The comma-separated parts of the field from `start` on.
    pub(super) fn items(&self, start: usize) -> impl Iterator<Item = Item> + use<'a> {
        let (bytes, end) = (self.text.as_bytes(), self.span.end);
        let mut rest = Some(start);
        iter::from_fn(move || {
            let start = rest.take()?;
            let mut item = Item { start, dash: None, slash: None, end };
            let mut at = start;
            while at < end {
                match bytes[at] {
                    b',' => {
                        item.end = at;
                        rest = Some(at + 1);
                        break;
                    }
                    b'-' if item.dash.is_none() && item.slash.is_none() => item.dash = Some(at),
                    b'/' if item.slash.is_none() => item.slash = Some(at),
                    _ => {}
                }
                at += 1;
            }
            Some(item)
        })
    }

    /// Reads `*`, `n`, `a-b` or `H`, each perhaps with a step.
    pub(super) fn add_item(&self, item: &Item, values: &mut Values) -> Result<(), CronError> {
        let base = item.base();
        let (low, high) = match self.text.as_bytes()[base.clone()] {
            [] if item.slash.is_some() => {
                return Err(self.missing(item.span(), STEP_NEEDS_RANGE));
            }
            [] => {
                let around = item.start.saturating_sub(1)..item.end + 1;
                return Err(self.missing(around, "a comma needs a value on both sides"));
            }
            [b'*'] => {
                values.star = true;
                (self.unit.low(), self.unit.high())
            }
            [b'H'] | [b'H', b'(', ..] if self.unit != Unit::Year => {
                return self.add_spread(item, values);
            }
            _ => match (item.dash, item.step()) {
                (Some(dash), _) => self.range(base, dash)?,
                (None, Some(step)) => return Err(self.step_without_range(item.span(), base, step)),
                (None, None) => {
                    let value = self.value(base, false)?;
                    (value, value)
                }
            },
        };
        let step = match item.step() {
            Some(step) => self.step(step, self.unit.size())?,
            None => 1,
        };
        // Years are counted from the first one, so that they fit.
        let origin = if self.unit == Unit::Year { FIRST_YEAR } else { 0 };
        values.add(low - origin, high - origin, step);
        Ok(())
    }

    fn add_spread(&self, item: &Item, values: &mut Values) -> Result<(), CronError> {
        // A `+` before the whole day-of-week field is not part of its items.
        if self.as_str().trim_start_matches('+') != item.as_str(self.text) {
            let message = "`H` must be the only value of its field";
            return Err(self
                .error(Code::Misplaced, item.span(), message)
                .with_hint("to limit the values that `H` can have, use `H(a-b)`"));
        }
        let base = item.base();
        let inner = base.start + 1..base.end;
        let mut spread = Spread { range: None, step: None };
        if !inner.is_empty() {
            let text = &self.text[inner.clone()];
            let Some(dash) = item.dash.filter(|_| text.ends_with(')')) else {
                let message = "invalid range of `H`; use `H(a-b)`";
                return Err(self.error(Code::Unexpected, base, message));
            };
            let (low, high) = self.range(inner.start + 1..inner.end - 1, dash)?;
            spread.range = Some((low as u8, high as u8));
        }
        if let Some(step) = item.step() {
            let (low, high) = spread.bounds(self.unit);
            spread.step = Some(self.step(step, high - low + 1)? as u8);
        }
        let Some(seed) = self.seed else {
            let message = "`H` is derived from the schedule name, but no name was given";
            return Err(self
                .error(Code::NameNeeded, item.span(), message)
                .with_hint(hints::NAME_NEEDED));
        };
        let (low, high, step) = spread.resolve(seed, self.unit);
        values.add(low, high, step);
        values.spread = Some(spread);
        Ok(())
    }

    fn range(&self, span: Range<usize>, dash: usize) -> Result<(u32, u32), CronError> {
        if dash == span.start {
            return Err(self.missing(span, "a range needs a value before `-`"));
        }
        if dash + 1 == span.end {
            return Err(self.missing(span, "a range needs a value after `-`"));
        }
        let (left, right) = (span.start..dash, dash + 1..span.end);
        let (low, high) = (self.value(left.clone(), false)?, self.value(right.clone(), true)?);
        if low <= high {
            return Ok((low, high));
        }
        let message = format!("the range `{}` is reversed", echo(&self.text[span.clone()]));
        let error = self.error(Code::DescendingRange, span.clone(), message);
        // `H(a-b)` takes one range only.
        if self.text.as_bytes().get(span.end) == Some(&b')') {
            return Err(error);
        }
        let (left, right) = (&self.text[left], &self.text[right]);
        Err(error.with_hint(hints::descending(self.unit, (left, low), (right, high))))
    }

    fn step(&self, span: Range<usize>, most: u32) -> Result<u32, CronError> {
        if span.is_empty() {
            return Err(self.missing(span.start - 1..span.end, "a step needs a number after `/`"));
        }
        match self.number(span.clone())? {
            0 => Err(self.error(Code::BadStep, span, "the step must be at least 1")),
            step if step > most => {
                let written = echo(&self.text[span.clone()]);
                let message = format!("the step must be at most {most}, got {written}");
                let error = self.error(Code::BadStep, span, message);
                Err(error.with_hint(hints::large_step(self.unit, step)))
            }
            step => Ok(step),
        }
    }

    fn step_without_range(
        &self,
        item: Range<usize>,
        base: Range<usize>,
        step: Range<usize>,
    ) -> CronError {
        // A value or a step that is itself wrong is the better thing to report.
        let (value, step) = match (self.value(base, false), self.number(step)) {
            (Err(error), _) | (_, Err(error)) => return error,
            (Ok(value), Ok(step)) => (value, step),
        };
        self.error(Code::StepNeedsRange, item, STEP_NEEDS_RANGE)
            .with_hint(hints::step_without_range(self.unit, value, step))
    }

    /// A number or a name of the field. `ends_range`: `SUN` at the right of a range is 7.
    pub(super) fn value(&self, span: Range<usize>, ends_range: bool) -> Result<u32, CronError> {
        let (text, unit) = (&self.text.as_bytes()[span.clone()], self.unit);
        if text.first().is_some_and(u8::is_ascii_alphabetic) {
            let is_text = |name: &&str| name.as_bytes().eq_ignore_ascii_case(text);
            return match unit.names().iter().position(is_text) {
                Some(0) if unit == Unit::DayOfWeek && ends_range => Ok(7),
                Some(index) => Ok(index as u32 + unit.low()),
                None => {
                    let (code, message, hint) = hints::unknown_word(unit, &self.text[span.clone()]);
                    Err(self.error(code, span, message).with_hint(hint))
                }
            };
        }
        let value = self.number(span.clone())?;
        if (unit.low()..=unit.highest_written()).contains(&value) {
            return Ok(value);
        }
        let message = format!(
            "must be between {} and {}, got {}",
            unit.low(),
            unit.highest_written(),
            echo(&self.text[span.clone()])
        );
        let error = self.error(Code::OutOfRange, span, message);
        Err(error.with_hint(hints::out_of_range(unit, value)))
    }

    /// Digits, however many; what does not fit is as good as out of range.
    pub(super) fn number(&self, span: Range<usize>) -> Result<u32, CronError> {
        let mut number: u32 = 0;
        for byte in &self.text.as_bytes()[span.clone()] {
            if !byte.is_ascii_digit() {
                return Err(self.not_a_number(span));
            }
            number = number.saturating_mul(10).saturating_add(u32::from(byte - b'0'));
        }
        if span.is_empty() {
            return Err(self.missing(span.start.saturating_sub(1)..span.end + 1, "missing value"));
        }
        Ok(number)
    }

    fn not_a_number(&self, span: Range<usize>) -> CronError {
        let text = &self.text[span.clone()];
        let error = self.error(Code::Unexpected, span, format!("`{}` is not a number", echo(text)));
        error.with_hint(hints::not_a_number(self.unit, text))
    }

    pub(super) fn missing(&self, span: Range<usize>, message: &str) -> CronError {
        self.error(Code::MissingValue, span, message)
    }

    pub(super) fn error(
        &self,
        code: Code,
        span: Range<usize>,
        message: impl Into<String>,
    ) -> CronError {
        CronError::new(code, self.text, span, message).in_field(self.unit)
    }
}
