//! What a remote worker says of a job it works on, and how it ends.

use std::time::Duration;

use punctual_core::job::{
    AttemptOutcome, JobState, LogLevel, Outcome as Decided, RetryPolicy, Standing, Transition,
    decide,
};
use punctual_core::schedule::Definition;
use punctual_core::{NodeId, ScheduleId, Timestamp};
use punctual_store::{
    Beaten, JobDetail, Json, LogCursor, LogLine, Progress, RollupCount, Settled, Settlement, limits,
};

use super::deadline::deadline_of;
use super::held::Holder;
use super::{Held, Remote, lost};
use crate::error::{Error, ErrorKind, Result};

/// How far a worker is with a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How much of the work is done, up to 100.
    pub percent: Option<u8>,
    /// What it is doing.
    pub note: String,
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// What time it is.
    pub at: Timestamp,
    /// If the worker is not heard of until then, its jobs are taken back; none for a job that a node
    /// with a handler holds.
    pub expires_at: Option<Timestamp>,
    /// The attempt may take until then; none for a job that a node with a handler holds.
    pub deadline: Option<Timestamp>,
    /// Has somebody called the job off?
    pub cancel: bool,
    /// Should the worker take no more jobs, and end?
    pub drain: bool,
}

/// How an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What went wrong.
    pub error: String,
    /// May another attempt mend it?
    pub retry: bool,
    /// The wait before it, instead of the usual one.
    pub retry_after: Option<Duration>,
}

impl Remote {
    /// Says that a worker is at work on a job, and how far it is.
    ///
    /// An error of kind `Fenced` says that the lease is gone: here and for all other calls about it.
    pub async fn heartbeat(&self, held: &Held, report: Option<Report>) -> Result<Pulse> {
        let Some(Holder { node }) = held.by else {
            return self.pulse_of_pushed(held, report.is_some()).await;
        };
        let (beaten, deadline) = self.touch(held, report).await?;
        Ok(Pulse {
            at: beaten.at,
            expires_at: Some(beaten.at + self.timing.dead),
            deadline,
            cancel: beaten.cancels.contains(&held.job),
            drain: self.drains(node).await?,
        })
    }

    /// Of a job that a node with a handler holds: that node beats for itself.
    async fn pulse_of_pushed(&self, held: &Held, has_report: bool) -> Result<Pulse> {
        if has_report {
            return Err(Error::invalid(
                "progress is not supported for this job, because a server node holds its lease; omit \
                 `progress`, or write a log line",
            ));
        }
        let detail = self.under_way(held).await?;
        let at = self.shared.store.now(self.shared.env.at()).await?;
        let cancel = detail.cancel_requested;
        Ok(Pulse { at, expires_at: None, deadline: None, cancel, drain: false })
    }

    /// A heartbeat of the worker that holds a lease, which must be in force, and until when its attempt
    /// may take.
    async fn touch(
        &self,
        held: &Held,
        report: Option<Report>,
    ) -> Result<(Beaten, Option<Timestamp>)> {
        let Some(Holder { node }) = held.by else { return Err(lost(held)) };
        let detail = self.under_way(held).await?;
        let (job, lease) = (held.job, held.lease);
        let progress = report
            .map(|Report { percent, note }| Progress { job, lease, percent, note })
            .into_iter()
            .collect();
        let beaten = self.beat(node, progress).await?;
        if !beaten.alive || !beaten.strays.contains(&lease) {
            return Err(lost(held));
        }
        self.keep_to_time(held, node, &detail, beaten.at).await?;
        Ok((beaten, deadline_of(&detail)))
    }

    /// The job of a lease, which must be in force.
    async fn under_way(&self, held: &Held) -> Result<JobDetail> {
        self.in_force(held).await?.ok_or_else(|| lost(held))
    }

    /// The job of a lease that is in force; none if it is over. One that is in force, but of another
    /// attempt or node than its name says, is refused: somebody made that name up.
    async fn in_force(&self, held: &Held) -> Result<Option<JobDetail>> {
        let Some(detail) = self.shared.store.job(held.job).await? else { return Ok(None) };
        if detail.hold.is_none_or(|hold| hold.lease != held.lease) {
            return Ok(None);
        }
        let attempt = detail
            .attempts
            .last()
            .filter(|attempt| attempt.attempt == held.attempt && attempt.outcome.is_none());
        let Some(node) = attempt.and_then(|attempt| attempt.node) else { return Err(lost(held)) };
        let is_so = match held.by {
            Some(by) => by.node == node && self.knows(node).await?,
            None => !self.knows(node).await?,
        };
        if is_so { Ok(Some(detail)) } else { Err(lost(held)) }
    }

    /// The work is done. To say it again for the same lease is no mistake.
    pub async fn complete(&self, held: &Held, result: Option<Json>) -> Result<JobState> {
        self.listen(held).await?;
        // Success needs no standing, so that a repeated one is known as such whatever came after.
        let transition = Transition {
            outcome: AttemptOutcome::Succeeded,
            next: punctual_core::job::Next::Succeeded,
            error: None,
        };
        self.write(held, transition, result).await
    }

    /// The work could not be done.
    pub async fn fail(&self, held: &Held, failed: Failed) -> Result<JobState> {
        let Failed { error, retry, retry_after } = failed;
        let error = match error.is_empty() {
            true => "no error message from the worker".to_owned(),
            false => error,
        };
        let outcome = match (retry, retry_after) {
            (false, _) => Decided::FailForGood(error),
            (true, Some(wait)) => Decided::RetryAfter(wait, error),
            (true, None) => Decided::Fail(error),
        };
        self.end(held, outcome).await
    }

    /// The work is put off, which costs no attempt.
    pub async fn snooze(&self, held: &Held, wait: Duration) -> Result<JobState> {
        self.end(held, Decided::Snooze(wait)).await
    }

    async fn end(&self, held: &Held, outcome: Decided) -> Result<JobState> {
        self.listen(held).await?;
        // An attempt that is over may be this one, ended by a call whose answer was lost.
        let detail = self.shared.store.job(held.job).await?.ok_or_else(|| lost(held))?;
        let schedule = detail.view.schedule.map(|(schedule, _)| schedule);
        self.settle(held, outcome, schedule, &standing_of(&detail, held)).await
    }

    /// Every call of a worker about a lease that it holds is its heartbeat. One that is over may have
    /// been ended by a call whose answer was lost, which is for the store to say.
    async fn listen(&self, held: &Held) -> Result<()> {
        let detail = self.in_force(held).await?;
        if let (Some(detail), Some(Holder { node })) = (detail, held.by) {
            let beaten = self.beat(node, Vec::new()).await?;
            self.keep_to_time(held, node, &detail, beaten.at).await?;
        }
        Ok(())
    }

    /// Ends what is overdue of a node; the lease is lost if its attempt is.
    async fn keep_to_time(
        &self,
        held: &Held,
        node: NodeId,
        detail: &JobDetail,
        now: Timestamp,
    ) -> Result<()> {
        self.time_out_all(node, &[], now).await?;
        if self.time_out(held, detail, now).await? { Err(lost(held)) } else { Ok(()) }
    }

    pub(super) async fn settle(
        &self,
        held: &Held,
        outcome: Decided,
        schedule: Option<ScheduleId>,
        standing: &Standing,
    ) -> Result<JobState> {
        let policy = match outcome {
            Decided::Fail(_) | Decided::TimedOut(_) => self.policy_of(schedule).await?,
            _ => RetryPolicy::default(),
        };
        // What remains of a budget and of the time to start is asked when the job is claimed again.
        let transition = decide(standing, outcome, &policy, standing.claimed_at);
        self.write(held, transition, None).await
    }

    /// When a job is tried again: as the schedule says by now that made it, or as is usual.
    async fn policy_of(&self, schedule: Option<ScheduleId>) -> Result<RetryPolicy> {
        let usual = RetryPolicy::default();
        let Some(schedule) = schedule else { return Ok(usual) };
        let schedule = self.shared.store.schedule(schedule).await?;
        // One that is gone or cannot be read by this program says nothing.
        let definition =
            schedule.and_then(|schedule| Definition::parse(schedule.spec.as_str()).ok());
        let told = definition.and_then(|definition| definition.job.backoff?.parse().ok());
        Ok(RetryPolicy { backoff: told.unwrap_or(usual.backoff), ..usual })
    }

    async fn write(
        &self,
        held: &Held,
        transition: Transition,
        result: Option<Json>,
    ) -> Result<JobState> {
        let Held { job, lease, .. } = *held;
        let item = Settlement { job, lease, transition, result, then: Vec::new() };
        let outcome = item.transition.outcome;
        let store = &self.shared.store;
        let settled = store.settle(self.shared.env.at(), std::slice::from_ref(&item)).await?;
        match settled.answers.first() {
            Some(Settled::Applied(state)) => {
                self.count(held, outcome, settled.at).await;
                Ok(*state)
            }
            Some(Settled::Already) => match store.job(job).await? {
                Some(detail) => Ok(detail.view.state),
                None => Err(lost(held)),
            },
            Some(Settled::Fenced) => Err(lost(held)),
            None => {
                Err(Error::new(ErrorKind::Corrupt, "the database returned no result for the job"))
            }
        }
    }

    /// Adds an attempt to the counters. They are for people; that one is missing is no reason to tell
    /// a worker that its job was not settled.
    async fn count(&self, held: &Held, outcome: AttemptOutcome, at: Timestamp) {
        // The node that waits for the end of a pushed job counts its success itself.
        if held.by.is_none() && outcome == AttemptOutcome::Succeeded {
            return;
        }
        let counted = async {
            let Some(detail) = self.shared.store.job(held.job).await? else { return Ok(()) };
            let mut attempts = detail.attempts.iter();
            let attempt = attempts.find(|attempt| attempt.attempt == held.attempt);
            let took = attempt.map_or(Duration::ZERO, |attempt| at.since(attempt.claimed_at));
            let row = RollupCount {
                minute: Timestamp::from_seconds(at.floor_seconds().div_euclid(60) * 60),
                metric: outcome.as_str().to_owned(),
                queue: detail.view.queue,
                kind: detail.view.kind,
                count: 1,
                sum: i64::try_from(took.as_micros()).unwrap_or(i64::MAX),
            };
            self.shared.store.roll_up(&[row]).await
        };
        if let Err(error) = counted.await {
            tracing::warn!(%error, job = %held.job, "attempt not counted in the statistics");
        }
    }

    /// Writes lines to a job's log: from the number that is given on, so that they may be sent again,
    /// or after those that are there. The answer is the number of the next line.
    pub async fn write_log(
        &self,
        held: &Held,
        first: Option<u32>,
        lines: Vec<(LogLevel, String)>,
    ) -> Result<u32> {
        if let Some(first) = first {
            check_numbers(first, lines.len())?;
        }
        match held.by {
            Some(_) => drop(self.touch(held, None).await?),
            None => drop(self.under_way(held).await?),
        }
        let first = match first {
            Some(first) => first,
            None => self.last_line(held).await?.saturating_add(1),
        };
        check_numbers(first, lines.len())?;
        let numbered =
            (first..=limits::LOG_NUMBER_MAX).zip(lines).map(|(number, (level, text))| LogLine {
                job: held.job,
                attempt: held.attempt,
                number,
                level,
                text,
            });
        let lines: Vec<LogLine> = numbered.collect();
        for part in lines.chunks(limits::LOG_LINES_MAX) {
            self.shared.store.write_log(self.shared.env.at(), part).await?;
        }
        Ok(lines.last().map_or(first, |line| line.number.saturating_add(1)))
    }

    /// The number of the last line of an attempt.
    async fn last_line(&self, held: &Held) -> Result<u32> {
        let (mut after, mut last) = (Some(LogCursor(held.attempt, 0)), 0);
        loop {
            let page = self.shared.store.log(held.job, after, limits::PAGE_MAX).await?;
            let own = page.items.iter().filter(|line| line.attempt == held.attempt);
            last = own.map(|line| line.number).max().unwrap_or(last);
            after = page.next;
            if after.is_none() {
                return Ok(last);
            }
        }
    }
}

/// Lines have numbers from 1 to as many as an attempt may have.
fn check_numbers(first: u32, lines: usize) -> Result<()> {
    let most = limits::LOG_NUMBER_MAX;
    if first == 0 {
        return Err(Error::invalid("`first` must be at least 1, got 0"));
    }
    let lines = u32::try_from(lines).unwrap_or(u32::MAX);
    // The number after the last line is one that may be answered, and sent with no lines.
    if first.saturating_add(lines) > most.saturating_add(1) {
        return Err(Error::invalid(format!(
            "too many log lines: {lines} from number {first}, maximum {most} per attempt; write fewer \
             or longer lines"
        )));
    }
    Ok(())
}

/// Where a job stands, for deciding what follows the attempt of this lease.
pub(super) fn standing_of(detail: &JobDetail, held: &Held) -> Standing {
    let attempt = detail.attempts.iter().find(|attempt| attempt.attempt == held.attempt);
    Standing {
        job: held.job,
        attempt: held.attempt,
        spent: detail.spent,
        crashes: detail.crashes,
        max_attempts: detail.view.max_attempts,
        used: Duration::ZERO,
        claimed_at: attempt.map_or(detail.view.created_at, |attempt| attempt.claimed_at),
        budget: None,
        expires_at: None,
    }
}
