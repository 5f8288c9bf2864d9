//! What people look at.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use punctual_core::JobId;
use punctual_core::job::{AttemptOutcome, JobState};

use super::state::{Body, Place, State};
use crate::*;

impl State {
    fn job_view(&self, id: JobId) -> Option<JobView> {
        let (body, place) = (self.bodies.get(&id)?, self.places.get(&id)?);
        let (attempt, due_at) = match place {
            Place::Ready(life) | Place::Timer(life) => (life.attempt, Some(life.due_at)),
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
            schedule: body.schedule,
            error,
        })
    }

    pub(super) fn job_detail(&self, id: JobId) -> Option<JobDetail> {
        let (view, body, place) =
            (self.job_view(id)?, self.bodies.get(&id)?, self.places.get(&id)?);
        let (spent, crashes) = match place {
            Place::Ready(life) | Place::Timer(life) => (life.spent, life.crashes),
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
            Place::Ready(_) | Place::Timer(_) => {}
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
            progress: match place {
                Place::Lease(lease) => lease.progress.clone(),
                _ => None,
            },
            cancel_asked: matches!(place, Place::Lease(lease) if lease.cancel.is_some()),
            attempts,
        })
    }

    /// The tags that can be read.
    fn tags<'a>(&self, id: JobId, body: &'a Body) -> &'a [String] {
        if self.spoiled.contains(&rules::Spoil::Tags(id)) { &[] } else { &body.job.tags }
    }

    pub(super) fn list_jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        most: usize,
    ) -> Page<JobView, Cursor> {
        let is = |asked: &Option<String>, value: &str| {
            asked.as_deref().is_none_or(|asked| asked == value)
        };
        let is_asked = |id: JobId, body: &Body| {
            is(&filter.queue, &body.job.queue)
                && is(&filter.kind, &body.job.kind)
                && is(&filter.tenant, &body.job.tenant)
                && filter.schedule.is_none_or(|asked| {
                    body.schedule.is_some_and(|(schedule, _)| schedule == asked)
                })
                && filter.tag.as_ref().is_none_or(|tag| self.tags(id, body).contains(tag))
        };
        let mut views: Vec<JobView> = self
            .bodies
            .iter()
            .filter(|(id, body)| is_asked(**id, body))
            .filter_map(|(id, _)| self.job_view(*id))
            .filter(|view| filter.state.is_none_or(|state| view.state == state))
            .filter(|view| after.is_none_or(|after| filter.cursor(view) < after))
            .collect();
        views.sort_by_key(|view| Reverse(filter.cursor(view)));
        Page::take(views.into_iter(), most, |view| filter.cursor(view))
    }

    pub(super) fn queue_stats(&self) -> Vec<QueueStats> {
        let mut stats: BTreeMap<(String, String), QueueStats> = BTreeMap::new();
        for (job, place) in &self.places {
            let Some(body) = self.bodies.get(job) else { continue };
            let (queue, kind) = (body.job.queue.clone(), body.job.kind.clone());
            let entry = stats
                .entry((queue.clone(), kind.clone()))
                .or_insert_with(|| QueueStats::empty(queue, kind));
            match place {
                Place::Ready(life) => {
                    entry.ready += 1;
                    entry.oldest_due = Some(
                        entry.oldest_due.map_or(life.due_at, |oldest| oldest.min(life.due_at)),
                    );
                }
                Place::Timer(life) if life.attempt == 0 => entry.scheduled += 1,
                Place::Timer(_) => entry.retrying += 1,
                Place::Lease(_) => entry.running += 1,
                Place::Done(done) if done.state == JobState::Failed => entry.failed += 1,
                Place::Done(_) => {}
            }
        }
        stats.into_values().filter(|entry| !entry.is_empty()).collect()
    }
}
