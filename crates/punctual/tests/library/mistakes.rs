//! Mistakes that people make, and what they are told.

use punctual::{ErrorDetails, ErrorKind, Job, JobState, Placement, Punctual, Unique, cron};
use serde::{Deserialize, Serialize};

use crate::{deliver, frozen, mail, mailing};

#[derive(Serialize, Deserialize, Job)]
struct Forgotten;

async fn told<S: Clone + Send + Sync + 'static>(builder: punctual::Builder<S>) -> String {
    let Err(error) = builder.start_frozen().await else { panic!("it starts") };
    error.to_string()
}

#[tokio::test]
async fn a_kind_without_a_handler() {
    let queue = mailing().await;
    insta::assert_snapshot!(queue.enqueue(&Forgotten).await.unwrap_err(), @"no handler for kind `forgotten` in this program; add one with `.handle(…)`, or use `.handled_elsewhere::<…>()` if another program handles it");
    let scheduled = Punctual::memory().handle(deliver);
    let scheduled = scheduled.schedule("nightly", cron("0 3 * * *"), &Forgotten);
    insta::assert_snapshot!(told(scheduled).await, @"schedule `nightly`: no handler for kind `forgotten` in this program; add one with `.handle(…)`, or use `.handled_elsewhere::<…>()` if another program handles it");
    let elsewhere = Punctual::memory().handle(deliver).handled_elsewhere::<Forgotten>();
    assert!(frozen(elsewhere).await.enqueue(&Forgotten).await.is_ok());
}

#[tokio::test]
async fn a_payload_that_is_too_large() {
    let queue = mailing().await;
    let large = mail(&"x".repeat(300_000));
    insta::assert_snapshot!(queue.enqueue(&large).await.unwrap_err(), @"job of kind `mail`: payload is too large: 300009 bytes, maximum 262144; store the data outside the job and pass a reference");
}

#[tokio::test]
async fn a_payload_that_is_no_json() {
    #[derive(Serialize, Deserialize, Job)]
    struct Odd {
        by_pair: std::collections::BTreeMap<(u8, u8), u8>,
    }
    let odd = Odd { by_pair: [((1, 2), 3)].into() };
    let queue = frozen(Punctual::memory()).await;
    insta::assert_snapshot!(queue.enqueue(&odd).await.unwrap_err(), @"a job of kind `odd` cannot be serialized as JSON: key must be a string; map keys must be strings");
}

#[tokio::test]
async fn a_unique_key_that_another_payload_holds() {
    let queue = mailing().await;
    let keyed = |to: &str| mail(to).order().unique(Unique::key("user-7"));
    let holder = queue.enqueue(keyed("a")).await.unwrap().id;
    let error = queue.enqueue(keyed("b")).await.unwrap_err();
    let details = ErrorDetails::KeyHeld { key: Some("user-7".to_owned()), by: holder };
    assert_eq!(error.details(), Some(&details));
    insta::assert_snapshot!(error.to_string().replace(&holder.to_string(), "<holder>"), @"unique key `user-7` of kind `mail` is held by job <holder> with a different payload; wait for that job, cancel it, or use another key");
}

#[tokio::test]
async fn a_job_in_another_state() {
    let queue = mailing().await;
    let job = queue.enqueue(&mail("a")).await.unwrap().id;
    let admin = queue.admin();
    let error = admin.retry(job).await.unwrap_err();
    let details = ErrorDetails::JobState { job, state: JobState::Ready };
    assert_eq!((error.kind(), error.details()), (ErrorKind::Conflict, Some(&details)));
    assert!(admin.cancel(job).await.unwrap());
    let error = admin.move_to(job, &Placement::default()).await.unwrap_err();
    let details = ErrorDetails::JobState { job, state: JobState::Cancelled };
    assert_eq!((error.kind(), error.details()), (ErrorKind::Conflict, Some(&details)));
}

#[tokio::test]
async fn errors_name_the_schedule_and_the_field() {
    let wrong = Punctual::memory().handle(deliver);
    let wrong = wrong.schedule("nightly", cron("0 8 * * *").tz("Europe/Pariss"), &mail("a"));
    let error = wrong.start_frozen().await.map(drop).unwrap_err();
    let Some(ErrorDetails::Schedule { name, error }) = error.details() else { panic!("{error:?}") };
    assert_eq!(name, "nightly");
    assert_eq!(error.details(), Some(&ErrorDetails::Field("tz".to_owned())));

    let queue = mailing().await;
    let error = queue.enqueue(mail("a").order().priority(300)).await.unwrap_err();
    assert_eq!(error.details(), Some(&ErrorDetails::Field("priority".to_owned())));
}

#[tokio::test]
async fn bad_cron_in_code() {
    let scheduled = |when| Punctual::memory().handle(deliver).schedule("nightly", when, &mail("a"));
    insta::assert_snapshot!(told(scheduled(cron("61 * * * *"))).await, @"schedule `nightly`: `when[0]`: `61 * * * *`: minute: must be between 0 and 59, got 61 (hint: the highest value is 59)");
    insta::assert_snapshot!(told(scheduled(cron("0 8 * * *").tz("Europe/Pariss"))).await, @"schedule `nightly`: `tz`: unknown time zone `Europe/Pariss`; did you mean `Europe/Paris`?");
    insta::assert_snapshot!(told(scheduled(cron("*/5 * * * * *"))).await, @"schedule `nightly`: `when[0]`: the expression has 6 fields, the first is for seconds; set `seconds = true` to allow this");
    insta::assert_snapshot!(told(scheduled(cron("0 0 30 2 *"))).await, @"schedule `nightly`: `when`: the schedule never fires: day 30 does not exist in February");
    let twice = scheduled(cron("0 8 * * *")).schedule("nightly", cron("0 9 * * *"), &mail("b"));
    insta::assert_snapshot!(told(twice).await, @"schedule `nightly` is registered twice; rename one of them");
    let keyed = mail("a").order().unique(Unique::payload());
    let keyed = Punctual::memory().handle(deliver).schedule("keyed", cron("0 8 * * *"), keyed);
    insta::assert_snapshot!(told(keyed).await, @"schedule `keyed`: jobs of a schedule cannot have a unique key; use `.not_unique()`, and `overlap` to control what happens while an earlier job is unfinished");
}

#[tokio::test]
async fn enqueueing_after_the_end() {
    let punctual = Punctual::memory().handle(deliver).start().await.unwrap();
    punctual.stop().await;
    insta::assert_snapshot!(punctual.enqueue(&mail("a")).await.unwrap_err(), @"punctual was stopped in this program; enqueue jobs before stopping it");
}

#[tokio::test]
async fn two_handlers_of_one_kind() {
    let twice = Punctual::memory().handle(deliver).handle(deliver);
    insta::assert_snapshot!(told(twice).await, @r#"kind `mail` has two handlers; remove one, or rename the kind of one job with `#[job(kind = "…")]`"#);
}

#[tokio::test]
async fn settings_that_cannot_be() {
    let none = Punctual::memory().handle(deliver).max_running(0);
    insta::assert_snapshot!(told(none).await, @"max_running must be at least 1 for a node that serves queues, got 0; raise it, or serve no queues");
    let queue = mailing().await;
    insta::assert_snapshot!(queue.enqueue(mail("a").order().priority(200)).await.unwrap_err(), @"job of kind `mail`: priority must be between -100 and 100, got 200");
    insta::assert_snapshot!(queue.enqueue(mail("a").order().max_attempts(0)).await.unwrap_err(), @"job of kind `mail`: max_attempts must be between 1 and 1000, got 0");
    let missing = queue.admin().pause_schedule("nightly", None).await.unwrap_err();
    insta::assert_snapshot!(missing, @"schedule `nightly` not found");
}

#[tokio::test]
async fn a_follow_up_with_a_unique_key() {
    async fn order(_: Forgotten, cx: punctual::Ctx) -> punctual::Result<()> {
        cx.enqueue_next(mail("a").order().unique(Unique::payload())).map(drop)
    }
    let queue = frozen(Punctual::memory().handle(order)).await;
    queue.enqueue(Forgotten.order().max_attempts(1)).await.unwrap();
    queue.drain().await;
    let failed = queue.admin().jobs(&punctual::JobFilter::default(), None, 1).await.unwrap();
    insta::assert_snapshot!(failed.items[0].error.as_ref().unwrap(), @"`enqueue_next` does not support unique keys (kind `mail`); enqueue the job directly in the handler, or use `.not_unique()`");
}
