//! What pictures are made of.

use std::collections::BTreeMap;

use punctual_core::job::{AttemptOutcome, JobState};
use punctual_core::{JobId, NodeId, ScheduleId, Timestamp};

use super::state::{Place, State};
use crate::{JobRun, RollupSum, Schedule, SlotRun, Span, SumAsk, limits, rules};

impl State {
    pub(super) fn recent_slots(&self, schedules: &[ScheduleId], most: usize) -> Vec<SlotRun> {
        let newest = |schedule: &ScheduleId| {
            let slots = self.list_slots(*schedule, None, most).items;
            let schedule = *schedule;
            slots.into_iter().map(move |slot| {
                let run = slot.job.and_then(|job| self.job_run(job));
                SlotRun { schedule, slot, run }
            })
        };
        schedules.iter().flat_map(newest).collect()
    }

    fn job_run(&self, job: JobId) -> Option<JobRun> {
        match self.places.get(&job)? {
            Place::Lease(lease) => Some(JobRun {
                state: JobState::Running,
                attempt: lease.life.attempt,
                claimed_at: Some(lease.claimed_at),
                finished_at: None,
            }),
            Place::Done(done) => Some(JobRun {
                state: done.state,
                attempt: done.attempt,
                claimed_at: done.claimed_at,
                finished_at: Some(done.finished_at),
            }),
            _ => None,
        }
    }

    pub(super) fn upcoming(&self, shard: i16, most: usize) -> Vec<Schedule> {
        let of_shard = self.schedules.values().filter(|schedule| schedule.shard == shard);
        let is_readable =
            |schedule: &&Schedule| !self.spoiled.contains(&rules::Spoil::Schedule(schedule.id));
        let mut due: Vec<_> = of_shard
            .filter(is_readable)
            .filter_map(|schedule| Some((schedule.due_at()?, schedule)))
            .collect();
        due.sort_by_key(|(due_at, schedule)| (*due_at, schedule.id));
        let most = most.min(limits::PAGE_MAX);
        due.into_iter().take(most).map(|(_, schedule)| schedule.clone()).collect()
    }

    pub(super) fn sums(&self, ask: &SumAsk) -> Vec<RollupSum> {
        let mut sums: BTreeMap<(Timestamp, &str, &str), (i64, i64)> = BTreeMap::new();
        for ((minute, metric, queue, _), (count, sum)) in &self.rollups {
            if (ask.from..ask.to).contains(minute) {
                let at = minute.as_micros().div_euclid(ask.micros()) * ask.micros();
                let queue = if ask.by_queue { queue.as_str() } else { "" };
                let total = sums.entry((Timestamp::from_micros(at), metric, queue)).or_default();
                *total = (total.0 + count, total.1 + sum);
            }
        }
        let row = |((at, metric, queue), (count, sum)): ((Timestamp, &str, &str), (i64, i64))| {
            RollupSum { at, metric: metric.to_owned(), queue: queue.to_owned(), count, sum }
        };
        sums.into_iter().map(row).collect()
    }

    pub(super) fn spans(&self, since: Timestamp, until: Timestamp, most: usize) -> Vec<Span> {
        let (floor, end) = (JobId::floor(since), JobId::floor(until));
        let mut spans: Vec<Span> = Vec::new();
        for (job, place) in self.places.iter().filter(|(job, _)| **job < end) {
            match place {
                Place::Lease(lease) => {
                    let node = Some(lease.node);
                    spans.extend(self.span(*job, lease.life.attempt, node, lease.claimed_at, None));
                }
                Place::Done(done) if done.state == JobState::Succeeded && *job >= floor => {
                    let Some(claimed_at) = done.claimed_at else { continue };
                    let ended = Some((done.finished_at, AttemptOutcome::Succeeded));
                    spans.extend(self.span(*job, done.attempt, done.node, claimed_at, ended));
                }
                _ => {}
            }
        }
        for ((job, number), attempt) in self.attempts.range((floor, 0)..(end.max(floor), 0)) {
            let ended = Some((attempt.ended_at, attempt.outcome));
            spans.extend(self.span(*job, *number, Some(attempt.node), attempt.claimed_at, ended));
        }
        spans.sort_by_key(|span| std::cmp::Reverse((span.job, span.attempt)));
        spans.truncate(most.min(limits::SPANS_MAX));
        spans
    }

    fn span(
        &self,
        job: JobId,
        attempt: u32,
        node: Option<NodeId>,
        claimed_at: Timestamp,
        ended: Option<(Timestamp, AttemptOutcome)>,
    ) -> Option<Span> {
        let body = self.bodies.get(&job)?;
        Some(Span {
            job,
            attempt,
            queue: body.job.queue.clone(),
            kind: body.job.kind.clone(),
            schedule: body.schedule(),
            node,
            claimed_at,
            ended_at: ended.map(|(at, _)| at),
            outcome: ended.map(|(_, outcome)| outcome),
        })
    }
}
