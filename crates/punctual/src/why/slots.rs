//! What became of a schedule's last slots.

use punctual_core::job::SlotOutcome;
use punctual_store::SlotView;

use super::Reason;
use crate::wording::{after_colon, instant, listed};

/// What the ledger tells, newest first: how the last slots ended, and why those that became no job
/// did not.
pub(super) fn reasons(newest_first: &[SlotView]) -> Vec<Reason> {
    let total: u64 = newest_first.iter().map(|row| row.count).sum();
    let Some(oldest) = newest_first.last() else { return Vec::new() };
    let of = |outcome: SlotOutcome| {
        let rows = newest_first.iter().filter(move |row| row.outcome == outcome);
        (outcome, rows.map(|row| row.count).sum::<u64>())
    };
    let told = SlotOutcome::ALL.iter().map(|outcome| of(*outcome)).filter(|(_, count)| *count > 0);
    let told: Vec<(SlotOutcome, u64)> = told.collect();
    let summary = listed(told.iter().map(|(outcome, count)| match total {
        1 => outcome.to_string(),
        _ => format!("{count} {outcome}"),
    }));
    let since = instant(oldest.slot);
    let text = match total {
        1 => format!("last slot {since}: {summary}"),
        _ => format!("last {total} slots since {since}: {summary}"),
    };
    let mut reasons = vec![Reason::new("recent_slots", text)];
    for (outcome, count) in told.into_iter().filter(|(outcome, _)| !outcome.has_job()) {
        let Some(newest) = newest_first.iter().find(|row| row.outcome == outcome) else { continue };
        reasons.push(skipped(newest, count));
    }
    reasons
}

/// Why slots became no job, by the newest of them.
fn skipped(newest: &SlotView, count: u64) -> Reason {
    let (code, what) = match newest.outcome {
        SlotOutcome::SkippedOverlap => ("skipped_overlap", "skipped because of overlap"),
        SlotOutcome::SkippedPaused => ("skipped_paused", "skipped during a pause"),
        SlotOutcome::SkippedExcluded => ("skipped_excluded", "skipped by `exclude`"),
        SlotOutcome::Coalesced => ("coalesced", "late and merged into a newer one"),
        SlotOutcome::Missed
        | SlotOutcome::Fired
        | SlotOutcome::CaughtUp
        | SlotOutcome::Backfilled => ("missed", "missed"),
    };
    let last = instant(newest.end.unwrap_or(newest.slot));
    let reason = after_colon(newest.reason.as_deref().unwrap_or_default());
    let text = match count {
        1 => format!("slot {last} was {what}{reason}"),
        _ => format!("{count} slots were {what}, latest {last}{reason}"),
    };
    Reason::new(code, text)
}
