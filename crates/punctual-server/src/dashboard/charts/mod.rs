//! Charts of our own: functions from numbers to markup.
//!
//! Shapes stretch with the page, text does not: the outer picture has no view box and places text by
//! percent, the inner one has and holds only shapes. Colours come from classes, so that one picture
//! serves both themes. Each says in words what it shows and holds its numbers as a table.

mod bars;
mod cells;
mod gantt;
mod lines;
mod load;
mod strip;

use std::time::Duration;

use maud::{Markup, html};
use punctual::Timestamp;

pub(super) use bars::{Bar, bars};
pub(super) use cells::{Cell, cells};
pub(super) use gantt::{Mark, Row, Scale, Stretch, gantt};
pub(super) use lines::{Line, dots, lines};
pub(super) use load::density;
pub(super) use strip::{minutes, spark, strip};

/// The height of a plot, without the labels below it.
const HEIGHT: f64 = 132.0;
/// The room for labels below.
const BELOW: f64 = 20.0;
/// The room above, so that a line at the top is seen.
const ABOVE: f64 = 8.0;

/// What stands around a chart.
pub(super) struct Frame<'a> {
    pub(super) id: &'a str,
    pub(super) title: &'a str,
    /// What it shows, in words.
    pub(super) finding: String,
    /// A class and a word for each colour.
    pub(super) legend: &'a [(&'a str, &'a str)],
    /// The columns of its table.
    pub(super) columns: &'a [&'a str],
    pub(super) rows: Vec<Vec<String>>,
}

impl Frame<'_> {
    fn figure(&self, picture: Markup) -> Markup {
        html! {
            figure.chart id=(self.id) {
                figcaption {
                    span.strong { (self.title) }
                    @if !self.legend.is_empty() {
                        span.legend { @for (class, word) in self.legend { span { i class=(class) aria-hidden="true" {} (word) } } }
                    }
                }
                (picture)
                details id={ (self.id) "-table" } {
                    summary { "Data table" }
                    div.scroll tabindex="0" role="region" aria-label={ (self.title) " as a table" } {
                        table {
                            thead { tr { @for column in self.columns { th scope="col" { (column) } } } }
                            tbody { @for row in &self.rows { tr { @for (index, cell) in row.iter().enumerate() { td.num[index > 0] { (cell) } } } } }
                        }
                    }
                }
            }
        }
    }

    /// A plot: lines of a grid with their values, shapes, and instants below.
    fn plot(&self, values: &[(f64, String)], instants: &[Label], shapes: Markup) -> Markup {
        let height = ABOVE + HEIGHT + BELOW;
        self.figure(html! {
            svg.plot height=(height) role="img" aria-labelledby={ (self.id) "-t " (self.id) "-d" } {
                title id={ (self.id) "-t" } { (self.title) }
                desc id={ (self.id) "-d" } { (self.finding) }
                @for (y, value) in values {
                    line.grid x1="0" x2="100%" y1=(round(*y)) y2=(round(*y)) {}
                    text.tick x="-6" y=(round(*y + 4.0)) text-anchor="end" { (value) }
                }
                svg x="0" y="0" width="100%" height=(height) viewBox={ "0 0 1000 " (height) } preserveAspectRatio="none" { (shapes) }
                @for (index, (x, at, fine)) in instants.iter().enumerate() {
                    text.tick.odd[index % 2 == 1] x={ (round(*x)) "%" } y=(round(height - 4.0)) text-anchor=(anchor(*x)) data-at=(at) data-day[*fine == Fine::Days] data-second[*fine == Fine::Seconds] {
                        (at.to_jiff().strftime(fine.format()).to_string())
                    }
                }
            }
        })
    }
}

fn anchor(percent: f64) -> &'static str {
    match percent {
        ..1.0 => "start",
        99.0.. => "end",
        _ => "middle",
    }
}

/// A coordinate, no finer than it is seen.
fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Where a value stands, with zero at the bottom.
fn height_of(value: f64, top: f64) -> f64 {
    ABOVE + HEIGHT - (value / top).clamp(0.0, 1.0) * HEIGHT
}

/// A round number that is no less: one, two or five and zeros.
fn round_up(value: f64) -> f64 {
    if value <= 1.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 4.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|it| *it >= value)
        .unwrap_or(value)
}

/// How finely instants are told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fine {
    Days,
    Minutes,
    Seconds,
}

impl Fine {
    /// For a stretch of this length.
    fn of(length: Duration) -> Fine {
        match length.as_secs() {
            0..600 => Fine::Seconds,
            600..93_600 => Fine::Minutes,
            _ => Fine::Days,
        }
    }

    fn format(self) -> &'static str {
        match self {
            Fine::Days => "%a %H:%M",
            Fine::Minutes => "%H:%M",
            Fine::Seconds => "%H:%M:%S",
        }
    }
}

/// An instant below a plot, and where it stands in percent.
type Label = (f64, Timestamp, Fine);

/// Up to six instants of a row of steps.
fn instants(ats: &[Timestamp]) -> Vec<Label> {
    let (Some(first), Some(last)) = (ats.first(), ats.last()) else { return Vec::new() };
    let fine = Fine::of(last.since(*first));
    let every = ats.len().div_ceil(6).max(1);
    let place = |index: usize| 100.0 * index as f64 / ats.len() as f64;
    ats.iter().enumerate().step_by(every).map(|(index, at)| (place(index), *at, fine)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_of_a_plot_is_round_and_no_less() {
        for (value, top) in
            [(0.0, 1.0), (1.0, 1.0), (3.0, 4.0), (41.0, 50.0), (99.0, 100.0), (101.0, 200.0)]
        {
            assert_eq!(round_up(value), top);
        }
    }
}
