//! What a clock change does to a schedule, for showing it before it happens.

use jiff::civil::DateTime;
use jiff::tz::Offset;

use crate::zone::{Segment, Zone};
use crate::{Spec, Timestamp, When};

/// A moment at which a zone's clocks are set forward or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockChange {
    /// The first instant with the new offset.
    pub at: Timestamp,
    /// What the wall clock would have shown at that instant.
    pub from: DateTime,
    /// What it shows instead.
    pub to: DateTime,
    /// The first local time that the schedule names and the change skips, if there is one.
    pub missing: Option<DateTime>,
}

impl ClockChange {
    /// Are clocks set forward?
    pub fn is_forward(&self) -> bool {
        self.to > self.from
    }

    /// Does this local time happen twice because of this change?
    pub fn repeats(&self, local: DateTime) -> bool {
        self.to <= local && local < self.from
    }
}

impl Spec {
    /// The changes of the zone's clocks in `from..to`.
    pub fn clock_changes(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> impl Iterator<Item = ClockChange> {
        let mut segment = self.zone.segment(from.ceil_seconds() - 1);
        std::iter::from_fn(move || {
            if segment.end >= to.ceil_seconds() {
                return None;
            }
            segment = self.zone.segment_after(&segment);
            Some(self.clock_change(&segment))
        })
    }

    fn clock_change(&self, segment: &Segment) -> ClockChange {
        let missing = self.whens.iter().filter_map(|when| match when {
            When::Cron(cron) => self.in_zone(cron).missing_time(segment),
            When::Every(_) | When::At(_) => None,
        });
        ClockChange {
            at: Timestamp::from_seconds(segment.start),
            from: civil(segment.wall_start_before()),
            to: civil(segment.wall_start()),
            missing: missing.min().map(civil),
        }
    }
}

impl Zone {
    /// What the wall clock shows at an instant.
    pub fn local(&self, at: Timestamp) -> DateTime {
        self.to_jiff().to_datetime(at.to_jiff())
    }
}

/// Civil seconds as a date and time.
fn civil(wall: i64) -> DateTime {
    Offset::UTC.to_datetime(Timestamp::from_seconds(wall).to_jiff())
}
