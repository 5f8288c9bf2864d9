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
//! | `punctual_log_lines_dropped_total` | counter | | lines of jobs' logs that the store did not take |
//! | `punctual_strays_total` | counter | | jobs given back because the answer to their claim was lost |
//! | `punctual_jobs_reaped_total` | counter | | jobs taken back from dead nodes |
//! | `punctual_jobs_stranded_total` | counter | | jobs of schedules called off because their node did not come back |
//! | `punctual_nodes_dead_total` | counter | | nodes declared dead |
//! | `punctual_terms_begun_total` | counter | `role` | terms that this node won |
//! | `punctual_terms_lost_total` | counter | `role` | terms that ended before they were given up |
//! | `punctual_step_downs_total` | counter | | times the node stopped leading because it was unsure |
//! | `punctual_handlers_stuck_total` | counter | `kind` | handlers that block their thread and cannot be stopped |
//! | `punctual_rejoins_total` | counter | | times the node was declared dead and came back |
//! | `punctual_slots_total` | counter | `outcome` | slots that were decided; one that was refused for overlap also counts as planned |
//! | `punctual_fire_late_seconds` | histogram | | from a slot to the commit that fired it |
//! | `punctual_start_late_seconds` | histogram | | from a slot to the claim of its job's first attempt |
//! | `punctual_schedules_set_aside_total` | counter | | schedules that could not be planned |
//! | `punctual_schedules_paused_for_failures_total` | counter | | schedules paused because their jobs failed in a row |
//! | `punctual_histories_forked_total` | counter | | times the database went on with another history, as after a failover |
//! | `punctual_clock_held` | gauge | | 1 while the database's clock is held to be wrong |
//! | span `attempt` | | `job`, `kind`, `queue`, `attempt` | one attempt at a job |

use std::time::Duration;

use punctual_core::job::{AttemptOutcome, SlotOutcome};
use punctual_core::{JobId, ScheduleId, Timestamp};
use punctual_store::{ClaimedJob, Fence, Reaped, Settled, SlotRow, StoreError};
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

pub(crate) fn settled(job: JobId, outcome: AttemptOutcome, answer: Settled) {
    let outcome = outcome.as_str();
    match answer {
        Settled::Applied(_) | Settled::Already => {
            metrics::counter!("punctual_attempts_total", "outcome" => outcome).increment(1);
        }
        Settled::Fenced => {
            count("punctual_settles_fenced_total", 1);
            tracing::warn!(job = %job, outcome, "came too late: the job is another's");
        }
    }
}

pub(crate) fn log_lines_dropped(lines: usize) {
    count("punctual_log_lines_dropped_total", lines);
    tracing::warn!(lines, "lines of jobs' logs were dropped: the store does not take them");
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

/// Slots that asked for a job and found earlier ones unfinished; they count as both.
pub(crate) fn refused(slots: usize) {
    let outcome = SlotOutcome::SkippedOverlap.as_str();
    metrics::counter!("punctual_slots_total", "outcome" => outcome).increment(slots as u64);
}

/// Jobs of schedules whose node did not come back.
pub(crate) fn stranded(jobs: usize) {
    count("punctual_jobs_stranded_total", jobs);
    if jobs > 0 {
        tracing::warn!(jobs, "called off: no live node has served their queue since they were due");
    }
}

/// A schedule whose jobs failed too often.
pub(crate) fn paused_for_failures(schedule: &str, failures: usize) {
    count("punctual_schedules_paused_for_failures_total", 1);
    tracing::warn!(schedule, failures, "paused: its last jobs have all failed");
}

/// Slots that no live node takes.
pub(crate) fn unplaced(slots: usize) {
    let outcome = SlotOutcome::Missed.as_str();
    metrics::counter!("punctual_slots_total", "outcome" => outcome).increment(slots as u64);
}

/// As the leader planned it.
pub(crate) fn decided(row: &SlotRow, at: Timestamp) {
    let outcome = row.outcome.as_str();
    metrics::counter!("punctual_slots_total", "outcome" => outcome).increment(row.count);
    if row.job.is_some() {
        let late = at.since(row.slot).as_secs_f64();
        metrics::histogram!("punctual_fire_late_seconds").record(late);
    }
}

pub(crate) fn started(job: &ClaimedJob) {
    let slot = job.origin.as_ref().and_then(|origin| origin.slot);
    if let (Some(slot), 1) = (slot, job.attempt) {
        let late = job.claimed_at.since(slot).as_secs_f64();
        metrics::histogram!("punctual_start_late_seconds").record(late);
    }
}

pub(crate) fn set_aside(schedule: ScheduleId, reason: &str) {
    count("punctual_schedules_set_aside_total", 1);
    tracing::error!(%schedule, reason, "cannot be planned and is set aside until it is mended");
}

pub(crate) fn clock_held(was_held: bool, is_held: bool) {
    if was_held != is_held {
        metrics::gauge!("punctual_clock_held").set(f64::from(u8::from(is_held)));
        if is_held {
            tracing::error!(
                "the database's clock was stepped forward; later slots wait until it has gone right for two minutes"
            );
        } else {
            tracing::info!("the database's clock is trusted again");
        }
    }
}

pub(crate) fn history_forked(wait: Duration) {
    count("punctual_histories_forked_total", 1);
    tracing::error!(
        ?wait,
        "the database goes on with another history, as after a failover; what was written last may be lost, and nothing is fired for a while"
    );
}

pub(crate) fn unreadable_facts(job: JobId, error: &serde_json::Error) {
    tracing::warn!(%job, %error, "what its schedule told cannot be read");
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// The words of a line that begin like a metric of ours.
    fn names(line: &str) -> impl Iterator<Item = &str> {
        let words = line.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        let is_metric = |word: &&str| {
            let unit = ["_total", "_seconds", "_held"].iter().any(|unit| word.ends_with(unit));
            word.starts_with("punctual_") && unit
        };
        words.filter(is_metric)
    }

    #[test]
    fn the_table_names_what_is_measured_and_nothing_else() {
        let (mut told, mut measured) = (BTreeSet::new(), BTreeSet::new());
        for line in include_str!("telemetry.rs").lines() {
            let kind = if line.starts_with("//!") { &mut told } else { &mut measured };
            kind.extend(names(line));
        }
        assert_eq!(told, measured);
        assert!(told.len() > 10);
    }
}
