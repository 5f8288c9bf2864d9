//! What a process may believe of the database's clock, by all that it was told.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_store::SlotPlan;

use super::Record;
use crate::network::rows;

/// By how much the database's clock may gain and be believed at once, in microseconds.
const STEP_MAX: i64 = 60_000_000;

/// For so long no greater step is believed.
const BELIEVED_AFTER: Duration = Duration::from_secs(120);

impl Record {
    /// A process was told the time, in answer to what it sent then.
    pub(crate) fn saw_clock(&self, process: u32, sent: Duration, at: Timestamp) {
        let ahead = |of: Duration| at.as_micros() - of.as_micros() as i64;
        let least = ahead(self.clock.elapsed());
        let mut book = self.book();
        if book.believed.get(&process).is_none_or(|believed| least <= believed + STEP_MAX) {
            book.believed.insert(process, ahead(sent));
        }
    }

    /// A process wants this written of slots: none may be later than it has reason to believe. Two
    /// minutes after the first step it may have come to believe anything.
    pub(crate) fn decides(&self, process: u32, plans: &[SlotPlan]) {
        let now = self.clock.elapsed();
        let mut book = self.book();
        let is_young = book.stepped.is_some_and(|stepped| now < stepped + BELIEVED_AFTER);
        let Some(believed) = book.believed.get(&process).copied().filter(|_| is_young) else {
            return;
        };
        let latest = Timestamp::from_micros(now.as_micros() as i64 + believed + STEP_MAX);
        for row in plans.iter().flat_map(rows) {
            let slot = row.end.unwrap_or(row.slot);
            if slot > latest {
                let what = format!(
                    "process {process} decides slot {slot}, but its latest possible time is \
                     {latest}"
                );
                book.violate(now, what);
            }
        }
    }
}
