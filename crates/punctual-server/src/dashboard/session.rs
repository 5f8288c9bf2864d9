//! Signing in with the token, for those who come with a browser.
//!
//! The cookie says who came and until when, with a code that only somebody who has the token can make:
//! every node of a cluster with the same token knows it, nothing is kept, and another token ends it.

use axum::extract::{FromRequest, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use hmac::{Hmac, KeyInit, Mac};
use maud::{Markup, html};
use punctual::Timestamp;
use punctual_api::Problem;
use sha2::Sha256;

use super::Ui;
use super::view::{View, own_place};
use crate::access::{Token, bearer};
use crate::ask::{FormBody, SmallForm};
use crate::fault::Fault;

/// The cookie.
const COOKIE: &str = "punctual_session";
/// How long a session lasts.
const SECONDS: i64 = 12 * 3_600;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn code(token: &Token, who: &str, until: i64) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(token.secret().as_bytes()).ok()?;
    mac.update(format!("dashboard {until} {who}").as_bytes());
    Some(mac)
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()).collect()
}

/// Whoever comes with this cookie or token, if it is good.
pub(crate) fn visitor(token: &Token, headers: &HeaderMap) -> Option<String> {
    if bearer(headers).is_some_and(|given| token.is(given)) {
        return Some("dashboard".to_owned());
    }
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';')).map(str::trim);
    let value = pairs.find_map(|pair| pair.strip_prefix(COOKIE)?.strip_prefix('='))?;
    let mut parts = value.splitn(3, '.');
    let (until, who, mac) = (parts.next()?.parse::<i64>().ok()?, parts.next()?, parts.next()?);
    let who = String::from_utf8(bytes(who)?).ok()?;
    code(token, &who, until)?.verify_slice(&bytes(mac)?).ok()?;
    (wall().floor_seconds() < until).then_some(who)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a session ends by this server's own clock, whatever becomes of the database"
)]
fn wall() -> Timestamp {
    Timestamp::from_jiff(jiff::Timestamp::now())
}

#[derive(serde::Deserialize)]
pub(super) struct Wanted {
    #[serde(default)]
    next: String,
}

/// The longest address that is opened after the sign-in, as a form has one.
const NEXT_BYTES_MAX: usize = 1_024;

/// Where people sign in.
pub(super) async fn page(view: View, Query(wanted): Query<Wanted>) -> Markup {
    // It is part of the page, and anyone may ask for many of them.
    let next = if wanted.next.len() > NEXT_BYTES_MAX { "" } else { &wanted.next };
    form(&view, next, None)
}

fn form(view: &View, next: &str, wrong: Option<&str>) -> Markup {
    view.bare(
        "Sign in",
        html! {
            form.card.sign-in method="post" action=(view.to("/login")) {
                h1 { "Sign in" }
                @if let Some(wrong) = wrong { p.notice.bad role="alert" { (wrong) } }
                input type="hidden" name="next" value=(next);
                label for="who" { "Your name (recorded in the audit log)" }
                input #who name="who" autocomplete="username" maxlength="100" placeholder="ada";
                label for="token" { "Token" }
                input #token type="password" name="token" required autocomplete="current-password";
                button.primary { "Sign in" }
                p.faint { "Use the token from the server’s token file or PUNCTUAL_TOKEN." }
            }
        },
    )
}

#[derive(serde::Deserialize)]
pub(super) struct Given {
    #[serde(default)]
    who: String,
    #[serde(default)]
    token: String,
    #[serde(default)]
    next: String,
}

/// Signs in. Anyone may send the form, so that the number of forms that are read at the same time is
/// bounded.
pub(super) async fn log_in(State(ui): State<Ui>, view: View, request: Request) -> Response {
    let Some(token) = &ui.0.app.server.token else {
        return Redirect::to(&view.to("/")).into_response();
    };
    let is_secure = is_secure(request.headers());
    let form_body = match ui.0.sign_ins.try_acquire() {
        // The permit is held until the form is read.
        Ok(_permit) => SmallForm::<Given>::from_request(request, &ui).await,
        Err(_) => Err(too_many_sign_ins()),
    };
    let FormBody(given) = match form_body {
        Ok(form_body) => form_body,
        Err(fault) => return fault.into_response(),
    };
    if !token.is(given.token.trim()) {
        let again = form(&view, &given.next, Some("Invalid token."));
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
        return (StatusCode::UNAUTHORIZED, challenge, again).into_response();
    }
    let who = given.who.trim();
    let who = if who.is_empty() { "dashboard" } else { who };
    if who.len() > 200 || who.chars().any(char::is_control) {
        let wrong = "invalid name; use at most 200 bytes and no control characters";
        return Fault::invalid("who", wrong).into_response();
    }
    let until = wall().floor_seconds() + SECONDS;
    let Some(mac) = code(token, who, until) else {
        return Fault::invalid("token", "cannot create a session with this token").into_response();
    };
    let mac = hex(&mac.finalize().into_bytes());
    let value = format!("{until}.{}.{mac}", hex(who.as_bytes()));
    let cookie = cookie(&view, &value, SECONDS, is_secure);
    let to = view.to(own_place(&given.next).unwrap_or("/"));
    ([(header::SET_COOKIE, cookie)], Redirect::to(&to)).into_response()
}

fn too_many_sign_ins() -> Fault {
    let detail = "the server is reading as many sign-in forms as it may";
    let problem = Problem::new(503, "overloaded", "Too many sign-ins", detail);
    problem.hint("try again in a moment, or use the API token").into()
}

/// Is there a proxy that ends TLS, so that between it and the browser nothing goes in the clear?
pub(super) fn is_secure(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https")
}

fn cookie(view: &View, value: &str, seconds: i64, is_secure: bool) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    let path = view.root();
    format!("{COOKIE}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

/// Signs out.
pub(super) async fn log_out(view: View) -> Response {
    let cookie = cookie(&view, "", 0, false);
    ([(header::SET_COOKIE, cookie)], Redirect::to(&view.to("/login"))).into_response()
}
