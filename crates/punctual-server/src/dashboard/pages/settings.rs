//! What this server is, and what it looks at.

use maud::html;

use super::Shown;
use crate::dashboard::show;
use crate::dashboard::view::View;

/// The page.
pub(in crate::dashboard) async fn page(view: View) -> Shown {
    let admin = view.admin();
    let schema = admin.schema().await?;
    let now = admin.now().await?;
    let server = &view.ui.0.app.server;
    let retention = server.punctual.retention();
    Ok(view.page("Settings", "", html! {
        div.head { h1 { "Settings" } }
        div.two {
            section.card aria-labelledby="server-title" {
                h2 #server-title { "This server" }
                dl.facts {
                    div { dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) } }
                    div { dt { "Roles" } dd { @if server.roles.is_empty() { "–" } @for role in &server.roles { span.tag { (role) } " " } } }
                    div { dt { "Access" } dd { (if server.token.is_some() { "with the token" } else { "from this machine, without a token" }) } }
                    div { dt { "Changes" } dd { (if view.is_read_only { "refused: read-only" } else { "allowed, and written down" }) } }
                }
            }
            section.card aria-labelledby="database-title" {
                h2 #database-title { "Database" }
                dl.facts {
                    div { dt { "Kind" } dd { (schema.backend) } }
                    div { dt { "Version" } dd { (schema.database) } }
                    div { dt { "Schema" } dd { (schema.version) } }
                    div { dt { "Its clock" } dd { (show::absolute(now)) } }
                }
            }
            @if let Some(retention) = retention { section.card aria-labelledby="keep-title" {
                h2 #keep-title { "How long history is kept" }
                p.faint { "While this node looks after the store; another node may have been told otherwise." }
                dl.facts {
                    @for (what, length) in [("Succeeded and cancelled jobs", retention.finished), ("Failed jobs", retention.failed), ("The ledger of slots", retention.ledger), ("Counters and activity", retention.records), ("Dead nodes", retention.nodes)] {
                        div { dt { (what) } dd { (show::length(length)) } }
                    }
                }
            } }
            section.card aria-labelledby="more-title" {
                h2 #more-title { "For programs" }
                ul.plain {
                    li { a href=(view.to("/api/openapi.json")) { "The API’s description" } }
                    li { a href=(view.to("/metrics")) { "Metrics for Prometheus" } }
                    li { a href=(view.to("/healthz/ready")) { "Is it ready?" } }
                    li { a href=(view.to("/tools/cron")) { "Cron tool" } }
                }
            }
        }
    }))
}
