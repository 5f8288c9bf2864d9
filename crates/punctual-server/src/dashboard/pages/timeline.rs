//! Attempts over time, by schedule, queue or node, with what is to come.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use axum::extract::Query;
use maud::{Markup, html};
use punctual::{
    Admin, AttemptOutcome, ErrorKind, Node, NodeId, Schedule, ScheduleId, SlotCursor, SlotRun,
    Span, Timestamp,
};

use super::schedules::Said;
use super::{Shown, too_slow};
use crate::dashboard::charts::{self, Mark, Row, Scale, Stretch};
use crate::dashboard::load::{Deploy, deploys, levels};
use crate::dashboard::range::{Range, WINDOWS, field};
use crate::dashboard::series::Window;
use crate::dashboard::show;
use crate::dashboard::view::View;
use crate::fault::Fault;

/// Attempts that are counted.
const SPANS: usize = 2_000;
/// Attempts that are drawn as bars, the newest ones.
const BARS: usize = 600;
/// Jobs that were ordered so long before a stretch are looked at, too: their attempts may lie in it.
const BEFORE: Duration = Duration::from_secs(3_600);
/// Rows that are drawn.
const ROWS: usize = 40;
/// Slots to come that a row shows.
const AHEAD: usize = 40;
/// Slots of a schedule that are looked through for those that became no job.
const SKIPPED: usize = 50;
/// Schedules without an attempt in the span that are shown for what is to come.
const UPCOMING: usize = 12;
/// Attempts of the table.
const TABLE: usize = 50;

#[derive(serde::Deserialize)]
pub(in crate::dashboard) struct Ask {
    by: Option<String>,
    window: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

/// The page.
pub(in crate::dashboard) async fn page(view: View, Query(ask): Query<Ask>) -> Shown {
    let admin = view.admin();
    let now = admin.now().await?;
    let by = ask
        .by
        .as_deref()
        .filter(|by| ["schedule", "queue", "node"].contains(by))
        .unwrap_or("schedule");
    let range = Range::read(ask.window.as_deref(), ask.from.as_deref(), ask.to.as_deref(), now)?;
    let spans = admin.spans(range.from - BEFORE, range.to, SPANS).await;
    let spans = spans.map_err(|error| too_slow(error, "choose a shorter time range"))?;
    let is_full = spans.len() == SPANS;
    let is_shown = |span: &Span| range.holds(span.claimed_at, span.ended_at);
    let spans: Vec<Span> = spans.into_iter().filter(is_shown).collect();
    let levels = levels(&spans, &range, now);
    let nodes = admin.nodes().await?;
    let deploys = deploys(&nodes, &range);
    let drawn = &spans[..spans.len().min(BARS)];
    let names = Names::read(&admin, drawn, nodes).await?;
    let is_by_schedule = by == "schedule";
    let upcoming = if is_by_schedule { admin.upcoming(UPCOMING).await? } else { Vec::new() };
    let skipped =
        if is_by_schedule { skipped(&admin, &names, &range, now).await? } else { Vec::new() };
    let past = Past { spans: drawn, skipped: &skipped };
    let rows = rows(&view, by, &past, &names, &upcoming, now, &range);
    let running = spans.iter().filter(|span| span.ended_at.is_none()).count();
    let link = view.to(&format!("/timeline?by={by}"));
    let scale = Scale { range, now, levels: &levels, deploys: &deploys, link: &link };
    Ok(view.page("Timeline", "", html! {
        div.head {
            h1 { "Timeline" }
            (controls(&view, by, &range, now))
        }
        div #timeline data-live="jobs schedules" {
            div.card #strips { (context(&view, by, &admin, &range, now).await?) }
            @if is_full || drawn.len() < spans.len() {
                p.notice.warn {
                    @if is_full { "Only the newest " (show::grouped(SPANS as u64)) " attempts are counted. " }
                    "Only the newest " (drawn.len()) " attempts are drawn. Choose a shorter range to see all."
                }
            }
            @if rows.is_empty() {
                (show::empty("No attempts in this range.", html! { p { "Choose a longer range, or see " a href=(view.to("/jobs")) { "the newest jobs" } "." } }))
            } @else {
                div.card {
                    p.legend { @for (class, word) in [("good", "succeeded"), ("bad", "failed"), ("busy", "running"), ("calm", "released, snoozed or cancelled"), ("warn", "skipped"), ("wait", "waiting"), ("ahead", "upcoming")] { span { i class=(class) aria-hidden="true" {} (word) } } }
                    (charts::gantt(&rows, &scale))
                    p.faint { (show::plural(spans.len() as u64, "attempt", "attempts")) ", " (running) " running." }
                    (joined(&deploys))
                }
                details.card #timeline-table {
                    summary { "Show the newest attempts as a table" }
                    div.scroll tabindex="0" role="region" aria-label="Attempts as a table" {
                        table {
                            thead { tr { th scope="col" { "Kind" } th scope="col" { "Queue" } th scope="col" { "Node" } th scope="col" { "Started" } th.num scope="col" { "Duration" } th scope="col" { "Outcome" } } }
                            tbody {
                                @for span in spans.iter().take(TABLE) {
                                    tr {
                                        td { a href=(view.job(span.job)) { (span.kind) } }
                                        td { (span.queue) }
                                        td { (names.node(span.node)) }
                                        td.nowrap { (show::absolute(span.claimed_at)) }
                                        td.num { (show::length(span.ended_at.unwrap_or(now).since(span.claimed_at))) }
                                        td { (show::outcome(span.outcome)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }))
}

/// Rows by what, and which stretch: links and a form, so that no script is needed.
fn controls(view: &View, by: &str, range: &Range, now: Timestamp) -> Markup {
    let link = |by: &str, query: &str| view.to(&format!("/timeline?by={by}&{query}"));
    let way = |words: &str, to: Option<Range>| {
        html! {
            @if let Some(to) = to { a href=(link(by, &to.query())) { (words) } }
        }
    };
    html! {
        div.actions {
            nav.switch aria-label="Rows" { @for (choice, words) in [("schedule", "Schedules"), ("queue", "Queues"), ("node", "Nodes")] { a href=(link(choice, &range.query())) aria-current=[(choice == by).then_some("true")] { (words) } } }
            nav.switch aria-label="Time range up to now" { @for (choice, _) in WINDOWS { a href=(link(by, &format!("window={choice}"))) aria-current=[(Some(choice) == range.window).then_some("true")] { (choice) } } }
            nav.switch #zoom aria-label="Move or zoom" {
                (way("Earlier", Some(range.earlier())))
                (way("Later", range.later(now)))
                (way("Zoom in", range.closer()))
                (way("Zoom out", range.wider()))
            }
            form.range method="get" action=(view.to("/timeline")) {
                input type="hidden" name="by" value=(by);
                label for="from" { "From" }
                input #from type="datetime-local" step="1" name="from" value=(field(range.from));
                label for="to" { "to" }
                input #to type="datetime-local" step="1" name="to" value=(field(range.to));
                span.faint { "UTC" }
                button { "Show" }
            }
        }
    }
}

/// What ended over the last day or week, with the stretch that is shown marked in it.
async fn context(
    view: &View,
    by: &str,
    admin: &Admin,
    range: &Range,
    now: Timestamp,
) -> Result<Markup, Fault> {
    let (window, name) = match range.from + Duration::from_secs(86_400) >= now {
        true => (Window::Day, "last 24 h"),
        false => (Window::Week, "last 7 days"),
    };
    let steps = view.ui.0.kept.steps(admin, now, window).await?;
    // They may have been kept for a moment.
    let (minutes, count) = window.steps();
    let from = steps.first().map_or(now, |step| step.at);
    let to = from + Duration::from_secs(u64::from(minutes) * 60) * count;
    let whole = Range { from, to, window: None };
    let link = view.to(&format!("/timeline?by={by}"));
    let to = |range: &Range| format!("{link}&{}", range.query());
    Ok(html! {
        p.faint { "Finished attempts, " (name) "; failed attempts in red. Drag across a strip to zoom in." }
        (charts::density(name, &steps, &whole, range, &link, to))
    })
}

/// The new versions in words, for whoever does not see the lines.
fn joined(deploys: &[Deploy]) -> Markup {
    html! {
        @if !deploys.is_empty() {
            ul.plain.deploys {
                @for deploy in deploys { li { i.deploy aria-hidden="true" {} "Version " b { (deploy.version) } " started on " (deploy.node) " at " (show::absolute(deploy.at)) } }
            }
        }
    }
}

/// What is drawn of the past.
struct Past<'a> {
    spans: &'a [Span],
    /// Slots that became no job.
    skipped: &'a [SlotRun],
}

/// The newest slots of a stretch that became no job, of the schedules that are shown.
async fn skipped(
    admin: &Admin,
    names: &Names,
    range: &Range,
    now: Timestamp,
) -> Result<Vec<SlotRun>, Fault> {
    let mut runs = Vec::new();
    if range.to >= now {
        let ids: Vec<ScheduleId> = names.schedules.keys().copied().collect();
        runs = admin.recent_slots(&ids, SKIPPED).await?;
    } else {
        // The newest slots of all are not those of a stretch that is over: each ledger is read from its
        // end on.
        for (id, name) in &names.schedules {
            let end = Some(SlotCursor(range.to, i32::MAX));
            let page = match admin.slots(name, end, SKIPPED).await {
                Ok(page) => page,
                // It was deleted, or renamed, meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            let slots = page.items.into_iter();
            runs.extend(slots.map(|slot| SlotRun { schedule: *id, slot, run: None }));
        }
    }
    runs.retain(|run| run.slot.slot >= range.from && !run.slot.outcome.has_job());
    Ok(runs)
}

/// What ids are called.
struct Names {
    schedules: HashMap<ScheduleId, String>,
    nodes: HashMap<NodeId, String>,
}

impl Names {
    /// Those that occur; a schedule takes a read, so that only as many as there are rows are named.
    async fn read(admin: &Admin, spans: &[Span], nodes: Vec<Node>) -> Result<Names, Fault> {
        let mut schedules = HashMap::new();
        for (id, _) in spans.iter().filter_map(|span| span.schedule) {
            if schedules.len() < ROWS && !schedules.contains_key(&id) {
                let name = admin.schedule_by_id(id).await?.map(|schedule| schedule.name);
                schedules.insert(id, name.unwrap_or_else(|| "deleted schedule".to_owned()));
            }
        }
        let nodes = nodes.into_iter().map(|node| (node.info.id, node.info.name)).collect();
        Ok(Names { schedules, nodes })
    }

    fn node(&self, id: Option<NodeId>) -> String {
        let name = id.and_then(|id| self.nodes.get(&id).cloned());
        name.or(id.map(|id| super::schedule::short(&id.to_string())))
            .unwrap_or_else(|| "–".to_owned())
    }
}

fn rows(
    view: &View,
    by: &str,
    past: &Past<'_>,
    names: &Names,
    upcoming: &[Schedule],
    now: Timestamp,
    range: &Range,
) -> Vec<Row> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let new = |name: &str, link: Option<String>| Row {
        name: name.to_owned(),
        link,
        stretches: Vec::new(),
        marks: Vec::new(),
    };
    for span in past.spans {
        let (name, link) = match by {
            "queue" => (span.queue.clone(), Some(view.queue(&span.queue))),
            "node" => (names.node(span.node), Some(view.to("/nodes"))),
            _ => match span.schedule.and_then(|(id, _)| names.schedules.get(&id)) {
                Some(name) => (name.clone(), Some(view.schedule(name))),
                // After all names.
                None => (format!("\u{2063}{} (no schedule)", span.kind), None),
            },
        };
        let row = rows
            .entry(name.clone())
            .or_insert_with(|| new(name.trim_start_matches('\u{2063}'), link));
        row.stretches.push(stretch(view, span, now));
    }
    for run in past.skipped {
        let row = names.schedules.get(&run.schedule).and_then(|name| rows.get_mut(name));
        let Some(row) = row else { continue };
        let (class, _, words) = show::slot_tone(run);
        let words = format!("{} · {words}", show::utc(run.slot.slot));
        row.marks.push(Mark { at: run.slot.slot, class, words });
    }
    for schedule in upcoming {
        let Some(said) = Said::read(schedule) else { continue };
        let first = said.rule.next(now.max(range.from)).filter(|slot| *slot < range.to);
        // One that has nothing in this stretch would be an empty row.
        if first.is_none() && range.window.is_none() {
            continue;
        }
        let row = rows
            .entry(schedule.name.clone())
            .or_insert_with(|| new(&schedule.name, Some(view.schedule(&schedule.name))));
        let slots = std::iter::successors(first, |slot| said.rule.next(*slot));
        row.marks.extend(slots.take_while(|slot| *slot < range.to).take(AHEAD).map(|at| {
            let is_paused = schedule.is_paused(at);
            let words = if is_paused { "skipped while paused" } else { "upcoming" };
            Mark { at, class: "ahead", words: format!("{} · {words}", show::utc(at)) }
        }));
    }
    rows.into_values().take(ROWS).collect()
}

fn stretch(view: &View, span: &Span, now: Timestamp) -> Stretch {
    let class = match span.outcome {
        None => "busy",
        Some(AttemptOutcome::Succeeded) => "good",
        Some(AttemptOutcome::Released | AttemptOutcome::Snoozed | AttemptOutcome::Cancelled) => {
            "calm"
        }
        Some(_) => "bad",
    };
    let took = span.ended_at.unwrap_or(now).since(span.claimed_at);
    let outcome = span.outcome.map_or("running", |outcome| outcome.as_str()).replace('_', " ");
    let due = span.schedule.and_then(|(_, slot)| slot).filter(|_| span.attempt == 1);
    let late = due
        .map(|due| format!(" · started {} late", show::length(span.claimed_at.since(due))))
        .unwrap_or_default();
    Stretch {
        from: span.claimed_at,
        to: span.ended_at,
        due,
        class,
        words: format!(
            "{} · attempt {} · {outcome} · {}{late} · {}",
            span.kind,
            span.attempt,
            show::length(took),
            show::utc(span.claimed_at)
        ),
        link: view.job(span.job),
    }
}
