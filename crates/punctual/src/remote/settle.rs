//! What a remote worker says of a job it works on, and how it ends.

use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::job::{
    AttemptOutcome, JobState, LogLevel, Outcome as Decided, RetryPolicy, Standing, Transition,
    decide,
};
use punctual_store::{
    Beaten, JobDetail, Json, LogCursor, LogLine, Progress, RollupCount, Settled, Settlement, limits,
};

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
        let Some(Holder { node, deadline }) = held.by else {
            return self.pulse_of_pushed(held, report.is_some()).await;
        };
        let beaten = self.touch(held, report).await?;
        Ok(Pulse {
            at: beaten.at,
            expires_at: Some(beaten.at + self.timing.dead),
            deadline: Some(deadline),
            cancel: beaten.cancels.contains(&held.job),
            drain: self.drains(node).await?,
        })
    }

    /// Of a job that a node with a handler holds: that node beats for itself.
    async fn pulse_of_pushed(&self, held: &Held, has_report: bool) -> Result<Pulse> {
        if has_report {
            return Err(Error::invalid(
                "this job is held by a node that waits for its end, which is not told of its progress; leave `progress` out, or write a line of the log",
            ));
        }
        let detail = self.under_way(held).await?;
        let at = self.shared.store.now(self.shared.env.at()).await?;
        let cancel = detail.cancel_asked;
        Ok(Pulse { at, expires_at: None, deadline: None, cancel, drain: false })
    }

    /// A heartbeat of the worker that holds a lease, which must be in force.
    async fn touch(&self, held: &Held, report: Option<Report>) -> Result<Beaten> {
        let Some(Holder { node, .. }) = held.by else { return Err(lost(held)) };
        let (job, lease) = (held.job, held.lease);
        let progress = report
            .map(|Report { percent, note }| Progress { job, lease, percent, note })
            .into_iter()
            .collect();
        let beaten = self.beat(node, progress).await?;
        if !beaten.alive || !beaten.strays.contains(&lease) {
            return Err(lost(held));
        }
        if self.time_out(held, beaten.at).await? {
            return Err(lost(held));
        }
        Ok(beaten)
    }

    /// Ends an attempt that takes longer than it may; true if it does.
    pub(super) async fn time_out(&self, held: &Held, now: Timestamp) -> Result<bool> {
        let Some(Holder { deadline, .. }) = held.by.filter(|by| now > by.deadline) else {
            return Ok(false);
        };
        let detail = self.shared.store.job(held.job).await?;
        let Some(standing) = detail.as_ref().and_then(|detail| standing(detail, held)) else {
            return Ok(true);
        };
        let limit = deadline.since(standing.claimed_at);
        self.settle(held, Decided::TimedOut(limit), None, &standing).await?;
        Ok(true)
    }

    /// The job of a lease, if this attempt of it is the one under way.
    async fn under_way(&self, held: &Held) -> Result<JobDetail> {
        let detail = self.shared.store.job(held.job).await?;
        detail.filter(|detail| standing(detail, held).is_some()).ok_or_else(|| lost(held))
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
            true => "the worker did not say what went wrong".to_owned(),
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
        let detail = self.shared.store.job(held.job).await?.ok_or_else(|| lost(held))?;
        // An attempt that is over may be this one, ended by a call whose answer was lost.
        let standing = standing(&detail, held).unwrap_or_else(|| standing_of(&detail, held));
        self.settle(held, outcome, None, &standing).await
    }

    /// Every call of a worker is its heartbeat. Whether the lease is in force is for what follows to
    /// find out.
    async fn listen(&self, held: &Held) -> Result<()> {
        match held.by {
            Some(Holder { node, .. }) => self.beat(node, Vec::new()).await.map(drop),
            None => Ok(()),
        }
    }

    async fn settle(
        &self,
        held: &Held,
        outcome: Decided,
        result: Option<Json>,
        standing: &Standing,
    ) -> Result<JobState> {
        // What remains of a budget and of the time to start is asked when the job is claimed again.
        let transition = decide(standing, outcome, &RetryPolicy::default(), standing.claimed_at);
        self.write(held, transition, result).await
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
            None => Err(Error::new(ErrorKind::Corrupt, "the store has no answer for the job")),
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
            tracing::warn!(%error, job = %held.job, "an attempt is missing in the counters");
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
        match held.by {
            Some(_) => drop(self.touch(held, None).await?),
            None => drop(self.under_way(held).await?),
        }
        let first = match first {
            Some(first) => first,
            None => self.last_line(held).await? + 1,
        };
        let numbered = (first..).zip(lines).map(|(number, (level, text))| LogLine {
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

/// Where a job stands, if the attempt of this lease is under way.
fn standing(detail: &JobDetail, held: &Held) -> Option<Standing> {
    let is_own = |attempt: &&punctual_store::AttemptView| {
        attempt.attempt == held.attempt && attempt.outcome.is_none()
    };
    detail.attempts.iter().find(is_own)?;
    Some(standing_of(detail, held))
}

fn standing_of(detail: &JobDetail, held: &Held) -> Standing {
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
