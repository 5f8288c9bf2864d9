//! Sets of schedules: desired state, applied whole.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use punctual::{Admin, ErrorDetails, JobFilter, Manner, Step, What};
use punctual_api::{List, Schedule, SetBody, SetChange, SetSchedule};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::admin;
use crate::ask::{Body, Name, Paging, Query};
use crate::fault::{Answer, ErrorResponse, Fault, pointer};
use crate::kinds::UnknownKinds;
use crate::server::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show, apply))
}

/// List the schedules of a set
///
/// Sorted by name.
#[utoipa::path(
    get, path = "/api/v1/sets/{set}", tag = "sets",
    params(("set" = String, Path, description = "Name of the set"), Paging),
    responses(
        (status = 200, description = "One page of schedules", body = List<Schedule>),
        ErrorResponse,
    ),
)]
async fn show(
    State(app): State<App>,
    Name(set): Name,
    Query(paging): Query<Paging>,
) -> Answer<List<Schedule>> {
    let (most, after) = (paging.most(), paging.cursor.as_deref());
    let admin = app.punctual().admin();
    let schedules = admin.schedules_of(&set, after, most).await?;
    let last = schedules.last().filter(|_| schedules.len() == most);
    let next_cursor = last.map(|schedule| schedule.name.clone());
    let now = admin.now().await?;
    let items = schedules.into_iter().map(|schedule| Schedule::at(schedule, now));
    Ok(Json(List { items: items.collect(), next_cursor }))
}

/// How far it may go.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct Asked {
    /// Compute the changes without applying them. Default: false.
    #[serde(default)]
    dry_run: bool,
    /// Remove schedules of the set that are not in the request. Default: false.
    #[serde(default)]
    prune: bool,
    /// Take over manually created schedules with the same name. Default: false.
    #[serde(default)]
    adopt: bool,
}

/// Apply a set of schedules
///
/// Changes the schedules of the set to match the request, in one transaction: either all changes
/// are applied or none. Pauses are kept, and other sets are not affected.
#[utoipa::path(
    put, path = "/api/v1/sets/{set}", tag = "sets",
    request_body = SetBody,
    params(("set" = String, Path, description = "Name of the set"), Asked),
    responses((status = 200, description = "The changes", body = SetChange), ErrorResponse),
)]
async fn apply(
    State(app): State<App>,
    Name(set): Name,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
    Body(body): Body<SetBody>,
) -> Answer<SetChange> {
    let wanted = body.wanted().map_err(|wrong| Fault::invalid(&wrong.pointer, wrong.detail))?;
    let Asked { dry_run, prune, adopt } = asked;
    let manner = Manner { prune, adopt, dry_run };
    let admin = admin(&app, &headers, &format!("set {set}"));
    let applied = admin.apply(&set, &wanted, manner).await;
    let applied = applied.map_err(|error| refused(error, &body))?;
    let mut unfinished = Vec::new();
    for step in &applied.steps {
        unfinished.push(unfinished_of(&admin, step).await?);
    }
    let mut change = SetChange::new(&set, manner, applied);
    for (step, count) in change.steps.iter_mut().zip(unfinished) {
        step.unfinished = count;
    }
    change.warnings = unknown_kinds(&app, &body).await?;
    Ok(Json(change))
}

/// Schedules whose jobs nobody knows. Files may well come before the workers that they are for, so
/// that it is said and not refused.
async fn unknown_kinds(app: &App, body: &SetBody) -> Result<Vec<String>, Fault> {
    let mut warnings = Vec::new();
    if app.server.unknown_kinds == UnknownKinds::Allow {
        return Ok(warnings);
    }
    for SetSchedule { name, definition, .. } in &body.schedules {
        let kind = &definition.job.kind;
        if !app.kinds.knows(kind, app.punctual()).await? {
            let unknown = app.kinds.unknown(kind);
            warnings.push(format!("schedule `{name}`: {unknown}"));
        }
    }
    Ok(warnings)
}

/// Jobs that are looked at to say how many are unfinished.
const LOOKED_AT: usize = 100;

/// How many jobs of a schedule that goes are unfinished.
async fn unfinished_of(admin: &Admin, step: &Step) -> Result<usize, Fault> {
    let goes = matches!(step.what, What::Remove | What::Leave);
    let Some(schedule) = step.before.as_ref().filter(|_| goes) else { return Ok(0) };
    let filter = JobFilter { schedule: Some(schedule.id), ..JobFilter::default() };
    let jobs = admin.jobs(&filter, None, LOOKED_AT).await?;
    Ok(jobs.items.iter().filter(|job| !job.state.is_final()).count())
}

/// Everything that is wrong, each with its place.
fn refused(error: punctual::Error, body: &SetBody) -> Fault {
    let errors = match error.details() {
        Some(ErrorDetails::Several(errors)) => errors.clone(),
        _ => vec![error.clone()],
    };
    let mut problem = Fault::from(error).problem();
    for error in errors {
        let Some(ErrorDetails::Schedule { name, error: cause }) = error.details() else { continue };
        let number = body.schedules.iter().position(|schedule| schedule.name == *name);
        let Some(number) = number else { continue };
        let field = match cause.details() {
            Some(ErrorDetails::Field(field)) => format!("/definition{}", pointer(field)),
            _ => String::new(),
        };
        problem = problem.at(format!("/schedules/{number}{field}"), error.to_string());
    }
    problem.into()
}
