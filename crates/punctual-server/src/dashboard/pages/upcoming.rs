//! What is due in one hour to come, schedule by schedule.

use std::time::Duration;

use axum::extract::Query;
use maud::{Markup, html};
use punctual::{Admin, Schedule, Timestamp};

use super::Shown;
use super::schedules::Said;
use crate::dashboard::heat::{OFTEN_MAX, Planned, SCHEDULES_MAX};
use crate::dashboard::range::{self, Range};
use crate::dashboard::show;
use crate::dashboard::view::{View, encoded};
use crate::fault::Fault;

const HOUR: Duration = Duration::from_secs(3_600);
/// Schedules that are listed.
const ROWS: usize = 200;
/// Starts of a schedule that are looked at one by one: once a minute. More are counted.
const STARTS: usize = 61;
/// Starts of a schedule that are told.
const TOLD: usize = 3;

#[derive(serde::Deserialize)]
pub(in crate::dashboard) struct Ask {
    hour: Option<String>,
}

/// The address of an hour.
pub(super) fn place(view: &View, hour: Timestamp) -> String {
    view.to(&format!("/upcoming?hour={}", encoded(&hour.to_string())))
}

/// A schedule that is due in the hour.
struct Due {
    schedule: Schedule,
    /// The first few of its starts.
    starts: Vec<Timestamp>,
    count: u64,
}

/// All of them, as far as was looked.
struct Found {
    due: Vec<Due>,
    starts: u64,
    has_more: bool,
}

async fn find(admin: &Admin, from: Timestamp) -> Result<Found, Fault> {
    let mut found = Found { due: Vec::new(), starts: 0, has_more: false };
    let (mut after, mut looked_at, mut often) = (None::<String>, 0, 0);
    loop {
        let page = admin.schedules(after.as_deref(), 500).await?;
        looked_at += page.len();
        let is_last = page.len() < 500;
        after = page.last().map(|schedule| schedule.name.clone());
        for schedule in page {
            let Some(planned) = Planned::read(&schedule, from) else { continue };
            let (mut starts, are_all) = planned.slots(from, from + HOUR, STARTS);
            let mut count = starts.len() as u64;
            if !are_all {
                if often == OFTEN_MAX {
                    found.has_more = true;
                } else {
                    often += 1;
                    count = planned.count(from, from + HOUR);
                    // Those that were looked at may all be excluded.
                    starts = planned.first(from, from + HOUR, TOLD);
                }
            }
            starts.truncate(TOLD);
            found.starts += count;
            if count > 0 {
                found.due.push(Due { schedule, starts, count });
            }
        }
        if is_last || looked_at >= SCHEDULES_MAX {
            found.has_more |= !is_last;
            found.due.sort_by(|a, b| {
                (a.starts.first(), &a.schedule.name).cmp(&(b.starts.first(), &b.schedule.name))
            });
            return Ok(found);
        }
    }
}

/// The page.
pub(in crate::dashboard) async fn page(view: View, Query(ask): Query<Ask>) -> Shown {
    let admin = view.admin();
    let now = admin.now().await?;
    let hour = range::instant("hour", ask.hour.as_deref())?.unwrap_or(now);
    let hour = Timestamp::from_seconds(hour.floor_seconds().div_euclid(3_600) * 3_600);
    let found = find(&admin, hour).await?;
    let title = format!("Slots on {}", hour.to_jiff().strftime("%a %d %b, %H:00"));
    Ok(view.page(&title, "", html! {
        div.head {
            div {
                p.crumbs { a href=(view.to("/schedules")) { "Schedules" } " /" }
                h1 { (title) "–" ((hour + HOUR).to_jiff().strftime("%H:00").to_string()) " UTC" }
            }
            nav.switch aria-label="Other hours" {
                a href=(place(&view, hour - HOUR)) { "Previous hour" }
                a href=(place(&view, hour + HOUR)) { "Next hour" }
            }
        }
        div #list data-live="schedules" {
            @if hour + HOUR <= now {
                @let over = Range { from: hour, to: hour + HOUR, window: None };
                p.notice.warn { "This hour has passed. The list shows the slots of the current schedules. " a href=(view.to(&format!("/timeline?{}", over.query()))) { "See what happened" } "." }
            }
            @if found.due.is_empty() { (nothing(&view, found.has_more)) }
            @else {
                p #total data-starts=(found.starts) {
                    (show::plural(found.starts, "slot", "slots")) " of " (show::plural(found.due.len() as u64, "schedule", "schedules")) "."
                    @if found.due.len() > ROWS { " The first " (ROWS) " schedules are listed." }
                    @if found.has_more { " Some schedules were not checked because there are too many." }
                }
                div.card.flush {
                    div.scroll tabindex="0" role="region" aria-label="Schedules with slots in this hour" {
                        table.list #due {
                            thead { tr { th scope="col" { "Name" } th scope="col" { "Cadence" } th.num scope="col" { "Slots" } th scope="col" { "First slots" } } }
                            tbody data-keyed { @for due in found.due.iter().take(ROWS) { (row(&view, now, due)) } }
                        }
                    }
                }
            }
        }
    }))
}

fn nothing(view: &View, has_more: bool) -> Markup {
    let next = html! { p { "Choose another hour, or see " a href=(view.to("/schedules")) { "all schedules" } "." } };
    match has_more {
        true => show::empty("No slots in the schedules that were checked.", next),
        false => show::empty("No slots in this hour.", next),
    }
}

fn row(view: &View, now: Timestamp, due: &Due) -> Markup {
    let said = Said::read(&due.schedule);
    html! {
        tr id={ "d-" (due.schedule.id) } {
            th scope="row" { a href=(view.schedule(&due.schedule.name)) { (due.schedule.name) } }
            td { @if let Some(said) = &said { (said.words) div.faint { (said.definition.tz) } } }
            td.num { (show::grouped(due.count)) }
            td {
                @for (index, start) in due.starts.iter().enumerate() {
                    @if index > 0 { ", " }
                    time datetime=(start) data-clock { (start.to_jiff().strftime("%H:%M:%S").to_string()) }
                }
                @if due.count > due.starts.len() as u64 { " …" }
                @if let Some(first) = due.starts.first() { " " span.faint { (show::relative(now, *first)) } }
            }
        }
    }
}
