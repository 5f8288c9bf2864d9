//! Schedules that are paused because their jobs fail.

use std::time::Duration;

use punctual_core::job::{Backoff, Outcome, SlotOutcome};
use punctual_core::schedule::{Definition, Overlap};

use super::{Node, Stage, ana, minutely};

fn breaking(failures: u32) -> Definition {
    let mut definition = Definition { pause_after_failures: Some(failures), ..minutely() };
    definition.job.max_attempts = 1;
    definition
}

/// A minute passes, and the job of its slot ends so; how many schedules are paused for it.
async fn minute(stage: &Stage, node: &mut Node, outcome: Outcome) -> usize {
    stage.run(60, &mut [&mut *node]).await;
    for job in stage.claim().await {
        stage.settle(&job, outcome.clone()).await;
    }
    node.steps.pause_failing().await.unwrap()
}

fn failed() -> Outcome {
    Outcome::Fail("no such host".to_owned())
}

/// By `punctual`, with the number and the last error; a success between them begins anew, and a job
/// that was called off says nothing.
pub async fn failures_in_a_row_pause_a_schedule(stage: &Stage) {
    let mut node = stage.node("a").await;
    let schedule = stage.create("mails", &breaking(3)).await;
    let patient = stage.create("patient", &minutely()).await;
    stage.schedules().disable("", "patient", &ana()).await.unwrap();
    let outcomes = [failed(), failed(), Outcome::Done, failed()];
    for outcome in outcomes {
        assert_eq!(minute(stage, &mut node, outcome).await, 0);
    }
    assert_eq!(minute(stage, &mut node, Outcome::Cancel("not now".to_owned())).await, 0);
    assert_eq!(minute(stage, &mut node, failed()).await, 0);
    assert_eq!(minute(stage, &mut node, failed()).await, 1);
    assert_eq!(node.steps.pause_failing().await.unwrap(), 0, "once is enough");
    let paused = stage.store().schedule(schedule.id).await.unwrap().unwrap();
    let pause = paused.pause.expect("the schedule is paused");
    let last = stage.ledger(schedule.id).await.last().unwrap().job.unwrap();
    let why = format!("3 failures in a row; last failed job {last}: no such host");
    assert_eq!((pause.by.who.as_str(), pause.by.why, pause.until), ("punctual", why, None));
    assert_eq!(pause.since, stage.now());
    // Nothing fires until somebody resumes it.
    stage.run(170, &mut [&mut node]).await;
    assert_eq!(stage.work().await, []);
    stage.schedules().resume("", "mails", &ana()).await.unwrap();
    stage.run(60, &mut [&mut node]).await;
    let ledger = stage.ledger(schedule.id).await;
    let skipped = &ledger[ledger.len() - 2];
    assert_eq!((skipped.outcome, skipped.count), (SlotOutcome::SkippedPaused, 2));
    let patient = stage.store().schedule(patient.id).await.unwrap().unwrap();
    assert_eq!(patient.pause, None);
}

/// Those that failed before it was resumed, or changed, do not count.
pub async fn a_count_of_failures_begins_anew_when_somebody_resumes(stage: &Stage) {
    let mut node = stage.node("a").await;
    let schedule = stage.create("mails", &breaking(2)).await;
    assert_eq!(minute(stage, &mut node, failed()).await, 0);
    assert_eq!(minute(stage, &mut node, failed()).await, 1);
    stage.pass(1);
    stage.schedules().resume("", "mails", &ana()).await.unwrap();
    assert_eq!(node.steps.pause_failing().await.unwrap(), 0, "the failure count starts again");
    assert_eq!(minute(stage, &mut node, failed()).await, 0);
    stage.schedules().define("", "mails", &breaking(2), None, &ana()).await.unwrap();
    assert_eq!(
        minute(stage, &mut node, failed()).await,
        0,
        "an edit also resets the failure count"
    );
    assert_eq!(minute(stage, &mut node, failed()).await, 1);
    let paused = stage.store().schedule(schedule.id).await.unwrap().unwrap();
    assert!(paused.is_paused(stage.now()));
    // Whoever paused it before is not overwritten.
    stage.schedules().pause("", "mails", None, &ana()).await.unwrap();
    assert_eq!(node.steps.pause_failing().await.unwrap(), 0);
}

/// The waits of the revision that fired it, from attempt to attempt; a job of a schedule that says
/// nothing waits as is usual.
pub async fn a_failed_job_waits_as_its_schedule_says(stage: &Stage) {
    let mut node = stage.node("a").await;
    let mut definition = Definition { overlap: Overlap::Allow, ..minutely() };
    definition.job.backoff = Some("linear 10m to 15m".to_owned());
    let slow = stage.create("slow", &definition).await;
    let usual = stage.create("usual", &minutely()).await;
    stage.run(60, &mut [&mut node]).await;
    // What was fired keeps what it was told.
    definition.job.backoff = Some("fixed 1s".to_owned());
    stage.schedules().define("", "slow", &definition, None, &ana()).await.unwrap();
    stage.schedules().disable("", "slow", &ana()).await.unwrap();
    stage.schedules().disable("", "usual", &ana()).await.unwrap();
    let told: Backoff = "linear 10m to 15m".parse().unwrap();
    for tries in 1..=3 {
        let jobs = stage.claim().await;
        for job in &jobs {
            let is_slow = job.origin.as_ref().unwrap().schedule == slow.id;
            assert!(is_slow || tries == 1, "{job:?}");
            stage.settle(job, if is_slow { failed() } else { Outcome::Done }).await;
        }
        assert_eq!(jobs.len(), if tries == 1 { 2 } else { 1 });
        let job = jobs.iter().find(|job| job.origin.as_ref().unwrap().schedule == slow.id).unwrap();
        assert_eq!(job.backoff(), Some(told));
        let due = stage.job(job.id).await.view.due_at.expect("the job is retried");
        let wait = told.wait(job.id, tries, tries);
        assert_eq!(due, stage.now() + wait);
        let bound = Duration::from_secs(15 * 60).min(Duration::from_secs(600) * tries);
        assert!(wait <= bound && wait > Duration::from_secs(2), "{wait:?} of up to {bound:?}");
        stage.pass(wait.as_secs().saturating_sub(1));
        assert_eq!(stage.claim().await.len(), 0, "not before");
        stage.pass(2);
    }
    assert_eq!(stage.ledger(usual.id).await.len(), 1);
}
