//! The deadline of an attempt. The maintenance leader ends attempts that exceed it; until then, no
//! result is accepted for them. Only what the store says counts, not what a worker sends.

use punctual_core::Timestamp;
use punctual_core::job::AttemptOutcome;
use punctual_store::{JobDetail, rules};

/// Until when the attempt that is under way may take.
pub(super) fn deadline_of(detail: &JobDetail) -> Option<Timestamp> {
    let hold = detail.hold?;
    let (last, earlier) = detail.attempts.split_last()?;
    // Snoozes use nothing of a budget, as when a job is claimed.
    let counted = earlier.iter().filter(|attempt| {
        attempt.attempt > hold.fresh_after && attempt.outcome != Some(AttemptOutcome::Snoozed)
    });
    let took = counted.filter_map(|attempt| Some(attempt.ended_at?.since(attempt.claimed_at)));
    Some(last.claimed_at + rules::remote_limit(hold.timeout, hold.budget, took.sum()))
}
