//! Lengths of time over time, on a scale on which a millisecond and an hour are both seen.

use std::time::Duration;

use maud::{Markup, html};
use punctual::Timestamp;

use super::{ABOVE, Frame, HEIGHT, instants, round};
use crate::dashboard::show;

/// A line: its class and its values, one for each step; none where nothing was measured.
pub(in crate::dashboard) struct Line {
    pub(in crate::dashboard) class: &'static str,
    pub(in crate::dashboard) values: Vec<Option<Duration>>,
}

/// The lengths that the scale is marked with, in milliseconds.
const MARKS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000];

/// The scale: its lowest and its highest mark.
fn scale(values: impl Iterator<Item = Duration> + Clone) -> (f64, f64) {
    let ms = |length: Duration| length.as_secs_f64() * 1_000.0;
    let (least, most) = (values.clone().min(), values.max());
    let low = least.map_or(1.0, ms);
    let high = most.map_or(1_000.0, ms);
    let below = MARKS.iter().rev().find(|mark| (**mark as f64) <= low).copied().unwrap_or(1);
    let above = MARKS.iter().find(|mark| (**mark as f64) >= high).copied();
    let above = above.map_or(high * 1.2, |mark| mark as f64);
    (below as f64, above.max(below as f64 * 10.0))
}

fn height(length: Duration, (low, high): (f64, f64)) -> f64 {
    let ms = (length.as_secs_f64() * 1_000.0).max(low);
    let share = (ms / low).ln() / (high / low).ln();
    ABOVE + HEIGHT - share.clamp(0.0, 1.0) * HEIGHT
}

fn marks(scale: (f64, f64)) -> Vec<(f64, String)> {
    let within = MARKS.iter().filter(|mark| (scale.0..=scale.1).contains(&(**mark as f64)));
    let mark = |ms: &u64| {
        let length = Duration::from_millis(*ms);
        (height(length, scale), show::length(length).replace(".0", ""))
    };
    within.map(mark).collect()
}

/// A plot of lines over steps of time.
pub(in crate::dashboard) fn lines(frame: &Frame<'_>, ats: &[Timestamp], lines: &[Line]) -> Markup {
    let scale = scale(lines.iter().flat_map(|line| line.values.iter().copied().flatten()));
    let width = 1_000.0 / ats.len().max(1) as f64;
    let x = |index: usize| round((index as f64 + 0.5) * width);
    let shapes = html! {
        @for line in lines {
            @for stretch in stretches(&line.values) {
                @let points: Vec<String> = stretch.iter().map(|(index, length)| format!("{},{}", x(*index), round(height(*length, scale)))).collect();
                @if let [only] = points.as_slice() {
                    polyline class={ "line " (line.class) } points={ (only) " " (only) } {}
                } @else {
                    polyline class={ "line " (line.class) } points=(points.join(" ")) {}
                }
            }
        }
        @for (index, at) in ats.iter().enumerate() {
            @let told: Vec<String> = lines.iter().filter_map(|line| Some(format!("{} {}", line.class, show::length(line.values[index]?)))).collect();
            @if !told.is_empty() {
                rect.hit x=(round(index as f64 * width)) y=(ABOVE) width=(round(width)) height=(HEIGHT) { title { (show::utc(*at)) " · " (told.join(" · ")) } }
            }
        }
    };
    frame.plot(&marks(scale), &instants(ats), shapes)
}

/// The parts of a line between its gaps.
fn stretches(values: &[Option<Duration>]) -> Vec<Vec<(usize, Duration)>> {
    let mut stretches: Vec<Vec<(usize, Duration)>> = vec![Vec::new()];
    for (index, value) in values.iter().enumerate() {
        match (value, stretches.last_mut()) {
            (Some(length), Some(stretch)) => stretch.push((index, *length)),
            (None, Some(stretch)) if !stretch.is_empty() => stretches.push(Vec::new()),
            _ => {}
        }
    }
    stretches.retain(|stretch| !stretch.is_empty());
    stretches
}

/// One measured length: when, how long, its class, and what it says.
pub(in crate::dashboard) type Dot = (Timestamp, Duration, &'static str, String);

/// A plot of single lengths, oldest first, each where it stands in the row.
pub(in crate::dashboard) fn dots(frame: &Frame<'_>, dots: &[Dot]) -> Markup {
    let scale = scale(dots.iter().map(|(_, length, ..)| *length));
    let width = 1_000.0 / dots.len().max(1) as f64;
    let bar = (width * 0.6).min(14.0);
    let ats: Vec<Timestamp> = dots.iter().map(|(at, ..)| *at).collect();
    let shapes = html! {
        @for (index, (_, length, class, words)) in dots.iter().enumerate() {
            @let y = height(*length, scale).min(ABOVE + HEIGHT - 2.0);
            g.bar {
                rect class={ "fill " (class) } data-value=(length.as_millis()) x=(round((index as f64 + 0.5) * width - bar / 2.0)) y=(round(y)) width=(round(bar)) height=(round(ABOVE + HEIGHT - y)) {}
                title { (words) }
            }
        }
    };
    frame.plot(&marks(scale), &instants(&ats), shapes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_where_nothing_was_measured() {
        let ms = |ms: u64| Some(Duration::from_millis(ms));
        let parts = stretches(&[None, ms(1), ms(2), None, None, ms(3)]);
        let indices: Vec<Vec<usize>> =
            parts.iter().map(|part| part.iter().map(|(index, _)| *index).collect()).collect();
        assert_eq!(indices, [vec![1, 2], vec![5]]);
    }

    #[test]
    fn the_scale_holds_all_values() {
        let values = [3_u64, 700, 90_000].map(Duration::from_millis);
        let scale = scale(values.into_iter());
        assert_eq!(scale, (1.0, 600_000.0));
        for value in values {
            let y = height(value, scale);
            assert!((ABOVE..=ABOVE + HEIGHT).contains(&y));
        }
    }
}
