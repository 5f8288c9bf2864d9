//! Promote, reap, prune, counters and the audit.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::job::{JobState, Next, Outcome, RetryPolicy, Standing, decide};
use punctual_core::{JobId, ScheduleId, Timestamp};

use super::state::{Lease, Place, State};
use crate::bugs::{Bug, is_planted};
use crate::*;

impl State {
    pub(super) fn promote(&mut self, now: Timestamp, most: usize) -> Promoted {
        let mut timers: Vec<(Timestamp, JobId)> = self
            .places
            .iter()
            .filter_map(|(job, place)| match place {
                Place::Timer(life) => Some((life.due_at, *job)),
                _ => None,
            })
            .collect();
        timers.sort_unstable();
        let due = timers.iter().take_while(|(due_at, _)| *due_at <= now).take(most).count();
        let next_deadline = self.next_deadline();
        let mut promoted = Promoted {
            at: now,
            queues: Default::default(),
            next_due: None,
            next_deadline,
            unreadable: Vec::new(),
        };
        for (_, job) in &timers[..due] {
            if let (Some(Place::Timer(life)), Some(body)) =
                (self.places.get(job).cloned(), self.bodies.get(job))
            {
                if life.is_readable {
                    *promoted.queues.entry(body.job.queue.clone()).or_default() += 1;
                    self.places.insert(*job, Place::Ready(life));
                } else {
                    promoted.unreadable.extend(self.unreadable(*job));
                    self.set_aside(now, *job, life);
                }
            }
        }
        for job in self.freed(most) {
            let Some(Place::Blocked(life)) = self.places.get(&job).cloned() else { continue };
            if !life.is_readable {
                promoted.unreadable.extend(self.unreadable(job));
                self.set_aside(now, job, life);
                continue;
            }
            let place = Place::waiting(life, now);
            if let (Place::Ready(_), Some(body)) = (&place, self.bodies.get(&job)) {
                *promoted.queues.entry(body.job.queue.clone()).or_default() += 1;
            }
            self.places.insert(job, place);
        }
        let timers = self.places.values().filter_map(|place| match place {
            Place::Timer(life) => Some(life.due_at),
            _ => None,
        });
        promoted.next_due = timers.min();
        promoted.unreadable.sort();
        promoted
    }

    /// The first waiting job of each schedule that has no others, in the order of schedules. First
    /// is the earliest slot: ids sort by the clocks of those who minted them, and those made at
    /// once by chance.
    fn freed(&self, most: usize) -> Vec<JobId> {
        let waiting = |job: &JobId| match self.places.get(job)? {
            Place::Blocked(_) => Some((self.bodies.get(job)?.schedule()?.1, *job)),
            _ => None,
        };
        let mut first: BTreeMap<ScheduleId, Option<(Option<Timestamp>, JobId)>> = BTreeMap::new();
        for (schedule, job) in &self.live {
            let own = waiting(job);
            let first = first.entry(*schedule).or_insert(own);
            *first = first.zip(own).map(|(first, own)| first.min(own));
        }
        first.into_values().flatten().map(|(_, job)| job).take(most).collect()
    }

    pub(super) fn reap(&mut self, now: Timestamp, ask: &ReapAsk) -> Reaped {
        let mut reaped = Reaped::nothing(now);
        let Some(leader) = self.renew(now, &ask.fence, ask.lease) else {
            return reaped;
        };
        let watched = leader.watched;
        reaped.led = true;
        for node in self.nodes.values_mut().filter(|node| node.dead_at.is_none()) {
            // A clock that was set back must not keep a dead node alive.
            if node.seen_at > now + ask.node_lifetime {
                node.seen_at = now;
            }
            let is_silent = node.seen_at < now - ask.node_lifetime;
            if is_silent && watched.saturating_sub(node.seen_watch) >= ask.node_lifetime {
                node.dead_at = Some(now);
                reaped.dead.push(node.info.id);
            }
        }
        let is_orphan = |place: &Place| match place {
            Place::Lease(lease) if is_planted(Bug::ReapByAge) => {
                lease.claimed_at < now - ask.node_lifetime
            }
            Place::Lease(lease) => {
                self.nodes.get(&lease.node).is_none_or(|node| node.dead_at.is_some())
            }
            _ => false,
        };
        let orphans: Vec<JobId> = self
            .places
            .iter()
            .filter(|(_, place)| is_orphan(place))
            .map(|(job, _)| *job)
            .take(ask.most)
            .collect();
        for job in orphans {
            reaped.jobs.extend(self.take_back(now, job, ask));
        }
        let room = ask.most - reaped.jobs.len();
        for (job, limit) in self.overdue(now).into_iter().take(room) {
            reaped.overdue.extend(self.time_out(now, job, limit, &ask.policy));
        }
        reaped
    }

    /// The jobs of live remote workers whose attempt exceeds its time, and how long it was.
    fn overdue(&self, now: Timestamp) -> Vec<(JobId, Duration)> {
        let is_remote = |node: &Node| {
            let (name, value) = rules::REMOTE_LABEL;
            node.dead_at.is_none()
                && node.info.labels.iter().any(|it| it.0 == name && it.1 == value)
        };
        let limit = |(job, place): (&JobId, &Place)| {
            let Place::Lease(lease) = place else { return None };
            let is_known = lease.lease != Lease::UNREADABLE && lease.life.is_readable;
            let (node, body) = (self.nodes.get(&lease.node)?, self.bodies.get(job)?);
            let NewJob { timeout, budget, .. } = body.job;
            // A body that cannot be read says nothing.
            let (timeout, budget) =
                if self.is_body_readable(*job) { (timeout, budget) } else { (None, None) };
            let limit = rules::remote_limit(timeout, budget, self.used(*job));
            let since = match is_planted(Bug::OverdueSinceDue) {
                true => lease.life.due_at,
                false => lease.claimed_at,
            };
            let is_over = now > since + limit;
            (is_known && is_remote(node) && is_over).then_some((*job, limit))
        };
        self.places.iter().filter_map(limit).collect()
    }

    fn time_out(
        &mut self,
        now: Timestamp,
        job: JobId,
        limit: Duration,
        policy: &RetryPolicy,
    ) -> Option<OverdueJob> {
        let Place::Lease(lease) = self.places.get(&job)?.clone() else { return None };
        let standing = self.standing(job, &lease)?;
        let new = self.bodies.get(&job)?.job.clone();
        let facts = new.origin.as_ref().map(|origin| origin.facts.as_str());
        let transition = rules::time_out(&standing, limit, policy, facts, now);
        let applied = rules::with_cancel(&transition, lease.cancel.as_deref());
        let (lease_id, then) = (lease.lease, Vec::new());
        self.settle(now, &Settlement { job, lease: lease_id, transition, result: None, then });
        Some(OverdueJob {
            job,
            attempt: lease.life.attempt,
            queue: new.queue,
            kind: new.kind,
            claimed_at: lease.claimed_at,
            limit,
            next: applied.next,
            error: applied.error,
        })
    }

    /// The state of the job of a lease, for the decision about its end.
    fn standing(&self, job: JobId, lease: &Lease) -> Option<Standing> {
        let body = self.bodies.get(&job)?;
        Some(Standing {
            job,
            attempt: lease.life.attempt,
            spent: lease.life.spent,
            crashes: lease.life.crashes,
            resource_releases: 0,
            max_attempts: body.job.max_attempts,
            used: if body.job.budget.is_some() { self.used(job) } else { Duration::ZERO },
            claimed_at: lease.claimed_at,
            budget: body.job.budget,
            expires_at: body.expires_at,
        })
    }

    fn take_back(&mut self, now: Timestamp, job: JobId, ask: &ReapAsk) -> Option<ReapedJob> {
        let Place::Lease(lease) = self.places.get(&job)?.clone() else { return None };
        if !lease.life.is_readable {
            self.set_aside(now, job, lease.life);
            return Some(ReapedJob { job, next: Next::Failed, attempt: None });
        }
        let standing = self.standing(job, &lease)?;
        let body = self.bodies.get(&job)?;
        let transition = match is_planted(Bug::CountAtEnd) {
            true => rules::RELEASED,
            false => decide(&standing, Outcome::Abandoned, &ask.policy, now),
        };
        let applied = rules::with_cancel(&transition, lease.cancel.as_deref());
        let attempt = ReapedAttempt {
            kind: body.job.kind.clone(),
            queue: body.job.queue.clone(),
            number: standing.attempt,
            held: now.since(standing.claimed_at),
            error: applied.error,
        };
        let (lease, then) = (lease.lease, Vec::new());
        self.settle(now, &Settlement { job, lease, transition, result: None, then });
        Some(ReapedJob { job, next: applied.next, attempt: Some(attempt) })
    }

    pub(super) fn prune(&mut self, now: Timestamp, retention: &Retention, most: usize) -> Pruned {
        let mut pruned = Pruned::default();
        let mut ended: Vec<(Timestamp, JobId)> = self
            .places
            .iter()
            .filter_map(|(job, place)| match place {
                Place::Done(done) => {
                    let kept = if done.state == JobState::Failed {
                        retention.failed
                    } else {
                        retention.finished
                    };
                    (done.finished_at < now - kept).then_some((done.finished_at, *job))
                }
                _ => None,
            })
            .collect();
        ended.sort_unstable();
        for (_, job) in ended.into_iter().take(most) {
            self.places.remove(&job);
            self.bodies.remove(&job);
            self.spoiled.remove(&rules::Spoil::Body(job));
            self.spoiled.remove(&rules::Spoil::Tags(job));
            self.attempts.retain(|(of, _), _| *of != job);
            self.forget_steps(job);
            self.log.retain(|(of, _), _| *of != job);
            pruned.jobs += 1;
        }

        let mut slots: Vec<_> = self
            .slots
            .iter()
            .filter(|(_, view)| view.decided_at < now - retention.ledger)
            .map(|(key, view)| (view.decided_at, *key))
            .collect();
        slots.sort_unstable();
        for (_, key) in slots.into_iter().take(most) {
            self.slots.remove(&key);
            pruned.slots += 1;
        }
        pruned.revisions = self.prune_revisions(now - retention.ledger, most);

        let mut expired: Vec<_> = self
            .keys
            .iter()
            .filter_map(|(name, key)| {
                Some((key.expires_at.filter(|expires_at| *expires_at <= now)?, name.clone()))
            })
            .collect();
        expired.sort_unstable();
        for (_, name) in expired.into_iter().take(most) {
            self.keys.remove(&name);
            pruned.keys += 1;
        }

        pruned.records = self.prune_records(now - retention.records, most);

        let silent: Vec<_> = self
            .nodes
            .values()
            .filter(|node| node.dead_at.is_some_and(|dead_at| dead_at < now - retention.nodes))
            .map(|node| node.info.id)
            .filter(|node| self.leases_of(*node).is_empty())
            .collect();
        for node in silent {
            self.nodes.remove(&node);
            pruned.nodes += 1;
        }
        pruned
    }

    /// Drops up to `most` definitions that were superseded before `old`: what was decided under
    /// them is older still.
    fn prune_revisions(&mut self, old: Timestamp, most: usize) -> u64 {
        let mut superseded: Vec<(Timestamp, ScheduleId, i64)> = Vec::new();
        for (schedule, revisions) in &self.revisions {
            superseded.extend(revisions.iter().filter_map(|revision| {
                let at = revision.superseded_at.filter(|at| *at < old)?;
                Some((at, *schedule, revision.revision))
            }));
        }
        superseded.sort_unstable();
        superseded.truncate(most);
        for (_, schedule, number) in &superseded {
            if let Some(revisions) = self.revisions.get_mut(schedule) {
                revisions.retain(|revision| revision.revision != *number);
            }
        }
        superseded.len() as u64
    }

    /// Drops up to `most` each of the counters, audit entries and changes of leadership that are
    /// older; of each role the newest change stays.
    fn prune_records(&mut self, old: Timestamp, most: usize) -> u64 {
        let counters: Vec<_> =
            self.rollups.keys().filter(|key| key.0 < old).take(most).cloned().collect();
        for key in &counters {
            self.rollups.remove(key);
        }
        let mut dropped = counters.len();
        let mut old_audits: Vec<(Timestamp, i64)> = self
            .audits
            .iter()
            .filter(|audit| audit.at < old)
            .map(|audit| (audit.at, audit.id))
            .collect();
        old_audits.sort_unstable();
        old_audits.truncate(most);
        self.audits.retain(|audit| !old_audits.contains(&(audit.at, audit.id)));
        dropped += old_audits.len();
        let is_newest = |index: usize, changes: &[LeaderChange]| {
            !changes[index + 1..].iter().any(|later| later.role == changes[index].role)
        };
        let changes: Vec<usize> = (0..self.leader_changes.len())
            .filter(|index| self.leader_changes[*index].at < old)
            .filter(|index| !is_newest(*index, &self.leader_changes))
            .take(most)
            .collect();
        for index in changes.iter().rev() {
            self.leader_changes.remove(*index);
        }
        (dropped + changes.len()) as u64
    }

    pub(super) fn roll_up(&mut self, counts: &[RollupCount]) {
        for count in counts {
            let key = (count.minute, count.metric.clone(), count.queue.clone(), count.kind.clone());
            let total = self.rollups.entry(key).or_default();
            total.0 = total.0.saturating_add(count.count);
            total.1 = total.1.saturating_add(count.sum);
        }
    }

    pub(super) fn list_rollups(
        &self,
        filter: &RollupFilter,
        after: Option<&RollupCursor>,
        most: usize,
    ) -> Page<RollupCount, RollupCursor> {
        let mut pager = Pager::new(most);
        for ((minute, metric, queue, kind), (count, sum)) in &self.rollups {
            let row = RollupCount {
                minute: *minute,
                metric: metric.clone(),
                queue: queue.clone(),
                kind: kind.clone(),
                count: *count,
                sum: *sum,
            };
            let cursor = row.cursor();
            let is_after = after.is_none_or(|after| cursor > *after);
            if !is_after || !(filter.from..filter.to).contains(minute) {
                continue;
            }
            let is_asked = filter.metric.as_ref().is_none_or(|asked| asked == metric);
            if !pager.take(cursor, Some(row).filter(|_| is_asked)) {
                break;
            }
        }
        pager.page()
    }

    pub(super) fn note(
        &mut self,
        now: Timestamp,
        actor: &Actor,
        action: &AuditAction,
        subject: &str,
    ) {
        self.last_audit += 1;
        let entry = AuditEntry {
            actor: actor.clone(),
            action: action.clone(),
            subject: subject.to_owned(),
        };
        self.audits.push(AuditView { id: self.last_audit, at: now, entry });
    }

    pub(super) fn list_audits(
        &self,
        after: Option<AuditCursor>,
        most: usize,
    ) -> Page<AuditView, AuditCursor> {
        let is_before = |view: &&AuditView| after.is_none_or(|AuditCursor(id)| view.id < id);
        Page::take(self.audits.iter().rev().filter(is_before).cloned(), most, |view| {
            AuditCursor(view.id)
        })
    }
}
