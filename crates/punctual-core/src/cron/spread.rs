//! `H`: a value picked by the schedule's name, so that many schedules do not all start at once.

use std::fmt;

use super::unit::Unit;
use crate::hash;

/// `H`, `H/n`, `H(a-b)` or `H(a-b)/n` as written. Every field that takes it fits a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    pub(super) range: Option<(u8, u8)>,
    pub(super) step: Option<u8>,
}

impl Spread {
    /// The range that the value is drawn from.
    pub(super) fn bounds(self, unit: Unit) -> (u32, u32) {
        match self.range {
            Some((low, high)) => (low.into(), high.into()),
            None => (unit.low(), unit.spread_high()),
        }
    }

    /// The values this stands for under a seed: `low`, `high` and the step between them.
    pub(super) fn resolve(self, seed: u64, unit: Unit) -> (u32, u32, u32) {
        let (low, high) = self.bounds(unit);
        let step = self.step.map(u32::from);
        let size = step.unwrap_or(high - low + 1);
        let offset = (hash::draw(seed, unit as u64) % u64::from(size)) as u32;
        match step {
            Some(step) => (low + offset, high, step),
            None => (low + offset, low + offset, 1),
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("H")?;
        if let Some((low, high)) = self.range {
            write!(f, "({low}-{high})")?;
        }
        match self.step {
            Some(step) => write!(f, "/{step}"),
            None => Ok(()),
        }
    }
}
