//! What a job of kind `http` says, and the request that it comes to.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use punctual_secrets::Secrets;
use serde::Deserialize;
use serde_json::Value;
use url::{ParseError, Url};

use crate::policy;
use crate::template::{Part, Variables, in_url, parts};
use crate::trouble::Trouble;

/// A job of kind `http`, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Payload {
    #[serde(default = "post")]
    method: String,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Sent as JSON.
    #[serde(default)]
    body: Option<Value>,
    /// Sent as it is.
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    timeout: Option<String>,
    /// The statuses that mean done: numbers, or classes such as `2xx`.
    #[serde(default)]
    success: Option<Vec<Value>>,
    #[serde(default)]
    pub(crate) store_response: bool,
    #[serde(default)]
    follow_redirects: u8,
    /// The secret that signs it.
    #[serde(default)]
    sign: Option<String>,
    /// Are there templates in it?
    #[serde(default = "yes")]
    templates: bool,
}

fn post() -> String {
    "POST".to_owned()
}

fn yes() -> bool {
    true
}

/// A request, ready to be sent.
pub(crate) struct Wanted {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: Vec<Header>,
    pub(crate) body: Bytes,
    pub(crate) timeout: Duration,
    /// None: 2xx, with 202 for what is completed later.
    pub(crate) success: Option<Vec<Status>>,
    pub(crate) store_response: bool,
    pub(crate) redirects_max: u8,
    pub(crate) sign: Option<String>,
}

/// A header that the job names.
pub(crate) struct Header {
    pub(crate) name: HeaderName,
    pub(crate) value: HeaderValue,
}

/// A status, or a class of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    One(u16),
    Class(u16),
}

impl Status {
    pub(crate) fn is(self, status: StatusCode) -> bool {
        match self {
            Status::One(one) => status.as_u16() == one,
            Status::Class(class) => status.as_u16() / 100 == class,
        }
    }

    fn read(value: &Value) -> Result<Status, String> {
        let number = value.as_u64().filter(|status| (200..600).contains(status));
        if let Some(status) = number.and_then(|status| u16::try_from(status).ok()) {
            return Ok(Status::One(status));
        }
        match value.as_str() {
            Some("2xx") => Ok(Status::Class(2)),
            Some("3xx") => Ok(Status::Class(3)),
            Some("4xx") => Ok(Status::Class(4)),
            Some("5xx") => Ok(Status::Class(5)),
            _ => Err(format!(
                "`success`: invalid status {value}; use a number such as 204, or \"2xx\""
            )),
        }
    }
}

/// How long a request may take if its job does not say.
const TIMEOUT: Duration = Duration::from_secs(30);
/// What is repeated of a URL that cannot be asked.
const URL_SHOWN: usize = 120;
/// The most redirects that may be followed.
const REDIRECTS_MAX: u8 = 3;

/// Headers that are not the job's to set: they frame the request, or say what only punctual knows.
const RESERVED: [&str; 8] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "idempotency-key",
];

/// A text with its variables and secrets in place.
struct Filler<'a> {
    known: Option<&'a Variables>,
    secrets: &'a Secrets,
    /// Who gets it.
    origin: String,
}

impl Filler<'_> {
    /// A literal part may refer to secrets; a value is taken as it is.
    fn fill(&self, text: &str, escape: fn(&str) -> String) -> Result<String, Trouble> {
        let literal = |text: &str| {
            let resolved = self.secrets.resolve_for(&self.origin, text);
            resolved.map(|it| it.into_exposed()).map_err(Trouble::from)
        };
        let Some(known) = self.known else { return literal(text) };
        let mut filled = String::new();
        for part in parts(text, known)? {
            match part {
                Part::Literal(text) => filled.push_str(&literal(text)?),
                Part::Value(value) => filled.push_str(&escape(value)),
            }
        }
        Ok(filled)
    }

    /// The same with every string within a value of JSON, which is escaped when it is written.
    fn fill_json(&self, value: &Value) -> Result<Value, Trouble> {
        Ok(match value {
            Value::String(text) => Value::String(self.fill(text, str::to_owned)?),
            Value::Array(items) => Value::Array(
                items.iter().map(|item| self.fill_json(item)).collect::<Result<_, _>>()?,
            ),
            Value::Object(fields) => {
                let mut filled = serde_json::Map::new();
                for (name, field) in fields {
                    filled.insert(name.clone(), self.fill_json(field)?);
                }
                Value::Object(filled)
            }
            other => other.clone(),
        })
    }

    /// Whom a URL leads to, told without any secret: resolvers, certificates and messages tell a host
    /// to everybody.
    fn leads_to(&self, text: &str) -> Result<String, Trouble> {
        let with =
            |instead: &str| self.fill(&text.replace("secret://", instead), |_| "x".to_owned());
        let place =
            |url: &Url| (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port());
        let (one, other) = (with("x")?, with("yy")?);
        // It has to lead to the same whatever stands there.
        let is_same = match (Url::parse(&one), Url::parse(&other)) {
            (Ok(one), Ok(other)) => place(&one) == place(&other),
            (Err(ParseError::InvalidPort), _) => !Secrets::is_reference(text),
            _ => true,
        };
        match is_same {
            true => Ok(policy::url(&one)?.origin().ascii_serialization()),
            false => Err(Trouble::Lasting(
                "a secret must not change the scheme, host or port of the URL; use secrets only \
                 in the path, in the query or in a header"
                    .to_owned(),
            )),
        }
    }

    /// A URL whose values stay within their components: with any others it would have the same host
    /// and as many parts of a path.
    fn url(&self, text: &str) -> Result<Url, Trouble> {
        let url = policy::url(&self.fill(text, in_url)?)?;
        let plain = policy::url(&self.fill(text, |_| "x".to_owned())?)?;
        let shape = |url: &Url| {
            let parts = url.path_segments().map(Iterator::count);
            (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port(), parts)
        };
        match shape(&url) == shape(&plain) {
            true => Ok(url),
            false => Err(Trouble::Lasting(
                "a variable must not change the host or the path structure of the URL; use \
                 variables only within one path segment or in the query"
                    .to_owned(),
            )),
        }
    }
}

impl Payload {
    /// Reads what was written.
    pub(crate) fn read(payload: Value) -> Result<Payload, String> {
        serde_json::from_value(payload).map_err(|error| {
            format!(
                "invalid payload for kind `http`: {error}; valid fields: method, url, \
                 headers, body or text, timeout, success, store_response, follow_redirects, sign, \
                 templates"
            )
        })
    }

    /// The request that it comes to.
    pub(crate) fn wanted(&self, known: &Variables, secrets: &Secrets) -> Result<Wanted, Trouble> {
        let known = self.templates.then_some(known);
        let wrong_url = |trouble: Trouble| {
            let written: String = self.url.chars().take(URL_SHOWN).collect();
            trouble.map(|error| format!("`url` `{written}`: {error}"))
        };
        let mut filler = Filler { known, secrets, origin: String::new() };
        filler.origin = filler.leads_to(&self.url).map_err(wrong_url)?;
        let method = self.method()?;
        let (body, content_type) = self.body(&filler)?;
        let mut headers = Vec::new();
        for (name, value) in &self.headers {
            headers.push(header(name, value, &filler)?);
        }
        let has_type = headers.iter().any(|header| header.name == header::CONTENT_TYPE);
        if let Some(content_type) = content_type.filter(|_| !has_type) {
            let value = HeaderValue::from_static(content_type);
            headers.push(Header { name: header::CONTENT_TYPE, value });
        }
        let statuses = |all: &Vec<Value>| all.iter().map(Status::read).collect::<Result<_, _>>();
        if self.follow_redirects > REDIRECTS_MAX {
            return Err(Trouble::Lasting(format!(
                "`follow_redirects` must be at most {REDIRECTS_MAX}, got {}",
                self.follow_redirects
            )));
        }
        Ok(Wanted {
            method,
            url: filler.url(&self.url).map_err(wrong_url)?,
            headers,
            body,
            timeout: self.timeout()?,
            success: self.success.as_ref().map(statuses).transpose()?,
            store_response: self.store_response,
            redirects_max: self.follow_redirects,
            sign: self.sign(&filler)?,
        })
    }

    fn method(&self) -> Result<Method, String> {
        const KNOWN: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
        let method = self.method.to_ascii_uppercase();
        match Method::from_bytes(method.as_bytes()) {
            Ok(method) if KNOWN.contains(&method.as_str()) => Ok(method),
            _ => Err(format!(
                "`method`: unknown method `{}`; expected one of {}",
                self.method,
                KNOWN.join(", ")
            )),
        }
    }

    fn timeout(&self) -> Result<Duration, String> {
        let Some(text) = &self.timeout else { return Ok(TIMEOUT) };
        match punctual_core::parse_duration(text) {
            Ok(timeout) if timeout.is_zero() => {
                Err("`timeout` must be greater than zero".to_owned())
            }
            Ok(timeout) => Ok(timeout),
            Err(error) => Err(format!("`timeout`: {error}")),
        }
    }

    fn sign(&self, filler: &Filler<'_>) -> Result<Option<String>, Trouble> {
        let Some(sign) = &self.sign else { return Ok(None) };
        if !Secrets::is_reference(sign) {
            return Err(Trouble::Lasting(
                "`sign` must be a secret reference such as secret://NAME, because the payload is \
                 stored in plain text"
                    .to_owned(),
            ));
        }
        let key = filler.secrets.resolve_for(&filler.origin, sign);
        let key =
            key.map_err(|error| Trouble::from(error).map(|error| format!("`sign`: {error}")))?;
        Ok(Some(key.into_exposed()))
    }

    fn body(&self, filler: &Filler<'_>) -> Result<(Bytes, Option<&'static str>), Trouble> {
        let within = |field: &'static str| {
            move |trouble: Trouble| trouble.map(|error| format!("`{field}`: {error}"))
        };
        match (&self.body, &self.text) {
            (Some(_), Some(_)) => {
                Err(Trouble::Lasting("`body` and `text` cannot be combined".to_owned()))
            }
            (Some(body), None) => {
                let filled = filler.fill_json(body).map_err(within("body"))?;
                Ok((Bytes::from(filled.to_string()), Some("application/json")))
            }
            (None, Some(text)) => {
                let is_form = self.headers.iter().any(|(name, value)| {
                    name.eq_ignore_ascii_case("content-type")
                        && value.starts_with("application/x-www-form-urlencoded")
                });
                let escape = if is_form { in_url } else { str::to_owned };
                let filled = filler.fill(text, escape).map_err(within("text"))?;
                Ok((Bytes::from(filled), Some("text/plain; charset=utf-8")))
            }
            (None, None) => Ok((Bytes::new(), None)),
        }
    }
}

fn header(name: &str, value: &str, filler: &Filler<'_>) -> Result<Header, Trouble> {
    let lower = name.to_ascii_lowercase();
    let is_ours = lower.starts_with("punctual-") || lower.starts_with("webhook-");
    if is_ours || RESERVED.contains(&lower.as_str()) {
        return Err(Trouble::Lasting(format!("header `{name}` is set by punctual; remove it")));
    }
    let wrong = |why: String| format!("header `{name}`: {why}");
    let read = HeaderName::from_bytes(lower.as_bytes())
        .map_err(|_| wrong("invalid header name".to_owned()))?;
    let filled = filler.fill(value, str::to_owned).map_err(|trouble| trouble.map(wrong))?;
    let mut value = HeaderValue::from_str(&filled).map_err(|_| {
        wrong(
            "the value contains a line break or another character that is not allowed in a header"
                .to_owned(),
        )
    })?;
    value.set_sensitive(true);
    Ok(Header { name: read, value })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted(payload: Value) -> Result<Wanted, Trouble> {
        let known = Variables::new(&[
            ("job.id", Some("7")),
            ("schedule", Some("../a b&c\"\r\nx: secret://none")),
            ("dots", Some("..")),
            ("slot", None),
        ]);
        Payload::read(payload)?.wanted(&known, &Secrets::default())
    }

    fn error(payload: Value) -> String {
        wanted(payload).map(drop).expect_err("it is wrong").to_string()
    }

    #[test]
    fn a_value_stays_where_it_is_put() {
        let wanted = wanted(json!({
            "url": "https://a.example/{{ schedule }}/x?q={{schedule}}&r={{job.id}}",
            "body": {"name": "<{{schedule}}>", "n": 1, "deep": ["{{job.id}}"]},
        }));
        let wanted = wanted.unwrap_or_else(|error| panic!("{error}"));
        insta::assert_snapshot!(wanted.url, @"https://a.example/..%2Fa%20b%26c%22%0D%0Ax%3A%20secret%3A%2F%2Fnone/x?q=..%2Fa%20b%26c%22%0D%0Ax%3A%20secret%3A%2F%2Fnone&r=7");
        insta::assert_snapshot!(String::from_utf8_lossy(&wanted.body), @r#"{"deep":["7"],"n":1,"name":"<../a b&c\"\r\nx: secret://none>"}"#);
        assert_eq!(wanted.headers[0].value, "application/json");
    }

    #[test]
    fn each_mistake_names_its_place_and_the_way_out() {
        let url = |url: &str| error(json!({ "url": url }));
        let to = "https://a.example/";
        let mut told: Vec<String> = [
            "a.example/x",
            "ftp://a.example/",
            "http://user:pass@a.example/",
            "http:///",
            "https://{{job.id}}.example/",
            "https://a.example/{{dots}}/x",
            "https://a.example/{{nope}}",
            "https://a.example/{{job.id",
            "https://a.example/{{slot}}",
            "https://a.example/?k=secret://none",
            "https://secret://none/",
            "https://a.secret://none.example/x",
            "https://a.example:secret://none/",
            "secret://none://a.example/",
        ]
        .map(url)
        .into();
        told.extend([
            error(json!({ "url": to, "method": "BREW" })),
            error(json!({ "url": to, "body": 1, "text": "x" })),
            error(json!({ "url": to, "headers": {"Host": "b.example"} })),
            error(json!({ "url": to, "headers": {"x-a": "{{schedule}}"} })),
            error(json!({ "url": to, "headers": {"x a": "1"} })),
            error(json!({ "url": to, "headers": {"authorization": "secret://none"} })),
            error(json!({ "url": to, "timeout": "soon" })),
            error(json!({ "url": to, "success": ["2yy"] })),
            error(json!({ "url": to, "follow_redirects": 4 })),
            error(json!({ "url": to, "sign": "plain" })),
            error(json!({ "uri": to })),
        ]);
        insta::assert_snapshot!(told.join("\n"), @r#"
    `url` `a.example/x`: invalid URL (relative URL without a base); use a URL such as https://example.com/hook
    `url` `ftp://a.example/`: unsupported URL scheme; use http or https
    `url` `http://user:pass@a.example/`: the URL contains a user name or password; use a header instead, such as `"authorization": "secret://NAME"`
    `url` `http:///`: invalid URL (empty host); use a URL such as https://example.com/hook
    `url` `https://{{job.id}}.example/`: a variable must not change the host or the path structure of the URL; use variables only within one path segment or in the query
    `url` `https://a.example/{{dots}}/x`: a variable must not change the host or the path structure of the URL; use variables only within one path segment or in the query
    `url` `https://a.example/{{nope}}`: unknown variable `{{nope}}`; expected one of job.id, schedule, dots, slot; to send literal braces, set `templates` to false
    `url` `https://a.example/{{job.id`: `{{job.id` is not closed; add `}}`, or set `templates` to false to send literal braces
    `url` `https://a.example/{{slot}}`: `{{slot}}` has no value: the job was not created by a slot of a schedule; remove the variable, or create the job with a schedule
    `url` `https://a.example/?k=secret://none`: unknown secret `none`; define it in `[secrets]` of the worker's configuration (`punctual config show` lists the secrets)
    `url` `https://secret://none/`: a secret must not change the scheme, host or port of the URL; use secrets only in the path, in the query or in a header
    `url` `https://a.secret://none.example/x`: a secret must not change the scheme, host or port of the URL; use secrets only in the path, in the query or in a header
    `url` `https://a.example:secret://none/`: a secret must not change the scheme, host or port of the URL; use secrets only in the path, in the query or in a header
    `url` `secret://none://a.example/`: a secret must not change the scheme, host or port of the URL; use secrets only in the path, in the query or in a header
    `method`: unknown method `BREW`; expected one of GET, HEAD, POST, PUT, PATCH, DELETE
    `body` and `text` cannot be combined
    header `Host` is set by punctual; remove it
    header `x-a`: the value contains a line break or another character that is not allowed in a header
    header `x a`: invalid header name
    header `authorization`: unknown secret `none`; define it in `[secrets]` of the worker's configuration (`punctual config show` lists the secrets)
    `timeout`: invalid duration `soon`; use a value such as 90s, 15m, 1h30m or 2d
    `success`: invalid status "2yy"; use a number such as 204, or "2xx"
    `follow_redirects` must be at most 3, got 4
    `sign` must be a secret reference such as secret://NAME, because the payload is stored in plain text
    invalid payload for kind `http`: unknown field `uri`, expected one of `method`, `url`, `headers`, `body`, `text`, `timeout`, `success`, `store_response`, `follow_redirects`, `sign`, `templates`; valid fields: method, url, headers, body or text, timeout, success, store_response, follow_redirects, sign, templates
    "#);
    }
}
