//! One connection, from accept to close.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio::time::timeout_at;
use tower::Service;
use tower_http::timeout::TimeoutBody;

use super::activity::{Activity, ObservedBody};
use super::limits::{ConnectionLimits, Verdict, decide};
use super::socket::Socket;
use crate::closing::Closing;

/// What is buffered of a request head, of responses by HTTP/1, and of each response by HTTP/2.
const BUFFER_BYTES: usize = 16 * 1_024;

/// Requests of an HTTP/2 connection at the same time. Their heads are in memory while their bodies are
/// awaited, before the client has authenticated: with the next bound these are 256 KiB per connection.
const STREAMS_MAX: u32 = 32;

/// The size of the head of an HTTP/2 request, as the protocol counts it.
const HEAD_BYTES_MAX: u32 = 8 * 1_024;

/// How often an HTTP/2 client must show that it is there, and how long it may take.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(20);

/// How long a client has to accept the announcement that its connection is closed.
const FINISH_WITHIN: Duration = Duration::from_secs(1);

/// The protocols that are served.
pub(super) type Protocols = Builder<TokioExecutor>;

pub(super) fn protocols() -> Protocols {
    let mut protocols = Builder::new(TokioExecutor::new());
    // Without a timer, hyper limits no request head; the loop below does.
    protocols.http1().max_buf_size(BUFFER_BYTES);
    protocols
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .max_send_buf_size(BUFFER_BYTES)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN);
    protocols
}

/// Serves a connection until the client closes it, a limit is reached, or `closing` has begun and its
/// requests are answered.
pub(super) async fn serve(
    stream: TcpStream,
    router: Router,
    activity: Arc<Activity>,
    protocols: &Protocols,
    limits: &ConnectionLimits,
    closing: &Closing,
) {
    let answer = service_fn(|request: Request<Incoming>| {
        let in_flight = activity.begin();
        let request = request.map(|body| TimeoutBody::new(limits.body, body));
        let answering = router.clone().call(request);
        async move {
            let response: Response<_> = answering.await?;
            Ok::<_, Infallible>(response.map(|body| ObservedBody { body, in_flight }))
        }
    });
    let socket = TokioIo::new(Socket::new(stream, activity.clone(), limits.unread));
    let mut connection = pin!(protocols.serve_connection(socket, answer));
    let mut closing = pin!(closing.begun());
    let mut is_finishing = false;
    let mut look_at = Duration::ZERO;
    loop {
        let ended = async {
            tokio::select! {
                biased;
                // An error is the client's, which may leave at any time.
                _ = connection.as_mut() => true,
                () = &mut closing, if !is_finishing => false,
            }
        };
        match timeout_at(activity.at(look_at), ended).await {
            Ok(true) => return,
            Ok(false) => {
                is_finishing = true;
                connection.as_mut().graceful_shutdown();
            }
            Err(_) => match decide(&activity.status(), limits, activity.age()) {
                Verdict::KeepUntil(later) => look_at = later,
                Verdict::Finish if !is_finishing => {
                    is_finishing = true;
                    connection.as_mut().graceful_shutdown();
                    look_at = activity.age() + FINISH_WITHIN;
                }
                Verdict::Finish | Verdict::Drop => return,
            },
        }
    }
}
