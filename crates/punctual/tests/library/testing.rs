//! The test kit itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual::{Ctx, Punctual, cron, every};

use crate::{Mail, deliver, frozen, mail, mailing};

#[tokio::test]
#[should_panic(expected = "enqueued jobs:\n  mail in `mail`, ready: {\"to\":\"b\"}")]
async fn a_failed_assertion_says_what_is_enqueued() {
    let queue = mailing().await;
    queue.enqueue(&mail("b")).await.unwrap();
    queue.assert_enqueued(|mail: &Mail| mail.to == "a").await;
}

#[tokio::test]
#[should_panic(expected = "unexpected enqueued job of kind `mail`")]
async fn refuting_what_is_enqueued_fails() {
    let queue = mailing().await;
    queue.enqueue(&mail("b")).await.unwrap();
    queue.refute_enqueued::<Mail>().await;
}

#[tokio::test]
async fn a_year_of_days_fires_every_day() {
    let builder = Punctual::memory().handle(deliver);
    let queue = frozen(builder.schedule("daily", cron("0 8 * * *"), &mail("all"))).await;
    assert_eq!(queue.advance("365d").await.succeeded, 365);
    let newest = queue.admin().slots("daily", None, 1).await.unwrap().items;
    assert_eq!(newest[0].outcome, punctual::SlotOutcome::Fired);
}

#[tokio::test]
async fn an_outage_is_caught_up_as_the_policy_says() {
    let builder = Punctual::memory().handle(deliver);
    let when = every(std::time::Duration::from_secs(60))
        .missed(punctual::Missed::All)
        .overlap(punctual::Overlap::QueueAll);
    let queue = frozen(builder.schedule("often", when, &mail("all"))).await;
    queue.advance("10m").await;
    queue.outage("5m");
    assert_eq!(queue.advance("1m").await.succeeded, 6);
}

#[tokio::test]
async fn a_crash_runs_the_handler_again() {
    async fn count(_: Mail, cx: Ctx<Arc<AtomicUsize>>) {
        cx.state().fetch_add(1, Ordering::Relaxed);
    }
    let ran = Arc::new(AtomicUsize::new(0));
    let queue = frozen(Punctual::memory().state(ran.clone()).handle(count)).await;
    queue.crash_next(2);
    queue.enqueue(&mail("a")).await.unwrap();
    let report = queue.advance("1h").await;
    assert_eq!((report.abandoned, report.succeeded, ran.load(Ordering::Relaxed)), (2, 1, 3));
}

#[tokio::test]
async fn the_clock_stands_still_until_it_is_told_to_go_on() {
    let queue = mailing().await;
    let start = queue.now();
    queue.enqueue(&mail("a")).await.unwrap();
    queue.drain().await;
    assert_eq!(queue.now(), start);
    queue.advance(std::time::Duration::from_secs(1)).await;
    assert_eq!(queue.now(), start + std::time::Duration::from_secs(1));
}

#[tokio::test]
async fn inline_jobs_are_done_when_they_are_ordered() {
    #[derive(serde::Serialize, serde::Deserialize, punctual::Job)]
    struct Order;
    /// The handle comes to be after the handlers.
    type Late = Arc<std::sync::OnceLock<Punctual>>;
    async fn order(_: Order, cx: Ctx<Late>) -> punctual::Result<()> {
        // Ordered while another runs; done before the first order returns.
        cx.state().get().unwrap().enqueue(&mail("b")).await.map(drop)
    }
    let late = Late::default();
    let builder = Punctual::memory().state(late.clone()).handle(order).handle(deliver);
    let queue = builder.start_inline().await.unwrap();
    late.set(Punctual::clone(&queue)).ok().unwrap();
    let receipt = queue.enqueue(&Order).await.unwrap();
    let job = queue.admin().job(receipt.id).await.unwrap();
    assert_eq!(job.view.state, punctual::JobState::Succeeded);
    queue.refute_enqueued::<Mail>().await;
}
