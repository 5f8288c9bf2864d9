//! What a page needs to know of whoever looks at it, and the frame around every page.

use axum::extract::{FromRequestParts, OriginalUri, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use maud::{DOCTYPE, Markup, html};
use punctual::{Admin, Timestamp};
use punctual_api::Problem;

use super::assets::{ICON, SCRIPT, STYLE};
use super::{Ui, gate, session};
use crate::fault::Fault;

/// Whoever looks, and from where.
#[derive(Clone)]
pub(super) struct View {
    /// The server as whoever looks knows it, with scheme, if it can be told.
    origin: Option<String>,
    /// Where the dashboard is nested.
    base: String,
    /// Who it is, for the audit.
    pub(super) who: String,
    /// Must they sign in, so that they can sign out?
    has_session: bool,
    pub(super) is_read_only: bool,
    /// What was done just before.
    did: Option<String>,
    /// The part of the address after the base.
    pub(super) here: String,
    pub(super) ui: Ui,
}

#[derive(serde::Deserialize)]
struct Did {
    did: Option<String>,
}

/// The places that the navigation leads to, with the key that does so after `g`.
const PLACES: [(&str, &str, &str); 8] = [
    ("/", "Overview", "o"),
    ("/schedules", "Schedules", "s"),
    ("/jobs", "Jobs", "j"),
    ("/timeline", "Timeline", "t"),
    ("/queues", "Queues", "q"),
    ("/nodes", "Nodes", "n"),
    ("/activity", "Audit log", "a"),
    ("/settings", "Server", "e"),
];

impl View {
    /// From a request.
    pub(super) async fn of(ui: &Ui, parts: &mut Parts) -> View {
        let own = parts.uri.path().to_owned();
        let whole = parts.extensions.get::<OriginalUri>().map(|uri| uri.path().to_owned());
        let base = gate::base_of(whole.as_deref().unwrap_or(&own), &own);
        let server = &ui.0.app.server;
        let actor = parts.headers.get("punctual-actor").and_then(|who| who.to_str().ok());
        let visitor =
            server.token.as_ref().and_then(|token| session::visitor(token, &parts.headers));
        let who = visitor.or(actor.map(str::to_owned)).unwrap_or_else(|| "dashboard".to_owned());
        let did = Query::<Did>::from_request_parts(parts, &()).await.ok();
        View {
            origin: origin(&parts.headers),
            base,
            who,
            has_session: server.token.is_some(),
            is_read_only: server.read_only,
            did: did.and_then(|Query(did)| did.did),
            here: parts.uri.path_and_query().map_or("/", |here| here.as_str()).to_owned(),
            ui: ui.clone(),
        }
    }

    /// The address of a place of the dashboard.
    pub(super) fn to(&self, place: &str) -> String {
        below(&self.base, place)
    }

    /// The whole address of a place, for commands that are copied from a page.
    pub(super) fn address(&self, place: &str) -> String {
        format!("{}{}", self.origin.as_deref().unwrap_or(USUAL_ORIGIN), self.to(place))
    }

    /// Is it where commands look without being told?
    pub(super) fn is_usual(&self) -> bool {
        self.origin.as_deref().is_none_or(|origin| origin == USUAL_ORIGIN) && self.base.is_empty()
    }

    /// Must a request show a token?
    pub(super) fn requires_token(&self) -> bool {
        self.has_session
    }

    /// What all its addresses begin with: only below it is the session's cookie sent.
    pub(super) fn root(&self) -> &str {
        if self.base.is_empty() { "/" } else { &self.base }
    }

    /// The address of a schedule.
    pub(super) fn schedule(&self, name: &str) -> String {
        self.to(&format!("/schedules/{}", encoded(name)))
    }

    pub(super) fn queue(&self, name: &str) -> String {
        self.to(&format!("/queues/{}", encoded(name)))
    }

    pub(super) fn job(&self, id: punctual::JobId) -> String {
        self.to(&format!("/jobs/{id}"))
    }

    /// What can be read and done, in the name of whoever looks.
    pub(super) fn admin(&self) -> Admin {
        self.ui.admin().by(&self.who, "")
    }

    /// The same, for a reason.
    pub(super) fn admin_because(&self, why: &str) -> Admin {
        self.ui.admin().by(&self.who, why)
    }

    pub(super) async fn now(&self) -> Result<Timestamp, Fault> {
        Ok(self.ui.admin().now().await?)
    }

    /// A whole page. `watch` is what the page wants to hear about beside what all do.
    pub(super) fn page(&self, title: &str, watch: &str, content: Markup) -> Markup {
        let path = self.here.split('?').next().unwrap_or("/");
        let is_at = |place: &str| match place {
            "/" => path == "/",
            place => path == place || path.starts_with(&format!("{place}/")),
        };
        self.document(title, html! {
            a.skip href="#main" { "Skip to content" }
            header.top {
                a.brand href=(self.to("/")) { span.mark aria-hidden="true" { (mark()) } span { "punctual" } }
                nav aria-label="Pages" {
                    @for (place, name, key) in PLACES {
                        a href=(self.to(place)) data-key=(key) aria-current=[is_at(place).then_some("page")] { (name) }
                    }
                }
                div.tools {
                    span #live.badge.off data-events=(self.to(&format!("/ui/events?watch={}", encoded(watch)))) role="status" { "Not live" }
                    button #pause type="button" hidden aria-pressed="false" title="Pause or resume updates (r)" { "Pause updates" }
                    button #zone type="button" hidden title="Show times in UTC or local time (z)" { "UTC" }
                    button #theme type="button" hidden title="Switch theme (t)" { "Theme" }
                    @if self.has_session {
                        form method="post" action=(self.to("/logout")) { button { "Sign out" } }
                    }
                }
            }
            @if self.is_read_only { p.banner { "This server is read-only: changes are disabled." } }
            main #main tabindex="-1" {
                @if let Some(said) = self.did.as_deref().and_then(said) { p.notice.good role="status" { (said) } }
                (content)
            }
            footer {
                span { (if self.has_session { "Signed in as " } else { "Changes are recorded as " }) (self.who) }
                a href=(self.to("/tools/cron")) { "Cron tool" }
                // These want the token itself, which no browser sends along.
                @if !self.has_session {
                    a href=(self.to("/api/openapi.json")) { "API" }
                    a href=(self.to("/metrics")) { "Metrics" }
                }
                button #keys type="button" hidden { "Keyboard shortcuts (?)" }
            }
            dialog #shortcuts aria-labelledby="shortcuts-title" {
                h2 #shortcuts-title { "Keyboard shortcuts" }
                dl.keys {
                    @for (_, name, key) in PLACES { div { dt { kbd { "g" } " " kbd { (key) } } dd { (name) } } }
                    div { dt { kbd { "/" } } dd { "Search" } }
                    div { dt { kbd { "r" } } dd { "Pause or resume updates" } }
                    div { dt { kbd { "t" } } dd { "Switch theme" } }
                    div { dt { kbd { "z" } } dd { "UTC or local time" } }
                    div { dt { kbd { "?" } } dd { "Keyboard shortcuts" } }
                }
                form method="dialog" { button { "Close" } }
            }
        })
    }

    /// A page without the frame.
    pub(super) fn bare(&self, title: &str, content: Markup) -> Markup {
        self.document(title, html! { main #main.bare { (content) } })
    }

    fn document(&self, title: &str, body: Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) " · punctual" }
                    link rel="icon" href=(self.to(&ICON.path())) type="image/svg+xml";
                    link rel="stylesheet" href=(self.to(&STYLE.path()));
                    script type="module" src=(self.to(&SCRIPT.path())) {}
                }
                body { (body) }
            }
        }
    }

    /// A refusal as a page.
    pub(super) fn refusal(&self, problem: &Problem) -> Markup {
        self.page(
            &problem.title,
            "",
            html! {
                div.head { h1 { (problem.title) } }
                div.card.narrow {
                    p { (prose(&problem.detail)) }
                    @if let Some(hint) = &problem.hint { p.faint { (prose(hint)) } }
                    p { a.button href=(self.to("/")) { "Go to overview" } }
                }
            },
        )
    }
}

impl FromRequestParts<Ui> for View {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, ui: &Ui) -> Result<View, Self::Rejection> {
        Ok(View::of(ui, parts).await)
    }
}

/// Where a server is that was told nothing.
const USUAL_ORIGIN: &str = "http://127.0.0.1:7347";

/// Scheme, host and port, by what the request was sent to; none if that is nothing to put into a command.
fn origin(headers: &HeaderMap) -> Option<String> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    let scheme = if session::is_secure(headers) { "https" } else { "http" };
    host.bytes().all(is_plain).then(|| format!("{scheme}://{host}"))
}

/// The clock of the brand.
fn mark() -> Markup {
    html! {
        svg viewBox="0 0 32 32" width="20" height="20" {
            circle cx="16" cy="16" r="12" fill="none" stroke="currentColor" stroke-width="3.2" {}
            path d="M16 9v7l5 3" fill="none" stroke="currentColor" stroke-width="3.2" stroke-linecap="round" stroke-linejoin="round" {}
        }
    }
}

/// What was done, in words. Only these: an address cannot put words in our mouth.
fn said(did: &str) -> Option<&'static str> {
    Some(match did {
        "ran" => "Job created.",
        "paused" => "Paused.",
        "resumed" => "Resumed.",
        "enabled" => "Schedule enabled.",
        "disabled" => "Schedule disabled.",
        "realigned" => "Schedule realigned: its slots fire at their time.",
        "retried" => "Queued for retry.",
        "cancelled" => "Cancelled. A running job is asked to stop.",
        "ended" => "Already finished. Nothing was changed.",
        "moved" => "Moved.",
        "begun" => "Started in the background. This page shows the progress.",
        "some-schedules" => "Done. Some schedules no longer exist.",
        "all-paused" => "All queues are paused. No new jobs start until the queues are resumed.",
        "some-queues" => "Not all queues could be paused at once. Repeat to pause the rest.",
        "all-resumed" => "Queues resumed.",
        "limited" => "Limit saved.",
        "some" => "Done. Some jobs were skipped because their state had changed.",
        _ => return None,
    })
}

/// A text as a sentence: errors begin small and have no full stop.
pub(super) fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let Some(first) = characters.next() else { return String::new() };
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{}{}{stop}", first.to_uppercase(), characters.as_str())
}

/// A text as a sentence, with what stands between backticks as code.
pub(super) fn prose(text: &str) -> Markup {
    let text = sentence(text);
    let parts: Vec<&str> = text.split('`').collect();
    // One without a partner is none.
    let last_is_open = parts.len().is_multiple_of(2);
    html! {
        @for (index, part) in parts.iter().enumerate() {
            @if index % 2 == 1 && !(last_is_open && index == parts.len() - 1) { code { (part) } }
            @else if index % 2 == 1 { "`" (part) }
            @else { (part) }
        }
    }
}

/// The address of a place below a base. A router that is nested at `/ops` answers for its root there,
/// and not at `/ops/`.
fn below(base: &str, place: &str) -> String {
    let is_root = place == "/" || place.starts_with("/?");
    let place = if is_root && !base.is_empty() { &place[1..] } else { place };
    format!("{base}{place}")
}

/// A place that a request asks to be led to, if it is one of ours: `//host` is another host, and so is
/// `/\t/host` to a browser, which leaves such characters out.
pub(super) fn own_place(text: &str) -> Option<&str> {
    let is_foreign = |character: char| character == '\\' || character.is_control();
    let is_own = text.starts_with('/') && !text.starts_with("//") && !text.contains(is_foreign);
    is_own.then_some(text)
}

/// A text as a part of an address.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_a_part_of_an_address() {
        assert_eq!(encoded("a b/ü?%"), "a%20b%2F%C3%BC%3F%25");
        assert_eq!(sentence("job 7 not found"), "Job 7 not found.");
        assert_eq!(sentence(""), "");
    }

    #[test]
    fn the_base_is_what_a_router_above_took_away() {
        assert_eq!(gate::base_of("/ops/jobs", "/jobs"), "/ops");
        assert_eq!(gate::base_of("/jobs", "/jobs"), "");
        assert_eq!(gate::base_of("/ops/", "/"), "/ops");
        assert_eq!(gate::base_of("/ops", "/"), "/ops");
        assert_eq!(gate::base_of("/", "/"), "");
    }

    #[test]
    fn the_root_of_what_is_nested_has_no_slash() {
        let told = ["/", "/?did=ran", "/jobs"].map(|place| below("/ops", place));
        assert_eq!(told, ["/ops", "/ops?did=ran", "/ops/jobs"]);
        assert_eq!(["/", "/?did=ran"].map(|place| below("", place)), ["/", "/?did=ran"]);
    }
}
