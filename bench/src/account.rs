//! What workers said they did, beside what the database says became of it.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::job::{AttemptOutcome, CRASHES_MAX, JobState};
use punctual_core::{JobId, LeaseId, NodeId};
use punctual_store::{JobDetail, JobFilter, Store, limits};

use crate::Failure;
use crate::worker::Task;

/// Everything that workers said.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) acknowledged: BTreeSet<JobId>,
    /// The job that each key was answered with.
    pub(crate) keys: BTreeMap<String, JobId>,
    begun: BTreeSet<(JobId, u32)>,
    begun_under: BTreeSet<(JobId, LeaseId)>,
    ended: BTreeMap<(JobId, u32), Vec<(LeaseId, String)>>,
    /// Answers that were lost, so that the same was asked again.
    pub(crate) unsure: u64,
    /// Attempts that began once more, under another lease: the claim before was forgotten.
    pub(crate) begun_again: u64,
    /// Attempts that began where another at the same job was still at work in the same process.
    pub(crate) beside: u64,
}

/// One process, as it tells of itself.
#[derive(Default)]
pub(crate) struct Life {
    pub(crate) lines: u64,
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) unsettled: Option<u64>,
    running: BTreeMap<JobId, LeaseId>,
    /// When the last job was written that it then saw succeed, in µs.
    pub(crate) shown: Option<i64>,
}

impl Log {
    /// Takes a line down; none if it makes no sense: unknown, or a second beginning under a lease.
    pub(crate) fn note(&mut self, line: &str, life: &mut Life) -> Option<()> {
        life.lines += 1;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["node", id] => {
                let id = id.parse().ok()?;
                if life.nodes.last() != Some(&id) {
                    life.nodes.push(id);
                }
            }
            ["ack", id] => {
                self.acknowledged.insert(id.parse().ok()?);
            }
            ["key", key, id] => {
                let id = id.parse().ok()?;
                self.acknowledged.insert(id);
                self.keys.insert(key.to_owned(), id);
            }
            ["unsure", ..] => self.unsure += 1,
            ["beacon", began] => life.shown = life.shown.max(Some(began.parse().ok()?)),
            ["begin", id, number, lease] => {
                let (id, number, lease) =
                    (id.parse().ok()?, number.parse().ok()?, lease.parse().ok()?);
                self.begun_again += u64::from(!self.begun.insert((id, number)));
                self.beside += u64::from(life.running.insert(id, lease).is_some());
                return self.begun_under.insert((id, lease)).then_some(());
            }
            ["end", id, number, lease, outcome] => {
                let (id, number, lease) =
                    (id.parse().ok()?, number.parse().ok()?, lease.parse().ok()?);
                if life.running.get(&id) == Some(&lease) {
                    life.running.remove(&id);
                }
                self.ended.entry((id, number)).or_default().push((lease, outcome.to_owned()));
            }
            ["stopped", unsettled] => life.unsettled = Some(unsettled.parse().ok()?),
            _ => return None,
        }
        Some(())
    }

    /// Did a worker say that this attempt ended like this, under this lease if one is given?
    pub(crate) fn said(
        &self,
        id: JobId,
        number: u32,
        lease: Option<LeaseId>,
        outcome: &str,
    ) -> bool {
        self.ended.get(&(id, number)).is_some_and(|ends| {
            let is_it = |(under, how): &(LeaseId, String)| {
                how == outcome && lease.is_none_or(|lease| lease == *under)
            };
            ends.iter().any(is_it)
        })
    }
}

/// What was found in the end.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) lost: u64,
    /// Jobs that a key made beside its first one, and jobs that succeeded twice.
    pub(crate) doubled: u64,
    pub(crate) unfinished: u64,
    pub(crate) over_attempts: u64,
    pub(crate) stale_accepted: u64,
    pub(crate) burnt_by_stops: u64,
    /// The first of these, in words.
    pub(crate) first_broken: Option<String>,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) failed_by_crashes: u64,
    pub(crate) abandoned: u64,
    pub(crate) released: u64,
    /// Work that was done and had to be done again: its process died, or lost touch with the store,
    /// before that was written.
    pub(crate) repeated: u64,
}

impl Findings {
    pub(crate) fn breaks(&mut self, what: String) {
        self.first_broken.get_or_insert(what);
    }

    fn job_breaks(&mut self, job: JobId, what: &str) {
        self.breaks(format!("job {job}: {what}"));
    }
}

/// Who judges, and what it knows beside the log.
pub(crate) struct Judge<'a> {
    pub(crate) log: &'a Log,
    /// Nodes whose process was told to stop and did.
    pub(crate) stopped: &'a BTreeSet<NodeId>,
    /// Jobs that abort whatever process works on them.
    pub(crate) aborting: &'a BTreeSet<JobId>,
}

impl Judge<'_> {
    /// Looks at every job.
    pub(crate) async fn judge(&self, store: &dyn Store) -> Result<Findings, Failure> {
        let jobs = all_jobs(store).await?;
        let mut findings = Findings::default();
        for id in &self.log.acknowledged {
            if !jobs.contains_key(id) {
                findings.lost += 1;
                findings.job_breaks(*id, "was acknowledged and is lost");
            }
        }
        let mut holders: BTreeMap<String, JobId> = BTreeMap::new();
        for (id, job) in &jobs {
            let task: Task = serde_json::from_str(job.payload.as_str())?;
            if let Some(key) = task.key
                && let Some(other) = holders.insert(key.clone(), *id)
            {
                findings.doubled += 1;
                findings.job_breaks(*id, &format!("has the same key `{key}` as job {other}"));
            }
            self.judge_job(*id, job, &mut findings)
                .map_err(|what| format!("job {id}: {what}; {job:?}"))?;
        }
        for (key, id) in &self.log.keys {
            if holders.get(key) != Some(id) {
                findings.lost += 1;
                findings.job_breaks(
                    *id,
                    &format!("was returned for the key `{key}`, but does not hold it"),
                );
            }
        }
        Ok(findings)
    }

    fn judge_job(&self, id: JobId, job: &JobDetail, findings: &mut Findings) -> Result<(), String> {
        let state = job.view.state;
        if !state.is_final() {
            findings.unfinished += 1;
            findings.job_breaks(id, &format!("is not finished: {state}"));
            return Ok(());
        }
        let numbers: Vec<u32> = job.attempts.iter().map(|attempt| attempt.attempt).collect();
        if numbers != (1..=job.view.attempt).collect::<Vec<_>>() {
            return Err(format!("has gaps in its attempts: {numbers:?}"));
        }
        let (mut counted, mut crashes, mut successes) = (0, 0, 0);
        for attempt in &job.attempts {
            let outcome = attempt.outcome.ok_or("an attempt has no outcome")?;
            counted += u32::from(outcome.counts());
            successes += u32::from(outcome == AttemptOutcome::Succeeded);
            let has_succeeded = self.log.said(id, attempt.attempt, None, "succeeded");
            match outcome {
                AttemptOutcome::Succeeded | AttemptOutcome::Failed | AttemptOutcome::Panicked => {
                    if !self.log.said(id, attempt.attempt, None, outcome.as_str()) {
                        findings.stale_accepted += 1;
                        findings.job_breaks(
                            id,
                            &format!("{outcome} was accepted but never reported by a handler"),
                        );
                    }
                }
                AttemptOutcome::Abandoned => {
                    crashes += 1;
                    findings.abandoned += 1;
                    findings.repeated += u64::from(has_succeeded);
                    if attempt.node.is_some_and(|node| self.stopped.contains(&node)) {
                        findings.burnt_by_stops += 1;
                        findings.job_breaks(id, "a graceful stop used an attempt");
                    }
                }
                // What fails after it was told to stop is an echo of that.
                AttemptOutcome::Released => {
                    findings.released += 1;
                    findings.repeated += u64::from(has_succeeded);
                }
                other => return Err(format!("unexpected attempt outcome {other}")),
            }
        }
        if successes > 1 {
            findings.doubled += 1;
            findings.job_breaks(id, "succeeded more than once");
        }
        if counted != job.spent {
            return Err(format!("{counted} attempts count, but {} are recorded", job.spent));
        }
        if counted > job.view.max_attempts {
            findings.over_attempts += 1;
            findings.job_breaks(id, &format!("{counted} attempts count, more than max_attempts"));
        }
        if crashes != job.crashes || crashes > CRASHES_MAX {
            return Err(format!("{crashes} crashes, but {} are recorded", job.crashes));
        }
        if crashes == CRASHES_MAX && state != JobState::Failed {
            return Err("crashed three times but was not failed".to_owned());
        }
        if self.aborting.contains(&id) && (state, crashes) != (JobState::Failed, CRASHES_MAX) {
            return Err(format!("aborts its process but is {state} after {crashes} crashes"));
        }
        match state {
            JobState::Succeeded => findings.succeeded += 1,
            JobState::Failed if crashes == CRASHES_MAX => findings.failed_by_crashes += 1,
            JobState::Failed if job.spent >= job.view.max_attempts => findings.failed += 1,
            other => return Err(format!("finished as {other} with attempts left")),
        }
        Ok(())
    }
}

async fn all_jobs(store: &dyn Store) -> Result<BTreeMap<JobId, JobDetail>, Failure> {
    let mut jobs = BTreeMap::new();
    let mut after = None;
    loop {
        let page = store.jobs(&JobFilter::default(), after, limits::PAGE_MAX).await?;
        for view in page.items {
            jobs.insert(view.id, store.job(view.id).await?.ok_or("a listed job was not found")?);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(jobs),
        }
    }
}
