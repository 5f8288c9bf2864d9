//! What an expression means, why something is as it is, and what is not as it should be.

use axum::Json;
use axum::extract::State;
use punctual::JobId;
use punctual::doctor::Thresholds;
use punctual_api::{Diagnosis, Explain, Explained, Problem, Why};
use punctual_core::{Spec, When, Zone};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ask::{Body, Id, Name, instant};
use crate::fault::{Answer, Fault};
use crate::server::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(explain))
        .routes(routes!(why_job))
        .routes(routes!(why_schedule))
        .routes(routes!(why_queue))
        .routes(routes!(doctor))
}

/// What an expression means, and when it is due
#[utoipa::path(post, path = "/api/v1/cron/explain", tag = "answers", request_body = Explain,
    responses((status = 200, body = Explained), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn explain(State(app): State<App>, Body(ask): Body<Explain>) -> Answer<Explained> {
    let zone = Zone::get(ask.tz.as_deref().unwrap_or("UTC"));
    let zone = zone.map_err(|error| Fault::invalid("/tz", error.to_string()))?;
    let when = When::parse(&ask.expr);
    let when = when.map_err(|error| Fault::invalid("/expr", error.to_string()))?;
    let from = match instant("/from", ask.from.as_deref())? {
        Some(from) => from,
        None => app.punctual().admin().now().await?,
    };
    let (normalised, means) = (when.to_string(), when.describe());
    let spec = Spec::new(when, zone);
    let most = ask.n.unwrap_or(5).min(1_000);
    let next = std::iter::successors(spec.next(from), |slot| spec.next(*slot)).take(most);
    Ok(Json(Explained {
        normalised,
        means,
        tz: spec.zone().name().to_owned(),
        next: next.map(|slot| slot.to_string()).collect(),
        warnings: spec.warnings(from),
        expr: ask.expr,
    }))
}

/// Why a job is as it is, in words
#[utoipa::path(get, path = "/api/v1/why/jobs/{id}", tag = "answers", params(("id" = String, Path)),
    responses((status = 200, body = Why), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn why_job(State(app): State<App>, Id(id): Id<JobId>) -> Answer<Why> {
    Ok(Json(app.punctual().admin().why_job(id).await?.into()))
}

/// Why a schedule is as it is, in words
#[utoipa::path(get, path = "/api/v1/why/schedules/{name}", tag = "answers", params(("name" = String, Path)),
    responses((status = 200, body = Why), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn why_schedule(State(app): State<App>, Name(name): Name) -> Answer<Why> {
    Ok(Json(app.punctual().admin().why_schedule(&name).await?.into()))
}

/// Why a queue is as it is, in words
#[utoipa::path(get, path = "/api/v1/why/queues/{name}", tag = "answers", params(("name" = String, Path)),
    responses((status = 200, body = Why), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn why_queue(State(app): State<App>, Name(name): Name) -> Answer<Why> {
    Ok(Json(app.punctual().admin().why_queue(&name).await?.into()))
}

/// Looks for whatever is not as it should be
#[utoipa::path(get, path = "/api/v1/doctor", tag = "answers",
    responses((status = 200, body = Diagnosis), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn doctor(State(app): State<App>) -> Answer<Diagnosis> {
    Ok(Json(app.punctual().admin().doctor(&Thresholds::default()).await.into()))
}
