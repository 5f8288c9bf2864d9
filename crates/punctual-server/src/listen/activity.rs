//! What a connection is doing, as its requests, its responses and its socket report it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::limits::ConnectionStatus;
use super::now;

/// Requests of a connection at the same time. Each holds memory until its client reads the response,
/// which a client without a token may do late.
pub(super) const REQUESTS_MAX: usize = 16;

/// Shared by the parts of one connection. Times are milliseconds since its start.
pub(super) struct Activity {
    opened: Instant,
    has_begun: AtomicBool,
    /// When each request without a complete response made progress, plus one; 0: no request.
    progress_at: [AtomicU64; REQUESTS_MAX],
    /// When the last request ended.
    ended_at: AtomicU64,
    /// The time plus one, so that 0 means that the client reads.
    blocked_at: AtomicU64,
}

impl Activity {
    pub(super) fn new() -> Arc<Activity> {
        Arc::new(Activity {
            opened: now(),
            has_begun: AtomicBool::new(false),
            progress_at: Default::default(),
            ended_at: AtomicU64::new(0),
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

    fn milliseconds_plus_one(&self) -> u64 {
        self.milliseconds().saturating_add(1)
    }

    /// Has the connection sent a complete request head?
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Relaxed)
    }

    /// A complete request head was read. `None`: the connection has too many requests, or it has others
    /// and all connections together have too many.
    pub(super) fn begin(self: &Arc<Self>, further: &Arc<Semaphore>) -> Option<InFlightRequest> {
        self.begin_at(self.milliseconds(), further)
    }

    fn begin_at(
        self: &Arc<Self>,
        milliseconds: u64,
        further: &Arc<Semaphore>,
    ) -> Option<InFlightRequest> {
        self.has_begun.store(true, Relaxed);
        let at = milliseconds.saturating_add(1);
        let begin = |place: &AtomicU64| place.compare_exchange(0, at, Relaxed, Relaxed).is_ok();
        let place = self.progress_at.iter().position(begin)?;
        let permit = (place > 0).then(|| further.clone().try_acquire_owned()).transpose();
        let Ok(permit) = permit else {
            self.progress_at[place].store(0, Relaxed);
            return None;
        };
        Some(InFlightRequest { activity: self.clone(), place, _permit: permit })
    }

    /// The client does not read: the socket accepts no bytes.
    pub(super) fn blocked(&self) {
        if self.blocked_at.load(Relaxed) == 0 {
            self.blocked_at.store(self.milliseconds_plus_one(), Relaxed);
        }
    }

    /// The client reads: the socket accepted bytes.
    pub(super) fn unblocked(&self) {
        if self.blocked_at.load(Relaxed) != 0 {
            self.blocked_at.store(0, Relaxed);
        }
    }

    pub(super) fn status(&self) -> ConnectionStatus {
        let time =
            |stored: &AtomicU64| stored.load(Relaxed).checked_sub(1).map(Duration::from_millis);
        ConnectionStatus {
            has_begun: self.has_begun(),
            progress_at: self.progress_at.iter().filter_map(time).min(),
            ended_at: Duration::from_millis(self.ended_at.load(Relaxed)),
            blocked_at: time(&self.blocked_at),
        }
    }
}

/// A request without a complete response.
pub(super) struct InFlightRequest {
    activity: Arc<Activity>,
    place: usize,
    /// The connection has others.
    _permit: Option<OwnedSemaphorePermit>,
}

impl InFlightRequest {
    fn progressed(&self) {
        let at = self.activity.milliseconds_plus_one();
        self.activity.progress_at[self.place].store(at, Relaxed);
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.activity.ended_at.store(self.activity.milliseconds(), Relaxed);
        self.activity.progress_at[self.place].store(0, Relaxed);
    }
}

/// The body of a response, which is in flight until it is dropped.
pub(super) struct ObservedBody {
    pub(super) body: Body,
    /// `None`: the request was refused.
    pub(super) in_flight: Option<InFlightRequest>,
}

impl HttpBody for ObservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_ready()
            && let Some(in_flight) = &self.in_flight
        {
            in_flight.progressed();
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

#[cfg(test)]
mod tests {
    use super::super::limits::{ConnectionLimits, Verdict, decide};
    use super::*;

    #[test]
    fn a_request_that_makes_progress_does_not_keep_one_that_makes_none() {
        let (activity, further) = (Activity::new(), Arc::new(Semaphore::new(1)));
        let check = |seconds| {
            let now = Duration::from_secs(seconds);
            decide(&activity.status(), &ConnectionLimits::default(), None, now)
        };
        let stalled = activity.begin_at(0, &further);
        let live = activity.begin_at(140_000, &further);
        assert!(stalled.is_some() && live.is_some());
        assert_eq!(check(149), Verdict::KeepUntil(Duration::from_secs(150)));
        assert_eq!(check(150), Verdict::Drop);
        drop(stalled);
        assert_eq!(check(289), Verdict::KeepUntil(Duration::from_secs(290)));
        assert_eq!(check(290), Verdict::Drop);
    }

    #[test]
    fn all_connections_share_the_requests_beyond_their_first_ones() {
        let (one, other) = (Activity::new(), Activity::new());
        let further = Arc::new(Semaphore::new(1));
        let mut held = vec![one.begin(&further), one.begin(&further), other.begin(&further)];
        assert!(held.iter().all(Option::is_some));
        assert!(one.begin(&further).is_none() && other.begin(&further).is_none());
        // The second request of the first connection ends.
        held.remove(1);
        assert!(other.begin(&further).is_some());
    }

    #[test]
    fn a_connection_has_a_limited_number_of_requests() {
        let (activity, further) = (Activity::new(), Arc::new(Semaphore::new(100)));
        let held: Vec<_> = (0..REQUESTS_MAX).map(|_| activity.begin(&further)).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(activity.begin(&further).is_none());
    }
}
