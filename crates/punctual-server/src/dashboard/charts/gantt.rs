//! Attempts as bars in rows, over one span of time.

use maud::{Markup, html};
use punctual::Timestamp;

use super::load::{axis, concurrency, place, ticks};
use super::round;
use crate::dashboard::load::{Deploy, Level};
use crate::dashboard::range::Range;
use crate::dashboard::show;

/// A bar.
pub(in crate::dashboard) struct Stretch {
    pub(in crate::dashboard) from: Timestamp,
    /// None while it goes on.
    pub(in crate::dashboard) to: Option<Timestamp>,
    /// When it was due: from there to its beginning it waited.
    pub(in crate::dashboard) due: Option<Timestamp>,
    pub(in crate::dashboard) class: &'static str,
    pub(in crate::dashboard) words: String,
    pub(in crate::dashboard) link: String,
}

/// A slot that is to come, or that became no job.
pub(in crate::dashboard) struct Mark {
    pub(in crate::dashboard) at: Timestamp,
    pub(in crate::dashboard) class: &'static str,
    pub(in crate::dashboard) words: String,
}

/// A row.
pub(in crate::dashboard) struct Row {
    pub(in crate::dashboard) name: String,
    pub(in crate::dashboard) link: Option<String>,
    pub(in crate::dashboard) stretches: Vec<Stretch>,
    pub(in crate::dashboard) marks: Vec<Mark>,
}

/// What all rows stand over.
pub(in crate::dashboard) struct Scale<'a> {
    pub(in crate::dashboard) range: Range,
    pub(in crate::dashboard) now: Timestamp,
    pub(in crate::dashboard) levels: &'a [Level],
    pub(in crate::dashboard) deploys: &'a [Deploy],
    /// Leads to the page with a stretch, whose two ends a script adds.
    pub(in crate::dashboard) link: &'a str,
}

/// The rows over a stretch of time, below how many ran at once, with a line where it is now and one
/// where each new version joined.
pub(in crate::dashboard) fn gantt(rows: &[Row], scale: &Scale<'_>) -> Markup {
    let place = |at: Timestamp| place(at, &scale.range);
    let ticks = ticks(&scale.range);
    let has_now = (scale.range.from..scale.range.to).contains(&scale.now);
    html! {
        div.gantt role="group" aria-label="Attempts over time" {
            (concurrency(scale.levels, &scale.range, scale.link))
            (axis(&scale.range))
            @for row in rows {
                div.lane {
                    @match &row.link {
                        Some(link) => a.lane-name href=(link) title=(row.name) { (row.name) },
                        None => span.lane-name title=(row.name) { (row.name) },
                    }
                    svg height="24" role="group" aria-label=(row.name) {
                        svg width="100%" height="24" viewBox="0 0 1000 24" preserveAspectRatio="none" {
                            @for (x, _) in &ticks { line.grid x1=(round(x * 10.0)) x2=(round(x * 10.0)) y1="0" y2="24" {} }
                            @for deploy in scale.deploys {
                                line.deploy x1=(round(place(deploy.at))) x2=(round(place(deploy.at))) y1="0" y2="24" { title { "version " (deploy.version) " · " (show::utc(deploy.at)) } }
                            }
                            @for mark in &row.marks {
                                rect class={ "mark " (mark.class) } x=(round(place(mark.at) - 1.0)) y="5" width="3" height="14" { title { (mark.words) } }
                            }
                            @for stretch in &row.stretches {
                                @let (start, end) = (place(stretch.from), place(stretch.to.unwrap_or(scale.now)));
                                a href=(stretch.link) aria-label=(stretch.words) {
                                    @if let Some(due) = stretch.due {
                                        rect.waited x=(round(place(due))) y="11" width=(round((start - place(due)).max(0.0))) height="2" {}
                                    }
                                    rect class={ "fill " (stretch.class) } x=(round(start)) y="5" width=(round((end - start).max(2.0))) height="14" {}
                                    title { (stretch.words) }
                                }
                            }
                            @if has_now { line.now x1=(round(place(scale.now))) x2=(round(place(scale.now))) y1="0" y2="24" {} }
                        }
                    }
                }
            }
        }
    }
}
