//! The dashboard: is everything on time, and if not, why.
//!
//! Pages are functions that return markup, whole and usable without a script. One small script of our
//! own listens for what has changed, reads the page again and patches the regions that are marked with
//! `data-live`. Every link goes through [`view::View::to`], so that the whole can be nested anywhere.

mod act;
mod assets;
mod charts;
mod counted;
mod estimate;
mod everything;
mod gate;
mod heat;
mod live;
mod load;
mod pages;
mod range;
mod series;
mod session;
mod show;
mod view;

use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};
use tokio::sync::Semaphore;
use tower_http::compression::CompressionLayer;

use crate::access;
use crate::server::App;

pub(crate) use session::visitor;

/// What the pages share.
#[derive(Clone)]
pub(crate) struct Ui(Arc<Shared>);

/// Sign-in forms that are read at the same time. Each may hold about 20 kB, and its client has not shown
/// a token. More than one client address may open connections.
const SIGN_INS_MAX: usize = 512;

pub(crate) struct Shared {
    app: App,
    sign_ins: Semaphore,
    live: live::Live,
    kept: series::Kept,
}

impl Ui {
    fn admin(&self) -> punctual::Admin {
        self.0.app.punctual().admin()
    }

    fn is_read_only(&self) -> bool {
        self.0.app.server.read_only
    }
}

/// Every page, its assets and its events.
pub(crate) fn router<S: Clone + Send + Sync + 'static>(app: App) -> Router<S> {
    let live = live::Live::new(app.punctual().clone());
    let has_token = app.server.token.is_some();
    let sign_ins = Semaphore::new(SIGN_INS_MAX);
    let ui = Ui(Arc::new(Shared { app, sign_ins, live, kept: series::Kept::default() }));
    let mut pages = Router::new()
        .route("/", get(pages::overview::page))
        .route("/schedules", get(pages::schedules::page).post(act::many::schedules))
        .route("/schedules/{name}", get(pages::schedule::page))
        .route("/schedules/{name}/pause", get(pages::confirm::pause_schedule))
        .route("/jobs", get(pages::jobs::page).post(act::many::jobs))
        .route("/jobs/{id}", get(pages::job::page))
        .route("/jobs/{id}/cancel", get(pages::confirm::cancel_job))
        .route("/jobs/{id}/log.txt", get(pages::log::text))
        .route("/operations", post(act::many::operate))
        .route("/operations/new", get(pages::operation::question))
        .route("/operations/schedules", post(act::many::operate_schedules))
        .route("/operations/schedules/new", get(pages::operation::schedules_question))
        .route("/operations/{id}", get(pages::operation::page))
        .route("/operations/{id}/cancel", get(pages::confirm::cancel_operation))
        .route("/timeline", get(pages::timeline::page))
        .route("/upcoming", get(pages::upcoming::page))
        .route("/queues", get(pages::queues::page))
        .route("/queues/{name}", get(pages::queue::page))
        .route("/queues/{name}/pause", get(pages::confirm::pause_queue))
        .route("/everything/pause", get(pages::everything::pause).post(act::many::pause_everything))
        .route(
            "/everything/resume",
            get(pages::everything::resume).post(act::many::resume_everything),
        )
        .route("/nodes", get(pages::nodes::page))
        .route("/activity", get(pages::activity::page))
        .route("/settings", get(pages::settings::page))
        .route("/tools/cron", get(pages::cron::page))
        .route("/ui/act/schedules/{name}/{action}", post(act::schedule))
        .route("/ui/act/jobs/{id}/{action}", post(act::job))
        .route("/ui/act/queues/{name}/{action}", post(act::queue))
        .route("/ui/events", get(live::events))
        .route("/logout", post(session::log_out));
    // A compressor takes 300 kB until its response is read, so only clients with a token have one. A
    // server without a token serves this machine, where compression saves nothing.
    if has_token {
        pages = pages.layer(CompressionLayer::new());
    }
    pages
        .layer(middleware::from_fn_with_state(ui.clone(), gate::known))
        .route("/login", get(session::page).post(session::log_in))
        .layer(access::same_origin())
        .layer(middleware::from_fn_with_state(ui.clone(), gate::page))
        .route("/ui/{hash}/{name}", get(assets::serve))
        .with_state(ui)
}
