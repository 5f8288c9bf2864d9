//! Places for health checks when there are too many connections.
//!
//! A connection beyond the limit cannot be known to be a health check before it has sent its request.
//! A few such connections are served at the same time, with one request each; a new one takes the
//! place of one that has not sent a request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tower::util::{MapRequestLayer, MapResponseLayer};

use super::admission::Refusal;
use super::refusals::Refusals;
use super::{now, pause};

/// How long a connection has its place at least. A health check sends its request at once.
const PLACE_TIME: Duration = Duration::from_millis(10);

/// The places.
pub(super) struct ProbePlaces {
    taken: VecDeque<Place>,
    most: usize,
}

struct Place {
    since: Instant,
    progress: Progress,
    task: AbortHandle,
}

impl ProbePlaces {
    pub(super) fn new(most: usize) -> ProbePlaces {
        ProbePlaces { taken: VecDeque::new(), most }
    }

    /// Makes room for one connection. If there is none, closes the oldest one without a request, or
    /// the oldest one.
    pub(super) async fn free_one(&mut self) {
        self.taken.retain(|place| !place.task.is_finished());
        if self.taken.len() < self.most {
            return;
        }
        let silent = self.taken.iter().position(|place| !place.progress.has_begun());
        if let Some(place) = self.taken.remove(silent.unwrap_or(0)) {
            pause(PLACE_TIME.saturating_sub(now().duration_since(place.since))).await;
            // It may have sent its request meanwhile, and is then answered without a place.
            if !place.progress.has_begun() || silent.is_none() {
                place.task.abort();
            }
        }
    }

    pub(super) fn add(&mut self, progress: Progress, task: AbortHandle) {
        self.taken.push_back(Place { since: now(), progress, task });
    }
}

/// What a connection has done.
#[derive(Clone, Default)]
pub(super) struct Progress(Arc<(AtomicBool, AtomicBool)>);

impl Progress {
    fn has_begun(&self) -> bool {
        self.0.0.load(Relaxed)
    }

    fn is_answered(&self) -> bool {
        self.0.1.load(Relaxed)
    }
}

/// The router, which closes the connection after a response and reports what it has done.
pub(super) fn observed(probes: &Router) -> (Router, Progress) {
    let progress = Progress::default();
    let (asked, answered) = (progress.clone(), progress.clone());
    let begin = MapRequestLayer::new(move |request: Request| {
        asked.0.0.store(true, Relaxed);
        request
    });
    let end = MapResponseLayer::new(move |mut response: Response| {
        if response.extensions().get::<Overloaded>().is_none() {
            answered.0.1.store(true, Relaxed);
        }
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    });
    (probes.clone().layer((begin, end)), progress)
}

/// Marks the response to a request that is not a health check.
#[derive(Clone, Copy)]
pub(crate) struct Overloaded;

/// Counts a refusal when it is dropped, unless the connection was a health check.
pub(super) struct RefusedUnlessAnswered {
    pub(super) progress: Progress,
    pub(super) refusals: Arc<Refusals>,
}

impl Drop for RefusedUnlessAnswered {
    fn drop(&mut self) {
        if !self.progress.is_answered() {
            self.refusals.count(Refusal::Total);
        }
    }
}
