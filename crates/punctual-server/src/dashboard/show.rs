//! Small things that many pages show: instants, lengths, states, counts.

use std::time::Duration;

use maud::{Markup, html};
use punctual::{AttemptOutcome, JobRun, JobState, SlotOutcome, SlotRun, Timestamp};
use punctual_core::Zone;

use super::view::{View, prose};

/// A number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// One or many.
pub(super) fn plural(number: u64, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {many}", grouped(number)) }
}

/// A length of time in a few characters.
pub(super) fn length(length: Duration) -> String {
    let (ms, seconds) = (length.as_millis(), length.as_secs());
    match seconds {
        0 if ms == 0 => "0 ms".to_owned(),
        0 => format!("{ms} ms"),
        1..10 => format!("{:.1} s", length.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

fn two(large: u64, unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large} {unit}"),
        small => format!("{large} {unit} {small} {small_unit}"),
    }
}

/// A length, if there is one.
pub(super) fn length_or_dash(of: Option<Duration>) -> String {
    of.map_or_else(|| "–".to_owned(), length)
}

/// An instant in UTC, to the second.
pub(super) fn utc(at: Timestamp) -> String {
    at.to_jiff().strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// An instant as a clock in a zone shows it.
pub(super) fn in_zone(at: Timestamp, zone: &Zone) -> String {
    at.to_jiff().to_zoned(zone.to_jiff().clone()).strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string()
}

/// How long ago, or in how long; the instant itself on hover. The script keeps it current.
pub(super) fn relative(now: Timestamp, at: Timestamp) -> Markup {
    let words = match (at.since(now), now.since(at)) {
        (ahead, ago) if ahead.as_secs() + ago.as_secs() == 0 => "now".to_owned(),
        (ahead, _) if at > now => format!("in {}", coarse(ahead)),
        (_, ago) => format!("{} ago", coarse(ago)),
    };
    html! { time datetime=(at) data-relative title=(utc(at)) { (words) } }
}

/// The instant itself; the script shows it in the zone that was chosen.
pub(super) fn absolute(at: Timestamp) -> Markup {
    html! { time datetime=(at) data-absolute { (utc(at)) } }
}

/// To the greatest unit.
fn coarse(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A state of a job as word, shape and colour.
pub(super) fn state(state: JobState) -> Markup {
    let (tone, shape) = match state {
        JobState::Succeeded => ("good", "✓"),
        JobState::Failed => ("bad", "✕"),
        JobState::Running => ("busy", "▶"),
        JobState::Retrying => ("warn", "↻"),
        JobState::Ready => ("calm", "●"),
        JobState::Scheduled => ("calm", "◷"),
        JobState::Blocked => ("warn", "❙❙"),
        JobState::Cancelled => ("faint", "⊘"),
    };
    badge(tone, shape, state.as_str())
}

/// How an attempt ended.
pub(super) fn outcome(outcome: Option<AttemptOutcome>) -> Markup {
    match outcome {
        None => badge("busy", "▶", "running"),
        Some(AttemptOutcome::Succeeded) => badge("good", "✓", "succeeded"),
        Some(outcome @ (AttemptOutcome::Released | AttemptOutcome::Snoozed)) => {
            badge("calm", "↩", &outcome.as_str().replace('_', " "))
        }
        Some(AttemptOutcome::Cancelled) => badge("faint", "⊘", "cancelled"),
        Some(outcome) => badge("bad", "✕", &outcome.as_str().replace('_', " ")),
    }
}

/// A word with a shape, in a tone that a colour goes with.
pub(super) fn badge(tone: &str, shape: &str, word: &str) -> Markup {
    html! { span class={ "badge " (tone) } { span.shape aria-hidden="true" { (shape) } (word) } }
}

/// What became of a slot: its tone, its shape and its words. A job that failed is what matters most,
/// then whether the slot became a job at all.
pub(super) fn slot_tone(run: &SlotRun) -> (&'static str, &'static str, String) {
    let outcome = run.slot.outcome;
    if let Some(JobRun { state, .. }) = run.run {
        let tone = match state {
            JobState::Failed => Some(("bad", "✕")),
            JobState::Running => Some(("busy", "▶")),
            JobState::Cancelled => Some(("faint", "⊘")),
            _ if outcome == SlotOutcome::Fired => Some(("good", "✓")),
            _ => Some(("warn", "✓")),
        };
        if let Some((tone, shape)) = tone {
            let words = match outcome {
                SlotOutcome::Fired => state.as_str().to_owned(),
                outcome => format!("{}, {state}", words(outcome)),
            };
            return (tone, shape, words);
        }
    }
    match outcome {
        SlotOutcome::Fired => ("calm", "●", "fired".to_owned()),
        SlotOutcome::CaughtUp | SlotOutcome::Backfilled => ("calm", "●", words(outcome)),
        SlotOutcome::Missed => ("bad", "!", "missed".to_owned()),
        outcome => ("warn", "–", words(outcome)),
    }
}

/// An outcome for people.
pub(super) fn words(outcome: SlotOutcome) -> String {
    match outcome {
        SlotOutcome::SkippedOverlap => "skipped: overlap".to_owned(),
        SlotOutcome::SkippedPaused => "skipped: paused".to_owned(),
        SlotOutcome::SkippedExcluded => "skipped: excluded".to_owned(),
        outcome => outcome.as_str().replace('_', " "),
    }
}

/// Nothing to show, and what to do next.
pub(super) fn empty(title: &str, next: Markup) -> Markup {
    html! { div.empty { p.strong { (title) } div { (next) } } }
}

/// A command or text with a button that copies it.
pub(super) fn copyable(text: &str) -> Markup {
    html! { div.copy { pre tabindex="0" { code { (text) } } button type="button" data-copy=(text) hidden { "Copy" } } }
}

/// A form with one button that does something.
pub(super) fn button(view: &View, action: &str, words: &str, tone: &str) -> Markup {
    html! {
        form.inline method="post" action=(view.to(action)) {
            input type="hidden" name="back" value=(view.here);
            button class=(tone) { (words) }
        }
    }
}

/// JSON for people: indented, numbers exactly as they were written.
pub(super) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    let mut characters = text.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth.min(40)));
    };
    while let Some(character) = characters.next() {
        if in_text {
            out.push(character);
            in_text = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            continue;
        }
        match character {
            '"' => {
                in_text = true;
                out.push('"');
            }
            '{' | '[' => {
                out.push(character);
                if matches!(characters.peek(), Some('}' | ']')) {
                    out.extend(characters.next());
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(',');
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            character if character.is_whitespace() => {}
            character => out.push(character),
        }
    }
    out
}

/// The reasons why something is as it is.
pub(super) fn why(why: &punctual::why::Why) -> Markup {
    html! {
        ul.reasons {
            @for reason in &why.reasons {
                li {
                    (prose(&reason.text))
                    @if let Some(remedy) = &reason.remedy { div.remedy { (prose(remedy)) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short() {
        let told = |ms: u64| length(Duration::from_millis(ms));
        assert_eq!(told(0), "0 ms");
        assert_eq!(told(999), "999 ms");
        assert_eq!(told(1_250), "1.2 s");
        assert_eq!(told(59_999), "59 s");
        assert_eq!(told(200_000), "3 min 20 s");
        assert_eq!(told(7_500_000), "2 h 5 min");
        assert_eq!(told(90_000_000), "1 d 1 h");
    }

    #[test]
    fn numbers_in_json_stay_as_they_were_written() {
        let text = r#"{"id":9007199254740993,"a":[1.10,{}],"t":"x{\",[y"}"#;
        let shown = json(text);
        assert!(shown.contains("9007199254740993") && shown.contains("1.10"));
        assert!(shown.contains(r#""x{\",[y""#), "{shown}");
        assert_eq!(shown.lines().count(), 8, "{shown}");
    }

    #[test]
    fn counts_stop() {
        assert_eq!((grouped(999), grouped(10_000)), ("999".to_owned(), "10\u{202f}000".to_owned()));
    }
}
