//! `tower` layers around handlers: whatever should happen around every attempt. Run it:
//! `cargo run -p punctual --example layers`.

#![expect(clippy::panic_in_result_fn, reason = "an example that is wrong must fail")]

use std::task::{Context, Poll};
use std::time::Duration;

use punctual::{Call, Ended, Job, JobState, Punctual};
use serde::{Deserialize, Serialize};
use tower::{Layer, Service};

#[derive(Serialize, Deserialize, Job)]
struct Resize {
    image: u32,
}

async fn resize(job: Resize) {
    println!("image {} is small now", job.image);
}

/// Tells of every attempt.
#[derive(Clone)]
struct Telling;

#[derive(Clone)]
struct Told<T>(T);

impl<T> Layer<T> for Telling {
    type Service = Told<T>;

    fn layer(&self, inner: T) -> Told<T> {
        Told(inner)
    }
}

impl<T: Service<Call, Response = Ended>> Service<Call> for Told<T> {
    type Response = Ended;
    type Error = T::Error;
    type Future = T::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), T::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> T::Future {
        println!("attempt {} at {} {}", call.job().attempt, call.kind(), call.job().payload);
        self.0.call(call)
    }
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let punctual = Punctual::memory()
        .handle(resize)
        .layer(Telling)
        // Those of tower itself fit as well: no handler of this node may take longer.
        .layer(tower::timeout::TimeoutLayer::new(Duration::from_secs(5)))
        .start()
        .await?;
    let receipt = punctual.enqueue(&Resize { image: 7 }).await?;
    assert_eq!(punctual.wait(receipt.id).await?.state, JobState::Succeeded);
    punctual.stop().await;
    Ok(())
}
