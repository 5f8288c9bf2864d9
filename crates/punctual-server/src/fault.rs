//! What is answered when something is wrong.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual::{Error, ErrorKind};
use punctual_api::Problem;

/// A request that could not be carried out.
#[derive(Debug)]
pub(crate) struct Fault(Box<Problem>);

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Fault {
        Fault(Box::new(problem))
    }
}

pub(crate) type Answer<T> = Result<axum::Json<T>, Fault>;

impl Fault {
    /// The request is wrong at this place.
    pub(crate) fn invalid(pointer: &str, detail: impl Into<String>) -> Fault {
        let detail = detail.into();
        let problem =
            Problem::new(422, "invalid", "The request cannot be carried out as it is", &*detail);
        problem.at(pointer, detail).into()
    }

    /// The request cannot be read.
    pub(crate) fn unreadable(pointer: &str, detail: impl Into<String>) -> Fault {
        let detail = detail.into();
        let problem = Problem::new(400, "unreadable", "The request cannot be read", &*detail);
        problem.at(pointer, detail).into()
    }

    /// What is wrong, in words.
    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The same, with a way out.
    pub(crate) fn hint(self, hint: &str) -> Fault {
        Fault::from(self.0.hint(hint))
    }

    /// The process is about to end; whoever asks another one, or this one later, is served.
    pub(crate) fn stopping() -> Fault {
        let detail = "this process finishes what runs, and takes no more";
        let problem = Problem::new(503, "stopping", "The process is about to end", detail);
        problem.hint("ask another server, or again in a moment").into()
    }

    /// It took longer than a request may.
    pub(crate) fn too_slow(most: Duration) -> Fault {
        let detail = format!("there was no answer within {} seconds", most.as_secs());
        let problem = Problem::new(504, "too_slow", "It takes too long", detail);
        let hint = "ask for less, or again when the database has less to do; what was to be changed may or may not be so by now";
        problem.hint(hint).into()
    }

    /// We made a mistake.
    pub(crate) fn bug(detail: &str) -> Fault {
        let problem = Problem::new(500, "bug", "punctual made a mistake", detail);
        problem.hint("the log of the server has more; please report it").into()
    }

    /// There is no such thing.
    pub(crate) fn not_found(detail: impl Into<String>) -> Fault {
        Problem::new(404, "not_found", "There is no such thing", detail).into()
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let (status, code, title) = match error.kind() {
            ErrorKind::Invalid => (422, "invalid", "The request cannot be carried out as it is"),
            ErrorKind::NotFound => (404, "not_found", "There is no such thing"),
            ErrorKind::Conflict => (409, "conflict", "Somebody else was first"),
            ErrorKind::Fenced => (409, "fenced", "It belongs to another by now"),
            ErrorKind::Limit => (413, "limit", "A bound was reached"),
            ErrorKind::Denied => (403, "denied", "It is not allowed"),
            ErrorKind::Retry => (503, "busy", "The database is busy; try again"),
            ErrorKind::Unreachable => (503, "unreachable", "The database cannot be reached"),
            ErrorKind::SchemaTooNew => {
                (503, "schema_too_new", "The database is newer than this program")
            }
            ErrorKind::Corrupt => (500, "corrupt", "The database is broken or not ours"),
        };
        let detail = error.to_string();
        let problem = Problem::new(status, code, title, &*detail);
        match error.part() {
            // It comes in a header.
            Some("trace") => problem.at("traceparent", detail).into(),
            Some(part) => problem.at(format!("/{part}"), detail).into(),
            None => problem.into(),
        }
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(&self.0)).into_response();
        response.extensions_mut().insert(*self.0);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
