//! Nodes: who works, who leads, and what each can do.

use maud::{Markup, html};
use punctual::{Leader, Node, Timestamp};

use super::Shown;
use super::overview::is_alive;
use crate::dashboard::counted::Counted;
use crate::dashboard::show;
use crate::dashboard::view::View;

/// The page.
pub(in crate::dashboard) async fn page(view: View) -> Shown {
    let admin = view.admin();
    let now = admin.now().await?;
    let (mut nodes, leaders) = (admin.nodes().await?, admin.leaders().await?);
    nodes.sort_by_key(|node| (!is_alive(node, now), node.info.name.clone(), node.info.id));
    let stats = Counted::read(&admin).await?;
    let is_served = |queue: &str, kind: &str| {
        let serves = |node: &&Node| {
            node.info.queues.iter().any(|it| it == queue)
                && node.info.kinds.iter().any(|it| it == kind)
        };
        nodes.iter().filter(|node| is_alive(node, now)).any(|node| serves(&node))
    };
    let unserved: Vec<_> =
        stats.items.iter().filter(|it| it.ready > 0 && !is_served(&it.queue, &it.kind)).collect();
    Ok(view.page("Nodes", "", html! {
        div.head { h1 { "Nodes" } }
        div #unserved data-live="nodes jobs" {
            @for it in unserved.iter().take(10) {
                p.notice.bad { (show::plural(it.ready, "ready job", "ready jobs")) " of kind " b { (it.kind) } " in queue " b { (it.queue) } " cannot run: no live node handles this kind in this queue. Start a node that does." }
            }
            @if !unserved.is_empty() { (stats.note(now)) }
        }
        @if nodes.is_empty() {
            (show::empty("No nodes yet.", html! {
                p { "Start one:" }
                (show::copyable("punctual serve --role scheduler,worker"))
                p { "or embed one in your program:" }
                (show::copyable("Punctual::sqlite(\"app.db\").await?.handle(send_welcome).start().await?"))
            }))
        } @else {
            div.card.flush {
                div.scroll tabindex="0" role="region" aria-label="Nodes" {
                    table.list #nodes data-live="nodes" {
                        thead { tr { th scope="col" { "Name" } th scope="col" { "State" } th.num scope="col" { "Running" } th scope="col" { "Leader of" } th scope="col" { "Queues" } th scope="col" { "Kinds" } th scope="col" { "Last heartbeat" } th scope="col" { "Started" } th scope="col" { "Version" } } }
                        tbody data-keyed { @for node in &nodes { (row(now, node, &leaders)) } }
                    }
                }
            }
            section.card aria-labelledby="leaders-title" {
                h2 #leaders-title { "Leader roles" }
                div.scroll tabindex="0" role="region" aria-label="Table of leader roles" {
                table #leaders data-live="nodes" {
                    thead { tr { th scope="col" { "Role" } th scope="col" { "Node" } th.num scope="col" { "Term" } th scope="col" { "Since" } th scope="col" { "Lease" } } }
                    tbody {
                        @for leader in &leaders {
                            tr {
                                td { (leader.fence.role) }
                                td { (nodes.iter().find(|node| node.info.id == leader.node).map_or("(node no longer registered)", |node| node.info.name.as_str())) }
                                td.num { (leader.fence.term) }
                                td.nowrap { (show::relative(now, leader.since)) }
                                td { @if leader.until > now { (show::badge("good", "✓", "valid")) } @else { (show::badge("bad", "!", "expired")) } }
                            }
                        }
                    }
                }
                }
                @if leaders.is_empty() { p.faint { "No leaders yet." } }
            }
        }
    }))
}

fn row(now: Timestamp, node: &Node, leaders: &[Leader]) -> Markup {
    let leads: Vec<&str> = leaders
        .iter()
        .filter(|it| it.node == node.info.id && it.until > now)
        .map(|it| it.fence.role.as_str())
        .collect();
    html! {
        tr id={ "n-" (node.info.id) } {
            th scope="row" { (node.info.name) div.faint.mono { (super::schedule::short(&node.info.id.to_string())) }
                @for (label, value) in &node.info.labels { span.tag { (label) "=" (value) } " " } }
            td { @if node.dead_at.is_some() { (show::badge("bad", "✕", "dead")) } @else if is_alive(node, now) { (show::badge("good", "✓", "live")) } @else { (show::badge("warn", "!", "silent")) } }
            td.num { (show::grouped(node.running)) }
            td { @if leads.is_empty() { "–" } @for role in &leads { span.tag { (role) } " " } }
            td { @for queue in &node.info.queues { span.tag { (queue) } " " } }
            td { @for kind in node.info.kinds.iter().take(12) { span.tag { (kind) } " " } @if node.info.kinds.len() > 12 { span.faint { "and " (node.info.kinds.len() - 12) " more" } } }
            td.nowrap { (show::relative(now, node.seen_at)) }
            td.nowrap { (show::relative(now, node.joined_at)) }
            td { (node.info.version) }
        }
    }
}
