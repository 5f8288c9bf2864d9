//! The jobs of one schedule while time passes: which are unfinished, and what that means for the next
//! slot. There is a free worker for each, so that a job starts as soon as it may.
//!
//! A job that is under way when nobody is there ends as if somebody were; one that waits starts after
//! that. One that is called off ends at once.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::job::SlotOutcome;
use punctual_core::schedule::{Overlap, Seat};

use super::{Decision, Story};

/// Unfinished jobs of a schedule that queues all of them, as many as the stores allow.
pub const LIVE_MAX: usize = 1_000;

/// Jobs, by the numbers of the decisions that made them and that have their times.
#[derive(Clone, Debug, Default)]
pub(super) struct Jobs {
    /// Those whose start is known, by their end.
    running: BTreeSet<(Timestamp, usize)>,
    /// Those that wait until these have ended.
    waiting: VecDeque<usize>,
    /// All of them.
    unfinished: BTreeSet<usize>,
    /// When the last one ended.
    ended: Option<Timestamp>,
}

/// What jobs go by.
pub(super) struct Course<'a> {
    pub(super) story: &'a Story,
    pub(super) takes: Duration,
    pub(super) decisions: &'a mut [Decision],
}

impl Jobs {
    /// Lets time pass up to now: jobs end, and those that waited for them start.
    pub(super) fn pass(&mut self, now: Timestamp, course: &mut Course<'_>) {
        loop {
            while let Some((end, job)) = self.running.first().copied().filter(|it| it.0 <= now) {
                self.running.remove(&(end, job));
                self.unfinished.remove(&job);
                self.ended = Some(end);
            }
            let free = self.ended.map(|ended| course.story.up(ended)).filter(|free| *free <= now);
            let (true, Some(free)) = (self.running.is_empty(), free) else { return };
            let Some(next) = self.waiting.pop_front() else { return };
            let due = course.decisions[next].due_at.unwrap_or(free);
            self.start(next, due.max(free), course);
        }
    }

    fn start(&mut self, job: usize, due: Timestamp, course: &mut Course<'_>) {
        let start = course.story.up(due);
        let end = start + course.takes;
        let decision = &mut course.decisions[job];
        (decision.starts_at, decision.ends_at) = (Some(start), Some(end));
        self.running.insert((end, job));
        self.unfinished.insert(job);
    }

    /// What becomes of the slots that were planned now, which are the decisions from `first` on: as the
    /// transaction that fires them decides it.
    pub(super) fn seat(
        &mut self,
        now: Timestamp,
        overlap: Overlap,
        first: usize,
        course: &mut Course<'_>,
    ) {
        let planned = course.decisions[first..].iter();
        let last = planned.rev().find(|it| it.due_at.is_some()).map(|it| it.slot);
        let Some(last) = last else { return };
        if overlap == Overlap::CancelRunning {
            self.call_off(now, course.decisions);
        }
        for job in first..course.decisions.len() {
            let Some(due) = course.decisions[job].due_at else { continue };
            if overlap == Overlap::CancelRunning && course.decisions[job].slot < last {
                refuse(&mut course.decisions[job], format!("replaced by slot {last}"));
                continue;
            }
            match overlap.seat(self.unfinished.len(), self.waiting.len(), LIVE_MAX) {
                Seat::Free => self.start(job, due.max(now), course),
                Seat::Wait => {
                    self.waiting.push_back(job);
                    self.unfinished.insert(job);
                }
                Seat::Taken => {
                    let before = self.unfinished.first().map(|it| course.decisions[*it].slot);
                    let reason = match (overlap, before) {
                        (Overlap::Skip, Some(slot)) => {
                            format!("the job of slot {slot} is unfinished")
                        }
                        _ => format!("jobs already waiting: {}", self.waiting.len()),
                    };
                    refuse(&mut course.decisions[job], reason);
                }
            }
        }
        self.pass(now, course);
    }

    /// Calls off all that is unfinished; what is at work is so until it has ended.
    fn call_off(&mut self, now: Timestamp, decisions: &mut [Decision]) {
        let running = std::mem::take(&mut self.running);
        let waiting = std::mem::take(&mut self.waiting);
        for job in running.into_iter().map(|(_, job)| job).chain(waiting) {
            let decision = &mut decisions[job];
            decision.ends_at = Some(now);
            if decision.starts_at.is_some_and(|start| start <= now) {
                self.running.insert((now, job));
            } else {
                decision.starts_at = None;
                self.unfinished.remove(&job);
            }
        }
    }
}

fn refuse(decision: &mut Decision, reason: String) {
    decision.outcome = SlotOutcome::SkippedOverlap.to_string();
    decision.reason = Some(reason);
    decision.due_at = None;
    decision.missed_count = 0;
}
