//! Pauses schedules whose jobs fail again and again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::job::JobState;
use punctual_core::schedule::Definition;
use punctual_core::{ScheduleId, Timestamp};
use punctual_store::{
    Actor, Cursor, EditAnswer, JobFilter, JobView, Result, Schedule, ScheduleChange, Store, limits,
};

use crate::config::Timing;
use crate::env::Env;
use crate::leader::{MAINTENANCE, Roles};
use crate::service::{Report, Rest, Service, within};
use crate::telemetry;

/// From look to look: a schedule that fires every second makes so many jobs more, and an idle store
/// is asked once in a while.
const PERIOD: Duration = Duration::from_secs(5);
/// How far back a new leader looks: a day, so that what failed while nobody led is seen.
const LOOK_BACK: Duration = Duration::from_secs(86_400);
/// A job's end may become visible later than the instant that it bears, by as long as a transaction
/// takes; whoever looks twice does no harm.
const LATE: Duration = Duration::from_secs(60);
/// Pages of dead letters that one look reads; those beyond it are older.
const PAGES: usize = 20;

/// Who pauses, as the schedule and the audit say.
const WHO: &str = "punctual";

/// Looks at jobs that failed lately, and at the schedules that made them.
pub(crate) struct Breaker {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) roles: Arc<Roles>,
    pub(crate) timing: Timing,
    /// Up to when the ends of jobs were looked at, in this node's term.
    pub(crate) looked: Option<Timestamp>,
}

#[async_trait]
impl Service for Breaker {
    fn name(&self) -> &'static str {
        "breaker"
    }

    async fn run_once(&mut self) -> Result<Report> {
        if self.roles.current(MAINTENANCE).is_none() {
            self.looked = None;
            return Ok(Report::new(0, Rest::AtMost(PERIOD)));
        }
        let (env, store, patience) = (&*self.env, &*self.store, self.timing.call);
        let (paused, looked) = pause_failing(env, store, patience, self.looked).await?;
        self.looked = Some(looked);
        Ok(Report::new(paused, Rest::AtMost(PERIOD)))
    }
}

/// Pauses the schedules whose jobs have failed too often since then; how many, and up to when was
/// looked. All that it goes by is in the store, so that it does not matter who looks, or how often.
pub(crate) async fn pause_failing(
    env: &dyn Env,
    store: &dyn Store,
    patience: Duration,
    looked: Option<Timestamp>,
) -> Result<(usize, Timestamp)> {
    let now = within(env, patience, store.now(env.at())).await?;
    let since = looked.map_or(now - LOOK_BACK, |looked| looked - LATE);
    let mut paused = 0;
    for id in failing(env, store, patience, since).await? {
        let Some(schedule) = within(env, patience, store.schedule(id)).await? else { continue };
        let Some(most) = limit(&schedule).filter(|_| schedule.enabled && !schedule.is_paused(now))
        else {
            continue;
        };
        let failures = failures(env, store, patience, &schedule, most).await?;
        let Some(last) = failures.first().filter(|_| failures.len() >= most) else { continue };
        let actor = Actor::new(WHO, &why(most, last));
        let change = ScheduleChange::Pause { until: None };
        let call = store.change_schedule(env.at(), id, schedule.stamp, &change, &actor);
        // Of one that somebody has changed meanwhile the next look decides.
        if let EditAnswer::Done(schedule) = within(env, patience, call).await? {
            telemetry::paused_for_failures(&schedule.name, most);
            paused += 1;
        }
    }
    Ok((paused, now))
}

/// How many failures in a row pause a schedule, if any number does.
fn limit(schedule: &Schedule) -> Option<usize> {
    let definition = Definition::parse(schedule.spec.as_str()).ok()?;
    usize::try_from(definition.pause_after_failures?).ok()
}

/// Why it is paused.
fn why(most: usize, last: &JobView) -> String {
    let failed = match most {
        1 => "1 failure".to_owned(),
        most => format!("{most} failures in a row"),
    };
    let error = last.error.as_deref().unwrap_or("no error message");
    // The job is named first: an error may be longer than a reason.
    format!("{failed}; last failed job {}: {error}", last.id)
}

/// The schedules of which jobs failed since then, newest first.
async fn failing(
    env: &dyn Env,
    store: &dyn Store,
    patience: Duration,
    since: Timestamp,
) -> Result<BTreeSet<ScheduleId>> {
    let filter = JobFilter { state: Some(JobState::Failed), ..JobFilter::default() };
    let (mut found, mut after) = (BTreeSet::new(), None::<Cursor>);
    for _ in 0..PAGES {
        let page =
            within(env, patience, store.upkeep_jobs(&filter, after, limits::PAGE_MAX)).await?;
        for job in &page.items {
            if job.finished_at.is_some_and(|ended| ended < since) {
                return Ok(found);
            }
            found.extend(job.schedule.map(|(schedule, _)| schedule));
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(found)
}

/// The newest jobs of a schedule that have failed without one that succeeded among them, newest
/// first and no more than these. Jobs that ended before somebody changed it last do not count: to
/// resume it, or to mend it, is to begin anew.
async fn failures(
    env: &dyn Env,
    store: &dyn Store,
    patience: Duration,
    schedule: &Schedule,
    most: usize,
) -> Result<Vec<JobView>> {
    let filter = JobFilter { schedule: Some(schedule.id), ..JobFilter::default() };
    let (mut failures, mut after) = (Vec::new(), None::<Cursor>);
    for _ in 0..PAGES {
        let page =
            within(env, patience, store.upkeep_jobs(&filter, after, limits::PAGE_MAX)).await?;
        for job in page.items {
            let is_older = job.finished_at.is_some_and(|ended| ended <= schedule.changed_at);
            match job.state {
                JobState::Failed if !is_older => failures.push(job),
                JobState::Failed | JobState::Succeeded => return Ok(failures),
                // What is unfinished or was called off says nothing.
                _ => {}
            }
            if failures.len() >= most {
                return Ok(failures);
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(failures)
}
