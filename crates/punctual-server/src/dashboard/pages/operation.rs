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
            span.faint { "All that match, on this page and others:" }
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
            span.faint { (if is_all { "All schedules, on this page and others:" } else { "All that match, on this page and others:" }) }
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
        (Action::Pause | Action::Resume, _) => "",
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

/// Which schedules are meant, in words.
fn which(q: &str, status: &str) -> Markup {
    html! {
        @if q.is_empty() && status.is_empty() { "all schedules" }
        @else {
            "all schedules"
            @if !status.is_empty() { " that are " b { (status) } }
            @if !q.is_empty() { (if status.is_empty() { " that match " } else { " and match " }) code { (q) } }
        }
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
    let more = if has_more { " or more" } else { "" };
    let meaning = match action {
        Action::Pause => {
            "Their slots are skipped while they are paused, and the ledger says so; jobs that they have made already go on. Those that are paused already keep their reason and their end."
        }
        _ => "Those that are paused go on with their next slot, whyever they were paused.",
    };
    let content = html! {
        p { (title(action)) " " (which(q, status)) ". " (meaning) }
        p #count { "That is " (number) (more) " at the moment." }
        p.faint { "It is done in the background, and can be followed and called off." }
        @if !view.is_read_only {
            form.stack method="post" action=(view.to("/operations/schedules")) {
                input type="hidden" name="action" value=(action.as_str());
                input type="hidden" name="q" value=(q);
                input type="hidden" name="status" value=(status);
                @if action == Action::Pause { (pause_fields()) }
                @else {
                    label for="why" { "Why? It is written down with every schedule." }
                    input #why name="why" maxlength="500";
                }
                button.primary { (title(action)) " them all" }
            }
        }
    };
    let back = view.to(&schedules_place(q, status));
    Ok(frame(&view, &format!("{} these schedules?", title(action)), &back, content))
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
    let heading = format!("{} all that match", title(bulk.action));
    Ok(view.page(&heading, &format!("job:{id}"), html! {
        div.head {
            div {
                p.crumbs { @if bulk.action.is_of_schedules() { a href=(view.to("/schedules")) { "Schedules" } } @else { a href=(view.to("/jobs")) { "Jobs" } } " /" }
                h1 { (heading) " " span #state data-live="job jobs" { (show::state(state)) } }
            }
            @if !view.is_read_only {
                div #actions data-live="job jobs" {
                    @if !state.is_final() { a.button.danger href=(view.to(&format!("/operations/{id}/cancel"))) { "Cancel the operation…" } }
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
            @if bulk.action.is_of_schedules() {
                @let status = bulk.status.as_deref().unwrap_or_default();
                div { dt { "Schedules" } dd { a href=(view.to(&schedules_place(&bulk.q, status))) { (which(&bulk.q, status)) } } }
                @if let Some(until) = bulk.until.as_ref().and_then(|until| until.parse().ok()) { div { dt { "Until" } dd { (show::absolute(until)) } } }
            } @else {
                div { dt { "Jobs" } dd { a href=(view.to(&format!("/jobs?q={}", encoded(&bulk.q)))) { code { (bulk.q) } } } }
            }
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
