//! When a job that runs will be done, from how long others took.

use std::time::Duration;

use maud::{Markup, html};
use punctual::{Admin, AttemptOutcome, JobDetail, JobFilter, JobState, SlotRun, Timestamp};

use super::show;
use crate::fault::Fault;

/// Others that are looked at: enough for a percentile, few enough to be read while somebody waits.
const OTHERS: usize = 20;
/// Fewer tell nothing.
const LEAST: usize = 3;

/// How long others took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    /// When the attempt that runs began.
    began: Timestamp,
    /// Half of the others took no longer.
    usual: Duration,
    /// Nineteen of twenty took no longer.
    most: Duration,
    others: usize,
    /// Are they of its schedule? Of its kind otherwise.
    is_of_schedule: bool,
}

impl Estimate {
    /// Of a job that runs; none if there is too little to go by.
    pub(super) async fn read(admin: &Admin, job: &JobDetail) -> Result<Option<Estimate>, Fault> {
        let running = job.attempts.iter().rev().find(|attempt| attempt.ended_at.is_none());
        let Some(running) = running.filter(|_| job.view.state == JobState::Running) else {
            return Ok(None);
        };
        if let Some((schedule, _)) = job.view.schedule {
            let runs = admin.recent_slots(&[schedule], OTHERS).await?;
            let lengths = runs.iter().filter_map(length).collect();
            let estimate = Estimate::of(running.claimed_at, lengths, true);
            if estimate.is_some() {
                return Ok(estimate);
            }
        }
        let others = JobFilter {
            state: Some(JobState::Succeeded),
            kind: Some(job.view.kind.clone()),
            ..JobFilter::default()
        };
        let mut lengths = Vec::new();
        for other in admin.jobs(&others, None, OTHERS).await?.items {
            let attempts = admin.job(other.id).await?.attempts;
            let last = attempts.iter().find(|it| it.outcome == Some(AttemptOutcome::Succeeded));
            lengths.extend(last.and_then(|it| Some(it.ended_at?.since(it.claimed_at))));
        }
        Ok(Estimate::of(running.claimed_at, lengths, false))
    }

    fn of(began: Timestamp, mut lengths: Vec<Duration>, is_of_schedule: bool) -> Option<Estimate> {
        lengths.sort_unstable();
        let at = |share: f64| {
            let rank = (lengths.len() as f64 * share).ceil() as usize;
            lengths.get(rank.saturating_sub(1)).copied()
        };
        if lengths.len() < LEAST {
            return None;
        }
        let (usual, most) = (at(0.5)?, at(0.95)?);
        Some(Estimate { began, usual, most, others: lengths.len(), is_of_schedule })
    }

    /// In a sentence.
    pub(super) fn show(&self, now: Timestamp) -> Markup {
        let so_far = now.since(self.began);
        let whose = if self.is_of_schedule { "of its schedule" } else { "of its kind" };
        html! {
            p.estimate {
                "Usually " b { (show::length(self.usual)) } " (the last " (self.others) " " (whose) "); "
                @if so_far <= self.usual { "ends about " (show::absolute(self.began + self.usual)) "." }
                @else if so_far <= self.most { "longer than most by now, 19 of 20 were done in " (show::length(self.most)) ": ends about " (show::absolute(self.began + self.most)) "." }
                @else { b { "it takes longer than 19 of 20 of them" } ", which were done in " (show::length(self.most)) "." }
            }
        }
    }
}

/// How long the last attempt of a job that succeeded took.
fn length(run: &SlotRun) -> Option<Duration> {
    let job = run.run.filter(|job| job.state == JobState::Succeeded)?;
    Some(job.finished_at?.since(job.claimed_at?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_by_what_others_took() {
        let second = |number: i64| Timestamp::from_seconds(1_800_000_000 + number);
        let lengths = |seconds: &[u64]| seconds.iter().copied().map(Duration::from_secs).collect();
        assert_eq!(Estimate::of(second(0), lengths(&[40, 40]), true), None);
        let estimate =
            Estimate::of(second(0), lengths(&[50, 30, 40, 45, 35]), true).expect("five others");
        assert_eq!(
            (estimate.usual, estimate.most),
            (Duration::from_secs(40), Duration::from_secs(50))
        );
        let said = |now: i64| estimate.show(second(now)).into_string();
        assert!(said(10).contains("Usually <b>40 s</b> (the last 5 of its schedule); ends about"));
        assert!(said(10).contains(&show::utc(second(40))), "{}", said(10));
        assert!(said(45).contains("longer than most") && said(45).contains(&show::utc(second(50))));
        assert!(said(60).contains("longer than 19 of 20"), "{}", said(60));
    }
}
