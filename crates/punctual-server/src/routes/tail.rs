//! The log of a job as it is written, for those who watch it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use punctual::{JobId, LogCursor, Punctual};
use punctual_api::LogLine;
use serde_json::json;

use crate::server::App;

/// From look to look while nothing comes.
const LOOK: Duration = Duration::from_millis(250);

/// Looks that find nothing before a job that has ended is believed to have written all: lines are
/// written beside the work, and the last may come after the end.
const LAST_LOOKS: u32 = 2;

/// Lines that are read at once.
const PAGE: usize = 500;

/// Where a log goes on, as it is written: `attempt.number`.
pub(super) fn read_cursor(text: &str) -> Option<LogCursor> {
    let (attempt, number) = text.split_once('.')?;
    Some(LogCursor(attempt.parse().ok()?, number.parse().ok()?))
}

pub(super) fn write_cursor(LogCursor(attempt, number): LogCursor) -> String {
    format!("{attempt}.{number}")
}

/// Does the request want events?
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| {
        accept.split(',').any(|kind| kind.trim().starts_with("text/event-stream"))
    })
}

/// The lines after this place as events named `line`, each with its place as its id; then, once the
/// job has ended, one named `end`. Whoever was cut off says what it saw last and goes on behind it.
pub(super) fn respond(
    app: &App,
    job: JobId,
    after: Option<LogCursor>,
    headers: &HeaderMap,
) -> Response {
    let seen = headers.get("last-event-id").and_then(|seen| read_cursor(seen.to_str().ok()?));
    let after = seen.or(after);
    let punctual = app.punctual().clone();
    let tail = Tail { punctual, job, after, waiting: VecDeque::new(), phase: Phase::Reading };
    let events = app.server.closing.cut(futures_util::stream::unfold(tail, Tail::next));
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

struct Tail {
    punctual: Punctual,
    job: JobId,
    after: Option<LogCursor>,
    waiting: VecDeque<Event>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reading,
    /// The job has ended; so many looks are left.
    Ended(u32),
    Over,
}

impl Tail {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Tail)> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some((Ok(event), self));
            }
            if self.phase == Phase::Over {
                return None;
            }
            if let Err(error) = self.look().await {
                self.say("error", &json!({ "detail": error.to_string() }));
                self.phase = Phase::Over;
            }
        }
    }

    async fn look(&mut self) -> punctual::Result<()> {
        let admin = self.punctual.admin();
        let page = admin.log(self.job, self.after, PAGE).await?;
        if !page.items.is_empty() {
            for line in page.items {
                let place = LogCursor(line.attempt, line.number);
                let line = json!(LogLine::from(line));
                let event = Event::default().event("line").id(write_cursor(place));
                self.waiting.push_back(event.data(line.to_string()));
                self.after = Some(place);
            }
            return Ok(());
        }
        match self.phase {
            Phase::Reading if admin.job(self.job).await?.view.finished_at.is_some() => {
                self.phase = Phase::Ended(LAST_LOOKS);
            }
            Phase::Reading => pause().await,
            Phase::Ended(0) => {
                let state = admin.job(self.job).await?.view.state;
                self.say("end", &json!({ "state": state.to_string() }));
                self.phase = Phase::Over;
            }
            Phase::Ended(looks) => {
                self.phase = Phase::Ended(looks - 1);
                pause().await;
            }
            Phase::Over => {}
        }
        Ok(())
    }

    fn say(&mut self, name: &str, data: &serde_json::Value) {
        self.waiting.push_back(Event::default().event(name).data(data.to_string()));
    }
}

#[expect(clippy::disallowed_methods, reason = "polls for a client in real time")]
async fn pause() {
    tokio::time::sleep(LOOK).await;
}
