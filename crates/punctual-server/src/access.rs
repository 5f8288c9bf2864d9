//! Who may ask.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use punctual_api::Problem;
use tower_http::csrf::{CsrfLayer, ProtectionError, ProtectionErrorKind};

use crate::fault::Fault;
use crate::parameters::{self, Known};
use crate::server::in_time;

/// The secret that whoever may do everything knows.
#[derive(Clone)]
pub struct Token(Arc<str>);

/// A token that can be guessed is none.
const TOKEN_CHARS_MIN: usize = 16;

impl Token {
    /// A token, if it is long enough.
    pub fn new(secret: &str) -> Result<Token, String> {
        let secret = secret.trim();
        if secret.len() < TOKEN_CHARS_MIN {
            return Err(format!(
                "the token is too short: {} characters, minimum {TOKEN_CHARS_MIN}; \
                 generate one with `openssl rand -hex 32`",
                secret.len()
            ));
        }
        Ok(Token(secret.into()))
    }

    /// What sessions are made from.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }

    /// Compares in a time that does not tell how much of it was right.
    pub(crate) fn is(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differs = own.iter().zip(given).fold(0, |differs, (a, b)| differs | (a ^ b));
        own.len() == given.len() && differs == 0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Whom and what to let pass.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) token: Option<Token>,
    pub(crate) read_only: bool,
    pub(crate) known: Known,
}

/// Authenticates the request, rejects unknown query parameters and applies the timeout. All of this
/// happens before the body is read.
pub(crate) async fn check(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let may = match &gate.token {
        Some(token) => authenticate(token, &request),
        None => is_local(&request),
    };
    let may = may.and_then(|()| match gate.read_only && is_changing(&request) {
        true => Err(read_only()),
        false => Ok(()),
    });
    match may.and_then(|()| parameters::check(&gate.known, &request)) {
        Ok(()) => in_time(request, next).await,
        Err(fault) => fault.into_response(),
    }
}

fn authenticate(token: &Token, request: &Request) -> Result<(), Fault> {
    match bearer(request.headers()) {
        Some(given) if token.is(given) => Ok(()),
        given => {
            let has_credentials =
                given.is_some() || request.headers().contains_key(header::AUTHORIZATION);
            let detail = if has_credentials { "invalid API token" } else { "missing API token" };
            let problem = Problem::new(401, "no_access", "Authentication required", detail);
            Err(Fault::from(problem.hint(
                "send the header `Authorization: Bearer TOKEN` \
                 (command line: set PUNCTUAL_TOKEN or pass --token)",
            )))
        }
    }
}

/// The token of the request. The name of the scheme has no case (RFC 9110, section 11.1).
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = given.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Is this machine asked for by its own name? Another name that leads here is somebody's trick:
/// a page that has its own name resolve to this machine could use everything here.
pub(crate) fn is_local(request: &Request) -> Result<(), Fault> {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or(request.uri().host()).unwrap_or("");
    let is_own = host_name(host).is_some_and(|name| {
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    });
    if is_own {
        return Ok(());
    }
    let detail = format!("host `{host}` is not allowed without a token");
    let problem = Problem::new(403, "wrong_host", "Host not allowed", detail);
    Err(Fault::from(problem.hint("use localhost or 127.0.0.1, or start the server with a token")))
}

/// Might something be another afterwards?
fn is_changing(request: &Request) -> bool {
    let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    // A question that is too long for an address.
    let is_question = request.uri().path().ends_with("/api/v1/cron/explain");
    !is_safe && !is_question
}

/// What whoever wants to change something is told by a server that lets nobody.
pub(crate) fn read_only() -> Fault {
    let detail = "this server rejects all changes (`read_only = true`)";
    let problem = Problem::new(403, "read_only", "Server is read-only", detail);
    Fault::from(problem.hint("use a server without `read_only`"))
}

/// The name or address in a `Host` header, which is `NAME`, `NAME:PORT`, `[IPV6]` or `[IPV6]:PORT`.
fn host_name(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(bracketed) => {
            let (name, rest) = bracketed.split_once(']')?;
            name.parse::<Ipv6Addr>().ok()?;
            (name, rest)
        }
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port =
        |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let is_whole = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
    is_whole.then_some(name)
}

/// Rejects requests that modify state and come from a page of another origin: `Sec-Fetch-Site` says so,
/// or `Origin` differs from `Host`. Programs send neither header.
pub(crate) fn same_origin() -> CsrfLayer<fn(ProtectionError) -> Response> {
    CsrfLayer::new().with_rejection_response(cross_site as fn(ProtectionError) -> Response)
}

fn cross_site(error: ProtectionError) -> Response {
    let title = "Cross-site request rejected";
    let problem = |detail: &str| Problem::new(403, "cross_site", title, detail);
    let problem = match error.kind() {
        ProtectionErrorKind::CrossOriginRequestFromOldBrowser => {
            problem("the `Origin` header does not match the `Host` header")
                .hint("configure the reverse proxy to forward the `Host` header")
        }
        _ => problem("the request was sent by a page of another site"),
    };
    Fault::from(problem).into_response()
}

#[cfg(test)]
mod tests {
    use super::host_name;

    #[test]
    fn a_host_is_read_to_its_end() {
        for (host, name) in [
            ("localhost", Some("localhost")),
            ("localhost:7347", Some("localhost")),
            ("127.0.0.1:80", Some("127.0.0.1")),
            ("[::1]", Some("::1")),
            ("[::1]:7347", Some("::1")),
            ("", Some("")),
            ("[::1]evil.com", None),
            ("[::1]:evil", None),
            ("[127.0.0.1]", None),
            ("[::1", None),
            ("localhost:evil", None),
            ("localhost:", None),
            ("localhost:+80", None),
            ("localhost:80:80", None),
            ("::1", None),
            ("localhost:65536", None),
        ] {
            assert_eq!(host_name(host), name, "{host}");
        }
    }
}
