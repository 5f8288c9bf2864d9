//! Reports of a remote worker about a running attempt: heartbeats, progress and log lines.

use punctual_core::Timestamp;
use punctual_core::job::LogLevel;
use punctual_store::{Beaten, JobDetail, LogCursor, LogLine, Progress, limits};

use super::deadline::deadline_of;
use super::held::Holder;
use super::{Held, Remote, lost};
use crate::error::{Error, Result};

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
        let deadline = deadline_of(&detail);
        match deadline.filter(|deadline| beaten.at > *deadline) {
            Some(_) => Err(lost(held)),
            None => Ok((beaten, deadline)),
        }
    }

    /// The job of a lease, which must be in force.
    async fn under_way(&self, held: &Held) -> Result<JobDetail> {
        let detail = self.shared.store.job(held.job).await?.ok_or_else(|| lost(held))?;
        if self.is_in_force(held, &detail).await? { Ok(detail) } else { Err(lost(held)) }
    }

    /// Whether the lease is in force. If it is, but for another attempt or node than its name says, the
    /// name is invented, and the call is refused.
    pub(super) async fn is_in_force(&self, held: &Held, detail: &JobDetail) -> Result<bool> {
        if detail.hold.is_none_or(|hold| hold.lease != held.lease) {
            return Ok(false);
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
        if is_so { Ok(true) } else { Err(lost(held)) }
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
