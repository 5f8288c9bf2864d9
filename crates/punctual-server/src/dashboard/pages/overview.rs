//! Is everything on time?

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::Query;
use maud::{Markup, html};
use punctual::doctor::Severity;
use punctual::{JobFilter, JobState, JobView, Node, QueueStats, Schedule, Timestamp};
use punctual_core::histogram;

use super::{Shown, first_steps};
use crate::dashboard::charts::{self, Bar, Frame, Line};
use crate::dashboard::counted::Counted;
use crate::dashboard::series::{Step, Window, total};
use crate::dashboard::show;
use crate::dashboard::view::{View, encoded, prose};
use crate::fault::Fault;
use crate::status::next_event;

/// A slot whose job begins within this is on time.
pub(super) const ON_TIME: Duration = Duration::from_secs(5);
/// Failed jobs that are sorted by what went wrong.
const FAILED_MAX: usize = 500;

#[derive(serde::Deserialize)]
pub(in crate::dashboard) struct Ask {
    window: Option<String>,
}

/// The page.
pub(in crate::dashboard) async fn page(view: View, Query(ask): Query<Ask>) -> Shown {
    let admin = view.admin();
    let now = admin.now().await?;
    let upcoming = admin.upcoming(10).await?;
    let newest = admin.jobs(&JobFilter::default(), None, 1).await?.items;
    if newest.is_empty() && upcoming.is_empty() && admin.schedules(None, 1).await?.is_empty() {
        return first_steps::page(&view).await;
    }
    let window = Window::of(ask.window.as_deref());
    let kept = &view.ui.0.kept;
    let failed = JobFilter { state: Some(JobState::Failed), ..JobFilter::default() };
    // Beside each other: each of the three can take as long as the others together.
    let (steps, counts, diagnosis) = tokio::join!(
        async {
            let steps = kept.steps(&admin, now, window).await?;
            Ok::<_, Fault>((steps, kept.steps(&admin, now, Window::Day).await?))
        },
        async {
            let stats = Counted::read(&admin).await?;
            let failed = admin.jobs(&failed, None, FAILED_MAX).await?.items;
            Ok::<_, Fault>((stats, admin.nodes().await?, failed))
        },
        kept.diagnosis(&admin, now),
    );
    let ((steps, day), (stats, nodes, failed)) = (steps?, counts?);
    Ok(view.page("Overview", "", html! {
        div.head { h1 { "Overview" } }
        (cards(&view, now, &total(&day), &stats.items, &nodes, &upcoming))
        div #count-age data-live="stats jobs queues" { (stats.note(now)) }
        section.card #attention data-live="jobs queues schedules nodes stats" aria-labelledby="attention-title" {
            h2 #attention-title { "Needs attention" }
            @if diagnosis.findings.is_empty() { p.all-good { span.shape aria-hidden="true" { "✓" } " No problems found." } }
            ul.findings {
                @for finding in diagnosis.findings.iter().take(12) {
                    li class=(if finding.severity == Severity::Problem { "bad" } else { "warn" }) {
                        span.shape aria-hidden="true" { (if finding.severity == Severity::Problem { "✕" } else { "!" }) }
                        div {
                            span.hidden { (if finding.severity == Severity::Problem { "Problem: " } else { "Warning: " }) }
                            (prose(&finding.text))
                            @if let Some(remedy) = &finding.remedy { div.remedy { (prose(remedy)) } }
                        }
                    }
                }
            }
            @if diagnosis.findings.len() > 12 { p.faint { (diagnosis.findings.len() - 12) " more: run " code { "punctual doctor" } } }
        }
        div.row-head {
            h2 { "Throughput and start delay" }
            nav.switch aria-label="Time range" {
                @for choice in Window::ALL {
                    a href=(view.to(&format!("/?window={}", choice.word()))) aria-current=[(choice == window).then_some("true")] { (choice.word()) }
                }
            }
        }
        div.two #plots data-live="stats" {
            div.card { (throughput(&steps, window)) }
            div.card { (delay(&steps, window)) }
        }
        div.two {
            section.card #failures data-live="jobs stats" aria-labelledby="failures-title" {
                h2 #failures-title { "Failures by error" }
                (failures(&view, now, &failed))
            }
            section.card #next data-live="schedules" aria-labelledby="next-title" {
                h2 #next-title { "Next slots" }
                (next_up(&view, now, &upcoming))
            }
        }
    }))
}

fn card(label: &str, value: Markup, below: Markup, tone: &str) -> Markup {
    html! { div class={ "card figure " (tone) } { div.label { (label) } div.value { (value) } div.below { (below) } } }
}

fn cards(
    view: &View,
    now: Timestamp,
    day: &Step,
    stats: &[QueueStats],
    nodes: &[Node],
    upcoming: &[Schedule],
) -> Markup {
    let started: u64 = day.late.iter().sum();
    let due = started + day.missed;
    let on_time = histogram::within(&day.late, ON_TIME);
    let share = (due > 0).then(|| on_time as f64 / due as f64 * 100.0);
    let tone = match share {
        Some(share) if share < 95.0 => "bad",
        Some(share) if share < 99.0 => "warn",
        Some(_) => "good",
        None => "",
    };
    let ready: u64 = stats.iter().map(|it| it.ready).sum();
    let running: u64 = stats.iter().map(|it| it.running).sum();
    let later: u64 = stats.iter().map(|it| it.scheduled + it.retrying + it.blocked).sum();
    let dead: u64 = stats.iter().map(|it| it.failed).sum();
    let oldest = stats.iter().filter_map(|it| it.oldest_due_at).min();
    let alive = nodes.iter().filter(|node| is_alive(node, now)).count();
    let next = upcoming.iter().find_map(|it| Some((it, next_event(it)?)));
    html! {
        div.cards #cards data-live="stats jobs queues schedules nodes" {
            (card("On time, last 24 h", html! { @match share { Some(share) => { span #on-time data-on-time=(on_time) data-due=(due) { (percent(share)) } } None => "–" } },
                html! { @if due > 0 { (show::grouped(on_time)) " of " (show::grouped(due)) " slots started within 5\u{a0}s" @if day.missed > 0 { ", " (show::grouped(day.missed)) " missed" } } @else { "no slots recorded" } }, tone))
            (card("Running", html! { (show::grouped(running)) }, html! { a href=(view.to("/jobs?q=state:running")) { "on " (show::plural(alive as u64, "live node", "live nodes")) } }, ""))
            (card("Ready", html! { (show::grouped(ready)) }, html! {
                @if let Some(oldest) = oldest { "oldest due " (show::relative(now, oldest)) } @else if later > 0 { (show::grouped(later)) " delayed or blocked" } @else { "no jobs waiting" }
            }, if oldest.is_some_and(|oldest| now.since(oldest) > Duration::from_secs(60)) { "warn" } else { "" }))
            (card("Failed attempts, last 24 h", html! { (show::grouped(day.failed)) }, html! { a href=(view.to("/jobs?q=state:failed")) { (show::plural(dead, "failed job", "failed jobs")) } }, if dead > 0 { "warn" } else { "" }))
            (card("Next slot", html! { @match next { Some((_, at)) => (show::relative(now, at)), None => "–" } },
                html! { @match next { Some((schedule, _)) => { a href=(view.schedule(&schedule.name)) { (schedule.name) } } None => "no upcoming slots" } }, ""))
            (card("Live nodes", html! { (alive) }, html! { a href=(view.to("/nodes")) { (nodes.len() - alive) " silent or dead" } }, if alive == 0 { "bad" } else { "" }))
        }
    }
}

/// A node that was heard of lately.
pub(super) fn is_alive(node: &Node, now: Timestamp) -> bool {
    node.dead_at.is_none() && now.since(node.seen_at) < Duration::from_secs(15)
}

fn percent(share: f64) -> String {
    // Almost all is not all.
    let shown = if share < 100.0 { (share * 10.0).floor() / 10.0 } else { share };
    format!("{shown} %")
}

fn throughput(steps: &[Step], window: Window) -> Markup {
    let all = total(steps);
    let finding = format!(
        "{} attempts succeeded and {} failed in {}.",
        show::grouped(all.succeeded),
        show::grouped(all.failed),
        window.in_words()
    );
    let (minutes, _) = window.steps();
    let title = match minutes {
        1 => "Attempts per minute".to_owned(),
        minutes => {
            format!("Attempts per {}", show::length(Duration::from_secs(u64::from(minutes) * 60)))
        }
    };
    let rows = steps.iter().filter(|it| it.succeeded + it.failed + it.other > 0);
    let rows = rows.map(|it| {
        vec![
            show::utc(it.at),
            it.succeeded.to_string(),
            it.failed.to_string(),
            it.other.to_string(),
        ]
    });
    let frame = Frame {
        id: "throughput",
        title: &title,
        finding,
        legend: &[("good", "succeeded"), ("bad", "failed"), ("calm", "other")],
        columns: &["From", "Succeeded", "Failed", "Other"],
        rows: rows.collect(),
    };
    let bar = |step: &Step| Bar {
        at: step.at,
        parts: vec![("good", step.succeeded), ("bad", step.failed), ("calm", step.other)],
        words: format!(
            "{} · {} succeeded · {} failed · {} other",
            show::utc(step.at),
            step.succeeded,
            step.failed,
            step.other
        ),
    };
    charts::bars(&frame, &steps.iter().map(bar).collect::<Vec<_>>())
}

fn delay(steps: &[Step], window: Window) -> Markup {
    let all = total(steps);
    let of = |share| histogram::percentile(&all.waited, share);
    let finding = match of(0.95) {
        Some(most) => format!(
            "95 % of the jobs in {} started within {} of their due time.",
            window.in_words(),
            show::length(most)
        ),
        None => format!("No jobs started in {}.", window.in_words()),
    };
    let line = |class, share| Line {
        class,
        values: steps.iter().map(|it| histogram::percentile(&it.waited, share)).collect(),
    };
    let told =
        |step: &Step, share| show::length_or_dash(histogram::percentile(&step.waited, share));
    let rows = steps.iter().filter(|it| it.waited.iter().any(|count| *count > 0));
    let rows = rows.map(|it| vec![show::utc(it.at), told(it, 0.5), told(it, 0.95), told(it, 0.99)]);
    let frame = Frame {
        id: "delay",
        title: "Start delay",
        finding,
        legend: &[("p50", "p50"), ("p95", "p95"), ("p99", "p99")],
        columns: &["From", "p50", "p95", "p99"],
        rows: rows.collect(),
    };
    let ats: Vec<Timestamp> = steps.iter().map(|step| step.at).collect();
    charts::lines(&frame, &ats, &[line("p99", 0.99), line("p95", 0.95), line("p50", 0.5)])
}

/// What went wrong, with what differs from one job to the next left out.
fn class_of(error: &str) -> String {
    let first = error.lines().next().unwrap_or("").trim();
    let mut class = String::new();
    let mut was_digit = false;
    for character in first.chars().take(120) {
        let is_digit = character.is_ascii_digit();
        if !is_digit {
            class.push(character);
        } else if !was_digit {
            class.push('#');
        }
        was_digit = is_digit;
    }
    if class.is_empty() { "(no error message)".to_owned() } else { class }
}

fn failures(view: &View, now: Timestamp, failed: &[JobView]) -> Markup {
    let mut classes: BTreeMap<(String, String), [u64; 3]> = BTreeMap::new();
    for job in failed {
        let age = job.finished_at.map_or(Duration::ZERO, |at| now.since(at));
        let class = class_of(job.error.as_deref().unwrap_or(""));
        let counts = classes.entry((job.kind.clone(), class)).or_default();
        for (count, hours) in counts.iter_mut().zip([1_u64, 24, 168]) {
            *count += u64::from(age <= Duration::from_secs(hours * 3_600));
        }
    }
    let mut classes: Vec<_> = classes.into_iter().filter(|(_, counts)| counts[2] > 0).collect();
    classes.sort_by_key(|(_, counts)| std::cmp::Reverse(*counts));
    html! {
        @if classes.is_empty() {
            p.all-good { span.shape aria-hidden="true" { "✓" } " No failed jobs in the last 7 days." }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Table of failures" {
                table {
                    thead { tr { th scope="col" { "Kind" } th scope="col" { "Error" } th.num scope="col" { "1 h" } th.num scope="col" { "24 h" } th.num scope="col" { "7 d" } } }
                    tbody {
                        @for ((kind, class), counts) in classes.iter().take(8) {
                            tr {
                                td { a href=(view.to(&format!("/jobs?q={}", encoded(&format!("state:failed kind:{kind}"))))) { (kind) } }
                                td.cut title=(class) { (class) }
                                @for count in counts { td.num { (count) } }
                            }
                        }
                    }
                }
            }
            @if failed.len() == FAILED_MAX { p.faint { "Based on the last " (FAILED_MAX) " failed jobs." } }
        }
    }
}

fn next_up(view: &View, now: Timestamp, upcoming: &[Schedule]) -> Markup {
    html! {
        @if upcoming.is_empty() { p.faint { "No upcoming slots." } }
        @else {
            table {
                thead { tr { th scope="col" { "Schedule" } th scope="col" { "Due" } th.roomy scope="col" { "Time" } } }
                tbody {
                    @for schedule in upcoming {
                        @if let Some(at) = next_event(schedule) {
                            tr { td.break { a href=(view.schedule(&schedule.name)) { (schedule.name) } } td.nowrap { (show::relative(now, at)) } td.nowrap.roomy { (show::absolute(at)) } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_differ_in_numbers_are_one_class() {
        assert_eq!(
            class_of("order 17 has no address\nat 3"),
            class_of("order 2041 has no address")
        );
        assert_eq!(class_of(""), "(no error message)");
    }

    #[test]
    fn almost_all_is_not_all() {
        assert_eq!(
            (percent(99.99), percent(100.0), percent(97.25)),
            ("99.9 %".into(), "100 %".into(), "97.2 %".into())
        );
    }
}
