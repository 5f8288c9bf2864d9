//! Testing the jobs of an application with a frozen clock and assertions about enqueued jobs. In an
//! application, this code belongs in a `#[tokio::test]`; here it is a program:
//! `cargo run -p punctual --features testing --example testing`.

#![expect(clippy::panic_in_result_fn, reason = "an example fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual::{BoxError, Builder, Ctx, Job, Punctual, cron};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct Welcome {
    user: u64,
}

#[derive(Serialize, Deserialize, Job)]
struct Invoice;

#[derive(Clone, Default)]
struct Mailer {
    sent: Arc<AtomicUsize>,
}

async fn welcome(_: Welcome, cx: Ctx<Mailer>) -> Result<(), BoxError> {
    // Simulate a mail server that does not respond to the first attempt.
    if cx.attempt() == 1 {
        return Err("no response".into());
    }
    cx.state().sent.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

async fn invoice(_: Invoice, cx: Ctx<Mailer>) {
    cx.state().sent.fetch_add(1, Ordering::Relaxed);
}

/// Builds the application as in production, on any store.
fn app(on: Builder, mailer: Mailer) -> Builder<Mailer> {
    on.state(mailer).handle(welcome).handle(invoice).schedule(
        "invoices",
        cron("0 6 1 * *"),
        &Invoice,
    )
}

/// The code under test.
async fn sign_up(punctual: &Punctual, user: u64) -> punctual::Result<()> {
    punctual.enqueue(&Welcome { user }).await.map(drop)
}

#[tokio::main]
async fn main() -> punctual::Result<()> {
    let mailer = Mailer::default();
    let queue = app(Punctual::memory(), mailer.clone()).start_frozen().await?;

    sign_up(&queue, 7).await?;
    queue.assert_enqueued(|job: &Welcome| job.user == 7).await;
    queue.refute_enqueued::<Invoice>().await;

    let report = queue.drain().await;
    assert_eq!((report.succeeded, report.failed), (0, 1), "the first attempt fails");
    let report = queue.advance("1h").await;
    assert_eq!((report.succeeded, report.failed), (1, 0), "the second attempt succeeds");

    let report = queue.advance("365d").await;
    assert_eq!(report.succeeded, 12, "one invoice per month");

    // Simulate a node that crashes after the handler has run and before the result is saved.
    queue.crash_next(1);
    let before = mailer.sent.load(Ordering::Relaxed);
    queue.enqueue(&Invoice).await?;
    queue.advance("1h").await;
    let sent = mailer.sent.load(Ordering::Relaxed) - before;
    assert_eq!(sent, 2, "jobs run at least once; for exactly once, see the example exactly_once");
    println!("simulated one year; all assertions passed");
    Ok(())
}
