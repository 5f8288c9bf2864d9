//! `/api/v1`.

mod answers;
mod cluster;
pub(crate) mod jobs;
mod queues;
mod schedules;

use axum::http::HeaderMap;
use punctual::Admin;
use utoipa_axum::router::OpenApiRouter;

use crate::server::App;

pub(crate) fn all() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(schedules::routes())
        .merge(jobs::routes())
        .merge(queues::routes())
        .merge(cluster::routes())
        .merge(answers::routes())
}

/// Everything that can be done, in the name of whoever asks: `Punctual-Actor` says who.
fn admin(app: &App, headers: &HeaderMap, why: &str) -> Admin {
    let who = headers.get("punctual-actor").and_then(|who| who.to_str().ok());
    app.punctual().admin().by(who.unwrap_or("api"), why)
}
