//! Who may see pages and press buttons, and what browsers are told about every page.

use axum::extract::{OriginalUri, Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use punctual_api::Problem;

use super::Ui;
use super::session;
use super::view::{View, encoded};
use crate::access;
use crate::fault::Fault;

/// Scripts, styles and connections of our own only, nothing inline, in nobody's frame.
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                   connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Lets those pass who are known. Others are asked to sign in, or refused if they wanted to change
/// something.
pub(super) async fn known(State(ui): State<Ui>, request: Request, next: Next) -> Response {
    let Some(token) = &ui.0.app.server.token else { return next.run(request).await };
    if session::visitor(token, request.headers()).is_some() {
        return next.run(request).await;
    }
    if request.method() != Method::GET || request.uri().path() == "/ui/events" {
        let detail = "the session is missing or expired";
        let problem = Problem::new(401, "no_access", "Sign-in required", detail);
        let hint = "sign in and repeat the action; nothing was changed";
        return Fault::from(problem.hint(hint)).into_response();
    }
    let base = base(&request);
    let wanted = request.uri().path_and_query().map_or("/", |wanted| wanted.as_str());
    Redirect::to(&format!("{base}/login?next={}", encoded(wanted))).into_response()
}

/// Where the dashboard is nested: the part of the path that a router above took away.
fn base(request: &Request) -> String {
    let whole = request.extensions().get::<OriginalUri>().map(|uri| uri.path().to_owned());
    let whole = whole.unwrap_or_else(|| request.uri().path().to_owned());
    base_of(&whole, request.uri().path())
}

/// The same, of a whole path and the part that is left of it.
pub(super) fn base_of(whole: &str, own: &str) -> String {
    // The root of what is nested may be asked for without its slash.
    let base = whole.strip_suffix(own).or((own == "/").then_some(whole)).unwrap_or("");
    base.trim_end_matches('/').to_owned()
}

/// What holds for every page: who may ask at all, what a refusal looks like, and the headers.
pub(super) async fn page(State(ui): State<Ui>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let view = View::of(&ui, &mut parts).await;
    let request = Request::from_parts(parts, body);
    let is_changing = request.method() == Method::POST;
    let is_session = matches!(request.uri().path(), "/login" | "/logout");
    let may = match &ui.0.app.server.token {
        Some(_) => Ok(()),
        None => access::is_local(&request),
    };
    let may = may.and_then(|()| match is_changing && !is_session && ui.is_read_only() {
        true => Err(access::read_only()),
        false => Ok(()),
    });
    let mut response = match may {
        Ok(()) => next.run(request).await,
        Err(fault) => fault.into_response(),
    };
    // A refusal for people is a page.
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let mut page = (response.status(), view.refusal(&problem)).into_response();
        for name in [header::WWW_AUTHENTICATE, header::RETRY_AFTER] {
            if let Some(value) = response.headers_mut().remove(&name) {
                page.headers_mut().insert(name, value);
            }
        }
        response = page;
    }
    let headers = response.headers_mut();
    for (name, value) in
        [(header::CONTENT_SECURITY_POLICY, CSP), (header::REFERRER_POLICY, "same-origin")]
    {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
