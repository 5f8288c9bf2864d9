//! Health checks and metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual::{ErrorKind, Punctual};
use punctual_api::Problem;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::access::is_local;
use crate::dashboard;
use crate::fault::Fault;
use crate::server::App;

/// The process runs.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// How long a check of the database is valid for further requests.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// How long a check may take.
const CHECK_MAX: Duration = Duration::from_secs(60);

/// The last check of the database, for all requests. While a check runs, other requests wait for it.
#[derive(Default)]
pub(crate) struct Readiness(Arc<Mutex<Option<LastCheck>>>);

type LastCheck = (Instant, Result<(), NotReady>);

/// Why the process cannot do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NotReady {
    code: &'static str,
    detail: String,
}

impl NotReady {
    fn no_answer() -> NotReady {
        NotReady { code: "unreachable", detail: "the database does not respond".to_owned() }
    }
}

impl Readiness {
    /// Returns the result of the last check, or of a new one. A check that has begun is finished and
    /// counts, even if the client that asked for it has left: clients that leave at once must not cause
    /// more checks than others.
    async fn check<F>(&self, check: impl FnOnce() -> F) -> Result<(), NotReady>
    where
        F: Future<Output = Result<(), NotReady>> + Send + 'static,
    {
        let mut last = self.0.clone().lock_owned().await;
        if let Some((at, result)) = last.as_ref()
            && now().duration_since(*at) < CHECK_EVERY
        {
            return result.clone();
        }
        let checking = tokio::time::timeout(CHECK_MAX, check());
        let checked = tokio::spawn(async move {
            let result = checking.await.unwrap_or_else(|_| Err(NotReady::no_answer()));
            *last = Some((now(), result.clone()));
            result
        });
        // It fails only if the check panics, which is logged, or if the process ends.
        checked.await.unwrap_or_else(|_| Err(NotReady::no_answer()))
    }
}

#[expect(clippy::disallowed_methods, reason = "health checks are outside of the engine")]
fn now() -> Instant {
    Instant::now()
}

async fn check_database(punctual: Punctual) -> Result<(), NotReady> {
    let unreachable =
        |error: punctual::Error| NotReady { code: "unreachable", detail: error.to_string() };
    punctual.admin().now().await.map_err(unreachable)?;
    punctual.admin().check_writable().await.map_err(|error| match error.kind() {
        ErrorKind::Full => NotReady { code: "disk_full", detail: error.to_string() },
        _ => unreachable(error),
    })
}

async fn check(app: &App) -> Result<(), NotReady> {
    if app.punctual().is_stopped() {
        let detail = "the server is shutting down and accepts no new work".to_owned();
        return Err(NotReady { code: "stopping", detail });
    }
    if let Some(error) = app.punctual().store_failure() {
        return Err(NotReady { code: "unreachable", detail: error.to_string() });
    }
    if let Some(health) = app.punctual().health().filter(|health| !health.is_in_touch) {
        let detail = format!("node {} has lost contact with the database", health.node);
        return Err(NotReady { code: "out_of_touch", detail });
    }
    app.readiness.check(|| check_database(app.punctual().clone())).await
}

/// The process can do its work: it is in touch with the database. Only authenticated requests learn
/// why it cannot, because the reason can name the database and its address.
pub(crate) async fn ready(State(app): State<App>, request: Request) -> Response {
    let may_know = match &app.server.token {
        Some(token) => dashboard::visitor(token, request.headers()).is_some(),
        None => is_local(&request).is_ok(),
    };
    // Its head and what was sent of its body are not needed while the database is checked.
    drop(request);
    match check(&app).await {
        Ok(()) => (StatusCode::OK, "ok\n").into_response(),
        Err(NotReady { code, detail }) if may_know => {
            Fault::from(Problem::new(503, code, "Not ready", detail)).into_response()
        }
        Err(_) => {
            let retry = [(header::RETRY_AFTER, "1")];
            (StatusCode::SERVICE_UNAVAILABLE, retry, "unavailable\n").into_response()
        }
    }
}

/// Metrics of the process and of the queues, for Prometheus.
pub(crate) async fn metrics(State(app): State<App>) -> Response {
    let mut text = app.server.metrics.as_ref().map(|metrics| metrics.render()).unwrap_or_default();
    // The metrics of the process are returned even if the database does not respond.
    match queues(&app).await {
        Ok(Some(queues)) => text.push_str(&queues),
        Ok(None) => without_gauges(&app, &NOT_COUNTED),
        Err(error) => without_gauges(&app, &error),
    }
    let errors = app.metrics_errors.load(Ordering::Relaxed);
    text.push_str(&format!(
        "# HELP punctual_metrics_errors_total Scrapes without queue gauges because the database \
         gave no counts\n\
         # TYPE punctual_metrics_errors_total counter\n\
         punctual_metrics_errors_total {errors}\n"
    ));
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// Gauges of some of the jobs would hide a backlog from alerts.
const NOT_COUNTED: &str = "not all jobs are counted yet; the node that holds the role `maintenance` counts \
                           them: `punctual leader list`";

fn without_gauges(app: &App, error: &dyn std::fmt::Display) {
    app.metrics_errors.fetch_add(1, Ordering::Relaxed);
    tracing::warn!(%error, "cannot read queue statistics for the metrics endpoint");
}

/// The gauges of all queues; none if not all jobs are counted yet.
async fn queues(app: &App) -> punctual::Result<Option<String>> {
    let admin = app.punctual().admin();
    let now = admin.now().await?;
    let mut depth = String::from(
        "# HELP punctual_queue_depth Jobs by queue, kind and state\n\
         # TYPE punctual_queue_depth gauge\n",
    );
    let mut oldest = String::from(
        "# HELP punctual_queue_oldest_seconds Age of the due time of the oldest ready job\n\
         # TYPE punctual_queue_oldest_seconds gauge\n",
    );
    let (mut after, mut counted_at) = (None, now);
    loop {
        let page = admin.queue_stats(after.as_ref(), 500).await?;
        if page.is_partial {
            return Ok(None);
        }
        counted_at = counted_at.min(page.counted_at.unwrap_or(now));
        for stats in &page.items {
            let label = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
            let labels =
                format!("queue=\"{}\",kind=\"{}\"", label(&stats.queue), label(&stats.kind));
            let counts = [
                ("ready", stats.ready),
                ("scheduled", stats.scheduled),
                ("retrying", stats.retrying),
                ("blocked", stats.blocked),
                ("running", stats.running),
                ("failed", stats.failed),
            ];
            for (state, count) in counts {
                depth.push_str(&format!(
                    "punctual_queue_depth{{{labels},state=\"{state}\"}} {count}\n"
                ));
            }
            let age = stats.oldest_due_at.map(|due| now.since(due).as_secs_f64()).unwrap_or(0.0);
            oldest.push_str(&format!("punctual_queue_oldest_seconds{{{labels}}} {age}\n"));
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let age = now.since(counted_at).as_secs_f64();
    Ok(Some(format!(
        "{depth}{oldest}\
         # HELP punctual_queue_counted_seconds Time since the jobs of the queues were counted\n\
         # TYPE punctual_queue_counted_seconds gauge\n\
         punctual_queue_counted_seconds {age}\n"
    )))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use futures_util::future::{FutureExt, join_all};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_within_a_second_share_one_check_of_the_database() {
        let (readiness, checks) = (Readiness::default(), Arc::<AtomicU64>::default());
        let check = || {
            let number = checks.fetch_add(1, Ordering::Relaxed);
            async move {
                tokio::task::yield_now().await;
                match number {
                    0 => Ok(()),
                    _ => Err(NotReady::no_answer()),
                }
            }
        };
        let all = join_all((0..100).map(|_| readiness.check(check))).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(checks.load(Ordering::Relaxed), 1);
        tokio::time::advance(CHECK_EVERY).await;
        let all = join_all((0..100).map(|_| readiness.check(check))).await;
        assert!(all.iter().all(Result::is_err));
        assert_eq!(checks.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_counts_even_if_its_client_leaves() {
        let (readiness, checks) = (Readiness::default(), Arc::<AtomicU64>::default());
        let check = || {
            checks.fetch_add(1, Ordering::Relaxed);
            async {
                tokio::task::yield_now().await;
                Ok(())
            }
        };
        for _ in 0..100 {
            // The client has left before the check has ended.
            assert_eq!(readiness.check(check).now_or_never(), None);
        }
        assert_eq!(readiness.check(check).await, Ok(()));
        assert_eq!(checks.load(Ordering::Relaxed), 1);
    }
}
