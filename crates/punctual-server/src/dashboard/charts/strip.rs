//! Pictures of one line's height: what became of the last slots, a queue's last hour, the minutes of
//! an hour.

use maud::{Markup, html};

use crate::dashboard::show;

/// What became of slots, oldest first: the class of the colour, the shape's height, and the words.
pub(in crate::dashboard) fn strip(ticks: &[(&'static str, String)], label: &str) -> Markup {
    const SLOTS: usize = 30;
    html! {
        svg.strip width="182" height="18" role="img" aria-label=(label) {
            @for index in ticks.len()..SLOTS { rect.none x=(176 - 6 * index) y="16" width="4" height="2" {} }
            @for (index, (class, words)) in ticks.iter().rev().take(SLOTS).enumerate() {
                @let x = 176 - 6 * index;
                // Height tells what colour alone would not: whole for a job, low for none.
                @let (y, height) = match *class { "bad" => (0, 18), "good" | "busy" => (4, 14), "calm" => (7, 11), _ => (12, 6) };
                rect class={ "fill " (class) } x=(x) y=(y) width="4" height=(height) rx="1" { title { (words) } }
            }
        }
    }
}

/// A row of small bars.
pub(in crate::dashboard) fn spark(parts: &[(u64, u64)], label: &str) -> Markup {
    let most = parts.iter().map(|(good, bad)| good + bad).max().unwrap_or(0).max(1) as f64;
    let height = |count: u64| (count as f64 / most * 18.0).ceil();
    html! {
        svg.strip width=(parts.len() * 7) height="18" role="img" aria-label=(label) {
            @for (index, (good, bad)) in parts.iter().enumerate() {
                @let (whole, part) = (height(good + bad), height(*bad));
                @if whole > 0.0 { rect.fill.good x=(index * 7) y=(18.0 - whole) width="5" height=(whole) {} }
                @if part > 0.0 { rect.fill.bad x=(index * 7) y=(18.0 - part) width="5" height=(part) {} }
            }
        }
    }
}

/// Starts by minute of the hour.
pub(in crate::dashboard) fn minutes(counts: &[u64]) -> Markup {
    let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let (busiest, count) = counts
        .iter()
        .enumerate()
        .max_by_key(|(minute, count)| (**count, std::cmp::Reverse(*minute)))
        .unwrap_or((0, &0));
    html! {
        svg.minutes height="56" role="img" aria-label={ "Slots by minute of the hour; maximum " (count) " at minute " (busiest) } {
            svg width="100%" height="40" viewBox="0 0 600 40" preserveAspectRatio="none" {
                @for (minute, count) in counts.iter().enumerate() {
                    @let height = (*count as f64 / most * 38.0).ceil();
                    g.bar {
                        rect.hit x=(minute * 10) y="0" width="10" height="40" {}
                        rect.fill.accent x=(minute * 10 + 1) y=(40.0 - height.max(1.0)) width="8" height=(height.max(1.0)) {}
                        title { "minute " (minute) ": " (show::plural(*count, "slot", "slots")) " in 24 hours" }
                    }
                }
            }
            @for (minute, anchor) in [(0, "start"), (15, "middle"), (30, "middle"), (45, "middle"), (59, "end")] {
                text.tick x={ (minute * 100 / 60 + usize::from(minute == 59) * 2) "%" } y="53" text-anchor=(anchor) { ":" (format!("{minute:02}")) }
            }
        }
    }
}
