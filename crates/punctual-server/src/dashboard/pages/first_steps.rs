//! What to do with an installation that has nothing to do yet.

use maud::html;

use super::Shown;
use crate::dashboard::show;
use crate::dashboard::view::View;

pub(super) async fn page(view: &View) -> Shown {
    let nodes = view.admin().nodes().await?;
    let server = match view.is_usual() {
        true => String::new(),
        false => format!(" --server {}", view.address("")),
    };
    let token = match view.requires_token() {
        true => " -H \"Authorization: Bearer $PUNCTUAL_TOKEN\"",
        false => "",
    };
    let jobs = view.address("/api/v1/jobs");
    Ok(view.page("Get started", "", html! {
        div.head { h1 { "Get started" } }
        p.lead { "No schedules and no jobs yet. The overview appears after you create the first one." }
        div #steps data-live="jobs schedules nodes" data-until-gone {
            ol.steps {
                li.card {
                    h2 { "Start a node" }
                    @if nodes.is_empty() { p { "No nodes yet. In Rust:" } }
                    @else { p.all-good { span.shape aria-hidden="true" { "✓" } " " (show::plural(nodes.len() as u64, "node", "nodes")) " connected." } }
                    (show::copyable("let punctual = Punctual::sqlite(\"app.db\").await?.handle(send_welcome).start().await?;"))
                    p.faint { code { "punctual serve" } " is also a node, with the kinds echo, sleep, fail, command and http." }
                }
                li.card {
                    h2 { "Enqueue a job" }
                    (show::copyable(&format!("punctual job enqueue echo --payload '\"hello\"' --wait{server}")))
                    p.faint { "or over HTTP:" }
                    (show::copyable(&format!("curl -X POST {jobs}{token} -H 'Content-Type: application/json' -d '{{\"kind\":\"echo\",\"payload\":\"hello\"}}'")))
                }
                li.card {
                    h2 { "Create a schedule" }
                    (show::copyable(&format!("punctual schedule create greet --cron '*/5 * * * *' --kind echo{server}")))
                    p.faint { "Check an expression with the " a href=(view.to("/tools/cron")) { "cron tool" } "." }
                }
            }
        }
    }))
}
