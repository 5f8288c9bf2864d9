//! What handlers note while they work: the results of their steps, and the lines of their logs.

use punctual_core::job::LogLevel;
use punctual_core::{JobId, Timestamp};

use crate::{Json, Result, StoreError, limits, rules};

/// What became of keeping a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepAnswer {
    /// It is kept.
    Saved,
    /// A step of that name is kept already; this is its result.
    Already(Json),
    /// The lease is gone; nothing was written.
    Fenced,
}

/// A step that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepView {
    /// Its name, one of a kind within the job.
    pub name: String,
    /// What it came to.
    pub result: Json,
    /// When it was kept.
    pub at: Timestamp,
}

/// A line of a log. When it was written is for the store to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The job.
    pub job: JobId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Its number within the attempt, from 1: a line that is written again is the same line.
    pub number: u32,
    /// How much it matters.
    pub level: LogLevel,
    /// What it says; cut to [`limits::LOG_LINE_BYTES_MAX`].
    pub text: String,
}

/// A line of a job's log, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogView {
    /// The attempt.
    pub attempt: u32,
    /// Its number within the attempt.
    pub number: u32,
    /// How much it matters.
    pub level: LogLevel,
    /// What it says.
    pub text: String,
    /// When it was written.
    pub at: Timestamp,
}

/// Where a job's log goes on: after this attempt and number, or before it when it is read from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogCursor(pub u32, pub u32);

impl LogLine {
    /// Checks lines against the bounds.
    pub fn check(lines: &[LogLine]) -> Result<()> {
        rules::check_count(lines.len(), limits::LOG_LINES_MAX, "lines")?;
        let attempts = 1..=i32::MAX.unsigned_abs();
        let numbers = 1..=limits::LOG_NUMBER_MAX;
        let is_off =
            |line: &&LogLine| !attempts.contains(&line.attempt) || !numbers.contains(&line.number);
        match lines.iter().find(is_off) {
            None => Ok(()),
            Some(LogLine { job, attempt, number, .. }) => Err(StoreError::invalid(format!(
                "invalid log line {number} of attempt {attempt} of job {job}; line numbers must \
                 be between 1 and {}, and attempts at least 1",
                limits::LOG_NUMBER_MAX
            ))),
        }
    }

    /// As it is kept.
    pub fn kept(&self, now: Timestamp) -> LogView {
        LogView {
            attempt: self.attempt,
            number: self.number,
            level: self.level,
            text: limits::cut(&self.text, limits::LOG_LINE_BYTES_MAX).to_owned(),
            at: now,
        }
    }
}

impl LogView {
    /// Where a log goes on after it.
    pub fn cursor(&self) -> LogCursor {
        LogCursor(self.attempt, self.number)
    }
}
