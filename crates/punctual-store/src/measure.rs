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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::pin::pin;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll, Waker};

    use metrics::{
        Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString,
        Unit,
    };

    use super::*;
    use crate::{ErrorKind, StoreError};

    /// Keeps counters and the numbers of recorded durations.
    #[derive(Default)]
    struct KeptMetrics(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

    impl KeptMetrics {
        fn of(&self, key: &Key) -> Arc<AtomicU64> {
            let labels: Vec<String> =
                key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let name = format!("{} {}", key.name(), labels.join(" "));
            self.0.lock().unwrap().entry(name).or_default().clone()
        }

        fn shown(&self) -> String {
            let metrics = self.0.lock().unwrap();
            let line = |(name, count): (&String, &Arc<AtomicU64>)| {
                format!("{name}: {}", count.load(Ordering::Relaxed))
            };
            metrics.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    }

    struct CountedDurations(Arc<AtomicU64>);

    impl HistogramFn for CountedDurations {
        fn record(&self, _: f64) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Recorder for KeptMetrics {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.of(key))
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::from_arc(Arc::new(CountedDurations(self.of(key))))
        }
    }

    /// Polls a measured call once, drops it, and shows the metrics.
    fn measured(call: impl Future<Output = Result<u8>>, is_ready: bool) -> String {
        let metrics = KeptMetrics::default();
        metrics::with_local_recorder(&metrics, || {
            let call = pin!(measure(Operation::claim, "memory", call, |rows| *rows as usize));
            let polled = call.poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(matches!(polled, Poll::Ready(_)), is_ready);
        });
        metrics.shown()
    }

    #[test]
    fn calls_rows_and_durations_are_counted() {
        insta::assert_snapshot!(measured(std::future::ready(Ok(3)), true), @"
        punctual_store_calls_total operation=claim backend=memory: 1
        punctual_store_rows_total operation=claim backend=memory: 3
        punctual_store_seconds operation=claim backend=memory: 1
        ");
    }

    #[test]
    fn errors_are_counted_by_kind() {
        let error = StoreError::new(ErrorKind::Conflict, "it is taken");
        insta::assert_snapshot!(measured(std::future::ready(Err(error)), true), @"
        punctual_store_calls_total operation=claim backend=memory: 1
        punctual_store_errors_total operation=claim backend=memory kind=conflict: 1
        punctual_store_seconds operation=claim backend=memory: 1
        ");
    }

    #[test]
    fn a_call_that_its_caller_abandons_is_counted_as_an_error() {
        insta::assert_snapshot!(measured(std::future::pending(), false), @"
        punctual_store_calls_total operation=claim backend=memory: 1
        punctual_store_errors_total operation=claim backend=memory kind=abandoned: 1
        punctual_store_seconds operation=claim backend=memory: 1
        ");
    }
}
