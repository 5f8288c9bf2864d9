//! Turns slots into jobs when they are due, as long as this node leads.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::job::SlotOutcome;
use punctual_core::schedule::{Definition, Facts, PausedTime, Plan, PlannedSlot, Rule, plan};
use punctual_core::{JobId, Timestamp};
use punctual_store::bugs::{Bug, is_planted};
use punctual_store::{
    Delay, Due, Fence, FireAnswer, Json, NewJob, Origin, Result, Schedule, SlotDecision, SlotPlan,
    SlotRow, Store, limits,
};

use crate::ahead::AheadWatch;
use crate::batch::BatchSize;
use crate::config::Timing;
use crate::counts::Counts;
use crate::database::Database;
use crate::env::Env;
use crate::leader::{Roles, SCHEDULER};
use crate::promoter::Timers;
use crate::service::{Report, Rest, Service, within};
use crate::skip_log::SkipLog;
use crate::telemetry;

/// The shard of the schedules that the role leads.
const SHARD: i16 = 0;
/// How long what cannot go on now is left alone.
const WAIT: Duration = Duration::from_secs(1);
/// The smallest number of schedules to ask for: late ones get a tenth, the others are fresh.
const FIRE_MIN: usize = 10;
/// For how many rows a slot counts of which each node has one: the transaction that fires it knows
/// how many nodes there are, whoever plans it does not.
const NODES_LIKELY: usize = 50;

pub(crate) struct Scheduler {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) database: Arc<Database>,
    pub(crate) roles: Arc<Roles>,
    pub(crate) timers: Arc<Timers>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) timing: Timing,
    pub(crate) size: BatchSize,
    pub(crate) skips: SkipLog,
    pub(crate) ahead: Arc<AheadWatch>,
}

/// What one pass found and decided.
struct Batch {
    plans: Vec<SlotPlan>,
    /// The earliest slot that follows what is decided.
    next: Option<Timestamp>,
    /// Is there more that could be decided now?
    has_more: bool,
}

/// What became of the plans of one pass.
#[derive(Default)]
struct Written {
    /// Schedules that were decided, also in part.
    applied: usize,
    /// Has anything changed since it was read?
    is_stale: bool,
    /// Were held slots of further schedules made due?
    has_woken: bool,
    /// When held slots are examined again.
    held_until: Option<Timestamp>,
}

impl Scheduler {
    /// Decides what is due, of up to `most` schedules, as far as one transaction holds.
    fn decide(&self, due: &Due, up_to: Timestamp, most: usize) -> Batch {
        let mut batch =
            Batch { plans: Vec::new(), next: due.next, has_more: due.schedules.len() >= most };
        let mut room = limits::FIRE_SLOTS_MAX;
        for schedule in &due.schedules {
            let Some(watermark) = schedule.next_slot.filter(|slot| *slot <= up_to) else {
                continue;
            };
            let (decision, next) = match self.plan(schedule, watermark, up_to) {
                Ok(planned) => planned,
                Err(reason) => (SlotDecision::SetAside(reason), None),
            };
            let plan = SlotPlan { schedule: schedule.id, stamp: schedule.stamp, decision };
            let rows = match &plan.decision {
                SlotDecision::Advance { slots, .. } if plan.is_for_every_node() => {
                    (slots.len() * NODES_LIKELY).min(limits::FIRE_SLOTS_MAX)
                }
                SlotDecision::Advance { slots, .. } => slots.len(),
                SlotDecision::SetAside(_) => 1,
            };
            if rows > room {
                batch.has_more = true;
                continue;
            }
            room -= rows;
            batch.next = [batch.next, next].into_iter().flatten().min();
            batch.plans.push(plan);
        }
        batch
    }

    fn plan(
        &self,
        schedule: &Schedule,
        watermark: Timestamp,
        up_to: Timestamp,
    ) -> std::result::Result<(SlotDecision, Option<Timestamp>), String> {
        let definition =
            Definition::parse(schedule.spec.as_str()).map_err(|why| why.to_string())?;
        let rule = definition.rule(&schedule.name).map_err(|why| why.to_string())?;
        let watermark = match is_planted(Bug::LookBackWindow) {
            true => rule.spec.next(up_to - self.timing.poll * 2).unwrap_or(watermark),
            false => watermark,
        };
        let Plan { slots, next } =
            plan(&rule, &schedule.name, watermark, paused(schedule).as_ref(), up_to);
        let slots = slots
            .into_iter()
            .map(|slot| self.row(schedule, &definition, &rule, slot))
            .collect::<std::result::Result<_, String>>()?;
        let (overlap, hold_for) = (rule.overlap, rule.hold_for());
        Ok((SlotDecision::Advance { overlap, slots, next_slot: next, hold_for }, next))
    }

    fn row(
        &self,
        schedule: &Schedule,
        definition: &Definition,
        rule: &Rule,
        planned: PlannedSlot,
    ) -> std::result::Result<SlotRow, String> {
        let PlannedSlot { slot, end, count, outcome, reason, job } = planned;
        let caught_up = outcome == SlotOutcome::CaughtUp;
        let make = |job: punctual_core::schedule::PlannedJob| {
            let told = Told { slot: Some(slot), caught_up, missed_count: job.missed_count };
            let made = job_of(&*self.env, schedule, definition, rule, told)?;
            Ok::<NewJob, String>(NewJob { delay: Delay::Until(job.due_at), ..made })
        };
        let job = job.map(make).transpose()?;
        Ok(SlotRow { slot, end, count, outcome, reason, job })
    }

    /// Writes what is decided.
    async fn fire(
        &mut self,
        fence: &Fence,
        plans: &[SlotPlan],
        schedules: &[Schedule],
    ) -> Result<Written> {
        let sent = self.env.elapsed();
        let call = self.store.fire(self.env.at(), fence, self.timing.leader_lease, plans);
        let fired = match within(&*self.env, self.timing.call, call).await {
            Ok(fired) => fired,
            Err(error) => {
                // Whether it was written is not known, and whether the node leads even less.
                self.roles.unsure(std::slice::from_ref(fence));
                return Err(error);
            }
        };
        let Some(until) = fired.until else {
            self.roles.lost(fence);
            return Ok(Written { is_stale: true, ..Written::default() });
        };
        self.roles.trust(fence, sent, until.since(fired.at));
        telemetry::refused(fired.refused);
        telemetry::unplaced(fired.unplaced);
        for slots in fired.skipped {
            let schedule = schedules.iter().find(|schedule| schedule.id == slots.schedule);
            let name = schedule.map_or("", |schedule| &schedule.name);
            self.skips.add(self.env.elapsed(), name, slots);
        }
        let mut written = Written { has_woken: fired.woken > 0, ..Written::default() };
        for (plan, answer) in plans.iter().zip(&fired.answers) {
            match answer {
                FireAnswer::Applied => {
                    written.applied += 1;
                    self.note(plan, usize::MAX, fired.at);
                }
                FireAnswer::Held(rows, held) => {
                    written.applied += 1;
                    written.held_until = written.held_until.into_iter().chain([held.until]).min();
                    self.note(plan, *rows, fired.at);
                    if held.since == fired.at {
                        telemetry::held(plan.schedule, &held.queue);
                    }
                }
                FireAnswer::Stale => written.is_stale |= !plan.is_early(fired.at),
                FireAnswer::SetAside(reason) => {
                    written.applied += 1;
                    telemetry::set_aside(plan.schedule, reason);
                }
            }
        }
        Ok(written)
    }

    /// Counts what was fired, the first rows of a plan; a job that is due soon is looked after by this
    /// node.
    fn note(&self, plan: &SlotPlan, rows: usize, at: Timestamp) {
        let SlotDecision::Advance { slots, .. } = &plan.decision else { return };
        let now = self.env.elapsed();
        for row in slots.iter().take(rows) {
            telemetry::decided(row, at);
            if row.outcome == SlotOutcome::Missed {
                self.counts.missed(at, row.count);
            }
            if let Some(Delay::Until(due_at)) = row.job.as_ref().map(|job| job.delay)
                && due_at > at
            {
                self.timers.note(now.saturating_add(due_at.since(at)));
            }
        }
    }
}

#[async_trait]
impl Service for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    async fn run_once(&mut self) -> Result<Report> {
        let Some(fence) = self.roles.current(SCHEDULER) else {
            self.skips.end(self.env.elapsed());
            return Ok(Report::new(0, Rest::AtMost(self.timing.schedule)));
        };
        if let Some(wait) = self.database.suspended() {
            return Ok(Report::new(0, Rest::AtMost(wait)));
        }
        let sent = self.env.elapsed();
        self.skips.flush(sent);
        let most = self.size.get().max(FIRE_MIN);
        let call = self.store.due(self.env.at(), SHARD, most);
        let due = within(&*self.env, self.timing.call, call).await?;
        let looked = self.env.elapsed();
        let up_to = self.database.told_time(due.at, sent);
        self.ahead.look(fence.term, due.at, sent);

        let batch = self.decide(&due, up_to, most);
        let mut written = Written::default();
        if !batch.plans.is_empty() {
            for part in parts(&batch.plans) {
                let fired = self.fire(&fence, &part, &due.schedules).await;
                match &fired {
                    Ok(_) => self.size.grow(),
                    // Fresh slots come first in the smaller batch.
                    Err(error) if error.is_timeout() => self.size.shrink(part.len()),
                    Err(_) => {}
                }
                written = fired?;
            }
        }
        let Written { applied, is_stale, has_woken, held_until } = written;
        if is_stale || has_woken || batch.has_more && applied > 0 {
            return Ok(Report::new(applied, Rest::None));
        }
        let since = self.env.elapsed().saturating_sub(looked);
        let next = batch
            .next
            .into_iter()
            .chain(held_until)
            .min()
            .map(|next| next.since(due.at).saturating_sub(since));
        let mut wait = next.map_or(self.timing.schedule, |next| next.min(self.timing.schedule));
        if self.database.is_clock_held() {
            wait = wait.max(WAIT);
        }
        Ok(Report::new(applied, Rest::AtMost(wait)))
    }
}

/// What is written in one transaction: everything, unless a planted bug tears it apart.
fn parts(plans: &[SlotPlan]) -> Vec<Cow<'_, [SlotPlan]>> {
    let is_jobs_first = is_planted(Bug::TwoTransactionClaim);
    if !is_jobs_first && !is_planted(Bug::WatermarkFirst) {
        return vec![Cow::Borrowed(plans)];
    }
    let part = |number: i64| {
        let mut part = plans.to_vec();
        for plan in &mut part {
            plan.stamp += number;
            let SlotDecision::Advance { slots, next_slot, .. } = &mut plan.decision else {
                continue;
            };
            match (number == 0) == is_jobs_first {
                true if is_jobs_first => *next_slot = slots.first().map(|row| row.slot),
                true => {}
                false => slots.clear(),
            }
        }
        Cow::Owned(part)
    };
    vec![part(0), part(1)]
}

/// When a schedule was paused, if it has undecided slots from then.
pub(crate) fn paused(schedule: &Schedule) -> Option<PausedTime> {
    schedule.pause.as_ref().map(|pause| PausedTime {
        since: pause.since,
        until: pause.until.unwrap_or(Timestamp::MAX),
        reason: match pause.by.why.as_str() {
            "" => format!("paused by {}", pause.by.who),
            why => format!("paused by {}: {why}", pause.by.who),
        },
    })
}

/// What a job is told about its slot.
pub(crate) struct Told {
    pub(crate) slot: Option<Timestamp>,
    pub(crate) caught_up: bool,
    pub(crate) missed_count: u64,
}

/// The job that a schedule makes.
pub(crate) fn job_of(
    env: &dyn Env,
    schedule: &Schedule,
    definition: &Definition,
    rule: &Rule,
    told: Told,
) -> std::result::Result<NewJob, String> {
    let template = &definition.job;
    let facts = Facts {
        name: schedule.name.clone(),
        revision: schedule.revision,
        when: definition.when.clone(),
        tz: definition.tz.clone(),
        caught_up: told.caught_up,
        missed_count: told.missed_count,
        backoff: template.backoff.clone(),
    };
    let json = |error: serde_json::Error| error.to_string();
    let origin =
        Origin { schedule: schedule.id, slot: told.slot, facts: Json::new(&facts).map_err(json)? };
    let id = JobId::mint(env.wall(), env.seed());
    let payload = Json::new(&template.payload).map_err(json)?;
    let queue = rule.run_on.queue().unwrap_or_else(|| template.queue.clone());
    Ok(NewJob {
        tenant: schedule.tenant.clone(),
        owner: schedule.owner.clone(),
        priority: template.priority,
        max_attempts: template.max_attempts,
        timeout: rule.timeout,
        budget: rule.budget,
        start_within: rule.start_within,
        tags: template.tags.clone(),
        origin: Some(origin),
        ..NewJob::new(id, &queue, &template.kind, payload)
    })
}
