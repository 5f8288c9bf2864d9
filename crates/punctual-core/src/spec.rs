//! The whole rule of a schedule: when, in which zone, within which window.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::civil::DAY;
use crate::in_zone::InZone;
use crate::moved::Moves;
use crate::sheet::Sheet;
use crate::slots::Slots;
use crate::zone::Segment;
use crate::{Cron, Timestamp, UnknownWord, When, Zone, hash};

/// 1970-01-01T00:00:00Z, before which there are no slots in UTC.
pub(crate) const FIRST_SECOND: i64 = 0;
/// 2199-12-31T23:59:59Z, after which there are none.
pub(crate) const LAST_SECOND: i64 = 7_258_118_399;

/// What becomes of a local time that a clock change skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DstGap {
    /// All skipped times become one slot, at the end of the gap.
    End,
    /// A skipped time has no slot.
    Skip,
}

impl DstGap {
    /// Its word, as schedules store it.
    pub const fn as_str(self) -> &'static str {
        match self {
            DstGap::End => "end",
            DstGap::Skip => "skip",
        }
    }
}

impl fmt::Display for DstGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for DstGap {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<DstGap, UnknownWord> {
        match word {
            "end" => Ok(DstGap::End),
            "skip" => Ok(DstGap::Skip),
            _ => Err(UnknownWord::new("dst_gap value", word, &["end", "skip"])),
        }
    }
}

/// What becomes of a local time that a clock change repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DstFold {
    /// A slot the first time only.
    First,
    /// A slot the second time only.
    Second,
    /// A slot each time.
    Both,
}

impl DstFold {
    /// Its word, as schedules store it.
    pub const fn as_str(self) -> &'static str {
        match self {
            DstFold::First => "first",
            DstFold::Second => "second",
            DstFold::Both => "both",
        }
    }
}

impl fmt::Display for DstFold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for DstFold {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<DstFold, UnknownWord> {
        match word {
            "first" => Ok(DstFold::First),
            "second" => Ok(DstFold::Second),
            "both" => Ok(DstFold::Both),
            _ => Err(UnknownWord::new("dst_fold value", word, &["first", "second", "both"])),
        }
    }
}

/// The span in which a schedule has slots. Both ends belong to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// No slot before this instant.
    pub start: Option<Timestamp>,
    /// No slot after this instant.
    pub end: Option<Timestamp>,
}

/// Everything that decides a schedule's slots; equal specs have equal slots everywhere.
///
/// ```
/// use punctual_core::{Spec, Timestamp, When, Zone};
///
/// let spec = Spec::new(When::parse("0 9 * * MON-FRI")?, Zone::get("Europe/Paris")?)
///     .also(When::parse("0 12 * * SAT")?);
/// let friday: Timestamp = "2027-01-01T10:00:00Z".parse()?;
/// assert_eq!(spec.next(friday), Some("2027-01-02T11:00:00Z".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub(crate) whens: Vec<When>,
    pub(crate) zone: Zone,
    window: Window,
    dst_gap: Option<DstGap>,
    dst_fold: Option<DstFold>,
    /// Boxed, since few have it and all are passed around.
    pub(crate) moves: Option<Box<Moves>>,
}

impl Spec {
    /// A schedule with one rule, always open, with the usual behaviour at clock changes.
    pub fn new(when: When, zone: Zone) -> Spec {
        let window = Window::default();
        Spec { whens: vec![when], zone, window, dst_gap: None, dst_fold: None, moves: None }
    }

    /// Adds a rule. A slot that several rules name is one slot.
    pub fn also(mut self, when: When) -> Spec {
        self.whens.push(when);
        self
    }

    /// Limits the slots to a window.
    pub fn within(self, window: Window) -> Spec {
        Spec { window, ..self }
    }

    /// Decides for skipped local times, instead of by the kind of expression: fixed times of
    /// day move to the end of the gap, wild ones are dropped.
    pub fn dst_gap(self, gap: DstGap) -> Spec {
        Spec { dst_gap: Some(gap), ..self }
    }

    /// Decides for repeated local times, instead of by the kind of expression: fixed times of
    /// day count the first time, wild ones each time.
    pub fn dst_fold(self, fold: DstFold) -> Spec {
        Spec { dst_fold: Some(fold), ..self }
    }

    /// The rules.
    pub fn whens(&self) -> &[When] {
        &self.whens
    }

    /// The zone in which cron expressions are read.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Do excluded slots move?
    pub fn moves_excluded(&self) -> bool {
        self.moves.is_some()
    }

    /// The first slot strictly after `after`, if there is one before the end of 2199.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.next_at(after.floor_seconds() + 1).map(Timestamp::from_seconds)
    }

    /// The last slot strictly before `before`, if there is one since 1970.
    pub fn previous(&self, before: Timestamp) -> Option<Timestamp> {
        let (first, last) = self.bounds();
        let at = last.min(before.ceil_seconds() - 1);
        let slots = self.whens.iter().filter_map(|when| match when {
            When::Cron(cron) => self.in_zone(cron).previous(at),
            When::Every(every) => {
                Some(every.previous(at.min(LAST_SECOND))).filter(|slot| *slot >= FIRST_SECOND)
            }
            When::At(instant) => Some(instant.floor_seconds()).filter(|instant| *instant <= at),
        });
        let mut slot = slots.max().filter(|slot| *slot >= first)?;
        // What was moved to behind this one comes from it or from one before it.
        if let Some(mut moved) = self.walk_moved(slot) {
            while let Some(later) = moved.next_before(at + 1) {
                slot = slot.max(later);
                moved.take();
            }
        }
        Some(Timestamp::from_seconds(slot))
    }

    /// The slots of `from..to` in ascending order, at most `limit` of them.
    ///
    /// The range holds `from` but not `to`, so that ranges compose without gap or overlap.
    pub fn slots(&self, from: Timestamp, to: Timestamp, limit: usize) -> Slots<'_> {
        let (first, last) = self.bounds();
        Slots::new(self, from.ceil_seconds().max(first), to.ceil_seconds().min(last + 1), limit)
    }

    /// How many slots `from..to` holds. The cost is per day that has any, not per slot.
    pub fn count(&self, from: Timestamp, to: Timestamp) -> u64 {
        let (first, last) = self.bounds();
        let (mut from, to) = (from.ceil_seconds().max(first), to.ceil_seconds().min(last + 1));
        let mut count = 0;
        let mut moved = self.walk_moved(from);
        while let Some(slot) = self.next_at(from).filter(|slot| *slot < to) {
            let mut sheet = Sheet::of_day(slot);
            for when in &self.whens {
                match when {
                    When::Cron(cron) => self.in_zone(cron).mark(&mut sheet),
                    When::At(instant) => sheet.mark(instant.floor_seconds()),
                    When::Every(every) => {
                        let mut at = every.next(sheet.start().max(FIRST_SECOND));
                        while at < sheet.end().min(LAST_SECOND + 1) {
                            sheet.mark(at);
                            at += every.interval_seconds();
                        }
                    }
                }
            }
            while let Some(moved) = &mut moved
                && let Some(slot) = moved.next_before(sheet.end())
            {
                sheet.mark(slot);
                moved.take();
            }
            count += sheet.count(from, to);
            from = sheet.end();
        }
        count
    }

    /// How long after its slot a job is dispatched, for a schedule of this name with this much
    /// jitter: fixed by name and slot, and always before the next slot.
    pub fn jitter(&self, name: &str, slot: Timestamp, most: Duration) -> Duration {
        // Bounded before the draw: a bound on what was drawn would heap most jobs on one instant.
        let most = match self.next(slot) {
            Some(next) => most.min(next.since(slot).saturating_sub(Duration::from_millis(1))),
            None => most,
        };
        let most_ms = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(hash::jitter_ms(hash::seed(name), slot.floor_seconds(), most_ms))
    }

    /// Why there is no slot after `after`, if there is none.
    pub fn never_fires(&self, after: Timestamp) -> Option<String> {
        if self.next(after).is_some() {
            return None;
        }
        if let Some(last) = self.previous(Timestamp::MAX) {
            return Some(format!("the last slot was at {last}"));
        }
        let reason = self.whens.iter().find_map(|when| match when {
            When::Cron(cron) => cron.never_fires(),
            When::Every(_) | When::At(_) => None,
        });
        Some(reason.unwrap_or_else(|| {
            "`start`, `end` and the rules for clock changes exclude every slot".to_owned()
        }))
    }

    /// The first slot at or after `at`, in Unix seconds.
    fn next_at(&self, at: i64) -> Option<i64> {
        let (first, last) = self.bounds();
        let at = at.max(first);
        let slots = self.whens.iter().filter_map(|when| self.next_of(when, at, &mut None));
        let slot = slots.min().filter(|slot| *slot <= last);
        let mut moved = self.walk_moved(at);
        let moved = moved.as_mut().and_then(|moved| moved.next_before(slot.unwrap_or(last + 1)));
        moved.or(slot)
    }

    pub(crate) fn next_of(&self, when: &When, at: i64, near: &mut Option<Segment>) -> Option<i64> {
        match when {
            When::Cron(cron) => self.in_zone(cron).next(at, near),
            When::Every(every) => {
                Some(every.next(at.max(FIRST_SECOND))).filter(|slot| *slot <= LAST_SECOND)
            }
            When::At(instant) => Some(instant.floor_seconds()).filter(|instant| *instant >= at),
        }
    }

    /// What happens to the local times of an expression that a clock change skips or repeats.
    pub fn dst_rules(&self, cron: &Cron) -> (DstGap, DstFold) {
        let (gap, fold) = match cron.is_wild() {
            true => (DstGap::Skip, DstFold::Both),
            false => (DstGap::End, DstFold::First),
        };
        (self.dst_gap.unwrap_or(gap), self.dst_fold.unwrap_or(fold))
    }

    pub(crate) fn in_zone<'a>(&'a self, cron: &'a Cron) -> InZone<'a> {
        let (gap, fold) = self.dst_rules(cron);
        InZone { cron, zone: &self.zone, gap, fold }
    }

    /// The first and the last second that may be a slot: the window, and the years 1970 to
    /// 2199 on any wall clock.
    pub(crate) fn bounds(&self) -> (i64, i64) {
        let (first, last) = (FIRST_SECOND - DAY, LAST_SECOND + DAY);
        let start = self.window.start.map_or(first, |start| start.ceil_seconds().max(first));
        let end = self.window.end.map_or(last, |end| end.floor_seconds().min(last));
        (start, end)
    }
}

#[cfg(test)]
mod tests;
