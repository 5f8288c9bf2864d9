//! The expressions that nearly everyone writes, read in one pass over the bytes.
//!
//! Numbers, names, `*`, ranges, steps and lists in five or six fields with single blanks
//! between them. Whatever else there is, and every mistake, is left to the general reader,
//! which takes three times as long and explains. A test holds the two to the same answers.

use super::Cron;
use super::field::stepped;
use super::unit::Unit;

pub(super) fn parse(text: &str) -> Option<Cron> {
    let bytes = text.as_bytes();
    let units = match bytes.iter().filter(|byte| **byte == b' ').count() {
        4 => &Unit::ALL[1..6],
        5 => &Unit::ALL[..6],
        _ => return None,
    };
    let mut cron = Cron::empty(units.len() as u8);
    let mut reader = Reader { bytes, at: 0 };
    let (mut restricted, mut starred) = (0, false);
    for unit in units {
        let start = reader.at;
        let (bits, star) = reader.field(*unit)?;
        if matches!(unit, Unit::DayOfMonth | Unit::DayOfWeek) {
            let is_any = star && reader.at - start == 1;
            restricted += u32::from(!is_any);
            starred |= star && !is_any;
        }
        cron.set_bits(*unit, bits, star);
        reader.at += 1;
    }
    if restricted == 2 {
        if starred {
            return None;
        }
        cron.dates.either = true;
    }
    cron.dates.simplify(&mut cron.spread);
    Some(cron)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(b' ')
    }

    /// Reads up to the blank that ends the field: its values, and whether `*` is among them.
    #[inline]
    fn field(&mut self, unit: Unit) -> Option<(u64, bool)> {
        let (mut bits, mut star) = (0, false);
        loop {
            let (low, high, ranged) = if self.peek() == b'*' {
                self.at += 1;
                star = true;
                (unit.low(), unit.high(), true)
            } else {
                let low = self.value(unit, false)?;
                if self.peek() == b'-' {
                    self.at += 1;
                    (low, self.value(unit, true)?, true)
                } else {
                    (low, low, false)
                }
            };
            if low < unit.low() || high > unit.highest_written() || low > high {
                return None;
            }
            let mut step = 1;
            if self.peek() == b'/' {
                self.at += 1;
                step = self.number()?;
                if !ranged || step == 0 || step > unit.size() {
                    return None;
                }
            }
            bits |= stepped(low, high, step);
            match self.peek() {
                b',' => self.at += 1,
                b' ' => return Some((bits, star)),
                _ => return None,
            }
        }
    }

    fn value(&mut self, unit: Unit, ends_range: bool) -> Option<u32> {
        if self.peek().is_ascii_digit() {
            return self.number();
        }
        let written = self.bytes.get(self.at..self.at + 3)?;
        let is_written = |name: &&str| name.as_bytes().eq_ignore_ascii_case(written);
        let index = unit.names().iter().position(is_written)? as u32;
        self.at += 3;
        let is_sunday = unit == Unit::DayOfWeek && index == 0;
        Some(if is_sunday && ends_range { 7 } else { index + unit.low() })
    }

    /// At most four digits, more than any field needs.
    fn number(&mut self) -> Option<u32> {
        let start = self.at;
        let mut number = 0;
        while self.peek().is_ascii_digit() {
            number = number * 10 + u32::from(self.peek() - b'0');
            self.at += 1;
            if self.at - start > 4 {
                return None;
            }
        }
        (self.at > start).then_some(number)
    }
}
