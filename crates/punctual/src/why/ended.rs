//! Why a job has ended, and how an attempt did.

use punctual_core::job::{AttemptOutcome, CRASHES_MAX, JobState};
use punctual_store::{AttemptView, EndReason, JobDetail};

use super::Reason;
use super::cluster::Cluster;
use crate::wording::{after_colon, argument, brief, length, when};

/// Why a job has ended.
pub(super) fn reasons(job: &JobDetail, cluster: &Cluster) -> Vec<Reason> {
    vec![match job.view.state {
        JobState::Failed => failed(job, cluster),
        JobState::Cancelled => cancelled(job, cluster),
        _ => succeeded(job, cluster),
    }]
}

fn end(job: &JobDetail, cluster: &Cluster) -> String {
    let at = job.view.finished_at.unwrap_or(job.view.created_at);
    when(cluster.now, at)
}

fn succeeded(job: &JobDetail, cluster: &Cluster) -> Reason {
    let ended = end(job, cluster);
    let Some(last) = job.attempts.last() else {
        return Reason::new("succeeded", format!("succeeded {ended}"));
    };
    let node = last.node.map_or_else(String::new, |node| format!(" on {}", cluster.name(node)));
    let took = length(last.ended_at.unwrap_or(last.claimed_at).since(last.claimed_at));
    let text = format!("succeeded {ended}{node}, attempt {}, duration {took}", last.attempt);
    Reason::new("succeeded", text)
}

/// Stores write down who called a job off; a handler's own reason stands alone.
fn cancelled(job: &JobDetail, cluster: &Cluster) -> Reason {
    let error = brief(job.view.error.as_deref().unwrap_or_default());
    let by = match EndReason::of(JobState::Cancelled, &error) {
        EndReason::CancelledBy(by) => by.to_owned(),
        _ => format!("its handler{}", after_colon(&error)),
    };
    let reason = Reason::new("cancelled", format!("cancelled {} by {by}", end(job, cluster)));
    reason.remedy(format!("to run it anyway: `punctual job retry {}`", job.view.id))
}

fn failed(job: &JobDetail, cluster: &Cluster) -> Reason {
    let error = job.view.error.as_deref().unwrap_or_default();
    let (spent, most) = (job.spent, job.view.max_attempts);
    let ended = end(job, cluster);
    let last = job.attempts.last().map(|last| attempt(last, cluster));
    let last = last.unwrap_or_else(|| brief(error));
    let reason = EndReason::of(JobState::Failed, error);
    let (code, text) = if reason == EndReason::Unreadable {
        let text = "its row cannot be read; it is damaged or was written by another program";
        ("unreadable", format!("failed {ended}: {text}"))
    } else if reason == EndReason::Expired {
        let text = match job.attempts.iter().rfind(|attempt| is_counted(attempt)) {
            Some(tried) => format!(
                "expired {ended}: no further attempt started within `start_within`; {}",
                attempt(tried, cluster)
            ),
            None => format!("expired {ended}: it did not start within `start_within`"),
        };
        ("expired", text)
    } else if reason == EndReason::ExpiresFirst {
        ("expired", format!("no retry within `start_within` was possible: {last}"))
    } else if reason == EndReason::BudgetUsedUp {
        ("budget_used_up", format!("its attempts used all of its time budget: {last}"))
    } else if job.crashes >= CRASHES_MAX {
        let text = "while running it; not retried, to protect other nodes";
        ("crashed", format!("failed {ended}: its node died {} times {text}", job.crashes))
    } else if spent >= most {
        ("attempts_used_up", format!("no attempts left, {spent} of {most} used: {last}"))
    } else {
        let text = "the error is marked as not retryable";
        (
            "failed_permanently",
            format!("failed permanently after {spent} of {most} attempts ({text}): {last}"),
        )
    };
    let (id, queue) = (job.view.id, argument(&job.view.queue));
    let remedy = match code {
        "crashed" => format!(
            "check why the nodes died: `punctual job show {id}`; then retry: \
             `punctual job retry {id}`"
        ),
        "unreadable" => {
            "find out what wrote or damaged the row, then enqueue the job again".to_owned()
        }
        "expired" if reason == EndReason::Expired => format!(
            "check why it waited: `punctual why queue {queue}`; then retry, which removes the \
             deadline: `punctual job retry {id}`"
        ),
        _ => format!("fix the cause, then retry: `punctual job retry {id}`"),
    };
    Reason::new(code, text).remedy(remedy)
}

fn is_counted(attempt: &AttemptView) -> bool {
    attempt.outcome.is_some_and(AttemptOutcome::counts)
}

/// How an attempt ended, in words: when, where, and what went wrong.
pub(super) fn attempt(attempt: &AttemptView, cluster: &Cluster) -> String {
    let how = match attempt.outcome {
        Some(AttemptOutcome::Succeeded) => "succeeded",
        Some(AttemptOutcome::Failed) => "failed",
        Some(AttemptOutcome::Cancelled) => "was cancelled",
        Some(AttemptOutcome::TimedOut) => "timed out",
        Some(AttemptOutcome::Abandoned) => "was lost when its node died",
        Some(AttemptOutcome::Released) => "was released",
        Some(AttemptOutcome::Snoozed) => "was snoozed by its handler",
        Some(AttemptOutcome::Panicked) => "panicked",
        None => "is running",
    };
    let node = attempt.node.map_or_else(String::new, |node| format!(" on {}", cluster.name(node)));
    let at = when(cluster.now, attempt.ended_at.unwrap_or(attempt.claimed_at));
    let error = after_colon(attempt.error.as_deref().unwrap_or_default());
    format!("attempt {} {how}{node} {at}{error}", attempt.attempt)
}
