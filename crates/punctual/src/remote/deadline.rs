//! Until when an attempt may take, and the end of those that take longer.
//!
//! The store says so, and nobody else: what a worker sends is its own word. Nor does the worker have
//! to ask about a lease for it to end: any call of a node ends all of its attempts that are overdue.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::job::{AttemptOutcome, Outcome as Decided};
use punctual_core::{JobId, NodeId, Timestamp};
use punctual_store::{JobDetail, limits};

use super::held::Holder;
use super::settle::standing_of;
use super::{Held, Remote};
use crate::error::{ErrorKind, Result};

/// How long an attempt may take if its job does not say, as for any other node.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// How old the list of attempts may be that those of a node are looked up in.
const WATCHED_FOR: Duration = Duration::from_secs(1);

/// The attempts that were under way a moment ago. Until when one may take never changes, so that each
/// is read once.
#[derive(Default)]
pub(super) struct Watch {
    at: Option<Duration>,
    attempts: BTreeMap<(JobId, u32), Watched>,
}

#[derive(Clone, Copy)]
struct Watched {
    node: NodeId,
    /// None before it is read.
    deadline: Option<Timestamp>,
}

/// How long an attempt may take: its own time, within what is left of its job's.
pub(super) fn limit(
    timeout: Option<Duration>,
    budget: Option<Duration>,
    used: Duration,
) -> Duration {
    let left = budget.map_or(Duration::MAX, |budget| budget.saturating_sub(used));
    timeout.unwrap_or(TIMEOUT).min(left)
}

/// Until when the attempt that is under way may take.
pub(super) fn deadline_of(detail: &JobDetail) -> Option<Timestamp> {
    let hold = detail.hold?;
    let (last, earlier) = detail.attempts.split_last()?;
    // Snoozes use nothing of a budget, as when a job is claimed.
    let counted = earlier.iter().filter(|attempt| {
        attempt.attempt > hold.fresh_after && attempt.outcome != Some(AttemptOutcome::Snoozed)
    });
    let took = counted.filter_map(|attempt| Some(attempt.ended_at?.since(attempt.claimed_at)));
    Some(last.claimed_at + limit(hold.timeout, hold.budget, took.sum()))
}

impl Remote {
    /// Ends the attempt of a lease that is in force if it takes longer than it may; true if it does.
    pub(super) async fn time_out(
        &self,
        held: &Held,
        detail: &JobDetail,
        now: Timestamp,
    ) -> Result<bool> {
        let Some(deadline) = deadline_of(detail).filter(|deadline| now > *deadline) else {
            return Ok(false);
        };
        let standing = standing_of(detail, held);
        let limit = deadline.since(standing.claimed_at);
        let schedule = detail.view.schedule.map(|(schedule, _)| schedule);
        match self.settle(held, Decided::TimedOut(limit), schedule, &standing).await {
            // Somebody else was first, and it is over all the same.
            Err(error) if error.kind() != ErrorKind::Fenced => Err(error),
            _ => Ok(true),
        }
    }

    /// Ends all attempts of a node that take longer than they may, those that it named among them.
    pub(super) async fn time_out_all(
        &self,
        node: NodeId,
        named: &[Held],
        now: Timestamp,
    ) -> Result<()> {
        self.look_at_attempts(now).await?;
        let mut own: BTreeMap<(JobId, u32), Option<Timestamp>> = BTreeMap::new();
        {
            // Nothing here panics while it holds the lock; if a bug does, the state is still whole.
            let watch = self.watch.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            own.extend(named.iter().map(|held| ((held.job, held.attempt), None)));
            let of_node = watch.attempts.iter().filter(|(_, watched)| watched.node == node);
            own.extend(of_node.map(|(key, watched)| (*key, watched.deadline)));
        }
        for ((job, attempt), deadline) in own {
            if deadline.is_some_and(|deadline| now <= deadline) {
                continue;
            }
            let Some(detail) = self.shared.store.job(job).await? else { continue };
            let last = detail.attempts.last();
            let is_own =
                last.is_some_and(|last| last.attempt == attempt && last.node == Some(node));
            let Some(hold) = detail.hold.filter(|_| is_own) else { continue };
            let held = Held { lease: hold.lease, job, attempt, by: Some(Holder { node }) };
            if !self.time_out(&held, &detail, now).await? {
                let mut watch = self.watch.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                let watched = Watched { node, deadline: deadline_of(&detail) };
                watch.attempts.insert((job, attempt), watched);
            }
        }
        Ok(())
    }

    /// Reads which attempts are under way, if the list is too old.
    async fn look_at_attempts(&self, now: Timestamp) -> Result<()> {
        let elapsed = self.shared.env.elapsed();
        {
            let mut watch = self.watch.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if watch.at.is_some_and(|at| elapsed.saturating_sub(at) < WATCHED_FOR) {
                return Ok(());
            }
            // Others go by the old list meanwhile, instead of reading the same.
            watch.at = Some(elapsed);
        }
        let spans = self.shared.store.spans(now, Timestamp::MAX, limits::SPANS_MAX).await?;
        let mut watch = self.watch.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let under_way = spans.iter().filter(|span| span.ended_at.is_none());
        let attempts = under_way.filter_map(|span| {
            let key = (span.job, span.attempt);
            let deadline = watch.attempts.get(&key).and_then(|watched| watched.deadline);
            Some((key, Watched { node: span.node?, deadline }))
        });
        watch.attempts = attempts.collect();
        Ok(())
    }
}
