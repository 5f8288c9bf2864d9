//! The smallest program that runs a job. Run it: `cargo run -p punctual --example first_job`.

use punctual::{Job, Punctual};

#[derive(serde::Serialize, serde::Deserialize, Job)]
struct Greet {
    name: String,
}

async fn greet(job: Greet) {
    println!("hello, {}", job.name);
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let punctual = Punctual::memory().handle(greet).start().await?;
    let receipt = punctual.enqueue(&Greet { name: "Ada".into() }).await?;
    punctual.wait(receipt.id).await.map(drop)
}
