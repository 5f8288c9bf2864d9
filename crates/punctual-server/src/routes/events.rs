//! What happens, as it happens.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, StreamExt};
use punctual::{EventCursor, Timestamp};
use punctual_api::{Event, TOPICS};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ask::{Query, instant};
use crate::fault::{ErrorResponse, Fault};
use crate::feed::Listener;
use crate::server::App;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(events))
}

/// Which events to tell.
#[derive(Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Only these topics, separated by commas: `jobs` (finished jobs), `schedules` (decided slots),
    /// `leaders` (new leader terms), `audit` (audit entries). Default: all topics.
    #[serde(default)]
    topics: Option<String>,
    /// Replay events since this time (RFC 3339), at most 24 hours back. Default: only new events.
    #[serde(default)]
    since: Option<String>,
    /// Keep the stream open for new events. Default: true.
    #[serde(default)]
    follow: Option<bool>,
}

/// The oldest event that a listener may go on after. Whoever was away for longer does better to read
/// the lists again.
const REPLAY_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Clocks of nodes may differ a little, and a cursor is never from the future by more.
const AHEAD_MAX: Duration = Duration::from_secs(60);
/// How long a client should wait before it connects again.
const RETRY: Duration = Duration::from_millis(2_000);
/// Something is sent at least this often, so that nobody in between takes the stream for dead.
const COMMENT_EVERY: Duration = Duration::from_secs(15);

/// Stream events
///
/// Sends server-sent events: jobs that finished, slots that were decided, leader terms that
/// started, and audit entries; oldest first, each event once. The event name is `job`, `slot`,
/// `leader` or `audit`, and the data is an `Event`.
///
/// To continue after a lost connection, send the id of the last event as `Last-Event-ID`. If that
/// id is invalid or older than 24 hours, the first event is named `reset`: read the lists again.
/// With `follow=false`, the stream ends after the existing events; an event named `error` then
/// means that the stream is incomplete.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "cluster",
    params(
        Which,
        (
            "Last-Event-ID" = Option<String>,
            Header,
            description = "Id of the last received event; the stream continues after it",
        ),
    ),
    responses(
        (
            status = 200,
            description = "The event stream",
            body = String,
            content_type = "text/event-stream",
        ),
        ErrorResponse,
    ),
)]
async fn events(
    State(app): State<App>,
    headers: HeaderMap,
    Query(which): Query<Which>,
) -> Result<Response, Fault> {
    let topics = topics(which.topics.as_deref())?;
    let until = app.punctual().admin().events_until().await?;
    let since = instant("since", which.since.as_deref())?;
    let oldest = until.at - REPLAY_MAX;
    if since.is_some_and(|since| since < oldest) {
        return Err(Fault::invalid(
            "since",
            "events can be replayed for the last 24 hours only; use the lists for older data",
        ));
    }
    let (after, reset) = match headers.get("last-event-id") {
        Some(id) => match resume(id, until.at) {
            Ok(cursor) => (cursor, None),
            Err(reason) => (until, Some(reason)),
        },
        None => (since.map_or(until, EventCursor::at), None),
    };
    let listener = app.feed.listen(after.clone(), which.follow.unwrap_or(true)).await?;
    let frames = stream::iter(first(&after, reset)).chain(stream::unfold(
        (listener, topics),
        |(mut listener, topics)| async move {
            let frame = next(&mut listener, &topics).await?;
            Some((frame, (listener, topics)))
        },
    ));
    let frames = app.server.closing.cut(frames);
    let keep_alive = KeepAlive::new().interval(COMMENT_EVERY).text("");
    let frames = Sse::new(frames.map(Ok::<Frame, Infallible>)).keep_alive(keep_alive);
    // A proxy that gathers an answer before it passes it on would keep everything back.
    let unbuffered =
        [(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"))];
    Ok((unbuffered, frames).into_response())
}

fn topics(asked: Option<&str>) -> Result<Vec<String>, Fault> {
    let Some(asked) = asked else { return Ok(TOPICS.map(str::to_owned).to_vec()) };
    let read = |topic: &str| {
        let topic = topic.trim();
        if TOPICS.contains(&topic) {
            return Ok(topic.to_owned());
        }
        let known = match punctual_core::nearest(topic, TOPICS) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("expected one of {}", TOPICS.join(", ")),
        };
        Err(Fault::unreadable("topics", format!("unknown topic `{topic}`; {known}")))
    };
    asked.split(',').map(read).collect()
}

/// Where a listener goes on, or why it cannot.
fn resume(id: &HeaderValue, now: Timestamp) -> Result<EventCursor, String> {
    let cursor: EventCursor = id.to_str().unwrap_or("").parse()?;
    if cursor.at < now - REPLAY_MAX {
        return Err("`Last-Event-ID` is older than 24 hours".to_owned());
    }
    if cursor.at > now + AHEAD_MAX {
        return Err("`Last-Event-ID` is in the future".to_owned());
    }
    Ok(cursor)
}

/// What a stream begins with: how to come back and, if that did not work, that it did not.
fn first(after: &EventCursor, reset: Option<String>) -> Vec<Frame> {
    let hello = Frame::default().retry(RETRY).id(after.to_string());
    let reset = reset.map(|reason| {
        let data = serde_json::json!({ "reason": reason }).to_string();
        Frame::default().event("reset").id(after.to_string()).data(data)
    });
    std::iter::once(hello).chain(reset).collect()
}

async fn next(listener: &mut Listener, topics: &[String]) -> Option<Frame> {
    loop {
        let event = match listener.next().await? {
            Ok(event) => Event::from(event),
            Err(error) => {
                let data = serde_json::json!({ "detail": error.to_string() }).to_string();
                return Some(Frame::default().event("error").data(data));
            }
        };
        if topics.contains(&event.topic) {
            return Some(frame(&event));
        }
    }
}

fn frame(event: &Event) -> Frame {
    let name = match event.topic.as_str() {
        "jobs" => "job",
        "schedules" => "slot",
        "leaders" => "leader",
        _ => "audit",
    };
    // Every part of an event has a form in JSON, so that the fallback is never taken.
    let data = serde_json::to_string(event).unwrap_or_default();
    Frame::default().event(name).id(&event.id).data(data)
}
