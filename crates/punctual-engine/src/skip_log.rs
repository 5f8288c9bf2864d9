//! Logs slots that were decided without a job: missed, coalesced and skipped ones.
//!
//! A schedule that skips a slot every second, or an outage that made a million schedules miss slots,
//! must not flood the log. The first event of a schedule and reason is logged at once; later slots are
//! added up and logged once a minute. If many schedules skip slots, only some are logged one by one,
//! and the slots of the others are counted.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::job::SlotOutcome;
use punctual_store::{PassedSlots, Schedule, SetEntry, SkippedSlots};

use crate::telemetry;

/// How often slots of one schedule and reason are logged.
const SKIP_LOG_PERIOD: Duration = Duration::from_secs(60);
/// Maximum number of schedules and reasons that are logged one by one in a period.
const SKIP_LOG_MAX: usize = 100;

/// Slots that the scheduler decided in the last period.
#[derive(Default)]
pub(crate) struct SkipLog {
    logged: Vec<Logged>,
    /// Slots of schedules that are not logged one by one: since when, and how many.
    others: BTreeMap<SlotOutcome, (Duration, u64)>,
}

/// Slots that were logged in the last period.
struct Logged {
    schedule: String,
    at: Duration,
    slots: SkippedSlots,
    /// Slots since then.
    later: Option<SkippedSlots>,
}

impl SkipLog {
    /// Logs slots of the schedule with this name, now or at the end of the period.
    pub(crate) fn add(&mut self, now: Duration, schedule: &str, slots: SkippedSlots) {
        if let Some(logged) = self.logged.iter_mut().find(|logged| logged.slots.is_like(&slots)) {
            match &mut logged.later {
                Some(later) => later.extend(slots),
                None => logged.later = Some(slots),
            }
        } else if self.logged.len() < SKIP_LOG_MAX {
            telemetry::skipped(schedule, &slots);
            let schedule = schedule.to_owned();
            self.logged.push(Logged { schedule, at: now, slots, later: None });
        } else {
            let (_, count) = self.others.entry(slots.outcome).or_insert((now, 0));
            *count = count.saturating_add(slots.count);
        }
    }

    /// Logs what was added up, if its period is over.
    pub(crate) fn flush(&mut self, now: Duration) {
        self.flush_older(now, SKIP_LOG_PERIOD);
    }

    /// Logs all that was added up: this node no longer fires.
    pub(crate) fn end(&mut self, now: Duration) {
        self.flush_older(now, Duration::ZERO);
        self.logged.clear();
    }

    fn flush_older(&mut self, now: Duration, age: Duration) {
        let is_over = |since: Duration| now.saturating_sub(since) >= age;
        self.logged.retain_mut(|logged| {
            if !is_over(logged.at) {
                return true;
            }
            let Some(later) = logged.later.take() else { return false };
            telemetry::skipped(&logged.schedule, &later);
            logged.at = now;
            true
        });
        self.others.retain(|outcome, (since, count)| {
            if is_over(*since) {
                telemetry::skipped_elsewhere(*outcome, *count);
                return false;
            }
            true
        });
    }
}

/// The scheduler ends: what was added up is logged.
impl Drop for SkipLog {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// Logs the slots that a change of a schedule decided.
pub(crate) fn log_passed(schedule: &Schedule, passed: Option<&PassedSlots>) {
    for row in passed.into_iter().flat_map(|passed| &passed.rows) {
        telemetry::skipped(&schedule.name, &SkippedSlots::of_row(schedule.id, row));
    }
}

/// Logs the slots that changes of a set decided. There is one schedule for each entry.
pub(crate) fn log_passed_in_set(entries: &[SetEntry], schedules: &[Schedule]) {
    for (entry, schedule) in entries.iter().zip(schedules) {
        match entry {
            SetEntry::Create(_) => {}
            SetEntry::Change { change, .. } => log_passed(schedule, change.passed()),
            SetEntry::Bring { changes, .. } => {
                changes.iter().for_each(|change| log_passed(schedule, change.passed()));
            }
            SetEntry::Remove { passed, .. } => log_passed(schedule, Some(passed)),
        }
    }
}
