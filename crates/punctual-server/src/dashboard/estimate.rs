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
        let whose = if self.is_of_schedule { "of this schedule" } else { "of this kind" };
        html! {
            p.estimate {
                "Typical duration: " b { (show::length(self.usual)) } " (last " (self.others) " jobs " (whose) "). "
                @if so_far <= self.usual { "Expected to finish at about " (show::absolute(self.began + self.usual)) "." }
                @else if so_far <= self.most { "Slower than usual: 95\u{a0}% finish within " (show::length(self.most)) ". Expected to finish by about " (show::absolute(self.began + self.most)) "." }
                @else { b { "Unusually slow" } ": 95\u{a0}% finish within " (show::length(self.most)) "." }
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
        let typical = "Typical duration: <b>40 s</b> (last 5 jobs of this schedule). Expected";
        assert!(said(10).contains(typical), "{}", said(10));
        assert!(said(10).contains(&show::utc(second(40))), "{}", said(10));
        let slower = said(45);
        assert!(slower.contains("Slower than usual") && slower.contains(&show::utc(second(50))));
        assert!(said(60).contains("Unusually slow"), "{}", said(60));
    }
}
