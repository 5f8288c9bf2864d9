//! What follows from the end of an attempt. The one place where it is decided.

use std::time::Duration;

use super::retry::RetryPolicy;
use super::state::AttemptOutcome;
use crate::{JobId, Timestamp};

/// After this many crashes of its node a job has failed, whatever its attempts allow: a job
/// that kills its process would otherwise take down one node after the other.
pub const CRASHES_MAX: u32 = 3;

/// How often a job is released because its node lacked resources. After that such attempts count,
/// so that a job that uses up the resources itself ends.
pub const RESOURCE_RELEASES_MAX: u32 = 10;

/// The wait before the next attempt after its node lacked resources.
pub const RESOURCE_WAIT: Duration = Duration::from_secs(5);

/// What is written about a job whose time to start had passed.
pub const EXPIRED: &str = "expired before it could start";
/// What is written about a job that may take no more time.
pub const BUDGET_USED_UP: &str = "its time budget is used up";
/// What is written about a job whose next attempt would come too late.
pub const EXPIRES_FIRST: &str = "it expires before the next attempt";

/// Where a job stands while an attempt of it is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The job.
    pub job: JobId,
    /// The number of this attempt, from 1; every start has one of its own.
    pub attempt: u32,
    /// Counted attempts before this one.
    pub spent: u32,
    /// Attempts before this one that ended with the death of their node.
    pub crashes: u32,
    /// Attempts before this one that were released because their node lacked resources. Only the node
    /// that runs an attempt decides by it; elsewhere it is 0.
    pub resource_releases: u32,
    /// The most counted attempts.
    pub max_attempts: u32,
    /// Time that earlier attempts took.
    pub used: Duration,
    /// When this attempt was claimed.
    pub claimed_at: Timestamp,
    /// The most time that all attempts may take together.
    pub budget: Option<Duration>,
    /// No attempt may start after this instant.
    pub expires_at: Option<Timestamp>,
}

/// How an attempt ended, as its worker or the reaper saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The handler finished its work.
    Done,
    /// The handler returned an error.
    Fail(String),
    /// The handler returned an error and asks to be tried again after this wait.
    RetryAfter(Duration, String),
    /// The handler returned an error that no further attempt can mend.
    FailForGood(String),
    /// The attempt took longer than allowed.
    TimedOut(Duration),
    /// The handler panicked, with this message.
    Panicked(String),
    /// The node died or lost touch.
    Abandoned,
    /// The node gives the job back.
    Released,
    /// The node lacked memory, processes or open files, with this message.
    OutOfResources(String),
    /// The handler asks to be called again after this wait.
    Snooze(Duration),
    /// The job was called off, for this reason.
    Cancel(String),
}

/// Where the job goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It ends well.
    Succeeded,
    /// It ends in the dead letters.
    Failed,
    /// It ends because it was called off.
    Cancelled,
    /// It may run again at once, in its old place in the queue.
    Ready,
    /// It may run again after this wait.
    After(Duration),
}

impl Next {
    /// Is this the end of the job?
    pub const fn is_final(self) -> bool {
        matches!(self, Next::Succeeded | Next::Failed | Next::Cancelled)
    }

    /// The wait before the next attempt, if there is a wait.
    pub const fn wait(self) -> Option<Duration> {
        match self {
            Next::After(wait) => Some(wait),
            Next::Succeeded | Next::Failed | Next::Cancelled | Next::Ready => None,
        }
    }
}

/// What is to be written about an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// How the attempt ended.
    pub outcome: AttemptOutcome,
    /// Where the job goes.
    pub next: Next,
    /// What went wrong, in words.
    pub error: Option<String>,
}

impl Transition {
    /// Is the job released because its node lacked resources? No other release has a wait.
    pub fn is_resource_release(&self) -> bool {
        self.outcome == AttemptOutcome::Released && self.next.wait().is_some()
    }
}

/// Decides what follows from the end of an attempt.
pub fn decide(
    standing: &Standing,
    outcome: Outcome,
    policy: &RetryPolicy,
    now: Timestamp,
) -> Transition {
    use AttemptOutcome as Ended;
    let to =
        |outcome: Ended, next: Next, error: Option<String>| Transition { outcome, next, error };
    let retry = |ended: Ended, wait: Option<Duration>, error: String| {
        let (next, error) = after_failure(standing, wait, policy, error, now);
        to(ended, next, Some(error))
    };
    match outcome {
        Outcome::Done => to(Ended::Succeeded, Next::Succeeded, None),
        Outcome::Cancel(reason) => to(Ended::Cancelled, Next::Cancelled, Some(reason)),
        Outcome::Released => to(Ended::Released, Next::Ready, None),
        Outcome::OutOfResources(error) if standing.resource_releases < RESOURCE_RELEASES_MAX => {
            to(Ended::Released, Next::After(RESOURCE_WAIT), Some(error))
        }
        Outcome::OutOfResources(error) => retry(Ended::Failed, None, error),
        Outcome::Snooze(wait) => to(Ended::Snoozed, Next::After(wait), None),
        Outcome::FailForGood(error) => to(Ended::Failed, Next::Failed, Some(error)),
        Outcome::Fail(error) => retry(Ended::Failed, None, error),
        Outcome::RetryAfter(wait, error) => retry(Ended::Failed, Some(wait), error),
        Outcome::Panicked(message) => {
            let error = format!("the handler panicked: {message}");
            retry(Ended::Panicked, None, error)
        }
        Outcome::TimedOut(limit) => {
            let limit = crate::format_duration(limit);
            retry(Ended::TimedOut, None, format!("exceeded the time limit of {limit}"))
        }
        Outcome::Abandoned if standing.crashes + 1 >= CRASHES_MAX => {
            let error = format!("its node died {CRASHES_MAX} times while running it");
            to(Ended::Abandoned, Next::Failed, Some(error))
        }
        Outcome::Abandoned => {
            let error = "its node died or lost contact with the database".to_owned();
            retry(Ended::Abandoned, None, error)
        }
    }
}

/// Where a job goes after an attempt that failed and counts. A handler can choose the wait.
fn after_failure(
    standing: &Standing,
    wait: Option<Duration>,
    policy: &RetryPolicy,
    error: String,
    now: Timestamp,
) -> (Next, String) {
    let tries = standing.spent + 1;
    if tries >= standing.max_attempts {
        return (Next::Failed, error);
    }
    let wait = wait.unwrap_or_else(|| policy.backoff.wait(standing.job, standing.attempt, tries));
    let used = standing.used + now.since(standing.claimed_at);
    if standing.budget.is_some_and(|budget| used >= budget) {
        return (Next::Failed, format!("{error} (and {BUDGET_USED_UP})"));
    }
    if is_expired(standing.expires_at, now + wait) {
        return (Next::Failed, format!("{error} (and {EXPIRES_FIRST})"));
    }
    (Next::After(wait), error)
}

/// Whether the start deadline of a job has passed. An attempt may still start at the deadline itself.
pub fn is_expired(expires_at: Option<Timestamp>, now: Timestamp) -> bool {
    expires_at.is_some_and(|expires_at| now > expires_at)
}

/// Why an attempt that was just claimed must not start, if it must not. A job that expired used no
/// attempt, because nothing was executed.
pub fn refuse_start(standing: &Standing, now: Timestamp) -> Option<Transition> {
    let failed = |outcome: AttemptOutcome, error: &str| Transition {
        outcome,
        next: Next::Failed,
        error: Some(error.to_owned()),
    };
    if is_expired(standing.expires_at, now) {
        return Some(failed(AttemptOutcome::Released, EXPIRED));
    }
    if standing.budget.is_some_and(|budget| standing.used >= budget) {
        return Some(failed(AttemptOutcome::Cancelled, BUDGET_USED_UP));
    }
    None
}

#[cfg(test)]
mod tests;
