//! Start deadlines.

use punctual_core::job::{EXPIRED, is_expired};
use punctual_core::{JobId, Timestamp};

use super::state::{Place, State};
use crate::bugs::{Bug, is_planted};
use crate::*;

impl State {
    /// Notes when the start deadline of a new job is checked.
    pub(super) fn note_deadline(&mut self, now: Timestamp, job: JobId) {
        let expires_at = self.bodies.get(&job).and_then(|body| body.expires_at);
        self.deadlines.extend(expires_at.map(|at| (rules::first_check(at, now), job)));
    }

    /// When a start deadline is checked next.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(check_at, _)| *check_at)
    }

    pub(super) fn expire(&mut self, now: Timestamp, request: &ExpireRequest) -> ExpireResponse {
        let mut response = ExpireResponse::nothing(now);
        if self.renew(now, &request.fence, request.lease).is_none() {
            return response;
        }
        response.led = true;
        if is_planted(Bug::ExpireAtClaimOnly) {
            return response;
        }
        let passed = self.deadlines.iter().take_while(|(check_at, _)| *check_at < now);
        let passed: Vec<(Timestamp, JobId)> = passed.take(request.limit).copied().collect();
        response.is_more = !passed.is_empty() && passed.len() == request.limit;
        for row in passed {
            self.deadlines.remove(&row);
            response.jobs.extend(self.check_deadline(now, row.1, request));
        }
        response
    }

    /// Ends a job that waits past its start deadline, or notes when it is checked again.
    fn check_deadline(
        &mut self,
        now: Timestamp,
        job: JobId,
        request: &ExpireRequest,
    ) -> Option<ExpiredJob> {
        let body = self.bodies.get(&job)?;
        // A job that was retried by an operator has no deadline.
        let expires_at = body.expires_at?;
        let (queue, kind) = (body.job.queue.clone(), body.job.kind.clone());
        let life = match self.places.get(&job)? {
            Place::Done(_) => return None,
            Place::Ready(life) | Place::Timer(life) | Place::Blocked(life)
                if is_expired(Some(expires_at), now) =>
            {
                *life
            }
            Place::Ready(_) | Place::Timer(_) | Place::Blocked(_) | Place::Lease(_) => {
                let check_at = rules::next_check(expires_at, now, request.recheck_after);
                self.deadlines.insert((check_at, job));
                return None;
            }
        };
        let error = if life.is_readable { EXPIRED } else { rules::UNREADABLE };
        self.fail_waiting(now, job, life, error);
        Some(ExpiredJob { job, queue, kind, due_at: life.due_at, error })
    }
}
