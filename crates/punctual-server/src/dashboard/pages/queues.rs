//! Queues: what waits, how fast it goes, and when a queue will be empty.

use std::collections::BTreeMap;
use std::time::Duration;

use maud::{Markup, html};
use punctual::{Admin, Queue, QueueStats, Timestamp};

use super::Shown;
use crate::dashboard::counted::Counted;
use crate::dashboard::series::{Step, by_queue};
use crate::dashboard::view::{View, encoded};
use crate::dashboard::{charts, show};
use crate::fault::Fault;

/// Rows of the table: a browser lays out more of them too slowly.
const ROWS_MAX: usize = 1_000;

/// Everything about one queue.
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) setting: Option<Queue>,
    pub(super) kinds: Vec<QueueStats>,
    pub(super) steps: Vec<Step>,
}

impl Shape {
    pub(super) fn sum(&self, of: fn(&QueueStats) -> u64) -> u64 {
        self.kinds.iter().map(of).sum()
    }

    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.kinds.iter().filter_map(|it| it.oldest_due_at).min()
    }

    /// Attempts that ended in a minute, over the last quarter of an hour that is whole.
    pub(super) fn per_minute(&self) -> f64 {
        let ended = |step: &Step| step.succeeded + step.failed + step.other;
        let whole = self.steps.iter().rev().skip(1).take(3).map(ended).sum::<u64>();
        whole as f64 / 15.0
    }

    /// When nothing waits any more, if it goes on like this.
    pub(super) fn drains_in(&self) -> Option<Duration> {
        let (ready, pace) = (self.sum(|it| it.ready) as f64, self.per_minute());
        (ready > 0.0 && pace > 0.0).then(|| Duration::from_secs_f64(ready / pace * 60.0))
    }

    pub(super) fn is_paused(&self, now: Timestamp) -> bool {
        let pause = self.setting.as_ref().and_then(|it| it.pause.as_ref());
        pause.is_some_and(|pause| pause.is_in_force(now))
    }

    pub(super) fn status(&self, now: Timestamp) -> Markup {
        let is_late = self.oldest().is_some_and(|at| now.since(at) > Duration::from_secs(60));
        match (self.is_paused(now), is_late) {
            (true, _) => show::badge("warn", "❙❙", "paused"),
            (false, true) => show::badge("bad", "!", "late"),
            (false, false) => show::badge("good", "✓", "active"),
        }
    }
}

/// Every queue that has a setting, a job or a count, and the age of the job counts.
async fn shapes(admin: &Admin, now: Timestamp) -> Result<(Vec<Shape>, Markup), Fault> {
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    let new = |name: &str| Shape {
        name: name.to_owned(),
        setting: None,
        kinds: Vec::new(),
        steps: Vec::new(),
    };
    for queue in admin.queues().await? {
        let name = queue.name.clone();
        shapes.entry(name.clone()).or_insert_with(|| new(&name)).setting = Some(queue);
    }
    let counts = Counted::read(admin).await?;
    let note = counts.note(now);
    for it in counts.items {
        let name = it.queue.clone();
        shapes.entry(name.clone()).or_insert_with(|| new(&name)).kinds.push(it);
    }
    for (name, steps) in by_queue(admin, now).await? {
        // Counts that belong to no queue are of no queue.
        if !name.is_empty() {
            shapes.entry(name.clone()).or_insert_with(|| new(&name)).steps = steps;
        }
    }
    Ok((shapes.into_values().collect(), note))
}

/// The page.
pub(in crate::dashboard) async fn page(view: View) -> Shown {
    let admin = view.admin();
    let now = admin.now().await?;
    let (shapes, note) = shapes(&admin, now).await?;
    Ok(view.page("Queues", "", html! {
        div.head {
            h1 { "Queues" }
            div #everything data-live="queues" { (super::everything::links(&view, shapes.iter().any(|shape| shape.is_paused(now)))) }
        }
        div #list data-live="queues jobs stats" { @if shapes.is_empty() { (show::empty("No queues yet.", html! { p { "A queue appears when a job is enqueued, or when the queue is paused or limited." } })) }
        @else {
            div.card.flush {
                div.scroll tabindex="0" role="region" aria-label="Queues" {
                    table.list #queues {
                        thead { tr {
                            th scope="col" { "Name" } th.num scope="col" { "Ready" } th scope="col" { "Oldest due" } th.num scope="col" { "Running" }
                            th.num scope="col" { "Delayed or blocked" } th.num scope="col" { "Failed" } th.num scope="col" { "Attempts/min" } th.num scope="col" { "Empty in" } th scope="col" { "Last hour" } th scope="col" { "Status" }
                        } }
                        tbody data-keyed { @for shape in shapes.iter().take(ROWS_MAX) { (row(&view, now, shape)) } }
                    }
                }
            }
            @if shapes.len() > ROWS_MAX {
                p.notice.warn { "The first " (show::grouped(ROWS_MAX as u64)) " of " (show::grouped(shapes.len() as u64)) " queues." }
            }
            (note)
        } }
    }))
}

fn row(view: &View, now: Timestamp, shape: &Shape) -> Markup {
    let limit = shape.setting.as_ref().and_then(|it| it.limits.max_running);
    let jobs = |state: &str| {
        view.to(&format!("/jobs?q={}", encoded(&format!("state:{state} queue:{}", shape.name))))
    };
    html! {
        tr id={ "q-" (shape.name) } {
            th scope="row" { a href=(view.queue(&shape.name)) { (shape.name) } }
            td.num { a href=(jobs("ready")) { (show::grouped(shape.sum(|it| it.ready))) } }
            td.nowrap { @match shape.oldest() { Some(at) => (show::relative(now, at)), None => "–" } }
            td.num { (show::grouped(shape.sum(|it| it.running))) @if let Some(limit) = limit { " / " (limit) } }
            td.num { (show::grouped(shape.sum(|it| it.scheduled + it.retrying + it.blocked))) }
            td.num { a href=(jobs("failed")) { (show::grouped(shape.sum(|it| it.failed))) } }
            td.num { (format!("{:.1}", shape.per_minute())) }
            td.num { (show::length_or_dash(shape.drains_in())) }
            td { (sparkline(shape)) }
            td { (shape.status(now)) }
        }
    }
}

pub(super) fn sparkline(shape: &Shape) -> Markup {
    let parts: Vec<(u64, u64)> = shape.steps.iter().map(|it| (it.succeeded, it.failed)).collect();
    let (good, bad) = parts.iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
    html! { @if parts.is_empty() { span.faint { "no activity" } } @else { (charts::spark(&parts, &format!("{good} succeeded and {bad} failed in the last hour"))) } }
}
