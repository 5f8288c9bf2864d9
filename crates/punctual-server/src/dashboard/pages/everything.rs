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
                @if has_paused { a.button href=(view.to("/everything/resume")) { "Resume everything…" } }
                a.button.danger href=(view.to("/everything/pause")) { "Pause everything…" }
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
        "Pause everything?",
        &view.to("/queues"),
        html! {
            p { "All queues are paused: no node starts any more work. What runs goes on to its end, schedules go on making jobs, and those wait." }
            @if open.is_empty() {
                p #open { "There is no queue that is open." }
            } @else {
                p #open {
                    (show::plural(open.len() as u64, "queue is", "queues are")) " open: "
                    @for (index, name) in open.iter().take(NAMES).enumerate() { @if index > 0 { ", " } b { (name) } }
                    @if open.len() > NAMES { " and others" } "."
                    @if paused > 0 { " Paused already, with a reason that is kept: " (paused) "." }
                    @if everything.has_more { " There are more queues than can be paused at once: do it again afterwards." }
                }
                p.faint { "A queue that is used for the first time from now on is not among them, nor is the one of background operations." }
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
        "Resume everything?",
        &view.to("/queues"),
        html! {
            @if paused.is_empty() {
                p { "No queue is paused." }
            } @else {
                p { "Those that were paused last, by the same person for the same reason, are ticked; others may be paused for good reason." }
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
                        label for="why" { "Why? It is written down." }
                        input #why name="why" maxlength="500" placeholder="the disk is back";
                        button.primary { "Resume those that are ticked" }
                    }
                }
            }
        },
    ))
}
