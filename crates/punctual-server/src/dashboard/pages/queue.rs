//! One queue.

use axum::extract::Path;
use maud::{Markup, html};

use super::Shown;
use super::queues::{Shape, sparkline};
use crate::dashboard::counted::Age;
use crate::dashboard::series::by_queue;
use crate::dashboard::show;
use crate::dashboard::view::{View, encoded};

/// The page.
pub(in crate::dashboard) async fn page(view: View, Path(name): Path<String>) -> Shown {
    let admin = view.admin();
    let now = admin.now().await?;
    let (counts, why) = admin.queue_and_why(&name).await?;
    let age = Age { counted_at: counts.counted_at, is_partial: counts.is_partial };
    // A queue without settings and jobs needs nothing to exist.
    let shape = Shape {
        name: name.clone(),
        setting: admin.queues().await?.into_iter().find(|queue| queue.name == name),
        kinds: counts.items,
        steps: by_queue(&admin, now).await?.remove(&name).unwrap_or_default(),
    };
    let limit = shape.setting.as_ref().and_then(|it| it.limits.max_running);
    Ok(view.page(&format!("Queue {name}"), "", html! {
        div.head {
            div {
                p.crumbs { a href=(view.to("/queues")) { "Queues" } " /" }
                h1 { (name) " " span #status data-live="queues jobs" { (shape.status(now)) } }
            }
            @if !view.is_read_only { (actions(&view, &shape, shape.is_paused(now))) }
        }
        section.card.why #why data-live="queues jobs" aria-label="Status" {
            (show::why(&why))
        }
        div.cards #figures data-live="queues jobs stats" {
            (figure("Ready", show::grouped(shape.sum(|it| it.ready))))
            (figure("Running", match limit { Some(limit) => format!("{} / {limit}", show::grouped(shape.sum(|it| it.running))), None => show::grouped(shape.sum(|it| it.running)) }))
            (figure("Delayed or blocked", show::grouped(shape.sum(|it| it.scheduled + it.retrying + it.blocked))))
            (figure("Attempts/min", format!("{:.1}", shape.per_minute())))
            (figure("Empty in", show::length_or_dash(shape.drains_in())))
            div.card.figure { div.label { "Last hour" } div.value { (sparkline(&shape)) } }
        }
        div #count-age data-live="queues jobs stats" { (age.note(now)) }
        section.card.flush aria-labelledby="kinds-title" {
            h2.inset #kinds-title { "Kinds" }
            @if shape.kinds.is_empty() { p.faint.inset { "No unfinished or failed jobs in this queue." } }
            @else {
                div.scroll tabindex="0" role="region" aria-label="Table of kinds" {
                    table.list #kinds data-live="queues jobs" {
                        thead { tr { th scope="col" { "Kind" } th.num scope="col" { "Ready" } th.num scope="col" { "Running" } th.num scope="col" { "Scheduled" } th.num scope="col" { "Retrying" } th.num scope="col" { "Blocked" } th.num scope="col" { "Failed" } th scope="col" { "Oldest due" } } }
                        tbody data-keyed {
                            @for it in &shape.kinds {
                                tr id={ "k-" (it.kind) } {
                                    th scope="row" { a href=(view.to(&format!("/jobs?q={}", encoded(&format!("queue:{name} kind:{}", it.kind))))) { (it.kind) } }
                                    @for count in [it.ready, it.running, it.scheduled, it.retrying, it.blocked, it.failed] { td.num { (show::grouped(count)) } }
                                    td.nowrap { @match it.oldest_due_at { Some(at) => (show::relative(now, at)), None => "–" } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }))
}

fn figure(label: &str, value: String) -> Markup {
    html! { div.card.figure { div.label { (label) } div.value { (value) } } }
}

fn actions(view: &View, shape: &Shape, is_paused: bool) -> Markup {
    let action = |what: &str| format!("/ui/act/queues/{}/{what}", encoded(&shape.name));
    let limit =
        shape.setting.as_ref().and_then(|it| it.limits.max_running).map(|limit| limit.to_string());
    html! {
        div.actions {
            @if is_paused { (show::button(view, &action("resume"), "Resume queue", "primary")) }
            @else { a.button href={ (view.queue(&shape.name)) "/pause" } { "Pause queue…" } }
            form.inline method="post" action=(view.to(&action("limit"))) {
                input type="hidden" name="back" value=(view.here);
                label for="max-running" { "Concurrency limit" }
                input #max-running.short name="max_running" inputmode="numeric" value=(limit.unwrap_or_default()) placeholder="none";
                button { "Save limit" }
            }
        }
    }
}
