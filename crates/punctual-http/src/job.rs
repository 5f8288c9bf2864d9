//! One attempt at a job of kind `http`.

use std::time::SystemTime;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use punctual::{AttemptOutcome, BoxError, Ctx, Done, Failure};
use serde_json::{Value, json};
use url::Url;

use crate::answer::{Verdict, verdict};
use crate::client::{Answer, Client, shown};
use crate::policy::{self, Policy};
use crate::request::{Payload, Wanted};
use crate::sign;
use crate::template::Variables;
use crate::trouble::Trouble;

/// All that attempts share.
pub(crate) struct Caller {
    pub(crate) policy: Policy,
    pub(crate) client: Client,
    pub(crate) secrets: punctual_secrets::Secrets,
}

/// The most of an answer that is kept with the job.
const KEPT_BYTES_MAX: usize = 32 * 1_024;

/// Whoever knows a lease can settle its job.
const LEASE: HeaderName = HeaderName::from_static("punctual-lease");

impl Caller {
    /// Makes one attempt. Whatever is told of it is masked first.
    pub(crate) async fn run(&self, payload: Value, cx: Ctx) -> Result<Done<Value>, BoxError> {
        let attempt = self.attempt(payload, &cx);
        tokio::select! {
            ended = attempt => ended,
            // The connection is dropped, so that the receiver can see it. At a shutdown it may run
            // until the grace ends.
            reason = cx.must_stop() => Err(format!("the request was aborted: {reason:?}").into()),
        }
    }

    async fn attempt(&self, payload: Value, cx: &Ctx) -> Result<Done<Value>, BoxError> {
        let masked = |text: &str| self.secrets.mask().text(text).into_owned();
        let permanent = |text: String| Failure::permanent(masked(&text));
        let error = |trouble: Trouble| -> BoxError {
            match trouble {
                Trouble::Passing(text) => masked(&text).into(),
                Trouble::Lasting(text) => permanent(text).into(),
                Trouble::OutOfResources(text) => Failure::out_of_resources(masked(&text)).into(),
            }
        };
        let wanted = Payload::read(payload)
            .map_err(Trouble::Lasting)
            .and_then(|payload| payload.wanted(&Variables::of(cx), &self.secrets))
            .map_err(error)?;
        let answer = match tokio::time::timeout(wanted.timeout, self.send(&wanted, cx)).await {
            Ok(Ok((_, answer))) => answer,
            Ok(Err(trouble)) => return Err(error(trouble)),
            Err(_) => {
                let limit = punctual_core::format_duration(wanted.timeout);
                let url = shown(&wanted.url);
                return Err(masked(&format!(
                    "{url} did not respond within {limit}; the receiver may be slow, or `timeout` \
                     too short"
                ))
                .into());
            }
        };
        let kept = self.kept(&answer);
        let url = shown(&wanted.url);
        match verdict(answer.status, &answer.headers, wanted.success.as_deref(), wall()) {
            Verdict::Done => Ok(Done(kept)),
            Verdict::Later => self.wait(cx).await,
            Verdict::Again(wait, summary) => {
                let summary = masked(&format!("{url} {summary}"));
                match wait {
                    Some(wait) => Err(Failure::retry_after(wait, summary).into()),
                    None => Err(summary.into()),
                }
            }
            Verdict::Never(summary) => Err(permanent(format!("{url} {summary}")).into()),
        }
    }

    /// The receiver has taken the job and settles it by the name of its lease.
    async fn wait(&self, cx: &Ctx) -> Result<Done<Value>, BoxError> {
        // No line of the log: those are for the receiver to number.
        cx.progress(0, "accepted (202): waiting for the receiver to complete the lease");
        match cx.settled_elsewhere().await? {
            AttemptOutcome::Succeeded => Ok(Done(Value::Null)),
            outcome => Err(format!("the receiver settled the job: {outcome}").into()),
        }
    }

    /// Sends the request, and follows where it leads as far as it may.
    async fn send(&self, wanted: &Wanted, cx: &Ctx) -> Result<(Url, Answer), Trouble> {
        let own = own_headers(cx);
        let mut url = wanted.url.clone();
        let (mut method, mut body) = (wanted.method.clone(), wanted.body.clone());
        let (mut left, mut has_left) = (wanted.redirects_max, false);
        loop {
            let addresses = self.policy.addresses(&url).await?;
            let mut headers = own.clone();
            // Across origins nothing goes along that shows who asks, or with which the job could be
            // settled; nor does any of it on the way back, since somebody else chose that way.
            if has_left {
                headers.remove(LEASE);
            } else {
                headers.extend(wanted.headers.iter().map(|it| (it.name.clone(), it.value.clone())));
                if let Some(secret) = &wanted.sign {
                    signed(&mut headers, secret, cx, &body)?;
                }
            }
            let request = built(&method, &url, headers, body.clone())?;
            let answer = self.client.ask(&url, &addresses, request, wanted.store_response).await?;
            let Some(next) = redirect(&answer, &url).filter(|_| left > 0) else {
                return Ok((url, answer));
            };
            let next = next.map_err(Trouble::Lasting)?;
            left -= 1;
            let is_see_other = answer.status == StatusCode::SEE_OTHER;
            let is_old = matches!(answer.status.as_u16(), 301 | 302) && method == Method::POST;
            if (is_see_other && method != Method::HEAD) || is_old {
                (method, body) = (Method::GET, Bytes::new());
            }
            has_left |= next.origin() != url.origin();
            if has_left && !body.is_empty() {
                return Err(Trouble::Lasting(format!(
                    "redirect from {} to {} not followed: the body would be sent to another \
                     origin; use the target URL if this is intended",
                    shown(&url),
                    shown(&next)
                )));
            }
            url = next;
        }
    }

    /// What is kept of an answer.
    fn kept(&self, answer: &Answer) -> Value {
        let status = answer.status.as_u16();
        let Some(body) = &answer.body else { return json!({ "status": status }) };
        let text = String::from_utf8_lossy(&body.bytes);
        // Masked first: half of a secret would not be found.
        let masked = self.secrets.mask().text(&text).into_owned();
        let mut end = masked.floor_char_boundary(KEPT_BYTES_MAX);
        loop {
            let is_truncated = body.is_truncated || end < masked.len();
            let kept =
                json!({ "status": status, "body": &masked[..end], "is_truncated": is_truncated });
            // What has to be escaped takes more room.
            if end == 0 || kept.to_string().len() <= 2 * KEPT_BYTES_MAX {
                return kept;
            }
            end = masked.floor_char_boundary(end / 2);
        }
    }
}

/// What every request says of its job.
fn own_headers(cx: &Ctx) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let job = cx.job_id().to_string();
    let values = [
        (HeaderName::from_static("idempotency-key"), job),
        // A receiver that has seen a higher one may refuse this.
        (HeaderName::from_static("punctual-fence"), cx.attempt().to_string()),
        (HeaderName::from_static("punctual-attempt"), cx.attempt().to_string()),
        (LEASE, cx.held().to_string()),
        (header::USER_AGENT, format!("punctual/{}", env!("CARGO_PKG_VERSION"))),
        (header::ACCEPT, "*/*".to_owned()),
    ];
    let slot = cx.slot().map(|slot| (HeaderName::from_static("punctual-slot"), slot.to_string()));
    let trace = cx.trace().filter(|trace| trace.len() >= 55 && trace.starts_with("00-"));
    let trace = trace.map(|trace| (HeaderName::from_static("traceparent"), trace[..55].to_owned()));
    for (name, value) in values.into_iter().chain(slot).chain(trace) {
        // All of these are plain text but a trace, which somebody else has written.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    headers
}

fn signed(headers: &mut HeaderMap, secret: &str, cx: &Ctx, body: &[u8]) -> Result<(), Trouble> {
    let now = wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let id = cx.job_id().to_string();
    let signature = sign::signature(secret, &id, now, body).map_err(Trouble::Lasting)?;
    for (name, text) in [
        ("webhook-id", id),
        ("webhook-timestamp", now.to_string()),
        ("webhook-signature", signature),
    ] {
        let value = HeaderValue::from_str(&text)
            .map_err(|error| Trouble::Lasting(format!("header `{name}`: {error}")))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(())
}

fn built(
    method: &Method,
    url: &Url,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Trouble> {
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let host = match (url.host_str().unwrap_or(""), url.port()) {
        (host, Some(port)) => format!("{host}:{port}"),
        (host, None) => host.to_owned(),
    };
    let mut request = Request::builder().method(method).uri(target).header(header::HOST, host);
    if let Some(all) = request.headers_mut() {
        // Of a name that is given twice the last counts: what the job says comes last.
        for (name, value) in &headers {
            all.insert(name, value.clone());
        }
    }
    request
        .header(header::CONNECTION, "close")
        .body(Full::new(body))
        .map_err(|error| Trouble::Lasting(format!("cannot build the request: {error}")))
}

/// Where an answer leads, if it leads elsewhere.
fn redirect(answer: &Answer, from: &Url) -> Option<Result<Url, String>> {
    if !matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let place = answer.headers.get(header::LOCATION)?;
    let wrong = |why: String| format!("redirect from {} not followed: {why}", shown(from));
    let joined = place
        .to_str()
        .map_err(|_| wrong("the `Location` header is not valid text".to_owned()))
        .and_then(|place| from.join(place).map_err(|error| wrong(error.to_string())))
        .and_then(|url| policy::url(url.as_str()).map_err(wrong));
    Some(joined.and_then(|url| match (from.scheme(), url.scheme()) {
        ("https", "http") => Err(wrong("the target URL is not encrypted".to_owned())),
        _ => Ok(url),
    }))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the receiver compares it with its own clock; the engine does not use it"
)]
fn wall() -> SystemTime {
    SystemTime::now()
}
