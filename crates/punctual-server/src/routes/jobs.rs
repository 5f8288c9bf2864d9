//! Jobs.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use punctual::{Cursor, JobFilter, JobId, Order, Placement, Timestamp, Unique};
use punctual_api::{
    Batch, BatchAnswer, BatchItem, Enqueue, Enqueued, Job, JobDetail, List, LogLine, Move, Problem,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{admin, repeat, tail};
use crate::ask::{Body, Id, Meant, Paging, Query, Sent, instant, length};
use crate::fault::{Answer, Fault};
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
    /// In this state.
    #[serde(default)]
    pub(crate) state: Option<String>,
    /// In this queue.
    #[serde(default)]
    pub(crate) queue: Option<String>,
    /// Of this kind.
    #[serde(default)]
    pub(crate) kind: Option<String>,
    /// Made by this schedule, by its name.
    #[serde(default)]
    pub(crate) schedule: Option<String>,
    /// With this tag.
    #[serde(default)]
    pub(crate) tag: Option<String>,
    /// The same in one line: `state:failed kind:send_email`.
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
                        "`{word}` says nothing; write state:, queue:, kind:, schedule: or tag:, each followed by what is meant"
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

/// Jobs, newest first; dead letters by when they died
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", params(Filter, Paging),
    responses((status = 200, body = List<Job>), (status = "default", body = Problem, content_type = "application/problem+json")))]
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
fn order(app: &App, ask: Enqueue, at: &str) -> Result<Order, Fault> {
    if app.punctual().is_stopped() {
        return Err(Fault::stopping());
    }
    app.check(&ask.kind, &ask.payload, format_args!("{at}/payload"))?;
    if ask.kind.is_empty() {
        return Err(Fault::invalid(
            &format!("{at}/kind"),
            "the kind is empty; say which handler it is for",
        ));
    }
    let mut order = Order::of_kind(&ask.kind, &ask.payload).priority(ask.priority);
    if let Some(queue) = &ask.queue {
        order = order.queue(queue);
    }
    if let Some(attempts) = ask.max_attempts {
        order = order.max_attempts(attempts);
    }
    if ask.delay.is_some() && ask.at.is_some() {
        return Err(Fault::invalid(
            &format!("{at}/at"),
            "both `delay` and `at` are given; give one",
        ));
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
                "there is no `unique_key` to hold; give one",
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
            "the request has an `Idempotency-Key` and its job a `unique_key`; give one of them",
        ));
    }
    Ok(order.unique(key).meaning(body))
}

/// Enqueues a job
///
/// With an `Idempotency-Key` the request may be sent again within a day: it answers with the job
/// that the first one made, and `Idempotency-Replayed: true`; with another body it is refused.
#[utoipa::path(post, path = "/api/v1/jobs", tag = "jobs", request_body = Enqueue,
    params(Meant, ("Idempotency-Key" = Option<String>, Header, description = "Makes the request repeatable"),
        ("traceparent" = Option<String>, Header, description = "The trace that the job belongs to")),
    responses((status = 201, body = Enqueued), (status = 200, body = Enqueued, description = "It was there already"),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn enqueue(
    State(app): State<App>,
    Query(meant): Query<Meant>,
    Sent(headers, ask): Sent<Enqueue>,
) -> Result<Response, Fault> {
    app.check_kind(&ask.kind, "", meant).await?;
    let (has_key, is_idempotent) = (ask.unique_key.is_some(), repeat::is_wanted(&headers));
    let body = is_idempotent.then(|| ask.clone());
    let order = idempotent(order(&app, ask, "")?, &headers, has_key, "", body.as_ref())?;
    let receipt = app.punctual().enqueue(traced(order, &headers)).await;
    let receipt = receipt.map_err(|error| repeat::refused(error, &headers))?;
    let body = Enqueued { id: receipt.id.to_string(), is_new: receipt.is_new };
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

/// Enqueues up to 1,000 jobs, each with an answer of its own
#[utoipa::path(post, path = "/api/v1/jobs:batch", tag = "jobs", request_body = Batch,
    params(Meant, ("Idempotency-Key" = Option<String>, Header, description = "Makes the request repeatable")),
    responses((status = 200, body = BatchAnswer), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn enqueue_batch(
    State(app): State<App>,
    Query(meant): Query<Meant>,
    Sent(headers, batch): Sent<Batch>,
) -> Answer<BatchAnswer> {
    if batch.jobs.len() > BATCH_MAX {
        let count = batch.jobs.len();
        return Err(Fault::invalid(
            "/jobs",
            format!("{count} jobs; the most is {BATCH_MAX}; send them in parts"),
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
    Ok(Json(BatchAnswer { jobs: jobs.collect() }))
}

async fn detail(app: &App, id: JobId) -> Result<JobDetail, Fault> {
    let admin = app.punctual().admin();
    Ok(JobDetail::of(admin.job(id).await?, admin.steps(id).await?))
}

/// All about one job
#[utoipa::path(get, path = "/api/v1/jobs/{id}", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, body = JobDetail), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(app): State<App>, Id(id): Id<JobId>) -> Answer<JobDetail> {
    Ok(Json(detail(&app, id).await?))
}

/// Gives a waiting job another queue, priority or due time
#[utoipa::path(patch, path = "/api/v1/jobs/{id}", tag = "jobs", params(("id" = String, Path)), request_body = Move,
    responses((status = 200, body = JobDetail), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn place(
    State(app): State<App>,
    Id(id): Id<JobId>,
    headers: HeaderMap,
    Body(ask): Body<Move>,
) -> Answer<JobDetail> {
    let due_at = instant("/at", ask.at.as_deref())?;
    let to = Placement { queue: ask.queue, priority: ask.priority, due_at };
    admin(&app, &headers, "").move_to(id, &to).await?;
    Ok(Json(detail(&app, id).await?))
}

/// Makes an ended job ready again, with all its attempts before it
#[utoipa::path(post, path = "/api/v1/jobs/{id}/retry", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, body = JobDetail), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn retry(State(app): State<App>, Id(id): Id<JobId>, headers: HeaderMap) -> Answer<JobDetail> {
    admin(&app, &headers, "").retry(id).await?;
    Ok(Json(detail(&app, id).await?))
}

/// Calls a job off: at once if it waits, by asking its handler if it runs
#[utoipa::path(post, path = "/api/v1/jobs/{id}/cancel", tag = "jobs", params(("id" = String, Path)),
    responses((status = 200, body = JobDetail), (status = "default", body = Problem, content_type = "application/problem+json")))]
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
    /// At most this long, such as `30s`; a minute less a little is the most.
    #[serde(default)]
    timeout: Option<String>,
}

/// The most that a request may wait, less than it may take.
const WAIT_MAX: Duration = Duration::from_secs(55);

/// Answers when a job has ended, or as it is when the time is over
#[utoipa::path(get, path = "/api/v1/jobs/{id}/wait", tag = "jobs", params(("id" = String, Path), Patience),
    responses((status = 200, body = JobDetail), (status = "default", body = Problem, content_type = "application/problem+json")))]
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

/// The lines of a job's log, in order
///
/// With `Accept: text/event-stream` they come as they are written: events named `line`, then one
/// named `end` when the job has ended. `Last-Event-ID` goes on where a stream was cut off.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/log", tag = "jobs", params(("id" = String, Path), Paging,
        ("Last-Event-ID" = Option<String>, Header, description = "What a stream said last")),
    responses((status = 200, content((List<LogLine> = "application/json"), (String = "text/event-stream"))), (status = "default", body = Problem, content_type = "application/problem+json")))]
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
