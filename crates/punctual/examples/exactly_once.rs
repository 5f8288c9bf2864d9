//! An effect that happens exactly once: one transaction contains the handler's write and the
//! completion of the job. Run it: `cargo run -p punctual --features sqlx --example exactly_once`.

#![expect(clippy::panic_in_result_fn, reason = "an example fails by panicking")]

use std::path::{Path, PathBuf};

use punctual::sqlx::{Connection, SqliteConnection, query, query_scalar};
use punctual::{BoxError, Ctx, Job, Punctual};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct Deposit {
    cents: i64,
}

async fn connect(path: &Path) -> Result<SqliteConnection, BoxError> {
    Ok(SqliteConnection::connect(&format!("sqlite://{}", path.display())).await?)
}

async fn deposit(job: Deposit, cx: Ctx<PathBuf>) -> Result<(), BoxError> {
    let mut db = connect(cx.state()).await?;
    let mut tx = db.begin_with("BEGIN IMMEDIATE").await?;
    query("UPDATE account SET cents = cents + ?1").bind(job.cents).execute(&mut *tx).await?;
    // Completes the job in the same transaction as the deposit. If this attempt has lost its lease,
    // this returns an error, and the transaction is rolled back.
    cx.settle_in(&mut tx).await?;
    tx.commit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("bank.db");
    let mut db =
        SqliteConnection::connect(&format!("sqlite://{}?mode=rwc", path.display())).await?;
    query("CREATE TABLE account (cents INTEGER)").execute(&mut db).await?;
    query("INSERT INTO account VALUES (0)").execute(&mut db).await?;

    let punctual =
        Punctual::sqlite(&path).await?.state(path.clone()).handle(deposit).start().await?;
    let orders = (0..20).map(|_| Deposit { cents: 5 }.order());
    for receipt in punctual.enqueue_many(orders).await? {
        punctual.wait(receipt?.id).await?;
    }
    punctual.stop().await;

    let cents: i64 = query_scalar("SELECT cents FROM account").fetch_one(&mut db).await?;
    assert_eq!(cents, 100, "twenty deposits of five");
    println!("{cents} cents; `cargo xtask prove exactly-once` repeats this with crashes");
    Ok(())
}
