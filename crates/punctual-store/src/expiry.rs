//! Start deadlines: ending the jobs that wait past them.

use std::time::Duration;

use punctual_core::{JobId, Timestamp};

use crate::{Fence, Result, limits, rules};

/// A request to end waiting jobs whose start deadline has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpireRequest {
    /// The term under which it is done.
    pub fence: Fence,
    /// For how long that role is renewed.
    pub lease: Duration,
    /// When a job that runs past its deadline is checked again: it can be released or snoozed, and
    /// then waits without a chance to start.
    pub recheck_after: Duration,
    /// Maximum number of deadlines to check.
    pub limit: usize,
}

impl ExpireRequest {
    /// Checks the request against the bounds.
    ///
    /// # Errors
    ///
    /// Returns an error of kind `Limit` if the request checks too many deadlines.
    pub fn check(&self) -> Result<()> {
        rules::check_count(self.limit, limits::EXPIRE_MAX, "deadlines")
    }
}

/// The jobs that were ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpireResponse {
    /// The instant that was used.
    pub at: Timestamp,
    /// False if the term is over and nothing was done.
    pub led: bool,
    /// The jobs that failed, in the order of their deadlines.
    pub jobs: Vec<ExpiredJob>,
    /// Whether the limit was reached, so that further deadlines may have passed.
    pub is_more: bool,
}

impl ExpireResponse {
    /// Has a job finished?
    pub fn has_finished(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// The response before anything is done.
    pub fn nothing(at: Timestamp) -> ExpireResponse {
        ExpireResponse { at, led: false, jobs: Vec::new(), is_more: false }
    }
}

/// A job that failed because it did not start before its deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredJob {
    /// The job.
    pub job: JobId,
    /// Its queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// When it was due.
    pub due_at: Timestamp,
    /// The recorded error: [`rules::UNREADABLE`] if the row where the job waited cannot be read.
    pub error: &'static str,
}
