//! The verdict: the ledger and the jobs beside what is due by counting seconds. It shares nothing
//! with the planner, and decides nothing that it could not have known before.

use std::collections::BTreeMap;

use punctual_core::job::SlotOutcome;
use serde_json::{Value, json};

use super::records::{Id, JobRecord, Records, ScheduleRecord, SlotRecord, TermRecord};
use super::schedules::Known;
use super::stretches::{Lengths, Quiet};

const SECOND: i64 = 1_000_000;

/// What was found.
#[derive(Default)]
pub(crate) struct Verdict {
    schedules: u64,
    /// Instants that were due.
    slots: u64,
    rows: u64,
    fired: u64,
    caught_up: u64,
    skipped_overlap: u64,
    jobs: u64,
    terms: u64,
    /// Slots that nobody decided, and jobs that their slots do not have.
    lost: u64,
    /// Slots that were decided twice, or have two jobs.
    doubled: u64,
    /// Decisions or claims before the slot.
    early: u64,
    /// Decisions and jobs for slots that never were.
    phantom: u64,
    /// Slots without a job where nothing stood in the way of one.
    skipped: u64,
    /// Decisions under a term that was over, or was another's.
    out_of_term: u64,
    /// Attempts beside another where the schedule forbids it.
    at_once: u64,
    /// Slots that fired while an earlier job was unfinished, where the schedule forbids it.
    overlapping: u64,
    unfinished: u64,
    /// How late slots were decided while nothing was wrong.
    lateness: Lengths,
    /// The same for all.
    lateness_ever: Lengths,
    /// The first thing that is wrong, in words.
    pub(crate) first_broken: Option<String>,
}

/// The first multiple of a step in seconds after an instant.
fn next_multiple(step: i64, after: i64) -> i64 {
    (after.div_euclid(step * SECOND) + 1) * step * SECOND
}

impl Verdict {
    /// Judges what the database says about these schedules, of which everything was decided at the
    /// instant `until`.
    pub(crate) fn of(records: &Records, known: &[Known], quiet: &Quiet, until: i64) -> Verdict {
        let mut verdict = Verdict {
            schedules: known.len() as u64,
            rows: records.slots.len() as u64,
            jobs: records.jobs.len() as u64,
            terms: records.terms.len() as u64,
            ..Verdict::default()
        };
        let mut rows: BTreeMap<Id, Vec<&SlotRecord>> = BTreeMap::new();
        for row in &records.slots {
            rows.entry(row.schedule).or_default().push(row);
        }
        let mut jobs: BTreeMap<(Id, i64), Vec<Id>> = BTreeMap::new();
        for JobRecord { id, schedule, slot, .. } in &records.jobs {
            match (schedule, slot) {
                (Some(schedule), Some(slot)) => {
                    jobs.entry((*schedule, *slot)).or_default().push(*id);
                }
                _ => verdict.phantom("a job without a slot"),
            }
        }
        for schedule in known {
            let own = rows.remove(&schedule.id).unwrap_or_default();
            let Some(record) = records.schedules.iter().find(|record| record.id == schedule.id)
            else {
                verdict.lost(&schedule.name, "the schedule itself");
                continue;
            };
            verdict.judge_cover(schedule, record, &own, until);
            verdict.judge_jobs(schedule, &own, &mut jobs);
            verdict.judge_terms(schedule, &own, &records.terms);
            verdict.judge_overlap(schedule, &own, &records.jobs);
            verdict.count(schedule, &own, quiet);
        }
        if !rows.is_empty() {
            verdict.phantom("ledger rows without a schedule");
        }
        for ((_, slot), ids) in jobs {
            for _ in ids {
                verdict.phantom(&format!("a job of slot {slot}, which is missing in the ledger"));
            }
        }
        verdict.judge_attempts(records, known);
        if records.unfinished > 0 {
            verdict.unfinished = records.unfinished;
            verdict.breaks(format!("{} jobs are not finished", records.unfinished));
        }
        verdict
    }

    pub(crate) fn breaks(&mut self, what: String) {
        self.first_broken.get_or_insert(what);
    }

    fn lost(&mut self, name: &str, what: &str) {
        self.lost += 1;
        self.breaks(format!("{name}: {what} is lost"));
    }

    fn doubled(&mut self, name: &str, what: &str) {
        self.doubled += 1;
        self.breaks(format!("{name}: {what} exists twice"));
    }

    fn early(&mut self, name: &str, what: &str) {
        self.early += 1;
        self.breaks(format!("{name}: {what} before its time"));
    }

    fn phantom(&mut self, what: &str) {
        self.phantom += 1;
        self.breaks(what.to_owned());
    }

    /// Each slot from the creation to the watermark has one outcome, and nothing else has one.
    fn judge_cover(
        &mut self,
        known: &Known,
        record: &ScheduleRecord,
        rows: &[&SlotRecord],
        until: i64,
    ) {
        let name = &known.name;
        let mut cover: BTreeMap<i64, u64> = BTreeMap::new();
        for row in rows {
            let (first, last) = (row.slot, row.end.unwrap_or(row.slot));
            let each = (first..=last).step_by((known.step * SECOND) as usize);
            let mut count = 0;
            for slot in each {
                count += 1;
                *cover.entry(slot).or_default() += 1;
            }
            let ends_on_one = (last - first) % (known.step * SECOND) == 0;
            if count != row.count || !ends_on_one {
                let said = row.count;
                self.phantom(&format!(
                    "{name}: {first} to {last} is recorded as {said} slots, expected {count}"
                ));
            }
            if row.decided_at < last {
                self.early(name, &format!("slot {last} was decided at {}", row.decided_at));
            }
        }
        // The creation looks at the clock twice: what begins with it may lie between the two.
        let earliest = next_multiple(known.step, known.asked_at);
        let latest = next_multiple(known.step, record.created_at);
        let begin = cover.keys().next().map_or(latest, |first| (*first).clamp(earliest, latest));
        let decided = record.next_slot.unwrap_or(until);
        if decided != next_multiple(known.step, decided - 1) {
            self.phantom(&format!("{name}: the watermark {decided} is not a slot"));
        }
        if cover.keys().next_back().is_some_and(|last| *last >= decided) {
            self.phantom(&format!(
                "{name}: slots after the watermark {decided} are already decided"
            ));
        }
        let mut slot = begin;
        while slot < decided || slot <= until {
            self.slots += 1;
            match cover.remove(&slot) {
                None => self.lost(name, &format!("slot {slot}")),
                Some(1) => {}
                Some(_) => self.doubled(name, &format!("slot {slot}")),
            }
            slot += known.step * SECOND;
        }
        for slot in cover.keys() {
            self.phantom(&format!("{name}: {slot} was decided but was not due"));
        }
    }

    /// Each slot that says so has its job, which no other one has.
    fn judge_jobs(
        &mut self,
        known: &Known,
        rows: &[&SlotRecord],
        jobs: &mut BTreeMap<(Id, i64), Vec<Id>>,
    ) {
        let name = &known.name;
        for row in rows {
            let what = format!("the job of slot {}", row.slot);
            let has_job = row.outcome.has_job();
            let made = if has_job { jobs.remove(&(row.schedule, row.slot)) } else { None };
            match (has_job, row.job, made.as_deref()) {
                (true, Some(job), Some([only])) if job == *only => {}
                (false, None, None) => {}
                (true, Some(_), Some([_, _, ..])) => self.doubled(name, &what),
                (true, ..) => self.lost(name, &what),
                (false, ..) => self.phantom(&format!("{name}: {what}, which was skipped")),
            }
        }
    }

    /// Terms only grow, and each decides while it lasts.
    fn judge_terms(&mut self, known: &Known, rows: &[&SlotRecord], terms: &[TermRecord]) {
        let mut by_time = rows.to_vec();
        by_time.sort_by_key(|row| (row.decided_at, row.slot));
        let falls = |rows: &[&SlotRecord]| {
            rows.windows(2).filter(|pair| pair[1].term < pair[0].term).count() as u64
        };
        let mut wrong = falls(rows) + falls(&by_time);
        for row in rows {
            let index = terms.iter().position(|term| term.term == row.term);
            let is_in_term = index.is_some_and(|index| {
                let next = terms.get(index + 1).map_or(i64::MAX, |next| next.at);
                terms[index].node == row.node && (terms[index].at..=next).contains(&row.decided_at)
            });
            wrong += u64::from(!is_in_term);
        }
        self.out_of_term += wrong;
        if wrong > 0 {
            self.breaks(format!(
                "{}: {wrong} slots were decided outside the leader's term",
                known.name
            ));
        }
    }

    /// No slot fires while an earlier job is unfinished, if the schedule skips slots then.
    fn judge_overlap(&mut self, known: &Known, rows: &[&SlotRecord], jobs: &[JobRecord]) {
        if !known.is_skipping {
            return;
        }
        let own = jobs.iter().filter(|job| job.schedule == Some(known.id));
        let ends: BTreeMap<Id, i64> =
            own.map(|job| (job.id, job.finished_at.unwrap_or(i64::MAX))).collect();
        let mut by_time: Vec<_> =
            rows.iter().filter_map(|row| Some((row.decided_at, row.slot, row.job?))).collect();
        by_time.sort_unstable();
        let mut latest_end = i64::MIN;
        for (decided_at, slot, job) in by_time {
            if decided_at < latest_end {
                self.overlapping += 1;
                self.breaks(format!(
                    "{}: slot {slot} fired at {decided_at}, while a job was unfinished until {latest_end}",
                    known.name
                ));
            }
            latest_end = latest_end.max(ends.get(&job).copied().unwrap_or(i64::MIN));
        }
    }

    fn count(&mut self, known: &Known, rows: &[&SlotRecord], quiet: &Quiet) {
        for row in rows {
            match row.outcome {
                SlotOutcome::Fired => self.fired += 1,
                SlotOutcome::CaughtUp => self.caught_up += 1,
                SlotOutcome::SkippedOverlap if !known.is_always => self.skipped_overlap += 1,
                other => {
                    self.skipped += 1;
                    self.breaks(format!("{}: slot {} is {other}", known.name, row.slot));
                }
            }
            let late = row.decided_at - row.slot;
            self.lateness_ever.note(late);
            if quiet.holds(row.slot, row.slot + SECOND) {
                self.lateness.note(late);
            }
        }
    }

    /// No attempt begins before its slot, nor beside another that forbids it.
    fn judge_attempts(&mut self, records: &Records, known: &[Known]) {
        let origins: BTreeMap<Id, (Id, i64)> = records
            .jobs
            .iter()
            .filter_map(|job| Some((job.id, (job.schedule?, job.slot?))))
            .collect();
        let mut spans: BTreeMap<Id, Vec<(i64, i64)>> = BTreeMap::new();
        for attempt in &records.attempts {
            let Some((schedule, slot)) = origins.get(&attempt.job) else {
                self.phantom("an attempt that belongs to no slot's job");
                continue;
            };
            if attempt.claimed_at < *slot {
                self.early("a job", &format!("of slot {slot} was claimed"));
            }
            spans.entry(*schedule).or_default().push((attempt.claimed_at, attempt.ended_at));
        }
        for schedule in known.iter().filter(|schedule| !schedule.is_always) {
            let mut spans = spans.remove(&schedule.id).unwrap_or_default();
            spans.sort_unstable();
            let overlapping = spans.windows(2).filter(|pair| pair[1].0 < pair[0].1).count() as u64;
            self.at_once += overlapping;
            if overlapping > 0 {
                self.breaks(format!(
                    "{}: {overlapping} attempts started while another attempt was running",
                    schedule.name
                ));
            }
        }
    }

    /// All of it.
    pub(crate) fn said(&self) -> Value {
        json!({
            "schedules": self.schedules, "slots": self.slots, "rows": self.rows,
            "fired": self.fired, "caught_up": self.caught_up,
            "skipped_overlap": self.skipped_overlap, "jobs": self.jobs, "terms": self.terms,
            "lost": self.lost, "doubled": self.doubled, "early": self.early,
            "phantom": self.phantom, "skipped": self.skipped, "out_of_term": self.out_of_term,
            "at_once": self.at_once, "overlapping": self.overlapping, "unfinished": self.unfinished,
            "quiet_slots": self.lateness.count(),
            "late_quiet_p50_ms": self.lateness.share_ms(50),
            "late_quiet_p99_ms": self.lateness.share_ms(99),
            "late_worst_ms": self.lateness_ever.worst_ms()
        })
    }
}

#[cfg(test)]
mod tests;
