//! Steps and logs.

use punctual_core::{JobId, LeaseId, Timestamp};

use super::state::{Place, State};
use crate::*;

impl State {
    pub(super) fn save_step(
        &mut self,
        now: Timestamp,
        job: JobId,
        lease: LeaseId,
        name: &str,
        result: &Json,
    ) -> Result<StepAnswer> {
        if !matches!(self.places.get(&job), Some(Place::Lease(held)) if held.lease == lease) {
            return Ok(StepAnswer::Fenced);
        }
        let key = (job, name.to_owned());
        if let Some(kept) = self.steps.get(&key) {
            return Ok(StepAnswer::Already(kept.result.clone()));
        }
        if self.list_steps(job).len() >= limits::STEPS_MAX {
            return Err(rules::too_many_steps(job));
        }
        let step = StepView { name: name.to_owned(), result: result.clone(), at: now };
        self.steps.insert(key, step);
        Ok(StepAnswer::Saved)
    }

    pub(super) fn list_steps(&self, job: JobId) -> Vec<StepView> {
        let from = self.steps.range((job, String::new())..);
        let of_job = from.take_while(|((of, _), _)| *of == job);
        let mut steps: Vec<StepView> = of_job.map(|(_, step)| step.clone()).collect();
        // They come by name, and a stable sort keeps them so where instants are equal.
        steps.sort_by_key(|step| step.at);
        steps
    }

    pub(super) fn forget_steps(&mut self, job: JobId) {
        self.steps.retain(|(of, _), _| *of != job);
    }

    pub(super) fn write_log(&mut self, now: Timestamp, lines: &[LogLine]) {
        for line in lines.iter().filter(|line| self.bodies.contains_key(&line.job)) {
            let view = line.kept(now);
            self.log.entry((line.job, view.cursor())).or_insert(view);
        }
    }

    pub(super) fn list_log(
        &self,
        job: JobId,
        after: Option<LogCursor>,
        most: usize,
    ) -> Page<LogView, LogCursor> {
        let is_after = |view: &&LogView| after.is_none_or(|after| view.cursor() > after);
        Page::take(self.log_of(job).filter(is_after).cloned(), most, LogView::cursor)
    }

    pub(super) fn list_newest_log(
        &self,
        job: JobId,
        before: Option<LogCursor>,
        most: usize,
    ) -> Page<LogView, LogCursor> {
        let is_before = |view: &&LogView| before.is_none_or(|before| view.cursor() < before);
        Page::take(self.log_of(job).rev().filter(is_before).cloned(), most, LogView::cursor)
    }

    fn log_of(&self, job: JobId) -> impl DoubleEndedIterator<Item = &LogView> {
        let (first, last) = (LogCursor(0, 0), LogCursor(u32::MAX, u32::MAX));
        self.log.range((job, first)..=(job, last)).map(|(_, view)| view)
    }
}
