//! One thing done to all jobs or schedules of a filter: the question before it, and how far it is.

use axum::extract::{Path, Query};
use maud::{Markup, html};
use punctual::{JobDetail, JobFilter, JobId, JobState, Timestamp};
use punctual_api::OperationCounts;

use super::Shown;
use super::confirm::{pause_fields, question as frame};
use crate::dashboard::act::many::of_schedules;
use crate::dashboard::show;
use crate::dashboard::view::{View, encoded, prose};
use crate::fault::Fault;
use crate::operation::{Action, Bulk, count, schedules};
use crate::routes::operations;
use crate::status::Wanted;

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
        Action::Pause => "Pause",
        Action::Resume => "Resume",
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
            span.faint { "All matching jobs:" }
            @for action in actions {
                a.button.danger[action == Action::Cancel] href=(view.to(&format!("/operations/new?action={}&q={}", action.as_str(), encoded(q)))) {
                    (title(action)) " all…"
                }
            }
        }
    }
}

/// The same for schedules: here nobody filters and means all of them, too.
pub(super) fn schedule_links(view: &View, q: &str, status: &str) -> Markup {
    let is_all = q.trim().is_empty() && status.is_empty();
    let to = |action: Action| {
        let (action, q, status) = (action.as_str(), encoded(q.trim()), encoded(status));
        view.to(&format!("/operations/schedules/new?action={action}&q={q}&status={status}"))
    };
    html! {
        div.bulk {
            span.faint { (if is_all { "All schedules:" } else { "All matching schedules:" }) }
            @for action in [Action::Pause, Action::Resume] { a.button href=(to(action)) { (title(action)) " all…" } }
        }
    }
}

#[derive(serde::Deserialize)]
pub(in crate::dashboard) struct Ask {
    #[serde(default)]
    action: String,
    #[serde(default)]
    q: String,
    #[serde(default)]
    status: String,
}

/// Before something is done to all that match.
pub(in crate::dashboard) async fn question(view: View, Query(ask): Query<Ask>) -> Shown {
    let action = operations::action(&ask.action)?;
    let filter = operations::meant(&view.ui.0.app, action, &ask.q).await?;
    let admin = view.admin();
    let now = admin.now().await?;
    let (jobs, has_more) = count(action, &admin, &filter, now, COUNT_PAGES).await?;
    let number = match (jobs, has_more) {
        (0, true) => "No match among the newest jobs; older jobs may match.".to_owned(),
        (0, false) => "No jobs match now.".to_owned(),
        (jobs, true) => {
            format!("At least {} now.", show::plural(jobs, "job matches", "jobs match"))
        }
        (jobs, false) => format!("{} now.", show::plural(jobs, "job matches", "jobs match")),
    };
    let (which, meaning) = match (action, filter.state) {
        (Action::Retry, Some(JobState::Cancelled)) => ("cancelled jobs", "are queued again."),
        (Action::Retry, _) => ("failed jobs", "are queued again."),
        (Action::Cancel, _) => {
            ("unfinished jobs", "are cancelled. Running jobs are asked to stop.")
        }
        (Action::Move, _) => ("waiting jobs", "are moved. Running jobs are not changed."),
        (Action::Pause | Action::Resume, _) => ("jobs", ""),
    };
    let verb = title(action);
    let content = html! {
        p { "All " (which) " that match " code { (ask.q.trim()) } " " (meaning) }
        p #count { (number) }
        p.faint { "Runs in the background; you can watch and cancel it. Jobs that are created or finish from now on are not changed." }
        @if !view.is_read_only {
            form.stack method="post" action=(view.to("/operations")) {
                input type="hidden" name="action" value=(action.as_str());
                input type="hidden" name="q" value=(ask.q.trim());
                @if action == Action::Move {
                    label for="queue" { "New queue" } input #queue name="queue" maxlength="200";
                    label for="priority" { "New priority" } input #priority name="priority" inputmode="numeric";
                    label for="due" { "New due time (delay or time)" } input #due name="due" placeholder="10m or 2027-01-15T08:00:00Z";
                }
                label for="why" { "Reason (recorded for each job)" }
                input #why name="why" maxlength="500";
                button class=(if action == Action::Cancel { "danger" } else { "primary" }) { (verb) " all matching jobs" }
            }
        }
    };
    let back = view.to(&format!("/jobs?q={}", encoded(&ask.q)));
    Ok(frame(&view, &format!("{verb} all matching jobs?"), &back, content))
}

/// Which schedules are meant, in words.
fn which(q: &str, status: &str) -> Markup {
    html! {
        "all "
        @if !status.is_empty() { b { (status) } " " }
        "schedules"
        @if !q.is_empty() { " that match " code { (q) } }
    }
}

/// Before all schedules that match are paused or resumed.
pub(in crate::dashboard) async fn schedules_question(view: View, Query(ask): Query<Ask>) -> Shown {
    let action = of_schedules(&ask.action)?;
    let (q, status) = (ask.q.trim(), ask.status.trim());
    let admin = view.admin();
    let now = admin.now().await?;
    let wanted = Wanted::new(q, status);
    let (found, has_more) = schedules::count(action, &admin, &wanted, now, COUNT_PAGES).await?;
    let number = show::plural(found, "schedule", "schedules");
    let number = match (found, has_more) {
        (0, false) => format!("No schedules to {}.", action.as_str()),
        (_, true) => format!("This {}s at least {number}.", action.as_str()),
        (_, false) => format!("This {}s {number}.", action.as_str()),
    };
    let meaning = match action {
        Action::Pause => {
            "Slots are skipped while a schedule is paused. Existing jobs continue. \
             Schedules that are already paused are not changed."
        }
        _ => "Paused schedules resume with their next slot, whatever the reason for the pause.",
    };
    let content = html! {
        p { (title(action)) " " (which(q, status)) ". " (meaning) }
        p #count { (number) }
        p.faint { "Runs in the background; you can watch and cancel it." }
        @if !view.is_read_only {
            form.stack method="post" action=(view.to("/operations/schedules")) {
                input type="hidden" name="action" value=(action.as_str());
                input type="hidden" name="q" value=(q);
                input type="hidden" name="status" value=(status);
                @if action == Action::Pause { (pause_fields()) }
                @else {
                    label for="why" { "Reason (recorded for each schedule)" }
                    input #why name="why" maxlength="500";
                }
                button.primary { (title(action)) " all matching schedules" }
            }
        }
    };
    let back = view.to(&schedules_place(q, status));
    Ok(frame(&view, &format!("{} all matching schedules?", title(action)), &back, content))
}

fn schedules_place(q: &str, status: &str) -> String {
    format!("/schedules?q={}&status={}", encoded(q), encoded(status))
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
    let noun = if bulk.action.is_of_schedules() { "schedules" } else { "jobs" };
    let heading = format!("{} all matching {noun}", title(bulk.action));
    Ok(view.page(&heading, &format!("job:{id}"), html! {
        div.head {
            div {
                p.crumbs { @if bulk.action.is_of_schedules() { a href=(view.to("/schedules")) { "Schedules" } } @else { a href=(view.to("/jobs")) { "Jobs" } } " /" }
                h1 { (heading) " " span #state data-live="job jobs" { (show::state(state)) } }
            }
            @if !view.is_read_only {
                div #actions data-live="job jobs" {
                    @if !state.is_final() { a.button.danger href=(view.to(&format!("/operations/{id}/cancel"))) { "Cancel operation…" } }
                }
            }
        }
        section.card #progress data-live="job jobs" aria-labelledby="progress-title" {
            h2 #progress-title { "Progress" }
            (progress(&job, now))
            @if job.cancel_requested && !state.is_final() { p.notice.warn { "Cancel requested. Completed changes are kept." } }
            @if let Some(why) = &why { (show::why(why)) }
        }
        section.card aria-labelledby="facts-title" { h2 #facts-title { "Details" } (facts(&view, &bulk, &job, now)) }
    }))
}

fn progress(job: &JobDetail, now: Timestamp) -> Markup {
    let counts = job.result.as_ref();
    let counts: Option<OperationCounts> =
        counts.and_then(|counts| serde_json::from_str(counts.as_str()).ok());
    html! {
        @if let Some(counts) = counts {
            p { b { (show::grouped(counts.done)) } " changed, " b { (show::grouped(counts.skipped)) } " skipped." }
            @if !counts.reasons.is_empty() {
                h3 { "Reasons for the first skipped items" }
                ul.plain { @for reason in &counts.reasons { li { (prose(reason)) } } }
            }
        } @else if let Some(progress) = &job.progress {
            div.progress {
                @if let Some(percent) = progress.percent { progress max="100" value=(percent) aria-label="Progress" { (percent) " %" } span { (percent) " %" } }
                span { (progress.note) } span.faint { (show::relative(now, progress.at)) }
            }
        } @else if !job.view.state.is_final() {
            p.faint { "No progress reported yet." }
        }
    }
}

fn facts(view: &View, bulk: &Bulk, job: &JobDetail, now: Timestamp) -> Markup {
    html! {
        dl.facts {
            @if bulk.action.is_of_schedules() {
                @let status = bulk.status.as_deref().unwrap_or_default();
                div { dt { "Schedules" } dd { a href=(view.to(&schedules_place(&bulk.q, status))) { (which(&bulk.q, status)) } } }
                @if let Some(until) = bulk.until.as_ref().and_then(|until| until.parse().ok()) { div { dt { "Paused until" } dd { (show::absolute(until)) } } }
            } @else {
                div { dt { "Jobs" } dd { a href=(view.to(&format!("/jobs?q={}", encoded(&bulk.q)))) { code { (bulk.q) } } } }
            }
            @if let Some(queue) = &bulk.to_queue { div { dt { "New queue" } dd { a href=(view.queue(queue)) { (queue) } } } }
            @if let Some(priority) = bulk.to_priority { div { dt { "New priority" } dd { (priority) } } }
            @if let Some(due) = bulk.to_due_at.as_ref().and_then(|due| due.parse().ok()) { div { dt { "New due time" } dd { (show::absolute(due)) } } }
            div { dt { "Requested by" } dd { (bulk.who) } }
            @if !bulk.why.is_empty() { div { dt { "Reason" } dd { (bulk.why) } } }
            div { dt { "Requested" } dd { (show::absolute(job.view.created_at)) " " span.faint { (show::relative(now, job.view.created_at)) } } }
            div { dt { "Job" } dd { a href=(view.job(job.view.id)) { "View job" } } }
        }
    }
}
