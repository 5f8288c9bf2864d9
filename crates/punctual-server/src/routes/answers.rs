//! What an expression means, why something is as it is, and what is not as it should be.

use axum::Json;
use axum::extract::State;
use punctual::JobId;
use punctual::doctor::Thresholds;
use punctual_api::{CronExplainRequest, CronExplanation, Diagnosis, Explanation};
use punctual_core::{Spec, When, Zone};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ask::{Body, Id, Name, instant};
use crate::fault::{Answer, ErrorResponse, Fault};
use crate::server::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(explain))
        .routes(routes!(why_job))
        .routes(routes!(why_schedule))
        .routes(routes!(why_queue))
        .routes(routes!(doctor))
}

/// Explain a schedule expression
///
/// Returns the meaning of the expression in plain English and its next slots.
#[utoipa::path(
    post, path = "/api/v1/cron/explain", tag = "diagnostics",
    request_body = CronExplainRequest,
    responses(
        (status = 200, description = "The explanation", body = CronExplanation),
        ErrorResponse,
    ),
)]
async fn explain(
    State(app): State<App>,
    Body(ask): Body<CronExplainRequest>,
) -> Answer<CronExplanation> {
    let zone = Zone::get(ask.tz.as_deref().unwrap_or("UTC"));
    let zone = zone.map_err(|error| Fault::invalid("/tz", error.to_string()))?;
    let when = When::parse(&ask.expr);
    let when = when.map_err(|error| Fault::invalid("/expr", error.to_string()))?;
    let from = match instant("/from", ask.from.as_deref())? {
        Some(from) => from,
        None => app.punctual().admin().now().await?,
    };
    let (normalized, description) = (when.to_string(), when.describe());
    let spec = Spec::new(when, zone);
    let most = ask.n.unwrap_or(5).min(1_000);
    let next = std::iter::successors(spec.next(from), |slot| spec.next(*slot)).take(most);
    Ok(Json(CronExplanation {
        normalized,
        description,
        tz: spec.zone().name().to_owned(),
        next: next.map(|slot| slot.to_string()).collect(),
        warnings: spec.warnings(from),
        expr: ask.expr,
    }))
}

/// Explain the state of a job
///
/// Returns why the job is waiting, running or finished, and what to do about it.
#[utoipa::path(
    get, path = "/api/v1/why/jobs/{id}", tag = "diagnostics",
    params(("id" = String, Path, description = "Job id")),
    responses((status = 200, description = "The explanation", body = Explanation), ErrorResponse),
)]
async fn why_job(State(app): State<App>, Id(id): Id<JobId>) -> Answer<Explanation> {
    Ok(Json(app.punctual().admin().why_job(id).await?.into()))
}

/// Explain the state of a schedule
///
/// Returns why the schedule fires or does not fire, and what to do about it.
#[utoipa::path(
    get, path = "/api/v1/why/schedules/{name}", tag = "diagnostics",
    params(("name" = String, Path, description = "Name of the schedule")),
    responses((status = 200, description = "The explanation", body = Explanation), ErrorResponse),
)]
async fn why_schedule(State(app): State<App>, Name(name): Name) -> Answer<Explanation> {
    Ok(Json(app.punctual().admin().why_schedule(&name).await?.into()))
}

/// Explain the state of a queue
///
/// Returns why the jobs of the queue run or wait, and what to do about it.
#[utoipa::path(
    get, path = "/api/v1/why/queues/{name}", tag = "diagnostics",
    params(("name" = String, Path, description = "Name of the queue")),
    responses((status = 200, description = "The explanation", body = Explanation), ErrorResponse),
)]
async fn why_queue(State(app): State<App>, Name(name): Name) -> Answer<Explanation> {
    Ok(Json(app.punctual().admin().why_queue(&name).await?.into()))
}

/// Check the system for problems
///
/// Checks nodes, leaders, queues, schedules, failed jobs, clocks, the database schema and
/// retention.
#[utoipa::path(
    get, path = "/api/v1/doctor", tag = "diagnostics",
    responses((status = 200, description = "The diagnosis", body = Diagnosis), ErrorResponse),
)]
async fn doctor(State(app): State<App>) -> Answer<Diagnosis> {
    Ok(Json(app.punctual().doctor(&Thresholds::default()).await.into()))
}
