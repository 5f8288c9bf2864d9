//! Questions before all work is stopped, and before it goes on.

use maud::{Markup, html};

use super::Shown;
use super::confirm::{pause_form, question};
use crate::dashboard::everything::Queues;
use crate::dashboard::show;
use crate::dashboard::view::View;

/// Names of queues that are told before all are paused.
const NAMES: usize = 30;

/// The way to both, on a page about queues.
pub(super) fn links(view: &View, has_paused: bool) -> Markup {
    html! {
        @if !view.is_read_only {
            div.actions {
                @if has_paused { a.button href=(view.to("/everything/resume")) { "Resume queues…" } }
                a.button.danger href=(view.to("/everything/pause")) { "Pause all queues…" }
            }
        }
    }
}

/// Before every queue is paused.
pub(in crate::dashboard) async fn pause(view: View) -> Shown {
    let everything = Queues::read(&view.admin()).await?;
    let open: Vec<&str> = everything.open().collect();
    let paused = everything.queues.len() - open.len();
    Ok(question(
        &view,
        "Pause all queues?",
        &view.to("/queues"),
        html! {
            p { "No node starts new jobs. Running jobs finish. Schedules keep creating jobs, which wait until the queues are resumed." }
            @if open.is_empty() {
                p #open { (if paused == 0 { "No queues yet." } else { "All queues are already paused." }) }
            } @else {
                p #open {
                    (show::plural(open.len() as u64, "active queue", "active queues")) ": "
                    @for (index, name) in open.iter().take(NAMES).enumerate() { @if index > 0 { ", " } b { (name) } }
                    @if open.len() > NAMES { " and others" } "."
                    @if paused > 0 { " " (show::plural(paused as u64, "queue is already paused and keeps its reason", "queues are already paused and keep their reason")) "." }
                    @if everything.has_more { " Not all queues can be paused at once. Repeat to pause the rest." }
                }
                p.faint { "Queues that are created later are not paused. The queue of bulk operations stays active." }
                @if !view.is_read_only { (pause_form(&view, "/everything/pause", "Pause all queues")) }
            }
        },
    ))
}

/// Before queues are resumed: those of the last pause are ticked.
pub(in crate::dashboard) async fn resume(view: View) -> Shown {
    let admin = view.admin();
    let now = admin.now().await?;
    let everything = Queues::read(&admin).await?;
    let paused = everything.paused();
    Ok(question(
        &view,
        "Resume queues?",
        &view.to("/queues"),
        html! {
            @if paused.is_empty() {
                p { "No paused queues." }
            } @else {
                p { "The queues of the last pause (same user, same reason) are selected." }
                @let list = html! {
                    ul.plain {
                        @for (index, (name, pause, is_one)) in paused.iter().enumerate() {
                            li {
                                input type="checkbox" name="queue" value=(name) id={ "q" (index) } checked[*is_one] disabled[view.is_read_only];
                                " " label for={ "q" (index) } { b { (name) } }
                                " " span.faint { "paused " (show::relative(now, pause.since)) " by " (pause.by.who) @if !pause.by.why.is_empty() { ": " (pause.by.why) } }
                            }
                        }
                    }
                };
                @if view.is_read_only { (list) }
                @else {
                    form.stack method="post" action=(view.to("/everything/resume")) {
                        (list)
                        label for="why" { "Reason (optional, recorded in the audit log)" }
                        input #why name="why" maxlength="500" placeholder="disk replaced";
                        button.primary { "Resume selected queues" }
                    }
                }
            }
        },
    ))
}
