//! A job with steps: a completed step is not repeated when the job is retried. Run it:
//! `cargo run -p punctual --example checkpoints`.

#![expect(clippy::panic_in_result_fn, reason = "an example fails by panicking")]

use std::time::Duration;

use punctual::{Backoff, BoxError, Ctx, Growth, Job, JobState, Punctual, Spread};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct Ship {
    order: u64,
}

#[derive(Serialize, Deserialize, Job)]
struct Thank {
    order: u64,
}

async fn ship(job: Ship, cx: Ctx) -> Result<(), BoxError> {
    let receipt: String = cx
        .step("charge", async {
            println!("charging the card for order {}", job.order);
            Ok::<_, BoxError>("receipt 4711".to_owned())
        })
        .await?;
    cx.progress(50, "charged");
    cx.log(&format!("attempt {}: {receipt}", cx.attempt()));
    if cx.attempt() == 1 {
        return Err("the delivery service is unavailable".into());
    }
    println!("shipped order {} ({receipt})", job.order);
    // Enqueued in the same transaction that marks this job as succeeded.
    cx.enqueue_next(&Thank { order: job.order })?;
    Ok(())
}

async fn thank(job: Thank) {
    println!("thank you for order {}", job.order);
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let soon = Duration::from_millis(100);
    let backoff = Backoff { base: soon, growth: Growth::Fixed, cap: soon, spread: Spread::None };
    let punctual = Punctual::memory().backoff(backoff).handle(ship).handle(thank).start().await?;
    let receipt = punctual.enqueue(&Ship { order: 7 }).await?;
    let finished = punctual.wait(receipt.id).await?;
    assert_eq!(finished.state, JobState::Succeeded);
    for step in punctual.admin().steps(receipt.id).await? {
        println!("saved step: {} = {}", step.name, step.result);
    }
    punctual.stop().await;
    Ok(())
}
