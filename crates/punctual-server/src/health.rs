//! For whoever looks after the process.

use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual::ErrorKind;
use punctual_api::Problem;

use crate::fault::Fault;
use crate::server::App;

/// The process runs.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// The process can do its work: it is in touch with the database.
pub(crate) async fn ready(State(app): State<App>) -> Response {
    let problem = |code: &str, detail: String| {
        Fault::from(Problem::new(503, code, "Not ready", detail)).into_response()
    };
    if app.punctual().is_stopped() {
        let detail = "the server is shutting down and accepts no new work";
        return problem("stopping", detail.to_owned());
    }
    if let Some(error) = app.punctual().store_failure() {
        return problem("unreachable", error.to_string());
    }
    if let Some(health) = app.punctual().health().filter(|health| !health.is_in_touch) {
        let node = health.node;
        let detail = format!("node {node} has lost contact with the database");
        return problem("out_of_touch", detail);
    }
    match app.punctual().admin().now().await {
        Ok(_) => {}
        Err(error) => return problem("unreachable", error.to_string()),
    }
    match app.punctual().admin().check_writable().await {
        Ok(()) => (StatusCode::OK, "ok\n").into_response(),
        Err(error) if error.kind() == ErrorKind::Full => problem("disk_full", error.to_string()),
        Err(error) => problem("unreachable", error.to_string()),
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
