//! Who changed what, when and why.

use axum::extract::Query;
use maud::html;
use punctual::AuditCursor;

use super::Shown;
use crate::dashboard::show;
use crate::dashboard::view::{View, encoded};

/// Entries of a page.
const PAGE: usize = 50;

#[derive(serde::Deserialize)]
pub(in crate::dashboard) struct Ask {
    after: Option<i64>,
    #[serde(default)]
    q: String,
}

/// The page.
pub(in crate::dashboard) async fn page(view: View, Query(ask): Query<Ask>) -> Shown {
    let admin = view.admin();
    let now = admin.now().await?;
    let words: Vec<String> = ask.q.split_whitespace().map(str::to_lowercase).collect();
    let most = if words.is_empty() { PAGE } else { 500 };
    let page = admin.audits(ask.after.map(AuditCursor), most).await?;
    let is_asked = |text: &str| words.iter().all(|word| text.to_lowercase().contains(word));
    let entries: Vec<_> = page
        .items
        .iter()
        .filter(|it| {
            let entry = &it.entry;
            is_asked(&format!(
                "{} {} {} {}",
                entry.actor.who, entry.action, entry.subject, entry.actor.why
            ))
        })
        .collect();
    Ok(view.page("Audit log", "", html! {
        div.head {
            h1 { "Audit log" }
            form.search method="get" action=(view.to("/activity")) role="search" {
                label.hidden for="q" { "Search the audit log" }
                input #q type="search" name="q" value=(ask.q) placeholder="User, action, object or reason" data-search;
                button { "Search" }
            }
        }
        div #list data-live="activity" { @if entries.is_empty() {
            (show::empty(if words.is_empty() { "No changes yet." } else { "No matching entries on this page." }, html! { p { "Changes made in the dashboard, the API and the command line are recorded with user and reason." } }))
        } @else {
            div.card.flush {
                div.scroll tabindex="0" role="region" aria-label="Audit log" {
                    table.list #activity {
                        thead { tr { th scope="col" { "Time" } th scope="col" { "User" } th scope="col" { "Action" } th scope="col" { "Object" } th scope="col" { "Reason" } } }
                        tbody data-keyed {
                            @for it in entries {
                                tr id={ "y-" (it.id) } {
                                    td.nowrap { (show::relative(now, it.at)) }
                                    td { (it.entry.actor.who) }
                                    td { (it.entry.action) }
                                    td.break { (it.entry.subject) }
                                    td.break { (it.entry.actor.why) }
                                }
                            }
                        }
                    }
                }
            }
        } }
        @if let Some(AuditCursor(next)) = page.next {
            p.pager { a.button href=(view.to(&format!("/activity?q={}&after={next}", encoded(&ask.q)))) { "Older entries" } }
        }
    }))
}
