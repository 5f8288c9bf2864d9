//! The reason for the end of a job, from the text that was recorded with it.
//!
//! Stores keep the reason only as a text, which people read. This is the one place that reads it back;
//! its tests take the texts from the functions that write them.

use punctual_core::job::{BUDGET_USED_UP, EXPIRED, EXPIRES_FIRST, JobState};

use crate::rules::{CANCELLED_BY, UNREADABLE};

/// Why a job failed or was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason<'a> {
    /// It was cancelled by this actor, whose reason follows after a colon.
    CancelledBy(&'a str),
    /// Its row cannot be read.
    Unreadable,
    /// Its start deadline passed before an attempt started.
    Expired,
    /// An attempt failed, and the next one would have started after the start deadline.
    ExpiresFirst,
    /// Its attempts used all of its time budget.
    BudgetUsedUp,
    /// Its last attempt ended it: the text is that of the handler or the node.
    LastAttempt,
}

impl EndReason<'_> {
    /// The reason for this state, from the recorded error.
    pub fn of(state: JobState, error: &str) -> EndReason<'_> {
        if state == JobState::Cancelled {
            let by = error.strip_prefix(CANCELLED_BY);
            return by.map_or(EndReason::LastAttempt, EndReason::CancelledBy);
        }
        // `decide` adds such a reason to the error of the attempt.
        let has_added = |reason: &str| error.ends_with(&format!("(and {reason})"));
        match error {
            UNREADABLE => EndReason::Unreadable,
            EXPIRED => EndReason::Expired,
            BUDGET_USED_UP => EndReason::BudgetUsedUp,
            _ if has_added(EXPIRES_FIRST) => EndReason::ExpiresFirst,
            _ if has_added(BUDGET_USED_UP) => EndReason::BudgetUsedUp,
            _ => EndReason::LastAttempt,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use punctual_core::job::{Outcome, RetryPolicy, Standing, decide, refuse_start};
    use punctual_core::{JobId, Timestamp};

    use super::*;
    use crate::{Actor, rules};

    const NOW: Timestamp = Timestamp::from_seconds(1_000_000);

    fn standing() -> Standing {
        Standing {
            job: JobId::from_bytes([1; 16]),
            attempt: 1,
            spent: 0,
            crashes: 0,
            resource_releases: 0,
            max_attempts: 5,
            used: Duration::ZERO,
            claimed_at: NOW,
            budget: None,
            expires_at: None,
        }
    }

    /// The reason that is read from the text that a failed attempt writes.
    fn after_failure(standing: &Standing, error: &str) -> EndReason<'static> {
        let outcome = Outcome::Fail(error.to_owned());
        let written = decide(standing, outcome, &RetryPolicy::default(), NOW).error.unwrap();
        EndReason::of(JobState::Failed, Box::leak(written.into_boxed_str()))
    }

    #[test]
    fn reasons_of_failed_jobs() {
        let spent = Some(Duration::ZERO);
        let out_of_time = Standing { budget: spent, ..standing() };
        assert_eq!(after_failure(&out_of_time, "no disk"), EndReason::BudgetUsedUp);
        let late = Standing { expires_at: Some(NOW), ..standing() };
        assert_eq!(after_failure(&late, "no disk"), EndReason::ExpiresFirst);
        let last = Standing { max_attempts: 1, ..standing() };
        assert_eq!(after_failure(&last, "no disk"), EndReason::LastAttempt);
        // The handler has said the same, of something else.
        let same = format!("the export failed: {BUDGET_USED_UP}");
        assert_eq!(after_failure(&last, &same), EndReason::LastAttempt);
        assert_eq!(EndReason::of(JobState::Failed, UNREADABLE), EndReason::Unreadable);
    }

    #[test]
    fn reasons_of_refused_starts() {
        let reason = |standing: &Standing| {
            let written = refuse_start(standing, NOW).unwrap().error.unwrap();
            EndReason::of(JobState::Failed, Box::leak(written.into_boxed_str()))
        };
        let late = Standing { expires_at: Some(Timestamp::from_seconds(1)), ..standing() };
        assert_eq!(reason(&late), EndReason::Expired);
        let out_of_time = Standing { budget: Some(Duration::ZERO), ..standing() };
        assert_eq!(reason(&out_of_time), EndReason::BudgetUsedUp);
    }

    #[test]
    fn reasons_of_cancelled_jobs() {
        let written = rules::cancel_reason(&Actor::new("ana", "no longer needed"));
        let reason = EndReason::of(JobState::Cancelled, &written);
        assert_eq!(reason, EndReason::CancelledBy("ana: no longer needed"));
        let reason = EndReason::of(JobState::Cancelled, "the order was withdrawn");
        assert_eq!(reason, EndReason::LastAttempt);
    }
}
