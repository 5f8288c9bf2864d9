//! All metrics and spans of the engine.
//!
//! [`describe_metrics`] gives the metrics recorder the help text of each metric. Spans: `attempt`, one
//! attempt of a job, with the fields `job`, `kind`, `queue` and `attempt`.

use std::time::Duration;

use punctual_core::job::{AttemptOutcome, Next, SlotOutcome};
use punctual_core::{JobId, ScheduleId, Timestamp};
use punctual_store::{
    AheadSchedules, ClaimedJob, ExpiredJob, Fence, OverdueJob, Reaped, Settled, SkippedSlots,
    SlotRow, StoreError, UnreadableJob, rules,
};
use tracing::Span;

use crate::failure_log::FailureLine;
use crate::service::Report;
use crate::shortage::PAUSE;

use MetricType::{Counter, Gauge, Histogram};

#[derive(Clone, Copy)]
enum MetricType {
    Counter,
    Gauge,
    Histogram,
}

/// Type, name and help text of every metric.
const METRICS: &[(MetricType, &str, &str)] = &[
    (Counter, "punctual_service_passes_total", "Service passes that did work"),
    (Counter, "punctual_service_errors_total", "Service passes that failed"),
    (Counter, "punctual_service_panics_total", "Service passes that panicked (bugs)"),
    (Counter, "punctual_jobs_claimed_total", "Jobs claimed"),
    (Counter, "punctual_attempts_total", "Attempts settled"),
    (
        Counter,
        "punctual_claim_pauses_total",
        "Pauses of claiming because the node lacked memory, processes or open files",
    ),
    (Counter, "punctual_settles_fenced_total", "Results rejected because the lease was lost"),
    (Counter, "punctual_results_late_total", "Results of handlers that were already abandoned"),
    (
        Counter,
        "punctual_log_lines_dropped_total",
        "Job log lines dropped because writing them failed",
    ),
    (Counter, "punctual_strays_total", "Jobs released because the claim response was lost"),
    (Counter, "punctual_jobs_reaped_total", "Jobs reclaimed from dead nodes"),
    (
        Counter,
        "punctual_jobs_stranded_total",
        "Jobs of schedules cancelled because no live node serves their queue",
    ),
    (
        Counter,
        "punctual_jobs_expired_total",
        "Jobs that failed because they did not start before their start deadline",
    ),
    (
        Counter,
        "punctual_attempts_without_resources_total",
        "Attempts for which the node lacked memory, processes or open files",
    ),
    (Counter, "punctual_nodes_dead_total", "Nodes declared dead"),
    (Counter, "punctual_terms_begun_total", "Leader terms won by this node"),
    (Counter, "punctual_terms_lost_total", "Leader terms lost by this node"),
    (
        Counter,
        "punctual_step_downs_total",
        "Times the node stopped leading because its lease was unconfirmed",
    ),
    (
        Counter,
        "punctual_handlers_stuck_total",
        "Handlers that block their thread and cannot be stopped",
    ),
    (Counter, "punctual_rejoins_total", "Times the node was declared dead and rejoined"),
    (
        Counter,
        "punctual_slots_total",
        "Slots decided, by planned outcome; a slot without a job because of overlap or too many nodes counts twice",
    ),
    (
        Counter,
        "punctual_schedules_held_total",
        "Times the slots of a schedule began to wait for a node",
    ),
    (Histogram, "punctual_fire_late_seconds", "Time from a slot to the commit that fired it"),
    (
        Histogram,
        "punctual_start_late_seconds",
        "Time from a slot to the claim of the first attempt of its job",
    ),
    (Counter, "punctual_schedules_set_aside_total", "Schedules quarantined"),
    (
        Counter,
        "punctual_schedules_paused_for_failures_total",
        "Schedules paused after repeated failures",
    ),
    (Counter, "punctual_histories_forked_total", "Database failovers detected"),
    (
        Gauge,
        "punctual_schedules_ahead",
        "Schedules whose slots are decided ahead of the database clock, at most 500",
    ),
    (Gauge, "punctual_clock_held", "1 while the database clock is not trusted"),
];

/// Registers the help text of every metric with the installed metrics recorder.
///
/// Call it once, after the recorder is installed and before the first node starts.
pub fn describe_metrics() {
    punctual_store::describe_metrics();
    for &(metric_type, name, help) in METRICS {
        match metric_type {
            Counter => metrics::describe_counter!(name, help),
            Gauge => metrics::describe_gauge!(name, help),
            Histogram => metrics::describe_histogram!(name, metrics::Unit::Seconds, help),
        }
    }
}

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
    pass_failed(service, error, FailureLine::New);
}

pub(crate) fn pass_failed(service: &'static str, error: &StoreError, line: FailureLine) {
    metrics::counter!("punctual_service_errors_total", "service" => service).increment(1);
    match line {
        FailureLine::New => tracing::warn!(service, %error, "service pass failed, retrying"),
        FailureLine::Reminder(count) => {
            tracing::warn!(service, %error, count, "service passes still fail, retrying");
        }
        FailureLine::Repeated => {
            tracing::debug!(service, %error, "service pass failed again, retrying");
        }
    }
}

/// A service works again after so many failed passes.
pub(crate) fn recovered(service: &'static str, failed: u64) {
    tracing::info!(service, failed, "service recovered");
}

pub(crate) fn panicked(service: &'static str, message: &str) {
    metrics::counter!("punctual_service_panics_total", "service" => service).increment(1);
    tracing::error!(service, message, "service pass panicked (this is a bug), retrying");
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
            tracing::warn!(job = %job, outcome, "result rejected: the lease was lost");
        }
    }
}

/// An attempt whose outcome is recorded.
pub struct EndedAttempt<'a> {
    /// The job.
    pub job: JobId,
    /// Its kind.
    pub kind: &'a str,
    /// Its queue.
    pub queue: &'a str,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// Time from the claim to the end.
    pub duration: Duration,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// Did the job fail for good with it?
    pub is_final: bool,
    /// Time until the next attempt, if there is one.
    pub retry_in: Option<Duration>,
    /// The error that it ended with.
    pub error: Option<&'a str>,
}

/// Logs an attempt that did not succeed: `error` if its job failed for good, otherwise `warn`.
pub fn attempt_ended(ended: &EndedAttempt) {
    use AttemptOutcome::{Cancelled, Released, Snoozed, Succeeded};
    match ended.outcome {
        // A job that expired fails for good, although its attempt did not start.
        Succeeded | Cancelled | Released | Snoozed if !ended.is_final => return,
        _ => {}
    }
    let EndedAttempt { job, kind, queue, number, error, .. } = *ended;
    let outcome = ended.outcome.as_str();
    let duration_ms = milliseconds(ended.duration);
    if ended.is_final {
        tracing::error!(
            kind, queue, %job, attempt = number, duration_ms, outcome, error, "job failed for good"
        );
    } else {
        let retry_in_ms = ended.retry_in.map(milliseconds);
        tracing::warn!(
            kind, queue, %job, attempt = number, duration_ms, outcome, error, retry_in_ms,
            "attempt failed"
        );
    }
}

/// Logs an attempt for which the node lacked resources, and that the node stops claiming if it does.
pub(crate) fn lacked_resources(job: JobId, kind: &str, error: &str, is_pause: bool) {
    count("punctual_attempts_without_resources_total", 1);
    tracing::warn!(kind, %job, error, "attempt ended because this node lacks resources");
    if is_pause {
        count("punctual_claim_pauses_total", 1);
        let pause_ms = milliseconds(PAUSE);
        tracing::error!(
            pause_ms,
            "claiming paused: this node lacks memory, processes or open files; raise its limits \
             (`ulimit -n`, `LimitNOFILE`, `TasksMax`, `MemoryMax`) or run fewer jobs at the same time"
        );
    }
}

/// Logs the error of a handler that has seen the shutdown. The attempt is released and does not count.
pub(crate) fn released_at_shutdown(kind: &str, queue: &str, job: JobId, attempt: u32, error: &str) {
    tracing::warn!(kind, queue, %job, attempt, error, "attempt released at shutdown after an error");
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn log_lines_dropped(lines: usize) {
    count("punctual_log_lines_dropped_total", lines);
    tracing::warn!(lines, "job log lines dropped: writing them to the store failed");
}

pub(crate) fn late_result() {
    count("punctual_results_late_total", 1);
}

pub(crate) fn strays(jobs: usize) {
    count("punctual_strays_total", jobs);
    tracing::warn!(jobs, "released unlisted leases: the claim response was lost");
}

pub(crate) fn reaped(reaped: &Reaped) {
    count("punctual_jobs_reaped_total", reaped.jobs.len());
    count("punctual_nodes_dead_total", reaped.dead.len());
    for node in &reaped.dead {
        tracing::warn!(%node, "node declared dead: no heartbeat");
    }
    for reaped in &reaped.jobs {
        let Some(attempt) = &reaped.attempt else {
            tracing::error!(job = %reaped.job, "job failed for good: its lease cannot be read");
            continue;
        };
        attempt_ended(&EndedAttempt {
            job: reaped.job,
            kind: &attempt.kind,
            queue: &attempt.queue,
            number: attempt.number,
            duration: attempt.held,
            outcome: AttemptOutcome::Abandoned,
            is_final: reaped.next == Next::Failed,
            retry_in: reaped.next.wait(),
            error: attempt.error.as_deref(),
        });
    }
    for OverdueJob { job, attempt, queue, kind, claimed_at, next, error, .. } in &reaped.overdue {
        attempt_ended(&EndedAttempt {
            job: *job,
            kind,
            queue,
            number: *attempt,
            duration: reaped.at.since(*claimed_at),
            outcome: AttemptOutcome::TimedOut,
            is_final: *next == Next::Failed,
            retry_in: next.wait(),
            error: error.as_deref(),
        });
    }
}

/// A claimed job was refused because of its start deadline.
pub(crate) fn expired_at_claim() {
    count("punctual_jobs_expired_total", 1);
}

/// Counts and logs jobs that failed at this instant because their start deadline had passed.
pub fn jobs_expired(at: Timestamp, jobs: &[ExpiredJob]) {
    count("punctual_jobs_expired_total", jobs.len());
    for ExpiredJob { job, queue, kind, due_at, error } in jobs {
        let waited_ms = milliseconds(at.since(*due_at));
        tracing::error!(kind, queue, %job, waited_ms, error, "job failed for good");
    }
}

/// Logs jobs that failed because they cannot be read.
pub fn jobs_unreadable(jobs: &[UnreadableJob]) {
    for UnreadableJob { job, queue, kind } in jobs {
        tracing::error!(kind, queue, %job, error = rules::UNREADABLE, "job failed for good");
    }
}

pub(crate) fn term_began(fence: &Fence) {
    metrics::counter!("punctual_terms_begun_total", "role" => fence.role.clone()).increment(1);
    tracing::info!(role = fence.role, term = fence.term, "became leader");
}

/// The store has confirmed a term that this node was not sure of.
pub(crate) fn term_confirmed(fence: &Fence) {
    tracing::debug!(role = fence.role, term = fence.term, "still leader");
}

pub(crate) fn term_lost(fence: &Fence) {
    metrics::counter!("punctual_terms_lost_total", "role" => fence.role.clone()).increment(1);
    tracing::info!(role = fence.role, term = fence.term, "no longer leader");
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
        tracing::warn!(jobs, "jobs cancelled: no live node serves their queue");
    }
}

/// A schedule whose jobs failed too often.
pub(crate) fn paused_for_failures(schedule: &str, failures: usize) {
    count("punctual_schedules_paused_for_failures_total", 1);
    tracing::warn!(schedule, failures, "schedule paused after repeated failures");
}

/// Slots of a schedule began to wait for a node.
pub(crate) fn held(schedule: ScheduleId, queue: &str) {
    count("punctual_schedules_held_total", 1);
    tracing::warn!(%schedule, queue, "slots held: no live node can run them");
}

/// Slots for which there are too many nodes.
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

/// Slots without a job, as the store decided them.
pub(crate) fn skipped(schedule: &str, slots: &SkippedSlots) {
    let SkippedSlots { outcome, reason, count, first, last, .. } = slots;
    macro_rules! event {
        ($level:ident, $message:literal) => {
            tracing::$level!(schedule, %outcome, count, %first, %last, reason, $message)
        };
    }
    match outcome {
        SlotOutcome::Missed => event!(warn, "slots missed"),
        SlotOutcome::Coalesced => event!(info, "slots coalesced"),
        SlotOutcome::SkippedOverlap => event!(info, "slots skipped"),
        // The definition or a pause asks for these.
        SlotOutcome::SkippedPaused | SlotOutcome::SkippedExcluded => event!(debug, "slots skipped"),
        SlotOutcome::Fired | SlotOutcome::CaughtUp | SlotOutcome::Backfilled => {}
    }
}

/// Slots without a job of schedules that are not logged one by one.
pub(crate) fn skipped_elsewhere(outcome: SlotOutcome, count: u64) {
    match outcome {
        SlotOutcome::Missed => tracing::warn!(%outcome, count, "slots of other schedules missed"),
        SlotOutcome::Coalesced => {
            tracing::info!(%outcome, count, "slots of other schedules coalesced");
        }
        SlotOutcome::SkippedOverlap => {
            tracing::info!(%outcome, count, "slots of other schedules skipped");
        }
        _ => tracing::debug!(%outcome, count, "slots of other schedules skipped"),
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
    tracing::error!(%schedule, reason, "schedule quarantined, it does not fire until it is fixed");
}

/// Schedules whose decided slots are later than the database clock.
pub(crate) fn schedules_ahead(ahead: &AheadSchedules, is_news: bool) {
    metrics::gauge!("punctual_schedules_ahead").set(ahead.schedules.len() as f64);
    let furthest = ahead.schedules.first().and_then(|first| first.last_slot);
    let Some(furthest) = furthest.filter(|_| is_news) else { return };
    tracing::warn!(
        schedules = ahead.schedules.len(),
        is_partial = ahead.is_partial,
        until = %furthest,
        "schedules wait for the database clock, which was set back: their slots are already decided; \
         run `punctual schedule realign --all` if the clock is right now"
    );
}

pub(crate) fn clock_held(was_held: bool, is_held: bool) {
    if was_held != is_held {
        metrics::gauge!("punctual_clock_held").set(f64::from(u8::from(is_held)));
        if is_held {
            tracing::error!(
                "database clock jumped forward; later slots wait until it is stable for two minutes"
            );
        } else {
            tracing::info!("database clock is trusted again");
        }
    }
}

pub(crate) fn history_forked(wait: Duration) {
    count("punctual_histories_forked_total", 1);
    tracing::error!(
        ?wait,
        "database failover detected; the last writes may be lost, and schedules do not fire for a short time"
    );
}

pub(crate) fn unreadable_facts(job: JobId, error: &serde_json::Error) {
    tracing::warn!(%job, %error, "cannot read the schedule data of a job");
}

pub(crate) fn stepped_down() {
    count("punctual_step_downs_total", 1);
}

pub(crate) fn stuck(kind: &str, job: JobId) {
    metrics::counter!("punctual_handlers_stuck_total", "kind" => kind.to_owned()).increment(1);
    tracing::error!(kind, %job, "handler blocks its thread and cannot be stopped; use spawn_blocking for blocking work");
}

pub(crate) fn rejoined() {
    count("punctual_rejoins_total", 1);
    tracing::warn!("this node was declared dead, rejoining with a new id");
}

pub(crate) fn not_rejoined(error: &crate::EngineError) {
    tracing::warn!(%error, "rejoining failed, retrying");
}

/// A shutdown whose time is over.
pub(crate) fn out_of_time() {
    tracing::warn!(
        "shutdown timed out; jobs that could not be settled are reclaimed by other nodes"
    );
}

pub(crate) fn no_thread(name: &str, error: &std::io::Error) {
    tracing::warn!(thread = name, %error, "cannot start a thread, using the runtime instead");
}

pub(crate) fn attempt_span(job: &ClaimedJob) -> Span {
    tracing::info_span!("attempt", job = %job.id, kind = job.kind, queue = job.queue, attempt = job.attempt)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::METRICS;

    /// The words of a line that begin like a metric of ours.
    fn names(line: &str) -> impl Iterator<Item = &str> {
        let words = line.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        let is_metric = |word: &&str| {
            let unit =
                ["_total", "_seconds", "_held", "_ahead"].iter().any(|unit| word.ends_with(unit));
            word.starts_with("punctual_") && unit
        };
        words.filter(is_metric)
    }

    #[test]
    fn the_table_names_what_is_measured_and_nothing_else() {
        let listed: BTreeSet<&str> = METRICS.iter().map(|(_, name, _)| *name).collect();
        let (_, code) = include_str!("telemetry.rs").split_once("\nfn count(").unwrap();
        let measured: BTreeSet<&str> = code.lines().flat_map(names).collect();
        assert_eq!(listed, measured);
        assert!(listed.len() > 10);
    }
}
