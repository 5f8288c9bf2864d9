//! Every metric and span of the engine, by name. What is not here is not measured.
//!
//! | name | kind | labels | what |
//! |---|---|---|---|
//! | `punctual_service_passes_total` | counter | `service` | passes that did something |
//! | `punctual_service_errors_total` | counter | `service` | passes that failed |
//! | `punctual_service_panics_total` | counter | `service` | passes that panicked: bugs |
//! | `punctual_jobs_claimed_total` | counter | | jobs taken from the store |
//! | `punctual_attempts_total` | counter | `outcome` | attempts that were settled |
//! | `punctual_settles_fenced_total` | counter | | results that came too late to count |
//! | `punctual_results_late_total` | counter | | results of handlers that had been given up |
//! | `punctual_strays_total` | counter | | jobs given back because the answer to their claim was lost |
//! | `punctual_jobs_reaped_total` | counter | | jobs taken back from dead nodes |
//! | `punctual_nodes_dead_total` | counter | | nodes declared dead |
//! | `punctual_terms_begun_total` | counter | `role` | terms that this node won |
//! | `punctual_terms_lost_total` | counter | `role` | terms that ended before they were given up |
//! | `punctual_step_downs_total` | counter | | times the node stopped leading because it was unsure |
//! | `punctual_handlers_stuck_total` | counter | `kind` | handlers that block their thread and cannot be stopped |
//! | `punctual_rejoins_total` | counter | | times the node was declared dead and came back |
//! | span `attempt` | | `job`, `kind`, `queue`, `attempt` | one attempt at a job |

use punctual_core::JobId;
use punctual_store::{ClaimedJob, Fence, Reaped, Settled, Settlement, StoreError};
use tracing::Span;

use crate::service::Report;

fn count(name: &'static str, more: usize) {
    metrics::counter!(name).increment(more as u64);
}

pub(crate) fn passed(service: &'static str, report: &Report) {
    if report.done > 0 {
        metrics::counter!("punctual_service_passes_total", "service" => service).increment(1);
        tracing::trace!(service, done = report.done, "pass");
    }
}

pub(crate) fn failed(service: &'static str, error: &StoreError) {
    metrics::counter!("punctual_service_errors_total", "service" => service).increment(1);
    tracing::warn!(service, %error, "failed and is tried again");
}

pub(crate) fn panicked(service: &'static str, message: &str) {
    metrics::counter!("punctual_service_panics_total", "service" => service).increment(1);
    tracing::error!(service, message, "panicked, which is a bug, and is tried again");
}

pub(crate) fn claimed(jobs: usize) {
    count("punctual_jobs_claimed_total", jobs);
}

pub(crate) fn settled(item: &Settlement, answer: Settled) {
    let outcome = item.transition.outcome.as_str();
    match answer {
        Settled::Applied(_) | Settled::Already => {
            metrics::counter!("punctual_attempts_total", "outcome" => outcome).increment(1);
        }
        Settled::Fenced => {
            count("punctual_settles_fenced_total", 1);
            tracing::warn!(job = %item.job, outcome, "came too late: the job is another's");
        }
    }
}

pub(crate) fn late_result() {
    count("punctual_results_late_total", 1);
}

pub(crate) fn strays(jobs: usize) {
    count("punctual_strays_total", jobs);
    tracing::warn!(jobs, "given back: the answer to their claim was lost");
}

pub(crate) fn reaped(reaped: &Reaped) {
    count("punctual_jobs_reaped_total", reaped.jobs.len());
    count("punctual_nodes_dead_total", reaped.dead.len());
    for node in &reaped.dead {
        tracing::warn!(%node, "has been silent for too long and is declared dead");
    }
}

pub(crate) fn term_began(fence: &Fence) {
    metrics::counter!("punctual_terms_begun_total", "role" => fence.role.clone()).increment(1);
    tracing::info!(role = fence.role, term = fence.term, "leads");
}

pub(crate) fn term_lost(fence: &Fence) {
    metrics::counter!("punctual_terms_lost_total", "role" => fence.role.clone()).increment(1);
    tracing::info!(role = fence.role, term = fence.term, "leads no more");
}

pub(crate) fn stepped_down() {
    count("punctual_step_downs_total", 1);
}

pub(crate) fn stuck(kind: &str, job: JobId) {
    metrics::counter!("punctual_handlers_stuck_total", "kind" => kind.to_owned()).increment(1);
    tracing::error!(kind, %job, "the handler blocks its thread and cannot be stopped; use spawn_blocking for blocking work");
}

pub(crate) fn rejoined() {
    count("punctual_rejoins_total", 1);
    tracing::warn!("declared dead; comes back under a new id");
}

pub(crate) fn not_rejoined(error: &crate::EngineError) {
    tracing::warn!(%error, "could not come back yet");
}

pub(crate) fn attempt_span(job: &ClaimedJob) -> Span {
    tracing::info_span!("attempt", job = %job.id, kind = job.kind, queue = job.queue, attempt = job.attempt)
}
