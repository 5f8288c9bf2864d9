//! One connection, from accept to close.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout_at;
use tower::Service;
use tower_http::timeout::TimeoutBody;

use super::activity::{Activity, ObservedBody, REQUESTS_MAX};
use super::limits::{ConnectionLimits, FINISH_WITHIN, Verdict, decide};
use super::socket::Socket;
use crate::closing::Closing;
use crate::headers;

/// What is buffered of a request head, of responses by HTTP/1, and of each response by HTTP/2.
const BUFFER_BYTES: usize = 16 * 1_024;

/// Requests of all HTTP/2 connections at the same time, without the first one of each. A request can hold
/// about 10 kB, its head or its response, although its client has no token.
const FURTHER_REQUESTS_MAX: usize = 1_024;

/// The size of the head of an HTTP/2 request, as the protocol counts it.
const HEAD_BYTES_MAX: u32 = 8 * 1_024;

/// What an HTTP/2 client may send of request bodies before they are read: of one request, and of all
/// requests of its connection.
const WINDOW_BYTES: u32 = 64 * 1_024;

/// How often an HTTP/2 client must show that it is there, and how long it may take.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(20);

/// The protocols that are served.
pub(super) struct Protocols {
    builder: Builder<TokioExecutor>,
    further_requests: Arc<Semaphore>,
}

pub(super) fn protocols() -> Protocols {
    let mut builder = Builder::new(TokioExecutor::new());
    // Without a timer, hyper limits no request head; the loop below does.
    builder.http1().max_buf_size(BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(REQUESTS_MAX as u32)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_header_list_size(HEAD_BYTES_MAX)
        .max_send_buf_size(BUFFER_BYTES)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN);
    Protocols { builder, further_requests: Arc::new(Semaphore::new(FURTHER_REQUESTS_MAX)) }
}

/// The response to a request beyond the limits. It has no body, which a client could leave unread.
fn overloaded() -> Response<ObservedBody> {
    let mut response = Response::new(ObservedBody { body: Body::empty(), in_flight: None });
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    headers::protect(response)
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
        let in_flight = activity.begin(&protocols.further_requests);
        let answering = in_flight.map(|in_flight| {
            let request = request.map(|body| TimeoutBody::new(limits.body, body));
            (router.clone().call(request), in_flight)
        });
        async move {
            let Some((answering, in_flight)) = answering else { return Ok(overloaded()) };
            let response: Response<_> = answering.await?;
            let observe = |body| ObservedBody { body, in_flight: Some(in_flight) };
            Ok::<_, Infallible>(response.map(observe))
        }
    });
    let socket = TokioIo::new(Socket::new(stream, activity.clone(), limits.unread));
    let mut connection = pin!(protocols.builder.serve_connection(socket, answer));
    let mut closing = pin!(closing.begun());
    let mut finishing_at = None;
    let mut look_at = Duration::ZERO;
    loop {
        let ended = async {
            tokio::select! {
                biased;
                // An error is the client's, which may leave at any time.
                _ = connection.as_mut() => true,
                () = &mut closing, if finishing_at.is_none() => false,
            }
        };
        match timeout_at(activity.at(look_at), ended).await {
            Ok(true) => return,
            // Nothing has to be answered.
            Ok(false) if !activity.has_begun() => return,
            Ok(false) => {}
            Err(_) => match decide(&activity.status(), limits, finishing_at, activity.age()) {
                Verdict::KeepUntil(later) => {
                    look_at = later;
                    continue;
                }
                Verdict::Finish => {}
                Verdict::Drop => return,
            },
        }
        connection.as_mut().graceful_shutdown();
        finishing_at = Some(activity.age());
        look_at = activity.age() + FINISH_WITHIN;
    }
}
