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
        loop {
            let segment = self.segment(at, near);
            if at == segment.start
                && self.missing_time(&segment).is_some()
                && self.gap == DstGap::End
            {
                return Some(at);
            }
            let (first, end) = self.walls(&segment);
            let from = first.max(at + segment.offset);
            let wall = self.cron.next_wall(from);
            if let Some(wall) = wall.filter(|wall| *wall < end) {
                return Some(wall - segment.offset);
            }
            // The next segment may repeat up to a day of civil times; only if all of these lie
            // after `from` is it certain that nothing matches before `wall`.
            at = if from + DAY <= segment.wall_end() {
                segment.end.max(wall? - segment.offset - OFFSETS_APART)
            } else {
                segment.end
            };
        }
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
            if self.gap == DstGap::End && self.missing_time(&segment).is_some() {
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
            if at == segment.start
                && self.gap == DstGap::End
                && self.missing_time(&segment).is_some()
            {
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
            let midnight = wall.div_euclid(DAY) * DAY;
            if midnight < skipped || midnight + DAY > resumed {
                return Some(wall);
            }
            from = midnight + DAY;
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

    fn segment(&self, at: i64, near: &mut Option<Segment>) -> Segment {
        match near {
            Some(segment) if segment.contains(at) => *segment,
            _ => *near.insert(self.zone.segment(at)),
        }
    }
}

/// The seconds of a minute that lie in `from..to`, counted from its start.
fn clip(seconds: u64, from: i64, to: i64) -> u64 {
    let not_before = if from > 0 { !0 << from } else { !0 };
    let before = if to < 60 { !(!0 << to) } else { !0 };
    seconds & not_before & before
}
