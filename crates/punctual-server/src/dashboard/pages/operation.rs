//! One thing done to all jobs of a filter: the question before it, and how far it is.

use axum::extract::{Path, Query};
use maud::{Markup, html};
use punctual::{JobDetail, JobFilter, JobId, JobState, Timestamp};
use punctual_api::OperationCounts;

use super::Shown;
use super::confirm::question as frame;
use crate::dashboard::show;
use crate::dashboard::view::{View, encoded, prose};
use crate::fault::Fault;
use crate::operation::{Action, Bulk, count};
use crate::routes::operations;

/// Pages of jobs that are counted before somebody is asked, 500 each: the question must not take long,
/// and beyond 2 000 the number makes no difference to the answer.
const COUNT_PAGES: usize = 4;

const ACTIONS: [Action; 3] = [Action::Retry, Action::Cancel, Action::Move];

/// An action as a heading and on buttons.
fn title(action: Action) -> &'static str {
    match action {
        Action::Retry => "Retry",
        Action::Cancel => "Cancel",
        Action::Move => "Move",
    }
}

/// The ways to do something to all that match, as far as it can be done to any of them.
pub(super) fn links(view: &View, q: &str, filter: &JobFilter) -> Markup {
    let can = |action: &Action| operations::check_state(*action, &mut filter.clone()).is_ok();
    let actions: Vec<Action> = ACTIONS.into_iter().filter(can).collect();
    // Nobody means every job there is; the API takes no empty filter either.
    if q.trim().is_empty() || actions.is_empty() {
        return html! {};
    }
    html! {
        div.bulk {
            span.faint { "All that match, on this page and others:" }
            @for action in actions {
                a.button.danger[action == Action::Cancel] href=(view.to(&format!("/operations/new?action={}&q={}", action.as_str(), encoded(q)))) {
                    (title(action)) " all…"
                }
            }
        }
    }
}

#[derive(serde::Deserialize)]
pub(in crate::dashboard) struct Ask {
    #[serde(default)]
    action: String,
    #[serde(default)]
    q: String,
}

/// Before something is done to all that match.
pub(in crate::dashboard) async fn question(view: View, Query(ask): Query<Ask>) -> Shown {
    let action = operations::action(&ask.action)?;
    let filter = operations::meant(&view.ui.0.app, action, &ask.q).await?;
    let admin = view.admin();
    let now = admin.now().await?;
    let (jobs, has_more) = count(action, &admin, &filter, now, COUNT_PAGES).await?;
    let number = match (jobs, has_more) {
        (0, true) => "None among the newest jobs that were looked at, but there may be older ones."
            .to_owned(),
        (0, false) => "There is none at the moment.".to_owned(),
        (jobs, true) => {
            format!("That is {} or more at the moment.", show::plural(jobs, "job", "jobs"))
        }
        (jobs, false) => format!("That is {} at the moment.", show::plural(jobs, "job", "jobs")),
    };
    let meaning = match (action, filter.state) {
        (Action::Retry, Some(JobState::Cancelled)) => {
            "Those that were cancelled are made ready again."
        }
        (Action::Retry, _) => "Those that have failed are made ready again.",
        (Action::Cancel, _) => {
            "Those that wait end at once; the handlers of those that run are asked to stop."
        }
        (Action::Move, _) => "Those that wait are moved; those that run go on where they are.",
    };
    let verb = title(action);
    let content = html! {
        p { (verb) " all jobs that match " code { (ask.q.trim()) } ". " (meaning) }
        p #count { (number) }
        p.faint { "It is done in the background, and can be followed and called off. Jobs that are ordered or end from now on are left alone." }
        @if !view.is_read_only {
            form.stack method="post" action=(view.to("/operations")) {
                input type="hidden" name="action" value=(action.as_str());
                input type="hidden" name="q" value=(ask.q.trim());
                @if action == Action::Move {
                    label for="queue" { "To the queue" } input #queue name="queue" maxlength="200";
                    label for="priority" { "With the priority" } input #priority name="priority" inputmode="numeric";
                    label for="due" { "Due in, or at" } input #due name="due" placeholder="10m or 2027-01-15T08:00:00Z";
                }
                label for="why" { "Why? It is written down with every job." }
                input #why name="why" maxlength="500";
                button class=(if action == Action::Cancel { "danger" } else { "primary" }) { (verb) " all that match" }
            }
        }
    };
    let back = view.to(&format!("/jobs?q={}", encoded(&ask.q)));
    Ok(frame(&view, &format!("{verb} all that match?"), &back, content))
}

/// How far an operation is.
pub(in crate::dashboard) async fn page(view: View, Path(id): Path<String>) -> Shown {
    let id: JobId = id.parse().map_err(|error| Fault::unreadable("id", format!("{error}")))?;
    let (bulk, job) = operations::read(&view.ui.0.app, id).await?;
    let admin = view.admin();
    let now = admin.now().await?;
    let state = job.view.state;
    let why = match state {
        JobState::Running | JobState::Succeeded => None,
        _ => Some(admin.why_job(id).await?),
    };
    let heading = format!("{} all that match", title(bulk.action));
    Ok(view.page(&heading, &format!("job:{id}"), html! {
        div.head {
            div {
                p.crumbs { a href=(view.to("/jobs")) { "Jobs" } " /" }
                h1 { (heading) " " span #state data-live="job jobs" { (show::state(state)) } }
            }
            @if !view.is_read_only {
                div #actions data-live="job jobs" {
                    @if !state.is_final() { (show::button(&view, &format!("/ui/act/jobs/{id}/cancel"), "Cancel the operation", "danger")) }
                }
            }
        }
        section.card #progress data-live="job jobs" aria-labelledby="progress-title" {
            h2 #progress-title { "How far it is" }
            (progress(&job, now))
            @if job.cancel_asked && !state.is_final() { p.notice.warn { "It was asked to stop; what it has done stays done." } }
            @if let Some(why) = &why { (show::why(why)) }
        }
        section.card aria-labelledby="facts-title" { h2 #facts-title { "Facts" } (facts(&view, &bulk, &job, now)) }
    }))
}

fn progress(job: &JobDetail, now: Timestamp) -> Markup {
    let counts = job.result.as_ref();
    let counts: Option<OperationCounts> =
        counts.and_then(|counts| serde_json::from_str(counts.as_str()).ok());
    html! {
        @if let Some(counts) = counts {
            p { b { (show::grouped(counts.done)) } " done, " b { (show::grouped(counts.refused)) } " could not be." }
            @if !counts.reasons.is_empty() {
                h3 { "Why they could not be, of the first few" }
                ul.plain { @for reason in &counts.reasons { li { (prose(reason)) } } }
            }
        } @else if let Some(progress) = &job.progress {
            div.progress {
                @if let Some(percent) = progress.percent { progress max="100" value=(percent) aria-label="Progress" { (percent) " %" } span { (percent) " %" } }
                span { (progress.note) } span.faint { (show::relative(now, progress.at)) }
            }
        } @else if !job.view.state.is_final() {
            p.faint { "It has not said anything yet." }
        }
    }
}

fn facts(view: &View, bulk: &Bulk, job: &JobDetail, now: Timestamp) -> Markup {
    html! {
        dl.facts {
            div { dt { "Jobs" } dd { a href=(view.to(&format!("/jobs?q={}", encoded(&bulk.q)))) { code { (bulk.q) } } } }
            @if let Some(queue) = &bulk.to_queue { div { dt { "To the queue" } dd { a href=(view.queue(queue)) { (queue) } } } }
            @if let Some(priority) = bulk.to_priority { div { dt { "With the priority" } dd { (priority) } } }
            @if let Some(due) = bulk.to_due_at.as_ref().and_then(|due| due.parse().ok()) { div { dt { "Due" } dd { (show::absolute(due)) } } }
            div { dt { "Asked by" } dd { (bulk.who) } }
            @if !bulk.why.is_empty() { div { dt { "Why" } dd { (bulk.why) } } }
            div { dt { "Asked" } dd { (show::absolute(job.view.created_at)) " " span.faint { (show::relative(now, job.view.created_at)) } } }
            div { dt { "Its job" } dd { a href=(view.job(job.view.id)) { "attempts, log and all the rest" } } }
        }
    }
}
