//! Remote workers: they claim, beat and settle here. See `docs/workers.md`; that nothing of it is
//! remembered in this process is the doing of [`punctual::remote`].
//!
//! A worker may have been handed a secret, as the receiver of a request has, and may send it back in
//! whatever it says. So each text of it passes the mask of this process before anything is kept.

use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual::remote::{End, Failed, Held, HeldError, Report, Wish};
use punctual::{ErrorKind, LogLevel, NodeId};
use punctual_api::{
    ClaimRequest, ClaimResponse, CompleteRequest, DrainRequest, FailRequest, HeartbeatRequest,
    HeartbeatResponse, Lease, LogAppendResponse, NewLogLine, Node, Problem, SettleItem,
    SettleManyRequest, SettleManyResponse, SettleResponse, SettleResult, SnoozeRequest,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ask::{Body, Id, MaybeBody, Query, Raw, length};
use crate::fault::{Answer, ErrorResponse, Fault};
use crate::server::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(claim))
        .routes(routes!(heartbeat))
        .routes(routes!(complete))
        .routes(routes!(fail))
        .routes(routes!(snooze))
        .routes(routes!(settle))
        .routes(routes!(logs))
        .routes(routes!(drained, drain))
        .routes(routes!(leave))
}

/// A lease that is gone has a word of its own, since the worker has to stop.
fn about_lease(error: punctual::Error) -> Fault {
    match error.kind() {
        ErrorKind::Fenced => {
            let problem = Problem::new(409, "lease_lost", "Lease lost", error.to_string());
            Fault::from(problem.hint("stop working on this job and do not report a result"))
        }
        _ => error.into(),
    }
}

fn about_node(error: punctual::Error) -> Fault {
    match error.kind() {
        ErrorKind::Fenced => {
            let problem = Problem::new(409, "node_dead", "Node declared dead", error.to_string());
            Fault::from(problem.hint("stop all its jobs, generate a new node id, and claim again"))
        }
        _ => error.into(),
    }
}

fn wish(app: &App, ask: ClaimRequest) -> Result<Wish, Fault> {
    let node = match &ask.node {
        Some(node) => node.parse().map_err(|error| {
            Fault::invalid("/node", format!("{error}; generate a new id at each start"))
        })?,
        None => app.remote.mint(),
    };
    let mut holds: Vec<Held> = Vec::new();
    for (index, lease) in ask.leases.iter().enumerate() {
        holds.push(lease.parse().map_err(|error: HeldError| {
            Fault::invalid(&format!("/leases/{index}"), error.to_string())
        })?);
    }
    // Queues and kinds are names that have to be found again, and for people to choose.
    let mask = app.mask();
    let queues = if ask.queues.is_empty() { vec!["default".to_owned()] } else { ask.queues };
    Ok(Wish {
        node,
        name: mask.text(&ask.name).into_owned(),
        version: mask.text(&ask.version).into_owned(),
        queues,
        kinds: ask.kinds,
        most: ask.max.unwrap_or(1),
        wait: length("/wait", ask.wait.as_deref())?.unwrap_or_default(),
        holds,
    })
}

/// Claim jobs
///
/// Returns as soon as jobs are available, or an empty list after `wait`. The first claim registers
/// the worker as a node. A node can have only one claim at a time.
#[utoipa::path(
    post, path = "/api/v1/claims", tag = "workers",
    request_body = ClaimRequest,
    responses(
        (status = 200, description = "The claimed jobs", body = ClaimResponse),
        (
            status = 409,
            description = "The node was declared dead (`node_dead`)",
            body = Problem,
            content_type = "application/problem+json",
        ),
        ErrorResponse,
    ),
)]
async fn claim(State(app): State<App>, Body(ask): Body<ClaimRequest>) -> Answer<ClaimResponse> {
    let wish = wish(&app, ask)?;
    let claims = tokio::select! {
        claims = app.remote.claim(&wish) => claims.map_err(about_node)?,
        // What was taken for an answer that is not given is found and given back with the next claim.
        () = app.server.closing.begun() => return Err(Fault::stopping()),
    };
    Ok(Json(ClaimResponse {
        node: wish.node.to_string(),
        now: claims.at.to_string(),
        leases: claims.leases.into_iter().map(Lease::from).collect(),
        cancel: claims.cancels.iter().map(ToString::to_string).collect(),
        drain: claims.drain,
        heartbeat_interval: punctual_core::format_duration(app.remote.heartbeat_interval()),
    }))
}

/// Send a heartbeat
///
/// Keeps the leases of the worker valid and reports progress.
#[utoipa::path(
    post, path = "/api/v1/leases/{lease}/heartbeat", tag = "workers",
    params(("lease" = String, Path, description = "`lease` value of the claim response")),
    request_body(
        content = ref("#/components/schemas/HeartbeatRequest"),
        content_type = "application/json",
        description = "Can be omitted",
    ),
    responses(
        (status = 200, description = "Heartbeat stored", body = HeartbeatResponse),
        (
            status = 409,
            description = "The lease is no longer valid (`lease_lost`)",
            body = Problem,
            content_type = "application/problem+json",
        ),
        ErrorResponse,
    ),
)]
async fn heartbeat(
    State(app): State<App>,
    Id(held): Id<Held>,
    MaybeBody(ask): MaybeBody<HeartbeatRequest>,
) -> Answer<HeartbeatResponse> {
    let report = ask
        .progress
        .map(|it| Report { percent: it.percent, note: app.mask().text(&it.note).into_owned() });
    let pulse = app.remote.heartbeat(&held, report).await.map_err(about_lease)?;
    Ok(Json(pulse.into()))
}

fn settled(
    held: &Held,
    state: Result<punctual::JobState, punctual::Error>,
) -> Answer<SettleResponse> {
    let state = state.map_err(about_lease)?;
    Ok(Json(SettleResponse { job: held.job.to_string(), state: state.to_string() }))
}

/// Complete a job
///
/// The request can be repeated safely.
#[utoipa::path(
    post, path = "/api/v1/leases/{lease}/complete", tag = "workers",
    params(("lease" = String, Path, description = "`lease` value of the claim response")),
    request_body(
        content = ref("#/components/schemas/CompleteRequest"),
        content_type = "application/json",
        description = "Can be omitted",
    ),
    responses(
        (status = 200, description = "Job settled", body = SettleResponse),
        (
            status = 409,
            description = "The lease is no longer valid (`lease_lost`)",
            body = Problem,
            content_type = "application/problem+json",
        ),
        ErrorResponse,
    ),
)]
async fn complete(
    State(app): State<App>,
    Id(held): Id<Held>,
    MaybeBody(ask): MaybeBody<CompleteRequest>,
) -> Answer<SettleResponse> {
    let result = result(&app, ask, "")?;
    settled(&held, app.remote.complete(&held, result).await)
}

/// The masked result of a job, from the part of a request body at `pointer`.
fn result(
    app: &App,
    request: CompleteRequest,
    pointer: &str,
) -> Result<Option<punctual::Json>, Fault> {
    let result = request.result.map(|result| punctual::Json::new(&app.mask().json(result)));
    let pointer = format!("{pointer}/result");
    result.transpose().map_err(|error| Fault::invalid(&pointer, error.to_string()))
}

/// Fail a job
///
/// The job is retried while attempts remain, unless `retry` is false. If a cancel was requested,
/// the job is `cancelled` instead of retried. The request can be repeated safely.
#[utoipa::path(
    post, path = "/api/v1/leases/{lease}/fail", tag = "workers",
    params(("lease" = String, Path, description = "`lease` value of the claim response")),
    request_body = FailRequest,
    responses(
        (status = 200, description = "Job settled", body = SettleResponse),
        (
            status = 409,
            description = "The lease is no longer valid (`lease_lost`)",
            body = Problem,
            content_type = "application/problem+json",
        ),
        ErrorResponse,
    ),
)]
async fn fail(
    State(app): State<App>,
    Id(held): Id<Held>,
    Body(ask): Body<FailRequest>,
) -> Answer<SettleResponse> {
    let failed = failure(&app, ask, "")?;
    settled(&held, app.remote.fail(&held, failed).await)
}

/// The masked failure of a job, from the part of a request body at `pointer`.
fn failure(app: &App, request: FailRequest, pointer: &str) -> Result<Failed, Fault> {
    let pointer = format!("{pointer}/retry_after");
    let failed = Failed {
        error: app.mask().text(&request.error).into_owned(),
        retry: request.retry.unwrap_or(true),
        retry_after: length(&pointer, request.retry_after.as_deref())?,
    };
    if !failed.retry && failed.retry_after.is_some() {
        let detail = "`retry_after` cannot be combined with `retry: false`";
        return Err(Fault::invalid(&pointer, detail));
    }
    Ok(failed)
}

/// Snooze a job
///
/// The job is due again after the given time. The attempt does not count.
#[utoipa::path(
    post, path = "/api/v1/leases/{lease}/snooze", tag = "workers",
    params(("lease" = String, Path, description = "`lease` value of the claim response")),
    request_body = SnoozeRequest,
    responses(
        (status = 200, description = "Job settled", body = SettleResponse),
        (
            status = 409,
            description = "The lease is no longer valid (`lease_lost`)",
            body = Problem,
            content_type = "application/problem+json",
        ),
        ErrorResponse,
    ),
)]
async fn snooze(
    State(app): State<App>,
    Id(held): Id<Held>,
    Body(ask): Body<SnoozeRequest>,
) -> Answer<SettleResponse> {
    let wait = length("/for", Some(&ask.length))?.unwrap_or_default();
    settled(&held, app.remote.snooze(&held, wait).await)
}

/// Settle many jobs
///
/// Completes, fails or snoozes up to 1,000 jobs in one request. The status is 200 even if some of
/// them could not be settled: check `error` of each result. The request can be repeated safely.
#[utoipa::path(
    post, path = "/api/v1/leases:settle", tag = "workers",
    request_body = SettleManyRequest,
    responses(
        (status = 200, description = "One result per lease", body = SettleManyResponse),
        ErrorResponse,
    ),
)]
async fn settle(
    State(app): State<App>,
    Body(request): Body<SettleManyRequest>,
) -> Answer<SettleManyResponse> {
    let count = request.leases.len();
    if count > SETTLE_MANY_MAX {
        let detail = format!(
            "too many leases: {count}, maximum {SETTLE_MANY_MAX} per request; split the request"
        );
        return Err(Fault::invalid("/leases", detail));
    }
    let mut ends: Vec<(Held, End)> = Vec::with_capacity(count);
    let mut seen = HashSet::with_capacity(count);
    for (index, item) in request.leases.into_iter().enumerate() {
        let pointer = format!("/leases/{index}");
        let held: Held = item.lease.parse().map_err(|error: HeldError| {
            Fault::invalid(&format!("{pointer}/lease"), error.to_string())
        })?;
        if !seen.insert((held.job, held.lease)) {
            let detail = "the lease occurs twice in this request; send one result per lease";
            return Err(Fault::invalid(&format!("{pointer}/lease"), detail));
        }
        ends.push((held, end(&app, item, &pointer)?));
    }
    let jobs: Vec<_> = ends.iter().map(|(held, _)| held.job).collect();
    let states = app.remote.settle(ends).await;
    let results = jobs.into_iter().zip(states).map(|(job, state)| match state {
        Ok(state) => {
            SettleResult { job: job.to_string(), state: Some(state.to_string()), error: None }
        }
        Err(error) => {
            let problem = about_lease(error).problem();
            SettleResult { job: job.to_string(), state: None, error: Some(problem) }
        }
    });
    Ok(Json(SettleManyResponse { results: results.collect() }))
}

/// How one attempt of a request for many ended. Exactly one of the three must be given.
fn end(app: &App, item: SettleItem, pointer: &str) -> Result<End, Fault> {
    match (item.complete, item.fail, item.snooze) {
        (Some(request), None, None) => {
            Ok(End::Completed(result(app, request, &format!("{pointer}/complete"))?))
        }
        (None, Some(request), None) => {
            Ok(End::Failed(failure(app, request, &format!("{pointer}/fail"))?))
        }
        (None, None, Some(request)) => {
            let pointer = format!("{pointer}/snooze/for");
            Ok(End::Snoozed(length(&pointer, Some(&request.length))?.unwrap_or_default()))
        }
        _ => {
            let detail = "expected exactly one of `complete`, `fail` and `snooze`";
            Err(Fault::invalid(pointer, detail))
        }
    }
}

/// Where lines of a log go.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct Numbered {
    /// Number of the first line within the attempt, starting at 1. Numbers can have gaps. Lines
    /// whose number is already stored are not stored again, so the request can be repeated.
    /// Default: after the line with the highest number.
    #[serde(default)]
    first: Option<u32>,
}

/// Maximum leases of one request that settles many: as many as one transaction of the store settles.
const SETTLE_MANY_MAX: usize = 1_000;

/// Lines of one request.
const LINES_MAX: usize = 1_000;

/// Append log lines
///
/// The body has one JSON object per line, with `text` and optionally `level`: at most 1,000 lines
/// per request and 10,000 per attempt. Any `Content-Type` is accepted.
#[utoipa::path(
    post, path = "/api/v1/leases/{lease}/logs", tag = "workers",
    params(("lease" = String, Path, description = "`lease` value of the claim response"), Numbered),
    request_body(content = NewLogLine, content_type = "application/x-ndjson"),
    responses(
        (status = 200, description = "Log lines stored", body = LogAppendResponse),
        (
            status = 409,
            description = "The lease is no longer valid (`lease_lost`)",
            body = Problem,
            content_type = "application/problem+json",
        ),
        ErrorResponse,
    ),
)]
async fn logs(
    State(app): State<App>,
    Id(held): Id<Held>,
    Query(numbered): Query<Numbered>,
    Raw(body): Raw,
) -> Answer<LogAppendResponse> {
    let (mut lines, mask) = (Vec::new(), app.mask());
    let all = body.split(|byte| *byte == b'\n').enumerate();
    for (index, line) in all.filter(|(_, line)| !line.trim_ascii().is_empty()) {
        let place = format!("line {}", index + 1);
        let line: NewLogLine = serde_json::from_slice(line).map_err(|error| {
            Fault::unreadable(
                &place,
                format!(
                    "{place}: {error}; expected one JSON object per line, \
                     such as {{\"text\": \"…\"}}"
                ),
            )
        })?;
        let level = line.level.as_deref().unwrap_or("info").parse::<LogLevel>();
        let level = level.map_err(|error| Fault::unreadable(&place, error.to_string()))?;
        lines.push((level, mask.text(&line.text).into_owned()));
        if lines.len() > LINES_MAX {
            return Err(Fault::invalid(
                &place,
                format!("too many log lines, maximum {LINES_MAX} per request; split the request"),
            ));
        }
    }
    let next = app.remote.write_log(&held, numbered.first, lines).await;
    Ok(Json(LogAppendResponse { next: next.map_err(about_lease)? }))
}

/// Get the drain state of a remote worker
///
/// Returns the node; see `is_draining`.
#[utoipa::path(
    get, path = "/api/v1/nodes/{id}/drain", tag = "workers",
    params(("id" = String, Path, description = "Node id")),
    responses((status = 200, description = "The node", body = Node), ErrorResponse),
)]
async fn drained(State(app): State<App>, Id(node): Id<NodeId>) -> Answer<Node> {
    Ok(Json(app.remote.node(node).await?.into()))
}

/// Drain a remote worker
///
/// The next response to the worker asks it to claim no new jobs, finish its running jobs and leave.
#[utoipa::path(
    post, path = "/api/v1/nodes/{id}/drain", tag = "workers",
    params(("id" = String, Path, description = "Node id")),
    request_body(
        content = ref("#/components/schemas/DrainRequest"),
        content_type = "application/json",
        description = "Can be omitted",
    ),
    responses((status = 200, description = "The node", body = Node), ErrorResponse),
)]
async fn drain(
    State(app): State<App>,
    Id(node): Id<NodeId>,
    MaybeBody(ask): MaybeBody<DrainRequest>,
) -> Answer<Node> {
    Ok(Json(app.remote.drain(node, ask.drain.unwrap_or(true)).await?.into()))
}

/// Remove a remote worker
///
/// Called by the worker when it stops. Jobs that it still holds are released without using an
/// attempt. A repeated request fails with 404, or with 409 if the node was declared dead; both mean
/// that the node is removed.
#[utoipa::path(
    post, path = "/api/v1/nodes/{id}/leave", tag = "workers",
    params(("id" = String, Path, description = "Node id")),
    responses((status = 204, description = "Node removed"), ErrorResponse),
)]
async fn leave(State(app): State<App>, Id(node): Id<NodeId>) -> Result<StatusCode, Fault> {
    app.remote.leave(node).await?;
    Ok(StatusCode::NO_CONTENT)
}
