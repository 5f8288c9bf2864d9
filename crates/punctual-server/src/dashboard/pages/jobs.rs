//! Jobs by state and filter, with what can be done to many at once.

use std::time::Duration;

use axum::extract::Query;
use maud::{Markup, html};
use punctual::{ErrorKind, JobFilter, JobState, JobView, QueueStats, Timestamp};

use super::Shown;
use crate::dashboard::counted::Counted;
use crate::dashboard::show;
use crate::dashboard::view::{View, encoded};
use crate::fault::Fault;
use crate::routes::jobs::{Filter, read_cursor, write_cursor};

/// Jobs of a page.
const PAGE: usize = 50;
/// A list that takes longer says so.
const SLOW: Duration = Duration::from_secs(2);
/// What to do about it.
const NARROW: &str = "narrow the filter with queue:, kind:, schedule: or state:";

#[derive(serde::Deserialize)]
pub(in crate::dashboard) struct Ask {
    #[serde(default)]
    q: String,
    cursor: Option<String>,
}

/// How many jobs are in a state, if they are counted.
type Count = fn(&QueueStats) -> Option<u64>;

const STATES: [(JobState, Count); 8] = [
    (JobState::Scheduled, |it| Some(it.scheduled)),
    (JobState::Ready, |it| Some(it.ready)),
    (JobState::Running, |it| Some(it.running)),
    (JobState::Retrying, |it| Some(it.retrying)),
    (JobState::Blocked, |it| Some(it.blocked)),
    (JobState::Failed, |it| Some(it.failed)),
    (JobState::Succeeded, |_| None),
    (JobState::Cancelled, |_| None),
];

/// The line of a filter with another state in it.
fn with_state(q: &str, state: Option<JobState>) -> String {
    let others = q.split_whitespace().filter(|word| !word.starts_with("state:")).map(str::to_owned);
    let state = state.map(|state| format!("state:{state}"));
    state.into_iter().chain(others).collect::<Vec<_>>().join(" ")
}

#[expect(clippy::disallowed_methods, reason = "how long a page took is no part of what it shows")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

/// The page.
pub(in crate::dashboard) async fn page(view: View, Query(ask): Query<Ask>) -> Shown {
    let admin = view.admin();
    let now = admin.now().await?;
    let after = match ask.cursor.as_deref().filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => Some(
            read_cursor(text)
                .ok_or_else(|| Fault::unreadable("cursor", format!("invalid cursor `{text}`")))?,
        ),
    };
    // An id is the shortest way to a job.
    if let Ok(id) = ask.q.trim().parse::<punctual::JobId>()
        && admin.job(id).await.is_ok()
    {
        return super::job::show(&view, id, None).await;
    }
    let line = Filter { q: Some(ask.q.clone()), ..Filter::default() };
    let filter = match line.read(&view.ui.0.app).await {
        Ok(filter) => filter,
        Err(fault) => return Ok(wrong(&view, &ask, fault.detail())),
    };
    let begun = clock();
    let page = match admin.jobs(&filter, after, PAGE).await {
        Ok(page) => page,
        // Whoever filters can help a database that gave up; all others can only try again.
        Err(error) if error.kind() == ErrorKind::Retry => {
            return Ok(wrong(&view, &ask, &format!("{error}; or {NARROW}")));
        }
        Err(error) => return Err(error.into()),
    };
    let is_slow = begun.elapsed() > SLOW;
    let stats = Counted::read(&admin).await?;
    let state = filter.state;
    let next = page.next.map(|cursor| {
        view.to(&format!("/jobs?q={}&cursor={}", encoded(&ask.q), encoded(&write_cursor(cursor))))
    });
    Ok(view.page("Jobs", "", html! {
        (head(&view, &ask))
        (tabs(&view, &ask.q, state, &stats.items))
        div #count-age data-live="jobs queues" { (stats.note(now)) }
        @if is_slow { p.notice.warn { "This list took more than 2\u{a0}s to load; " (NARROW) "." } }
        div #list data-live="jobs" {
            @if page.items.is_empty() { (nothing(&view, &ask, state, next.is_some())) }
            @else { (list(&view, now, &page.items, &ask.q, &filter)) }
        }
        @if let Some(next) = next {
            p.pager {
                @if page.items.len() < PAGE { span.faint { "Partial result: the search stopped early. " } }
                a.button href=(next) { "Older jobs" }
            }
        }
    }))
}

fn head(view: &View, ask: &Ask) -> Markup {
    html! {
        div.head {
            h1 { "Jobs" }
            form.search method="get" action=(view.to("/jobs")) role="search" {
                label.hidden for="q" { "Filter jobs" }
                input #q.wide type="search" name="q" value=(ask.q) placeholder="state:failed kind:send_email queue:mail schedule:nightly tag:eu, or an ID" data-search;
                button { "Filter" }
            }
        }
    }
}

fn wrong(view: &View, ask: &Ask, detail: &str) -> Markup {
    view.page(
        "Jobs",
        "",
        html! {
            (head(view, ask))
            p.notice.bad role="alert" { (crate::dashboard::view::prose(detail)) }
            p { a href=(view.to("/jobs")) { "Show all jobs" } }
        },
    )
}

fn tabs(view: &View, q: &str, current: Option<JobState>, stats: &[QueueStats]) -> Markup {
    let to = |state| view.to(&format!("/jobs?q={}", encoded(&with_state(q, state))));
    html! {
        nav.tabs #tabs data-live="jobs queues" aria-label="Jobs by state" {
            a href=(to(None)) aria-current=[current.is_none().then_some("true")] { "All" }
            @for (state, count) in STATES {
                @let total: Option<u64> = stats.iter().map(count).sum();
                a href=(to(Some(state))) aria-current=[(current == Some(state)).then_some("true")] {
                    (state.as_str()) @if let Some(total) = total { " " span.count data-count=(state.as_str()) { (show::grouped(total)) } }
                }
            }
        }
    }
}

fn nothing(view: &View, ask: &Ask, state: Option<JobState>, has_more: bool) -> Markup {
    if has_more {
        return show::empty(
            "No matches in the jobs searched so far.",
            html! { p { "Continue with older jobs, or narrow the filter." } },
        );
    }
    if state == Some(JobState::Failed) && ask.q.trim() == "state:failed" {
        return show::empty(
            "No failed jobs.",
            html! { p { a href=(view.to("/jobs")) { "Show all jobs" } } },
        );
    }
    if !ask.q.trim().is_empty() {
        return show::empty(
            "No matching jobs.",
            html! { p { a href=(view.to("/jobs")) { "Clear the filter" } } },
        );
    }
    show::empty(
        "No jobs yet.",
        html! { p { "Enqueue one:" } (show::copyable("punctual job enqueue echo --payload '\"hello\"' --wait")) },
    )
}

fn list(view: &View, now: Timestamp, jobs: &[JobView], q: &str, filter: &JobFilter) -> Markup {
    html! {
        form.flush.card method="post" action=(view.to("/jobs")) {
            input type="hidden" name="back" value=(view.here);
            @if !view.is_read_only {
                div.bulk {
                    label { input type="checkbox" data-all="job" hidden; span data-all-label hidden { " Select all on this page" } }
                    span.faint data-selected { "Select jobs" }
                    label.hidden for="bulk-why" { "Reason" }
                    input #bulk-why name="why" placeholder="Reason (optional)" maxlength="500";
                    button name="action" value="retry" { "Retry" }
                    button.danger name="action" value="cancel" { "Cancel…" }
                }
                (super::operation::links(view, q, filter))
            }
            div.scroll tabindex="0" role="region" aria-label="Jobs" {
                table.list #jobs {
                    thead { tr {
                        @if !view.is_read_only { th.tick scope="col" { span.hidden { "Select" } } }
                        th scope="col" { "State" } th scope="col" { "Kind" } th.roomy scope="col" { "ID" } th scope="col" { "Queue" } th.num scope="col" { "Attempt" } th.num scope="col" { "Priority" }
                        th scope="col" { "Created" } th scope="col" { "Due or finished" } th scope="col" { "Error" }
                    } }
                    tbody data-keyed data-hold {
                        @for job in jobs { (row(view, now, job)) }
                    }
                }
            }
        }
    }
}

fn row(view: &View, now: Timestamp, job: &JobView) -> Markup {
    let id = job.id.to_string();
    html! {
        tr id={ "j-" (id) } data-state=(job.state.as_str()) {
            @if !view.is_read_only { td.tick { input type="checkbox" name="job" value=(id) aria-label={ "Select job " (id) }; } }
            td { (show::state(job.state)) }
            th scope="row" { a href=(view.job(job.id)) title=(id) { (job.kind) } }
            td.mono.faint.roomy { (super::schedule::short(&id)) }
            td { a href=(view.queue(&job.queue)) { (job.queue) } }
            td.num { (job.attempt) "/" (job.max_attempts) }
            td.num { (job.priority) }
            td.nowrap { (show::relative(now, job.created_at)) }
            td.nowrap { @if let Some(at) = job.finished_at.or(job.due_at) { (show::relative(now, at)) } }
            td.cut { @if let Some(error) = &job.error { span title=(error) { (error.lines().next().unwrap_or("")) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tab_keeps_the_rest_of_the_filter() {
        assert_eq!(
            with_state("kind:a state:failed tag:x", Some(JobState::Ready)),
            "state:ready kind:a tag:x"
        );
        assert_eq!(with_state("state:failed", None), "");
    }
}
