//! Handlers, and how they end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual::doctor::Thresholds;
use punctual::{
    BoxError, Ctx, Done, Failure, Job, JobState, LogLevel, Outcome, Punctual, is_out_of_resources,
};
use serde::{Deserialize, Serialize};

use crate::{Mail, frozen, mail};

#[derive(Debug, thiserror::Error)]
enum MailError {
    #[error("the server is busy")]
    Busy(#[source] Failure),
    #[error("no such mailbox")]
    Unknown,
}

#[tokio::test]
async fn every_end_has_a_way_to_be_said() {
    async fn end(job: Mail) -> Result<Outcome, BoxError> {
        Ok(match job.to.as_str() {
            "done" => Outcome::Done,
            "snooze" => Outcome::Snooze(Duration::from_secs(60)),
            "cancel" => Outcome::Cancel("nobody reads it".into()),
            "for good" => return Err(Failure::permanent("the mailbox is gone").into()),
            "later" => return Err(Failure::retry_after(Duration::from_secs(5), "busy").into()),
            "panic" => panic!("out of paper"),
            _ => return Err("no such mailbox".into()),
        })
    }
    let queue = frozen(Punctual::memory().handle(end)).await;
    let check = async |to: &str, state: JobState, attempt: u32, error: Option<&str>| {
        let id = queue.enqueue(&mail(to)).await.unwrap().id;
        queue.drain().await;
        let job = queue.admin().job(id).await.unwrap();
        assert_eq!((job.view.state, job.view.attempt), (state, attempt), "{to}");
        let told = job.view.error.or(job.attempts.last().and_then(|last| last.error.clone()));
        assert_eq!(told.as_deref(), error, "{to}");
        queue.admin().cancel(id).await.unwrap();
    };
    check("done", JobState::Succeeded, 1, None).await;
    check("snooze", JobState::Retrying, 1, None).await;
    check("cancel", JobState::Cancelled, 1, Some("nobody reads it")).await;
    check("for good", JobState::Failed, 1, Some("the mailbox is gone")).await;
    check("later", JobState::Retrying, 1, Some("busy")).await;
    check("panic", JobState::Retrying, 1, Some("the handler panicked: out of paper")).await;
    check("fail", JobState::Retrying, 1, Some("no such mailbox")).await;
}

#[tokio::test]
async fn an_error_type_of_the_users_own_may_carry_a_failure() {
    async fn end(job: Mail) -> Result<(), MailError> {
        Err(match job.to.as_str() {
            "busy" => MailError::Busy(Failure::permanent("it will be busy for ever")),
            _ => MailError::Unknown,
        })
    }
    let queue = frozen(Punctual::memory().handle(end)).await;
    let finished = queue.perform(&mail("busy")).await.unwrap();
    assert_eq!(finished.state, JobState::Failed);
    assert_eq!(finished.error.as_deref(), Some("the server is busy: it will be busy for ever"));
}

#[tokio::test]
async fn handlers_know_state_attempt_slot_and_more() {
    #[derive(Clone, Default)]
    struct App {
        seen: Arc<Mutex<Vec<String>>>,
    }
    async fn look(_: Mail, cx: Ctx<App>) -> Result<Done<u32>, BoxError> {
        cx.progress(40, "page 4 of 10");
        cx.log("first line");
        cx.log_at(LogLevel::Warn, "second line");
        let told = format!("{} {} {:?}", cx.attempt(), cx.is_last_attempt(), cx.late_by());
        cx.state().seen.lock().unwrap().push(told);
        if cx.attempt() < 3 {
            return Err("not yet".into());
        }
        Ok(Done(cx.attempt()))
    }
    let app = App::default();
    let queue = frozen(Punctual::memory().state(app.clone()).handle(look)).await;
    let id = queue.enqueue(mail("a").order().max_attempts(3)).await.unwrap().id;
    let report = queue.advance("1h").await;
    assert_eq!((report.failed, report.succeeded), (2, 1));
    let seen = app.seen.lock().unwrap().clone();
    assert_eq!(seen, ["1 false None", "2 false None", "3 true None"]);
    let log = queue.admin().log(id, None, 100).await.unwrap().items;
    let lines: Vec<_> = log.iter().map(|it| (it.attempt, it.level, it.text.as_str())).collect();
    assert_eq!(lines.len(), 6);
    assert_eq!(lines[..2], [(1, LogLevel::Info, "first line"), (1, LogLevel::Warn, "second line")]);
}

#[tokio::test]
async fn a_handler_of_a_slot_is_told_of_it() {
    use punctual::cron;
    type Seen = Arc<Mutex<Vec<punctual::Fired>>>;
    async fn look(_: Mail, cx: Ctx<Seen>) {
        assert_eq!(cx.slot(), cx.fired().unwrap().slot);
        cx.state().lock().unwrap().extend(cx.fired());
    }
    let seen = Seen::default();
    let builder = Punctual::memory().state(seen.clone()).handle(look);
    let when = cron("0 13 * * *").tz("Europe/Paris");
    let queue = frozen(builder.schedule("digest", when, &mail("all"))).await;
    queue.advance("1d").await;
    queue.outage("75h");
    queue.drain().await;
    let seen = seen.lock().unwrap().clone();
    let told: Vec<_> = seen
        .iter()
        .map(|it| {
            (
                it.facts.name.as_str(),
                it.facts.tz.as_str(),
                it.facts.caught_up,
                it.facts.missed_count,
            )
        })
        .collect();
    assert_eq!(told, [("digest", "Europe/Paris", false, 0), ("digest", "Europe/Paris", true, 2)]);
    assert!(seen[1].late_by > Duration::from_secs(3_600));
}

#[tokio::test]
async fn what_is_enqueued_next_comes_with_success_or_not_at_all() {
    #[derive(Serialize, Deserialize, Job)]
    struct Order {
        number: u32,
    }
    async fn order(job: Order, cx: Ctx) -> Result<(), BoxError> {
        cx.enqueue_next(&mail(&job.number.to_string()))?;
        if cx.attempt() == 1 {
            return Err("the card was refused".into());
        }
        Ok(())
    }
    let queue = frozen(Punctual::memory().handle(order).handle(crate::deliver)).await;
    queue.enqueue(&Order { number: 7 }).await.unwrap();
    assert_eq!(queue.drain().await.failed, 1);
    queue.refute_enqueued::<Mail>().await;
    let report = queue.advance("1h").await;
    assert_eq!(report.succeeded, 2, "the second attempt, and what came with it");
}

#[tokio::test]
async fn a_payload_of_another_shape_fails() {
    async fn deliver(_: Mail) {}
    let queue = frozen(Punctual::memory().handle(deliver)).await;
    let strange = punctual::Order::of_kind("mail", &serde_json::json!({"address": 7}));
    let finished = queue.perform(strange.queue("mail").max_attempts(1)).await.unwrap();
    assert_eq!(finished.state, JobState::Failed);
    insta::assert_snapshot!(finished.error.unwrap(), @"invalid payload for kind `mail`: missing field `to` at line 1 column 13; enqueue the job with a valid payload, or change the job type so that it accepts this one");
}

#[tokio::test]
async fn a_failure_has_its_say_through_anyhow() {
    async fn end(job: Mail) -> anyhow::Result<()> {
        use anyhow::Context;
        let failure = match job.to.as_str() {
            "for good" => Failure::permanent("the mailbox is gone"),
            _ => Failure::retry_after(Duration::from_secs(5), "busy"),
        };
        Err(failure).context("mail")
    }
    let queue = frozen(Punctual::memory().handle(end)).await;
    let finished = queue.perform(&mail("for good")).await.unwrap();
    assert_eq!(finished.state, JobState::Failed);
    assert_eq!(finished.error.as_deref(), Some("mail: the mailbox is gone"));
    queue.enqueue(&mail("later")).await.unwrap();
    assert_eq!(queue.drain().await.failed, 1);
    assert_eq!(queue.advance("6s").await.failed, 1, "after five seconds, not after a random while");
}

#[tokio::test]
async fn a_handler_orders_in_its_own_trace() {
    async fn order(job: Mail, cx: Ctx) -> punctual::Result<()> {
        if job.to == "first" {
            cx.enqueue(&mail("second")).await?;
            cx.enqueue_next(&mail("third"))?;
        }
        Ok(())
    }
    let queue = frozen(Punctual::memory().handle(order)).await;
    queue.enqueue(mail("first").order().trace("t-1")).await.unwrap();
    assert_eq!(queue.drain().await.succeeded, 3);
    for view in queue.admin().jobs(&punctual::JobFilter::default(), None, 10).await.unwrap().items {
        assert_eq!(queue.admin().job(view.id).await.unwrap().trace.as_deref(), Some("t-1"));
    }
}

#[tokio::test]
async fn no_more_jobs_follow_than_can_be_written() {
    async fn order(job: Mail, cx: Ctx) -> punctual::Result<()> {
        if job.to == "many" {
            for number in 0..101 {
                cx.enqueue_next(&mail(&number.to_string()))?;
            }
        }
        Ok(())
    }
    let queue = frozen(Punctual::memory().handle(order)).await;
    let finished = queue.perform(mail("many").order().max_attempts(1)).await.unwrap();
    insta::assert_snapshot!(finished.error.unwrap(), @"too many jobs in `enqueue_next`, maximum 100; enqueue the others directly in the handler");
}

#[tokio::test]
async fn a_node_that_lacks_resources_is_a_finding() {
    async fn lacks(_: Mail) -> Result<(), BoxError> {
        let error = std::io::Error::from_raw_os_error(24);
        // As a library may wrap it.
        let error = std::io::Error::other(std::io::Error::other(error));
        assert!(is_out_of_resources(&error));
        Err(Failure::out_of_resources(error).into())
    }
    let punctual = Punctual::memory().handle(lacks).start().await.unwrap();
    let codes = async || -> Vec<&str> {
        let diagnosis = punctual.doctor(&Thresholds::default()).await;
        diagnosis.findings.iter().map(|finding| finding.code).collect()
    };
    assert!(!codes().await.contains(&"lack_of_resources"));
    for to in ["a", "b", "c"] {
        punctual.enqueue(&mail(to)).await.unwrap();
    }
    // If it is never found, the test never ends, and the runner says so.
    while !codes().await.contains(&"lack_of_resources") {
        tokio::task::yield_now().await;
    }
    punctual.stop_now().await;
}
