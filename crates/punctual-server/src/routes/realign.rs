//! Schedules that are ahead of the clock.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use punctual_api::RealignResponse;

use super::admin;
use super::schedules::Because;
use crate::ask::{Name, Query};
use crate::fault::{Answer, ErrorResponse};
use crate::server::App;

/// Whether to change anything.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DryRun {
    /// Return what would be done without doing it. Default: false.
    #[serde(default)]
    dry_run: bool,
}

/// Realign a schedule
///
/// For a schedule with `ahead_until`: its slots up to that time were decided while the database clock
/// was ahead. Discards the decisions about slots later than the clock; these slots then fire at their
/// time, also those that have already created a job. Jobs are not touched. Fails with 409 if the
/// schedule is not ahead of the clock. The reason is the parameter `why`.
#[utoipa::path(
    post, path = "/api/v1/schedules/{name}/realign", tag = "schedules",
    params(("name" = String, Path, description = "Name of the schedule"), Because, DryRun),
    responses(
        (status = 200, description = "What was discarded", body = RealignResponse),
        ErrorResponse,
    ),
)]
pub(super) async fn realign(
    State(app): State<App>,
    Name(name): Name,
    Query(because): Query<Because>,
    Query(DryRun { dry_run }): Query<DryRun>,
    headers: HeaderMap,
) -> Answer<RealignResponse> {
    let admin = admin(&app, &headers, &because.why);
    let realigned = match dry_run {
        true => admin.preview_realign(&name).await?,
        false => admin.realign_schedule(&name).await?,
    };
    Ok(Json(RealignResponse::new(realigned, dry_run)))
}
