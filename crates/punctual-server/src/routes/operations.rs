//! Many jobs at once.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use punctual::{Job as _, JobDetail, JobFilter, JobId, JobState, Order, Timestamp};
use punctual_api::{List, MoveRequest, Operation, OperationRequest, Progress, text};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::jobs::{Filter, read_cursor, write_cursor};
use super::{actor, admin, repeat};
use crate::ask::{Body, Id, Paging, Query, instant};
use crate::fault::{Answer, ErrorResponse, Fault};
use crate::operation::{Action, Bulk, OPERATIONS};
use crate::server::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, operate)).routes(routes!(show, cancel))
}

/// Start a bulk operation
///
/// Retries, cancels or moves all jobs that match a filter, in the background. The operation is
/// itself a job, which a node with the role `worker` runs; wait for it with
/// `GET /api/v1/jobs/{id}/wait`. The response is sent when the operation has been stored. With an
/// `Idempotency-Key`, the request can be repeated for 24 hours without starting a second operation.
#[utoipa::path(
    post, path = "/api/v1/operations", tag = "operations",
    request_body = OperationRequest,
    params(
        (
            "Idempotency-Key" = Option<String>,
            Header,
            description = "Key for repeating the request safely: 1 to 200 ASCII characters",
        ),
    ),
    responses(
        (status = 201, description = "Operation created", body = Operation),
        (
            status = 200,
            description = "The operation of the first request with this key",
            body = Operation,
        ),
        ErrorResponse,
    ),
)]
async fn operate(
    State(app): State<App>,
    headers: HeaderMap,
    Body(ask): Body<OperationRequest>,
) -> Result<Response, Fault> {
    let key = repeat::key(&headers, "")?.map(|key| (key, ask.clone()));
    let bulk = bulk(&app, actor(&headers), ask).await?;
    let order = match key {
        Some((key, ask)) => order(&bulk).unique(key).meaning(&ask),
        None => order(&bulk),
    };
    let receipt = app.punctual().enqueue(order).await;
    let receipt = receipt.map_err(|error| repeat::refused(error, &headers))?;
    Ok(repeat::answer(receipt, &headers, find(&app, receipt.id).await?))
}

/// Begins an operation in somebody's name, whoever may have asked for it.
pub(crate) async fn begin(app: &App, who: &str, ask: OperationRequest) -> Result<JobId, Fault> {
    let bulk = bulk(app, who, ask).await?;
    Ok(app.punctual().enqueue(order(&bulk)).await?.id)
}

/// What a wish comes to.
async fn bulk(app: &App, who: &str, ask: OperationRequest) -> Result<Bulk, Fault> {
    let action = action(&ask.action)?;
    let filter = meant(app, action, &ask.q).await?;
    let to = place(action, ask.to)?;
    Ok(Bulk {
        action,
        q: ask.q,
        state: text(filter.state),
        queue: filter.queue,
        kind: filter.kind,
        schedule: text(filter.schedule),
        tag: filter.tag,
        status: None,
        until: None,
        to_due_at: text(instant("/to/at", to.at.as_deref())?),
        to_queue: to.queue,
        to_priority: to.priority,
        asked_at: app.punctual().admin().now().await?.to_string(),
        who: who.to_owned(),
        why: ask.why,
    })
}

/// Begins to pause or resume schedules in somebody's name.
pub(crate) async fn begin_schedules(app: &App, who: &str, ask: Schedules) -> Result<JobId, Fault> {
    let bulk = Bulk {
        action: ask.action,
        q: ask.q,
        state: None,
        queue: None,
        kind: None,
        schedule: None,
        tag: None,
        to_queue: None,
        to_priority: None,
        to_due_at: None,
        status: Some(ask.status).filter(|status| !status.is_empty()),
        until: text(ask.until),
        asked_at: app.punctual().admin().now().await?.to_string(),
        who: who.to_owned(),
        why: ask.why,
    };
    Ok(app.punctual().enqueue(order(&bulk)).await?.id)
}

/// A wish to pause or resume many schedules.
pub(crate) struct Schedules {
    pub(crate) action: Action,
    /// Words of their names or definitions.
    pub(crate) q: String,
    pub(crate) status: String,
    pub(crate) until: Option<Timestamp>,
    pub(crate) why: String,
}

/// The job that carries it out.
fn order(bulk: &Bulk) -> Order {
    let order = Order::of_kind(Bulk::KIND, bulk).queue(OPERATIONS);
    match Bulk::settings().timeout {
        Some(limit) => order.timeout(limit),
        None => order,
    }
}

/// The jobs that a line means, if the action can be done to any of them.
pub(crate) async fn meant(app: &App, action: Action, q: &str) -> Result<JobFilter, Fault> {
    if q.trim().is_empty() {
        let hint = "use a filter such as `state:failed` or `kind:send_email`";
        return Err(Fault::invalid("/q", format!("the filter must not be empty; {hint}")));
    }
    let mut filter = Filter::of_line(q).read(app).await?;
    check_state(action, &mut filter)?;
    Ok(filter)
}

pub(crate) fn action(word: &str) -> Result<Action, Fault> {
    match word {
        "retry" => Ok(Action::Retry),
        "cancel" => Ok(Action::Cancel),
        "move" => Ok(Action::Move),
        _ => {
            let detail = format!("unknown action `{word}`; expected retry, cancel or move");
            Err(Fault::invalid("/action", detail))
        }
    }
}

/// What cannot be done to any job of a state is a mistake.
pub(crate) fn check_state(action: Action, filter: &mut JobFilter) -> Result<(), Fault> {
    let refuse = |state: JobState, which: &str| {
        let action = action.as_str();
        Err(Fault::invalid("/q", format!("cannot {action} jobs in state {state}; {which}")))
    };
    match (action, filter.state) {
        (Action::Retry, None) => filter.state = Some(JobState::Failed),
        (Action::Retry, Some(JobState::Failed | JobState::Cancelled)) => {}
        (Action::Retry, Some(state)) => {
            return refuse(state, "use state:failed or state:cancelled");
        }
        (_, Some(state)) if state.is_final() => {
            return refuse(
                state,
                "only unfinished jobs can be cancelled, and only waiting jobs can be moved",
            );
        }
        (Action::Move, Some(JobState::Running)) => {
            return refuse(JobState::Running, "only waiting jobs can be moved");
        }
        _ => {}
    }
    Ok(())
}

fn place(action: Action, to: Option<MoveRequest>) -> Result<MoveRequest, Fault> {
    let to = to.unwrap_or_default();
    let is_given = to != MoveRequest::default();
    match (action, is_given) {
        (Action::Move, false) => {
            Err(Fault::invalid("/to", "nothing to change; set a queue, a priority or a due time"))
        }
        (_, true) if action != Action::Move => {
            Err(Fault::invalid("/to", "`to` is only allowed with action `move`"))
        }
        _ => Ok(to),
    }
}

/// List bulk operations
///
/// Newest first.
#[utoipa::path(
    get, path = "/api/v1/operations", tag = "operations",
    params(
        (
            "limit" = Option<usize>,
            Query,
            description = "Maximum number of entries on a page. Default 50, maximum 100; higher \
                           values are reduced.",
        ),
        (
            "cursor" = Option<String>,
            Query,
            description = "`next_cursor` of the previous page. Default: the first page.",
        ),
    ),
    responses(
        (status = 200, description = "One page of operations", body = List<Operation>),
        ErrorResponse,
    ),
)]
async fn list(State(app): State<App>, Query(paging): Query<Paging>) -> Answer<List<Operation>> {
    let after = paging.after(read_cursor)?;
    let filter = JobFilter {
        queue: Some(OPERATIONS.to_owned()),
        kind: Some(Bulk::KIND.to_owned()),
        ..JobFilter::default()
    };
    let page = app.punctual().admin().jobs(&filter, after, paging.most().min(100)).await?;
    let mut items = Vec::new();
    for job in page.items {
        items.push(find(&app, job.id).await?);
    }
    Ok(Json(List { items, next_cursor: page.next.map(write_cursor) }))
}

/// Get a bulk operation
///
/// Returns the operation with its progress or result.
#[utoipa::path(
    get, path = "/api/v1/operations/{id}", tag = "operations",
    params(("id" = String, Path, description = "Operation id")),
    responses((status = 200, description = "The operation", body = Operation), ErrorResponse),
)]
async fn show(State(app): State<App>, Id(id): Id<JobId>) -> Answer<Operation> {
    Ok(Json(find(&app, id).await?))
}

/// Cancel a bulk operation
///
/// Changes that the operation has already made are kept.
#[utoipa::path(
    delete, path = "/api/v1/operations/{id}", tag = "operations",
    params(("id" = String, Path, description = "Operation id")),
    responses((status = 200, description = "The operation", body = Operation), ErrorResponse),
)]
async fn cancel(
    State(app): State<App>,
    Id(id): Id<JobId>,
    headers: HeaderMap,
) -> Answer<Operation> {
    find(&app, id).await?;
    admin(&app, &headers, "").cancel(id).await?;
    Ok(Json(find(&app, id).await?))
}

async fn find(app: &App, id: JobId) -> Result<Operation, Fault> {
    let (bulk, job) = read(app, id).await?;
    Ok(shown(bulk, job))
}

/// What was asked for, and the job that does it.
pub(crate) async fn read(app: &App, id: JobId) -> Result<(Bulk, JobDetail), Fault> {
    let job = app.punctual().admin().job(id).await?;
    let none =
        || Fault::not_found(format!("job {id} is not a bulk operation; see /api/v1/jobs/{id}"));
    if job.view.kind != Bulk::KIND {
        return Err(none());
    }
    let bulk: Bulk = serde_json::from_str(job.payload.as_str()).map_err(|_| none())?;
    Ok((bulk, job))
}

fn shown(bulk: Bulk, job: JobDetail) -> Operation {
    let result = job.result.as_ref().and_then(|result| serde_json::from_str(result.as_str()).ok());
    Operation {
        id: job.view.id.to_string(),
        action: bulk.action.as_str().to_owned(),
        q: bulk.q,
        who: bulk.who,
        why: bulk.why,
        state: job.view.state.to_string(),
        created_at: job.view.created_at.to_string(),
        finished_at: text(job.view.finished_at),
        progress: job.progress.map(Progress::from),
        result,
        error: job.view.error,
    }
}
