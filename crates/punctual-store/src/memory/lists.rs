//! What people look at.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use punctual_core::job::{AttemptOutcome, JobState};
use punctual_core::{JobId, Timestamp};

use super::state::{Body, Lease, Place, State};
use crate::*;

impl State {
    fn job_view(&self, id: JobId) -> Option<JobView> {
        let (body, place) = (self.bodies.get(&id)?, self.places.get(&id)?);
        let (attempt, due_at) = match place {
            Place::Ready(life) | Place::Timer(life) | Place::Blocked(life) => {
                (life.attempt, Some(life.due_at))
            }
            Place::Lease(lease) => (lease.life.attempt, Some(lease.life.due_at)),
            Place::Done(done) => (done.attempt, None),
        };
        let (finished_at, error) = match place {
            Place::Done(done) => (Some(done.finished_at), done.error.clone()),
            _ => (None, None),
        };
        Some(JobView {
            id,
            state: place.state(),
            tenant: body.job.tenant.clone(),
            queue: body.job.queue.clone(),
            kind: body.job.kind.clone(),
            priority: body.job.priority,
            attempt,
            max_attempts: body.job.max_attempts,
            created_at: body.created_at,
            due_at,
            finished_at,
            schedule: body.schedule(),
            error,
        })
    }

    pub(super) fn job_detail(&self, id: JobId) -> Option<JobDetail> {
        let (view, body, place) =
            (self.job_view(id)?, self.bodies.get(&id)?, self.places.get(&id)?);
        let (spent, crashes) = match place {
            Place::Ready(life) | Place::Timer(life) | Place::Blocked(life) => {
                (life.spent, life.crashes)
            }
            Place::Lease(lease) => (lease.life.spent, lease.life.crashes),
            Place::Done(done) => (done.spent, done.crashes),
        };
        let mut attempts: Vec<AttemptView> = self
            .attempts
            .range((id, 0)..=(id, u32::MAX))
            .map(|((_, number), attempt)| AttemptView {
                attempt: *number,
                node: Some(attempt.node),
                claimed_at: attempt.claimed_at,
                ended_at: Some(attempt.ended_at),
                outcome: Some(attempt.outcome),
                error: attempt.error.clone(),
            })
            .collect();
        let mut result = None;
        match place {
            Place::Lease(lease) => attempts.push(AttemptView {
                attempt: lease.life.attempt,
                node: Some(lease.node),
                claimed_at: lease.claimed_at,
                ended_at: None,
                outcome: None,
                error: None,
            }),
            Place::Done(done) => {
                result.clone_from(&done.result);
                if let (JobState::Succeeded, Some(claimed_at)) = (done.state, done.claimed_at) {
                    attempts.push(AttemptView {
                        attempt: done.attempt,
                        node: done.node,
                        claimed_at,
                        ended_at: Some(done.finished_at),
                        outcome: Some(AttemptOutcome::Succeeded),
                        error: None,
                    });
                }
            }
            Place::Ready(_) | Place::Timer(_) | Place::Blocked(_) => {}
        }
        Some(JobDetail {
            view,
            owner: body.job.owner.clone(),
            payload: body.job.payload.clone(),
            result,
            tags: self.tags(id, body).to_vec(),
            trace: body.job.trace.clone(),
            spent,
            crashes,
            expires_at: body.expires_at,
            progress: match place {
                Place::Lease(lease) => lease.progress.clone(),
                _ => None,
            },
            hold: match place {
                Place::Lease(lease) if lease.lease != Lease::UNREADABLE => {
                    let is_readable = !self.spoiled.contains(&rules::Spoil::Body(id));
                    is_readable.then_some(Hold {
                        lease: lease.lease,
                        timeout: body.job.timeout,
                        budget: body.job.budget,
                        fresh_after: body.fresh_after,
                    })
                }
                _ => None,
            },
            cancel_requested: matches!(place, Place::Lease(lease) if lease.cancel.is_some()),
            attempts,
        })
    }

    /// The tags that can be read.
    fn tags<'a>(&self, id: JobId, body: &'a Body) -> &'a [String] {
        if self.spoiled.contains(&rules::Spoil::Tags(id)) { &[] } else { &body.job.tags }
    }

    /// Is a job among those that a list goes through?
    fn is_in(&self, source: Source<'_>, body: &Body, place: &Place) -> bool {
        match source {
            Source::All => true,
            Source::Schedule(id) => body.schedule().is_some_and(|(schedule, _)| schedule == id),
            Source::Queue(queue) => body.job.queue == queue,
            Source::Tenant(tenant) => body.job.tenant == tenant,
            Source::Ready => matches!(place, Place::Ready(_)),
            Source::Timers => matches!(place, Place::Timer(_)),
            Source::Blocked => matches!(place, Place::Blocked(_)),
            Source::Running => matches!(place, Place::Lease(_)),
            Source::Ended => matches!(place, Place::Done(_)),
            Source::Failed => place.state() == JobState::Failed,
            Source::Cancelled => place.state() == JobState::Cancelled,
        }
    }

    /// Is a job one that is asked for?
    fn is_asked(&self, filter: &JobFilter, view: &JobView, body: &Body) -> bool {
        let is = |asked: &Option<String>, value: &str| {
            asked.as_deref().is_none_or(|asked| asked == value)
        };
        let is_of = |schedule| view.schedule.is_some_and(|(id, _)| id == schedule);
        filter.state.is_none_or(|state| view.state == state)
            && is(&filter.queue, &view.queue)
            && is(&filter.kind, &view.kind)
            && is(&filter.tenant, &view.tenant)
            && filter.schedule.is_none_or(is_of)
            && filter.tag.as_ref().is_none_or(|tag| self.tags(view.id, body).contains(tag))
    }

    pub(super) fn list_jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        most: usize,
    ) -> Page<JobView, Cursor> {
        let mut pager = Pager::new(most);
        let source = filter.source();
        let mut rows: Vec<(JobView, &Body)> = self
            .bodies
            .iter()
            .filter(|(id, body)| {
                self.places.get(id).is_some_and(|place| self.is_in(source, body, place))
            })
            .filter_map(|(id, body)| Some((self.job_view(*id)?, body)))
            .filter(|(view, _)| after.is_none_or(|after| filter.cursor(view) < after))
            .collect();
        rows.sort_by_key(|(view, _)| Reverse(filter.cursor(view)));
        for (view, body) in rows {
            let is_asked = self.is_asked(filter, &view, body);
            if !pager.take(filter.cursor(&view), Some(view).filter(|_| is_asked)) {
                break;
            }
        }
        pager.page()
    }

    pub(super) fn list_events(
        &self,
        after: &EventCursor,
        until: Timestamp,
        most: usize,
    ) -> Page<Event, EventCursor> {
        let jobs = self.places.iter().filter(|(_, place)| matches!(place, Place::Done(_)));
        let jobs = jobs.filter_map(|(id, _)| self.job_view(*id)).map(Event::Ended);
        let slots = self.slots.iter().map(|((schedule, ..), slot)| Event::Decided {
            schedule: *schedule,
            name: self.schedules.get(schedule).map(|schedule| schedule.name.clone()),
            slot: slot.clone(),
        });
        let leaders = self.leader_changes.iter().cloned().map(Event::Led);
        let audits = self.audits.iter().cloned().map(Event::Did);
        let mut events: Vec<Event> = jobs.chain(slots).chain(leaders).chain(audits).collect();
        events.retain(|event| event.cursor() > *after && event.cursor().at <= until);
        events.sort_by_key(Event::cursor);
        Page::take(events.into_iter(), most, Event::cursor)
    }

    pub(super) fn queue_stats(&self, after: Option<&StatsCursor>, most: usize) -> QueueCounts {
        match &self.counts {
            Some((counted_at, stored)) => QueueCounts {
                counted_at: Some(*counted_at),
                ..QueueCounts::behind(stored.clone(), after, most)
            },
            None => QueueCounts::live(self.count(), after, most),
        }
    }

    pub(super) fn count_queues(&mut self, now: Timestamp, request: &CountRequest) -> CountResponse {
        let stats = self.count();
        let jobs = stats.iter().map(QueueStats::jobs).sum();
        let counts = (!is_few(&stats)).then_some((now, stats));
        if counts.is_none() && self.counts.is_none() {
            return CountResponse { led: true, jobs };
        }
        let led = self.renew(now, &request.fence, request.lease).is_some();
        if led {
            self.counts = counts;
        }
        CountResponse { led, jobs }
    }

    /// Counts all unfinished and failed jobs, by queue and kind.
    fn count(&self) -> Vec<QueueStats> {
        let mut stats: BTreeMap<(String, String), QueueStats> = BTreeMap::new();
        for (job, place) in &self.places {
            let Some(body) = self.bodies.get(job) else { continue };
            let (queue, kind) = (body.job.queue.clone(), body.job.kind.clone());
            let entry = stats
                .entry((queue.clone(), kind.clone()))
                .or_insert_with(|| QueueStats::empty(queue, kind));
            let count = match (place, place.state()) {
                (Place::Ready(life), _) => {
                    let oldest = entry.oldest_due_at.unwrap_or(life.due_at);
                    entry.oldest_due_at = Some(oldest.min(life.due_at));
                    &mut entry.ready
                }
                (_, JobState::Scheduled) => &mut entry.scheduled,
                (_, JobState::Retrying) => &mut entry.retrying,
                (_, JobState::Blocked) => &mut entry.blocked,
                (_, JobState::Running) => &mut entry.running,
                (_, JobState::Failed) => &mut entry.failed,
                _ => continue,
            };
            *count += 1;
        }
        stats.into_values().filter(|stats| !stats.is_empty()).collect()
    }
}

/// Are there so few jobs that each request counts them?
fn is_few(stats: &[QueueStats]) -> bool {
    stats.iter().map(QueueStats::jobs).sum::<u64>() <= limits::COUNT_LIVE_MAX as u64
}
