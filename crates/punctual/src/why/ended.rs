//! Why a job has ended, and how an attempt did.

use punctual_core::job::{
    AttemptOutcome, BUDGET_USED_UP, CRASHES_MAX, EXPIRED, EXPIRES_FIRST, JobState,
};
use punctual_store::{AttemptView, JobDetail, rules};

use super::Reason;
use super::cluster::Cluster;
use crate::wording::{after_colon, argument, brief, length, when};

/// Why a job has ended.
pub(super) fn reasons(job: &JobDetail, cluster: &Cluster) -> Vec<Reason> {
    vec![match job.view.state {
        JobState::Failed => failed(job, cluster),
        JobState::Cancelled => cancelled(job, cluster),
        JobState::Succeeded => succeeded(job, cluster),
        _ => Reason::new(
            "skipped",
            format!("{}, because a rule of its workflow said no", end(job, cluster)),
        ),
    }]
}

fn end(job: &JobDetail, cluster: &Cluster) -> String {
    let at = job.view.finished_at.unwrap_or(job.view.created_at);
    format!("it ended {}", when(cluster.now, at))
}

fn succeeded(job: &JobDetail, cluster: &Cluster) -> Reason {
    let ended = end(job, cluster);
    let Some(last) = job.attempts.last() else { return Reason::new("succeeded", ended) };
    let node = last.node.map_or_else(String::new, |node| format!(" on {}", cluster.name(node)));
    let took = length(last.ended_at.unwrap_or(last.claimed_at).since(last.claimed_at));
    let text = format!("{ended}{node}: attempt {} succeeded and took {took}", last.attempt);
    Reason::new("succeeded", text)
}

/// Stores write down who called a job off; a handler's own reason stands alone.
fn cancelled(job: &JobDetail, cluster: &Cluster) -> Reason {
    let error = brief(job.view.error.as_deref().unwrap_or_default());
    let by = match error.starts_with("cancelled by ") {
        true => error,
        false => format!("called off by its handler{}", after_colon(&error)),
    };
    let reason = Reason::new("cancelled", format!("{}, {by}", end(job, cluster)));
    reason.remedy(format!("if it is wanted after all: `punctual job retry {}`", job.view.id))
}

fn failed(job: &JobDetail, cluster: &Cluster) -> Reason {
    let error = job.view.error.as_deref().unwrap_or_default();
    let (spent, most) = (job.spent, job.view.max_attempts);
    let ended = end(job, cluster);
    let last = job.attempts.last().map(|last| attempt(last, cluster));
    let last = last.unwrap_or_else(|| brief(error));
    let (code, text) = if error == rules::UNREADABLE {
        let text = "its row could not be read, damaged or written by somebody else, so that it was set aside";
        ("unreadable", format!("{ended}: {text}"))
    } else if error == EXPIRED {
        ("expired", format!("{ended}: it could not start in the time that it was given"))
    } else if error.ends_with(&format!("{EXPIRES_FIRST})")) {
        ("expired", format!("the next attempt would have started too late: {last}"))
    } else if error.contains(BUDGET_USED_UP) {
        ("budget_used_up", format!("its attempts took all the time that they were given: {last}"))
    } else if job.crashes >= CRASHES_MAX {
        let text = "while it ran, and it is not tried again, lest it take another one down";
        ("crashed", format!("{ended}: its node died {} times {text}", job.crashes))
    } else if spent >= most {
        ("attempts_used_up", format!("all of its {most} attempts are used up: {last}"))
    } else {
        let text = "its handler, or a rule for its errors, said that another would not help";
        ("failed_for_good", format!("after {spent} of {most} attempts {text}: {last}"))
    };
    let (id, queue) = (job.view.id, argument(&job.view.queue));
    let remedy = match code {
        "crashed" => format!(
            "see why the nodes died: `punctual job show {id}`; then try it again: `punctual job retry {id}`"
        ),
        "unreadable" => "see what wrote or damaged its row, then enqueue it anew".to_owned(),
        "expired" if error == EXPIRED => format!(
            "see why it waited: `punctual why queue {queue}`; then try it again: `punctual job retry {id}`"
        ),
        _ => format!("mend the cause, then try it again: `punctual job retry {id}`"),
    };
    Reason::new(code, text).remedy(remedy)
}

/// How an attempt ended, in words: when, where, and what went wrong.
pub(super) fn attempt(attempt: &AttemptView, cluster: &Cluster) -> String {
    let how = match attempt.outcome {
        Some(AttemptOutcome::Succeeded) => "succeeded",
        Some(AttemptOutcome::Failed) => "failed",
        Some(AttemptOutcome::Cancelled) => "was called off",
        Some(AttemptOutcome::TimedOut) => "timed out",
        Some(AttemptOutcome::Abandoned) => "was lost with its node",
        Some(AttemptOutcome::Released) => "was given back",
        Some(AttemptOutcome::Snoozed) => "was put off by its handler",
        Some(AttemptOutcome::Panicked) => "panicked",
        None => "is under way",
    };
    let node = attempt.node.map_or_else(String::new, |node| format!(" on {}", cluster.name(node)));
    let at = when(cluster.now, attempt.ended_at.unwrap_or(attempt.claimed_at));
    let error = after_colon(attempt.error.as_deref().unwrap_or_default());
    format!("attempt {} {how}{node} {at}{error}", attempt.attempt)
}
