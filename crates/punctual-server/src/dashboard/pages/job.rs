//! One job: where its time went, why it is as it is, what it was given and what came of it.

use std::time::Duration;

use axum::extract::{Path, Query};
use maud::{Markup, html};
use punctual::{AttemptOutcome, JobDetail, JobId, JobState, LogLevel, Node, Schedule, Timestamp};

use super::Shown;
use super::log::{Newest, levels};
use crate::dashboard::estimate::Estimate;
use crate::dashboard::show as shown;
use crate::dashboard::view::View;
use crate::fault::Fault;

pub(super) fn read_id(id: &str) -> Result<JobId, Fault> {
    id.parse().map_err(|error| Fault::unreadable("id", format!("{error}")))
}

#[derive(serde::Deserialize)]
pub(in crate::dashboard) struct Ask {
    level: Option<String>,
}

/// The page.
pub(in crate::dashboard) async fn page(
    view: View,
    Path(id): Path<String>,
    Query(ask): Query<Ask>,
) -> Shown {
    // A word that is no level asks for none.
    let level = ask.level.and_then(|level| level.parse().ok());
    show(&view, read_id(&id)?, level).await
}

pub(super) async fn show(view: &View, id: JobId, level: Option<LogLevel>) -> Shown {
    let admin = view.admin();
    let now = admin.now().await?;
    let job = admin.job(id).await?;
    let steps = admin.steps(id).await?;
    let log = Newest::read(&admin, id, level).await?;
    let estimate = Estimate::read(&admin, &job).await?;
    let why = admin.why_job(id).await?;
    let nodes = admin.nodes().await?;
    let schedule = match job.view.schedule {
        Some((schedule, _)) => admin.schedule_by_id(schedule).await?,
        None => None,
    };
    let state = job.view.state;
    Ok(view.page(&format!("{} job", job.view.kind), &format!("job:{id}"), html! {
        div.head {
            div {
                p.crumbs { a href=(view.to("/jobs")) { "Jobs" } " /" }
                h1 { (job.view.kind) " " span #state data-live="job jobs" { (shown::state(state)) } }
                p.faint.mono { (id) }
            }
            @if !view.is_read_only { div #actions data-live="job jobs" { (actions(view, &job)) } }
        }
        section.card #time data-live="job jobs" aria-labelledby="time-title" {
            h2 #time-title { "Time breakdown" }
            (timeline(&job, now))
            @if let Some(progress) = &job.progress {
                div.progress {
                    @if let Some(percent) = progress.percent { progress max="100" value=(percent) aria-label="Progress" { (percent) " %" } span { (percent) " %" } }
                    span { (progress.note) } span.faint { (shown::relative(now, progress.at)) }
                }
            }
            @if let Some(estimate) = &estimate { (estimate.show(now)) }
            @if job.cancel_requested && state == JobState::Running { p.notice.warn { "Cancel requested. The handler is still running." } }
        }
        section.card.why #why data-live="job jobs queues" aria-labelledby="why-title" {
            h2 #why-title { (if state.is_final() { "Outcome" } else { "Status" }) }
            (shown::why(&why))
        }
        div.two {
            section.card aria-labelledby="facts-title" #facts data-live="job jobs" { h2 #facts-title { "Details" } (facts(view, &job, schedule.as_ref(), now)) }
            section.card aria-labelledby="payload-title" {
                h2 #payload-title { "Payload" }
                (code(job.payload.as_str()))
                div #result data-live="job jobs" {
                    @if let Some(result) = &job.result { h3 { "Result" } (code(result.as_str())) }
                    @if !steps.is_empty() {
                        h3 { "Saved steps" }
                        ul.plain { @for step in &steps { li { details id={ "step-" (step.name) } { summary { (step.name) " " (shown::relative(now, step.at)) } (code(step.result.as_str())) } } } }
                    }
                }
            }
        }
        section.card.flush #attempts-card data-live="job jobs" aria-labelledby="attempts-title" { h2.inset #attempts-title { "Attempts" } (attempts(view, &job, &nodes, now)) }
        section.card.flush aria-labelledby="log-title" {
            div.row-head.inset { h2 #log-title { "Log" } (levels(view, id, level)) a href={ (view.job(id)) "/log.txt" } download { "Download" } }
            div #log data-live="job" { (log.show()) }
        }
    }))
}

fn code(json: &str) -> Markup {
    html! { pre.block tabindex="0" { code { (shown::json(json)) } } }
}

fn actions(view: &View, job: &JobDetail) -> Markup {
    let id = job.view.id;
    let is_waiting = matches!(
        job.view.state,
        JobState::Ready | JobState::Scheduled | JobState::Retrying | JobState::Blocked
    );
    html! {
        div.actions {
            @if matches!(job.view.state, JobState::Failed | JobState::Cancelled) { (shown::button(view, &format!("/ui/act/jobs/{id}/retry"), "Retry", "primary")) }
            @if !job.view.state.is_final() { a.button.danger href={ (view.job(id)) "/cancel" } { "Cancel…" } }
            @if is_waiting {
                details.menu id="move" {
                    summary.button { "Move…" }
                    form method="post" action=(view.to(&format!("/ui/act/jobs/{id}/move"))) {
                        label for="move-queue" { "Queue" } input #move-queue name="queue" placeholder=(job.view.queue);
                        label for="move-priority" { "Priority" } input #move-priority name="priority" inputmode="numeric" placeholder=(job.view.priority);
                        label for="move-due" { "Due (delay or time)" } input #move-due name="due" placeholder="10m or 2027-01-15T08:00:00Z";
                        label for="move-why" { "Reason" } input #move-why name="why";
                        button { "Move" }
                    }
                }
            }
        }
    }
}

/// The parts of a job's life: waiting, working, waiting again.
fn parts(job: &JobDetail, now: Timestamp) -> Vec<(&'static str, String, Timestamp, Timestamp)> {
    let slot = job.view.schedule.and_then(|(_, slot)| slot);
    let start = slot.map_or(job.view.created_at, |slot| slot.min(job.view.created_at));
    let mut parts = Vec::new();
    if start < job.view.created_at {
        parts.push(("calm", "due, not yet created".to_owned(), start, job.view.created_at));
    }
    let mut at = job.view.created_at;
    for attempt in &job.attempts {
        let words = if attempt.attempt == 1 {
            "waited".to_owned()
        } else {
            format!("waited for attempt {}", attempt.attempt)
        };
        parts.push(("wait", words, at, attempt.claimed_at));
        let end = attempt.ended_at.unwrap_or(now);
        let class = match attempt.outcome {
            None => "busy",
            Some(AttemptOutcome::Succeeded) => "good",
            Some(
                AttemptOutcome::Released | AttemptOutcome::Snoozed | AttemptOutcome::Cancelled,
            ) => "calm",
            Some(_) => "bad",
        };
        parts.push((class, format!("attempt {}", attempt.attempt), attempt.claimed_at, end));
        at = end;
    }
    if !job.view.state.is_final() && job.view.state != JobState::Running {
        parts.push(("wait", "waiting".to_owned(), at, now));
    }
    parts
}

fn timeline(job: &JobDetail, now: Timestamp) -> Markup {
    let parts = parts(job, now);
    let whole: Duration = parts.iter().map(|(_, _, from, to)| to.since(*from)).sum();
    let whole = whole.as_secs_f64().max(0.001);
    let mut x = 0.0;
    let placed: Vec<(f64, f64, &str, &str, Duration)> = parts
        .iter()
        .map(|(class, words, from, to)| {
            let length = to.since(*from);
            let width = length.as_secs_f64() / whole * 1_000.0;
            let part = (x, width, *class, words.as_str(), length);
            x += width;
            part
        })
        .collect();
    let end = job.view.finished_at;
    html! {
        svg.life height="22" role="img" aria-label="Time in each state, to scale" {
            svg width="100%" height="22" viewBox="0 0 1000 22" preserveAspectRatio="none" {
                @for (x, width, class, words, length) in &placed {
                    rect class={ "fill " (class) } x=((x * 10.0).round() / 10.0) y=(if *class == "wait" { 8 } else { 2 }) width=((width.max(1.5) * 10.0).round() / 10.0) height=(if *class == "wait" { 6 } else { 18 }) { title { (words) ", " (shown::length(*length)) } }
                }
            }
        }
        ol.life {
            @if let Some((_, Some(slot))) = job.view.schedule { li { span.faint { "due" } " " (shown::absolute(slot)) } }
            li { span.faint { "created" } " " (shown::absolute(job.view.created_at)) }
            @for (_, _, class, words, length) in &placed { li { i class={ "dot " (class) } aria-hidden="true" {} (words) " " b { (shown::length(*length)) } } }
            @if let Some(end) = end { li { span.faint { "finished" } " " (shown::absolute(end)) } }
            @else if let Some(due) = job.view.due_at.filter(|due| *due > now) { li { span.faint { "due" } " " (shown::relative(now, due)) } }
        }
    }
}

fn facts(view: &View, job: &JobDetail, schedule: Option<&Schedule>, now: Timestamp) -> Markup {
    let id = job.view.id;
    html! {
        dl.facts {
            div { dt { "Queue" } dd { a href=(view.queue(&job.view.queue)) { (job.view.queue) } } }
            div { dt { "Priority" } dd { (job.view.priority) } }
            div { dt { "Attempts" } dd { @if job.spent != job.view.attempt { (job.view.attempt) " started, " } (job.spent) " of " (job.view.max_attempts) @if job.spent != job.view.attempt { " counted" } @if job.crashes > 0 { ", " (shown::plural(u64::from(job.crashes), "crash", "crashes")) } } }
            div { dt { "Created" } dd { (shown::absolute(job.view.created_at)) " " span.faint { (shown::relative(now, job.view.created_at)) } } }
            @if let Some((_, slot)) = job.view.schedule {
                div { dt { "Schedule" } dd {
                    @match schedule { Some(schedule) => a href=(view.schedule(&schedule.name)) { (schedule.name) }, None => "deleted schedule" }
                    @match slot { Some(slot) => { ", slot " (shown::absolute(slot)) } None => { ", run manually" } }
                } }
            }
            @if let Some(deadline) = job.expires_at {
                div { dt { "Start deadline" } dd { (shown::absolute(deadline)) " " span.faint { (shown::relative(now, deadline)) } } }
            }
            @if !job.view.tenant.is_empty() { div { dt { "Tenant" } dd { (job.view.tenant) } } }
            @if !job.owner.is_empty() { div { dt { "Owner" } dd { (job.owner) } } }
            @if !job.tags.is_empty() { div { dt { "Tags" } dd { @for tag in &job.tags { span.tag { (tag) } " " } } } }
            @if let Some(trace) = &job.trace { div { dt { "Trace" } dd.mono { (trace) } } }
            div { dt { "CLI" } dd { (shown::copyable(&format!("punctual job show {id}"))) } }
        }
    }
}

fn attempts(view: &View, job: &JobDetail, nodes: &[Node], now: Timestamp) -> Markup {
    if job.attempts.is_empty() {
        return html! { p.faint.inset { "No attempts yet." } };
    }
    let name =
        |id| nodes.iter().find(|node| Some(node.info.id) == id).map(|node| node.info.name.as_str());
    html! {
        div.scroll tabindex="0" role="region" aria-label="Table of attempts" {
            table.list {
                thead { tr { th.num scope="col" { "#" } th scope="col" { "Outcome" } th scope="col" { "Node" } th scope="col" { "Started" } th.num scope="col" { "Duration" } th scope="col" { "Error" } } }
                tbody {
                    @for attempt in &job.attempts {
                        tr id={ "a-" (attempt.attempt) } {
                            td.num { (attempt.attempt) }
                            td { (shown::outcome(attempt.outcome)) }
                            td { @match (name(attempt.node), attempt.node) { (Some(name), _) => a href=(view.to("/nodes")) { (name) }, (None, Some(node)) => span.mono { (super::schedule::short(&node.to_string())) }, (None, None) => "–" } }
                            td.nowrap { (shown::absolute(attempt.claimed_at)) }
                            td.num { (shown::length(attempt.ended_at.unwrap_or(now).since(attempt.claimed_at))) }
                            td { @if let Some(error) = &attempt.error { (error_text(attempt.attempt, error)) } }
                        }
                    }
                }
            }
        }
    }
}

/// The first line of an error, and the rest if somebody asks for it.
fn error_text(attempt: u32, error: &str) -> Markup {
    let (first, rest) = error.split_once('\n').unwrap_or((error, ""));
    html! {
        @if rest.is_empty() && first.chars().count() <= 200 { span.error { (first) } }
        @else { details id={ "e-" (attempt) } { summary.error { (first.chars().take(200).collect::<String>()) } pre.block tabindex="0" { (error) } } }
    }
}
