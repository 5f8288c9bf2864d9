//! What an expression means, before somebody relies on it.

use axum::extract::Query;
use maud::{Markup, html};
use punctual::Timestamp;
use punctual_core::{Spec, When, Zone};

use super::Shown;
use super::schedule::next_ten;
use crate::dashboard::view::{View, prose, sentence};

#[derive(serde::Deserialize)]
pub(in crate::dashboard) struct Ask {
    expr: Option<String>,
    tz: Option<String>,
}

/// Expressions to begin with.
const EXAMPLES: [(&str, &str); 6] = [
    ("30 2 * * *", "Europe/Paris"),
    ("0 9 * * MON-FRI", "America/New_York"),
    ("*/15 * * * *", "UTC"),
    ("0 0 L * *", "UTC"),
    ("@every 90s", "UTC"),
    ("0 0 31 2 *", "UTC"),
];

/// The page.
pub(in crate::dashboard) async fn page(view: View, Query(ask): Query<Ask>) -> Shown {
    let now = view.now().await?;
    let expr = ask.expr.as_deref().map(str::trim).filter(|expr| !expr.is_empty());
    let tz = ask.tz.as_deref().map(str::trim).filter(|tz| !tz.is_empty()).unwrap_or("UTC");
    Ok(view.page("Cron tool", "", html! {
        div.head { h1 { "Cron tool" } }
        form.card.ask method="get" action=(view.to("/tools/cron")) {
            div { label for="expr" { "Expression" } input #expr.mono name="expr" value=(expr.unwrap_or("")) placeholder="30 2 * * *" required data-search; }
            div { label for="tz" { "Time zone" } input #tz name="tz" value=(tz) placeholder="Europe/Paris"; }
            button.primary { "Explain" }
        }
        @if let Some(expr) = expr { (answer(expr, tz, now)) }
        section.card aria-labelledby="examples-title" {
            h2 #examples-title { "Examples" }
            ul.plain { @for (expr, tz) in EXAMPLES { li { a href=(view.to(&format!("/tools/cron?expr={}&tz={}", crate::dashboard::view::encoded(expr), crate::dashboard::view::encoded(tz)))) { code { (expr) } } " " span.faint { (tz) } } } }
        }
    }))
}

fn answer(expr: &str, tz: &str, now: Timestamp) -> Markup {
    let zone = match Zone::get(tz) {
        Ok(zone) => zone,
        Err(error) => return html! { p.notice.bad role="alert" { (prose(&error.to_string())) } },
    };
    let when = match When::parse(expr) {
        Ok(when) => when,
        Err(error) => {
            return html! { section.card { p.notice.bad role="alert" { (prose(&error.to_string())) } pre.block tabindex="0" { (error.report().to_string()) } } };
        }
    };
    let (means, normalized) = (when.describe(), when.to_string());
    let spec = Spec::new(when, zone);
    html! {
        section.card aria-labelledby="means-title" {
            h2 #means-title { (sentence(&means)) }
            @if normalized != expr { p.faint { "Normalized: " code { (normalized) } } }
            @match spec.never_fires(now) {
                Some(reason) => p.notice.bad role="alert" { "This expression never fires: " (reason) "." },
                None => (next_ten(&spec, None, now)),
            }
        }
    }
}
