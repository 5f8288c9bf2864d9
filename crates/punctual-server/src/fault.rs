//! What is answered when something is wrong.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual::{Error, ErrorDetails, ErrorKind};
use punctual_api::Problem;

/// A request that could not be carried out.
#[derive(Debug)]
pub(crate) struct Fault(Box<Problem>);

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Fault {
        Fault(Box::new(problem))
    }
}

/// The response of an operation that failed, for the OpenAPI description.
#[derive(utoipa::IntoResponses)]
#[response(
    status = "default",
    description = "The request failed",
    content_type = "application/problem+json"
)]
#[expect(dead_code, reason = "only its description is used")]
pub(crate) struct ErrorResponse(Problem);

pub(crate) type Answer<T> = Result<axum::Json<T>, Fault>;

impl Fault {
    /// The request is wrong at this place.
    pub(crate) fn invalid(pointer: &str, detail: impl Into<String>) -> Fault {
        let detail = detail.into();
        let problem = Problem::new(422, "invalid", "Validation failed", &*detail);
        problem.at(pointer, detail).into()
    }

    /// The request cannot be read.
    pub(crate) fn unreadable(pointer: &str, detail: impl Into<String>) -> Fault {
        let detail = detail.into();
        let problem = Problem::new(400, "unreadable", "Malformed request", &*detail);
        problem.at(pointer, detail).into()
    }

    /// The body of the response, for a result among others.
    pub(crate) fn problem(self) -> Problem {
        *self.0
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
        let detail = "the server is shutting down and accepts no new work";
        let problem = Problem::new(503, "stopping", "Server shutting down", detail);
        problem.hint("use another server, or try again in a moment").into()
    }

    /// It took longer than a request may.
    pub(crate) fn too_slow(most: Duration) -> Fault {
        let detail = format!("no response within {} seconds", most.as_secs());
        let problem = Problem::new(504, "too_slow", "Request timed out", detail);
        let hint = "a change may have been applied; check before you repeat it. \
                    For reads, request less data";
        problem.hint(hint).into()
    }

    /// We made a mistake.
    pub(crate) fn bug(detail: &str) -> Fault {
        let problem = Problem::new(500, BUG, "Internal error", detail);
        problem.hint("see the server log, and please report it").into()
    }

    /// There is no such thing.
    pub(crate) fn not_found(detail: impl Into<String>) -> Fault {
        Problem::new(404, "not_found", "Not found", detail).into()
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let Some((status, code, title)) = meaning(error.kind()) else { return Fault::stopping() };
        let detail = error.to_string();
        let problem = Problem::new(status, code, title, &*detail);
        match error.details() {
            Some(ErrorDetails::Field(field)) => problem.at(pointer(field), detail).into(),
            _ => problem.into(),
        }
    }
}

/// The pointer to a field of the body: `when[0]` is `/when/0`.
pub(crate) fn pointer(field: &str) -> String {
    match field {
        // It comes in a header.
        "trace" => "traceparent".to_owned(),
        field => format!("/{}", field.replace(['[', '.'], "/").replace(']', "")),
    }
}

/// The status, the code and the title of the problem for a kind of error; none if the server is stopping.
fn meaning(kind: ErrorKind) -> Option<(u16, &'static str, &'static str)> {
    Some(match kind {
        ErrorKind::Invalid => (422, "invalid", "Validation failed"),
        ErrorKind::NotFound => (404, "not_found", "Not found"),
        ErrorKind::Conflict => (409, "conflict", "Conflict"),
        ErrorKind::Fenced => (409, "fenced", "Lease lost"),
        ErrorKind::Limit => (413, "limit", "Limit exceeded"),
        ErrorKind::Full => (503, "disk_full", "Disk full"),
        ErrorKind::Stopped => return None,
        ErrorKind::Denied => (403, "denied", "Forbidden"),
        ErrorKind::Retry => (503, "busy", "Database busy"),
        ErrorKind::Unreachable => (503, "unreachable", "Database unavailable"),
        ErrorKind::SchemaTooNew => (503, "schema_too_new", "Database schema too new"),
        ErrorKind::SchemaTooOld => (503, "schema_too_old", "Database schema too old"),
        ErrorKind::Corrupt => (500, "corrupt", "Database unusable"),
        // A test checks that no kind comes here.
        _ => (500, BUG, "Internal error"),
    })
}

/// The code of a mistake of the server.
const BUG: &str = "bug";

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(&self.0)).into_response();
        response.extensions_mut().insert(*self.0);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_a_code() {
        for kind in ErrorKind::ALL {
            assert!(meaning(kind).is_none_or(|(_, code, _)| code != BUG), "{kind:?}");
        }
    }

    #[test]
    fn a_field_becomes_a_pointer() {
        assert_eq!(pointer("priority"), "/priority");
        assert_eq!(pointer("when[1]"), "/when/1");
        assert_eq!(pointer("job.backoff"), "/job/backoff");
        assert_eq!(pointer("trace"), "traceparent");
    }
}
