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
    Ok(view.page("Server", "", html! {
        div.head { h1 { "Server" } }
        div.two {
            section.card aria-labelledby="server-title" {
                h2 #server-title { "This server" }
                dl.facts {
                    div { dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) } }
                    div { dt { "Roles" } dd { @if server.roles.is_empty() { "–" } @for role in &server.roles { span.tag { (role) } " " } } }
                    div { dt { "Access" } dd { (if server.token.is_some() { "token required" } else { "local requests only, no token" }) } }
                    div { dt { "Changes" } dd { (if view.is_read_only { "disabled (read-only)" } else { "enabled, recorded in the audit log" }) } }
                }
            }
            section.card aria-labelledby="database-title" {
                h2 #database-title { "Database" }
                dl.facts {
                    div { dt { "Type" } dd { (schema.backend) } }
                    div { dt { "Version" } dd { (schema.database) } }
                    div { dt { "Schema" } dd { (schema.version) } }
                    div { dt { "Clock" } dd { (show::absolute(now)) } }
                }
            }
            @if let Some(retention) = retention { section.card aria-labelledby="keep-title" {
                h2 #keep-title { "Retention" }
                p.faint { "As configured on this node; other nodes may differ." }
                dl.facts {
                    @for (what, length) in [("Succeeded and cancelled jobs", retention.finished), ("Failed jobs", retention.failed), ("Slot ledger", retention.ledger), ("Statistics and audit log", retention.records), ("Dead nodes", retention.nodes)] {
                        div { dt { (what) } dd { (show::length(length)) } }
                    }
                }
            } }
            section.card aria-labelledby="more-title" {
                h2 #more-title { "Endpoints" }
                ul.plain {
                    li { a href=(view.to("/api/openapi.json")) { "OpenAPI description" } }
                    li { a href=(view.to("/metrics")) { "Prometheus metrics" } }
                    li { a href=(view.to("/healthz/ready")) { "Readiness check" } }
                    li { a href=(view.to("/tools/cron")) { "Cron tool" } }
                }
            }
        }
    }))
}
