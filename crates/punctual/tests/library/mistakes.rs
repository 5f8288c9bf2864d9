//! Mistakes that people make, and what they are told.

use punctual::{Job, Punctual, Unique, cron};
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
    insta::assert_snapshot!(queue.enqueue(&Forgotten).await.unwrap_err(), @"kind `forgotten` has no handler here; add `.handle(…)` for it, or say `.handled_elsewhere::<…>()` if another program has one");
    let scheduled = Punctual::memory().handle(deliver);
    let scheduled = scheduled.schedule("nightly", cron("0 3 * * *"), &Forgotten);
    insta::assert_snapshot!(told(scheduled).await, @"schedule `nightly`: kind `forgotten` has no handler here; add `.handle(…)` for it, or say `.handled_elsewhere::<…>()` if another program has one");
    let elsewhere = Punctual::memory().handle(deliver).handled_elsewhere::<Forgotten>();
    assert!(frozen(elsewhere).await.enqueue(&Forgotten).await.is_ok());
}

#[tokio::test]
async fn a_payload_that_is_too_large() {
    let queue = mailing().await;
    let large = mail(&"x".repeat(300_000));
    insta::assert_snapshot!(queue.enqueue(&large).await.unwrap_err(), @"a job of kind `mail`: the payload has 300009 bytes; the most is 262144; store it elsewhere and pass a reference");
}

#[tokio::test]
async fn a_payload_that_is_no_json() {
    #[derive(Serialize, Deserialize, Job)]
    struct Odd {
        by_pair: std::collections::BTreeMap<(u8, u8), u8>,
    }
    let odd = Odd { by_pair: [((1, 2), 3)].into() };
    let queue = frozen(Punctual::memory()).await;
    insta::assert_snapshot!(queue.enqueue(&odd).await.unwrap_err(), @"a job of kind `odd` cannot be written as JSON: key must be a string; maps need text as keys");
}

#[tokio::test]
async fn a_unique_key_that_another_payload_holds() {
    let queue = mailing().await;
    let keyed = |to: &str| mail(to).order().unique(Unique::key("user-7"));
    let holder = queue.enqueue(keyed("a")).await.unwrap().id.to_string();
    let error = queue.enqueue(keyed("b")).await.unwrap_err().to_string();
    insta::assert_snapshot!(error.replace(&holder, "<holder>"), @"the unique key `user-7` of kind `mail` is held by job <holder> with another payload; wait for it, cancel it, or take another key");
}

#[tokio::test]
async fn bad_cron_in_code() {
    let scheduled = |when| Punctual::memory().handle(deliver).schedule("nightly", when, &mail("a"));
    insta::assert_snapshot!(told(scheduled(cron("61 * * * *"))).await, @"schedule `nightly`: `when[0]`: `61 * * * *`: minute: 61 is outside 0-59 (hint: the last minute is 59)");
    insta::assert_snapshot!(told(scheduled(cron("0 8 * * *").tz("Europe/Pariss"))).await, @"schedule `nightly`: `tz`: unknown time zone `Europe/Pariss`, did you mean `Europe/Paris`?");
    insta::assert_snapshot!(told(scheduled(cron("*/5 * * * * *"))).await, @"schedule `nightly`: `when[0]`: 6 fields: the first one is seconds; if that is meant, set `seconds = true`");
    insta::assert_snapshot!(told(scheduled(cron("0 0 30 2 *"))).await, @"schedule `nightly`: `when`: never fires: there is no day 30 in February");
    let twice = scheduled(cron("0 8 * * *")).schedule("nightly", cron("0 9 * * *"), &mail("b"));
    insta::assert_snapshot!(told(twice).await, @"the schedule `nightly` is registered twice; give one of them another name");
    let keyed = mail("a").order().unique(Unique::payload());
    let keyed = Punctual::memory().handle(deliver).schedule("keyed", cron("0 8 * * *"), keyed);
    insta::assert_snapshot!(told(keyed).await, @"schedule `keyed`: its job has a unique key; the schedule's `overlap` says what happens while an earlier one is unfinished, so order it with `.not_unique()`");
}

#[tokio::test]
async fn enqueueing_after_the_end() {
    let punctual = Punctual::memory().handle(deliver).start().await.unwrap();
    punctual.stop().await;
    insta::assert_snapshot!(punctual.enqueue(&mail("a")).await.unwrap_err(), @"punctual has been stopped here; order jobs before that, or through another handle that still runs");
}

#[tokio::test]
async fn two_handlers_of_one_kind() {
    let twice = Punctual::memory().handle(deliver).handle(deliver);
    insta::assert_snapshot!(told(twice).await, @r#"kind `mail` has two handlers; leave one out, or give one job another kind with `#[job(kind = "…")]`"#);
}

#[tokio::test]
async fn settings_that_cannot_be() {
    let none = Punctual::memory().handle(deliver).max_running(0);
    insta::assert_snapshot!(told(none).await, @"max_running is 0, so that no job of the queues can run; set it to 1 or more, or serve no queue");
    let queue = mailing().await;
    insta::assert_snapshot!(queue.enqueue(mail("a").order().priority(200)).await.unwrap_err(), @"a job of kind `mail`: priority 200 is outside -100 to 100");
    insta::assert_snapshot!(queue.enqueue(mail("a").order().max_attempts(0)).await.unwrap_err(), @"a job of kind `mail`: 0 attempts; a job has 1 to 1000");
    let missing = queue.admin().pause_schedule("nightly", None).await.unwrap_err();
    insta::assert_snapshot!(missing, @"there is no schedule named `nightly`");
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
    insta::assert_snapshot!(failed.items[0].error.as_ref().unwrap(), @"a job of kind `mail` with a unique key cannot be enqueued together with the end of another; enqueue it in the handler, or order it with `.not_unique()`");
}
