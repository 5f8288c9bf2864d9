//! Counts connections that were refused, and logs them at most once a minute.

use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::admission::Refusal;
use super::{now, pause};

const REFUSED: &str = "punctual_server_connections_refused_total";
pub(super) const OPEN: &str = "punctual_server_connections";

const MAX: &str = "punctual_server_connections_max";

/// The shortest time between two log lines.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Registers the help texts of the metrics of connections with the installed metrics recorder.
pub fn describe_metrics() {
    metrics::describe_counter!(REFUSED, "Connections refused, by reason");
    metrics::describe_gauge!(
        OPEN,
        "Open connections, without those for health checks and metrics only"
    );
    metrics::describe_gauge!(MAX, "Maximum number of open connections");
}

/// Sets the metric of the limit.
pub(super) fn show_limit(total_max: usize) {
    metrics::gauge!(MAX).set(total_max as f64);
}

/// The refusals since the last log line.
#[derive(Default)]
pub(super) struct Refusals {
    unreported: Mutex<Unreported>,
    /// There is something to report.
    news: Notify,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Unreported {
    total: u64,
    address: u64,
    errors: u64,
    last_error: Option<String>,
    reported_at: Option<Instant>,
}

impl Unreported {
    /// How long to wait before the next report; `None`: there is nothing to report.
    fn due_in(&self, now: Instant) -> Option<Duration> {
        if self.total + self.address + self.errors == 0 {
            return None;
        }
        let wait = |at: Instant| (at + LOG_EVERY).saturating_duration_since(now);
        Some(self.reported_at.map_or(Duration::ZERO, wait))
    }
}

impl Refusals {
    fn unreported(&self) -> MutexGuard<'_, Unreported> {
        // Nothing here panics while it holds the lock; if a bug does, the state is still whole.
        self.unreported.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn count(&self, refusal: Refusal) {
        metrics::counter!(REFUSED, "reason" => refusal.as_str()).increment(1);
        let mut unreported = self.unreported();
        match refusal {
            Refusal::Total => unreported.total += 1,
            Refusal::Address => unreported.address += 1,
        }
        self.news.notify_one();
    }

    /// Counts an error of the system when a connection was accepted.
    pub(super) fn count_error(&self, error: &io::Error) {
        metrics::counter!(REFUSED, "reason" => "error").increment(1);
        let mut unreported = self.unreported();
        unreported.errors += 1;
        unreported.last_error = Some(error.to_string());
        self.news.notify_one();
    }

    /// Ends when it is time to report.
    pub(super) async fn due(&self) {
        loop {
            let due_in = self.unreported().due_in(now());
            match due_in {
                Some(wait) if wait.is_zero() => return,
                Some(wait) => pause(wait).await,
                None => self.news.notified().await,
            }
        }
    }

    /// Logs what was refused since the last time, and how many connections are open.
    pub(super) fn report(&self, open: usize, limit: usize) {
        let next = Unreported { reported_at: Some(now()), ..Unreported::default() };
        let Unreported { total, address, errors, last_error, .. } =
            std::mem::replace(&mut *self.unreported(), next);
        if total + address > 0 {
            tracing::warn!(
                beyond_total = total,
                beyond_address = address,
                open,
                limit,
                "connections refused: too many connections"
            );
        }
        if errors > 0 {
            tracing::error!(
                count = errors,
                error = last_error,
                "cannot accept connections; raise the limit of open files (`ulimit -n`, \
                 `LimitNOFILE`)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn refusals_are_reported_at_once_and_then_once_a_minute() {
        let refusals = Refusals::default();
        assert_eq!(refusals.unreported().due_in(now()), None);
        let began = now();
        for (reports, expected) in [(1, 0), (2, 60), (3, 120)] {
            refusals.count(Refusal::Total);
            refusals.due().await;
            assert_eq!(now().duration_since(began).as_secs(), expected, "report {reports}");
            refusals.report(0, 0);
            assert_eq!(refusals.unreported().due_in(now()), None);
        }
    }
}
