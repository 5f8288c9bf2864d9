//! When schedules will start jobs: by hour of the coming week, and by minute of the hour.

use std::time::Duration;

use punctual::{Admin, Definition, Schedule, Timestamp};
use punctual_core::Spec;

use crate::fault::Fault;

/// Schedules that are looked at: each takes some ten microseconds, more for those that are due often.
pub(super) const SCHEDULES_MAX: usize = 2_000;
/// Slots of a schedule that are looked at one by one: one each quarter of an hour.
const SLOTS_MAX: usize = 700;
/// Schedules with more, whose slots are counted hour by hour, at a millisecond or two each.
pub(super) const OFTEN_MAX: usize = 100;

/// When a schedule will be due, as far as it is not held back.
pub(super) struct Planned {
    pub(super) spec: Spec,
    /// Not before this.
    pub(super) from: Timestamp,
}

impl Planned {
    /// None of one that is off, set aside, paused for good or cannot be read.
    pub(super) fn read(schedule: &Schedule, from: Timestamp) -> Option<Planned> {
        if !schedule.enabled || schedule.set_aside.is_some() {
            return None;
        }
        let from = match &schedule.pause {
            None => from,
            Some(pause) => from.max(pause.until?),
        };
        let definition = Definition::parse(schedule.spec.as_str()).ok()?;
        Some(Planned { spec: definition.rule(&schedule.name).ok()?.spec, from })
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
        let Some(Planned { spec, from }) = Planned::read(schedule, self.from) else { return };
        let hour = Duration::from_secs(3_600);
        let week = self.from + hour * 168;
        let slots: Vec<Timestamp> = spec.slots(from, week, SLOTS_MAX).collect();
        if slots.len() < SLOTS_MAX {
            for slot in &slots {
                let hour = self.hour(*slot);
                self.hours[hour] += 1;
            }
        } else if self.often == OFTEN_MAX {
            self.has_more = true;
        } else {
            self.often += 1;
            for (index, count) in self.hours.iter_mut().enumerate() {
                let start = self.from + hour * u32::try_from(index).unwrap_or(0);
                if start + hour > from {
                    *count += spec.count(start.max(from), start + hour);
                }
            }
        }
        // Of those that are due often the first hour stands for the day.
        let is_often = slots.len() == SLOTS_MAX;
        let (end, times) = if is_often { (hour, 24) } else { (hour * 24, 1) };
        let end = self.from + end;
        for slot in spec.slots(from, end, 3_600) {
            let minute = slot.floor_seconds().rem_euclid(3_600) / 60;
            self.minutes[usize::try_from(minute).unwrap_or(0)] += times;
        }
    }

    fn hour(&self, slot: Timestamp) -> usize {
        usize::try_from(slot.since(self.from).as_secs() / 3_600).unwrap_or(0).min(167)
    }
}
