//! Schedules and their ledger.

use std::time::Duration;

use punctual_core::{JobId, ScheduleId, Timestamp};

use super::state::State;
use crate::*;

impl State {
    pub(super) fn create_schedule(
        &mut self,
        now: Timestamp,
        new: &NewSchedule,
    ) -> Result<Schedule> {
        if let Some(schedule) = self.seen(new.id) {
            return Ok(schedule);
        }
        if let Some(taken) = self.schedule_named(&new.tenant, &new.name) {
            return Err(rules::name_taken(&taken.name));
        }
        let schedule = new.at_creation(now);
        self.schedules.insert(new.id, schedule.clone());
        self.revise(now, &schedule, &new.actor);
        self.note(now, &new.actor, "create schedule", &new.name);
        Ok(schedule)
    }

    fn revise(&mut self, now: Timestamp, schedule: &Schedule, actor: &Actor) {
        let revisions = self.revisions.entry(schedule.id).or_default();
        if let Some(last) = revisions.last_mut() {
            last.superseded_at = Some(now);
        }
        revisions.push(RevisionView {
            revision: schedule.revision,
            spec: schedule.spec.clone(),
            who: actor.who.clone(),
            why: actor.why.clone(),
            at: now,
            superseded_at: None,
        });
    }

    pub(super) fn change_schedule(
        &mut self,
        now: Timestamp,
        id: ScheduleId,
        stamp: i64,
        change: &ScheduleChange,
        actor: &Actor,
    ) -> Result<EditAnswer> {
        let Some(mut schedule) = self.seen(id) else { return Ok(EditAnswer::NotFound) };
        if schedule.stamp != stamp {
            return Ok(EditAnswer::Stale(schedule));
        }
        schedule.change(change, actor, now)?;
        self.schedules.insert(id, schedule.clone());
        if matches!(change, ScheduleChange::Define { .. }) {
            self.spoiled.remove(&rules::Spoil::Schedule(id));
            self.revise(now, &schedule, actor);
        }
        self.note(now, actor, change.action(), &schedule.name);
        Ok(EditAnswer::Done(schedule))
    }

    pub(super) fn delete_schedule(
        &mut self,
        now: Timestamp,
        id: ScheduleId,
        stamp: i64,
        actor: &Actor,
    ) -> EditAnswer {
        let Some(schedule) = self.seen(id) else { return EditAnswer::NotFound };
        if schedule.stamp != stamp {
            return EditAnswer::Stale(schedule);
        }
        self.schedules.remove(&id);
        self.spoiled.remove(&rules::Spoil::Schedule(id));
        self.revisions.remove(&id);
        self.note(now, actor, "delete schedule", &schedule.name);
        EditAnswer::Done(schedule)
    }

    pub(super) fn list_revisions(
        &self,
        id: ScheduleId,
        after: Option<RevisionCursor>,
        most: usize,
    ) -> Page<RevisionView, RevisionCursor> {
        let is_before = |view: &&RevisionView| {
            after.is_none_or(|RevisionCursor(revision)| view.revision < revision)
        };
        let newest_first = self.revisions.get(&id).into_iter().flatten().rev().filter(is_before);
        Page::take(newest_first.cloned(), most, |view| RevisionCursor(view.revision))
    }

    /// A schedule as far as it can be read.
    pub(super) fn seen(&self, id: ScheduleId) -> Option<Schedule> {
        let schedule = self.schedules.get(&id)?.clone();
        let is_spoiled = self.spoiled.contains(&rules::Spoil::Schedule(id));
        Some(if is_spoiled { rules::unreadable(schedule) } else { schedule })
    }

    pub(super) fn schedule_named(&self, tenant: &str, name: &str) -> Option<&Schedule> {
        self.schedules.values().find(|schedule| schedule.tenant == tenant && schedule.name == name)
    }

    pub(super) fn list_schedules(
        &self,
        tenant: &str,
        after: Option<&str>,
        most: usize,
    ) -> Vec<Schedule> {
        let is_after = |schedule: &&Schedule| {
            schedule.tenant == tenant && after.is_none_or(|after| schedule.name.as_str() > after)
        };
        let named = self.schedules.values().filter(is_after);
        let mut schedules: Vec<Schedule> =
            named.filter_map(|schedule| self.seen(schedule.id)).collect();
        schedules.sort_by(|left, right| left.name.cmp(&right.name));
        schedules.truncate(most.min(limits::PAGE_MAX));
        schedules
    }

    pub(super) fn due(&mut self, now: Timestamp, shard: i16, most: usize) -> Due {
        let is_due = |schedule: &&Schedule| {
            schedule.shard == shard
                && schedule.enabled
                && schedule.set_aside.is_none()
                && !schedule.is_paused(now)
                && schedule.next_slot.is_some_and(|slot| slot <= now)
        };
        let mut due: Vec<Schedule> = self.schedules.values().filter(is_due).cloned().collect();
        due.sort_by_key(|schedule| (schedule.next_slot, schedule.id));
        due.truncate(most.min(limits::FIRE_MAX));
        let spoiled: Vec<ScheduleId> = due
            .extract_if(.., |due| self.spoiled.contains(&rules::Spoil::Schedule(due.id)))
            .map(|due| due.id)
            .collect();
        for id in spoiled {
            if let Some(schedule) = self.schedules.get_mut(&id) {
                schedule.stamp += 1;
                schedule.set_aside = Some(rules::UNREADABLE.to_owned());
            }
        }
        let with_live = |schedule: Schedule| {
            let live: Vec<JobId> = self
                .live
                .iter()
                .filter(|(id, _)| *id == schedule.id)
                .map(|(_, job)| *job)
                .take(limits::LIVE_COUNT_MAX)
                .collect();
            let live_count = live.len();
            let live = live.into_iter().take(limits::LIVE_MAX).collect();
            DueSchedule { schedule, live, live_count }
        };
        Due { at: now, schedules: due.into_iter().map(with_live).collect() }
    }

    pub(super) fn fire(
        &mut self,
        now: Timestamp,
        fence: &Fence,
        lease: Duration,
        plans: &[SlotPlan],
    ) -> Fired {
        let Some(leader) = self.renew(now, fence, lease).cloned() else {
            return Fired { at: now, until: None, answers: Vec::new() };
        };
        let answers = plans.iter().map(|plan| self.fire_one(now, &leader, plan)).collect();
        Fired { at: now, until: Some(leader.until), answers }
    }

    fn fire_one(&mut self, now: Timestamp, leader: &Leader, plan: &SlotPlan) -> FireAnswer {
        let Some(schedule) = self.schedules.get_mut(&plan.schedule) else {
            return FireAnswer::Stale;
        };
        if schedule.stamp != plan.stamp || !schedule.enabled {
            return FireAnswer::Stale;
        }
        schedule.stamp += 1;
        let (slots, next_slot) = match plan.check(schedule.next_slot, now) {
            Ok(advance) => advance,
            Err(reason) => {
                schedule.set_aside = Some(reason.clone());
                return FireAnswer::SetAside(reason);
            }
        };
        schedule.next_slot = next_slot;
        schedule.pause = schedule.pause.take().filter(|pause| pause.is_in_force(now));
        schedule.last_slot =
            slots.last().map(|row| row.end.unwrap_or(row.slot)).or(schedule.last_slot);
        let revision = schedule.revision;
        for row in slots {
            let view = row.decided(leader.fence.term, leader.node, revision, now);
            self.slots.insert((plan.schedule, row.slot, view.run), view);
            if let Some(job) = &row.job {
                self.insert_job(now, job.clone(), Some((plan.schedule, Some(row.slot))));
            }
        }
        FireAnswer::Applied
    }

    pub(super) fn list_slots(
        &self,
        id: ScheduleId,
        after: Option<SlotCursor>,
        most: usize,
    ) -> Page<SlotView, SlotCursor> {
        let is_before = |view: &&SlotView| {
            after.is_none_or(|SlotCursor(slot, run)| (view.slot, view.run) < (slot, run))
        };
        let of_schedule =
            self.slots.range((id, Timestamp::MIN, i32::MIN)..=(id, Timestamp::MAX, i32::MAX));
        let newest_first = of_schedule.rev().map(|(_, view)| view).filter(is_before).cloned();
        Page::take(newest_first, most, |view| SlotCursor(view.slot, view.run))
    }
}
