//! What an answer means for the job.

use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use hyper::header::{HeaderMap, RETRY_AFTER};

use crate::request::Status;

/// What follows from an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is done.
    Done,
    /// The receiver has taken it and says later how it ended.
    Later,
    /// It is to be tried again: after this wait, or after the usual one.
    Again(Option<Duration>, String),
    /// No further attempt can mend it.
    Never(String),
}

/// The longest wait that a receiver may ask for: whoever asks for more has made a mistake, and the job
/// would be forgotten.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// What an answer means: as the job says which statuses are good, or as HTTP says.
pub(crate) fn verdict(
    status: StatusCode,
    headers: &HeaderMap,
    success: Option<&[Status]>,
    now: SystemTime,
) -> Verdict {
    let is_good = match success {
        Some(good) => good.iter().any(|good| good.is(status)),
        None if status == StatusCode::ACCEPTED => return Verdict::Later,
        None => status.is_success(),
    };
    if is_good {
        return Verdict::Done;
    }
    let summary = match status.canonical_reason() {
        Some(reason) => format!("returned {} ({})", status.as_u16(), reason.to_lowercase()),
        None => format!("returned {}", status.as_u16()),
    };
    match status.as_u16() {
        429 | 503 => Verdict::Again(retry_after(headers, now), summary),
        408 | 425 | 500..=599 => Verdict::Again(None, summary),
        410 => Verdict::Never(format!(
            "{summary}: the receiver no longer accepts this request; remove the job or its schedule"
        )),
        300..=399 => Verdict::Never(format!(
            "{summary}; use the target URL, or set `follow_redirects` to 1, 2 or 3"
        )),
        401 | 403 => Verdict::Never(format!("{summary}; check the authentication headers")),
        200..=299 => Verdict::Never(format!("{summary}, which is not listed in `success`")),
        _ => Verdict::Never(format!(
            "{summary}; the receiver rejected the request, so it is not retried"
        )),
    }
}

/// The wait that an answer asks for, in seconds or as an instant.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = httpdate::parse_http_date(text).ok()?;
            at.duration_since(now).unwrap_or_default()
        }
    };
    Some(wait.min(WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn each_status_means_what_it_says() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let check = |status: u16, success: Option<&[Status]>| {
            let status = StatusCode::from_u16(status).expect("a status");
            verdict(status, &HeaderMap::new(), success, now)
        };
        assert_eq!(check(200, None), Verdict::Done);
        assert_eq!(check(202, None), Verdict::Later);
        assert_eq!(check(202, Some(&[Status::Class(2)])), Verdict::Done);
        assert_eq!(check(404, Some(&[Status::One(404)])), Verdict::Done);
        for again in [408, 425, 429, 500, 502, 503, 504] {
            assert!(matches!(check(again, None), Verdict::Again(None, _)), "{again}");
        }
        for never in [301, 400, 401, 404, 409, 410, 422] {
            assert!(matches!(check(never, None), Verdict::Never(_)), "{never}");
        }
        assert!(matches!(check(200, Some(&[Status::One(201)])), Verdict::Never(_)));
    }

    #[test]
    fn a_wait_is_read_in_both_forms_and_bounded() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").expect("a date");
        let wait = |text: &'static str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            retry_after(&headers, now)
        };
        let seconds = |seconds: u64| Some(Duration::from_secs(seconds));
        assert_eq!(wait("7"), seconds(7));
        assert_eq!(wait("Sun, 06 Nov 1994 08:50:37 GMT"), seconds(60));
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT"), seconds(0));
        assert_eq!(wait("99999999"), Some(WAIT_MAX));
        assert_eq!(wait("soon"), None);
    }
}
