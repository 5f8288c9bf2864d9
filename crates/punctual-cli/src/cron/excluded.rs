//! What becomes of slots that are excluded, beside those that fire.

use punctual_core::Timestamp;
use punctual_core::schedule::Rule;
use serde::Serialize;

use super::question::Asked;

/// The most excluded slots that are told; more would hide those that fire.
const EXCLUDED_MAX: usize = 100;

/// A slot that falls out.
#[derive(Serialize)]
pub(super) struct Excluded {
    #[serde(skip)]
    pub(super) at: Timestamp,
    slot: String,
    moved_to: Option<String>,
    /// Where it went or why it went nowhere, if excluded slots move.
    note: Option<String>,
    /// Is it the last that is told, and more follow?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more_follow: bool,
}

/// A slot that is there instead of another.
#[derive(Serialize)]
pub(super) struct MovedHere {
    #[serde(skip)]
    at: Timestamp,
    slot: String,
    from: String,
}

/// What a calendar does to the answer.
#[derive(Serialize)]
pub(super) struct Effect {
    pub(super) excluded: Vec<Excluded>,
    moved: Vec<MovedHere>,
}

impl Effect {
    /// What the question's calendar does to these slots and to what lies before the last of them;
    /// none if it has no calendar.
    pub(super) fn on(asked: &Asked, slots: &[Timestamp]) -> Option<Effect> {
        let rule = asked.rule.as_ref()?;
        let end = slots.last().copied().unwrap_or(Timestamp::MAX);
        let all = rule.spec.slots(asked.just_after(), end, usize::MAX);
        let excluded = all.filter(|slot| rule.is_excluded(*slot)).take(EXCLUDED_MAX + 1);
        let mut excluded: Vec<Excluded> = excluded.map(|slot| Excluded::new(rule, slot)).collect();
        let more_follow = excluded.len() > EXCLUDED_MAX;
        excluded.truncate(EXCLUDED_MAX);
        if let Some(last) = excluded.last_mut() {
            last.more_follow = more_follow;
        }
        let moved = slots.iter().filter_map(|slot| Some((*slot, rule.spec.moved_from(*slot)?)));
        Some(Effect {
            excluded,
            moved: moved
                .map(|(at, from)| MovedHere { at, slot: at.to_string(), from: from.to_string() })
                .collect(),
        })
    }
}

impl Effect {
    /// What is said beside a slot.
    pub(super) fn words(&self, slot: Timestamp) -> Option<String> {
        let excluded = self.excluded.iter().find(|it| it.at == slot).map(Excluded::words);
        excluded.or_else(|| self.moved.iter().find(|it| it.at == slot).map(MovedHere::words))
    }
}

impl Excluded {
    fn new(rule: &Rule, at: Timestamp) -> Excluded {
        let moved_to = match rule.spec.moved(at) {
            Some(punctual_core::Moved::To(to)) => Some(to.to_string()),
            _ => None,
        };
        Excluded { at, slot: at.to_string(), moved_to, note: rule.moved(at), more_follow: false }
    }

    /// What is said beside it.
    fn words(&self) -> String {
        let note = self.note.as_ref().map(|note| format!(", {note}")).unwrap_or_default();
        let more = if self.more_follow { "; more excluded slots are not shown" } else { "" };
        format!("excluded{note}{more}")
    }
}

impl MovedHere {
    /// What is said beside it.
    fn words(&self) -> String {
        format!("moved from {}", self.from)
    }
}
