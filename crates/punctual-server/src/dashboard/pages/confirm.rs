//! Questions that are asked before something is stopped.

use axum::extract::Path;
use maud::{Markup, html};

use super::Shown;
use super::job::read_id;
use crate::dashboard::view::{View, encoded, own_place};
use crate::routes::operations;

/// How long things are paused, usually.
const LENGTHS: [&str; 4] = ["1h", "4h", "1d", "7d"];

pub(super) fn question(view: &View, title: &str, back: &str, content: Markup) -> Markup {
    view.page(
        title,
        "",
        html! {
            div.head { h1 { (title) } }
            div.card.narrow { (content) p { a href=(back) { "Back without changes" } } }
        },
    )
}

pub(super) fn pause_form(view: &View, action: &str, words: &str) -> Markup {
    html! {
        form.stack method="post" action=(view.to(action)) {
            (pause_fields())
            button.primary { (words) }
        }
    }
}

/// Why, and until when.
pub(super) fn pause_fields() -> Markup {
    html! {
        label for="why" { "Reason (shown in the dashboard, by " code { "punctual why" } " and in the audit log)" }
        input #why name="why" required maxlength="500" placeholder="index rebuild";
        label for="until" { "Duration or end time (empty: until resumed)" }
        input #until name="until" list="lengths" placeholder="2h or 2027-01-15T08:00:00Z";
        datalist #lengths { @for length in LENGTHS { option value=(length) {} } }
    }
}

/// Before a schedule is paused.
pub(in crate::dashboard) async fn pause_schedule(view: View, Path(name): Path<String>) -> Shown {
    let schedule = view.admin().schedule(&name).await?;
    Ok(question(
        &view,
        &format!("Pause schedule {}?", schedule.name),
        &view.schedule(&name),
        html! {
            p { "Slots are skipped while the schedule is paused, and recorded in the ledger. Existing jobs continue." }
            (pause_form(&view, &format!("/ui/act/schedules/{}/pause", encoded(&name)), "Pause schedule"))
        },
    ))
}

/// Before a queue is paused.
pub(in crate::dashboard) async fn pause_queue(view: View, Path(name): Path<String>) -> Shown {
    Ok(question(
        &view,
        &format!("Pause queue {name}?"),
        &view.queue(&name),
        html! {
            p { "Running jobs finish. Waiting and new jobs wait until the queue is resumed." }
            (pause_form(&view, &format!("/ui/act/queues/{}/pause", encoded(&name)), "Pause queue"))
        },
    ))
}

/// Before a job is called off.
pub(in crate::dashboard) async fn cancel_job(view: View, Path(id): Path<String>) -> Shown {
    let id = read_id(&id)?;
    let job = view.admin().job(id).await?;
    Ok(question(
        &view,
        &format!("Cancel this {} job?", job.view.kind),
        &view.job(id),
        html! {
            p { "A waiting job is cancelled immediately. A running job is asked to stop. You can retry it later." }
            form.stack method="post" action=(view.to(&format!("/ui/act/jobs/{id}/cancel"))) {
                label for="why" { "Reason (optional)" }
                input #why name="why" maxlength="500";
                button.danger { "Cancel job" }
            }
        },
    ))
}

/// Before an operation is called off.
pub(in crate::dashboard) async fn cancel_operation(view: View, Path(id): Path<String>) -> Shown {
    let id = read_id(&id)?;
    operations::read(&view.ui.0.app, id).await?;
    let place = format!("/operations/{id}");
    Ok(question(
        &view,
        "Cancel this operation?",
        &view.to(&place),
        html! {
            p { "Completed changes are kept. The remaining items are not changed." }
            form.stack method="post" action=(view.to(&format!("/ui/act/jobs/{id}/cancel"))) {
                input type="hidden" name="back" value=(place);
                label for="why" { "Reason (optional)" }
                input #why name="why" maxlength="500";
                button.danger { "Cancel operation" }
            }
        },
    ))
}

/// What is asked before something is done to those that were ticked.
pub(in crate::dashboard) struct Many<'a> {
    pub(in crate::dashboard) title: String,
    pub(in crate::dashboard) meaning: &'a str,
    /// Where the form goes, and where it came from if it does not say so.
    pub(in crate::dashboard) place: &'a str,
    pub(in crate::dashboard) button: &'a str,
    /// What the form said.
    pub(in crate::dashboard) said: &'a [(String, String)],
}

impl Many<'_> {
    /// The same form again, with the answer in it: nothing needs to be remembered meanwhile.
    pub(in crate::dashboard) fn ask(&self, view: &View) -> Markup {
        let value = |wanted: &str| {
            let pair = self.said.iter().find(|(name, _)| name == wanted);
            pair.map_or("", |(_, value)| value.as_str())
        };
        let back = own_place(value("back")).unwrap_or(self.place);
        question(
            view,
            &self.title,
            &view.to(back),
            html! {
                p { (self.meaning) }
                form.stack method="post" action=(view.to(self.place)) {
                    @for (name, value) in self.said.iter().filter(|(name, _)| name != "why") {
                        input type="hidden" name=(name) value=(value);
                    }
                    input type="hidden" name="sure" value="yes";
                    label for="why" { "Reason (recorded in the audit log)" }
                    input #why name="why" maxlength="500" value=(value("why"));
                    button.danger { (self.button) }
                }
            },
        )
    }
}
