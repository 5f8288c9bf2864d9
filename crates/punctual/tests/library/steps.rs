//! Steps are done once, however often their job is tried.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual::{BoxError, Ctx, Job as _, JobState, Punctual};

use crate::{Mail, frozen, mail};

#[derive(Clone, Default)]
struct Shop {
    charged: Arc<AtomicUsize>,
    shipped: Arc<AtomicUsize>,
}

async fn sell(_: Mail, cx: Ctx<Shop>) -> Result<(), BoxError> {
    let shop = cx.state().clone();
    let charge =
        async { Ok::<usize, BoxError>(shop.charged.fetch_add(1, Ordering::Relaxed) + 100) };
    let receipt = cx.step("charge", charge).await?;
    assert_eq!(receipt, 100, "the first result stands");
    let shipped = cx.step("ship", async {
        match shop.shipped.fetch_add(1, Ordering::Relaxed) {
            0 => Err(BoxError::from("no van")),
            _ => Ok(()),
        }
    });
    shipped.await
}

#[tokio::test]
async fn a_step_that_succeeded_is_not_done_again() {
    let shop = Shop::default();
    let queue = frozen(Punctual::memory().state(shop.clone()).handle(sell)).await;
    let id = queue.enqueue(&mail("a")).await.unwrap().id;
    let report = queue.advance("1h").await;
    assert_eq!((report.failed, report.succeeded), (1, 1));
    let done = (shop.charged.load(Ordering::Relaxed), shop.shipped.load(Ordering::Relaxed));
    assert_eq!(done, (1, 2));
    let steps = queue.admin().steps(id).await.unwrap();
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["charge", "ship"]);
}

#[tokio::test]
async fn a_crash_after_a_step_does_not_repeat_it() {
    let shop = Shop::default();
    shop.shipped.store(1, Ordering::Relaxed);
    let queue = frozen(Punctual::memory().state(shop.clone()).handle(sell)).await;
    queue.crash_next(1);
    let id = queue.enqueue(&mail("a")).await.unwrap().id;
    let report = queue.advance("1h").await;
    assert_eq!((report.abandoned, report.succeeded), (1, 1));
    assert_eq!(shop.charged.load(Ordering::Relaxed), 1);
    assert_eq!(queue.wait(id).await.unwrap().state, JobState::Succeeded);
}

#[tokio::test]
async fn a_name_stands_for_one_step() {
    async fn twice(_: Mail, cx: Ctx) -> Result<(), BoxError> {
        cx.step("send", async { Ok::<_, BoxError>(1) }).await?;
        cx.step("send", async { Ok::<_, BoxError>(2) }).await.map(drop)
    }
    let queue = frozen(Punctual::memory().handle(twice)).await;
    let finished = queue.perform(mail("a").order().max_attempts(1)).await.unwrap();
    insta::assert_snapshot!(finished.error.unwrap(), @"step `send` is used twice in one attempt; use a unique name for each step, such as `send 2`");
}
