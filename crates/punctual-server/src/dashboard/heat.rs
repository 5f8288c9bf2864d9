//! When schedules will start jobs: by hour of the coming week, and by minute of the hour.

use std::time::Duration;

use punctual::{Admin, Definition, Schedule, Timestamp};
use punctual_core::schedule::Rule;

use crate::fault::Fault;
use crate::status;

/// Schedules that are looked at: each takes some ten microseconds, more for those that are due often.
pub(super) const SCHEDULES_MAX: usize = 2_000;
/// Slots of a schedule that are looked at one by one: one each quarter of an hour.
const SLOTS_MAX: usize = 700;
/// Schedules with more, whose slots are counted hour by hour, at a millisecond or two each.
pub(super) const OFTEN_MAX: usize = 100;

/// When a schedule will be due, as far as it is not held back.
pub(super) struct Planned {
    rule: Rule,
    /// Not before this.
    from: Timestamp,
}

impl Planned {
    /// None of one that is off, set aside, paused for good or cannot be read.
    pub(super) fn read(schedule: &Schedule, from: Timestamp) -> Option<Planned> {
        let from = status::fires_from(schedule, from)?;
        let definition = Definition::parse(schedule.spec.as_str()).ok()?;
        Some(Planned { rule: definition.rule(&schedule.name).ok()?, from })
    }

    /// The slots of `start..end` that fire, and whether these are all: no more than so many are
    /// looked at.
    pub(super) fn slots(
        &self,
        start: Timestamp,
        end: Timestamp,
        most: usize,
    ) -> (Vec<Timestamp>, bool) {
        let start = start.max(self.from);
        let mut slots: Vec<Timestamp> = self.rule.spec.slots(start, end, most).collect();
        let are_all = slots.len() < most;
        slots.retain(|slot| !self.rule.is_excluded(*slot));
        (slots, are_all)
    }

    /// The first few slots of `start..end` that fire.
    pub(super) fn first(&self, start: Timestamp, end: Timestamp, most: usize) -> Vec<Timestamp> {
        let before = start.max(self.from) - Duration::from_micros(1);
        let slots = std::iter::successors(self.rule.next(before), |slot| self.rule.next(*slot));
        slots.take_while(|slot| *slot < end).take(most).collect()
    }

    /// How many slots of `start..end` fire.
    pub(super) fn count(&self, start: Timestamp, end: Timestamp) -> u64 {
        let start = start.max(self.from);
        if start < end { self.rule.count(start, end) } else { 0 }
    }
}

/// Planned starts.
#[derive(Clone)]
pub(super) struct Heat {
    /// The first of the 168 hours.
    pub(super) from: Timestamp,
    /// Starts in each hour.
    pub(super) hours: Vec<u64>,
    /// Starts in each minute of the coming 24 hours, taken modulo the hour.
    pub(super) minutes: Vec<u64>,
    pub(super) schedules: usize,
    /// Schedules that are due often.
    often: usize,
    /// Were there more schedules than are looked at?
    pub(super) has_more: bool,
}

impl Heat {
    pub(super) async fn read(admin: &Admin, now: Timestamp) -> Result<Heat, Fault> {
        let from = Timestamp::from_seconds(now.floor_seconds().div_euclid(3_600) * 3_600);
        let (hours, minutes) = (vec![0; 168], vec![0; 60]);
        let mut heat = Heat { from, hours, minutes, schedules: 0, often: 0, has_more: false };
        let mut after: Option<String> = None;
        loop {
            let page = admin.schedules(after.as_deref(), 500).await?;
            for schedule in &page {
                heat.add(schedule);
            }
            after = page.last().map(|schedule| schedule.name.clone());
            if page.len() < 500 {
                return Ok(heat);
            }
            if heat.schedules >= SCHEDULES_MAX {
                heat.has_more = true;
                return Ok(heat);
            }
        }
    }

    fn add(&mut self, schedule: &Schedule) {
        self.schedules += 1;
        let Some(planned) = Planned::read(schedule, self.from) else { return };
        let hour = Duration::from_secs(3_600);
        let (slots, are_all) = planned.slots(self.from, self.from + hour * 168, SLOTS_MAX);
        if are_all {
            for slot in &slots {
                let hour = self.hour(*slot);
                self.hours[hour] += 1;
            }
            let day = self.from + hour * 24;
            self.add_minutes(slots.iter().filter(|slot| **slot < day), 1);
            return;
        }
        if self.often == OFTEN_MAX {
            self.has_more = true;
            return;
        }
        self.often += 1;
        let starts = (0..168).map(|index| self.from + hour * index);
        let counts: Vec<u64> = starts.map(|start| planned.count(start, start + hour)).collect();
        for (sum, count) in self.hours.iter_mut().zip(&counts) {
            *sum += count;
        }
        // The first hour of the day that has any stands for the others.
        let of_day: u64 = counts[..24].iter().sum();
        if let Some(first) = counts[..24].iter().position(|count| *count > 0) {
            let start = self.from + hour * u32::try_from(first).unwrap_or(0);
            let (slots, _) = planned.slots(start, start + hour, 3_600);
            self.add_minutes(slots.iter(), of_day / counts[first]);
        }
    }

    fn add_minutes<'a>(&mut self, slots: impl Iterator<Item = &'a Timestamp>, times: u64) {
        for slot in slots {
            let minute = slot.floor_seconds().rem_euclid(3_600) / 60;
            self.minutes[usize::try_from(minute).unwrap_or(0)] += times;
        }
    }

    fn hour(&self, slot: Timestamp) -> usize {
        usize::try_from(slot.since(self.from).as_secs() / 3_600).unwrap_or(0).min(167)
    }
}
