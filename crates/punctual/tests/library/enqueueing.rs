//! Orders, and what becomes of them.

use std::time::Duration;

use punctual::{ErrorKind, Job, JobState, Order, Punctual, Unique};
use serde::{Deserialize, Serialize};

use crate::{Mail, frozen, mail, mailing};

#[tokio::test]
async fn a_job_has_the_settings_of_its_type_and_those_of_its_order() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(
        kind = "resize-v2",
        queue = "images",
        priority = -5,
        max_attempts = 3,
        timeout = "30s",
        budget = "5m",
        start_within = "1h"
    )]
    struct Resize {
        image: u32,
    }
    async fn resize(_: Resize) {}
    let queue = frozen(Punctual::memory().handle(resize)).await;
    let plain = queue.enqueue(&Resize { image: 1 }).await.unwrap();
    let order = Resize { image: 2 }.order().priority(7).queue("urgent").tag("vip").max_attempts(1);
    let ordered = queue.enqueue(order).await.unwrap();
    let plain = queue.admin().job(plain.id).await.unwrap();
    let ordered = queue.admin().job(ordered.id).await.unwrap();
    let shown = |job: &punctual::JobDetail| {
        let view = &job.view;
        (view.kind.clone(), view.queue.clone(), view.priority, view.max_attempts)
    };
    assert_eq!(shown(&plain), ("resize-v2".into(), "images".into(), -5, 3));
    assert_eq!(shown(&ordered), ("resize-v2".into(), "urgent".into(), 7, 1));
    assert_eq!(ordered.tags, ["vip"]);
    assert_eq!(plain.payload.as_str(), r#"{"image":1}"#);
}

#[tokio::test]
async fn delayed_jobs_wait_for_their_time() {
    let queue = mailing().await;
    let hour = Duration::from_secs(3_600);
    queue.enqueue(mail("later").order().delay(hour)).await.unwrap();
    queue.enqueue(mail("then").order().at(queue.now() + hour + hour)).await.unwrap();
    assert_eq!(queue.drain().await.succeeded, 0);
    assert_eq!(queue.advance("90m").await.succeeded, 1);
    assert_eq!(queue.enqueued::<Mail>().await, [mail("then")]);
    assert_eq!(queue.advance("30m").await.succeeded, 1);
}

#[tokio::test]
async fn one_unfinished_job_has_a_unique_key() {
    #[derive(Serialize, Deserialize, Job)]
    #[job(unique = "user")]
    struct Sync {
        user: u32,
        full: bool,
    }
    async fn sync(_: Sync) {}
    let queue = frozen(Punctual::memory().handle(sync)).await;
    let first = queue.enqueue(&Sync { user: 7, full: true }).await.unwrap();
    let again = queue.enqueue(&Sync { user: 7, full: true }).await.unwrap();
    assert_eq!((first.is_new, again.is_new, again.id), (true, false, first.id));
    let other = queue.enqueue(&Sync { user: 7, full: false }).await.unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Conflict);
    assert!(queue.enqueue(&Sync { user: 8, full: false }).await.unwrap().is_new);
    queue.drain().await;
    assert!(queue.enqueue(&Sync { user: 7, full: false }).await.unwrap().is_new);
}

#[tokio::test]
async fn a_key_by_payload_and_for_a_time_outlives_the_job() {
    let queue = mailing().await;
    let once = || mail("a").order().unique(Unique::payload().during(Duration::from_secs(3_600)));
    assert!(queue.enqueue(once()).await.unwrap().is_new);
    queue.drain().await;
    assert!(!queue.enqueue(once()).await.unwrap().is_new);
    queue.advance("61m").await;
    assert!(queue.enqueue(once()).await.unwrap().is_new);
    // A payload that is too long for a key.
    let long = "x".repeat(10_000);
    let long = || mail(&long).order().unique(Unique::payload());
    assert!(queue.enqueue(long()).await.unwrap().is_new);
    assert!(!queue.enqueue(long()).await.unwrap().is_new);
}

#[tokio::test]
async fn each_of_many_orders_has_an_answer_of_its_own() {
    let queue = mailing().await;
    let orders: Vec<Order> = vec![
        mail("a").order(),
        mail("b").order().priority(1_000),
        mail("c").order().unique(Unique::key("k")),
        mail("d").order().unique(Unique::key("k")),
        mail("e").order(),
    ];
    let answers = queue.enqueue_many(orders).await.unwrap();
    let told: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(told, [true, false, true, false, true]);
    assert_eq!(queue.drain().await.succeeded, 3);
    // More than go at once.
    let many = queue.enqueue_many((0..2_500).map(|number| mail(&number.to_string()).order()));
    assert!(many.await.unwrap().iter().all(Result::is_ok));
    assert_eq!(queue.enqueued::<Mail>().await.len(), 2_500);
}

#[tokio::test]
async fn waiting_brings_the_result() {
    #[derive(Serialize, Deserialize, Job)]
    struct Add {
        numbers: Vec<i64>,
    }
    async fn add(job: Add) -> punctual::Done<i64> {
        punctual::Done(job.numbers.iter().sum())
    }
    // By the real clock, as an application waits.
    let punctual = Punctual::memory().handle(add).start().await.unwrap();
    let receipt = punctual.enqueue(&Add { numbers: vec![1, 2, 3] }).await.unwrap();
    let finished = punctual.wait(receipt.id).await.unwrap();
    assert_eq!((finished.state, finished.result::<i64>().unwrap()), (JobState::Succeeded, 6));
    assert!(finished.result::<String>().is_err());
    punctual.stop().await;
}

#[tokio::test]
async fn a_trace_goes_from_the_order_to_the_attempt() {
    use std::sync::{Arc, Mutex};
    type Seen = Arc<Mutex<Vec<Option<String>>>>;
    async fn look(_: Mail, cx: punctual::Ctx<Seen>) {
        cx.state().lock().unwrap().push(cx.trace().map(str::to_owned));
    }
    let seen = Seen::default();
    let builder = Punctual::memory().state(seen.clone()).handle(look);
    let queue = frozen(builder.trace_from(|| Some("from the caller".to_owned()))).await;
    queue.enqueue(&mail("a")).await.unwrap();
    queue.enqueue(mail("b").order().trace("its own")).await.unwrap();
    queue.drain().await;
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, [Some("from the caller".to_owned()), Some("its own".to_owned())]);
}

#[tokio::test]
async fn a_producer_orders_for_others() {
    let queue = frozen(Punctual::memory()).await;
    queue.enqueue(&mail("a")).await.unwrap();
    assert_eq!(queue.drain().await.succeeded, 0);
    queue.assert_enqueued(|mail: &Mail| mail.to == "a").await;
}
