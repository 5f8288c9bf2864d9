//! What is due, and turning slots into jobs.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use punctual_core::{JobId, NodeId, ScheduleId, Timestamp};
use punctual_store::{
    Actor, Advance, At, Due, Fence, FireAnswer, Fired, HeldSlots, NewJob, NodeInfo, Schedule,
    Seated, Seats, SkippedSlots, SlotPlan, SlotView, limits, place, rules, skipped,
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::bodies::Bodies;
use crate::connect::sleep;
use crate::connection::{Bound, Conn};
use crate::error::Outcome;
use crate::rounds::rounds;
use crate::rows::{self, Instant, Read};
use crate::{jobs, leaders, nodes, sql};

/// For how long a lease is locked by whoever notes its job's progress, with room to spare.
const LOCKED_FOR: Duration = Duration::from_millis(20);

/// What is due, and which schedules cannot be read and must be set aside.
pub(crate) async fn due(
    conn: &mut Conn,
    at: At,
    shard: i16,
    most: usize,
) -> Outcome<(Due, Vec<Schedule>)> {
    let most = most.min(limits::FIRE_MAX);
    let bound: Bound<'_> =
        &[&rows::at(at), &shard, &rows::count(most), &rows::micros(rules::FRESH)];
    let found = conn.query(&sql::SCHEDULE_DUE, bound).await?;
    let mut due = Due { at: Timestamp::EPOCH, schedules: Vec::new(), next: None };
    let (mut fresh, mut behind) = (Vec::new(), Vec::new());
    for row in &found {
        due.at = rows::instant(row, 24)?;
        due.next = rows::instant_opt(row, 25)?;
        if rows::get::<Option<Uuid>>(row, 0)?.is_some() {
            let line = if rows::get(row, 23)? { &mut fresh } else { &mut behind };
            line.push((rows::instant(row, 22)?, rows::schedule(row)?));
        }
    }
    // The order of a join's answer is no promise.
    for line in [&mut fresh, &mut behind] {
        line.sort_by_key(|(due_at, schedule)| (*due_at, schedule.id));
    }
    let mut unreadable = Vec::new();
    for (_, schedule) in rules::fresh_first(fresh, behind, most) {
        // None that was set aside before is due.
        let is_readable = schedule.set_aside.is_none();
        if is_readable { &mut due.schedules } else { &mut unreadable }.push(schedule);
    }
    Ok((due, unreadable))
}

/// Sets schedules aside that cannot be read, unless somebody has changed them since.
pub(crate) async fn set_aside(conn: &mut Conn, unreadable: &[Schedule]) -> Outcome<()> {
    let ids: Vec<Uuid> = unreadable.iter().map(|schedule| schedule.id.as_uuid()).collect();
    let locked = conn.begin_with(&sql::SCHEDULE_MARK, &[&ids]).await?;
    let mut same = Vec::new();
    for row in &locked {
        let (id, mark) = read_mark(row)?;
        if unreadable.iter().any(|schedule| schedule.id == id && schedule.stamp == mark.stamp) {
            same.push((id.as_uuid(), mark.stamp + 1));
        }
    }
    let (ids, stamps): (Vec<Uuid>, Vec<i64>) = same.into_iter().unzip();
    let reasons = vec![rules::UNREADABLE; ids.len()];
    conn.commit_with(&sql::SCHEDULE_SET_ASIDE, &[&ids, &stamps, &reasons]).await?;
    Ok(())
}

/// What a plan is compared with.
#[derive(Clone)]
struct Mark {
    stamp: i64,
    enabled: bool,
    next_slot: Option<Timestamp>,
    last_slot: Option<Timestamp>,
    revision: i64,
    held: Option<HeldSlots>,
    /// Up to when slots are decided; none: up to now.
    decided_to: Option<Timestamp>,
}

fn read_mark(row: &Row) -> Read<(ScheduleId, Mark)> {
    let mark = Mark {
        stamp: rows::get(row, 1)?,
        enabled: rows::get(row, 2)?,
        next_slot: rows::instant_opt(row, 3)?,
        last_slot: rows::instant_opt(row, 4)?,
        revision: rows::get(row, 5)?,
        held: rows::held(row, 6)?,
        decided_to: None,
    };
    Ok((rows::schedule_id(row, 0)?, mark))
}

/// All that plans write, gathered so that each table is written once.
#[derive(Default)]
struct Writes<'a> {
    advanced: HashSet<ScheduleId>,
    set_aside: BTreeMap<ScheduleId, String>,
    slots: Vec<(ScheduleId, SlotView)>,
    /// Each with whether it waits for others.
    jobs: Vec<(Cow<'a, NewJob>, bool)>,
    ids: HashSet<JobId>,
}

impl Writes<'_> {
    fn bodies(&self) -> Bodies<'_> {
        let mut bodies = Bodies::default();
        for (job, is_blocked) in &self.jobs {
            bodies.push(job, *is_blocked);
        }
        bodies
    }
}

/// Fires; also tells which jobs were made that wait for no others.
pub(crate) async fn fire<'a>(
    conn: &mut Conn,
    at: At,
    fence: &Fence,
    lease: Duration,
    plans: &'a [SlotPlan],
) -> Outcome<(Fired, Vec<Cow<'a, NewJob>>)> {
    let (now, renewed) = leaders::begin_renewed(conn, at, fence, lease).await?;
    let Some(leader) = renewed else {
        conn.rollback().await?;
        let fired = Fired {
            at: now,
            until: None,
            answers: Vec::new(),
            refused: 0,
            unplaced: 0,
            skipped: Vec::new(),
            woken: 0,
        };
        return Ok((fired, Vec::new()));
    };
    let ids: Vec<Uuid> = plans.iter().map(|plan| plan.schedule.as_uuid()).collect();
    let mut marks: HashMap<ScheduleId, Mark> = HashMap::new();
    for row in &conn.query(&sql::SCHEDULE_MARK, &[&ids]).await? {
        let (id, mark) = read_mark(row)?;
        marks.insert(id, mark);
    }
    let mut live = Vec::new();
    if plans.iter().any(SlotPlan::asks_for_nodes) {
        let found = conn.query(&sql::NODE_LIVE, &[]).await?;
        live = found.iter().map(rows::node_info).collect::<Read<_>>()?;
    }
    let by = (fence.term, leader.node);
    let (made, busy) = (Vec::new(), Vec::new());
    let (skipped, freed) = (Vec::new(), BTreeSet::new());
    let mut firing =
        Firing { at, now, by, live, marks, made, busy, refused: 0, unplaced: 0, skipped, freed };
    let mut answers = vec![FireAnswer::Stale; plans.len()];
    let mut last = Writes::default();
    for round in rounds(plans.iter().map(|plan| plan.schedule)) {
        write(conn, firing.now, &firing.marks, &last).await?;
        last.bodies().write_within(conn, firing.now).await?;
        last = firing.fire(conn, plans, &round, &mut answers).await?;
    }
    let now = firing.now;
    call_off_again(conn, now, &firing.busy).await?;
    write(conn, now, &firing.marks, &last).await?;
    let mut woken = 0;
    if !firing.freed.is_empty() {
        let queues: Vec<String> = std::mem::take(&mut firing.freed).into_iter().collect();
        (woken, _) = nodes::wake_held(conn, At::Fixed(now), &queues).await?;
    }
    match last.jobs.is_empty() {
        true => conn.commit().await?,
        false => last.bodies().commit(conn, now).await?,
    }
    let Firing { made, refused, unplaced, skipped, .. } = firing;
    let until = Some(leader.until);
    Ok((Fired { at: now, until, answers, refused, unplaced, skipped, woken }, made))
}

/// A fire that is under way.
struct Firing<'a> {
    at: At,
    /// The instant of the decisions. Not earlier than the end of any job that they count as finished.
    now: Timestamp,
    /// The term, and who leads.
    by: (i64, NodeId),
    /// The nodes that are alive, if any plan depends on them.
    live: Vec<NodeInfo>,
    marks: HashMap<ScheduleId, Mark>,
    made: Vec<Cow<'a, NewJob>>,
    /// Those that could not be called off, since somebody had their leases locked; and who did.
    busy: Vec<(JobId, Actor)>,
    refused: usize,
    unplaced: usize,
    skipped: Vec<SkippedSlots>,
    /// Queues that schedules waited for and that have nodes now.
    freed: BTreeSet<String>,
}

impl<'a> Firing<'a> {
    /// Decides plans of different schedules, and says what they write.
    async fn fire(
        &mut self,
        conn: &mut Conn,
        plans: &'a [SlotPlan],
        round: &[usize],
        answers: &mut [FireAnswer],
    ) -> Outcome<Writes<'a>> {
        let mut writes = Writes::default();
        let mut advances = Vec::new();
        for index in round {
            let plan = &plans[*index];
            match self.check(plan) {
                None => {}
                Some(Ok(advance)) => {
                    writes.advanced.insert(plan.schedule);
                    answers[*index] = advance.answer();
                    advances.push(advance);
                }
                Some(Err(reason)) => {
                    writes.set_aside.insert(plan.schedule, reason.clone());
                    answers[*index] = FireAnswer::SetAside(reason);
                }
            }
        }
        let mut unfinished = self.unfinished(conn, &advances).await?;
        for advance in &advances {
            let live = unfinished.remove(&advance.schedule).unwrap_or_default();
            let seats = self.seats(conn, advance, live).await?;
            self.decide(advance, seats, &mut writes);
        }
        Ok(writes)
    }

    /// Reads the unfinished jobs of the schedules whose plans depend on them. A job may have finished
    /// after this transaction read the clock, while it waited for locks: `now` moves past its end, so
    /// that the records never show a slot fired during a job that it had to wait for.
    async fn unfinished(
        &mut self,
        conn: &mut Conn,
        advances: &[Advance<'_>],
    ) -> Outcome<HashMap<ScheduleId, Unfinished>> {
        let asking = advances.iter().filter(|advance| advance.asks_for_unfinished());
        let ids: Vec<Uuid> = asking.map(|advance| advance.schedule.as_uuid()).collect();
        let mut unfinished: HashMap<ScheduleId, Unfinished> = HashMap::new();
        if ids.is_empty() {
            return Ok(unfinished);
        }
        let bound: Bound<'_> = &[&ids, &rows::count(limits::LIVE_MAX), &rows::at(self.at)];
        for row in &conn.query(&sql::LIVE, bound).await? {
            if let Some(now) = rows::instant_opt(row, 3)? {
                self.now = self.now.max(now);
                continue;
            }
            let live = unfinished.entry(rows::schedule_id(row, 0)?).or_default();
            live.push((rows::job_id(row, 1)?, rows::get(row, 2)?));
        }
        Ok(unfinished)
    }

    /// Who is in the way of a plan's jobs; those that it calls off are called off here.
    async fn seats(
        &mut self,
        conn: &mut Conn,
        plan: &Advance<'_>,
        mut live: Unfinished,
    ) -> Outcome<Seats> {
        if let Some(actor) = plan.calls_off() {
            for (job, _) in live.clone().into_iter().take(limits::FIRE_CANCEL_MAX) {
                match jobs::call_off(conn, self.now, job, &actor).await? {
                    Some(answer) if Seats::are_free_of(answer) => {
                        live.retain(|(other, _)| *other != job);
                    }
                    Some(_) => {}
                    None => self.busy.push((job, actor.clone())),
                }
            }
        }
        if plan.is_for_every_node() {
            let ids: Vec<Uuid> = live.iter().map(|(job, _)| job.as_uuid()).collect();
            let found = conn.query(&sql::JOB_QUEUE, &[&ids]).await?;
            let queue = |row: &Row| Ok((rows::job_id(row, 0)?, rows::get(row, 1)?));
            let mut unfinished: Vec<(JobId, String)> =
                found.iter().map(queue).collect::<Read<_>>()?;
            unfinished.sort_unstable();
            return Ok(Seats::of_nodes(plan, unfinished));
        }
        let waiting = live.iter().filter(|(_, is_waiting)| *is_waiting).count();
        Ok(Seats::new(plan, live.into_iter().map(|(job, _)| job).collect(), waiting))
    }

    /// What a plan writes, or why it sets its schedule aside; none if it is stale.
    fn check(&mut self, plan: &'a SlotPlan) -> Option<Result<Advance<'a>, String>> {
        let current = self.marks.get_mut(&plan.schedule);
        let is_early = plan.is_early(self.now);
        let mark = current.filter(|mark| mark.stamp == plan.stamp && mark.enabled && !is_early)?;
        mark.stamp = rules::next_stamp(mark.stamp, self.now);
        let checked = plan.check(mark.next_slot, mark.held.as_ref(), &self.live, self.now);
        Some(checked.inspect(|advance| {
            self.freed.extend(advance.freed_queue(mark.held.as_ref()).map(str::to_owned));
            mark.next_slot = advance.next_slot;
            mark.last_slot = advance.last_slot().or(mark.last_slot);
            mark.held.clone_from(&advance.held);
            mark.decided_to = Some(advance.decided_to(self.now));
        }))
    }

    /// What becomes of the slots of one plan.
    fn decide(&mut self, advance: &Advance<'a>, mut seats: Seats, writes: &mut Writes<'a>) {
        let (term, node) = self.by;
        let revision = self.marks.get(&advance.schedule).map_or(0, |mark| mark.revision);
        for placed in place(advance, &self.live) {
            let seated = seats.take(&placed.row);
            self.refused += usize::from(matches!(seated, Seated::Refused(_)));
            self.unplaced += usize::from(placed.is_unplaced);
            let view = placed.decided(&seated, term, node, revision, self.now);
            skipped::add(&mut self.skipped, advance.schedule, &view);
            let job = match placed.row {
                Cow::Borrowed(row) => row.job.as_ref().map(Cow::Borrowed),
                Cow::Owned(row) => row.job.map(Cow::Owned),
            };
            let job = job.filter(|_| view.job.is_some());
            if let Some(job) = job.filter(|job| writes.ids.insert(job.id)) {
                let is_blocked = seated == Seated::Waits;
                self.made.extend((!is_blocked).then(|| job.clone()));
                writes.jobs.push((job, is_blocked));
            }
            writes.slots.push((advance.schedule, view));
        }
    }
}

/// The unfinished jobs of a schedule, oldest first, and whether each waits for others.
type Unfinished = Vec<(JobId, bool)>;

/// Calls those off whose leases were locked for a moment. One that is locked for longer is being
/// settled in a transaction of its handler's: nobody waits for that but the job that takes its place,
/// and the next slot asks again.
async fn call_off_again(conn: &mut Conn, now: Timestamp, busy: &[(JobId, Actor)]) -> Outcome<()> {
    if !busy.is_empty() {
        sleep(LOCKED_FOR).await;
    }
    for (job, actor) in busy {
        jobs::call_off(conn, now, *job, actor).await?;
    }
    Ok(())
}

/// Writes all but the jobs.
async fn write(
    conn: &mut Conn,
    now: Timestamp,
    marks: &HashMap<ScheduleId, Mark>,
    writes: &Writes<'_>,
) -> Outcome<()> {
    let mut advanced: Vec<(&ScheduleId, &Mark)> =
        marks.iter().filter(|(id, _)| writes.advanced.contains(*id)).collect();
    advanced.sort_unstable_by_key(|(id, _)| **id);
    let (held, advanced): (Vec<_>, Vec<_>) =
        advanced.into_iter().partition(|(_, mark)| mark.held.is_some());
    if !advanced.is_empty() {
        let Watermarks { ids, stamps, next, last } = Watermarks::of(&advanced);
        conn.query(&sql::SCHEDULE_ADVANCE, &[&ids, &stamps, &next, &last, &Instant(now)]).await?;
    }
    if !held.is_empty() {
        let Watermarks { ids, stamps, next, last } = Watermarks::of(&held);
        let slots = || held.iter().map(|(_, mark)| mark.held.as_ref());
        let queues: Vec<Option<&str>> =
            slots().map(|held| held.map(|held| held.queue.as_str())).collect();
        let since: Vec<Option<Instant>> =
            slots().map(|held| held.map(|held| Instant(held.since))).collect();
        let until: Vec<Option<Instant>> =
            slots().map(|held| held.map(|held| Instant(held.until))).collect();
        let decided_to: Vec<Instant> =
            held.iter().map(|(_, mark)| Instant(mark.decided_to.unwrap_or(now))).collect();
        let bound: Bound<'_> = &[&ids, &stamps, &next, &last, &queues, &since, &until, &decided_to];
        conn.query(&sql::SCHEDULE_HOLD, bound).await?;
    }
    if !writes.set_aside.is_empty() {
        let stamp = |id: &ScheduleId| marks.get(id).map_or(0, |mark| mark.stamp);
        let ids: Vec<Uuid> = writes.set_aside.keys().map(ScheduleId::as_uuid).collect();
        let stamps: Vec<i64> = writes.set_aside.keys().map(stamp).collect();
        let reasons: Vec<_> = writes.set_aside.values().map(|reason| rows::text(reason)).collect();
        conn.query(&sql::SCHEDULE_SET_ASIDE, &[&ids, &stamps, &reasons]).await?;
    }
    insert_slots(conn, &writes.slots).await
}

/// How far schedules are decided, in the order of their ids.
struct Watermarks {
    ids: Vec<Uuid>,
    stamps: Vec<i64>,
    next: Vec<Option<Instant>>,
    last: Vec<Option<Instant>>,
}

impl Watermarks {
    fn of(marks: &[(&ScheduleId, &Mark)]) -> Watermarks {
        Watermarks {
            ids: marks.iter().map(|(id, _)| id.as_uuid()).collect(),
            stamps: marks.iter().map(|(_, mark)| mark.stamp).collect(),
            next: marks.iter().map(|(_, mark)| mark.next_slot.map(Instant)).collect(),
            last: marks.iter().map(|(_, mark)| mark.last_slot.map(Instant)).collect(),
        }
    }
}

/// Writes slots that were decided together.
pub(crate) async fn insert_slots(conn: &mut Conn, slots: &[(ScheduleId, SlotView)]) -> Outcome<()> {
    let Some((_, SlotView { term, node, decided_at, .. })) = slots.first() else {
        return Ok(());
    };
    let views = || slots.iter().map(|(_, view)| view);
    let schedules: Vec<Uuid> = slots.iter().map(|(schedule, _)| schedule.as_uuid()).collect();
    let starts: Vec<Instant> = views().map(|view| Instant(view.slot)).collect();
    let ends: Vec<Option<Instant>> = views().map(|view| view.end.map(Instant)).collect();
    let counts: Vec<i64> =
        views().map(|view| i64::try_from(view.count).unwrap_or(i64::MAX)).collect();
    let outcomes: Vec<i16> = views().map(|view| view.outcome.code()).collect();
    let reasons: Vec<_> = views().map(|view| view.reason.as_deref().map(rows::text)).collect();
    let jobs: Vec<Option<Uuid>> = views().map(|view| view.job.map(|job| job.as_uuid())).collect();
    let revisions: Vec<i64> = views().map(|view| view.revision).collect();
    let runs: Vec<i32> = views().map(|view| view.run).collect();
    conn.query(
        &sql::SLOT_INSERT,
        &[
            &schedules,
            &starts,
            &ends,
            &counts,
            &outcomes,
            &reasons,
            &jobs,
            &revisions,
            term,
            &node.as_uuid(),
            &Instant(*decided_at),
            &runs,
        ],
    )
    .await?;
    Ok(())
}
