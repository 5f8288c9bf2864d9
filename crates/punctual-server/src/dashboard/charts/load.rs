//! Two strips above the rows of a timeline: what ended over a longer time, with the stretch that is shown
//! marked in it, and how many attempts ran at once in that stretch. A stretch of either can be chosen by
//! drawing over it, or by the links that the strip is made of.

use maud::{Markup, html};
use punctual::Timestamp;

use super::{Fine, anchor, round};
use crate::dashboard::load::Level;
use crate::dashboard::range::Range;
use crate::dashboard::series::Step;
use crate::dashboard::show;

/// The height of a strip.
const HIGH: f64 = 40.0;

/// Where an instant stands between two others, of a thousand.
pub(super) fn place(at: Timestamp, range: &Range) -> f64 {
    let whole = (range.to.as_micros() - range.from.as_micros()).max(1) as f64;
    ((at.as_micros() - range.from.as_micros()) as f64 / whole * 1_000.0).clamp(0.0, 1_000.0)
}

/// Instants at equal distances, with where they stand in percent.
pub(super) fn ticks(range: &Range) -> Vec<(f64, Timestamp)> {
    let (from, to) = (range.from.as_micros(), range.to.as_micros());
    let tick = |part: i64| {
        (part as f64 / 6.0 * 100.0, Timestamp::from_micros(from + (to - from) / 6 * part))
    };
    (0..=6).map(tick).collect()
}

/// The line of instants above or below rows.
pub(super) fn axis(range: &Range) -> Markup {
    let fine = Fine::of(range.length());
    html! {
        div.lane.axis {
            span {}
            svg height="18" aria-hidden="true" {
                @for (index, (x, at)) in ticks(range).iter().enumerate() {
                    text.tick.odd[index % 2 == 1] x={ (round(*x)) "%" } y="13" text-anchor=(anchor(*x)) data-at=(at) data-day[fine == Fine::Days] data-second[fine == Fine::Seconds] {
                        (at.to_jiff().strftime(fine.format()).to_string())
                    }
                }
            }
        }
    }
}

/// What a strip stands in: `link` leads to the page with a stretch, whose two ends a script adds.
fn lane(id: &str, name: &str, label: &str, range: &Range, link: &str, shapes: Markup) -> Markup {
    html! {
        div.lane.strip-lane {
            span.lane-name { (name) }
            svg.brushed id=(id) height=(HIGH) role="group" aria-label=(label) data-brush=(link) data-from=(range.from) data-to=(range.to) {
                svg width="100%" height=(HIGH) viewBox={ "0 0 1000 " (HIGH) } preserveAspectRatio="none" { (shapes) }
            }
        }
    }
}

/// A stretch in words, shortly.
fn words(from: Timestamp, to: Timestamp) -> String {
    let clock = |at: Timestamp| at.to_jiff().strftime("%H:%M:%S").to_string();
    format!("{}–{} UTC", show::utc(from).trim_end_matches(" UTC"), clock(to))
}

/// What ended in each step of a longer time, and which part of it is shown. `to` makes an address of a
/// stretch.
pub(in crate::dashboard) fn density(
    name: &str,
    steps: &[Step],
    whole: &Range,
    shown: &Range,
    link: &str,
    to: impl Fn(&Range) -> String,
) -> Markup {
    let of = |step: &Step| step.succeeded + step.failed + step.other;
    let most = steps.iter().map(of).max().unwrap_or(0).max(1) as f64;
    let total: u64 = steps.iter().map(of).sum();
    let failed: u64 = steps.iter().map(|step| step.failed).sum();
    let length = whole.length() / u32::try_from(steps.len().max(1)).unwrap_or(1);
    let width = 1_000.0 / steps.len().max(1) as f64;
    let label = format!(
        "Finished attempts, {name}: {}, {failed} failed",
        show::plural(total, "attempt", "attempts")
    );
    let (start, end) = (place(shown.from, whole), place(shown.to, whole));
    html! {
        div.gantt {
            (axis(whole))
            (lane("density", name, &label, whole, link, html! {
                rect.shown x=(round(start)) y="0" width=(round((end - start).max(2.0))) height=(HIGH) {}
                @for (index, step) in steps.iter().enumerate().filter(|(_, step)| of(step) > 0) {
                    @let x = index as f64 * width;
                    @let (high, bad) = (height(of(step), most), height(step.failed, most));
                    @let stretch = Range { from: step.at, to: step.at + length, window: None };
                    @let told = format!("{}: {} finished, {} failed", words(stretch.from, stretch.to), of(step), step.failed);
                    // By keyboard the way in is the form: a hundred stops would be none.
                    a.bar href=(to(&stretch)) tabindex="-1" aria-label=(told) {
                        rect.hit x=(round(x)) y="0" width=(round(width)) height=(HIGH) {}
                        rect.fill.accent data-value=(of(step)) x=(round(x + width * 0.1)) y=(round(HIGH - high)) width=(round(width * 0.8)) height=(round(high)) {}
                        @if step.failed > 0 { rect.fill.bad data-failed=(step.failed) x=(round(x + width * 0.1)) y=(round(HIGH - bad)) width=(round(width * 0.8)) height=(round(bad)) {} }
                        title { (told) }
                    }
                }
                line.edge x1=(round(start)) x2=(round(start)) y1="0" y2=(HIGH) {}
                line.edge x1=(round(end)) x2=(round(end)) y1="0" y2=(HIGH) {}
            }))
        }
    }
}

fn height(count: u64, most: f64) -> f64 {
    if count == 0 { 0.0 } else { (count as f64 / most * (HIGH - 4.0)).max(2.0) }
}

/// How many attempts ran at once.
pub(super) fn concurrency(levels: &[Level], range: &Range, link: &str) -> Markup {
    let peak = levels.iter().max_by_key(|level| (level.most, std::cmp::Reverse(level.from)));
    let most = peak.map_or(0, |peak| peak.most);
    let label = match peak.filter(|peak| peak.most > 0) {
        Some(peak) => {
            format!("Concurrent attempts: at most {most}, {}", words(peak.from, peak.to))
        }
        None => "Concurrent attempts: none".to_owned(),
    };
    lane(
        "concurrency",
        &format!("concurrent ≤ {most}"),
        &label,
        range,
        link,
        html! {
            @for level in levels.iter().filter(|level| level.most > 0) {
                @let (start, end) = (place(level.from, range), place(level.to, range));
                @let high = height(level.most as u64, most.max(1) as f64);
                g.bar {
                    rect.fill.busy data-value=(level.most) data-at=(level.from) x=(round(start)) y=(round(HIGH - high)) width=(round(end - start)) height=(round(high)) {}
                    title { (words(level.from, level.to)) ": at most " (level.most) " concurrent" }
                }
            }
        },
    )
}
