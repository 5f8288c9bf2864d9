//! What a node logs about its attempts and slots.

use std::time::Duration;

use punctual::remote::{Failed, Wish};
use punctual::testing::Frozen;
use punctual::{Job, Missed, Order, Outcome, Punctual, When, every};
use serde::{Deserialize, Serialize};

use crate::logged::Logged;
use crate::{deliver, frozen, mail, mailing};

#[derive(Clone, Debug, Serialize, Deserialize, Job)]
#[job(queue = "mail", max_attempts = 2)]
struct Unlucky {}

async fn fail(_: Unlucky) -> Result<(), String> {
    Err("mailbox full".to_owned())
}

/// The events about attempts, without the parts that differ from run to run.
fn attempts(logged: &Logged, job: punctual::JobId) -> String {
    let text = logged.text().replace(&job.to_string(), "JOB");
    let events = text.lines().filter(|line| line.contains("outcome="));
    let cut = |line: &str| match line.split_once(" retry_in_ms=") {
        Some((kept, _)) => format!("{} retry_in_ms=…", kept.trim()),
        None => line.trim().to_owned(),
    };
    events.map(cut).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn failed_attempts_are_warnings_and_the_last_is_an_error() {
    let queue = frozen(Punctual::memory().handle(fail)).await;
    let logged = Logged::start();
    let id = queue.enqueue(&Unlucky {}).await.unwrap().id;
    queue.advance("1h").await;
    insta::assert_snapshot!(attempts(&logged, id), @r#"
    WARN attempt failed kind="unlucky" queue="mail" job=JOB attempt=1 duration_ms=0 outcome="failed" error="mailbox full" retry_in_ms=…
    ERROR job failed for good kind="unlucky" queue="mail" job=JOB attempt=2 duration_ms=0 outcome="failed" error="mailbox full"
    "#);
}

#[tokio::test]
async fn abandoned_attempts_are_warnings_with_the_queue_of_their_job() {
    let queue = frozen(Punctual::memory().handle(fail)).await;
    let id = queue.enqueue(&Unlucky {}).await.unwrap().id;
    queue.crash_next(1);
    let logged = Logged::start();
    queue.drain().await;
    insta::assert_snapshot!(attempts(&logged, id), @r#"WARN attempt failed kind="unlucky" queue="mail" job=JOB attempt=1 duration_ms=0 outcome="abandoned" error="its node died or lost contact with the database" retry_in_ms=…"#);
}

fn wish(queue: &Frozen) -> Wish {
    Wish {
        node: queue.remote().mint(),
        name: "elsewhere".to_owned(),
        version: String::new(),
        queues: vec!["default".to_owned()],
        kinds: vec!["paint".to_owned()],
        most: 1,
        wait: Duration::ZERO,
        holds: Vec::new(),
    }
}

#[tokio::test]
async fn failed_attempts_of_remote_workers_are_logged_by_the_server() {
    let queue = mailing().await;
    let id = queue.enqueue(Order::of_kind("paint", &"red").max_attempts(2)).await.unwrap().id;
    let wish = wish(&queue);
    let logged = Logged::start();
    for _ in 0..2 {
        let claims = queue.remote().claim(&wish).await.unwrap();
        let failed = Failed { error: "no paint".to_owned(), retry: true, retry_after: None };
        queue.remote().fail(&claims.leases[0].held, failed).await.unwrap();
        queue.advance("1h").await;
    }
    insta::assert_snapshot!(attempts(&logged, id), @r#"
    WARN attempt failed kind="paint" queue="default" job=JOB attempt=1 duration_ms=0 outcome="failed" error="no paint" retry_in_ms=…
    ERROR job failed for good kind="paint" queue="default" job=JOB attempt=2 duration_ms=0 outcome="failed" error="no paint"
    "#);
}

/// A worker that loses its job when the time budget is used up, and claims again.
#[tokio::test]
async fn a_job_that_is_refused_to_a_remote_worker_for_its_budget_is_logged() {
    let queue = mailing().await;
    let order = Order::of_kind("paint", &"red").budget(Duration::from_secs(10));
    let id = queue.enqueue(order).await.unwrap().id;
    let wish = wish(&queue);
    assert_eq!(queue.remote().claim(&wish).await.unwrap().leases.len(), 1);
    queue.outage("12s");
    let logged = Logged::start();
    // It does not list the job, so the job is released and claimed once more.
    assert_eq!(queue.remote().claim(&wish).await.unwrap().leases.len(), 0);
    insta::assert_snapshot!(attempts(&logged, id), @r#"ERROR job failed for good kind="paint" queue="default" job=JOB attempt=2 duration_ms=0 outcome="cancelled" error="its time budget is used up""#);
}

/// A node with a schedule every ten minutes.
async fn scheduled(when: impl Fn(When) -> When) -> Frozen {
    let when = when(every(Duration::from_secs(600)));
    frozen(Punctual::memory().handle(deliver).schedule("mails", when, &mail("ana"))).await
}

/// The events about slots, without the names of jobs.
fn slots(logged: &Logged) -> String {
    let text = logged.text();
    let events = text.lines().filter(|line| line.contains(" slots "));
    let cut = |line: &str| match line.trim().split_once("reason=\"job ") {
        Some((kept, _)) => format!("{kept}reason=\"job JOB is unfinished\""),
        None => line.trim().to_owned(),
    };
    events.map(cut).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn missed_slots_are_a_warning_with_their_number_and_reason() {
    let queue = scheduled(|when| when.missed(Missed::None)).await;
    queue.outage("2h");
    let logged = Logged::start();
    queue.drain().await;
    insta::assert_snapshot!(slots(&logged), @r#"WARN slots missed schedule="mails" outcome=missed count=11 first=2027-01-15T12:10:00Z last=2027-01-15T13:50:00Z reason="missed = none""#);
}

#[tokio::test]
async fn slots_beyond_the_limit_of_catching_up_are_a_warning() {
    let queue = scheduled(|when| when.missed(Missed::All).missed_limit(3)).await;
    queue.outage("2h");
    let logged = Logged::start();
    queue.drain().await;
    insta::assert_snapshot!(slots(&logged), @r#"
    WARN slots missed schedule="mails" outcome=missed count=8 first=2027-01-15T12:10:00Z last=2027-01-15T13:20:00Z reason="more than missed_limit = 3 slots were missed"
    INFO slots skipped schedule="mails" outcome=skipped_overlap count=3 first=2027-01-15T13:40:00Z last=2027-01-15T14:00:00Z reason="job JOB is unfinished"
    "#);
}

#[tokio::test]
async fn coalesced_slots_are_an_event_of_level_info() {
    let queue = scheduled(|when| when.missed(Missed::Latest)).await;
    queue.outage("2h");
    let logged = Logged::start();
    queue.drain().await;
    insta::assert_snapshot!(slots(&logged), @r#"INFO slots coalesced schedule="mails" outcome=coalesced count=11 first=2027-01-15T12:10:00Z last=2027-01-15T13:50:00Z reason="missed = latest""#);
}

#[tokio::test]
async fn slots_that_a_change_decides_are_logged() {
    let queue = scheduled(|when| when).await;
    queue.outage("1h");
    let logged = Logged::start();
    queue.admin().disable_schedule("mails").await.unwrap();
    insta::assert_snapshot!(slots(&logged), @r#"WARN slots missed schedule="mails" outcome=missed count=6 first=2027-01-15T12:10:00Z last=2027-01-15T13:00:00Z reason="disabled by code before the slot was decided""#);
}

#[derive(Clone, Debug, Serialize, Deserialize, Job)]
struct Endless {}

async fn wait(_: Endless) -> Outcome {
    Outcome::Snooze(Duration::from_secs(3_600))
}

#[tokio::test]
async fn slots_that_are_skipped_every_second_are_logged_once_a_minute() {
    let often = every(Duration::from_secs(1));
    let builder = Punctual::memory().handle(wait).schedule("often", often, &Endless {});
    let queue = frozen(builder).await;
    queue.advance("2s").await;
    let logged = Logged::start();
    queue.advance("3m").await;
    insta::assert_snapshot!(slots(&logged), @r#"
    INFO slots skipped schedule="often" outcome=skipped_overlap count=59 first=2027-01-15T12:00:03Z last=2027-01-15T12:01:01Z reason="job JOB is unfinished"
    INFO slots skipped schedule="often" outcome=skipped_overlap count=60 first=2027-01-15T12:01:02Z last=2027-01-15T12:02:01Z reason="job JOB is unfinished"
    INFO slots skipped schedule="often" outcome=skipped_overlap count=60 first=2027-01-15T12:02:02Z last=2027-01-15T12:03:01Z reason="job JOB is unfinished"
    "#);
}

#[tokio::test]
async fn slots_of_very_many_schedules_are_not_logged_one_by_one() {
    let mut builder = Punctual::memory().handle(deliver);
    for number in 0..150 {
        let when = every(Duration::from_secs(600)).missed(Missed::None);
        builder = builder.schedule(&format!("mails-{number}"), when, &mail("ana"));
    }
    let queue = frozen(builder).await;
    queue.outage("2h");
    let logged = Logged::start();
    queue.drain().await;
    assert_eq!(slots(&logged).lines().count(), 100);
    queue.advance("2m").await;
    let rest: Vec<String> = slots(&logged).lines().skip(100).map(str::to_owned).collect();
    insta::assert_snapshot!(rest.join("\n"), @r#"WARN slots of other schedules missed outcome=missed count=550"#);
}
