//! What pictures are made of: slots with how they went, attempts as stretches of time.

use punctual_core::job::{AttemptOutcome, JobState};
use punctual_core::{JobId, NodeId, ScheduleId, Timestamp};

use crate::{Result, SlotView, StoreError, limits, rules};

/// A decided slot of a schedule, and how its job goes or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRun {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The slot.
    pub slot: SlotView,
    /// Its job, once that has begun or ended; none while it waits, or when it is pruned.
    pub run: Option<JobRun>,
}

/// How a job goes or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobRun {
    /// Running, or how it ended.
    pub state: JobState,
    /// Attempts that were started.
    pub attempt: u32,
    /// When the last one was claimed, if there was one.
    pub claimed_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

/// An attempt as a stretch of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: u32,
    /// The job's queue.
    pub queue: String,
    /// The job's kind.
    pub kind: String,
    /// The schedule that made the job, and the slot.
    pub schedule: Option<(ScheduleId, Option<Timestamp>)>,
    /// Who tried.
    pub node: Option<NodeId>,
    /// Since when.
    pub claimed_at: Timestamp,
    /// Until when; none while it is under way.
    pub ended_at: Option<Timestamp>,
    /// How it ended.
    pub outcome: Option<AttemptOutcome>,
}

/// Counters of a stretch of time, added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollupSum {
    /// The first instant of the stretch.
    pub at: Timestamp,
    /// What is counted.
    pub metric: String,
    /// In which queue; empty if all were added up.
    pub queue: String,
    /// How often it happened.
    pub count: i64,
    /// The sum of what was measured, if anything was.
    pub sum: i64,
}

/// Which counters to add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumAsk {
    /// From this minute on.
    pub from: Timestamp,
    /// Before this one.
    pub to: Timestamp,
    /// The length of one stretch, in minutes; stretches begin at multiples of it.
    pub minutes: u32,
    /// Each queue apart?
    pub by_queue: bool,
}

impl SumAsk {
    /// Checks it against the bounds.
    pub fn check(&self) -> Result<()> {
        if self.minutes == 0 {
            return Err(StoreError::invalid("the interval must be at least one minute"));
        }
        if self.to.since(self.from) > limits::SUM_LENGTH_MAX {
            return Err(StoreError::invalid(format!(
                "the time range {} to {} is too long; use at most 7 days",
                self.from, self.to
            )));
        }
        Ok(())
    }

    /// The length of one stretch in microseconds.
    pub fn micros(&self) -> i64 {
        i64::from(self.minutes) * 60_000_000
    }
}

/// Checks how many schedules are asked about at once.
pub fn check_recent(schedules: &[ScheduleId]) -> Result<()> {
    rules::check_count(schedules.len(), limits::RECENT_SCHEDULES_MAX, "schedules")
}
