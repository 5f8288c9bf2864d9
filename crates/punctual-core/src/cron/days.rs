//! The two day fields, which have letters of their own and decide together.

use std::ops::Range;

use super::dates::{Dates, EVERY_DAY, EVERY_WEEKDAY};
use super::error::{CronError, CronErrorCode as Code};
use super::field::{Field, Values};
use super::{Cron, echo, hints};

impl Field<'_> {
    /// Does the field let every day pass, by being `*` or `?`?
    fn is_any(&self) -> bool {
        matches!(self.bytes(), [b'*' | b'?'] | [b'+', b'*' | b'?'])
    }

    /// Reads day-of-month: plain values, `L`, `L-n`, `nW` and `LW`.
    pub(super) fn days_of_month(&self, cron: &mut Cron) -> Result<(), CronError> {
        if self.is_any() {
            cron.dates.days = EVERY_DAY;
            return Ok(());
        }
        let dates = &mut cron.dates;
        let mut values = Values::default();
        for item in self.items(self.span.start) {
            match &self.text.as_bytes()[item.span()] {
                [b'L'] => dates.from_last |= 1,
                [b'L', b'W'] => dates.last_workday = true,
                [b'L', b'-', ..] => dates.from_last |= 1 << self.days_before_last(item.span())?,
                [b'0'..=b'9', .., b'W'] => {
                    dates.nearest_workday |= 1 << self.value(item.start..item.end - 1, false)?;
                }
                _ => self.add_item(&item, &mut values)?,
            }
        }
        cron.set(self.unit, values);
        Ok(())
    }

    fn days_before_last(&self, item: Range<usize>) -> Result<u32, CronError> {
        let before = item.start + 2..item.end;
        if before.is_empty() {
            return Err(self.missing(item, "`L-` needs a number of days after it"));
        }
        match self.number(before)? {
            days @ 1..=30 => Ok(days),
            _ => {
                let message =
                    format!("must be between L-1 and L-30, got {}", echo(&self.text[item.clone()]));
                Err(self
                    .error(Code::OutOfRange, item, message)
                    .with_hint("for the last day, use `L`"))
            }
        }
    }

    /// Reads day-of-week: plain values, `d#n`, `d#L` and `dL`.
    pub(super) fn days_of_week(&self, cron: &mut Cron) -> Result<(), CronError> {
        if self.is_any() {
            cron.dates.weekdays = EVERY_WEEKDAY;
            return Ok(());
        }
        let start = self.span.start + usize::from(self.requires_both());
        if start == self.span.end {
            return Err(self.missing(self.span.clone(), "`+` needs a day-of-week after it"));
        }
        let mut values = Values::default();
        for item in self.items(start) {
            if !self.add_day_with_letter(item.span(), &mut cron.dates)? {
                self.add_item(&item, &mut values)?;
            }
        }
        cron.set(self.unit, values);
        Ok(())
    }

    /// Reads `d#n`, `d#L` and `dL`; false if the item is none of these.
    fn add_day_with_letter(
        &self,
        item: Range<usize>,
        dates: &mut Dates,
    ) -> Result<bool, CronError> {
        let bytes = &self.text.as_bytes()[item.clone()];
        if bytes == b"L" {
            let error = self.error(Code::Misplaced, item, "`L` needs a day before it");
            return Err(error.with_hint(
                "`5L` or `FRIL` is the last Friday; for the last day of the month, use `L` in \
                 day-of-month",
            ));
        }
        if let Some(hash) = bytes.iter().position(|byte| *byte == b'#') {
            if hash == 0 {
                return Err(self.missing(item, "`#` needs a day before it: `MON#1`"));
            }
            let day = self.value(item.start..item.start + hash, false)? % 7;
            let nth = item.start + hash + 1..item.end;
            match &bytes[hash + 1..] {
                b"L" => dates.last_weekdays |= 1 << day,
                b"" => {
                    let message = "`#` needs a number from 1 to 5, or `L`, after it";
                    return Err(self.missing(item, message));
                }
                _ => dates.nth_weekdays |= 1 << ((self.nth(nth)? - 1) * 7 + day),
            }
            return Ok(true);
        }
        match bytes {
            [day @ .., b'L'] if !day.contains(&b'-') && !day.contains(&b'/') => {
                dates.last_weekdays |= 1 << (self.value(item.start..item.end - 1, false)? % 7);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn nth(&self, span: Range<usize>) -> Result<u32, CronError> {
        match self.number(span.clone())? {
            nth @ 1..=5 => Ok(nth),
            _ => {
                let message =
                    format!("must be between #1 and #5, got #{}", echo(&self.text[span.clone()]));
                let error = self.error(Code::OutOfRange, span, message);
                Err(error.with_hint("for the last one in the month, use `#L`"))
            }
        }
    }

    /// A leading `+` in day-of-week: both day fields must match.
    fn requires_both(&self) -> bool {
        self.bytes().first() == Some(&b'+')
    }

    /// Decides how day-of-week (this) and day-of-month work together.
    pub(super) fn combine_with(&self, dom: &Field<'_>, cron: &mut Cron) -> Result<(), CronError> {
        if !self.is_any() && !dom.is_any() && !self.requires_both() {
            if self.as_str().contains('*') || dom.as_str().contains('*') {
                let message = "ambiguous day fields: must both match, or is either enough?";
                return Err(CronError::new(
                    Code::AmbiguousDays,
                    self.text,
                    dom.span.clone(),
                    message,
                )
                .and_at(self.span.clone())
                .with_hint(hints::ambiguous_days(dom.as_str(), self.as_str())));
            }
            cron.dates.either = true;
        }
        cron.dates.simplify(&mut cron.spread);
        Ok(())
    }
}
