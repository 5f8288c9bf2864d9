//! Who may ask.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use punctual_api::Problem;

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

/// Lets those pass who may, and who ask for what there is; they are answered in time.
pub(crate) async fn check(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let may = match &gate.token {
        Some(token) => knows(token, &request),
        None => is_local(&request),
    };
    let may = may.and_then(|()| is_own_doing(&request));
    let may = may.and_then(|()| match gate.read_only && is_changing(&request) {
        true => Err(read_only()),
        false => Ok(()),
    });
    match may.and_then(|()| parameters::check(&gate.known, &request)) {
        Ok(()) => in_time(request, next).await,
        Err(fault) => fault.into_response(),
    }
}

fn knows(token: &Token, request: &Request) -> Result<(), Fault> {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    match given.and_then(|given| given.strip_prefix("Bearer ")) {
        Some(given) if token.is(given.trim()) => Ok(()),
        given => {
            let detail = if given.is_some() { "invalid API token" } else { "missing API token" };
            let problem = Problem::new(401, "no_access", "Authentication required", detail);
            Err(Fault::from(problem.hint(
                "send the header `Authorization: Bearer TOKEN` \
                 (command line: set PUNCTUAL_TOKEN or pass --token)",
            )))
        }
    }
}

/// Is this machine asked for by its own name? Another name that leads here is somebody's trick:
/// a page that has its own name resolve to this machine could use everything here.
pub(crate) fn is_local(request: &Request) -> Result<(), Fault> {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or(request.uri().host()).unwrap_or("");
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => host.split(':').next().unwrap_or(""),
    };
    let is_own = name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
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

/// Nothing is changed for a page of somebody else's.
pub(crate) fn is_own_doing(request: &Request) -> Result<(), Fault> {
    let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    let site = request.headers().get("sec-fetch-site").and_then(|site| site.to_str().ok());
    if is_safe || !matches!(site, Some("cross-site" | "same-site")) {
        return Ok(());
    }
    let problem = Problem::new(
        403,
        "cross_site",
        "Cross-site request rejected",
        "the request was sent by a page of another site",
    );
    Err(Fault::from(problem))
}

/// Does a form come from a page of ours? Browsers say where it comes from also over plain HTTP, where
/// they tell nothing else; what is no browser says nothing, and needs no protection from itself.
pub(crate) fn is_same_origin(request: &Request) -> Result<(), Fault> {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let host = header(header::HOST).or(request.uri().host()).unwrap_or("");
    let is_ours = match header(header::ORIGIN) {
        None => true,
        Some(origin) => origin.split_once("://").is_some_and(|(_, from)| from == host),
    };
    if is_ours {
        return Ok(());
    }
    let problem = Problem::new(
        403,
        "cross_site",
        "Cross-site request rejected",
        "the `Origin` header does not match the `Host` header",
    );
    Err(Fault::from(problem.hint("configure the reverse proxy to forward the `Host` header")))
}
