//! Jobs: enqueue, claim, settle, cancel, requeue, place.

use punctual_core::job::{AttemptOutcome, EXPIRED, JobState, Next};
use punctual_core::{JobId, LeaseId, NodeId, Timestamp};

use super::state::{Attempt, Body, Done, Key, Lease, Life, Place, State};
use crate::bugs::{Bug, is_planted};
use crate::*;

/// Keys are derived as in a database. They never leave the process, so the cluster key need not be secret.
fn cluster_key() -> ClusterKey {
    ClusterKey::from_bytes([0; CLUSTER_KEY_BYTES])
}

impl State {
    pub(super) fn enqueue(&mut self, now: Timestamp, jobs: &[NewJob]) -> Enqueued {
        let answers = jobs.iter().map(|job| self.enqueue_one(now, job)).collect();
        Enqueued { at: now, answers }
    }

    fn enqueue_one(&mut self, now: Timestamp, job: &NewJob) -> EnqueueAnswer {
        if let Err(message) = job.check_enqueued() {
            return EnqueueAnswer::Rejected(Rejection::Invalid(message));
        }
        let job = &*cluster_key().with_key(job);
        if self.bodies.contains_key(&job.id) {
            return EnqueueAnswer::Created;
        }
        if is_planted(Bug::EarlyAck) && job.id.as_bytes()[15].is_multiple_of(16) {
            return EnqueueAnswer::Created;
        }
        match self.take_key(now, job) {
            Ok(()) => self.insert_job(now, job.clone(), false),
            Err(holder) if holder.meaning == job.meaning_digest() => {
                return EnqueueAnswer::Duplicate(holder.job);
            }
            Err(holder) => return EnqueueAnswer::Rejected(Rejection::KeyTaken(holder.job)),
        }
        EnqueueAnswer::Created
    }

    /// Takes a job's unique key, if it has one; the error is who holds it.
    fn take_key(&mut self, now: Timestamp, job: &NewJob) -> std::result::Result<(), Key> {
        let Some(key) = job.stored_key() else { return Ok(()) };
        let key = (job.tenant.clone(), key);
        if let Some(rival) = self.rival(now, &key, job.id) {
            return Err(rival.clone());
        }
        let expires_at = job.key_expires_at(now);
        self.keys.insert(key, Key { job: job.id, meaning: job.meaning_digest(), expires_at });
        Ok(())
    }

    /// Another job that holds a key.
    fn rival(&self, now: Timestamp, key: &(String, String), job: JobId) -> Option<&Key> {
        self.keys.get(key).filter(|holder| holder.is_in_force(now) && holder.job != job)
    }

    pub(super) fn key_holder(&self, now: Timestamp, job: &NewJob) -> Option<JobId> {
        let key = (job.tenant.clone(), cluster_key().with_key(job).stored_key()?);
        self.keys.get(&key).filter(|holder| holder.is_in_force(now)).map(|holder| holder.job)
    }

    /// Lets a key that holds for a job's queue go with the job; the error is who holds it there.
    fn move_key(
        &mut self,
        now: Timestamp,
        job: JobId,
        queue: &str,
    ) -> std::result::Result<(), JobId> {
        let Some(body) = self.bodies.get(&job).map(|body| &body.job) else { return Ok(()) };
        let moved = NewJob { queue: queue.to_owned(), ..body.clone() };
        let (Some(old), Some(new)) = (body.stored_key(), moved.stored_key()) else { return Ok(()) };
        let (old, new) = ((body.tenant.clone(), old), (moved.tenant, new));
        let is_held = self.keys.get(&old).is_some_and(|key| key.is_in_force(now) && key.job == job);
        if old == new || !is_held {
            return Ok(());
        }
        if let Some(rival) = self.rival(now, &new, job) {
            return Err(rival.job);
        }
        if let Some(key) = self.keys.remove(&old) {
            self.keys.insert(new, key);
        }
        Ok(())
    }

    /// Writes a job, unless there is one with its id. A blocked one waits for the earlier jobs of
    /// its schedule.
    pub(super) fn insert_job(&mut self, now: Timestamp, job: NewJob, is_blocked: bool) {
        if self.bodies.contains_key(&job.id) {
            return;
        }
        let due_at = job.delay.due_at(now);
        let life = Life::new(due_at);
        let place = if is_blocked { Place::Blocked(life) } else { Place::waiting(life, now) };
        self.places.insert(job.id, place);
        if let Some(origin) = &job.origin {
            self.live.insert((origin.schedule, job.id));
        }
        let expires_at = job.expires_at(now);
        let id = job.id;
        let body = Body { job, expires_at, fresh_after: 0, created_at: now };
        self.bodies.insert(id, body);
        self.note_deadline(now, id);
    }

    pub(super) fn claim(&mut self, now: Timestamp, ask: &ClaimAsk) -> Result<Claimed> {
        if self.nodes.get(&ask.node).is_none_or(|node| node.dead_at.is_some()) {
            return Err(rules::not_alive(ask.node));
        }
        let (mut jobs, mut unreadable) = (Vec::new(), Vec::new());
        let mut picked = 0;
        let contended = self.contended(&ask.queues);
        for share in ask.queues.iter().filter(|share| !contended.contains(&share.name)) {
            let room = share.most.min(ask.most - picked).min(self.room(now, &share.name));
            for job in self.ready_jobs(&share.name, &ask.kinds).into_iter().take(room) {
                picked += 1;
                let lease = ask.lease_at(jobs.len());
                jobs.extend(self.claim_one(now, job, ask.node, lease));
                if !self.is_running(job) {
                    unreadable.extend(self.unreadable(job));
                }
            }
        }
        unreadable.sort();
        Ok(Claimed { at: now, jobs, unreadable, contended })
    }

    /// The queues with a limit, if another claim has locked them; see [`super::Memory::contend`].
    fn contended(&mut self, shares: &[QueueShare]) -> Vec<String> {
        let Some(left) = self.contended_claims.checked_sub(1) else { return Vec::new() };
        self.contended_claims = left;
        let is_limited = |name: &&String| {
            self.queues.get(*name).is_some_and(|queue| queue.limits.max_running.is_some())
        };
        shares.iter().map(|share| &share.name).filter(is_limited).cloned().collect()
    }

    /// How many more jobs of a queue may run.
    fn room(&self, now: Timestamp, queue: &str) -> usize {
        let Some(settings) = self.queues.get(queue) else { return usize::MAX };
        if settings.pause.as_ref().is_some_and(|pause| pause.is_in_force(now)) {
            return 0;
        }
        let Some(max_running) = settings.limits.max_running else { return usize::MAX };
        let is_running = |(job, place): &(&JobId, &Place)| {
            matches!(place, Place::Lease(_))
                && self.bodies.get(job).is_some_and(|body| body.job.queue == queue)
        };
        (max_running as usize).saturating_sub(self.places.iter().filter(is_running).count())
    }

    /// Does the queue of this job have a limit for all nodes?
    pub(super) fn is_limited(&self, job: JobId) -> bool {
        let queue = self.bodies.get(&job).and_then(|body| self.queues.get(&body.job.queue));
        queue.is_some_and(|queue| queue.limits.max_running.is_some())
    }

    /// The ready jobs of a queue that a node can work on, first in line first.
    fn ready_jobs(&self, queue: &str, kinds: &[String]) -> Vec<JobId> {
        let mut ready: Vec<(Timestamp, JobId)> = self
            .places
            .iter()
            .filter_map(|(job, place)| match place {
                Place::Ready(life) => {
                    let body = &self.bodies.get(job)?.job;
                    (body.queue == queue && kinds.contains(&body.kind))
                        .then(|| self.rank(*job, life))
                }
                _ => None,
            })
            .collect();
        ready.sort_unstable();
        ready.into_iter().map(|(_, job)| job).collect()
    }

    /// Leases one job. One that cannot be read fails, so that it blocks nobody behind it.
    fn claim_one(
        &mut self,
        now: Timestamp,
        id: JobId,
        node: NodeId,
        lease: LeaseId,
    ) -> Option<ClaimedJob> {
        let Place::Ready(life) = *self.places.get(&id)? else { return None };
        if !life.is_readable {
            self.set_aside(now, id, life);
            return None;
        }
        let life = Life { attempt: life.attempt + 1, ..life };
        if !self.is_body_readable(id) {
            self.set_aside(now, id, life);
            return None;
        }
        let lease_id = match is_planted(Bug::CountedLease) {
            true => LeaseId::from_bytes(u128::from(life.attempt).to_be_bytes()),
            false => lease,
        };
        let lease =
            Lease { lease: lease_id, node, life, claimed_at: now, cancel: None, progress: None };
        self.places.insert(id, Place::Lease(lease));
        let body = self.bodies.get(&id)?;
        let job = &body.job;
        Some(ClaimedJob {
            id,
            lease: lease_id,
            tenant: job.tenant.clone(),
            owner: job.owner.clone(),
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            payload: job.payload.clone(),
            priority: job.priority,
            attempt: life.attempt,
            spent: life.spent,
            crashes: life.crashes,
            resource_releases: life.resource_releases,
            max_attempts: job.max_attempts,
            timeout: job.timeout,
            budget: job.budget,
            used: if job.budget.is_some() { self.used(id) } else { std::time::Duration::ZERO },
            expires_at: body.expires_at,
            due_at: life.due_at,
            claimed_at: now,
            origin: job.origin.clone(),
            tags: job.tags.clone(),
            trace: job.trace.clone(),
        })
    }

    fn is_running(&self, job: JobId) -> bool {
        matches!(self.places.get(&job), Some(Place::Lease(_)))
    }

    /// What a response says of a job that failed because it cannot be read.
    pub(super) fn unreadable(&self, job: JobId) -> Option<UnreadableJob> {
        let NewJob { queue, kind, .. } = &self.bodies.get(&job)?.job;
        Some(UnreadableJob { job, queue: queue.clone(), kind: kind.clone() })
    }

    /// Ends a job that cannot be read.
    pub(super) fn set_aside(&mut self, now: Timestamp, job: JobId, life: Life) {
        self.fail_waiting(now, job, life, rules::UNREADABLE);
    }

    /// Ends a waiting job as failed.
    pub(super) fn fail_waiting(&mut self, now: Timestamp, job: JobId, life: Life, error: &str) {
        let done = Done::without_attempt(JobState::Failed, self.known(job, life), now);
        self.end(job, Done { error: Some(error.to_owned()), ..done });
        if is_planted(Bug::ExpireKeepsUnfinished) && error == EXPIRED {
            let schedule = self.bodies.get(&job).and_then(|body| body.schedule());
            self.live.extend(schedule.map(|(schedule, _)| (schedule, job)));
        }
    }

    pub(super) fn settle(&mut self, now: Timestamp, item: &Settlement) -> Settled {
        match self.places.get(&item.job) {
            Some(Place::Lease(lease)) if lease.lease == item.lease || is_unfenced(item) => {
                let lease = lease.clone();
                let state = self.apply(now, item, lease);
                self.enqueue(now, &item.then);
                Settled::Applied(state)
            }
            _ if self.is_recorded(item) => Settled::Already,
            _ => Settled::Fenced,
        }
    }

    fn apply(&mut self, now: Timestamp, item: &Settlement, mut lease: Lease) -> JobState {
        let job = item.job;
        let mut transition = rules::with_cancel(&item.transition, lease.cancel.as_deref());
        if !lease.life.is_readable {
            lease.life = self.known(job, lease.life);
            lease.life.attempt += 1;
            transition = rules::without_further_attempt(transition);
        }
        let outcome = transition.outcome;
        if outcome != AttemptOutcome::Succeeded {
            self.record_attempt(now, job, &lease, outcome, transition.error.clone());
        }
        let life = Life {
            spent: lease.life.spent + u32::from(item.transition.outcome.counts()),
            crashes: lease.life.crashes + u32::from(outcome == AttemptOutcome::Abandoned),
            resource_releases: lease.life.resource_releases
                + u32::from(transition.is_resource_release()),
            ..lease.life
        };
        let place = match transition.next {
            Next::Ready => Place::Ready(life),
            Next::After(wait) => Place::Timer(Life { due_at: now + wait, ..life }),
            Next::Succeeded | Next::Failed | Next::Cancelled => {
                let state = rules::final_state(transition.next);
                self.end(
                    job,
                    Done {
                        lease: Some(lease.lease),
                        node: Some(lease.node),
                        claimed_at: Some(lease.claimed_at),
                        error: transition.error,
                        result: item.result.clone(),
                        ..Done::without_attempt(state, life, now)
                    },
                );
                return state;
            }
        };
        let state = place.state();
        self.places.insert(job, place);
        state
    }

    fn record_attempt(
        &mut self,
        now: Timestamp,
        job: JobId,
        lease: &Lease,
        outcome: AttemptOutcome,
        error: Option<String>,
    ) {
        // A job that snoozes for years keeps only its newest snooze.
        if outcome == AttemptOutcome::Snoozed {
            self.attempts.retain(|(of, _), attempt| {
                *of != job || attempt.outcome != AttemptOutcome::Snoozed
            });
        }
        let attempt = Attempt {
            lease: lease.lease,
            node: lease.node,
            outcome,
            claimed_at: lease.claimed_at,
            ended_at: now,
            error,
        };
        self.attempts.insert((job, lease.life.attempt), attempt);
    }

    /// Ends a job: its place, its key and its seat among its schedule's live jobs.
    fn end(&mut self, job: JobId, done: Done) {
        self.places.insert(job, Place::Done(done));
        self.keys.retain(|_, key| key.job != job || key.expires_at.is_some());
        self.live.retain(|(_, live)| *live != job);
    }

    /// Does a job of this one's schedule wait for others?
    pub(super) fn is_waited_for(&self, job: JobId) -> bool {
        let schedule = |job| Some(self.bodies.get(&job)?.schedule()?.0);
        let own = schedule(job);
        let is_of_same = |job: &JobId| own.is_some() && schedule(*job) == own;
        self.places.iter().any(|(job, place)| matches!(place, Place::Blocked(_)) && is_of_same(job))
    }

    /// Is this lease's own outcome written down already?
    fn is_recorded(&self, item: &Settlement) -> bool {
        let outcome = item.transition.outcome;
        let by_success = matches!(self.places.get(&item.job), Some(Place::Done(done))
            if outcome == AttemptOutcome::Succeeded && done.state == JobState::Succeeded && done.lease == Some(item.lease));
        let mut attempts = self.attempts.range((item.job, 0)..=(item.job, u32::MAX));
        by_success
            || attempts.any(|(_, attempt)| {
                attempt.lease == item.lease
                    && (attempt.outcome == outcome || attempt.outcome == AttemptOutcome::Cancelled)
            })
    }

    pub(super) fn cancel(&mut self, now: Timestamp, job: JobId, actor: &Actor) -> CancelAnswer {
        let reason = rules::cancel_reason(actor);
        let answer = match self.places.get_mut(&job) {
            None => return CancelAnswer::NotFound,
            Some(Place::Done(done)) => return CancelAnswer::Ended(done.state),
            Some(Place::Lease(lease)) => {
                if lease.cancel.is_some() {
                    return CancelAnswer::Asked;
                }
                lease.cancel = Some(reason);
                CancelAnswer::Asked
            }
            Some(Place::Ready(life) | Place::Timer(life) | Place::Blocked(life)) => {
                let life = *life;
                let done = Done::without_attempt(JobState::Cancelled, self.known(job, life), now);
                self.end(job, Done { error: Some(reason), ..done });
                CancelAnswer::Cancelled
            }
        };
        self.note(now, actor, &AuditAction::CancelJob, &job.to_string());
        answer
    }

    pub(super) fn requeue(&mut self, now: Timestamp, job: JobId, actor: &Actor) -> RequeueAnswer {
        let attempt = match self.places.get(&job) {
            None => return RequeueAnswer::NotFound,
            Some(Place::Done(done))
                if matches!(done.state, JobState::Failed | JobState::Cancelled) =>
            {
                done.attempt
            }
            Some(place) => return RequeueAnswer::NotFailed(place.state()),
        };
        let Some(body) = self.bodies.get(&job).cloned() else { return RequeueAnswer::NotFound };
        if let Err(holder) = self.take_key(now, &body.job) {
            return RequeueAnswer::KeyTaken(holder.job);
        }
        if let Some((schedule, _)) = body.schedule() {
            self.live.insert((schedule, job));
        }
        // Somebody wants it now: what it was given at first has run out or does not matter.
        if let Some(body) = self.bodies.get_mut(&job) {
            body.expires_at = None;
            body.fresh_after = attempt;
        }
        self.forget_steps(job);
        self.places.insert(job, Place::Ready(Life { attempt, ..Life::new(now) }));
        self.note(now, actor, &AuditAction::RequeueJob, &job.to_string());
        RequeueAnswer::Requeued
    }

    pub(super) fn place(
        &mut self,
        now: Timestamp,
        job: JobId,
        to: &Placement,
        actor: &Actor,
    ) -> MoveAnswer {
        let (life, is_blocked) = match self.places.get(&job) {
            None => return MoveAnswer::NotFound,
            Some(Place::Ready(life) | Place::Timer(life)) => (*life, false),
            Some(Place::Blocked(life)) => (*life, true),
            Some(place) => return MoveAnswer::NotWaiting(place.state()),
        };
        if !life.is_readable {
            self.set_aside(now, job, life);
            return MoveAnswer::NotWaiting(JobState::Failed);
        }
        if let Some(queue) = &to.queue
            && let Err(rival) = self.move_key(now, job, queue)
        {
            return MoveAnswer::KeyTaken(rival);
        }
        let life = Life { due_at: to.due_at.unwrap_or(life.due_at), ..life };
        let place = if is_blocked { Place::Blocked(life) } else { Place::waiting(life, now) };
        let state = place.state();
        self.places.insert(job, place);
        if let Some(body) = self.bodies.get_mut(&job) {
            body.job.queue = to.queue.clone().unwrap_or_else(|| body.job.queue.clone());
            body.job.priority = to.priority.unwrap_or(body.job.priority);
        }
        self.note(now, actor, &AuditAction::PlaceJob, &job.to_string());
        MoveAnswer::Moved(state)
    }
}

/// Does a planted bug let this pass without the lease?
fn is_unfenced(item: &Settlement) -> bool {
    is_planted(Bug::NoFenceOnSettle)
        || is_planted(Bug::ReleaseById) && item.transition.outcome == AttemptOutcome::Released
}

impl Done {
    /// The end of a job that no attempt was under way of.
    fn without_attempt(state: JobState, life: Life, now: Timestamp) -> Done {
        Done {
            state,
            lease: None,
            node: None,
            claimed_at: None,
            finished_at: now,
            attempt: life.attempt,
            spent: life.spent,
            crashes: life.crashes,
            error: None,
            result: None,
        }
    }
}
