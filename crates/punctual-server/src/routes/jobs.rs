//! Jobs.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use punctual::{Cursor, JobFilter, JobId, Order, Placement, Timestamp, Unique};
use punctual_api::{
    BatchItem, BatchRequest, BatchResponse, EnqueueRequest, EnqueueResponse, Job, JobDetail, List,
    LogLine, MoveRequest,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{admin, repeat, tail};
use crate::ask::{Body, Id, Meant, Paging, Query, Sent, instant, length};
use crate::fault::{Answer, ErrorResponse, Fault};
use crate::server::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, enqueue))
        .routes(routes!(enqueue_batch))
        .routes(routes!(show, place))
        .routes(routes!(retry))
        .routes(routes!(cancel))
        .routes(routes!(wait))
        .routes(routes!(log))
}

/// Which jobs a list shows. What is not given does not matter.
#[derive(Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Only jobs in this state.
    #[serde(default)]
    pub(crate) state: Option<String>,
    /// Only jobs in this queue.
    #[serde(default)]
    pub(crate) queue: Option<String>,
    /// Only jobs of this kind.
    #[serde(default)]
    pub(crate) kind: Option<String>,
    /// Only jobs of the schedule with this name (not its id). An unknown name fails with 404.
    #[serde(default)]
    pub(crate) schedule: Option<String>,
    /// Only jobs with this tag.
    #[serde(default)]
    pub(crate) tag: Option<String>,
    /// The same filters in one string: `state:failed kind:send_email`. If a key is repeated, only
    /// its last value counts.
    #[serde(default)]
    pub(crate) q: Option<String>,
}

impl Filter {
    /// What one line says.
    pub(crate) fn of_line(line: &str) -> Filter {
        Filter { q: Some(line.to_owned()), ..Filter::default() }
    }

    /// With what the one line says.
    pub(crate) fn with_line(mut self) -> Result<Filter, Fault> {
        let line = self.q.take().unwrap_or_default();
        for word in line.split_whitespace() {
            let wrong = || {
                Fault::unreadable(
                    "q",
                    format!(
                        "unknown filter `{word}`; use state:VALUE, queue:VALUE, kind:VALUE, \
                         schedule:VALUE or tag:VALUE"
                    ),
                )
            };
            let (name, value) = word.split_once(':').ok_or_else(wrong)?;
            let place = match name {
                "state" => &mut self.state,
                "queue" => &mut self.queue,
                "kind" => &mut self.kind,
                "schedule" => &mut self.schedule,
                "tag" => &mut self.tag,
                _ => return Err(wrong()),
            };
            *place = Some(value.to_owned());
        }
        Ok(self)
    }

    pub(crate) async fn read(self, app: &App) -> Result<JobFilter, Fault> {
        let filter = self.with_line()?;
        let state = filter.state.map(|state| state.parse()).transpose();
        let schedule = match &filter.schedule {
            Some(name) => Some(app.punctual().admin().schedule(name).await?.id),
            None => None,
        };
        Ok(JobFilter {
            state: state.map_err(|error| Fault::unreadable("state", format!("{error}")))?,
            queue: filter.queue,
            kind: filter.kind,
            tenant: None,
            schedule,
            tag: filter.tag,
        })
    }
}

pub(crate) fn write_cursor(cursor: Cursor) -> String {
    match cursor.ended {
        Some(ended) => format!("{}.{}", ended.as_micros(), cursor.job),
        None => cursor.job.to_string(),
    }
}

pub(crate) fn read_cursor(text: &str) -> Option<Cursor> {
    let (ended, job) = match text.split_once('.') {
        Some((ended, job)) => (Some(Timestamp::from_micros(ended.parse().ok()?)), job),
        None => (None, text),
    };
    Some(Cursor { ended, job: job.parse().ok()? })
}

/// List jobs
///
/// Newest first. Failed jobs (`state=failed`) are sorted by the time they failed, newest first.
#[utoipa::path(
    get, path = "/api/v1/jobs", tag = "jobs",
    params(Filter, Paging),
    responses((status = 200, description = "One page of jobs", body = List<Job>), ErrorResponse),
)]
async fn list(
    State(app): State<App>,
    Query(filter): Query<Filter>,
    Query(paging): Query<Paging>,
) -> Answer<List<Job>> {
    let after = paging.after(read_cursor)?;
    let filter = filter.read(&app).await?;
    let page = app.punctual().admin().jobs(&filter, after, paging.most()).await?;
    let items = page.items.into_iter().map(Job::from).collect();
    Ok(Json(List { items, next_cursor: page.next.map(write_cursor) }))
}

/// The order that a request means.
fn order(app: &App, ask: EnqueueRequest, at: &str) -> Result<Order, Fault> {
    app.check(&ask.kind, &ask.payload, format_args!("{at}/payload"))?;
    if ask.kind.is_empty() {
        return Err(Fault::invalid(&format!("{at}/kind"), "`kind` must not be empty"));
    }
    let mut order = Order::of_kind(&ask.kind, &ask.payload).priority(ask.priority);
    if let Some(queue) = &ask.queue {
        order = order.queue(queue);
    }
    if let Some(attempts) = ask.max_attempts {
        order = order.max_attempts(attempts);
    }
    if ask.delay.is_some() && ask.at.is_some() {
        return Err(Fault::invalid(&format!("{at}/at"), "`delay` and `at` cannot be combined"));
    }
    if let Some(delay) = length(format_args!("{at}/delay"), ask.delay.as_deref())? {
        order = order.delay(delay);
    }
    if let Some(at) = instant(format_args!("{at}/at"), ask.at.as_deref())? {
        order = order.at(at);
    }
    if let Some(limit) = length(format_args!("{at}/timeout"), ask.timeout.as_deref())? {
        order = order.timeout(limit);
    }
    if let Some(limit) = length(format_args!("{at}/budget"), ask.budget.as_deref())? {
        order = order.budget(limit);
    }
    if let Some(limit) = length(format_args!("{at}/start_within"), ask.start_within.as_deref())? {
        order = order.start_within(limit);
    }
    let during = length(format_args!("{at}/unique_for"), ask.unique_for.as_deref())?;
    match (ask.unique_key, during) {
        (Some(key), Some(during)) => order = order.unique(Unique::key(key).during(during)),
        (Some(key), None) => order = order.unique(Unique::key(key)),
        (None, Some(_)) => {
            return Err(Fault::invalid(
                &format!("{at}/unique_for"),
                "`unique_for` requires `unique_key`",
            ));
        }
        (None, None) => {}
    }
    for tag in &ask.tags {
        order = order.tag(tag);
    }
    Ok(order)
}

/// A request that carries an `Idempotency-Key` may be sent again and makes no second job.
fn idempotent(
    order: Order,
    headers: &HeaderMap,
    has_key: bool,
    part: &str,
    body: Option<&impl serde::Serialize>,
) -> Result<Order, Fault> {
    let (Some(key), Some(body)) = (repeat::key(headers, part)?, body) else { return Ok(order) };
    if has_key {
        return Err(Fault::invalid(
            "/unique_key",
            "`Idempotency-Key` and `unique_key` cannot be combined",
        ));
    }
    Ok(order.unique(key).meaning(body))
}

/// Enqueue a job
///
/// With an `Idempotency-Key`, the request can be repeated for 24 hours: a repeated request returns
/// the job of the first request, with the header `Idempotency-Replayed: true`. A different request
/// with the same key fails with 422 (`key_reused`). The key cannot be combined with `unique_key`.
#[utoipa::path(
    post, path = "/api/v1/jobs", tag = "jobs",
    request_body = EnqueueRequest,
    params(
        Meant,
        (
            "Idempotency-Key" = Option<String>,
            Header,
            description = "Key for repeating the request safely: 1 to 200 ASCII characters",
        ),
        (
            "traceparent" = Option<String>,
            Header,
            description = "W3C trace context that the job belongs to",
        ),
    ),
    responses(
        (status = 201, description = "Job created", body = EnqueueResponse),
        (
            status = 200,
            description = "A job with the same key already exists",
            body = EnqueueResponse,
        ),
        ErrorResponse,
    ),
)]
async fn enqueue(
    State(app): State<App>,
    Query(meant): Query<Meant>,
    Sent(headers, ask): Sent<EnqueueRequest>,
) -> Result<Response, Fault> {
    app.check_kind(&ask.kind, "", meant).await?;
    let (has_key, is_idempotent) = (ask.unique_key.is_some(), repeat::is_wanted(&headers));
    let body = is_idempotent.then(|| ask.clone());
    let order = idempotent(order(&app, ask, "")?, &headers, has_key, "", body.as_ref())?;
    let receipt = app.punctual().enqueue(traced(order, &headers)).await;
    let receipt = receipt.map_err(|error| repeat::refused(error, &headers))?;
    let body = EnqueueResponse { id: receipt.id.to_string(), is_new: receipt.is_new };
    Ok(repeat::answer(receipt, &headers, body))
}

fn traced(order: Order, headers: &HeaderMap) -> Order {
    match headers.get("traceparent").and_then(|trace| trace.to_str().ok()) {
        Some(trace) => order.trace(trace),
        None => order,
    }
}

/// The most jobs of one batch.
const BATCH_MAX: usize = 1_000;

/// Enqueue jobs in a batch
///
/// Enqueues up to 1,000 jobs, each with its own result: check `error` of each. A body that does not
/// match the schema, an invalid duration or time, an unknown kind or an invalid `command` payload
/// rejects the whole batch. A value out of range or a key conflict rejects only that job.
///
/// With an `Idempotency-Key`, the request can be repeated for 24 hours without creating the jobs
/// again; the response has no `Idempotency-Replayed` header.
#[utoipa::path(
    post, path = "/api/v1/jobs:batch", tag = "jobs",
    request_body = BatchRequest,
    params(
        Meant,
        (
            "Idempotency-Key" = Option<String>,
            Header,
            description = "Key for repeating the request safely: 1 to 200 ASCII characters",
        ),
    ),
    responses(
        (status = 200, description = "One result per job", body = BatchResponse),
        ErrorResponse,
    ),
)]
async fn enqueue_batch(
    State(app): State<App>,
    Query(meant): Query<Meant>,
    Sent(headers, batch): Sent<BatchRequest>,
) -> Answer<BatchResponse> {
    if batch.jobs.len() > BATCH_MAX {
        let count = batch.jobs.len();
        return Err(Fault::invalid(
            "/jobs",
            format!("too many jobs: {count}, maximum {BATCH_MAX} per request; split the request"),
        ));
    }
    let is_idempotent = repeat::is_wanted(&headers);
    let body = is_idempotent.then(|| batch.clone());
    let mut orders = Vec::new();
    for (index, ask) in batch.jobs.into_iter().enumerate() {
        let place = format!("/jobs/{index}");
        app.check_kind(&ask.kind, &place, meant).await?;
        let has_key = ask.unique_key.is_some();
        let order = order(&app, ask, &place)?;
        let order = idempotent(order, &headers, has_key, &format!(" {index}"), body.as_ref())?;
        orders.push(traced(order, &headers));
    }
    let mut first_is_new = false;
    // The first of them tells whether the key stands for this very batch, before more is written.
    if let (true, Some(first)) = (is_idempotent, orders.first()) {
        let answer = app.punctual().enqueue(first.clone()).await;
        first_is_new = answer.map_err(|error| repeat::refused(error, &headers))?.is_new;
    }
    let receipts = app.punctual().enqueue_many(orders).await?;
    let jobs = receipts.into_iter().enumerate().map(|(index, receipt)| match receipt {
        Ok(receipt) => {
            let is_new = receipt.is_new || index == 0 && first_is_new;
            BatchItem { id: Some(receipt.id.to_string()), is_new, error: None }
        }
        Err(error) => BatchItem { id: None, is_new: false, error: Some(error.to_string()) },
    });
    Ok(Json(BatchResponse { jobs: jobs.collect() }))
}

async fn detail(app: &App, id: JobId) -> Result<JobDetail, Fault> {
    let admin = app.punctual().admin();
    Ok(JobDetail::of(admin.job(id).await?, admin.steps(id).await?))
}

/// Get a job
///
/// Returns the job with its payload, result, attempts and steps.
#[utoipa::path(
    get, path = "/api/v1/jobs/{id}", tag = "jobs",
    params(("id" = String, Path, description = "Job id")),
    responses((status = 200, description = "The job", body = JobDetail), ErrorResponse),
)]
async fn show(State(app): State<App>, Id(id): Id<JobId>) -> Answer<JobDetail> {
    Ok(Json(detail(&app, id).await?))
}

/// Move a waiting job
///
/// Changes the queue, priority or due time of a job that is waiting. Omitted fields do not change.
#[utoipa::path(
    patch, path = "/api/v1/jobs/{id}", tag = "jobs",
    params(("id" = String, Path, description = "Job id")),
    request_body = MoveRequest,
    responses((status = 200, description = "The moved job", body = JobDetail), ErrorResponse),
)]
async fn place(
    State(app): State<App>,
    Id(id): Id<JobId>,
    headers: HeaderMap,
    Body(ask): Body<MoveRequest>,
) -> Answer<JobDetail> {
    let due_at = instant("/at", ask.at.as_deref())?;
    let to = Placement { queue: ask.queue, priority: ask.priority, due_at };
    admin(&app, &headers, "").move_to(id, &to).await?;
    Ok(Json(detail(&app, id).await?))
}

/// Retry a job
///
/// Makes a failed or cancelled job ready again, with a full set of attempts. Other states fail with
/// 409.
#[utoipa::path(
    post, path = "/api/v1/jobs/{id}/retry", tag = "jobs",
    params(("id" = String, Path, description = "Job id")),
    responses((status = 200, description = "The job", body = JobDetail), ErrorResponse),
)]
async fn retry(State(app): State<App>, Id(id): Id<JobId>, headers: HeaderMap) -> Answer<JobDetail> {
    admin(&app, &headers, "").retry(id).await?;
    Ok(Json(detail(&app, id).await?))
}

/// Cancel a job
///
/// A waiting job is cancelled immediately. The handler of a running job is asked to stop; the
/// response then has `cancel_requested: true`. A finished job does not change. The request cannot
/// carry a reason; to record one, start a bulk operation.
#[utoipa::path(
    post, path = "/api/v1/jobs/{id}/cancel", tag = "jobs",
    params(("id" = String, Path, description = "Job id")),
    responses((status = 200, description = "The job", body = JobDetail), ErrorResponse),
)]
async fn cancel(
    State(app): State<App>,
    Id(id): Id<JobId>,
    headers: HeaderMap,
) -> Answer<JobDetail> {
    admin(&app, &headers, "").cancel(id).await?;
    Ok(Json(detail(&app, id).await?))
}

/// How long to wait for a job.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct Patience {
    /// Maximum time to wait, such as `30s`. Default and maximum: `55s`; longer values are reduced.
    #[serde(default)]
    timeout: Option<String>,
}

/// The most that a request may wait, less than it may take.
const WAIT_MAX: Duration = Duration::from_secs(55);

/// Wait for a job to finish
///
/// Responds when the job is finished, or with its current state when `timeout` has passed. The
/// status is 200 in both cases: the job is finished if `finished_at` is not null.
#[utoipa::path(
    get, path = "/api/v1/jobs/{id}/wait", tag = "jobs",
    params(("id" = String, Path, description = "Job id"), Patience),
    responses(
        (status = 200, description = "The job, finished or not", body = JobDetail),
        ErrorResponse,
    ),
)]
async fn wait(
    State(app): State<App>,
    Id(id): Id<JobId>,
    Query(patience): Query<Patience>,
) -> Answer<JobDetail> {
    let patience =
        length("timeout", patience.timeout.as_deref())?.unwrap_or(WAIT_MAX).min(WAIT_MAX);
    tokio::select! {
        waited = app.punctual().wait_at_most(id, patience) => drop(waited?),
        // The process ends: it is told as it is, and asks another.
        () = app.server.closing.begun() => {}
    }
    Ok(Json(detail(&app, id).await?))
}

/// Get the log of a job
///
/// Lines are in the order in which they were written. With `Accept: text/event-stream` the log is
/// streamed: one event named `line` per line, then an event named `end` when the job is finished.
/// To continue a stream after a lost connection, send the id of the last event as `Last-Event-ID`.
#[utoipa::path(
    get, path = "/api/v1/jobs/{id}/log", tag = "jobs",
    params(
        ("id" = String, Path, description = "Job id"),
        Paging,
        (
            "Last-Event-ID" = Option<String>,
            Header,
            description = "Id of the last received event; the stream continues after it",
        ),
    ),
    responses(
        (
            status = 200,
            description = "One page of log lines, or a stream of log lines",
            content((List<LogLine> = "application/json"), (String = "text/event-stream")),
        ),
        ErrorResponse,
    ),
)]
async fn log(
    State(app): State<App>,
    Id(id): Id<JobId>,
    headers: HeaderMap,
    Query(paging): Query<Paging>,
) -> Result<Response, Fault> {
    let after = paging.after(tail::read_cursor)?;
    if tail::is_wanted(&headers) {
        app.punctual().admin().job(id).await?;
        return Ok(tail::respond(&app, id, after, &headers));
    }
    let page = app.punctual().admin().log(id, after, paging.most()).await?;
    let items = page.items.into_iter().map(LogLine::from).collect();
    Ok(Json(List { items, next_cursor: page.next.map(tail::write_cursor) }).into_response())
}
