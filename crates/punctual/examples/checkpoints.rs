//! Work in steps: each is done once, however often the job is tried. Run it:
//! `cargo run -p punctual --example checkpoints`.

#![expect(clippy::panic_in_result_fn, reason = "an example that is wrong must fail")]

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
            println!("the card is charged for order {}", job.order);
            Ok::<_, BoxError>("receipt 4711".to_owned())
        })
        .await?;
    cx.progress(50, "charged");
    cx.log(&format!("attempt {} has {receipt}", cx.attempt()));
    if cx.attempt() == 1 {
        return Err("the van has broken down".into());
    }
    println!("order {} is on its way with {receipt}", job.order);
    // Written together with the success of this job, or not at all.
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
        println!("kept: {} = {}", step.name, step.result);
    }
    punctual.stop().await;
    Ok(())
}
