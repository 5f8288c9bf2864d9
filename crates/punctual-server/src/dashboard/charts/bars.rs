//! Bars that stand on one another, one for each step of time.

use maud::{Markup, html};
use punctual::Timestamp;

use super::{ABOVE, Frame, HEIGHT, height_of, instants, round, round_up};

/// A bar: its parts from the bottom up, each with the class of its colour.
pub(in crate::dashboard) struct Bar {
    pub(in crate::dashboard) at: Timestamp,
    pub(in crate::dashboard) parts: Vec<(&'static str, u64)>,
    /// What it says when it is pointed at.
    pub(in crate::dashboard) words: String,
}

/// A plot of bars.
pub(in crate::dashboard) fn bars(frame: &Frame<'_>, bars: &[Bar]) -> Markup {
    let height = |bar: &Bar| bar.parts.iter().map(|(_, count)| count).sum::<u64>();
    let highest = bars.iter().map(height).max().unwrap_or(0);
    let top = round_up(highest as f64);
    // There is no half of an attempt.
    let marks = if top < 2.0 { vec![0.0, top] } else { vec![0.0, top / 2.0, top] };
    let values: Vec<_> =
        marks.into_iter().map(|value| (height_of(value, top), number(value))).collect();
    let width = 1_000.0 / bars.len().max(1) as f64;
    let ats: Vec<Timestamp> = bars.iter().map(|bar| bar.at).collect();
    let shapes = html! {
        @for (index, bar) in bars.iter().enumerate() {
            g.bar {
                rect.hit x=(round(index as f64 * width)) y=(ABOVE) width=(round(width)) height=(HEIGHT) {}
                @for (class, below, count) in stacked(&bar.parts) {
                    @let (y, bottom) = (height_of((below + count) as f64, top), height_of(below as f64, top));
                    rect class={ "fill " (class) } data-value=(count) x=(round(index as f64 * width + width * 0.1)) y=(round(y)) width=(round(width * 0.8)) height=(round(bottom - y)) {}
                }
                title { (bar.words) }
            }
        }
    };
    frame.plot(&values, &instants(&ats), shapes)
}

/// Each part with what is below it, without those that are nothing.
fn stacked<'a>(
    parts: &'a [(&'static str, u64)],
) -> impl Iterator<Item = (&'static str, u64, u64)> + 'a {
    let mut below = 0;
    parts.iter().filter(|(_, count)| *count > 0).map(move |(class, count)| {
        let part = (*class, below, *count);
        below += count;
        part
    })
}

fn number(value: f64) -> String {
    match value {
        1_000_000.0.. => format!("{}M", round(value / 1_000_000.0)),
        1_000.0.. => format!("{}k", round(value / 1_000.0)),
        _ => round(value).to_string(),
    }
}
