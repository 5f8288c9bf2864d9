//! Schedules and their ledger.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_core::{JobId, ScheduleId, Timestamp};

use super::state::{Place, State};
use crate::bugs::{Bug, is_planted};
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
        self.note(now, &new.actor, &AuditAction::CreateSchedule, &new.name);
        Ok(schedule)
    }

    fn realign(&mut self, schedule: &mut Schedule, realignment: &Realignment) -> Result<()> {
        let (id, after) = (schedule.id, realignment.after);
        let last = self.last_decided(id, after);
        realignment.check(last.as_ref())?;
        let is_later = |key: &&(ScheduleId, Timestamp, i32)| key.2 == 0 && key.1 > after;
        let of_schedule = (id, after, i32::MAX)..=(id, Timestamp::MAX, i32::MAX);
        let later = self.slots.range(of_schedule).rev().map(|(key, _)| key).filter(is_later);
        let later: Vec<_> = later.take(limits::REALIGN_ROWS_MAX).copied().collect();
        for key in &later {
            self.slots.remove(key);
        }
        let newest = self.last_decided(id, Timestamp::MAX).filter(|row| row.slot > after);
        let left =
            newest.zip(later.last()).map(|(newest, key)| Remainder { newest, discarded: key.1 });
        if let Some(cut) = realignment.apply(schedule, last.as_ref(), left)
            && let Some(view) = self.slots.get_mut(&(id, cut.slot, 0))
        {
            (view.end, view.count) = (cut.end, cut.count);
        }
        Ok(())
    }

    /// The last decision of a schedule at its watermark about a slot not later than an instant.
    fn last_decided(&self, id: ScheduleId, until: Timestamp) -> Option<DecidedRow> {
        let of_schedule = (id, Timestamp::MIN, i32::MIN)..=(id, until, i32::MAX);
        let newest_first = self.slots.range(of_schedule).rev().map(|(_, view)| view);
        newest_first.filter(|view| view.run == 0).map(DecidedRow::from).next()
    }

    pub(super) fn schedules_ahead(&self, now: Timestamp, most: usize) -> AheadSchedules {
        let is_ahead =
            |schedule: &&Schedule| schedule.enabled && schedule.ahead_until(now).is_some();
        let ahead = self.schedules.values().filter(is_ahead);
        let mut schedules: Vec<Schedule> =
            ahead.filter_map(|schedule| self.seen(schedule.id)).collect();
        schedules.sort_by_key(|schedule| (std::cmp::Reverse(schedule.last_slot), schedule.id));
        let most = most.min(limits::PAGE_MAX);
        let is_partial = schedules.len() > most;
        schedules.truncate(most);
        AheadSchedules { schedules, is_partial }
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
        let Some(passed) = schedule.change(change, actor, now)? else {
            return Ok(EditAnswer::Stale(schedule));
        };
        for view in passed {
            self.slots.insert((id, view.slot, view.run), view);
        }
        if let ScheduleChange::Realign(realignment) = change {
            self.realign(&mut schedule, realignment)?;
        }
        self.schedules.insert(id, schedule.clone());
        if matches!(change, ScheduleChange::Define { .. }) {
            self.spoiled.remove(&rules::Spoil::Schedule(id));
            self.revise(now, &schedule, actor);
        }
        self.note(now, actor, &change.action(), &schedule.name);
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
        self.note(now, actor, &AuditAction::DeleteSchedule, &schedule.name);
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
        set: Option<&str>,
        after: Option<&str>,
        most: usize,
    ) -> Vec<Schedule> {
        let is_asked = |schedule: &&Schedule| {
            schedule.tenant == tenant
                && set.is_none_or(|set| schedule.set == set)
                && after.is_none_or(|after| schedule.name.as_str() > after)
        };
        let named = self.schedules.values().filter(is_asked);
        let mut schedules: Vec<Schedule> =
            named.filter_map(|schedule| self.seen(schedule.id)).collect();
        schedules.sort_by(|left, right| left.name.cmp(&right.name));
        schedules.truncate(most.min(limits::PAGE_MAX));
        schedules
    }

    pub(super) fn due(&mut self, now: Timestamp, shard: i16, most: usize) -> Due {
        let mut all: Vec<(Timestamp, ScheduleId)> = self
            .schedules
            .values()
            .filter(|schedule| schedule.shard == shard)
            .filter_map(|schedule| Some((schedule.due_at()?, schedule.id)))
            .collect();
        all.sort_unstable();
        let next = all.iter().map(|(due_at, _)| *due_at).find(|due_at| *due_at > now);
        all.retain(|(due_at, _)| *due_at <= now);
        let (fresh, behind) = all.into_iter().partition(|(due_at, _)| *due_at > now - rules::FRESH);
        let mut due = Due { at: now, schedules: Vec::new(), next };
        for (_, id) in rules::fresh_first(fresh, behind, most.min(limits::FIRE_MAX)) {
            let is_spoiled = self.spoiled.contains(&rules::Spoil::Schedule(id));
            let Some(schedule) = self.schedules.get_mut(&id) else { continue };
            if is_spoiled {
                schedule.stamp += 1;
                schedule.set_aside = Some(rules::UNREADABLE.to_owned());
            } else {
                due.schedules.push(schedule.clone());
            }
        }
        due
    }

    pub(super) fn fire(
        &mut self,
        now: Timestamp,
        fence: &Fence,
        lease: Duration,
        plans: &[SlotPlan],
    ) -> Fired {
        let leader = match is_planted(Bug::CachedFence) {
            true => self.remembered(now, fence),
            false => self.renew(now, fence, lease).cloned(),
        };
        let Some(leader) = leader else {
            return Fired {
                at: now,
                until: None,
                answers: Vec::new(),
                refused: 0,
                unplaced: 0,
                skipped: Vec::new(),
                woken: 0,
            };
        };
        let mut fired = Fired {
            at: now,
            until: Some(leader.until),
            answers: Vec::new(),
            refused: 0,
            unplaced: 0,
            skipped: Vec::new(),
            woken: 0,
        };
        let mut freed = BTreeSet::new();
        for plan in plans {
            let answer = self.fire_one(now, &leader, plan, &mut fired, &mut freed);
            fired.answers.push(answer);
        }
        let freed: Vec<&str> = freed.iter().map(String::as_str).collect();
        fired.woken = self.wake_held(now, &freed);
        fired
    }

    /// A planted bug: whoever led in that term leads for ever.
    fn remembered(&self, now: Timestamp, fence: &Fence) -> Option<Leader> {
        let is_its =
            |change: &&LeaderChange| change.role == fence.role && change.term == fence.term;
        let change = self.leader_changes.iter().find(is_its)?;
        let (fence, node) = (fence.clone(), change.node);
        Some(Leader {
            fence,
            node,
            since: change.at,
            until: now,
            renewed_at: change.at,
            watched: Duration::ZERO,
        })
    }

    fn fire_one(
        &mut self,
        now: Timestamp,
        leader: &Leader,
        plan: &SlotPlan,
        fired: &mut Fired,
        freed: &mut BTreeSet<String>,
    ) -> FireAnswer {
        let nodes = self.nodes.values().filter(|node| node.dead_at.is_none());
        let live: Vec<NodeInfo> = nodes.map(|node| node.info.clone()).collect();
        let Some(schedule) = self.schedules.get_mut(&plan.schedule) else {
            return FireAnswer::Stale;
        };
        if schedule.stamp != plan.stamp || !schedule.enabled || plan.is_early(now) {
            return FireAnswer::Stale;
        }
        schedule.stamp = rules::next_stamp(schedule.stamp, now);
        let checked = plan.check(schedule.next_slot, schedule.held.as_ref(), &live, now);
        let advance = match checked {
            Ok(advance) => advance,
            Err(reason) => {
                schedule.set_aside = Some(reason.clone());
                return FireAnswer::SetAside(reason);
            }
        };
        freed.extend(advance.freed_queue(schedule.held.as_ref()).map(str::to_owned));
        let decided_to = advance.decided_to(now);
        schedule.next_slot = advance.next_slot;
        schedule.held.clone_from(&advance.held);
        schedule.pause = schedule.pause.take().filter(|pause| pause.is_in_force(decided_to));
        schedule.last_slot = advance.last_slot().or(schedule.last_slot);
        let revision = schedule.revision;
        let mut seats = self.seats(now, &advance);
        for placed in place(&advance, &live) {
            let row = &placed.row;
            let seated = seats.take(row);
            fired.refused += usize::from(matches!(seated, Seated::Refused(_)));
            fired.unplaced += usize::from(placed.is_unplaced);
            let view = placed.decided(&seated, leader.fence.term, leader.node, revision, now);
            skipped::add(&mut fired.skipped, plan.schedule, &view);
            if let Some(job) = row.job.clone().filter(|_| view.job.is_some()) {
                self.insert_job(now, job, seated == Seated::Waits);
            }
            self.slots.insert((plan.schedule, row.slot, view.run), view);
        }
        advance.answer()
    }

    /// Who is in the way of a plan's jobs; those that it calls off are called off here.
    fn seats(&mut self, now: Timestamp, plan: &Advance<'_>) -> Seats {
        let of_schedule = self.live.iter().filter(|(schedule, _)| *schedule == plan.schedule);
        let mut live: Vec<JobId> =
            of_schedule.map(|(_, job)| *job).take(limits::LIVE_MAX).collect();
        if let Some(actor) = plan.calls_off() {
            for job in live.clone().into_iter().take(limits::FIRE_CANCEL_MAX) {
                if Seats::are_free_of(self.cancel(now, job, &actor)) {
                    live.retain(|other| *other != job);
                }
            }
        }
        if plan.is_for_every_node() {
            let queue = |job: JobId| Some((job, self.bodies.get(&job)?.job.queue.clone()));
            return Seats::of_nodes(plan, live.into_iter().filter_map(queue).collect());
        }
        let is_waiting = |job: &&JobId| matches!(self.places.get(job), Some(Place::Blocked(_)));
        let waiting = live.iter().filter(is_waiting).count();
        Seats::new(plan, live, waiting)
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
