//! One schedule: what is to come, what became of its slots, and how it came to be as it is.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Path, Query};
use maud::{Markup, html};
use punctual::{RevisionView, Schedule, SlotCursor, SlotRun, SlotView, Timestamp};
use punctual_core::schedule::Rule;
use punctual_core::{ClockChange, Spec};

use super::Shown;
use super::schedules::{Said, badge, delay, took};
use crate::dashboard::charts::{self, Cell, Frame};
use crate::dashboard::show;
use crate::dashboard::view::View;
use crate::fault::Fault;
use crate::status::Status;

/// Slots that are drawn.
const DRAWN: usize = 500;
/// Slots of a page of the ledger.
const LEDGER: usize = 30;
/// Revisions that are shown.
const REVISIONS: usize = 20;
/// Days of the calendar.
const DAYS: usize = 14;

#[derive(serde::Deserialize)]
pub(in crate::dashboard) struct Ask {
    /// Where the ledger goes on.
    slots: Option<String>,
}

fn read_cursor(text: &str) -> Option<SlotCursor> {
    let (slot, run) = text.split_once('.')?;
    Some(SlotCursor(Timestamp::from_micros(slot.parse().ok()?), run.parse().ok()?))
}

/// The page.
pub(in crate::dashboard) async fn page(
    view: View,
    Path(name): Path<String>,
    Query(ask): Query<Ask>,
) -> Shown {
    let admin = view.admin();
    let now = admin.now().await?;
    let schedule = admin.schedule(&name).await?;
    let said = Said::read(&schedule);
    let runs = admin.recent_slots(&[schedule.id], DRAWN).await?;
    let after = match ask.slots.as_deref() {
        None => None,
        Some(text) => Some(
            read_cursor(text)
                .ok_or_else(|| Fault::unreadable("slots", format!("invalid cursor `{text}`")))?,
        ),
    };
    let ledger = admin.slots(&name, after, LEDGER).await?;
    let revisions = admin.revisions(&name, None, REVISIONS).await?.items;
    let why = admin.why_schedule(&name).await?;
    let status = Status::of(&schedule, now, &runs);
    Ok(view.page(&schedule.name, "", html! {
        div.head {
            div {
                p.crumbs { a href=(view.to("/schedules")) { "Schedules" } " /" }
                h1 { (schedule.name) " " span #status data-live="schedules jobs" { (badge(status)) } }
                @if let Some(said) = &said { p.lead { (sentence_of(&said.words)) " " span.faint { (said.definition.tz) } } }
            }
            @if !view.is_read_only { (actions(&view, &schedule, status)) }
        }
        section.card.why #why data-live="schedules jobs" aria-label="Status" {
            (show::why(&why))
        }
        div.two {
            section.card #next-slots data-live="schedules" aria-labelledby="next-slots-title" {
                h2 #next-slots-title { "Next 10 slots" }
                @match &said { Some(said) => (next_ten(&said.rule.spec, Some(&said.rule), now)), None => p.bad { "Invalid definition. No slots can be computed." } }
            }
            section.card #calendar-card data-live="schedules jobs" aria-labelledby="calendar-title" {
                h2 #calendar-title { "Slots by day and hour" }
                (calendar(&runs, now))
            }
        }
        @if !runs.is_empty() {
            div.two #plots data-live="schedules jobs" {
                div.card { (duration_plot(&runs)) }
                div.card { (delay_plot(&runs)) }
            }
        }
        section.card.flush #ledger-card aria-labelledby="ledger-title" {
            h2.inset #ledger-title { "Ledger: slots and their outcomes" }
            (ledger_table(&view, now, &runs, &ledger.items))
            @if let Some(SlotCursor(slot, run)) = ledger.next {
                p.pager { a.button href=(format!("{}?slots={}.{run}", view.schedule(&name), slot.as_micros())) { "Older slots" } }
            }
        }
        section.card #revisions aria-labelledby="revisions-title" {
            h2 #revisions-title { "Revisions" }
            (revision_list(now, &revisions))
        }
    }))
}

fn sentence_of(words: &str) -> String {
    crate::dashboard::view::sentence(words)
}

fn actions(view: &View, schedule: &Schedule, status: Status) -> Markup {
    let action = |what: &str| {
        format!("/ui/act/schedules/{}/{what}", crate::dashboard::view::encoded(&schedule.name))
    };
    html! {
        div.actions {
            (show::button(view, &action("run"), "Run now", "primary"))
            @match status {
                Status::Off | Status::Aside => (show::button(view, &action("enable"), "Enable", "")),
                Status::Paused => (show::button(view, &action("resume"), "Resume", "")),
                Status::Ahead => (show::button(view, &action("realign"), "Realign", "")),
                _ => a.button href={ (view.schedule(&schedule.name)) "/pause" } { "Pause…" },
            }
        }
    }
}

/// The next slots as the clocks show them, with what a change of the clocks does to them.
pub(super) fn next_ten(spec: &Spec, rule: Option<&Rule>, now: Timestamp) -> Markup {
    let slots: Vec<Timestamp> =
        std::iter::successors(spec.next(now), |slot| spec.next(*slot)).take(10).collect();
    let Some(last) = slots.last() else {
        return html! { p.bad { "No upcoming slots: " (spec.never_fires(now).unwrap_or_else(|| "the last slot has passed".to_owned())) "." } };
    };
    let day = Duration::from_secs(86_400);
    let changes: Vec<ClockChange> = spec.clock_changes(now - day, *last + day).collect();
    let is_utc = spec.zone().name() == "UTC";
    html! {
        div.scroll tabindex="0" role="region" aria-label="Next slots" {
            table {
                thead { tr { th scope="col" { "Due" } @if !is_utc { th scope="col" { (spec.zone().name()) } } th scope="col" { "UTC" } th scope="col" { span.mine { "Local time" } } } }
                tbody {
                    @for slot in &slots {
                        tr {
                            td.nowrap { (show::relative(now, *slot)) }
                            @if !is_utc { td.nowrap { (show::in_zone(*slot, spec.zone())) } }
                            td.nowrap { (slot.to_jiff().strftime("%a %Y-%m-%d %H:%M:%S").to_string()) }
                            td.nowrap { time datetime=(slot) data-mine { "–" } }
                        }
                        @if let Some(note) = rule.and_then(|rule| excluded(rule, *slot)) {
                            tr.note { td colspan="4" { span.shape aria-hidden="true" { "⊘" } " " (note) } }
                        }
                        @if let Some(note) = changes.iter().find_map(|change| note(spec, change, *slot)) {
                            tr.note { td colspan="4" { span.shape aria-hidden="true" { "!" } " " (note) } }
                        }
                    }
                }
            }
        }
        @for warning in spec.warnings(now) { p.notice.warn { (sentence_of(&warning)) } }
    }
}

/// That a slot does not fire or was moved, if a calendar has a say.
fn excluded(rule: &Rule, slot: Timestamp) -> Option<String> {
    if rule.is_excluded(slot) {
        let moved = rule.moved(slot).map(|moved| format!(", {moved}")).unwrap_or_default();
        return Some(format!("excluded{moved}"));
    }
    let from = rule.spec.moved_from(slot)?;
    Some(format!("moved from {}", show::in_zone(from, rule.spec.zone())))
}

fn note(spec: &Spec, change: &ClockChange, slot: Timestamp) -> Option<String> {
    let clock = |at: jiff::civil::DateTime| at.strftime("%H:%M").to_string();
    let local = spec.zone().local(slot);
    if change.is_forward() {
        let missing = change.missing.filter(|_| slot == change.at)?;
        return Some(format!(
            "{} does not exist on this day: clocks go forward from {} to {}",
            clock(missing),
            clock(change.from),
            clock(change.to)
        ));
    }
    change.repeats(local).then(|| {
        let which = if slot < change.at { "first" } else { "second" };
        format!(
            "{which} of two {} on this day: clocks go back from {} to {}",
            clock(local),
            clock(change.from),
            clock(change.to)
        )
    })
}

/// The worst that became of the slots of each hour.
fn calendar(runs: &[SlotRun], now: Timestamp) -> Markup {
    const ORDER: [&str; 6] = ["calm", "busy", "good", "faint", "warn", "bad"];
    let rank = |class: &str| ORDER.iter().position(|it| *it == class).unwrap_or(0);
    let today = now.floor_seconds().div_euclid(86_400);
    let mut hours: BTreeMap<(i64, usize), (&'static str, u64)> = BTreeMap::new();
    for run in runs {
        let seconds = run.slot.slot.floor_seconds();
        let hour = usize::try_from(seconds.rem_euclid(86_400) / 3_600).unwrap_or(0);
        let (tone, ..) = show::slot_tone(run);
        let cell = hours.entry((seconds.div_euclid(86_400), hour)).or_insert((tone, 0));
        cell.1 += run.slot.count;
        if rank(tone) > rank(cell.0) {
            cell.0 = tone;
        }
    }
    let Some(oldest) = hours.keys().next().map(|(day, _)| *day) else {
        return html! { p.faint { "No slots yet." } };
    };
    let first = oldest.max(today - DAYS as i64 + 1);
    let rows: Vec<(String, Vec<Cell>)> = (first..=today)
        .rev()
        .map(|day| {
            let name =
                Timestamp::from_seconds(day * 86_400).to_jiff().strftime("%a %d").to_string();
            let cell = |hour: usize| match hours.get(&(day, hour)) {
                None => Cell { class: "h0", ..Cell::default() },
                Some((tone, count)) => Cell {
                    class: tone,
                    words: format!(
                        "{name} {hour:02}:00 UTC, {count} slots, worst: {}",
                        worst(tone)
                    ),
                    link: None,
                },
            };
            let cells = (0..24).map(cell).collect();
            (name, cells)
        })
        .collect();
    html! {
        (charts::cells("calendar", "Slots by day and hour, by the worst outcome", &rows))
        p.legend.below { @for (class, word) in [("good", "succeeded"), ("warn", "skipped or late"), ("bad", "failed or missed"), ("calm", "running or waiting")] { span { i class=(class) aria-hidden="true" {} (word) } } }
        @if runs.len() == DRAWN { p.faint { "Based on the last " (DRAWN) " slots (UTC)." } }
    }
}

fn worst(tone: &str) -> &'static str {
    match tone {
        "bad" => "failed or missed",
        "warn" => "skipped or late",
        "faint" => "cancelled",
        "good" => "succeeded",
        _ => "running or waiting",
    }
}

/// Slots that a plot shows: as many as can be told apart.
const BARS: usize = 60;

fn duration_plot(runs: &[SlotRun]) -> Markup {
    let mut dots: Vec<_> = runs
        .iter()
        .filter_map(|run| {
            let (tone, _, words) = show::slot_tone(run);
            let length = took(run)?;
            Some((
                run.slot.slot,
                length,
                tone,
                format!(
                    "{} · duration {} · {words}",
                    show::utc(run.slot.slot),
                    show::length(length)
                ),
            ))
        })
        .take(BARS)
        .collect();
    dots.reverse();
    let longest = dots.iter().map(|(_, length, ..)| *length).max();
    let finding = longest.map_or_else(
        || "No finished jobs yet.".to_owned(),
        |it| format!("Longest duration of the last {} jobs: {}.", dots.len(), show::length(it)),
    );
    let rows =
        dots.iter().map(|(at, length, ..)| vec![show::utc(*at), show::length(*length)]).collect();
    charts::dots(
        &Frame {
            id: "durations",
            title: "Job duration",
            finding,
            legend: &[],
            columns: &["Slot", "Duration"],
            rows,
        },
        &dots,
    )
}

fn delay_plot(runs: &[SlotRun]) -> Markup {
    let mut dots: Vec<_> = runs
        .iter()
        .filter_map(|run| {
            let length = delay(run)?;
            let tone = if length > super::overview::ON_TIME { "warn" } else { "accent" };
            Some((
                run.slot.slot,
                length,
                tone,
                format!("{} · started {} late", show::utc(run.slot.slot), show::length(length)),
            ))
        })
        .take(BARS)
        .collect();
    dots.reverse();
    let longest = dots.iter().map(|(_, length, ..)| *length).max();
    let finding = longest.map_or_else(
        || "No started jobs yet.".to_owned(),
        |it| format!("Largest start delay of the last {} jobs: {}.", dots.len(), show::length(it)),
    );
    let rows =
        dots.iter().map(|(at, length, ..)| vec![show::utc(*at), show::length(*length)]).collect();
    charts::dots(
        &Frame {
            id: "delays",
            title: "Start delay",
            finding,
            legend: &[],
            columns: &["Slot", "Start delay"],
            rows,
        },
        &dots,
    )
}

fn ledger_table(view: &View, now: Timestamp, runs: &[SlotRun], slots: &[SlotView]) -> Markup {
    if slots.is_empty() {
        return show::empty(
            "No slots yet.",
            html! { p { "Slots appear here when they are due." } },
        );
    }
    let run_of = |slot: &SlotView| {
        runs.iter().find(|run| run.slot.slot == slot.slot && run.slot.run == slot.run)
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="Ledger" {
            table.list #ledger data-live="schedules jobs" {
                thead { tr { th scope="col" { "Slot" } th scope="col" { "Outcome" } th scope="col" { "Reason" } th scope="col" { "Job" } th.num scope="col" { "Start delay" } th.num scope="col" { "Duration" } } }
                tbody data-keyed {
                    @for slot in slots {
                        @let run = run_of(slot);
                        @let fallback = SlotRun { schedule: punctual::ScheduleId::from_bytes([0; 16]), slot: slot.clone(), run: None };
                        @let (tone, shape, words) = show::slot_tone(run.unwrap_or(&fallback));
                        tr id={ "l-" (slot.slot.as_micros()) "-" (slot.run) } {
                            td.nowrap { (show::absolute(slot.slot)) @if let Some(end) = slot.end { " – " (show::absolute(end)) } " " span.faint { (show::relative(now, slot.slot)) } }
                            td { (show::badge(tone, shape, &words)) @if slot.count > 1 { " ×" (slot.count) } }
                            td { (slot.reason.as_deref().unwrap_or("")) }
                            td { @if let Some(job) = slot.job { a href=(view.job(job)) { (short(&job.to_string())) } } }
                            td.num { (show::length_or_dash(run.and_then(delay))) }
                            td.num { (show::length_or_dash(run.and_then(took))) }
                        }
                    }
                }
            }
        }
    }
}

/// The end of an id, which is what differs.
pub(super) fn short(id: &str) -> String {
    format!("…{}", &id[id.len().saturating_sub(8)..])
}

/// Each revision with what it changed, line by line.
fn revision_list(now: Timestamp, revisions: &[RevisionView]) -> Markup {
    html! {
        @for (index, revision) in revisions.iter().enumerate() {
            @let before = revisions.get(index + 1).map(|before| show::json(before.spec.as_str()));
            details id={ "r-" (revision.revision) } open[index == 0] {
                summary { "Revision " (revision.revision) " by " b { (revision.who) } " " (show::relative(now, revision.at)) @if !revision.why.is_empty() { ": “" (revision.why) "”" } }
                pre.diff tabindex="0" {
                    @for (mark, line) in diff(before.as_deref(), &show::json(revision.spec.as_str())) {
                        span class=(match mark { '+' => "added", '-' => "gone", _ => "same" }) { (mark) " " (line) "\n" }
                    }
                }
            }
        }
    }
}

/// The lines of a text, with those that came and those that went.
fn diff(before: Option<&str>, after: &str) -> Vec<(char, String)> {
    let Some(before) = before else {
        return after.lines().map(|line| (' ', line.to_owned())).collect();
    };
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    // Definitions have some twenty lines; one with a payload of thousands is shown as it is.
    if old.len() * new.len() > 250_000 {
        return new.iter().map(|line| (' ', (*line).to_owned())).collect();
    }
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((' ', new[j].to_owned()));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]
        {
            lines.push(('-', old[i].to_owned()));
            i += 1;
        } else {
            lines.push(('+', new[j].to_owned()));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_tells_what_came_and_what_went() {
        let told = |before: &str, after: &str| {
            diff(Some(before), after)
                .into_iter()
                .map(|(mark, line)| format!("{mark}{line}"))
                .collect::<Vec<_>>()
                .join(",")
        };
        assert_eq!(told("a\nb\nc", "a\nx\nc"), " a,-b,+x, c");
        assert_eq!(told("a", "a\nb"), " a,+b");
        assert_eq!(told("a\nb", "b"), "-a, b");
    }
}
