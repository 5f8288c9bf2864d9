//! Commands about schedules: creating, changing and firing them.

use std::time::Duration;

use punctual_core::job::SlotOutcome;
use punctual_core::schedule::{ON_TIME, Overlap};
use punctual_core::{JobId, ScheduleId, Timestamp};
use punctual_store::*;

use super::Run;
use crate::world::json;

impl Run<'_> {
    pub(super) fn new_schedule(&mut self, set: String) -> NewSchedule {
        let id = self.one_in(4).then(|| self.pick(&self.schedules.clone())).flatten();
        NewSchedule {
            id: id.unwrap_or_else(|| ScheduleId::mint(self.now, self.random())),
            tenant: ["", "acme"][self.below(2) as usize].to_owned(),
            name: format!("s{}", self.below(6)),
            owner: "ops".to_owned(),
            set,
            shard: 0,
            enabled: true,
            spec: json(r#"{"cron":"* * * * *"}"#),
            next_slot: (!self.one_in(6)).then(|| self.now + self.seconds(20)),
            actor: self.actor(),
        }
    }

    pub(super) async fn create_schedule(&mut self) {
        let set = if self.one_in(4) { self.set() } else { String::new() };
        let new = self.new_schedule(set);
        if both!(self, create_schedule(self.at(), &new)).is_some() {
            self.schedules.push(new.id);
        }
    }

    pub(super) async fn change_schedule(&mut self) {
        let (id, stamp, change) = self.change().await;
        let actor = self.actor();
        if self.one_in(6) {
            both!(self, delete_schedule(self.at(), id, stamp, &actor));
            return;
        }
        both!(self, change_schedule(self.at(), id, stamp, &change, &actor));
        let page = both!(self, revisions(id, None, 2));
        if let Some(cursor) = page.and_then(|page| page.next) {
            both!(self, revisions(id, Some(cursor), 2));
        }
    }

    /// A change of a schedule, mostly from its present stamp.
    pub(super) async fn change(&mut self) -> (ScheduleId, i64, ScheduleChange) {
        let unknown = ScheduleId::mint(self.now, self.random());
        let id = self.pick(&self.schedules.clone()).unwrap_or(unknown);
        let seen = both!(self, schedule(id)).flatten();
        let stamp = seen.as_ref().map_or(1, |schedule| schedule.stamp) - i64::from(self.one_in(6));
        let last_slot = seen.as_ref().and_then(|schedule| schedule.last_slot);
        let passed = self.passed(seen.and_then(|schedule| schedule.next_slot));
        // Also into the past, where slots may be decided already.
        let next_slot = Some(self.now + self.seconds(20) - self.seconds(60));
        let change = match self.below(6) {
            0 => ScheduleChange::Define {
                spec: json(r#"{"cron":"@daily"}"#),
                owner: "web".to_owned(),
                next_slot,
                passed,
            },
            1 => {
                ScheduleChange::Pause { until: self.one_in(2).then(|| self.now + self.seconds(60)) }
            }
            2 => ScheduleChange::Resume,
            3 => ScheduleChange::Enable { next_slot, passed },
            4 => self.realignment(id, last_slot).await,
            _ => ScheduleChange::Disable { passed },
        };
        (id, stamp, change)
    }

    /// A realignment to before the last decided slot; now and then it is wrong.
    async fn realignment(&mut self, id: ScheduleId, last: Option<Timestamp>) -> ScheduleChange {
        let last = last.unwrap_or(self.now);
        let after = if self.one_in(4) { self.now } else { last - self.seconds(20) };
        let page = both!(self, slots(id, Some(SlotCursor(after + Duration::from_micros(1), 0)), 1));
        let begun = page.and_then(|page| page.items.into_iter().next());
        let cut = begun.filter(|_| !self.one_in(6)).map(|view| {
            let end = (view.count > 1 && self.one_in(2)).then_some(after.max(view.slot));
            RowCut { slot: view.slot, end, count: 1 + u64::from(end.is_some()) }
        });
        let next_slot = Some(self.now.max(after) + self.seconds(20));
        ScheduleChange::Realign(Realignment { after, next_slot, cut })
    }

    /// What is due and undecided, as it would be passed over; now and then it is wrong.
    fn passed(&mut self, watermark: Option<Timestamp>) -> PassedSlots {
        let Some(slot) = watermark.filter(|slot| *slot <= self.now || self.one_in(8)) else {
            return PassedSlots::default();
        };
        if self.one_in(3) {
            return PassedSlots::default();
        }
        let slot = if self.one_in(10) { slot + self.seconds(5) } else { slot };
        let end = self.one_in(2).then(|| slot + self.seconds(10));
        let reason = Some("passed over".to_owned());
        let row = SlotRow { slot, end, count: 2, outcome: SlotOutcome::Missed, reason, job: None };
        // Now and then the next slot became due meanwhile.
        let next = Some(self.now + self.seconds(40) - self.seconds(5));
        PassedSlots { rows: vec![row], next }
    }

    pub(super) async fn fire(&mut self) {
        let most = 1 + self.below(5) as usize;
        let Some(due) = both!(self, due(self.at(), 0, most)) else { return };
        let mut plans: Vec<SlotPlan> =
            due.schedules.iter().map(|schedule| self.plan(schedule)).collect();
        if self.one_in(4) {
            plans.extend(self.pick(&self.old_plans.clone()));
        }
        let Some(fence) = self.scheduler() else { return self.lead().await };
        both!(self, fire(self.at(), &fence, Duration::from_secs(5), &plans));
        for plan in plans {
            if let SlotDecision::Advance { slots, .. } = &plan.decision {
                let fired = slots.iter().filter_map(|row| Some(row.job.as_ref()?.id));
                self.jobs.extend(fired);
            }
            both!(self, slots(plan.schedule, None, 3));
            self.old_plans.push(plan);
        }
    }

    /// Mostly whoever leads the schedules, now and then somebody else.
    fn scheduler(&mut self) -> Option<Fence> {
        let fences = self.fences.clone();
        let newest = fences.iter().rev().find(|fence| fence.role == "scheduler/0").cloned();
        if self.one_in(6) { self.pick(&fences) } else { newest }
    }

    fn plan(&mut self, schedule: &Schedule) -> SlotPlan {
        let overlap = Overlap::ALL[self.below(Overlap::ALL.len() as u64) as usize];
        let slot = schedule.next_slot.unwrap_or(self.now);
        let mut row = SlotRow {
            slot,
            end: None,
            count: 1,
            outcome: SlotOutcome::Fired,
            reason: None,
            job: None,
        };
        let mut slots = Vec::new();
        let step = Duration::from_secs(5 + self.below(30));
        let mut next_slot = Some(slot + step);
        match self.below(16) {
            0 => {
                let reason = "unknown time zone".to_owned();
                return SlotPlan {
                    schedule: schedule.id,
                    stamp: schedule.stamp,
                    decision: SlotDecision::SetAside(reason),
                };
            }
            1 => {
                row.outcome = SlotOutcome::SkippedPaused;
                row.reason = Some("paused".to_owned());
                row.end = Some(slot + Duration::from_secs(3));
                row.count = 3;
            }
            2 => next_slot = None,
            3 => next_slot = Some(slot),
            4 => row.slot = slot + Duration::from_secs(1),
            _ => {}
        }
        if row.outcome.has_job() {
            row.job = Some(self.slot_job(schedule.id, row.slot));
        }
        slots.push(row);
        // Several at once, as far as they are due.
        for _ in 0..self.below(4) {
            let Some(slot) = next_slot.filter(|slot| *slot <= self.now) else { break };
            let job = Some(self.slot_job(schedule.id, slot));
            let outcome = SlotOutcome::CaughtUp;
            slots.push(SlotRow { slot, end: None, count: 1, outcome, reason: None, job });
            next_slot = Some(slot + step);
        }
        let hold_for = [ON_TIME, Duration::from_secs(600)][self.below(2) as usize];
        let decision = SlotDecision::Advance { overlap, slots, next_slot, hold_for };
        SlotPlan { schedule: schedule.id, stamp: schedule.stamp, decision }
    }

    fn slot_job(&mut self, schedule: ScheduleId, slot: Timestamp) -> NewJob {
        let job = self.new_job();
        let is_fresh = !self.jobs.contains(&job.id);
        let unique = job.unique.filter(|_| self.one_in(20));
        let id = if is_fresh { job.id } else { JobId::mint(self.now, self.random()) };
        let slot = if self.one_in(30) { None } else { Some(slot) };
        let mut job = NewJob { id, unique, origin: self.origin(schedule, slot), ..job };
        if self.one_in(4) {
            job.queue = ["@n0", "@zone=a", "@*"][self.below(3) as usize].to_owned();
        }
        job
    }
}
