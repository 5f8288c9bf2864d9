//! Attempts as bars in rows, over one span of time.

use maud::{Markup, html};
use punctual::Timestamp;

use super::{anchor, round};

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

/// The rows over `from..to`, with a line where it is now.
pub(in crate::dashboard) fn gantt(
    rows: &[Row],
    from: Timestamp,
    to: Timestamp,
    now: Timestamp,
) -> Markup {
    let whole = (to.as_micros() - from.as_micros()).max(1) as f64;
    let place = |at: Timestamp| {
        (((at.as_micros() - from.as_micros()) as f64) / whole * 1_000.0).clamp(0.0, 1_000.0)
    };
    let ticks: Vec<(f64, Timestamp)> = (0..=6)
        .map(|part| {
            let micros = from.as_micros() + (to.as_micros() - from.as_micros()) / 6 * part;
            (part as f64 / 6.0 * 100.0, Timestamp::from_micros(micros))
        })
        .collect();
    html! {
        div.gantt role="group" aria-label="Attempts over time" {
            div.lane.axis {
                span {}
                svg height="18" aria-hidden="true" {
                    @for (index, (x, at)) in ticks.iter().enumerate() {
                        text.tick.odd[index % 2 == 1] x={ (round(*x)) "%" } y="13" text-anchor=(anchor(*x)) data-at=(at) { (at.to_jiff().strftime("%H:%M").to_string()) }
                    }
                }
            }
            @for row in rows {
                div.lane {
                    @match &row.link {
                        Some(link) => a.lane-name href=(link) title=(row.name) { (row.name) },
                        None => span.lane-name title=(row.name) { (row.name) },
                    }
                    svg height="24" role="group" aria-label=(row.name) {
                        svg width="100%" height="24" viewBox="0 0 1000 24" preserveAspectRatio="none" {
                            @for (x, _) in &ticks { line.grid x1=(round(x * 10.0)) x2=(round(x * 10.0)) y1="0" y2="24" {} }
                            @for mark in &row.marks {
                                rect class={ "mark " (mark.class) } x=(round(place(mark.at) - 1.0)) y="5" width="3" height="14" { title { (mark.words) } }
                            }
                            @for stretch in &row.stretches {
                                @let (start, end) = (place(stretch.from), place(stretch.to.unwrap_or(now)));
                                a href=(stretch.link) aria-label=(stretch.words) {
                                    @if let Some(due) = stretch.due {
                                        rect.waited x=(round(place(due))) y="11" width=(round((start - place(due)).max(0.0))) height="2" {}
                                    }
                                    rect class={ "fill " (stretch.class) } x=(round(start)) y="5" width=(round((end - start).max(2.0))) height="14" {}
                                    title { (stretch.words) }
                                }
                            }
                            line.now x1=(round(place(now))) x2=(round(place(now))) y1="0" y2="24" {}
                        }
                    }
                }
            }
        }
    }
}
