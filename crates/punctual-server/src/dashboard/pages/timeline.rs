//! Attempts over time, by schedule, queue or node, with what is to come.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use axum::extract::Query;
use maud::html;
use punctual::{Admin, AttemptOutcome, NodeId, Schedule, ScheduleId, SlotRun, Span, Timestamp};

use super::Shown;
use super::schedules::Said;
use crate::dashboard::charts::{self, Mark, Row, Stretch};
use crate::dashboard::show;
use crate::dashboard::view::View;
use crate::fault::Fault;

/// Attempts that are drawn.
const SPANS: usize = 600;
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
}

const WINDOWS: [(&str, u64); 4] = [("15min", 900), ("1h", 3_600), ("6h", 21_600), ("24h", 86_400)];

/// The page.
pub(in crate::dashboard) async fn page(view: View, Query(ask): Query<Ask>) -> Shown {
    let admin = view.admin();
    let now = admin.now().await?;
    let by = ask
        .by
        .as_deref()
        .filter(|by| ["schedule", "queue", "node"].contains(by))
        .unwrap_or("schedule");
    let (window, seconds) = WINDOWS
        .into_iter()
        .find(|(word, _)| Some(*word) == ask.window.as_deref())
        .unwrap_or(WINDOWS[1]);
    let from = now - Duration::from_secs(seconds);
    let to = now + Duration::from_secs(seconds / 4);
    let spans = admin.spans(from, SPANS).await?;
    let is_full = spans.len() == SPANS;
    let spans: Vec<Span> =
        spans.into_iter().filter(|span| span.ended_at.is_none_or(|end| end >= from)).collect();
    let names = Names::read(&admin, &spans).await?;
    let upcoming = if by == "schedule" { admin.upcoming(UPCOMING).await? } else { Vec::new() };
    let skipped = if by == "schedule" { skipped(&admin, &names, from).await? } else { Vec::new() };
    let past = Past { spans: &spans, skipped: &skipped };
    let rows = rows(&view, by, &past, &names, &upcoming, now, to);
    let link = |by: &str, window: &str| view.to(&format!("/timeline?by={by}&window={window}"));
    let running = spans.iter().filter(|span| span.ended_at.is_none()).count();
    Ok(view.page("Timeline", "", html! {
        div.head {
            h1 { "Timeline" }
            div.actions {
                nav.switch aria-label="Rows" { @for choice in ["schedule", "queue", "node"] { a href=(link(choice, window)) aria-current=[(choice == by).then_some("true")] { "by " (choice) } } }
                nav.switch aria-label="Span" { @for (choice, _) in WINDOWS { a href=(link(by, choice)) aria-current=[(choice == window).then_some("true")] { (choice) } } }
            }
        }
        div #timeline data-live="jobs schedules" {
            @if is_full { p.notice.warn { "These are the newest " (SPANS) " attempts; take a shorter span to see them all." } }
            @if rows.is_empty() {
                (show::empty("No attempt in this span.", html! { p { "Take a longer one, or look at " a href=(view.to("/jobs")) { "the newest jobs" } "." } }))
            } @else {
                div.card {
                    p.legend { @for (class, word) in [("good", "succeeded"), ("bad", "failed"), ("busy", "running"), ("calm", "given back or called off"), ("warn", "skipped"), ("wait", "due, not begun"), ("ahead", "to come")] { span { i class=(class) aria-hidden="true" {} (word) } } }
                    (charts::gantt(&rows, from, to, now))
                    p.faint { (show::plural(spans.len() as u64, "attempt", "attempts")) ", " (running) " running." }
                }
                details.card #timeline-table {
                    summary { "The newest of them as a table" }
                    div.scroll tabindex="0" role="region" aria-label="Attempts as a table" {
                        table {
                            thead { tr { th scope="col" { "Kind" } th scope="col" { "Queue" } th scope="col" { "Node" } th scope="col" { "Began" } th.num scope="col" { "Took" } th scope="col" { "Outcome" } } }
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

/// What is drawn of the past.
struct Past<'a> {
    spans: &'a [Span],
    /// Slots that became no job.
    skipped: &'a [SlotRun],
}

/// The newest slots that became no job, of the schedules that are shown.
async fn skipped(admin: &Admin, names: &Names, from: Timestamp) -> Result<Vec<SlotRun>, Fault> {
    let ids: Vec<ScheduleId> = names.schedules.keys().copied().collect();
    let mut runs = admin.recent_slots(&ids, SKIPPED).await?;
    runs.retain(|run| run.slot.slot >= from && !run.slot.outcome.has_job());
    Ok(runs)
}

/// What ids are called.
struct Names {
    schedules: HashMap<ScheduleId, String>,
    nodes: HashMap<NodeId, String>,
}

impl Names {
    /// Those that occur; a schedule takes a read, so that only as many as there are rows are named.
    async fn read(admin: &Admin, spans: &[Span]) -> Result<Names, Fault> {
        let mut schedules = HashMap::new();
        for (id, _) in spans.iter().filter_map(|span| span.schedule) {
            if schedules.len() < ROWS && !schedules.contains_key(&id) {
                let name = admin.schedule_by_id(id).await?.map(|schedule| schedule.name);
                schedules.insert(id, name.unwrap_or_else(|| "a deleted schedule".to_owned()));
            }
        }
        let nodes = admin.nodes().await?;
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
    to: Timestamp,
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
                None => (format!("\u{2063}{} (ordered)", span.kind), None),
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
        let is_paused = schedule.pause.is_some();
        let row = rows
            .entry(schedule.name.clone())
            .or_insert_with(|| new(&schedule.name, Some(view.schedule(&schedule.name))));
        let slots = std::iter::successors(said.spec.next(now), |slot| said.spec.next(*slot));
        let words = if is_paused { "skipped while it is paused" } else { "to come" };
        row.marks.extend(slots.take_while(|slot| *slot < to).take(AHEAD).map(|at| Mark {
            at,
            class: "ahead",
            words: format!("{} · {words}", show::utc(at)),
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
        .map(|due| format!(" · began {} late", show::length(span.claimed_at.since(due))))
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
