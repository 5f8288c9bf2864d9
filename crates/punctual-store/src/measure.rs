//! Spans and metrics of the operations.

use std::time::Instant;

use tracing::Instrument;

use crate::{Operation, Result};

/// Registers the help texts of the metrics of stores with the installed metrics recorder.
pub fn describe_metrics() {
    metrics::describe_counter!("punctual_store_calls_total", "Store operations that were run");
    metrics::describe_counter!(
        "punctual_store_errors_total",
        "Store operations that failed, by kind of error; `abandoned` ones exceeded the timeout of their caller"
    );
    metrics::describe_counter!(
        "punctual_store_rows_total",
        "Rows that store operations wrote or returned; 1 for operations on single rows"
    );
    metrics::describe_histogram!(
        "punctual_store_seconds",
        metrics::Unit::Seconds,
        "Duration of store operations, including the wait for a connection"
    );
}

/// Runs an operation in a span of its own, and records its duration, its rows and its error.
pub(crate) async fn measure<T>(
    operation: Operation,
    backend: &'static str,
    call: impl Future<Output = Result<T>>,
    rows: impl FnOnce(&T) -> usize,
) -> Result<T> {
    let name = operation.name();
    let mut record = CallRecord {
        labels: [("operation", name), ("backend", backend)],
        begin: now(),
        // Its caller has a timeout, and drops calls that take longer.
        error: Some("abandoned"),
    };
    let result = call.instrument(tracing::debug_span!("store", operation = name, backend)).await;
    record.error = result.as_ref().err().map(|error| error.kind().name());
    if let Ok(response) = &result {
        metrics::counter!("punctual_store_rows_total", &record.labels)
            .increment(rows(response) as u64);
    }
    result
}

/// Records a call when it ends, also one that its caller abandons.
struct CallRecord {
    labels: [(&'static str, &'static str); 2],
    begin: Instant,
    error: Option<&'static str>,
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        let seconds = self.begin.elapsed().as_secs_f64();
        metrics::histogram!("punctual_store_seconds", &self.labels).record(seconds);
        metrics::counter!("punctual_store_calls_total", &self.labels).increment(1);
        if let Some(kind) = self.error {
            let [operation, backend] = self.labels;
            metrics::counter!("punctual_store_errors_total", &[operation, backend, ("kind", kind)])
                .increment(1);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a duration for a metric; no decision depends on it")]
fn now() -> Instant {
    Instant::now()
}
