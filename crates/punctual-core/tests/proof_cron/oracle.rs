//! The oracle: looks at the wall clock at every step of a stretch of time, and decides each
//! slot by the written rule. It knows nothing of segments, masks or searches.

use std::collections::{HashMap, HashSet};

use jiff::civil::{Date, DateTime};
use punctual_core::{DstFold, DstGap, Timestamp, Zone};

use crate::pattern::Pattern;

/// Further than any clock change repeats or skips.
const MARGIN: i64 = 30 * 3_600;

/// One look at the wall clock.
struct Look {
    at: i64,
    local: DateTime,
    /// The same local time was seen earlier, or will be seen later.
    seen_before: bool,
    seen_again: bool,
    /// Local times that were skipped just before, on dates that exist.
    skipped: Vec<DateTime>,
}

/// A stretch of time, looked at step by step.
pub(crate) struct Walk {
    pub(crate) from: i64,
    pub(crate) to: i64,
    step: i64,
    looks: Vec<Look>,
}

impl Walk {
    pub(crate) fn new(zone: &Zone, from: i64, to: i64) -> Walk {
        let local = |at: i64| zone.to_jiff().to_datetime(Timestamp::from_seconds(at).to_jiff());
        // By minutes, unless the wall clock is not whole minutes from UTC all the while.
        let (start, end) = ((from - MARGIN).div_euclid(60) * 60, to + MARGIN);
        let whole = (start..end).step_by(60).all(|at| local(at).second() == 0);
        let step = if whole { 60 } else { 1 };

        let instants: Vec<i64> = (start..end).step_by(step as usize).collect();
        let locals: Vec<DateTime> = instants.iter().map(|at| local(*at)).collect();
        let dates: HashSet<Date> = locals.iter().map(|local| local.date()).collect();
        let mut times: HashMap<DateTime, (i64, i64)> = HashMap::new();
        for (at, local) in instants.iter().zip(&locals) {
            times.entry(*local).or_insert((*at, *at)).1 = *at;
        }
        let mut looks: Vec<Look> = Vec::with_capacity(instants.len());
        for (at, local) in instants.iter().zip(&locals) {
            let mut skipped = Vec::new();
            if let Some(before) = looks.last() {
                let mut missing = later(before.local, step);
                while missing < *local {
                    if dates.contains(&missing.date()) {
                        skipped.push(missing);
                    }
                    missing = later(missing, step);
                }
            }
            let (first, last) = times[local];
            looks.push(Look {
                at: *at,
                local: *local,
                seen_before: first < *at,
                seen_again: last > *at,
                skipped,
            });
        }
        Walk { from, to, step, looks }
    }

    /// The slots of a pattern in this stretch, by the rule.
    pub(crate) fn slots(
        &self,
        pattern: &Pattern,
        gap: Option<DstGap>,
        fold: Option<DstFold>,
    ) -> Vec<i64> {
        let wild = pattern.is_wild();
        let gap = gap.unwrap_or(if wild { DstGap::Skip } else { DstGap::End });
        let fold = fold.unwrap_or(if wild { DstFold::Both } else { DstFold::First });
        let mut slots = Vec::new();
        let mut dates: HashMap<Date, bool> = HashMap::new();
        for look in &self.looks {
            if gap == DstGap::End
                && look
                    .skipped
                    .iter()
                    .any(|local| self.hits(pattern, *local, &mut dates).next().is_some())
            {
                slots.push(look.at);
            }
            let counts = match fold {
                DstFold::First => !look.seen_before,
                DstFold::Second => !look.seen_again,
                DstFold::Both => true,
            };
            if counts {
                slots.extend(
                    self.hits(pattern, look.local, &mut dates).map(|second| look.at + second),
                );
            }
        }
        slots.retain(|slot| (self.from..self.to).contains(slot));
        slots.dedup();
        slots
    }

    /// The seconds after `local`, within one step, that the pattern names.
    fn hits(
        &self,
        pattern: &Pattern,
        local: DateTime,
        dates: &mut HashMap<Date, bool>,
    ) -> impl Iterator<Item = i64> {
        let named = pattern.matches_minute(local.hour() as u32, local.minute() as u32)
            && *dates.entry(local.date()).or_insert_with(|| pattern.matches_date(local.date()));
        let (first, count) = (local.second() as i64, if named { self.step } else { 0 });
        (0..count).filter(move |second| pattern.matches_second((first + second) as u32))
    }
}

fn later(local: DateTime, seconds: i64) -> DateTime {
    local.checked_add(jiff::SignedDuration::from_secs(seconds)).expect("a date within the calendar")
}
