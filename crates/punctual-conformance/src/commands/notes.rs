//! Commands about what handlers note, what follows their jobs, and sets of schedules.

use punctual_core::job::LogLevel;
use punctual_store::*;

use super::Run;
use crate::world::json;

/// The sets that schedules are of.
pub(super) const SETS: [&str; 2] = ["code:shop", "code:mail"];

impl Run<'_> {
    /// What follows an attempt, mostly nothing; now and then what may not.
    pub(super) fn followers(&mut self) -> Vec<NewJob> {
        if !self.one_in(3) {
            return Vec::new();
        }
        let mut then: Vec<NewJob> = (0..1 + self.below(3)).map(|_| self.new_job()).collect();
        for job in &mut then {
            if !self.one_in(40) {
                job.unique = None;
            }
        }
        if self.one_in(40)
            && let Some(schedule) = self.pick(&self.schedules.clone())
        {
            then.push(self.manual_run(schedule));
        }
        then
    }

    pub(super) async fn save_step(&mut self) {
        let claimed = self.claimed.clone();
        for _ in 0..1 + self.below(3) {
            let from = if self.one_in(4) { 0 } else { claimed.len().saturating_sub(6) };
            let Some(job) = self.pick(&claimed[from..]) else { return };
            let name = ["a", "b", "c", "é"][self.below(4) as usize];
            let name = if self.one_in(20) { "" } else { name };
            let result = json(["1", r#"{"b":[2]}"#, "null"][self.below(3) as usize]);
            both!(self, save_step(self.at(), job.id, job.lease, name, &result));
            both!(self, steps(job.id));
        }
    }

    pub(super) async fn write_log(&mut self) {
        let mut lines = Vec::new();
        for _ in 0..self.below(5) {
            let level = LogLevel::ALL[self.below(LogLevel::ALL.len() as u64) as usize];
            let text = ["", "hello", "two\nlines"][self.below(3) as usize].to_owned();
            let (attempt, number) = (1 + self.below(3) as u32, 1 + self.below(5) as u32);
            let number = if self.one_in(40) { 0 } else { number };
            lines.push(LogLine { job: self.some_job(), attempt, number, level, text });
        }
        both!(self, write_log(self.at(), &lines));
        let job = self.some_job();
        let page = both!(self, log(job, None, 2));
        if let Some(cursor) = page.and_then(|page| page.next) {
            both!(self, log(job, Some(cursor), 2));
        }
    }

    pub(super) fn set(&mut self) -> String {
        SETS[self.below(2) as usize].to_owned()
    }

    pub(super) async fn register(&mut self) {
        let set = self.set();
        let mut entries = Vec::new();
        for _ in 0..self.below(4) {
            // Mostly its own, since others are refused.
            let (id, stamp, change) = self.change().await;
            let is_own =
                both!(self, schedule(id)).flatten().is_some_and(|schedule| schedule.set == set);
            if is_own || self.one_in(20) {
                entries.push(match self.below(8) {
                    0 => {
                        let name = format!("s{}", self.below(6));
                        SetEntry::Bring { id, stamp, name, changes: vec![change] }
                    }
                    1 => SetEntry::Remove {
                        id,
                        stamp,
                        passed: change.passed().cloned().unwrap_or_default(),
                    },
                    _ => SetEntry::Change { id, stamp, change },
                });
            } else if self.one_in(4) {
                let name = format!("s{}", self.below(6));
                entries.push(SetEntry::Bring { id, stamp, name, changes: Vec::new() });
            } else {
                let of = if self.one_in(20) { String::new() } else { set.clone() };
                entries.push(SetEntry::Create(self.new_schedule(of)));
            }
        }
        let generation = (self.step / 20) as i64 + self.below(3) as i64 - 1;
        let ask = Registration { set, generation, entries, actor: self.actor() };
        if let Some(Registered::Done(schedules)) = both!(self, register(self.at(), &ask)) {
            self.schedules.extend(schedules.iter().map(|schedule| schedule.id));
        }
        both!(self, generation(&ask.set));
        let job = self.new_job();
        both!(self, key_holder(self.at(), &job));
    }
}
