//! Places for health checks and metrics when there are too many connections.
//!
//! A connection beyond the limit cannot be known to be a health check before it has sent its request.
//! A few such connections are served at the same time, with one request each; a new one takes the
//! place of one that has not sent a request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tower::util::MapResponseLayer;

use super::activity::Activity;
use super::admission::Refusal;
use super::refusals::Refusals;
use super::{now, pause};

/// How long a connection has its place at least. A connection that had to wait to be accepted has sent
/// its request by then. With 16 places, 8,000 connections a second can be turned away.
const PLACE_TIME: Duration = Duration::from_millis(2);

/// The places.
pub(super) struct ProbePlaces {
    taken: VecDeque<ProbePlace>,
    most: usize,
}

struct ProbePlace {
    since: Instant,
    activity: Arc<Activity>,
    task: AbortHandle,
}

impl ProbePlaces {
    pub(super) fn new(most: usize) -> ProbePlaces {
        ProbePlaces { taken: VecDeque::new(), most }
    }

    /// Makes room for one connection. Without a free place, closes the oldest connection that has
    /// sent no request, or else the oldest one.
    pub(super) async fn free_one(&mut self) {
        self.taken.retain(|place| !place.task.is_finished());
        if self.taken.len() < self.most {
            return;
        }
        let silent = self.taken.iter().position(|place| !place.activity.has_begun());
        if let Some(place) = self.taken.remove(silent.unwrap_or(0)) {
            pause(PLACE_TIME.saturating_sub(now().duration_since(place.since))).await;
            // It may have sent its request meanwhile, and is then answered without a place.
            if !place.activity.has_begun() || silent.is_none() {
                place.task.abort();
            }
        }
    }

    pub(super) fn add(&mut self, activity: Arc<Activity>, task: AbortHandle) {
        self.taken.push_back(ProbePlace { since: now(), activity, task });
    }
}

/// The router, which closes the connection after a response and counts those that refuse a request.
pub(super) fn prepare(probes: Router, refusals: Arc<Refusals>) -> Router {
    probes.layer(MapResponseLayer::new(move |mut response: Response| {
        if response.extensions().get::<Overloaded>().is_some() {
            refusals.count(Refusal::Total);
        }
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    }))
}

/// Marks the response to a request that is not a health check.
#[derive(Clone, Copy)]
pub(crate) struct Overloaded;

/// Counts a refusal when it is dropped, unless the connection has sent a request.
pub(super) struct SilentRefusal {
    activity: Arc<Activity>,
    refusals: Arc<Refusals>,
}

impl SilentRefusal {
    pub(super) fn new(activity: Arc<Activity>, refusals: Arc<Refusals>) -> SilentRefusal {
        SilentRefusal { activity, refusals }
    }
}

impl Drop for SilentRefusal {
    fn drop(&mut self) {
        if !self.activity.has_begun() {
            self.refusals.count(Refusal::Total);
        }
    }
}
