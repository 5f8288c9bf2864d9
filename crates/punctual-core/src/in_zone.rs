//! A cron expression on the wall clock of a zone: where civil times become instants.
//!
//! A zone is a row of segments with one offset each. Inside a segment the wall clock runs
//! evenly, so the search asks the expression for its next civil time and accepts it if the
//! segment reaches that far. All that is special about a clock change happens at the start
//! of a segment: the times it skipped (a gap) and the times it repeats (a fold).

use crate::civil::DAY;
use crate::cron::Cron;
use crate::sheet::Sheet;
use crate::spec::{DstFold, DstGap};
use crate::zone::{Segment, Zone};

/// Further than any two offsets of one zone lie apart, so that a jump this far short of a
/// civil time cannot land behind it.
const OFFSETS_APART: i64 = 2 * DAY;

/// An expression, the zone it is read in, and what happens when the clock changes.
pub(crate) struct InZone<'a> {
    pub(crate) cron: &'a Cron,
    pub(crate) zone: &'a Zone,
    pub(crate) gap: DstGap,
    pub(crate) fold: DstFold,
}

impl InZone<'_> {
    /// The first slot at or after `at`, in Unix seconds. `near` remembers the segment between
    /// calls, which spares a walk through close slots most of its work.
    pub(crate) fn next(&self, mut at: i64, near: &mut Option<Segment>) -> Option<i64> {
        if near.is_none() {
            at = self.skip_ahead(at)?;
        }
        loop {
            let segment = match *near {
                Some(segment) if segment.contains(at) => segment,
                Some(segment) if segment.end == at => self.zone.segment_after(&segment),
                _ => self.zone.segment_near(at),
            };
            *near = Some(segment);
            if at == segment.start && self.has_gap_slot(&segment) {
                return Some(at);
            }
            let (first, end) = self.walls(&segment);
            let wall = self.cron.next_wall(first.max(at + segment.offset));
            if let Some(wall) = wall.filter(|wall| *wall < end) {
                return Some(wall - segment.offset);
            }
            if segment.end == i64::MAX {
                return None;
            }
            at = self.skip_ahead(segment.end)?;
        }
    }

    /// Passes over time in which there can be no slot, whatever the clocks do meanwhile: from
    /// `at` to two days before the next civil time that the expression names. That time is
    /// looked for from a day back, since a change may repeat as much.
    fn skip_ahead(&self, at: i64) -> Option<i64> {
        let offset = self.zone.offset(at);
        let wall = self.cron.next_wall(at + offset - DAY)?;
        Some(at.max(wall - offset - OFFSETS_APART))
    }

    /// The last slot at or before `at`, in Unix seconds.
    pub(crate) fn previous(&self, mut at: i64) -> Option<i64> {
        loop {
            let segment = self.zone.segment(at);
            let (first, end) = self.walls(&segment);
            let upto = (end - 1).min(at + segment.offset);
            let wall = self.cron.previous_wall(upto);
            if let Some(wall) = wall.filter(|wall| *wall >= first) {
                return Some(wall - segment.offset);
            }
            if segment.start == i64::MIN {
                return None;
            }
            if self.has_gap_slot(&segment) {
                return Some(segment.start);
            }
            at = segment.start - 1;
            if upto - DAY >= segment.wall_start() {
                at = at.min(wall? - segment.offset + OFFSETS_APART);
            }
        }
    }

    /// Enters all slots of one UTC day.
    pub(crate) fn mark(&self, sheet: &mut Sheet) {
        let mut at = sheet.start();
        while at < sheet.end() {
            let segment = self.zone.segment(at);
            if at == segment.start && self.has_gap_slot(&segment) {
                sheet.mark(at);
            }
            let (first, end) = self.walls(&segment);
            let from = first.max(at + segment.offset);
            let to = end.min(sheet.end() + segment.offset);
            if from < to {
                self.cron.each_minute(from, to, |wall, seconds| {
                    sheet.mark_minute(wall - segment.offset, clip(seconds, from - wall, to - wall));
                });
            }
            at = segment.end;
        }
    }

    /// The slots that a civil time would be, whether the expression names it or not: none if the
    /// clock skips it and such times are dropped, two if the clock repeats it and both count.
    pub(crate) fn instants(&self, wall: i64) -> Vec<i64> {
        let mut found = Vec::new();
        // No offset is as much as a day.
        let mut segment = self.zone.segment(wall - DAY);
        loop {
            if self.gap == DstGap::End && skips(&segment, wall) {
                found.push(segment.start);
            }
            let (first, end) = self.walls(&segment);
            if (first..end).contains(&wall) {
                found.push(wall - segment.offset);
            }
            if segment.end > wall + DAY {
                return found;
            }
            segment = self.zone.segment_after(&segment);
        }
    }

    /// Is the start of `segment` a slot because of the times that were skipped there?
    fn has_gap_slot(&self, segment: &Segment) -> bool {
        self.gap == DstGap::End && self.missing_time(segment).is_some()
    }

    /// The first civil time that the expression names and the clock skipped at the start of
    /// `segment`. A date that the clock skipped whole never was, and has no times to miss.
    pub(crate) fn missing_time(&self, segment: &Segment) -> Option<i64> {
        if segment.offset <= segment.offset_before {
            return None;
        }
        let (skipped, resumed) = (segment.wall_start_before(), segment.wall_start());
        let mut from = skipped;
        loop {
            let wall = self.cron.next_wall(from).filter(|wall| *wall < resumed)?;
            if skips(segment, wall) {
                return Some(wall);
            }
            from = (wall.div_euclid(DAY) + 1) * DAY;
        }
    }

    /// The civil times of a segment that count, those it shares with a neighbour being given
    /// to one of the two or to both.
    fn walls(&self, segment: &Segment) -> (i64, i64) {
        let first = match self.fold {
            DstFold::First => segment.wall_start().max(segment.wall_start_before()),
            DstFold::Second | DstFold::Both => segment.wall_start(),
        };
        let end = match self.fold {
            DstFold::Second if segment.end < i64::MAX => {
                segment.wall_end().min(self.zone.segment(segment.end).wall_start())
            }
            _ => segment.wall_end(),
        };
        (first, end)
    }
}

/// Did the clock skip this civil time when `segment` began, and not its whole date?
fn skips(segment: &Segment, wall: i64) -> bool {
    let (skipped, resumed) = (segment.wall_start_before(), segment.wall_start());
    let midnight = wall.div_euclid(DAY) * DAY;
    (skipped..resumed).contains(&wall) && (midnight < skipped || midnight + DAY > resumed)
}

/// The seconds of a minute that lie in `from..to`, counted from its start.
fn clip(seconds: u64, from: i64, to: i64) -> u64 {
    let not_before = if from > 0 { !0 << from } else { !0 };
    let before = if to < 60 { !(!0 << to) } else { !0 };
    seconds & not_before & before
}
