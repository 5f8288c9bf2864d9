//! What a connection is doing, as its requests, its responses and its socket report it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::time::Instant;

use super::limits::ConnectionStatus;
use super::now;

/// Shared by the parts of one connection. Times are milliseconds since its start.
pub(super) struct Activity {
    opened: Instant,
    has_begun: AtomicBool,
    in_flight: AtomicUsize,
    progress_at: AtomicU64,
    /// The time plus one, so that 0 means that the client reads.
    blocked_at: AtomicU64,
}

impl Activity {
    pub(super) fn new() -> Arc<Activity> {
        Arc::new(Activity {
            opened: now(),
            has_begun: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            progress_at: AtomicU64::new(0),
            blocked_at: AtomicU64::new(0),
        })
    }

    /// Time since the start of the connection.
    pub(super) fn age(&self) -> Duration {
        now().duration_since(self.opened)
    }

    /// The instant at which the connection has this age.
    pub(super) fn at(&self, age: Duration) -> Instant {
        self.opened + age
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.age().as_millis()).unwrap_or(u64::MAX)
    }

    fn progressed(&self) {
        self.progress_at.store(self.milliseconds(), Relaxed);
    }

    /// Has the connection sent a complete request head?
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Relaxed)
    }

    /// A complete request head was read.
    pub(super) fn begin(self: &Arc<Self>) -> InFlightRequest {
        self.has_begun.store(true, Relaxed);
        self.in_flight.fetch_add(1, Relaxed);
        self.progressed();
        InFlightRequest(self.clone())
    }

    /// The client does not read: the socket accepts no bytes.
    pub(super) fn blocked(&self) {
        if self.blocked_at.load(Relaxed) == 0 {
            self.blocked_at.store(self.milliseconds().saturating_add(1), Relaxed);
        }
    }

    /// The client reads: the socket accepted bytes.
    pub(super) fn unblocked(&self) {
        if self.blocked_at.load(Relaxed) != 0 {
            self.blocked_at.store(0, Relaxed);
        }
    }

    pub(super) fn status(&self) -> ConnectionStatus {
        let blocked_at = self.blocked_at.load(Relaxed).checked_sub(1);
        ConnectionStatus {
            has_begun: self.has_begun(),
            in_flight: self.in_flight.load(Relaxed),
            progress_at: Duration::from_millis(self.progress_at.load(Relaxed)),
            blocked_at: blocked_at.map(Duration::from_millis),
        }
    }
}

/// A request without a complete response.
pub(super) struct InFlightRequest(Arc<Activity>);

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.progressed();
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}

/// The body of a response, which is in flight until it is dropped.
pub(super) struct ObservedBody {
    pub(super) body: Body,
    pub(super) in_flight: InFlightRequest,
}

impl HttpBody for ObservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_ready() {
            self.in_flight.0.progressed();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
