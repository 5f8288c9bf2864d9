//! Requests that may be sent again: whoever did not hear the answer asks once more with the same
//! `Idempotency-Key`, and makes nothing twice.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use punctual::{ErrorKind, Receipt, Unique};
use punctual_api::Problem;
use serde::Serialize;

use crate::fault::Fault;

const KEY: &str = "idempotency-key";

/// How long a repeated request is known by its key.
const LIFETIME: Duration = Duration::from_secs(24 * 3_600);

/// May the request be sent again?
pub(super) fn is_wanted(headers: &HeaderMap) -> bool {
    headers.contains_key(KEY)
}

/// The key under which a part of what the request makes is the only one.
pub(super) fn key(headers: &HeaderMap, part: &str) -> Result<Option<Unique>, Fault> {
    let Some(key) = headers.get(KEY) else { return Ok(None) };
    match key.to_str().ok().filter(|key| (1..=200).contains(&key.len())) {
        Some(key) => {
            let key = Unique::key(format!("idempotency-key {key}{part}"));
            Ok(Some(key.during(LIFETIME).among_all()))
        }
        None => Err(Fault::unreadable(
            "Idempotency-Key",
            "`Idempotency-Key` must have 1 to 200 visible ASCII characters",
        )),
    }
}

/// A key that is used for something else belongs to the request before, not to a job of the caller's.
pub(super) fn refused(error: punctual::Error, headers: &HeaderMap) -> Fault {
    if !is_wanted(headers) || error.kind() != ErrorKind::Conflict {
        return error.into();
    }
    let title = "Idempotency key reused";
    let detail = "this `Idempotency-Key` was used for a different request in the last 24 hours";
    Fault::from(Problem::new(422, "key_reused", title, detail).hint("use a new key"))
}

/// What was made, or was made already.
pub(super) fn answer(receipt: Receipt, headers: &HeaderMap, body: impl Serialize) -> Response {
    let status = if receipt.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = (status, Json(body)).into_response();
    if is_wanted(headers) && !receipt.is_new {
        let replayed = HeaderValue::from_static("true");
        response.headers_mut().insert("idempotency-replayed", replayed);
    }
    response
}
