//! Accepts connections and serves them within limits.
//!
//! A connection is not authenticated before its first request, so everything that it may use until
//! then is bounded here: how many there are, how long each may take, and what a client that sends or
//! reads nothing can hold. Each connection is one task. The limits are decided by pure functions
//! ([`limits`], [`admission`]); this module only accepts, asks them and acts.
//!
//! hyper can close a connection that sends its request head too slowly, but not while it detects the
//! protocol, not with HTTP/2, and only with a timer per request. The task of a connection watches for
//! all of that with one timer ([`connection`]).

mod activity;
mod admission;
mod connection;
mod limits;
mod probes;
mod refusals;
mod socket;

use std::io::{Error, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::closing::Closing;
use activity::Activity;
use admission::{Admission, Refusal};
use connection::Protocols;
pub use limits::ConnectionLimits;
pub(crate) use probes::Overloaded;
use probes::{ProbePlaces, SilentRefusal};
use refusals::Refusals;
pub use refusals::describe_metrics;

/// How long to wait after an error that the next call would return as well, such as too many open
/// files.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Connections that wait to be accepted. As many as may be open: after a flood was closed, its clients
/// come back together, and a health check among them must not have to try again.
const BACKLOG: u32 = 4_096;

/// Listens at an address.
///
/// # Errors
///
/// Returns the error of the system, for example if another process listens there.
pub fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A restart must not wait for connections of the process before it.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// What connections are served with.
#[derive(Clone)]
pub struct Routers {
    /// Everything.
    pub all: Router,
    /// The health checks and metrics, for connections beyond the limit.
    pub probes: Router,
}

/// Serves connections until `closing` begins. Then no connection is accepted, idle ones are closed,
/// and the function returns after the last request was answered.
pub async fn listen(
    listener: TcpListener,
    routers: Routers,
    limits: ConnectionLimits,
    closing: Closing,
) {
    refusals::show_limit(limits.total);
    let (open, _) = watch::channel(());
    let mut accept_loop = AcceptLoop::new(routers, limits, closing.clone(), open.subscribe());
    let mut closed = std::pin::pin!(closing.begun());
    loop {
        tokio::select! {
            biased;
            () = &mut closed => break,
            () = accept_loop.refusals.due() => accept_loop.report(),
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => accept_loop.take(stream, from).await,
                Err(error) => accept_loop.failed(&error).await,
            },
        }
    }
    drop(listener);
    drop(accept_loop);
    // Each connection holds a receiver.
    open.closed().await;
}

/// The state of the loop.
struct AcceptLoop {
    routers: Routers,
    limits: Arc<ConnectionLimits>,
    protocols: Arc<Protocols>,
    admission: Arc<Admission>,
    places: ProbePlaces,
    refusals: Arc<Refusals>,
    closing: Closing,
    open: watch::Receiver<()>,
}

impl AcceptLoop {
    fn new(
        routers: Routers,
        limits: ConnectionLimits,
        closing: Closing,
        open: watch::Receiver<()>,
    ) -> AcceptLoop {
        let refusals = Arc::<Refusals>::default();
        let probes = probes::prepare(routers.probes, refusals.clone());
        AcceptLoop {
            routers: Routers { probes, ..routers },
            protocols: Arc::new(connection::protocols()),
            admission: Arc::new(Admission::new(limits.total, limits.per_address)),
            places: ProbePlaces::new(limits.probes),
            refusals,
            limits: Arc::new(limits),
            closing,
            open,
        }
    }

    async fn take(&mut self, stream: TcpStream, from: SocketAddr) {
        match self.admission.admit(client(from)) {
            Ok(admitted) => {
                let serving = self.serve(stream, self.routers.all.clone(), Activity::new());
                tokio::spawn(async move {
                    serving.await;
                    drop(admitted);
                });
            }
            Err(Refusal::Total) => self.serve_probe(stream).await,
            Err(refusal) => self.refusals.count(refusal),
        }
    }

    fn serve(
        &self,
        stream: TcpStream,
        router: Router,
        activity: Arc<Activity>,
    ) -> impl Future<Output = ()> + use<> {
        let (protocols, limits) = (self.protocols.clone(), self.limits.clone());
        let (closing, open) = (self.closing.clone(), self.open.clone());
        async move {
            connection::serve(stream, router, activity, &protocols, &limits, &closing).await;
            drop(open);
        }
    }

    /// Serves a connection beyond the limit, which may be a health check or a scrape of the metrics.
    async fn serve_probe(&mut self, stream: TcpStream) {
        self.places.free_one().await;
        let activity = Activity::new();
        let serving = self.serve(stream, self.routers.probes.clone(), activity.clone());
        let refusal = SilentRefusal::new(activity.clone(), self.refusals.clone());
        let most = self.limits.probe_time;
        let task = tokio::spawn(async move {
            let _refusal = refusal;
            // The end of the time closes the connection.
            let _ = tokio::time::timeout(most, serving).await;
        });
        self.places.add(activity, task.abort_handle());
    }

    fn report(&self) {
        self.refusals.report(self.admission.open(), self.limits.total);
    }

    async fn failed(&self, error: &Error) {
        // The client has closed the connection before it was accepted.
        let is_client = matches!(
            error.kind(),
            ErrorKind::ConnectionAborted
                | ErrorKind::ConnectionReset
                | ErrorKind::ConnectionRefused
        );
        if is_client {
            return;
        }
        self.refusals.count_error(error);
        pause(ACCEPT_AGAIN).await;
    }
}

/// The address that a client counts as: an IPv4 address is the same on an IPv6 socket.
fn client(from: SocketAddr) -> IpAddr {
    from.ip().to_canonical()
}

#[expect(clippy::disallowed_methods, reason = "connections are outside of the engine")]
fn now() -> Instant {
    Instant::now()
}

async fn pause(length: Duration) {
    // Nothing ends it but the time.
    let _ = tokio::time::timeout(length, std::future::pending::<()>()).await;
}
