//! The worker: a program as users of the library write them, whose handler has its effect and settles
//! its job in one transaction.

use std::time::Duration;

use punctual::{BoxError, Builder, Ctx, ErrorKind, Job, Punctual, ServedQueue};
use punctual_engine::{Env, System};
use serde::{Deserialize, Serialize};

use super::effects::Effects;
use crate::Failure;
use crate::database::{Database, LOOK_EVERY};
use crate::raw::QUEUE;
use crate::worker::{drained, hurried, say};

/// What it says of each job: the effect is in a transaction, the settlement too, both are committed.
pub(super) const HAD_EFFECT: &str = "had effect";
pub(super) const SETTLED: &str = "settled";
pub(super) const COMMITTED: &str = "committed";

/// Handlers at work: few, since each kill costs those at work an attempt, and three end a job.
const RUNNING_MAX: usize = 8;
/// How often it says that it is there: whoever waits for so many lines shall not wait for ever.
const ALIVE_EVERY: Duration = Duration::from_millis(100);

/// A job whose effect is a row in the application's own table.
#[derive(Serialize, Deserialize, Job)]
pub(super) struct Effect;

/// What is not committed has not happened: then the attempt has failed, whatever else is the case.
async fn have_effect(_: Effect, cx: Ctx<Effects>) -> Result<(), BoxError> {
    cx.state().clone().have(cx).await
}

/// Works until it is killed, or has drained.
pub(crate) fn work(database: &Database, drains: bool) -> Result<(), Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let usual = hurried();
        let punctual = node(database)
            .await?
            .name(&usual.name)
            .state(Effects::new(database))
            .handle(have_effect)
            .queues([ServedQueue::new(QUEUE)])
            .max_running(RUNNING_MAX)
            .backoff(usual.policy.backoff)
            .shutdown_grace(usual.shutdown_grace)
            .timing(usual.timing)
            .start()
            .await?;
        let beside = database.open_beside().await?;
        tokio::select! {
            drained = drained(&*beside), if drains => drained?,
            () = say_alive() => {}
        }
        match punctual.stop().await.unsettled {
            0 => Ok(()),
            unsettled => Err(format!("{unsettled} attempts were not settled").into()),
        }
    })
}

/// A node on the database, as soon as the process before has let go of it.
async fn node(database: &Database) -> punctual::Result<Builder> {
    loop {
        let opened = match database {
            Database::Sqlite(file) => Punctual::sqlite(file).await,
            Database::Postgres { url, .. } => Punctual::postgres(url).await,
        };
        match opened {
            Err(error) if error.kind() == ErrorKind::Conflict => System.sleep(LOOK_EVERY).await,
            opened => return opened,
        }
    }
}

async fn say_alive() {
    loop {
        say(format_args!("alive"));
        System.sleep(ALIVE_EVERY).await;
    }
}
