//! `/api/v1`.

mod answers;
mod cluster;
mod events;
pub(crate) mod jobs;
pub(crate) mod operations;
mod queues;
mod realign;
mod repeat;
mod schedules;
mod sets;
mod tail;
mod workers;

use axum::http::HeaderMap;
use punctual::Admin;
use utoipa_axum::router::OpenApiRouter;

use crate::server::App;

pub(crate) fn all() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .merge(schedules::routes())
        .merge(sets::routes())
        .merge(jobs::routes())
        .merge(queues::routes())
        .merge(cluster::routes())
        .merge(answers::routes())
        .merge(events::routes())
        .merge(operations::routes())
        .merge(workers::routes())
}

/// Everything that can be done, in the name of whoever asks: `Punctual-Actor` says who.
fn admin(app: &App, headers: &HeaderMap, why: &str) -> Admin {
    app.punctual().admin().by(actor(headers), why)
}

fn actor(headers: &HeaderMap) -> &str {
    let who = headers.get("punctual-actor").and_then(|who| who.to_str().ok());
    who.unwrap_or("api")
}
