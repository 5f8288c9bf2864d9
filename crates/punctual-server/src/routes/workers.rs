//! Remote workers: they claim, beat and settle here. See `docs/workers.md`; that nothing of it is
//! remembered in this process is the doing of [`punctual::remote`].
//!
//! A worker may have been handed a secret, as the receiver of a request has, and may send it back in
//! whatever it says. So each text of it passes the mask of this process before anything is kept.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use punctual::remote::{Failed, Held, HeldError, Report, Wish};
use punctual::{ErrorKind, LogLevel, NodeId};
use punctual_api::{
    Claim, Claimed, Complete, Drain, Fail, Heartbeat, Heartbeaten, Lease, Logged, NewLogLine, Node,
    Problem, Settled, Snooze,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ask::{Body, Id, MaybeBody, Query, Raw, length};
use crate::fault::{Answer, Fault};
use crate::server::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(claim))
        .routes(routes!(heartbeat))
        .routes(routes!(complete))
        .routes(routes!(fail))
        .routes(routes!(snooze))
        .routes(routes!(logs))
        .routes(routes!(drained, drain))
        .routes(routes!(leave))
}

/// A lease that is gone has a word of its own, since the worker has to stop.
fn about_lease(error: punctual::Error) -> Fault {
    match error.kind() {
        ErrorKind::Fenced => {
            let problem = Problem::new(409, "lease_lost", "The lease is gone", error.to_string());
            Fault::from(problem.hint("stop working on this job; report nothing more of it"))
        }
        _ => error.into(),
    }
}

fn about_node(error: punctual::Error) -> Fault {
    match error.kind() {
        ErrorKind::Fenced => {
            let problem = Problem::new(409, "node_dead", "The node is dead", error.to_string());
            Fault::from(problem.hint("stop all its work, make a new id, and claim again"))
        }
        _ => error.into(),
    }
}

fn wish(app: &App, ask: Claim) -> Result<Wish, Fault> {
    let node = match &ask.node {
        Some(node) => node
            .parse()
            .map_err(|error| Fault::invalid("/node", format!("{error}, made at each start")))?,
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

/// Takes jobs for a remote worker, as soon as there are some
///
/// The first claim enters the worker as a node. A node has one claim at a time.
#[utoipa::path(post, path = "/api/v1/claims", tag = "workers", request_body = Claim,
    responses((status = 200, body = Claimed), (status = 409, body = Problem, description = "`node_dead`", content_type = "application/problem+json"),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn claim(State(app): State<App>, Body(ask): Body<Claim>) -> Answer<Claimed> {
    let wish = wish(&app, ask)?;
    let claims = tokio::select! {
        claims = app.remote.claim(&wish) => claims.map_err(about_node)?,
        // What was taken for an answer that is not given is found and given back with the next claim.
        () = app.server.closing.begun() => return Err(Fault::stopping()),
    };
    Ok(Json(Claimed {
        node: wish.node.to_string(),
        now: claims.at.to_string(),
        leases: claims.leases.into_iter().map(Lease::from).collect(),
        cancel: claims.cancels.iter().map(ToString::to_string).collect(),
        drain: claims.drain,
        heartbeat_every: punctual_core::format_duration(app.remote.heartbeat_every()),
    }))
}

/// Says that a worker is at work on a job, and how far it is
#[utoipa::path(post, path = "/api/v1/leases/{lease}/heartbeat", tag = "workers", params(("lease" = String, Path)), request_body = Heartbeat,
    responses((status = 200, body = Heartbeaten), (status = 409, body = Problem, description = "`lease_lost`", content_type = "application/problem+json"),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn heartbeat(
    State(app): State<App>,
    Id(held): Id<Held>,
    MaybeBody(ask): MaybeBody<Heartbeat>,
) -> Answer<Heartbeaten> {
    let report = ask
        .progress
        .map(|it| Report { percent: it.percent, note: app.mask().text(&it.note).into_owned() });
    let pulse = app.remote.heartbeat(&held, report).await.map_err(about_lease)?;
    Ok(Json(pulse.into()))
}

fn settled(held: &Held, state: Result<punctual::JobState, punctual::Error>) -> Answer<Settled> {
    let state = state.map_err(about_lease)?;
    Ok(Json(Settled { job: held.job.to_string(), state: state.to_string() }))
}

/// The work is done; to say it again is no mistake
#[utoipa::path(post, path = "/api/v1/leases/{lease}/complete", tag = "workers", params(("lease" = String, Path)), request_body = Complete,
    responses((status = 200, body = Settled), (status = 409, body = Problem, description = "`lease_lost`", content_type = "application/problem+json"),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn complete(
    State(app): State<App>,
    Id(held): Id<Held>,
    MaybeBody(ask): MaybeBody<Complete>,
) -> Answer<Settled> {
    let result = ask.result.map(|result| punctual::Json::new(&app.mask().json(result)));
    let result = result.transpose();
    let result = result.map_err(|error| Fault::invalid("/result", error.to_string()))?;
    settled(&held, app.remote.complete(&held, result).await)
}

/// The work could not be done
#[utoipa::path(post, path = "/api/v1/leases/{lease}/fail", tag = "workers", params(("lease" = String, Path)), request_body = Fail,
    responses((status = 200, body = Settled), (status = 409, body = Problem, description = "`lease_lost`", content_type = "application/problem+json"),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn fail(
    State(app): State<App>,
    Id(held): Id<Held>,
    Body(ask): Body<Fail>,
) -> Answer<Settled> {
    let failed = Failed {
        error: app.mask().text(&ask.error).into_owned(),
        retry: ask.retry.unwrap_or(true),
        retry_after: length("/retry_after", ask.retry_after.as_deref())?,
    };
    if !failed.retry && failed.retry_after.is_some() {
        return Err(Fault::invalid(
            "/retry_after",
            "`retry` is false, so that nothing is tried after it; leave one of them out",
        ));
    }
    settled(&held, app.remote.fail(&held, failed).await)
}

/// The work is put off, which costs no attempt
#[utoipa::path(post, path = "/api/v1/leases/{lease}/snooze", tag = "workers", params(("lease" = String, Path)), request_body = Snooze,
    responses((status = 200, body = Settled), (status = 409, body = Problem, description = "`lease_lost`", content_type = "application/problem+json"),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn snooze(
    State(app): State<App>,
    Id(held): Id<Held>,
    Body(ask): Body<Snooze>,
) -> Answer<Settled> {
    let wait = length("/for", Some(&ask.length))?.unwrap_or_default();
    settled(&held, app.remote.snooze(&held, wait).await)
}

/// Where lines of a log go.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct Numbered {
    /// The number of the first line, from 1, so that the same lines may be sent again; after those
    /// that are there if nothing is said.
    #[serde(default)]
    first: Option<u32>,
}

/// Lines of one request.
const LINES_MAX: usize = 1_000;

/// Writes lines to a job's log: one JSON object a line, with `text` and perhaps `level`
#[utoipa::path(post, path = "/api/v1/leases/{lease}/logs", tag = "workers", params(("lease" = String, Path), Numbered),
    request_body(content = NewLogLine, content_type = "application/x-ndjson"),
    responses((status = 200, body = Logged), (status = 409, body = Problem, description = "`lease_lost`", content_type = "application/problem+json"),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn logs(
    State(app): State<App>,
    Id(held): Id<Held>,
    Query(numbered): Query<Numbered>,
    Raw(body): Raw,
) -> Answer<Logged> {
    let (mut lines, mask) = (Vec::new(), app.mask());
    let all = body.split(|byte| *byte == b'\n').enumerate();
    for (index, line) in all.filter(|(_, line)| !line.trim_ascii().is_empty()) {
        let place = format!("line {}", index + 1);
        let line: NewLogLine = serde_json::from_slice(line).map_err(|error| {
            Fault::unreadable(
                &place,
                format!("{place}: {error}; write one object a line, such as {{\"text\":\"…\"}}"),
            )
        })?;
        let level = line.level.as_deref().unwrap_or("info").parse::<LogLevel>();
        let level = level.map_err(|error| Fault::unreadable(&place, error.to_string()))?;
        lines.push((level, mask.text(&line.text).into_owned()));
        if lines.len() > LINES_MAX {
            return Err(Fault::invalid(
                &place,
                format!("a request takes {LINES_MAX} lines; send the others with the next"),
            ));
        }
    }
    let next = app.remote.write_log(&held, numbered.first, lines).await;
    Ok(Json(Logged { next: next.map_err(about_lease)? }))
}

/// A remote worker: has it been told to drain?
#[utoipa::path(get, path = "/api/v1/nodes/{id}/drain", tag = "workers", params(("id" = String, Path)),
    responses((status = 200, body = Node), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn drained(State(app): State<App>, Id(node): Id<NodeId>) -> Answer<Node> {
    Ok(Json(app.remote.node(node).await?.into()))
}

/// Tells a remote worker with its next call to take no more jobs, finish and leave
#[utoipa::path(post, path = "/api/v1/nodes/{id}/drain", tag = "workers", params(("id" = String, Path)), request_body = Drain,
    responses((status = 200, body = Node), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn drain(
    State(app): State<App>,
    Id(node): Id<NodeId>,
    MaybeBody(ask): MaybeBody<Drain>,
) -> Answer<Node> {
    Ok(Json(app.remote.drain(node, ask.drain.unwrap_or(true)).await?.into()))
}

/// A remote worker ends: what it still holds is given back, which costs no attempt
#[utoipa::path(post, path = "/api/v1/nodes/{id}/leave", tag = "workers", params(("id" = String, Path)),
    responses((status = 204), (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn leave(State(app): State<App>, Id(node): Id<NodeId>) -> Result<StatusCode, Fault> {
    app.remote.leave(node).await?;
    Ok(StatusCode::NO_CONTENT)
}
