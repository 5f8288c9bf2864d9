//! What a job is told about the schedule that made it.

use serde::{Deserialize, Serialize};

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
}
