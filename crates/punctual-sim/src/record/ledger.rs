//! At the end: the ledger, the jobs and the terms that the store keeps, beside the account.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::{JobId, ScheduleId, Timestamp};
use punctual_store::{JobDetail, LeaderChange, Schedule, SlotView};

use super::{Past, Record};

/// What the store keeps of schedules.
pub(crate) struct Kept {
    /// Those that are there, by name.
    pub(crate) schedules: Vec<Schedule>,
    /// The ledgers of all that were ever there, in order.
    pub(crate) ledgers: BTreeMap<ScheduleId, Vec<SlotView>>,
    /// Who led, newest first.
    pub(crate) changes: Vec<LeaderChange>,
}

impl Record {
    /// The schedules that the store has or had.
    pub(crate) fn schedules(&self) -> Vec<ScheduleId> {
        self.book().past.courses.keys().copied().collect()
    }

    /// Compares the store with the account.
    pub(crate) fn compare_schedules(&self, kept: &Kept, details: &[JobDetail]) {
        let now = self.clock.elapsed();
        let mut book = self.book();
        let past = &book.past;
        let mut wrong = past.compare_ledgers(kept);
        wrong.extend(past.compare_schedules(kept));
        let discarded = past.courses.values().flat_map(|course| course.discarded.iter().copied());
        wrong.extend(compare_jobs(kept, details, &discarded.collect()));
        wrong.extend(compare_terms(kept));
        for wrong in wrong {
            book.violate(now, wrong);
        }
    }
}

impl Past {
    /// What was decided is in the ledger, as it was, and nothing else is.
    fn compare_ledgers(&self, kept: &Kept) -> Vec<String> {
        let mut wrong = Vec::new();
        for (id, course) in &self.courses {
            let name = &course.name;
            let ledger = kept.ledgers.get(id).map(Vec::as_slice).unwrap_or_default();
            let ledger: BTreeMap<Timestamp, &SlotView> =
                ledger.iter().map(|view| (view.slot, view)).collect();
            for (slot, view) in &course.rows {
                if ledger.get(slot) != Some(&view) {
                    wrong.push(format!(
                        "schedule {name}: the ledger has {:?} for slot {slot}, but had {view:?} \
                         before",
                        ledger.get(slot)
                    ));
                }
            }
            for (slot, view) in ledger {
                if !course.rows.contains_key(&slot) {
                    wrong.push(format!("schedule {name}: no process decided {view:?}"));
                }
            }
        }
        wrong
    }

    fn compare_schedules(&self, kept: &Kept) -> Vec<String> {
        let mut wrong = Vec::new();
        let there: BTreeMap<ScheduleId, &Schedule> =
            kept.schedules.iter().map(|schedule| (schedule.id, schedule)).collect();
        for (id, course) in self.courses.iter().filter(|(_, course)| !course.is_gone) {
            let Some(schedule) = there.get(id) else {
                wrong.push(format!("schedule {} is lost", course.name));
                continue;
            };
            let is_same = schedule.enabled == course.is_enabled
                && schedule.revision == course.revision
                && schedule.set_aside.is_none()
                && (!course.is_enabled || schedule.next_slot == Some(course.watermark));
            if !is_same {
                let (next, enabled) = (course.watermark, course.is_enabled);
                wrong.push(format!(
                    "{schedule:?}: expected revision {}, enabled {enabled}, next slot {next}",
                    course.revision
                ));
            }
        }
        let is_known = |id: &ScheduleId| self.courses.get(id).is_some_and(|it| !it.is_gone);
        let unknown = there.iter().filter(|(id, _)| !is_known(id));
        wrong.extend(unknown.map(|(id, _)| format!("schedule {id} was never created")));
        wrong
    }
}

/// One job for each row that has one, and one row for each job of a slot, except those of discarded rows.
fn compare_jobs(kept: &Kept, details: &[JobDetail], discarded: &BTreeSet<JobId>) -> Vec<String> {
    let mut made: BTreeMap<JobId, (ScheduleId, Timestamp)> = BTreeMap::new();
    for (id, ledger) in &kept.ledgers {
        made.extend(ledger.iter().filter_map(|view| Some((view.job?, (*id, view.slot)))));
    }
    let mut wrong = Vec::new();
    for detail in details {
        let Some((schedule, Some(slot))) = detail.view.schedule else { continue };
        let job = detail.view.id;
        if discarded.contains(&job) {
            continue;
        }
        if made.remove(&job) != Some((schedule, slot)) {
            wrong.push(format!("job {job} is for slot {slot}, but the ledger names another job"));
        }
    }
    let missing = made.iter();
    wrong.extend(missing.map(|(job, (_, slot))| format!("job {job} of slot {slot} is lost")));
    wrong
}

/// Terms rise, and each row names one that was won by the node that it names.
fn compare_terms(kept: &Kept) -> Vec<String> {
    let mut wrong = Vec::new();
    let newest_first = kept.changes.windows(2);
    if newest_first.into_iter().any(|pair| pair[0].term <= pair[1].term) {
        wrong.push(format!("terms do not rise: {:?}", kept.changes));
    }
    for view in kept.ledgers.values().flatten().filter(|view| view.term != 0) {
        let is_its = |change: &LeaderChange| (change.term, change.node) == (view.term, view.node);
        if !kept.changes.iter().any(is_its) {
            wrong.push(format!("no leader was active when {view:?} was decided"));
        }
    }
    wrong
}
