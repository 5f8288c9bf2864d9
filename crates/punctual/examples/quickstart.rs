//! The features that most applications need: a typed job with state, a schedule, and a job that is
//! enqueued in a transaction of the application. Run it:
//! `cargo run -p punctual --features sqlx --example quickstart`.

#![expect(clippy::panic_in_result_fn, reason = "an example fails by panicking")]

use punctual::sqlx::{Connection, SqliteConnection, query};
use punctual::{Ctx, Job, JobState, Punctual, cron};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "mail", max_attempts = 5)]
struct SendEmail {
    to: String,
}

#[derive(Default, Serialize, Deserialize, Job)]
struct Digest;

#[derive(Clone)]
struct Mailer;

#[derive(Debug, thiserror::Error)]
#[error("the mail server is not responding")]
struct MailError;

impl Mailer {
    async fn send(&self, to: &str) -> Result<(), MailError> {
        println!("mail to {to}");
        Ok(())
    }
}

async fn send_email(job: SendEmail, cx: Ctx<Mailer>) -> Result<(), MailError> {
    cx.state().send(&job.to).await
}

async fn digest(_: Digest, cx: Ctx<Mailer>) -> Result<(), MailError> {
    cx.state().send("all-users@example.com").await
}

#[tokio::main]
async fn main() -> Result<(), punctual::BoxError> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("app.db");

    let punctual = Punctual::sqlite(&path)
        .await?
        .state(Mailer)
        .handle(send_email)
        .handle(digest)
        .schedule("digest", cron("0 8 * * MON-FRI").tz("Europe/Paris"), &Digest)
        .start()
        .await?;

    let receipt = punctual.enqueue(&SendEmail { to: "ada@example.com".into() }).await?;
    assert_eq!(punctual.wait(receipt.id).await?.state, JobState::Succeeded);

    // Insert a customer and enqueue the mail in one transaction: both are committed, or neither.
    let mut db = SqliteConnection::connect(&format!("sqlite://{}", path.display())).await?;
    query("CREATE TABLE customer (email TEXT)").execute(&mut db).await?;
    let mut tx = db.begin_with("BEGIN IMMEDIATE").await?;
    query("INSERT INTO customer VALUES ('bob@example.com')").execute(&mut *tx).await?;
    let receipt = punctual.enqueue_in(&mut tx, &SendEmail { to: "bob@example.com".into() }).await?;
    tx.commit().await?;
    assert_eq!(punctual.wait(receipt.id).await?.state, JobState::Succeeded);

    punctual.stop().await;
    Ok(())
}
