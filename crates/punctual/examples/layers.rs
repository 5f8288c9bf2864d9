//! `tower` layers around handlers, which run for every attempt. Run it:
//! `cargo run -p punctual --example layers`.

#![expect(clippy::panic_in_result_fn, reason = "an example fails by panicking")]

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
    println!("resized image {}", job.image);
}

/// Prints a line for every attempt.
#[derive(Clone)]
struct LogLayer;

#[derive(Clone)]
struct LogService<T>(T);

impl<T> Layer<T> for LogLayer {
    type Service = LogService<T>;

    fn layer(&self, inner: T) -> LogService<T> {
        LogService(inner)
    }
}

impl<T: Service<Call, Response = Ended>> Service<Call> for LogService<T> {
    type Response = Ended;
    type Error = T::Error;
    type Future = T::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), T::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> T::Future {
        println!("attempt {}: {} {}", call.job().attempt, call.kind(), call.job().payload);
        self.0.call(call)
    }
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let punctual = Punctual::memory()
        .handle(resize)
        .layer(LogLayer)
        // Layers of tower work as well. This one limits the run time of all handlers of this node.
        .layer(tower::timeout::TimeoutLayer::new(Duration::from_secs(5)))
        .start()
        .await?;
    let receipt = punctual.enqueue(&Resize { image: 7 }).await?;
    assert_eq!(punctual.wait(receipt.id).await?.state, JobState::Succeeded);
    punctual.stop().await;
    Ok(())
}
