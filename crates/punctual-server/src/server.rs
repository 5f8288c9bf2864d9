//! The whole of it as one router.

use std::fmt::Display;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router, middleware};
use metrics_exporter_prometheus::PrometheusHandle;
use punctual::Punctual;
use punctual::remote::Remote;
use punctual_api::{CompleteRequest, DrainRequest, Event, HeartbeatRequest, PauseRequest, Problem};
use punctual_secrets::{Mask, Secrets};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::access::{self, Gate, Token};
use crate::ask::Meant;
use crate::closing::Closing;
use crate::fault::Fault;
use crate::feed::Feed;
use crate::kinds::{Kinds, UnknownKinds};
use crate::listen::{Overloaded, Routers};
use crate::parameters::Known;
use crate::{dashboard, headers, health, parameters, routes};

/// What a request may take; waiting for a job is cut before.
const REQUEST_MAX: Duration = Duration::from_secs(60);

/// Says what is wrong with the payload of a job of a kind, if this process knows.
pub type Check = Arc<dyn Fn(&str, &serde_json::Value) -> Result<(), String> + Send + Sync>;

/// What is served.
pub struct Server {
    /// The node, or producer, that answers.
    pub punctual: Punctual,
    /// What this process does, as it tells whoever asks.
    pub roles: Vec<String>,
    /// Who may ask; none: this machine alone.
    pub token: Option<Token>,
    /// Can nothing be changed, neither from the dashboard nor with the API? Then no worker can claim
    /// over HTTP, either.
    pub read_only: bool,
    /// Where the metrics of the process are, if somebody gathers them.
    pub metrics: Option<PrometheusHandle>,
    /// Asked about every payload before it is kept.
    pub check: Option<Check>,
    /// What is taken out of all that workers send, before it is kept.
    pub secrets: Secrets,
    /// What becomes of orders whose kind nobody knows.
    pub unknown_kinds: UnknownKinds,
    /// Kinds that other processes serve, whether one is there already or not.
    pub kinds: Vec<String>,
    /// Tells streams and whoever waits that the process is about to end.
    pub closing: Closing,
}

/// What handlers share. Every request has one of its own, several times over, so that it is one
/// pointer.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) server: Server,
    pub(crate) feed: Arc<Feed>,
    /// Asks on behalf of remote workers.
    pub(crate) remote: Remote,
    pub(crate) kinds: Kinds,
    /// Scrapes of the metrics endpoint without queue gauges.
    pub(crate) metrics_errors: AtomicU64,
    pub(crate) readiness: health::Readiness,
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    fn of(server: Server) -> App {
        let own = server.punctual.kinds().map(str::to_owned);
        let kinds = Kinds::new(own.chain(server.kinds.iter().cloned()));
        App(Arc::new(Shared {
            feed: Arc::new(Feed::new(server.punctual.clone())),
            remote: server.punctual.remote(),
            kinds,
            metrics_errors: AtomicU64::new(0),
            readiness: health::Readiness::default(),
            server,
        }))
    }

    pub(crate) fn punctual(&self) -> &Punctual {
        &self.server.punctual
    }

    /// What takes the values of secrets out of a worker's words, as these are now.
    pub(crate) fn mask(&self) -> Mask {
        self.server.secrets.mask()
    }

    /// Refuses the `kind` at this place of the request if nobody knows it.
    pub(crate) async fn check_kind(
        &self,
        kind: &str,
        place: &str,
        asked: Meant,
    ) -> Result<(), Fault> {
        // What is empty is refused with better words.
        let is_meant = asked.allow_unknown_kind || kind.is_empty();
        if is_meant || self.server.unknown_kinds == UnknownKinds::Allow {
            return Ok(());
        }
        match self.kinds.knows(kind, self.punctual()).await? {
            true => Ok(()),
            false => Err(self.kinds.refusal(kind, &format!("{place}/kind"))),
        }
    }

    /// Refuses the payload, which stands at this place of the request, if it is known to be wrong.
    pub(crate) fn check(
        &self,
        kind: &str,
        payload: &serde_json::Value,
        pointer: impl Display,
    ) -> Result<(), Fault> {
        let wrong = |why| Fault::invalid(&pointer.to_string(), why);
        match &self.server.check {
            Some(check) => check(kind, payload).map_err(wrong),
            None => Ok(()),
        }
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "punctual",
        description = "Durable cron and background jobs.\n\n\
            Errors are returned as `application/problem+json` (RFC 9457). Times are RFC 3339 in \
            UTC. Durations in requests are strings such as `90s` or `1h30m` (units `w`, `d`, `h`, \
            `m`, `s`, `ms`, `us`); measured durations are integers in fields that end in `_ms`. \
            Request bodies need `Content-Type: application/json`, except log lines. If the server \
            has a token, send the header `Authorization: Bearer TOKEN`. To record who made a change in the audit log, send the header \
            `Punctual-Actor`; the default is `api`.",
        license(name = "MIT OR Apache-2.0")
    ),
    components(schemas(
        Event,
        Problem,
        // The optional request bodies, which operations refer to by name.
        CompleteRequest,
        DrainRequest,
        HeartbeatRequest,
        PauseRequest,
    )),
    tags(
        (name = "schedules", description = "Create and manage schedules"),
        (name = "sets", description = "Apply sets of schedules that are declared in files"),
        (name = "jobs", description = "Enqueue and manage jobs"),
        (name = "queues", description = "Pause, resume and limit queues"),
        (name = "workers", description = "Run jobs with remote workers in any language"),
        (name = "cluster", description = "Inspect nodes, leaders, counters, events and audit log"),
        (name = "operations", description = "Retry, cancel or move many jobs"),
        (name = "diagnostics", description = "Explain expressions and states, check the system")
    )
)]
struct Description;

fn described() -> (Router<App>, utoipa::openapi::OpenApi) {
    OpenApiRouter::with_openapi(Description::openapi()).merge(routes::all()).split_for_parts()
}

/// The description of the API, as `/api/openapi.json` serves it.
pub fn openapi() -> utoipa::openapi::OpenApi {
    described().1
}

impl Server {
    /// For this machine alone, and with nothing that is only known to some.
    pub fn new(punctual: Punctual) -> Server {
        Server {
            punctual,
            roles: Vec::new(),
            token: None,
            read_only: false,
            metrics: None,
            check: None,
            secrets: Secrets::default(),
            unknown_kinds: UnknownKinds::default(),
            kinds: Vec::new(),
            closing: Closing::default(),
        }
    }

    /// Everything as a router, to be served or nested.
    pub fn router(self) -> Router {
        self.routers().all
    }

    /// Everything, to be served with [`listen`](crate::listen).
    pub fn routers(self) -> Routers {
        let (api, description) = described();
        let known = parameters::known(&description);
        let description = Arc::new(description);
        let describe = move || std::future::ready(Json((*description).clone()));
        let gate = Gate { token: self.token.clone(), read_only: self.read_only, known };
        let probe_gate = gate.clone();
        let app = App::of(self);
        // Each as one layer: every layer of a router costs each request some allocations.
        let api = api
            .route("/api/openapi.json", get(describe))
            .route("/metrics", get(health::metrics))
            .method_not_allowed_fallback(method_not_allowed)
            .layer((
                headers::layer(),
                CatchPanicLayer::custom(panicked),
                middleware::from_fn_with_state(gate, access::check),
                access::same_origin(),
            ));
        let others = dashboard::router(app.clone())
            .merge(health())
            .fallback(nothing)
            .method_not_allowed_fallback(method_not_allowed)
            .layer((
                headers::layer(),
                CatchPanicLayer::custom(panicked),
                middleware::from_fn(in_time),
            ));
        let all = api.merge(others).with_state(app.clone());
        Routers { all, probes: overloaded(app, probe_gate) }
    }

    /// The health checks and metrics, for a process that does not serve the API.
    pub fn probes(self) -> Routers {
        let (token, read_only) = (self.token.clone(), self.read_only);
        let gate = Gate { token, read_only, known: Known::default() };
        let app = App::of(self);
        let others = health().fallback(not_here).layer(middleware::from_fn(in_time));
        let all = metrics(gate.clone())
            .merge(others)
            .with_state(app.clone())
            .layer((headers::layer(), CatchPanicLayer::custom(panicked)));
        Routers { all, probes: overloaded(app, gate) }
    }
}

/// The metrics, for authenticated requests.
fn metrics(gate: Gate) -> Router<App> {
    Router::new()
        .route("/metrics", get(health::metrics))
        .layer(middleware::from_fn_with_state(gate, access::check))
}

/// What connections beyond the limit are served with: health checks, and the metrics that show why
/// there are so many.
fn overloaded(app: App, gate: Gate) -> Router {
    let refuse = || async {
        let detail = "the server has as many connections as it may have";
        let problem = Problem::new(503, "overloaded", "Too many connections", detail);
        let hint = "repeat the request later; the metric \
                    `punctual_server_connections_refused_total` counts refused connections";
        (Extension(Overloaded), Fault::from(problem.hint(hint)))
    };
    let layers = (headers::layer(), CatchPanicLayer::custom(panicked));
    metrics(gate).merge(health()).fallback(refuse).with_state(app).layer(layers)
}

/// The responses of a process that still waits for its database: it is alive, and not ready.
pub fn starting() -> Router {
    let not_ready = || async {
        let detail = "the server is starting: its database cannot be reached yet";
        Fault::from(Problem::new(503, "unreachable", "Database unavailable", detail))
    };
    let layers = (headers::layer(), CatchPanicLayer::custom(panicked));
    Router::new().route("/healthz/live", get(health::live)).fallback(not_ready).layer(layers)
}

/// Lets nobody wait for an answer for ever. It bounds the time until one begins: a stream goes on for as
/// long as it likes.
pub(crate) async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(REQUEST_MAX, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Fault::too_slow(REQUEST_MAX).into_response(),
    }
}

/// Whoever looks after the process asks these, often without a name or a token.
fn health() -> Router<App> {
    Router::new()
        .route("/healthz/live", get(health::live))
        .route("/healthz/ready", get(health::ready))
}

async fn not_here(uri: axum::http::Uri) -> Fault {
    Fault::not_found(format!(
        "unknown path `{}`; without the role `api` this process serves only \
         /healthz/live, /healthz/ready and /metrics",
        uri.path()
    ))
}

async fn nothing(uri: axum::http::Uri) -> Fault {
    Fault::not_found(format!("unknown path `{}`; see /api/openapi.json", uri.path()))
}

async fn method_not_allowed(method: axum::http::Method, uri: axum::http::Uri) -> Fault {
    let detail = format!("method {method} is not allowed for `{}`", uri.path());
    Fault::from(Problem::new(405, "wrong_method", "Method not allowed", detail))
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    // What it said is in the log; it is none of the caller's business.
    Fault::bug("the request failed unexpectedly").into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::{StatusCode, header};
    use tower::ServiceExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_come_is_a_problem_too() {
        let router = Router::new()
            .route("/", get(std::future::pending::<()>))
            .layer(middleware::from_fn(in_time));
        let request = Request::get("/").body(Body::empty()).expect("a request");
        let response = router.oneshot(request).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
    }
}
