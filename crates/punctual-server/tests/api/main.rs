//! The API as a client meets it, on the store in memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod browser;
mod connections;
mod dashboard;
mod description;
mod drawn;
mod events;
mod jobs;
mod kinds;
mod logs;
mod many;
mod measured;
mod operations;
mod queues;
mod random;
mod refusals;
mod schedules;
mod schema;
mod sets;
mod settling;
mod slow;
mod tail;
mod timeline;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use punctual::{Ctx, Done, Job, Punctual};
use punctual_server::{Server, Token};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tower::ServiceExt;

#[derive(Serialize, Deserialize, Job)]
#[serde(transparent)]
pub(crate) struct Echo(Value);

pub(crate) async fn echo(job: Echo, cx: Ctx) -> Done<Value> {
    cx.log("said it");
    Done(job.0)
}

#[derive(Serialize, Deserialize, Job)]
struct Fail {}

async fn fail(_: Fail) -> Result<(), punctual::BoxError> {
    Err(punctual::Failure::permanent("asked to fail").into())
}

/// A server and whoever asks it.
pub(crate) struct World {
    pub(crate) punctual: Punctual,
    router: Router,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl World {
    /// A server that works.
    pub(crate) async fn new() -> World {
        let builder = Punctual::memory().handle(echo).handle(fail);
        World::of(builder.start().await.unwrap(), None)
    }

    pub(crate) fn of(punctual: Punctual, token: Option<Token>) -> World {
        let roles = vec!["api".into()];
        let server = Server { roles, token, ..Server::new(punctual.clone()) };
        World { punctual, router: server.router() }
    }

    /// The same with another router.
    pub(crate) fn with_router(punctual: Punctual, router: Router) -> World {
        World { punctual, router }
    }

    pub(crate) async fn respond(&self, request: Request<Body>) -> axum::response::Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// The same, on a server that knows what is wrong with some payloads.
    pub(crate) fn checked(self) -> World {
        let check: punctual_server::Check =
            std::sync::Arc::new(|kind, payload| match kind == "echo" && payload == "bad" {
                true => Err("it is bad; send a good one".to_owned()),
                false => Ok(()),
            });
        let server = Server { check: Some(check), ..Server::new(self.punctual.clone()) };
        World { punctual: self.punctual, router: server.router() }
    }

    pub(crate) async fn ask(&self, request: Request<Body>) -> Answer {
        let response = self.respond(request).await;
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Answer { status, headers, body }
    }

    /// Asks with a method and path, such as `POST /jobs`, and a body.
    pub(crate) async fn say(&self, what: &str, body: &str) -> Answer {
        self.ask(request(what, &[]).body(Body::from(body.to_owned())).unwrap()).await
    }

    pub(crate) async fn with(&self, what: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.ask(request(what, headers).body(Body::from(body.to_owned())).unwrap()).await
    }
}

pub(crate) fn request(what: &str, headers: &[(&str, &str)]) -> axum::http::request::Builder {
    let (method, path) = what.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(format!("/api/v1{path}"));
    request = request.header("host", "localhost:7347").header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request
}
