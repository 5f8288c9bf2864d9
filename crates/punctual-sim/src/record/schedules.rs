//! The account of schedules: what each was told, how far it is decided, and which jobs it has made.
//! Every decision is judged when it is written, by an oracle that shares nothing with the planner.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use punctual_core::job::{JobState, SlotOutcome};
use punctual_core::schedule::Overlap;
use punctual_core::{JobId, ScheduleId, Timestamp};
use punctual_engine::SCHEDULER;
use punctual_store::*;

use super::{Account, Book, Past, Record};
use crate::network::{Effects, applied, rows};
use crate::oracle::{Oracle, Stretch};

/// Where no clock was ever stepped, a plan is written no later than this: its process may be frozen
/// on the way, and the network be slow.
const PLAN_LIFETIME: Duration = Duration::from_secs(40);

/// One schedule, from its creation on; it stays here when it is deleted.
#[derive(Clone)]
pub(super) struct Course {
    pub(super) name: String,
    oracle: Oracle,
    /// The oracles of earlier revisions, from the first one on.
    earlier: Vec<Oracle>,
    pub(super) revision: i64,
    pub(super) is_enabled: bool,
    pub(super) is_gone: bool,
    /// Since when it is paused, and until when.
    pause: Option<(Timestamp, Option<Timestamp>)>,
    /// The first slot that is not decided, while it is enabled.
    pub(super) watermark: Timestamp,
    last: Option<Timestamp>,
    /// What the ledger should say.
    pub(super) rows: BTreeMap<Timestamp, SlotView>,
    /// Its jobs, in the order in which they were made.
    jobs: Vec<JobId>,
    /// Jobs of slots whose decision was discarded: the ledger does not name them any more.
    pub(super) discarded: BTreeSet<JobId>,
}

/// Where a job comes from.
#[derive(Clone, Copy)]
pub(super) struct Made {
    schedule: ScheduleId,
    overlap: Overlap,
    /// Did others have to end first?
    waits: bool,
}

impl Record {
    /// Somebody was told what time it is by the database.
    pub(crate) fn told_time(&self, now: Timestamp) {
        self.book().times.push(now);
    }

    /// A schedule was created.
    pub(crate) fn created(&self, new: &NewSchedule) {
        self.trace(&format!("created {} {:?}", new.name, new.next_slot));
        let now = self.clock.elapsed();
        let mut guard = self.book();
        let book = &mut *guard;
        book.counts.edits += 1;
        if book.past.courses.contains_key(&new.id) {
            return;
        }
        let Some(oracle) = Oracle::read(new.spec.as_str()) else {
            return book.violate(now, format!("schedule {} cannot be checked", new.name));
        };
        let begins = |asked: &Timestamp| Some(oracle.next(*asked)) == new.next_slot;
        if !book.times.iter().any(begins) {
            let what =
                format!("schedule {} has an invalid first slot: {:?}", new.name, new.next_slot);
            book.violate(now, what);
        }
        let Some(watermark) = new.next_slot else { return };
        let course = Course {
            name: new.name.clone(),
            oracle,
            earlier: Vec::new(),
            revision: 1,
            is_enabled: true,
            is_gone: false,
            pause: None,
            watermark,
            last: None,
            rows: BTreeMap::new(),
            jobs: Vec::new(),
            discarded: BTreeSet::new(),
        };
        book.past.courses.insert(new.id, course);
    }

    /// A schedule was changed, by which these rows were written.
    pub(crate) fn changed(
        &self,
        schedule: &Schedule,
        change: &ScheduleChange,
        written: &[SlotView],
    ) {
        self.trace(&format!("{} {} {:?}", change.action(), schedule.name, schedule.next_slot));
        let now = self.clock.elapsed();
        let mut guard = self.book();
        let book = &mut *guard;
        book.counts.edits += 1;
        for view in written {
            book.counts.slots += view.count;
        }
        book.counts.realigned += u64::from(matches!(change, ScheduleChange::Realign(_)));
        let Some(course) = book.past.courses.get_mut(&schedule.id) else {
            return book.violate(now, format!("schedule {} was never created", schedule.name));
        };
        let at = schedule.changed_at;
        let is_lenient = book.has_stepped_back || matches!(change, ScheduleChange::Realign(_));
        let times = if is_lenient { &book.times[..] } else { std::slice::from_ref(&at) };
        let wrong = course.change(change, written, at, times);
        if let Some(wrong) = wrong {
            let what = format!("schedule {}: {}: {wrong}", schedule.name, change.action());
            book.violate(now, what);
        }
    }

    /// A schedule was deleted.
    pub(crate) fn deleted(&self, id: ScheduleId) {
        self.trace(&format!("deleted {id}"));
        let now = self.clock.elapsed();
        let mut guard = self.book();
        let book = &mut *guard;
        book.counts.edits += 1;
        let Some(course) = book.past.courses.get_mut(&id) else { return };
        course.is_gone = true;
        if course.is_enabled {
            let what = format!("schedule {} was deleted with undecided slots", course.name);
            book.violate(now, what);
        }
    }

    /// A leader has decided slots.
    pub(crate) fn fired(
        &self,
        fence: &Fence,
        plans: &[SlotPlan],
        fired: &Fired,
        effects: &Effects,
    ) {
        for (plan, answer) in plans.iter().zip(&fired.answers) {
            let slots: Vec<String> = rows(plan).iter().map(|row| row.slot.to_string()).collect();
            let slots = slots.join(" ");
            self.trace(&format!("term {} fired {}: {slots} {answer:?}", fence.term, plan.schedule));
        }
        if fired.until.is_none() {
            self.count(|counts| counts.fenced_fires += 1);
            return;
        }
        let now = self.clock.elapsed();
        let mut guard = self.book();
        let book = &mut *guard;
        let term = book.past.terms.get(&fence.role).copied();
        let is_applied =
            |answer: &FireAnswer| matches!(answer, FireAnswer::Applied | FireAnswer::Held(..));
        let is_written = fired.answers.iter().any(is_applied);
        if is_written && term != Some((fence.term, fence.nonce)) {
            book.violate(
                now,
                format!("term {} fired slots, but {term:?} is the last term", fence.term),
            );
        }
        let answers = plans.iter().zip(&fired.answers);
        for ((plan, answer), written) in answers.zip(&effects.ledgers) {
            match answer {
                FireAnswer::Applied => {}
                FireAnswer::Held(_, held) => {
                    book.counts.held += u64::from(held.since == fired.at);
                }
                FireAnswer::Stale => continue,
                FireAnswer::SetAside(reason) => {
                    let what = format!("schedule {} was quarantined: {reason}", plan.schedule);
                    book.violate(now, what);
                    continue;
                }
            }
            let is_steady = book.counts.steps == 0;
            if let Some(wrong) = wrongly_placed(plan, answer, &effects.live) {
                book.violate(now, format!("schedule {}: {wrong}", plan.schedule));
            }
            for wrong in book.past.fire(fence.term, (plan, answer), written, fired.at, is_steady) {
                book.violate(now, format!("schedule {}: {wrong}", plan.schedule));
            }
            book.count_slots(written);
        }
    }
}

impl Book {
    fn count_slots(&mut self, written: &[SlotView]) {
        for view in written {
            self.counts.slots += view.count;
            let counter = match view.outcome {
                SlotOutcome::CaughtUp => &mut self.counts.caught_up,
                SlotOutcome::Missed | SlotOutcome::Coalesced => &mut self.counts.missed,
                SlotOutcome::SkippedOverlap => &mut self.counts.overlapped,
                SlotOutcome::SkippedPaused => &mut self.counts.paused,
                _ => &mut self.counts.fired,
            };
            *counter += view.count;
        }
    }
}

impl Past {
    /// A job that somebody wants of a schedule, beside its slots.
    pub(super) fn made_by_hand(&mut self, job: &NewJob) -> Option<Made> {
        let origin = job.origin.as_ref()?;
        let course = self.courses.get_mut(&origin.schedule)?;
        course.jobs.push(job.id);
        Some(Made { schedule: origin.schedule, overlap: Overlap::Allow, waits: false })
    }

    /// What keeps a job from starting: an earlier one of its schedule that has not ended, where
    /// both may not run at once.
    pub(super) fn in_the_way(&self, job: JobId) -> Option<JobId> {
        let made = self.jobs.get(&job)?.made?;
        if made.overlap == Overlap::Allow {
            return None;
        }
        let course = self.courses.get(&made.schedule)?;
        let earlier = course.jobs.iter().take_while(|it| **it != job).copied();
        // Blocked jobs start in the order of their slots: one whose slot was decided by a clock that was ahead
        // comes after those of the slots that were decided again.
        let is_later = |other: &JobId| course.discarded.contains(other) && !self.is_running(*other);
        earlier.filter(|other| !is_later(other)).find(|other| self.is_unfinished(*other))
    }

    fn is_running(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|account| account.held.is_some())
    }

    fn is_unfinished(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|account| account.over.is_none())
    }

    /// Applies a plan, and says what is wrong with it.
    fn fire(
        &mut self,
        term: i64,
        (plan, answer): (&SlotPlan, &FireAnswer),
        written: &[SlotView],
        now: Timestamp,
        is_steady: bool,
    ) -> Vec<String> {
        let leader = self.leaders.get(&term).copied();
        let Some(course) = self.courses.get_mut(&plan.schedule) else {
            return vec!["was fired but does not exist".to_owned()];
        };
        let mut wrong = match answer {
            FireAnswer::Held(..) => course.hold(plan, written, now),
            _ => course.decide(plan, written, now, is_steady),
        };
        if written.iter().any(|view| view.term != term || Some(view.node) != leader) {
            wrong.push(format!(
                "rows of term {term}, led by {leader:?}, name another term or node: {written:?}"
            ));
        }
        let oracle = course.oracle.clone();
        let mut unfinished: Vec<JobId> = course.jobs.clone();
        unfinished.retain(|job| self.is_unfinished(*job));
        let asks: Vec<(&SlotRow, &NewJob)> =
            applied(plan, answer).iter().filter_map(|row| Some((row, row.job.as_ref()?))).collect();
        if oracle.overlap == Overlap::CancelRunning && !asks.is_empty() {
            // One fire calls off no more than this many, and goes by their ids.
            let mut called = unfinished.clone();
            called.sort_unstable();
            called.truncate(limits::FIRE_CANCEL_MAX);
            unfinished.retain(|job| !(called.contains(job) && self.call_off(*job)));
        }
        for (index, (row, job)) in asks.iter().enumerate() {
            let is_last = index + 1 == asks.len();
            let is_made = written.iter().any(|view| view.job == Some(job.id));
            let may = self.may_be_made(oracle.overlap, &unfinished, is_last);
            if may.is_some_and(|may| may != is_made) {
                wrong.push(format!(
                    "slot {} {} a job while {unfinished:?} are unfinished, with overlap = {}",
                    row.slot,
                    if is_made { "became" } else { "did not become" },
                    oracle.overlap
                ));
            }
            if !is_made {
                continue;
            }
            let due_at = job.delay.due_at(now);
            let latest = now.max(row.slot + oracle.jitter);
            let is_early = due_at < row.slot;
            if is_early || row.outcome == SlotOutcome::Fired && due_at > latest {
                wrong.push(format!("the job of slot {} is due at {due_at}", row.slot));
            }
            let waits = oracle.overlap != Overlap::Allow && !unfinished.is_empty();
            let made = Made { schedule: plan.schedule, overlap: oracle.overlap, waits };
            self.jobs.insert(job.id, Account::new(job, due_at, Some(made)));
            unfinished.push(job.id);
            if let Some(course) = self.courses.get_mut(&plan.schedule) {
                course.jobs.push(job.id);
            }
        }
        wrong
    }

    /// Must a slot become a job, or must it not? None if this account cannot know: a job that
    /// waited may have been let go on.
    fn may_be_made(&self, overlap: Overlap, unfinished: &[JobId], is_last: bool) -> Option<bool> {
        let is_untouched = |job: &JobId| {
            let account = self.jobs.get(job);
            account.is_some_and(|it| it.attempt == 0 && it.made.is_some_and(|made| made.waits))
        };
        match overlap {
            Overlap::Allow | Overlap::QueueAll => Some(true),
            Overlap::CancelRunning => Some(is_last),
            Overlap::Skip => Some(unfinished.is_empty()),
            Overlap::QueueOne if !unfinished.iter().any(is_untouched) => Some(true),
            // What is behind another waits still.
            Overlap::QueueOne if unfinished.iter().skip(1).any(is_untouched) => Some(false),
            Overlap::QueueOne => None,
        }
    }

    /// A job makes room; true if it has ended by it.
    fn call_off(&mut self, job: JobId) -> bool {
        let Some(account) = self.jobs.get_mut(&job) else { return false };
        if account.held.is_some() {
            account.is_unwanted = true;
            return false;
        }
        account.over = Some(JobState::Cancelled);
        true
    }
}

impl Course {
    fn paused(&self) -> Option<Stretch> {
        self.pause.map(|(since, until)| (since, until.unwrap_or(Timestamp::MAX)))
    }

    /// Takes note of decided slots, and says what is wrong with them.
    fn decide(
        &mut self,
        plan: &SlotPlan,
        written: &[SlotView],
        now: Timestamp,
        is_steady: bool,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        if !self.is_enabled || self.is_gone {
            wrong.push("was fired although it is disabled".to_owned());
        }
        let SlotDecision::Advance { overlap, slots, .. } = &plan.decision else {
            return wrong;
        };
        if *overlap != self.oracle.overlap || written.len() != slots.len() {
            wrong.push(format!(
                "was fired with a plan that does not match its definition: {plan:?}"
            ));
        }
        let Some(last) = written.last().map(|view| view.end.unwrap_or(view.slot)) else {
            return wrong;
        };
        if last > now {
            wrong.push(format!("slot {last} was decided at {now}"));
        }
        let due = self.oracle.slots(self.watermark, last);
        match outcomes_of(&due, written) {
            Err(why) => wrong.push(why),
            Ok(outcomes) if !self.is_by_policy(&due, &outcomes) => {
                wrong.push(format!("at {now}, paused {:?}: {written:?}", self.pause));
            }
            Ok(_) => {}
        }
        let next = self.oracle.next(last);
        if is_steady && now > next + PLAN_LIFETIME {
            wrong.push(format!("slot {next} was long due at {now} but was not decided"));
        }
        self.keep(written);
        self.watermark = next;
        self.pause = self.pause.filter(|(_, until)| until.is_none_or(|until| until > now));
        wrong
    }

    /// Takes note of slots that were decided before others that are held, and says what is wrong with
    /// them. Held are all from the first one on that would get a job, or is merged into one that would.
    fn hold(&mut self, plan: &SlotPlan, written: &[SlotView], now: Timestamp) -> Vec<String> {
        let mut wrong = Vec::new();
        if !self.is_enabled || self.is_gone {
            wrong.push("slots are held although it is disabled".to_owned());
        }
        let Some(last) = rows(plan).last().map(|row| row.end.unwrap_or(row.slot)) else {
            return vec!["slots are held although none is due".to_owned()];
        };
        let due = self.oracle.slots(self.watermark, last);
        let count = written.iter().map(|view| view.count as usize).sum::<usize>();
        let (decided, held) = due.split_at(count.min(due.len()));
        let is_final = |outcome: &SlotOutcome| {
            matches!(outcome, SlotOutcome::Missed | SlotOutcome::SkippedPaused)
        };
        let is_by_policy = |outcomes: &[SlotOutcome]| {
            self.oracle.instants(&due).into_iter().any(|instant| {
                let planned = self.oracle.decide(&due, self.paused(), instant);
                planned.starts_with(outcomes) && !planned.get(count).is_none_or(is_final)
            })
        };
        match outcomes_of(decided, written) {
            Err(why) => wrong.push(why),
            Ok(outcomes) if !outcomes.iter().all(is_final) || !is_by_policy(&outcomes) => {
                wrong.push(format!("at {now}, paused {:?}, before held: {written:?}", self.pause));
            }
            Ok(_) => {}
        }
        let Some(first) = held.first().copied() else {
            wrong.push(format!("slots are held, but all are decided: {written:?}"));
            return wrong;
        };
        self.keep(written);
        self.watermark = first;
        let decided_to = first.min(now);
        self.pause = self.pause.filter(|(_, until)| until.is_none_or(|until| until > decided_to));
        wrong
    }

    /// Is there an instant from the last slot on at which just this would be decided?
    fn is_by_policy(&self, due: &[Timestamp], outcomes: &[SlotOutcome]) -> bool {
        let is_alike = |(planned, written): (&SlotOutcome, &SlotOutcome)| {
            planned == written || *written == SlotOutcome::SkippedOverlap && planned.has_job()
        };
        self.oracle.instants(due).into_iter().any(|instant| {
            let planned = self.oracle.decide(due, self.paused(), instant);
            planned.iter().zip(outcomes).all(is_alike)
        })
    }

    fn keep(&mut self, written: &[SlotView]) {
        for view in written {
            self.rows.insert(view.slot, view.clone());
            self.last = self.last.max(Some(view.end.unwrap_or(view.slot)));
        }
    }

    /// Applies a change, and says what is wrong with it. The slots that it decides are judged by the
    /// instant of its transaction. The slot that it begins with is the first one after one of `times`:
    /// the instant of the transaction, or after a step back of the clock all instants that were returned.
    fn change(
        &mut self,
        change: &ScheduleChange,
        written: &[SlotView],
        now: Timestamp,
        times: &[Timestamp],
    ) -> Option<String> {
        if let ScheduleChange::Realign(realignment) = change {
            return self.realign(realignment, now, times);
        }
        let new = match change {
            ScheduleChange::Define { spec, .. } => match Oracle::read(spec.as_str()) {
                Some(oracle) => oracle,
                None => return Some("cannot be checked".to_owned()),
            },
            _ => self.oracle.clone(),
        };
        let next = match change {
            ScheduleChange::Define { next_slot, .. } | ScheduleChange::Enable { next_slot, .. } => {
                Some(*next_slot)
            }
            _ => None,
        };
        let is_decision = next.is_some() || matches!(change, ScheduleChange::Disable { .. });
        let begins = |asked: &Timestamp| {
            let after = self.last.map_or(*asked, |last| last.max(*asked));
            next.is_none_or(|next| next == Some(new.next(after)))
        };
        let is_right = self.passes(now, written) && times.iter().rev().any(begins);
        let wrong = (is_decision && !is_right).then(|| {
            format!(
                "at {now}, undecided since {}: {written:?} is followed by {next:?}",
                self.watermark
            )
        });
        self.keep(written);
        self.watermark = next.flatten().unwrap_or(self.watermark);
        match change {
            ScheduleChange::Define { .. } => {
                self.earlier.push(std::mem::replace(&mut self.oracle, new));
                self.revision += 1;
            }
            ScheduleChange::Pause { until } => {
                // What an earlier pause skipped and nobody has written down is skipped still.
                self.pause = Some((self.pause.map_or(now, |(since, _)| since), *until));
            }
            ScheduleChange::Resume => {
                if let Some((_, until)) = &mut self.pause {
                    *until = Some(until.map_or(now, |until| until.min(now)));
                }
            }
            ScheduleChange::Enable { .. } => self.is_enabled = true,
            ScheduleChange::Disable { .. } => self.is_enabled = false,
            ScheduleChange::Realign(_) => {}
        }
        wrong
    }

    /// Discards decisions about slots after the instant of a realignment, and says what is wrong with it.
    /// They may be decided once more: only here may a slot be decided twice.
    fn realign(
        &mut self,
        realignment: &Realignment,
        now: Timestamp,
        times: &[Timestamp],
    ) -> Option<String> {
        let after = realignment.after;
        let later = self.rows.split_off(&(after + Duration::from_micros(1)));
        self.discarded.extend(later.values().filter_map(|view| view.job));
        let last_of = |view: &SlotView| view.end.unwrap_or(view.slot);
        let mut cut = None;
        if let Some(view) = self.rows.values_mut().next_back().filter(|view| last_of(view) > after)
        {
            let revision = usize::try_from(view.revision - 1).unwrap_or(usize::MAX);
            let oracle = self.earlier.get(revision).unwrap_or(&self.oracle);
            let kept = oracle.slots(view.slot, after);
            view.count = kept.len() as u64;
            view.end = kept.last().copied().filter(|end| *end > view.slot);
            cut = Some(RowCut { slot: view.slot, end: view.end, count: view.count });
        }
        let next = self.oracle.next(after);
        let is_right = realignment.cut == cut
            && realignment.next_slot == Some(next)
            && after <= now
            && next > now
            && times.contains(&after)
            && self.last.is_some_and(|last| last > after);
        self.last = self.rows.values().map(last_of).max();
        self.watermark = next;
        self.pause = self.pause.map(|(since, until)| (since.min(now), until));
        (!is_right).then(|| format!("at {now}: {realignment:?}, expected {next} and {cut:?}"))
    }

    /// Is this what becomes of slots that were due and undecided at that time?
    fn passes(&self, asked: Timestamp, written: &[SlotView]) -> bool {
        let due = match self.is_enabled {
            true => self.oracle.slots(self.watermark, asked),
            false => Vec::new(),
        };
        let fate = |slot: &Timestamp| match self.oracle.is_paused(*slot, self.paused()) {
            true => SlotOutcome::SkippedPaused,
            false => SlotOutcome::Missed,
        };
        outcomes_of(&due, written).is_ok_and(|outcomes| due.iter().map(fate).eq(outcomes))
    }
}

/// Slots that are held although a live node can run them, or have a job although none can.
fn wrongly_placed(plan: &SlotPlan, answer: &FireAnswer, live: &[NodeInfo]) -> Option<String> {
    let is_taken = |queue: &str, kind: &str| {
        let takes = |node: &&NodeInfo| {
            node.queues.iter().any(|it| it == queue) && node.kinds.iter().any(|it| it == kind)
        };
        live.iter().find(takes).map(|node| node.name.as_str())
    };
    let jobs = applied(plan, answer).iter().filter_map(|row| row.job.as_ref());
    let mut zoned = jobs.filter(|job| job.queue.starts_with('@'));
    if let Some(job) = zoned.find(|job| is_taken(&job.queue, &job.kind).is_none()) {
        return Some(format!("job {} is for {}, where no node is live", job.id, job.queue));
    }
    let FireAnswer::Held(most, held) = answer else { return None };
    let job = rows(plan).get(*most..)?.iter().find_map(|row| row.job.as_ref())?;
    let node = is_taken(&job.queue, &job.kind)?;
    Some(format!("slots are held for {}, although {node} is live", held.queue))
}

/// What rows of the ledger say of each of these slots; an error if they speak of others.
fn outcomes_of(
    due: &[Timestamp],
    written: &[SlotView],
) -> std::result::Result<Vec<SlotOutcome>, String> {
    let (mut outcomes, mut left) = (Vec::new(), due);
    for view in written {
        let count = usize::try_from(view.count).unwrap_or(usize::MAX).min(left.len());
        let (own, rest) = left.split_at(count);
        let last = view.end.unwrap_or(view.slot);
        if own.len() as u64 != view.count
            || own.first() != Some(&view.slot)
            || own.last() != Some(&last)
        {
            let due: Vec<String> = due.iter().take(5).map(ToString::to_string).collect();
            let due = due.join(" ");
            return Err(format!(
                "slots {}..{last} x{} are decided as {}, but the due slots are {due}..",
                view.slot, view.count, view.outcome
            ));
        }
        outcomes.resize(outcomes.len() + count, view.outcome);
        left = rest;
    }
    match left.first() {
        Some(slot) => Err(format!("slot {slot} was due but is not decided")),
        None => Ok(outcomes),
    }
}

/// Is this the role whose terms decide slots?
pub(super) fn decides_slots(role: &str) -> bool {
    role == SCHEDULER
}
