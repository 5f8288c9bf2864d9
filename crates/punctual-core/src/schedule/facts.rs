//! What a job is told about the schedule that made it.

use serde::{Deserialize, Serialize};

use crate::job::Backoff;

/// What a job is told about the schedule that made it, as it was then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The schedule's name.
    pub name: String,
    /// Its revision.
    pub revision: i64,
    /// Its rules.
    pub when: Vec<String>,
    /// Its zone.
    pub tz: String,
    /// Was the slot missed and is made up for now?
    pub caught_up: bool,
    /// How many slots before it were missed or folded into it.
    pub missed_count: u64,
    /// The waits between the job's attempts, if the schedule says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<String>,
}

/// As much of the facts as says how long to wait, so that nothing else of them is in the way.
#[derive(Deserialize)]
struct Waits {
    backoff: Option<String>,
}

impl Facts {
    /// The waits between attempts that a job's facts, as they are stored, ask for. Those that cannot be
    /// read ask for none: whoever wrote them was another program, and the job is tried again as if they
    /// were not there.
    pub fn backoff_of(stored: &str) -> Option<Backoff> {
        let waits: Waits = serde_json::from_str(stored).ok()?;
        waits.backoff?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_say_how_long_to_wait_whatever_else_they_say() {
        let facts = Facts { backoff: Some("fixed 10s".to_owned()), ..Facts::default() };
        let stored = serde_json::to_string(&facts).unwrap();
        assert_eq!(Facts::backoff_of(&stored), "fixed 10s".parse().ok());
        assert!(Facts::backoff_of(r#"{"backoff": "fixed 10s"}"#).is_some());
        for silent in ["", "null", "{}", r#"{"backoff": null}"#, r#"{"backoff": "now and then"}"#] {
            assert_eq!(Facts::backoff_of(silent), None, "{silent}");
        }
        let usual = serde_json::to_string(&Facts::default()).unwrap();
        assert!(!usual.contains("backoff"), "{usual}");
    }
}
