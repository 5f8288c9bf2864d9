//! Queues.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use punctual::{QueueLimits, Timestamp};
use punctual_api::{Limits, List, Pause, PauseRequest, Queue};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::admin;
use crate::ask::{Body, MaybeBody, Name, instant};
use crate::fault::{Answer, ErrorResponse, Fault};
use crate::server::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show, limit))
        .routes(routes!(pause))
        .routes(routes!(resume))
}

/// Every queue that has a setting or a job, and when the jobs were counted.
async fn all(app: &App) -> Result<(BTreeMap<String, Queue>, Timestamp), Fault> {
    let admin = app.punctual().admin();
    let now = admin.now().await?;
    let mut queues: BTreeMap<String, Queue> = BTreeMap::new();
    for queue in admin.queues().await? {
        let limits = Limits { max_running: queue.limits.max_running };
        let pause = Pause::at(queue.pause.as_ref(), now);
        let name = queue.name.clone();
        let shown = Queue { name, pause, limits, ..Queue::default() };
        queues.insert(queue.name, shown);
    }
    let (mut after, mut counted_at, mut is_partial) = (None, now, false);
    loop {
        let page = admin.queue_stats(after.as_ref(), 500).await?;
        for stats in page.items {
            let queue = queues
                .entry(stats.queue.clone())
                .or_insert_with(|| Queue { name: stats.queue.clone(), ..Queue::default() });
            queue.kinds.push(stats.into());
        }
        // Each page can be from another count: the oldest is reported.
        counted_at = counted_at.min(page.counted_at.unwrap_or(now));
        is_partial |= page.is_partial;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    for queue in queues.values_mut() {
        queue.counted_at = counted_at.to_string();
        queue.is_partial = is_partial;
    }
    Ok((queues, counted_at))
}

async fn one(app: &App, name: &str) -> Result<Queue, Fault> {
    let (mut queues, counted_at) = all(app).await?;
    let queue = queues.remove(name);
    // A queue without settings and jobs needs nothing to exist.
    let empty =
        || Queue { name: name.to_owned(), counted_at: counted_at.to_string(), ..Queue::default() };
    Ok(queue.unwrap_or_else(empty))
}

/// List queues
///
/// Lists every queue that has settings or jobs.
#[utoipa::path(
    get, path = "/api/v1/queues", tag = "queues",
    responses((status = 200, description = "The queues", body = List<Queue>), ErrorResponse),
)]
async fn list(State(app): State<App>) -> Answer<List<Queue>> {
    Ok(Json(List::whole(all(&app).await?.0.into_values().collect())))
}

/// Get a queue
///
/// A queue without settings and jobs is returned as empty.
#[utoipa::path(
    get, path = "/api/v1/queues/{name}", tag = "queues",
    params(("name" = String, Path, description = "Name of the queue")),
    responses((status = 200, description = "The queue", body = Queue), ErrorResponse),
)]
async fn show(State(app): State<App>, Name(name): Name) -> Answer<Queue> {
    Ok(Json(one(&app, &name).await?))
}

/// Set the limits of a queue
///
/// Replaces all limits of the queue. An omitted limit is removed.
#[utoipa::path(
    patch, path = "/api/v1/queues/{name}", tag = "queues",
    params(("name" = String, Path, description = "Name of the queue")),
    request_body = Limits,
    responses((status = 200, description = "The queue", body = Queue), ErrorResponse),
)]
async fn limit(
    State(app): State<App>,
    Name(name): Name,
    headers: HeaderMap,
    Body(limits): Body<Limits>,
) -> Answer<Queue> {
    let limits = QueueLimits { max_running: limits.max_running };
    admin(&app, &headers, "").limit_queue(&name, limits).await?;
    Ok(Json(one(&app, &name).await?))
}

/// Pause a queue
///
/// Running jobs finish. New jobs wait until the queue is resumed.
#[utoipa::path(
    post, path = "/api/v1/queues/{name}/pause", tag = "queues",
    params(("name" = String, Path, description = "Name of the queue")),
    request_body(
        content = ref("#/components/schemas/PauseRequest"),
        content_type = "application/json",
        description = "Can be omitted",
    ),
    responses((status = 200, description = "The paused queue", body = Queue), ErrorResponse),
)]
async fn pause(
    State(app): State<App>,
    Name(name): Name,
    headers: HeaderMap,
    MaybeBody(ask): MaybeBody<PauseRequest>,
) -> Answer<Queue> {
    let until = instant("/until", ask.until.as_deref())?;
    admin(&app, &headers, &ask.why).pause_queue(&name, until).await?;
    Ok(Json(one(&app, &name).await?))
}

/// Resume a queue
///
/// Nodes claim jobs from the queue again.
#[utoipa::path(
    post, path = "/api/v1/queues/{name}/resume", tag = "queues",
    params(("name" = String, Path, description = "Name of the queue")),
    responses((status = 200, description = "The queue", body = Queue), ErrorResponse),
)]
async fn resume(State(app): State<App>, Name(name): Name, headers: HeaderMap) -> Answer<Queue> {
    admin(&app, &headers, "").resume_queue(&name).await?;
    Ok(Json(one(&app, &name).await?))
}
