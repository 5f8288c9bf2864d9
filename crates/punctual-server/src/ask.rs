//! Reading requests, so that whoever wrote a wrong one is told where.

use std::error::Error;
use std::fmt::Display;
use std::future::poll_fn;
use std::pin::Pin;
use std::str::FromStr;

use axum::Form;
use axum::body::{Bytes, HttpBody};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use punctual::Timestamp;
use punctual_api::{FieldError, Problem};
use punctual_core::TimestampError;
use serde::de::DeserializeOwned;
use tower_http::timeout::TimeoutError;

use crate::fault::Fault;

/// What a body may have: a batch of a thousand jobs with payloads of a kilobyte, or one large one.
pub(crate) const BODY_BYTES_MAX: usize = 1_024 * 1_024;

/// A body of JSON.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>, Fault> {
        Sent::from_request(request, state).await.map(|Sent(_, body)| Body(body))
    }
}

/// A body of JSON, and the headers it came with: taken, where an extractor of their own copies them.
pub(crate) struct Sent<T>(pub(crate) HeaderMap, pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Fault;

    async fn from_request(mut request: Request, state: &S) -> Result<Sent<T>, Fault> {
        let headers = std::mem::take(request.headers_mut());
        let kind = headers.get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or("");
        if kind.split(';').next().map(str::trim) != Some("application/json") {
            let problem = Problem::new(
                415,
                "not_json",
                "Unsupported media type",
                format!("unsupported content type `{kind}`"),
            );
            return Err(Fault::from(
                problem.hint("send the header `Content-Type: application/json`"),
            ));
        }
        let Raw(bytes) = Raw::from_request(request, state).await?;
        Ok(Sent(headers, read(&bytes)?))
    }
}

/// A body as it is.
pub(crate) struct Raw(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Fault;

    async fn from_request(request: Request, _: &S) -> Result<Raw, Fault> {
        read_body(request.into_body(), BODY_BYTES_MAX).await.map(Raw)
    }
}

/// Reads a body with at most `most` bytes. It is held in one buffer, however many pieces it is sent in:
/// a list of pieces takes 32 times as much memory as a client sends if each has one byte.
async fn read_body(mut body: axum::body::Body, most: usize) -> Result<Bytes, Fault> {
    // Most bodies are one piece, which is not copied.
    let (mut first, mut whole) = (Bytes::new(), Vec::new());
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(piece) = frame.map_err(|error| broken_body(&error))?.into_data() else { continue };
        if first.len() + whole.len() + piece.len() > most {
            return Err(too_large(most));
        }
        if first.is_empty() && whole.is_empty() {
            first = piece;
            continue;
        }
        if whole.is_empty() {
            whole.reserve(first.len() + piece.len());
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        whole.extend_from_slice(&piece);
    }
    Ok(if whole.is_empty() { first } else { Bytes::from(whole) })
}

/// The response to a request whose body could not be read.
fn broken_body(error: &(dyn Error + 'static)) -> Fault {
    if is_timeout(error) {
        let detail = "the client stopped sending the request body";
        let problem = Problem::new(408, "body_timeout", "Request timed out", detail);
        return problem.hint("nothing was changed; repeat the request").into();
    }
    Fault::unreadable("", format!("cannot read the request body: {error}"))
}

fn too_large(most: usize) -> Fault {
    let detail = format!("the request body is larger than {most} bytes");
    let problem = Problem::new(413, "too_large", "Request body too large", detail);
    let hint = "split the request, or store large data outside the payload and pass a reference";
    problem.hint(hint).into()
}

/// Was the body not sent in time?
fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<TimeoutError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A form with at most `BYTES_MAX` bytes.
pub(crate) struct FormBody<T, const BYTES_MAX: usize = BODY_BYTES_MAX>(pub(crate) T);

/// A form that anyone may send: a name, a token and a path.
pub(crate) type SmallForm<T> = FormBody<T, { 8 * 1_024 }>;

impl<T, S, const BYTES_MAX: usize> FromRequest<S> for FormBody<T, BYTES_MAX>
where
    T: DeserializeOwned,
    S: Send + Sync,
{
    type Rejection = Fault;

    async fn from_request(request: Request, state: &S) -> Result<Self, Fault> {
        let (parts, body) = request.into_parts();
        // A body without a length is read up to the limit.
        if body.size_hint().lower() > BYTES_MAX as u64 {
            return Err(too_large(BYTES_MAX));
        }
        let bytes = read_body(body, BYTES_MAX).await?;
        let request = Request::from_parts(parts, axum::body::Body::from(bytes));
        let form = Form::from_request(request, state).await;
        form.map(|Form(form)| FormBody(form)).map_err(|rejection| match rejection.status() {
            StatusCode::UNPROCESSABLE_ENTITY => Fault::invalid("", rejection.body_text()),
            _ => Fault::unreadable("", rejection.body_text()),
        })
    }
}

/// A body of JSON that may be left out.
pub(crate) struct MaybeBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for MaybeBody<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, state: &S) -> Result<MaybeBody<T>, Fault> {
        let length = request.headers().get(header::CONTENT_LENGTH);
        let is_empty = match length {
            Some(length) => length == "0",
            None => !request.headers().contains_key(header::CONTENT_TYPE),
        };
        if is_empty {
            return Ok(MaybeBody(T::default()));
        }
        Body::from_request(request, state).await.map(|Body(body)| MaybeBody(body))
    }
}

/// Nearly every body is right; only for one that is not it is worth following where it is read.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(bytes).or_else(|_| read_with_places(bytes))
}

fn read_with_places<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Fault> {
    if bytes.trim_ascii().is_empty() {
        return Err(Fault::unreadable("", "the request body is empty; send a JSON object"));
    }
    let mut text = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut text).map_err(|error| {
        let is_json = error.inner().classify() == serde_json::error::Category::Data;
        let FieldError { pointer, detail } = FieldError::of(error);
        match is_json {
            true => Fault::invalid(&pointer, detail),
            false => Fault::unreadable(&pointer, detail),
        }
    })?;
    text.end().map_err(|error| Fault::unreadable("", error.to_string()))?;
    Ok(value)
}

/// The parameters of a request.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Query<T>, Fault> {
        let query = axum::extract::Query::from_request_parts(parts, state).await;
        let query = query.map_err(|rejection| Fault::unreadable("?", rejection.body_text()))?;
        Ok(Query(query.0))
    }
}

/// A part of the path that is an id.
pub(crate) struct Id<T>(pub(crate) T);

impl<T, S> FromRequestParts<S> for Id<T>
where
    T: FromStr,
    T::Err: Display,
    S: Send + Sync,
{
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Id<T>, Fault> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) =
            path.map_err(|rejection| Fault::unreadable("id", rejection.body_text()))?;
        text.parse().map(Id).map_err(|error: T::Err| Fault::unreadable("id", error.to_string()))
    }
}

/// A part of the path that is a name.
pub(crate) struct Name(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Name, Fault> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(name) =
            path.map_err(|rejection| Fault::unreadable("name", rejection.body_text()))?;
        Ok(Name(name))
    }
}

/// An instant, if one is given.
pub(crate) fn instant(place: impl Display, text: Option<&str>) -> Result<Option<Timestamp>, Fault> {
    let wrong = |error: TimestampError| Fault::invalid(&place.to_string(), error.to_string());
    let read = |text: &str| text.parse().map_err(wrong);
    text.map(read).transpose()
}

/// A length of time, if one is given.
pub(crate) fn length(
    place: impl Display,
    text: Option<&str>,
) -> Result<Option<std::time::Duration>, Fault> {
    let wrong = |error| Fault::invalid(&place.to_string(), error);
    text.map(|text| punctual_core::parse_duration(text).map_err(wrong)).transpose()
}

/// Confirmation of a request that would otherwise be rejected as a likely error.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Meant {
    /// Accept a job kind that no node serves and that no job has had before. Default: false.
    #[serde(default)]
    pub(crate) allow_unknown_kind: bool,
}

/// What a list is asked for.
#[derive(Debug, Default, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Paging {
    /// Maximum number of entries on a page. Default 50, maximum 500; higher values are reduced.
    #[serde(default)]
    pub(crate) limit: Option<usize>,
    /// `next_cursor` of the previous page. Default: the first page.
    #[serde(default)]
    pub(crate) cursor: Option<String>,
}

impl Paging {
    pub(crate) fn most(&self) -> usize {
        self.limit.unwrap_or(50).clamp(1, 500)
    }

    /// The cursor, read by this function; one that cannot be read was not given by us.
    pub(crate) fn after<T>(
        &self,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let Some(cursor) = self.cursor.as_deref() else { return Ok(None) };
        match read(cursor) {
            Some(after) => Ok(Some(after)),
            None => Err(Fault::unreadable(
                "cursor",
                format!(
                    "invalid cursor `{cursor}`; pass `next_cursor` of the previous page, or omit it"
                ),
            )),
        }
    }
}
