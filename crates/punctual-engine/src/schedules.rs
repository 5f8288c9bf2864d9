//! Schedules as somebody manages them: checked before they are stored, and never fired for what
//! lies behind.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::job::SlotOutcome;
use punctual_core::schedule::{
    Definition, DefinitionError, Missed, PlannedSlot, Rule, RunOn, plan,
};
use punctual_core::{JobId, ScheduleId, Timestamp};
use punctual_store::{
    Actor, EditAnswer, EnqueueAnswer, Json, Misfit, NewJob, NewSchedule, NodeInfo, PassedSlots,
    Rejection, Schedule, ScheduleChange, SlotRow, Store, StoreError, UniqueKey, limits,
    queues_of_every_node, why_nobody,
};

use crate::env::Env;
use crate::scheduler::{Told, job_of, paused};
use crate::skip_log::log_passed;

/// Creates, changes and runs schedules.
#[derive(Clone)]
pub struct Schedules {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
}

/// Why a schedule is not as somebody wanted it. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// It cannot be so.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The jobs that it would make cannot be so.
    #[error("`job`: {0}")]
    Job(String),
    /// The key of a run stands for something else: this job.
    #[error("the key was already used for a different request; use another key")]
    KeyTaken(JobId),
    /// One of several schedules cannot be so.
    #[error("schedule `{0}`: {1}")]
    Of(String, Box<ScheduleError>),
    /// More than one of them cannot be so.
    #[error("{}", all(.0))]
    Several(Vec<ScheduleError>),
    /// There is none of that name.
    #[error("schedule `{0}` not found")]
    NotFound(String),
    /// It is not as the caller saw it any more.
    #[error("schedule `{0}` was changed by another request; read it again and repeat the change")]
    Changed(String),
    /// Others change it all the time.
    #[error("schedule `{0}` is being changed by other requests; try again")]
    Busy(String),
    /// No slot that is later than the database clock is decided.
    #[error(
        "schedule `{0}` is not ahead of the database clock: it has no decided slots to discard, and \
         fires at its next slot"
    )]
    NotAhead(String),
    /// A revision that decided slots is not stored.
    #[error(
        "schedule `{0}` cannot be realigned: revision {1}, which decided some of the slots, was deleted; \
         wait until the clock has reached them, or delete the schedule and create it again"
    )]
    NoRevision(String, i64),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ScheduleError {
    /// The same, of this schedule among several.
    pub(crate) fn of(self, name: &str) -> ScheduleError {
        ScheduleError::Of(name.to_owned(), Box::new(self))
    }
}

fn all(errors: &[ScheduleError]) -> String {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    errors.join("\n")
}

/// What somebody saw of a schedule: it is another once somebody changes it, and the same however
/// often it fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its revision.
    pub revision: i64,
    /// When somebody changed it last.
    pub changed_at: Timestamp,
}

impl Seen {
    /// A schedule as it is.
    pub fn of(schedule: &Schedule) -> Seen {
        Seen { revision: schedule.revision, changed_at: schedule.changed_at }
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.revision, self.changed_at.as_micros())
    }
}

impl std::str::FromStr for Seen {
    type Err = String;

    fn from_str(text: &str) -> Result<Seen, String> {
        let read = || {
            let (revision, changed_at) = text.split_once('-')?;
            let changed_at = Timestamp::from_micros(changed_at.parse().ok()?);
            Some(Seen { revision: revision.parse().ok()?, changed_at })
        };
        read().ok_or_else(|| format!("invalid ETag `{text}`"))
    }
}

/// How often a change is tried that others get in the way of.
pub(crate) const TRIES: usize = 20;

impl Schedules {
    /// The schedules of a store.
    pub fn new(env: Arc<dyn Env>, store: Arc<dyn Store>) -> Schedules {
        Schedules { env, store }
    }

    /// Creates a schedule, which begins with its first slot from now on.
    pub async fn create(
        &self,
        tenant: &str,
        name: &str,
        owner: &str,
        definition: &Definition,
        actor: &Actor,
    ) -> Result<Schedule, ScheduleError> {
        let now = self.store.now(self.env.at()).await?;
        let new = NewSchedule {
            owner: owner.to_owned(),
            ..self.new_schedule(tenant, name, definition, actor, now)?
        };
        Ok(self.store.create_schedule(self.env.at(), &new).await?)
    }

    /// A schedule that begins with its first slot from now on, if it can be so.
    pub(crate) fn new_schedule(
        &self,
        tenant: &str,
        name: &str,
        definition: &Definition,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<NewSchedule, ScheduleError> {
        let new = NewSchedule {
            id: ScheduleId::mint(self.env.wall(), self.env.seed()),
            tenant: tenant.to_owned(),
            name: name.to_owned(),
            owner: String::new(),
            set: String::new(),
            shard: 0,
            enabled: true,
            spec: stored(definition)?,
            next_slot: definition.rule_from(name, now)?.spec.next(now),
            actor: actor.clone(),
        };
        self.check_job(&new.at_creation(now), definition)?;
        Ok(new)
    }

    /// Gives a schedule another definition. Slots that are due by now and undecided are written
    /// down as missed; the new definition begins from now on.
    ///
    /// With `seen`, only if nobody has changed it since it was so.
    pub async fn define(
        &self,
        tenant: &str,
        name: &str,
        definition: &Definition,
        seen: Option<Seen>,
        actor: &Actor,
    ) -> Result<Schedule, ScheduleError> {
        let spec = stored(definition)?;
        self.change(tenant, name, actor, |schedule, now| {
            if seen.is_some_and(|seen| seen != Seen::of(schedule)) {
                return Err(ScheduleError::Changed(name.to_owned()));
            }
            self.check_job(schedule, definition)?;
            let after = now.max(schedule.last_slot.unwrap_or(now));
            Ok(ScheduleChange::Define {
                spec: spec.clone(),
                owner: schedule.owner.clone(),
                next_slot: definition.rule_from(name, after)?.spec.next(after),
                passed: passed(
                    schedule,
                    now,
                    &format!("changed by {} before the slot was decided", actor.who),
                ),
            })
        })
        .await
    }

    /// Skips slots from now on.
    pub async fn pause(
        &self,
        tenant: &str,
        name: &str,
        until: Option<Timestamp>,
        actor: &Actor,
    ) -> Result<Schedule, ScheduleError> {
        self.change(tenant, name, actor, |_, _| Ok(ScheduleChange::Pause { until })).await
    }

    /// Fires slots again from now on; those of the pause are written down as skipped.
    pub async fn resume(
        &self,
        tenant: &str,
        name: &str,
        actor: &Actor,
    ) -> Result<Schedule, ScheduleError> {
        self.change(tenant, name, actor, |_, _| Ok(ScheduleChange::Resume)).await
    }

    /// Plans it again, from now on; also after it was set aside.
    pub async fn enable(
        &self,
        tenant: &str,
        name: &str,
        actor: &Actor,
    ) -> Result<Schedule, ScheduleError> {
        self.change(tenant, name, actor, |schedule, now| {
            let definition = Definition::parse(schedule.spec.as_str())?;
            let after = now.max(schedule.last_slot.unwrap_or(now));
            let next_slot = definition.rule_from(name, after)?.spec.next(after);
            let passed = passed(schedule, now, "the schedule was quarantined");
            Ok(ScheduleChange::Enable { next_slot, passed })
        })
        .await
    }

    /// Plans it no more.
    pub async fn disable(
        &self,
        tenant: &str,
        name: &str,
        actor: &Actor,
    ) -> Result<Schedule, ScheduleError> {
        let reason = format!("disabled by {} before the slot was decided", actor.who);
        self.change(tenant, name, actor, |schedule, now| {
            Ok(ScheduleChange::Disable { passed: passed(schedule, now, &reason) })
        })
        .await
    }

    /// Removes it; what it has made stays, and what it had to decide is decided.
    pub async fn delete(
        &self,
        tenant: &str,
        name: &str,
        actor: &Actor,
    ) -> Result<Schedule, ScheduleError> {
        for _ in 0..TRIES {
            let Schedule { id, stamp, .. } = self.disable(tenant, name, actor).await?;
            match self.store.delete_schedule(self.env.at(), id, stamp, actor).await? {
                EditAnswer::Done(schedule) => return Ok(schedule),
                EditAnswer::Stale(_) => {}
                EditAnswer::NotFound => return Err(ScheduleError::NotFound(name.to_owned())),
            }
        }
        Err(ScheduleError::Busy(name.to_owned()))
    }

    /// Makes one job of it now, beside its slots; if each node has its own, one for each that is
    /// alive, of which the first is told.
    pub async fn run(&self, tenant: &str, name: &str) -> Result<JobId, ScheduleError> {
        self.run_once(tenant, name, None).await.map(|(job, _)| job)
    }

    /// The same, once for this key: who asks again is told the job that was made, and that it is none
    /// of this call's. With a job for every node, each node gets its own once.
    pub async fn run_once(
        &self,
        tenant: &str,
        name: &str,
        key: Option<UniqueKey>,
    ) -> Result<(JobId, bool), ScheduleError> {
        let schedule = self.get(tenant, name).await?;
        let definition = Definition::parse(schedule.spec.as_str())?;
        let rule = definition.rule(name)?;
        let told = Told { slot: None, caught_up: false, missed_count: 0 };
        let job = job_of(&*self.env, &schedule, &definition, &rule, told);
        let job = job.map_err(ScheduleError::Job)?;
        let first = job.id;
        let mut jobs = self.for_nodes(job, &rule).await?;
        if let Some(key) = key {
            // What stands for it is the schedule, whatever it is told meanwhile.
            let meaning = Json::new(&schedule.id.to_string());
            let meaning = meaning.map_err(|error| ScheduleError::Job(error.to_string()))?.meaning();
            for job in &mut jobs {
                let node = match rule.run_on {
                    RunOn::EveryNode => format!(" {}", job.queue),
                    _ => String::new(),
                };
                job.unique = Some(UniqueKey { key: format!("{}{node}", key.key), ..key.clone() });
                job.meaning = Some(meaning);
            }
        }
        let enqueued = self.store.enqueue(self.env.at(), &jobs).await?;
        match enqueued.answers.into_iter().next() {
            Some(EnqueueAnswer::Rejected(Rejection::Invalid(why))) => Err(ScheduleError::Job(why)),
            Some(EnqueueAnswer::Rejected(Rejection::KeyTaken(holder))) => {
                Err(ScheduleError::KeyTaken(holder))
            }
            Some(EnqueueAnswer::Duplicate(job)) => Ok((job, false)),
            Some(EnqueueAnswer::Created) | None => Ok((first, true)),
        }
    }

    /// The job, or one for each node that is alive; an error if no node would take it.
    async fn for_nodes(&self, job: NewJob, rule: &Rule) -> Result<Vec<NewJob>, ScheduleError> {
        if rule.run_on == RunOn::Any {
            return Ok(vec![job]);
        }
        let nodes = self.store.nodes().await?.into_iter().filter(|node| node.dead_at.is_none());
        let live: Vec<NodeInfo> = nodes.map(|node| node.info).collect();
        if let Some(why) = why_nobody(&live, &job.queue, &job.kind) {
            return Err(ScheduleError::Job(why));
        }
        if rule.run_on != RunOn::EveryNode {
            return Ok(vec![job]);
        }
        let queues = queues_of_every_node(&live, &job.kind);
        let jobs = queues.into_iter().enumerate().map(|(number, queue)| {
            let mint = || JobId::mint(self.env.wall(), self.env.seed());
            let id = if number == 0 { job.id } else { mint() };
            NewJob { id, queue, ..job.clone() }
        });
        Ok(jobs.take(limits::ENQUEUE_MAX).collect())
    }

    /// A schedule by its name.
    pub async fn get(&self, tenant: &str, name: &str) -> Result<Schedule, ScheduleError> {
        let found = self.store.schedule_named(tenant, name).await?;
        found.ok_or_else(|| ScheduleError::NotFound(name.to_owned()))
    }

    /// Carries out a change of the schedule as it is; if others change it meanwhile, of what they
    /// made of it.
    async fn change(
        &self,
        tenant: &str,
        name: &str,
        actor: &Actor,
        change: impl Fn(&Schedule, Timestamp) -> Result<ScheduleChange, ScheduleError>,
    ) -> Result<Schedule, ScheduleError> {
        for _ in 0..TRIES {
            let schedule = self.get(tenant, name).await?;
            let now = self.store.now(self.env.at()).await?;
            let change = change(&schedule, now)?;
            let (id, stamp) = (schedule.id, schedule.stamp);
            let call = self.store.change_schedule(self.env.at(), id, stamp, &change, actor);
            match call.await? {
                EditAnswer::Done(schedule) => {
                    log_passed(&schedule, change.passed());
                    return Ok(schedule);
                }
                EditAnswer::Stale(_) => self.env.sleep(Duration::from_millis(1)).await,
                EditAnswer::NotFound => return Err(ScheduleError::NotFound(name.to_owned())),
            }
        }
        Err(ScheduleError::Busy(name.to_owned()))
    }

    /// Checks the jobs that a schedule would make.
    pub(crate) fn check_job(
        &self,
        schedule: &Schedule,
        definition: &Definition,
    ) -> Result<(), ScheduleError> {
        let rule = definition.rule(&schedule.name)?;
        let told = Told { slot: None, caught_up: false, missed_count: 0 };
        let job = job_of(&*self.env, schedule, definition, &rule, told);
        let misfit = |misfit: Misfit| match misfit.part {
            // What is no part of what people write down.
            "tenant" | "owner" | "facts" => ScheduleError::Job(misfit.message),
            part => {
                let field = format!("job.{part}");
                ScheduleError::Definition(DefinitionError { field, message: misfit.message })
            }
        };
        job.map_err(ScheduleError::Job)?.check().map_err(misfit)
    }
}

/// Decides the slots of a schedule that are due and undecided, so that a change does not lose them.
/// If the definition cannot be read, only the watermark is known.
pub(crate) fn passed(schedule: &Schedule, now: Timestamp, reason: &str) -> PassedSlots {
    let Some(first) = schedule.next_slot.filter(|first| schedule.enabled && *first <= now) else {
        return PassedSlots::default();
    };
    let reason = match &schedule.held {
        Some(held) => format!("{reason}; {}", held.awaited()),
        None => reason.to_owned(),
    };
    let missed = |slot: Timestamp, end: Option<Timestamp>, count: u64| SlotRow {
        slot,
        end,
        count,
        outcome: SlotOutcome::Missed,
        reason: Some(reason.clone()),
        job: None,
    };
    let rule = Definition::parse(schedule.spec.as_str()).and_then(|it| it.rule(&schedule.name));
    let Ok(rule) = rule else { return vec![missed(first, None, 1)].into() };
    // What would have become a job is missed by the change.
    let rule = Rule { missed: Missed::None, ..rule };
    let planned = plan(&rule, &schedule.name, first, paused(schedule).as_ref(), now);
    let mut rows: Vec<SlotRow> = Vec::new();
    for PlannedSlot { slot, end, count, outcome, reason: why, .. } in planned.slots {
        if matches!(outcome, SlotOutcome::SkippedPaused | SlotOutcome::SkippedExcluded) {
            rows.push(SlotRow { slot, end, count, outcome, reason: why, job: None });
            continue;
        }
        match rows.last_mut().filter(|row| row.outcome == SlotOutcome::Missed) {
            Some(row) => {
                row.end = Some(end.unwrap_or(slot));
                row.count += count;
            }
            None => rows.push(missed(slot, end, count)),
        }
    }
    PassedSlots { rows, next: planned.next }
}

pub(crate) fn stored(definition: &Definition) -> Result<Json, ScheduleError> {
    Json::new(definition).map_err(|error| ScheduleError::Job(error.to_string()))
}
