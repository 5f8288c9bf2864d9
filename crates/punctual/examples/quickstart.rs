//! What most applications need: a typed job with state, a schedule, and an order in the
//! application's own transaction. Run it: `cargo run -p punctual --features sqlx --example quickstart`.

#![expect(clippy::panic_in_result_fn, reason = "an example that is wrong must fail")]

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
#[error("the mail server does not answer")]
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
    cx.state().send("everybody").await
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

    // A customer and the mail to them: both or neither.
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
