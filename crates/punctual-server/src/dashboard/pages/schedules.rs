//! All schedules: when, how they went, and what is to come.

use std::collections::HashMap;
use std::time::Duration;

use axum::extract::Query;
use maud::{Markup, html};
use punctual::{Admin, Definition, Schedule, ScheduleId, SlotOutcome, SlotRun, Timestamp};
use punctual_core::schedule::Rule;

use super::Shown;
use crate::dashboard::charts::{self, Cell};
use crate::dashboard::heat::Heat;
use crate::dashboard::show;
use crate::dashboard::view::{View, encoded};
use crate::fault::Fault;
use crate::status::{Status, Wanted, next_event};

/// Schedules of a page.
const PAGE: usize = 50;
/// Schedules that are looked through for those that are asked for.
const LOOKED_AT: usize = 2_000;
/// Slots of a history strip.
const SLOTS: usize = 30;

#[derive(serde::Deserialize)]
pub(in crate::dashboard) struct Ask {
    #[serde(default)]
    q: String,
    #[serde(default)]
    status: String,
    after: Option<String>,
}

/// A status as word, shape and colour.
pub(super) fn badge(status: Status) -> Markup {
    match status {
        Status::Active => show::badge("good", "✓", "active"),
        Status::Late | Status::Unserved | Status::Ahead => show::badge("bad", "!", status.word()),
        Status::Failing(times) => show::badge("bad", "✕", &format!("failing ×{times}")),
        Status::Paused => show::badge("warn", "❙❙", "paused"),
        Status::Aside => show::badge("bad", "✕", status.word()),
        Status::Off | Status::Over => show::badge("faint", "⊘", status.word()),
    }
}

/// What a schedule says, read.
pub(super) struct Said {
    pub(super) definition: Definition,
    pub(super) rule: Rule,
    /// When it is due, in words.
    pub(super) words: String,
}

impl Said {
    pub(super) fn read(schedule: &Schedule) -> Option<Said> {
        let definition = Definition::parse(schedule.spec.as_str()).ok()?;
        let rule = definition.rule(&schedule.name).ok()?;
        let words: Vec<String> = rule.spec.whens().iter().map(|when| when.describe()).collect();
        Some(Said { definition, rule, words: words.join("; ") })
    }
}

/// The 95th percentile of lengths that are few enough to be sorted.
pub(super) fn p95(mut lengths: Vec<Duration>) -> Option<Duration> {
    lengths.sort_unstable();
    let rank = (lengths.len() as f64 * 0.95).ceil() as usize;
    lengths.get(rank.saturating_sub(1)).copied()
}

/// How long after its slot a job began, if that was its first attempt.
pub(super) fn delay(run: &SlotRun) -> Option<Duration> {
    let job = run.run.filter(|job| job.attempt == 1)?;
    (run.slot.outcome == SlotOutcome::Fired)
        .then(|| job.claimed_at.map(|at| at.since(run.slot.slot)))?
}

/// How long its last attempt took.
pub(super) fn took(run: &SlotRun) -> Option<Duration> {
    let job = run.run?;
    Some(job.finished_at?.since(job.claimed_at?))
}

/// The strip of the newest slots.
pub(super) fn history(runs: &[SlotRun]) -> Markup {
    if runs.is_empty() {
        return html! { span.faint { "No slots yet" } };
    }
    let ticks: Vec<(&'static str, String)> = runs
        .iter()
        .rev()
        .map(|run| {
            let (tone, _, words) = show::slot_tone(run);
            (tone, format!("{} · {words}", show::utc(run.slot.slot)))
        })
        .collect();
    let bad = ticks.iter().filter(|(tone, _)| *tone == "bad").count();
    let skipped = ticks.iter().filter(|(tone, _)| *tone == "warn").count();
    let label =
        format!("Last {} slots: {bad} failed or missed, {skipped} skipped or late", ticks.len());
    charts::strip(&ticks, &label)
}

struct Found {
    schedules: Vec<Schedule>,
    next: Option<String>,
}

async fn find(admin: &Admin, ask: &Ask, now: Timestamp) -> Result<Found, Fault> {
    let wanted = Wanted::new(&ask.q, &ask.status);
    let mut found = Found { schedules: Vec::new(), next: None };
    let (mut after, mut looked_at) = (ask.after.clone(), 0);
    let part = if wanted.is_all() { PAGE + 1 } else { 500 };
    loop {
        let page = admin.schedules(after.as_deref(), part).await?;
        let is_last = page.len() < part;
        for schedule in page {
            if found.schedules.len() == PAGE || looked_at == LOOKED_AT {
                found.next = after;
                return Ok(found);
            }
            looked_at += 1;
            after = Some(schedule.name.clone());
            if wanted.has(&schedule, now) {
                found.schedules.push(schedule);
            }
        }
        if is_last {
            return Ok(found);
        }
    }
}

/// The newest slots by schedule.
pub(super) async fn recent(
    admin: &Admin,
    schedules: &[Schedule],
) -> Result<HashMap<ScheduleId, Vec<SlotRun>>, Fault> {
    let ids: Vec<ScheduleId> = schedules.iter().map(|schedule| schedule.id).collect();
    let mut runs: HashMap<ScheduleId, Vec<SlotRun>> = HashMap::new();
    for run in admin.recent_slots(&ids, SLOTS).await? {
        runs.entry(run.schedule).or_default().push(run);
    }
    Ok(runs)
}

/// The page.
pub(in crate::dashboard) async fn page(view: View, Query(ask): Query<Ask>) -> Shown {
    let admin = view.admin();
    let now = admin.now().await?;
    let found = find(&admin, &ask, now).await?;
    let runs = recent(&admin, &found.schedules).await?;
    let heat = view.ui.0.kept.heat(&admin, now).await?;
    let none = Vec::new();
    let table = html! {
        div.scroll tabindex="0" role="region" aria-label="Schedules" {
            table.list #schedules {
                thead { tr {
                    @if !view.is_read_only { th.tick scope="col" { span.hidden { "Select" } } }
                    th scope="col" { "Name" } th scope="col" { "Cadence" } th scope="col" { "Next" } th scope="col" { "Last" }
                    th scope="col" { "Last 30 slots" } th.num scope="col" { "Start delay p95" } th.num scope="col" { "Duration p95" } th scope="col" { "Status" }
                } }
                tbody data-keyed data-hold {
                    @for schedule in &found.schedules { (row(&view, now, schedule, runs.get(&schedule.id).unwrap_or(&none))) }
                }
            }
        }
    };
    Ok(view.page("Schedules", "", html! {
        div.head {
            h1 { "Schedules" }
            form.search method="get" action=(view.to("/schedules")) role="search" {
                label.hidden for="q" { "Search schedules" }
                input #q type="search" name="q" value=(ask.q) placeholder="Name, kind or time zone" data-search;
                label.hidden for="status" { "Status" }
                select #status name="status" {
                    option value="" { "All statuses" }
                    @for word in Status::ASKED { option value=(word) selected[word == ask.status] { (word) } }
                }
                button { "Search" }
            }
        }
        div #list data-live="schedules jobs" { @if found.schedules.is_empty() { (nothing(&view, &ask, found.next.is_some())) }
        @else {
            @if view.is_read_only { div.card.flush { (table) } }
            @else { form.card.flush method="post" action=(view.to("/schedules")) { (many(&view, &ask)) (table) } }
        } }
        @if let Some(next) = &found.next {
            p.pager { a.button href=(view.to(&format!("/schedules?q={}&status={}&after={}", encoded(&ask.q), encoded(&ask.status), encoded(next)))) { "Next page" } }
        }
        @if heat.schedules > 0 { (upcoming(&view, &heat)) }
    }))
}

/// What can be done to those that are ticked, and to all that match.
fn many(view: &View, ask: &Ask) -> Markup {
    html! {
        div.bulk {
            input type="hidden" name="back" value=(view.here);
            label { input type="checkbox" data-all="schedule" hidden; span data-all-label hidden { " Select all on this page" } }
            span.faint data-selected { "Select schedules" }
            label.hidden for="bulk-why" { "Reason" }
            input #bulk-why name="why" placeholder="Reason (to pause)" maxlength="500";
            label.hidden for="bulk-until" { "Duration or end time" }
            input #bulk-until name="until" placeholder="Duration or end time" title="For example 2h or 2027-01-15T08:00:00Z. Empty: until resumed";
            button name="action" value="pause" { "Pause…" }
            button name="action" value="resume" { "Resume" }
        }
        (super::operation::schedule_links(view, &ask.q, &ask.status))
    }
}

fn nothing(view: &View, ask: &Ask, has_more: bool) -> Markup {
    if has_more {
        return show::empty(
            "No matches on this page.",
            html! { p { "Continue on the next page, or change the search." } },
        );
    }
    if !ask.q.is_empty() || !ask.status.is_empty() || ask.after.is_some() {
        return show::empty(
            "No matching schedules.",
            html! { p { a href=(view.to("/schedules")) { "Show all schedules" } } },
        );
    }
    show::empty(
        "No schedules yet.",
        html! {
            p { "Create one:" }
            (show::copyable("punctual schedule create greet --cron '*/5 * * * *' --kind echo"))
            p { "or declare it in code with " code { "Builder::schedule" } ". Check an expression with the " a href=(view.to("/tools/cron")) { "cron tool" } "." }
        },
    )
}

fn row(view: &View, now: Timestamp, schedule: &Schedule, runs: &[SlotRun]) -> Markup {
    let said = Said::read(schedule);
    let status = Status::of(schedule, now, runs);
    let last = runs.first();
    html! {
        tr id={ "s-" (schedule.id) } {
            @if !view.is_read_only { td.tick { input type="checkbox" name="schedule" value=(schedule.name) aria-label={ "Select " (schedule.name) }; } }
            th scope="row" {
                a href=(view.schedule(&schedule.name)) { (schedule.name) }
                @if !schedule.set.is_empty() { div.faint { (schedule.set) } }
            }
            td {
                @match &said {
                    Some(said) => { (said.words) div.faint { code { (said.definition.when.join(" · ")) } " " (said.definition.tz) } }
                    None => span.bad { "Invalid definition" }
                }
            }
            td.nowrap { @match next_event(schedule) { Some(at) => (show::relative(now, at)), None => "–" } }
            td.nowrap {
                @match last {
                    Some(run) => {
                        @let (tone, shape, words) = show::slot_tone(run);
                        (show::badge(tone, shape, &words)) " "
                        span.faint { (show::relative(now, run.slot.slot)) }
                    }
                    None => "–"
                }
            }
            td { (history(runs)) }
            td.num { (show::length_or_dash(p95(runs.iter().filter_map(delay).collect()))) }
            td.num { (show::length_or_dash(p95(runs.iter().filter_map(took).collect()))) }
            td { (badge(status)) }
        }
    }
}

/// What is to come, by hour of the week and by minute of the hour.
fn upcoming(view: &View, heat: &Heat) -> Markup {
    let most = heat.hours.iter().copied().max().unwrap_or(0);
    // The rows are days of UTC: the first begins before now, the last ends within the eighth.
    let midnight = heat.from.floor_seconds().div_euclid(86_400) * 86_400;
    let first = (heat.from.floor_seconds() - midnight) / 3_600;
    let first = usize::try_from(first).unwrap_or(0);
    let day_of = |day: usize, hour: usize| {
        let hours = u32::try_from(day * 24 + hour).unwrap_or(0);
        Timestamp::from_seconds(midnight) + Duration::from_secs(3_600) * hours
    };
    let rows: Vec<(String, Vec<Cell>)> = (0..8)
        .map(|day| {
            let name = day_of(day, 0).to_jiff().strftime("%a %d").to_string();
            let cell = |hour: usize| {
                let index = (day * 24 + hour).checked_sub(first);
                match index.and_then(|index| heat.hours.get(index)) {
                    None => Cell { class: "off", ..Cell::default() },
                    Some(count) => Cell {
                        class: level(*count, most),
                        words: format!(
                            "{name} {hour:02}:00 UTC, {}",
                            show::plural(*count, "slot", "slots")
                        ),
                        link: (*count > 0).then(|| super::upcoming::place(view, day_of(day, hour))),
                    },
                }
            };
            let cells = (0..24).map(cell).collect();
            (name, cells)
        })
        .filter(|(_, cells): &(String, Vec<Cell>)| cells.iter().any(|cell| cell.class != "off"))
        .collect();
    let total: u64 = heat.hours.iter().sum();
    html! {
        section.card #upcoming aria-labelledby="upcoming-title" {
            div.row-head {
                h2 #upcoming-title { "Upcoming slots, next 7 days" }
                span.faint {
                    (show::grouped(total)) " slots of " (show::plural(heat.schedules as u64, "schedule", "schedules")) ", at most " (show::grouped(most)) " per hour (UTC)"
                    @if heat.has_more { "; some schedules are not included" }
                }
            }
            (charts::cells("heat", "Upcoming slots by day and hour", &rows))
            p { a href=(super::upcoming::place(view, heat.from)) { "Show slots by hour" } }
            h3 { "By minute of the hour, next 24 hours" }
            (charts::minutes(&heat.minutes))
        }
    }
}

fn level(count: u64, most: u64) -> &'static str {
    if count == 0 {
        return "h0";
    }
    let share = (count as f64 / most.max(1) as f64).sqrt();
    ["h1", "h2", "h3", "h4", "h5"][((share * 5.0).ceil() as usize).clamp(1, 5) - 1]
}
